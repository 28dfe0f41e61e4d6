//! What the lottery tells when it is asked.

use super::client::Client;
use super::lottery::{Lottery, now_ns, ns};
use crate::scheduling::calls;
use crate::{Applied, AppliedClient, ClientSample, Sample};
use rustix::time::{ClockId, clock_gettime};

impl Lottery {
    pub(super) fn applied(&mut self) -> Applied {
        let unmanaged = self.unmanaged.values().chain(&self.beyond);
        let unmanaged =
            unmanaged.map(|(planned, why)| AppliedClient::unmanaged(planned, why.clone()));
        let mut clients: Vec<AppliedClient> =
            self.clients.iter().map(Client::applied).chain(unmanaged).collect();
        clients.sort_by_key(|client| client.id);
        Applied {
            generation: self.generation,
            hold: self.setting.hold,
            guarded: self.guarded,
            guardian_pid: self.guardian.pid(),
            clients,
            drift: std::mem::take(&mut self.drift),
        }
    }

    pub(super) fn sample(&mut self) -> Sample {
        let now = now_ns();
        self.integrate(now);
        for client in &mut self.clients {
            if let Some(used) = client.measure()
                && used > 0
            {
                self.policy.charge(client.id.0, used, self.setting.quantum_ns);
            }
        }
        let managed = self.clients.iter().map(Client::sample);
        let unmanaged = self.unmanaged.values().chain(&self.beyond);
        let unmanaged = unmanaged.map(|(planned, _)| ClientSample::unmanaged(planned));
        let mut clients: Vec<ClientSample> = managed.chain(unmanaged).collect();
        clients.sort_by_key(|client| client.id);
        Sample {
            at_ns: now,
            seats: self.setting.seats,
            generation: self.generation.unwrap_or(0),
            draws: self.draws,
            late: self.late,
            own_cpu_ns: ns(clock_gettime(ClockId::ThreadCPUTime)),
            system_calls: calls(),
            used_ns: self.used_by_gone_ns
                + clients.iter().map(|client| client.used_ns).sum::<u64>(),
            clients,
        }
    }
}
