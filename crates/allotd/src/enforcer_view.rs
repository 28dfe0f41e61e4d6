//! Enforcement in the words of the interface.

use crate::view::part;
use enforcement::{CpuSeen, Measured};
use enforcer::{ClientState, ResourceStatus, clock};
use wire::{ClientSample, DoctorResource, EnforcerView, ResourceUse, Sample};

/// The CPU's enforcer: its settings, and what is not as it should be.
pub fn cpu_view(seen: &CpuSeen) -> EnforcerView {
    let CpuSeen { name, why, algorithm, seed, quantum_ns, cpus, hold, generation, drift } =
        seen.clone();
    EnforcerView { name, why, policy: algorithm, seed, quantum_ns, cpus, hold, generation, drift }
}

/// The enforcers of resources besides the CPU.
pub fn others_view(seen: &[ResourceStatus]) -> Vec<DoctorResource> {
    let view = |it: &ResourceStatus| DoctorResource {
        resource: it.resource.to_string(),
        enforcer: it.by.clone().unwrap_or_else(|| "none".to_owned()),
        why: it.why.clone(),
    };
    seen.iter().map(view).collect()
}

/// A sample as the interface has it. Commands are left empty.
pub fn sample_view(measured: &Measured) -> Sample {
    let Measured { sample: enforcer::Sample { cpu, resources }, quantum_ns, own_cpu_ns } = measured;
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
        daemon_cpu_ns: clock::process_cpu_ns() + own_cpu_ns,
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
            .then(|| client.used_ns as f64 / client.wins as f64 / *quantum_ns as f64),
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
