//! Settings as they really are, and measurements, in one form for all enforcers.

use super::Table;
use crate::kinds::why_not_shared;
use crate::message::{CpuSeen, Measured, Seen};
use crate::standing::Standing;
use enforcer::{ClientState, CpuStatus, ResourceStatus, Sample, Status, clock};
use ledger::{CurrencyId, KindName};

impl Table {
    /// Asks every enforcer what is really set; keeps what drifted. What is shown is as of the last look.
    fn look(&mut self) {
        self.statuses.clear();
        for it in &mut self.running {
            match it.enforcer.status() {
                Ok(status) => {
                    self.drift.extend(&status.drift);
                    self.statuses.push(status);
                }
                Err(error) => self.drift.push(error.to_string()),
            }
        }
    }

    /// Returns what drifted since this was asked last, in words.
    pub fn new_drift(&mut self) -> Vec<String> {
        self.look();
        self.drift.take_new()
    }

    /// Returns what is really set, as of now.
    pub fn seen(&mut self) -> Seen {
        self.look();
        Seen { cpu: self.cpu_seen(), others: self.others(), active: self.active() }
    }

    fn cpu_seen(&self) -> CpuSeen {
        let status = self.cpu_status();
        let clients = status.iter().flat_map(|status| status.clients.iter().cloned());
        let notes = clients.chain(self.admission.refused()).filter_map(|client| {
            let note = client.note.as_ref()?;
            // Only the kernel's scheduler has those; elsewhere nobody expects it.
            (!client.founder.outlives_boot()).then(|| format!("{}: {note}", client.founder))
        });
        let drift = notes.chain(self.drift.shown()).collect();
        let set = status.and_then(|status| status.cpu.as_ref());
        let hold = set.and_then(|cpu: &CpuStatus| cpu.hold).map(|hold| hold.to_string());
        CpuSeen {
            name: self.name().to_owned(),
            why: self.why_cpu(),
            algorithm: self.settings.cpu.algorithm.to_string(),
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
        let why = || self.standing(KindName::CPU).why(&self.settings);
        self.asked_for.map_or_else(why, str::to_owned)
    }

    /// Measures the CPU, and other resources in their own units.
    pub fn measure(&mut self) -> Measured {
        let (mut cpu, mut resources) = (None, Vec::new());
        let serves_cpu = self.standing(KindName::CPU).serving().map(|it| it.name);
        for it in &mut self.running {
            let Ok(sample) = it.enforcer.sample() else { continue };
            if serves_cpu == Some(it.registration.name) {
                cpu = sample.cpu;
            }
            resources.extend(sample.resources);
        }
        resources.sort_by(|a, b| a.resource.cmp(&b.resource));
        let cpu_status = self.cpu_status().and_then(|status| status.cpu.as_ref());
        let quantum_ns = cpu_status.map_or(0, |cpu| cpu.quantum_ns);
        let sample = Sample { cpu, resources };
        Measured { sample, quantum_ns, own_cpu_ns: clock::process_cpu_ns() }
    }

    /// How every resource of the last plan besides the CPU is enforced, and who competes for it.
    fn others(&self) -> Vec<ResourceStatus> {
        let enforced = || self.statuses.iter().flat_map(|status| &status.resources);
        let mut all = Vec::new();
        for resource in &self.planned {
            let found = enforced().find(|it| it.resource == *resource).cloned();
            all.push(found.unwrap_or_else(|| ResourceStatus {
                resource: resource.clone(),
                by: None,
                why: self.why_not(resource.kind()),
                active: Vec::new(),
            }));
        }
        all
    }

    /// Why nobody serves a kind. A ledger may have tickets of one that an enforcer registered in another program.
    fn why_not(&self, kind: KindName) -> String {
        let standing = self.standings.iter().find(|it| it.kind == kind);
        standing.map_or_else(|| why_not_shared(kind), Standing::why_not)
    }

    /// The clients that compete for the CPU now.
    fn active(&self) -> Vec<CurrencyId> {
        let competes = |state| matches!(state, ClientState::Running | ClientState::Waiting);
        let clients = self.cpu_status().map_or(&[][..], |status| &status.clients);
        clients.iter().filter(|it| competes(it.state)).map(|it| it.id).collect()
    }

    fn cpu_status(&self) -> Option<&Status> {
        self.statuses.iter().find(|status| status.cpu.is_some())
    }
}
