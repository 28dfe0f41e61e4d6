//! What the lottery tells when it is asked.

use crate::client::Client;
use crate::lottery::Lottery;
use enforcer::clock::{now_ns, thread_cpu_ns};
use enforcer::{
    ClientStatus, CpuClientSample, CpuSample, CpuStatus, Presence, ResourceStatus, Sample, Status,
};
use ledger::Resource;
use undo::scheduling::calls;

impl Lottery {
    pub(crate) fn status(&mut self) -> Status {
        let unmanaged = self.unmanaged.values().chain(&self.unmanageable);
        let clients = ClientStatus::all(self.clients.iter().map(Client::status), unmanaged);
        Status {
            generation: self.generation,
            guarded: self.guarded,
            guardian_pid: self.guardian.pid(),
            resources: vec![self.resource()],
            clients,
            drift: self.drift.take(),
            cpu: Some(self.cpu()),
        }
    }

    fn resource(&self) -> ResourceStatus {
        let competing = self.clients.iter().filter(|client| client.presence == Presence::Competing);
        ResourceStatus {
            resource: Resource::CPU,
            by: Some("user-level".to_owned()),
            why: self.setting.why.clone(),
            active: competing.map(|client| client.id).collect(),
        }
    }

    fn cpu(&self) -> CpuStatus {
        CpuStatus {
            algorithm: Some(self.setting.policy),
            seed: self.setting.seed,
            quantum_ns: self.setting.quantum_ns,
            cpus: self.setting.cpus.clone(),
            hold: Some(self.setting.hold),
            held: self.clients.iter().map(|client| (client.id, client.held())).collect(),
        }
    }

    pub(crate) fn sample(&mut self) -> Sample {
        let now = now_ns();
        self.integrate(now);
        // Sleepers that are free are as they were when it was last their turn: whoever asks often must not make us look
        // at all of them.
        for index in &self.awake {
            let client = &mut self.clients[*index];
            if let Some(used) = client.measure()
                && used > 0
            {
                self.policy.charge(client.id.0, used, self.setting.quantum_ns);
            }
        }
        let unmanaged = self.unmanaged.values().chain(&self.unmanageable);
        let clients = CpuClientSample::all(self.clients.iter().map(Client::sample), unmanaged);
        let cpu = CpuSample {
            at_ns: now,
            seats: self.setting.seats(),
            generation: self.generation.unwrap_or(0),
            draws: self.draws,
            late: self.late,
            own_cpu_ns: thread_cpu_ns(),
            system_calls: calls(),
            used_ns: self.used_by_gone_ns
                + clients.iter().map(|client| client.used_ns).sum::<u64>(),
            clients,
        };
        Sample { cpu: Some(cpu), ..Sample::default() }
    }
}
