//! The judgement of `mtr-ls`.

use crate::catalogue::mtr_ls::schedule::{CLIENTS, Schedule, runnable_part};
use crate::report::comparison::Comparison;
use crate::report::verdict::Verdict;

/// The round T of allotd's MTR-LS, in seconds: a client's quota is its share of it.
pub(super) const ROUND_SECONDS: f64 = 0.1;

/// The account of one slice.
pub(super) struct Account {
    /// The time of each sample from the start, in s.
    pub at: Vec<f64>,
    /// The service of each client at each sample, in s.
    pub service: Vec<[f64; CLIENTS.len()]>,
    /// The guarantee of each client at each sample, in s.
    pub guarantee: Vec<[f64; CLIENTS.len()]>,
}

fn all_tickets() -> u64 {
    CLIENTS.iter().map(|(_, tickets)| tickets).sum()
}

impl Account {
    /// Adds up service and guarantee. The time that counts is the CPU time of all clients together.
    pub fn of(at_ns: &[u64], used: &[Vec<u64>], schedules: &[Schedule]) -> Account {
        let none = [0.0; CLIENTS.len()];
        let mut account = Account { at: vec![0.0], service: vec![none], guarantee: vec![none] };
        for sample in 1..at_ns.len() {
            let got: Vec<f64> = used[sample]
                .iter()
                .zip(&used[sample - 1])
                .map(|(now, then)| now.saturating_sub(*then) as f64 / 1e9)
                .collect();
            let supply: f64 = got.iter().sum();
            let mut service = account.service[sample - 1];
            let mut guarantee = account.guarantee[sample - 1];
            for (client, (_, tickets)) in CLIENTS.iter().enumerate() {
                let part = runnable_part(&schedules[client], at_ns[sample - 1], at_ns[sample]);
                service[client] += got[client];
                guarantee[client] += supply * part * *tickets as f64 / all_tickets() as f64;
            }
            account.at.push(at_ns[sample] as f64 / 1e9);
            account.service.push(service);
            account.guarantee.push(guarantee);
        }
        account
    }

    /// Returns the most by which a client's service in any stretch falls short of its guarantee.
    pub fn shortfall(&self, client: usize) -> f64 {
        let (mut lead, mut most) = (0.0_f64, 0.0_f64);
        for (service, guarantee) in self.service.iter().zip(&self.guarantee) {
            let ahead = service[client] - guarantee[client];
            lead = lead.max(ahead);
            most = most.max(lead - ahead);
        }
        most
    }
}

/// The greatest shortfall of each client: under allot, and under the default.
pub(super) type Shortfalls = [[f64; CLIENTS.len()]; 2];

/// Judges the shortfalls; `quantum` is in s.
pub(super) fn judge(greatest: &Shortfalls, quantum: f64) -> Verdict {
    let mut verdict = Verdict::default();
    for (client, (name, tickets)) in CLIENTS.iter().enumerate() {
        let share = *tickets as f64 / all_tickets() as f64;
        // Once its quota is used, each other one comes first with one quota, at most T if it got
        // it while it was alone; the preemption may be a quantum late.
        let bound = share * (CLIENTS.len() - 1) as f64 * ROUND_SECONDS + quantum;
        let [allot, default] = greatest.map(|of| of[client]);
        verdict.comparisons.push(
            Comparison::new(&format!("{name} ({:.0} %)", share * 100.0), "shortfall", "ms")
                .promising(Some(bound * 1000.0))
                .measured(Some(allot * 1000.0), Some(default * 1000.0)),
        );
        let what = format!(
            "{name}'s service never falls more than {:.0} ms short of {:.0} % of the time for \
             which it was runnable ({:.1} ms)",
            bound * 1000.0,
            share * 100.0,
            allot * 1000.0
        );
        verdict.check(what, allot <= bound);
    }
    verdict.notes.push(format!(
        "time counts as what the clients together got, so that what other processes took is \
         nobody's shortfall; promised is at most the share times {} quotas of T = {ROUND_SECONDS} \
         s, and a quantum",
        CLIENTS.len() - 1
    ));
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gets_nothing_for_a_second_falls_short_by_its_share_of_it() {
        let always: Vec<Schedule> = vec![vec![(0, true)]; 3];
        let ms = 1_000_000;
        // The first has all for a second, then none for a second.
        let at: Vec<u64> = (0..=200).map(|sample| sample * 10 * ms).collect();
        let used: Vec<Vec<u64>> = at
            .iter()
            .map(|at| vec![(*at).min(1000 * ms), at.saturating_sub(1000 * ms), 0])
            .collect();
        let account = Account::of(&at, &used, &always);
        assert!((account.shortfall(0) - 0.5).abs() < 1e-6);
        assert!((account.shortfall(1) - 0.3).abs() < 1e-6);
        assert!((account.shortfall(2) - 0.4).abs() < 1e-6, "two seconds without any");
    }
}
