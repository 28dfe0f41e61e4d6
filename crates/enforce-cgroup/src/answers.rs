//! Answers of the enforcer: what is applied, what clients used, how memory and disks are shared.

use crate::placement::Client;
use crate::state::State;
use enforcer::clock::{now_ns, thread_cpu_ns};
use enforcer::{
    ClientStatus, CpuClientSample, CpuSample, CpuStatus, ResourceStatus, Sample, Status,
};
use ledger::Resource;
use undo::scheduling::calls;

impl State {
    /// How each resource is enforced, in order of resource.
    fn resources(&self) -> Vec<ResourceStatus> {
        self.controllers.iter().flat_map(|controller| controller.status()).collect()
    }

    pub(crate) fn answer_status(&mut self) -> Status {
        let unmanaged = self.followed.unmanaged(&self.placement.unmanageable);
        let clients =
            ClientStatus::all(self.placement.clients.iter().map(Client::status), &unmanaged);
        let guarded = self.followed.is_on_watch();
        let resources = self.resources();
        Status {
            generation: self.followed.generation(),
            guarded,
            guardian_pid: self.guardian_pid().filter(|_| guarded),
            resources,
            clients,
            drift: self.drift.take(),
            cpu: self.shares_cpu().then(|| self.cpu()),
        }
    }

    fn shares_cpu(&self) -> bool {
        let mut served = self.controllers.iter().flat_map(|controller| controller.status());
        served.any(|status| status.resource == Resource::CPU)
    }

    fn cpu(&self) -> CpuStatus {
        let clients = self.placement.clients.iter();
        CpuStatus {
            algorithm: None,
            seed: 0,
            quantum_ns: u64::try_from(self.period.as_nanos()).unwrap_or(u64::MAX),
            cpus: (0..u32::MAX).take(observe::machine().cpus_online).collect(),
            hold: None,
            held: clients.map(|client| (client.id, client.held())).collect(),
        }
    }

    pub(crate) fn answer_sample(&mut self) -> Sample {
        if !self.shares_cpu() {
            return Sample::default();
        }
        let now = now_ns();
        self.placement.integrate(now);
        self.placement.measure();
        let unmanaged = self.followed.unmanaged(&self.placement.unmanageable);
        let clients =
            CpuClientSample::all(self.placement.clients.iter().map(Client::sample), &unmanaged);
        let cpu = CpuSample {
            at_ns: now,
            seats: self.seats,
            generation: self.followed.generation().unwrap_or(0),
            draws: 0,
            late: 0,
            own_cpu_ns: thread_cpu_ns(),
            system_calls: calls(),
            used_ns: self.placement.used_ns(),
            clients,
        };
        Sample { cpu: Some(cpu), ..Sample::default() }
    }
}
