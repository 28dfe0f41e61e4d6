//! Enforcement in the words of the interface.

use super::Enforcement;
use crate::view::part;
use enforcer::{ClientState, CpuSample, CpuStatus, ResourceSample, clock};
use wire::{ClientSample, DoctorResource, EnforcerView, ResourceUse, Sample};

impl Enforcement {
    /// The CPU's enforcer: its settings, and what is not as it should be.
    pub fn view(&self) -> EnforcerView {
        let status = self.cpu_status();
        let notes = status.iter().flat_map(|status| &status.clients).filter_map(|client| {
            let note = client.note.as_ref()?;
            // Only the kernel's scheduler has those; elsewhere nobody expects it.
            (!client.founder.outlives_boot()).then(|| format!("{}: {note}", client.founder))
        });
        let drift = notes.chain(self.drift.shown()).collect();
        let set = status.and_then(|status| status.cpu.as_ref());
        let hold = set.and_then(|cpu: &CpuStatus| cpu.hold).map(|hold| hold.to_string());
        EnforcerView {
            name: self.name().to_owned(),
            why: self.why_cpu(),
            policy: self.settings.cpu.algorithm.to_string(),
            seed: self.settings.seed,
            quantum_ns: set.map_or(0, |cpu| cpu.quantum_ns),
            cpus: set.map_or_else(Vec::new, |cpu| cpu.cpus.clone()),
            hold: hold.unwrap_or_else(|| "none".to_owned()),
            generation: self.generation,
            drift,
        }
    }

    fn why_cpu(&self) -> String {
        if !self.is_on {
            return "started with --enforcer none".to_owned();
        }
        if let Some(why) = &self.deferred {
            return why.clone();
        }
        let why = || self.standing(ledger::KindName::CPU).why(&self.settings);
        self.asked_for.map_or_else(why, str::to_owned)
    }

    /// The algorithm that chooses who is next, and by whose hand.
    pub fn policy(&self) -> wire::PolicyView {
        let policy = self.settings.cpu.algorithm.to_string();
        wire::PolicyView { policy, enforcer: self.name().to_owned() }
    }

    /// The enforcers of resources besides the CPU.
    pub fn others_view(&self) -> Vec<DoctorResource> {
        let view = |it: enforcer::ResourceStatus| DoctorResource {
            resource: it.resource.to_string(),
            enforcer: it.by.unwrap_or_else(|| "none".to_owned()),
            why: it.why,
        };
        self.others().into_iter().map(view).collect()
    }

    /// Measures, in the words of the interface. Commands are left empty.
    pub fn sample_view(&mut self) -> Sample {
        let (cpu, resources) = self.sample();
        let cpu_status = self.cpu_status().and_then(|status| status.cpu.as_ref());
        let quantum_ns = cpu_status.map_or(0, |cpu| cpu.quantum_ns);
        sample_view(cpu.as_ref(), &resources, quantum_ns)
    }
}

/// A sample as the interface has it.
fn sample_view(cpu: Option<&CpuSample>, resources: &[ResourceSample], quantum_ns: u64) -> Sample {
    let resources = resources.iter().map(|of| wire::ResourceSample {
        resource: of.resource.to_string(),
        clients: of.clients.iter().map(resource_use).collect(),
    });
    let mut sample = Sample {
        at_ns: 0,
        seats: 0,
        generation: 0,
        draws: 0,
        late: 0,
        daemon_cpu_ns: clock::process_cpu_ns(),
        clients: Vec::new(),
        resources: resources.collect(),
    };
    let Some(cpu) = cpu else { return sample };
    let one_seat = policy::ONE_SEAT as f64;
    sample.at_ns = cpu.at_ns;
    sample.seats = u32::try_from(cpu.seats).unwrap_or(u32::MAX);
    (sample.generation, sample.draws, sample.late) = (cpu.generation, cpu.draws, cpu.late);
    let client = |client: &enforcer::CpuClientSample| ClientSample {
        id: client.id.0,
        pid: client.founder.process().map_or(0, |process| process.pid),
        command: String::new(),
        state: state(client.state),
        value: part(client.value),
        promised_share: client.promised as f64 / one_seat / cpu.seats as f64,
        promised_ns: client.promised_ns,
        used_ns: client.used_ns,
        wins: client.wins,
        draws: client.draws,
        slice_used: (client.wins > 0)
            .then(|| client.used_ns as f64 / client.wins as f64 / quantum_ns as f64),
    };
    sample.clients = cpu.clients.iter().map(client).collect();
    sample
}

fn resource_use(client: &enforcer::ResourceUse) -> ResourceUse {
    ResourceUse {
        id: client.id.0,
        value: part(client.value),
        promised: client.promised,
        used: client.used,
    }
}

/// An error with all its causes, where the innermost is what the kernel said.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn state(state: ClientState) -> wire::ClientState {
    match state {
        ClientState::Running => wire::ClientState::Running,
        ClientState::Waiting => wire::ClientState::Waiting,
        ClientState::Sleeping => wire::ClientState::Sleeping,
        ClientState::Frozen => wire::ClientState::Frozen,
        ClientState::Stopped => wire::ClientState::Stopped,
        ClientState::Unmanaged => wire::ClientState::Unmanaged,
    }
}
