//! Answers of the enforcer: what is set, what clients used.

use crate::client::Client;
use crate::state::{PERIOD_NS, State};
use enforcer::clock::{now_ns, thread_cpu_ns};
use enforcer::{
    ClientStatus, CpuClientSample, CpuSample, CpuStatus, ResourceStatus, Sample, Status,
};
use ledger::Resource;
use undo::scheduling::calls;
use valuation::Graph;

impl State {
    pub(crate) fn answer_status(&mut self) -> Status {
        let unmanaged = self.followed.unmanaged(&self.unmanageable);
        let clients = ClientStatus::all(self.clients.iter().map(Client::status), &unmanaged);
        let guarded = self.followed.is_on_watch();
        let cpu = ResourceStatus {
            resource: Resource::CPU,
            by: Some("weights".to_owned()),
            why: self.carrier.why(),
            active: self.graph.iter().flat_map(Graph::active_clients).collect(),
        };
        Status {
            generation: self.followed.generation(),
            guarded,
            guardian_pid: self.guardian.pid().filter(|_| guarded),
            resources: vec![cpu],
            clients,
            drift: self.drift.take(),
            cpu: Some(CpuStatus {
                algorithm: None,
                seed: 0,
                quantum_ns: PERIOD_NS,
                cpus: (0..u32::MAX).take(self.seats).collect(),
                hold: None,
                held: self.clients.iter().map(|client| (client.id, client.held())).collect(),
            }),
        }
    }

    pub(crate) fn answer_sample(&mut self) -> Sample {
        let now = now_ns();
        self.integrate(now);
        self.clients.iter_mut().for_each(Client::measure);
        let unmanaged = self.followed.unmanaged(&self.unmanageable);
        let clients = CpuClientSample::all(self.clients.iter().map(Client::sample), &unmanaged);
        let used: u64 = self.clients.iter().map(|client| client.account.used_ns).sum();
        let cpu = CpuSample {
            at_ns: now,
            seats: self.seats,
            generation: self.followed.generation().unwrap_or(0),
            draws: 0,
            late: 0,
            own_cpu_ns: thread_cpu_ns(),
            system_calls: calls(),
            used_ns: self.used_by_gone_ns + used,
            clients,
        };
        Sample { cpu: Some(cpu), ..Sample::default() }
    }
}
