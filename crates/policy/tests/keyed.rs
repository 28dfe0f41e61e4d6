//! What the keyed policies promise, on CPUs in virtual time.

use std::collections::BTreeMap;

use allot_policy::keyed::machine::{Funding, Happening, Machine};
use allot_policy::keyed::{
    Settings, WHOLE,
    lottery::{DRAWN_ONE, exponential, mixed},
};
use allot_policy::{ClientKey, PolicyName};

const QUANTUM_NS: u64 = 4_000_000;
const HORIZON_NS: u64 = 2_000_000_000;
const NEVER: u64 = u64::MAX;

/// Fixed weights in one currency: all divide the machine. What a ticket was due is counted by a
/// clock, as in bpf/sched/currency.h.
#[derive(Default)]
struct Weights {
    weights: BTreeMap<ClientKey, u64>,
    active: u64,
    /// In 2⁻⁶⁴ ns a ticket.
    clock: u128,
    service_ns: u64,
    seen: BTreeMap<ClientKey, u128>,
}

impl Weights {
    fn advance(&mut self, service_ns: u64) {
        let given = u128::from(service_ns - self.service_ns) << 64;
        self.service_ns = service_ns;
        if self.active > 0 {
            self.clock += given / u128::from(self.active);
        }
    }
}

impl Funding for Weights {
    fn set_active(&mut self, client: ClientKey, active: bool, service_ns: u64) {
        if self.service_ns == 0 {
            self.service_ns = service_ns;
        }
        self.advance(service_ns);
        let weight = self.weights[&client];
        if active {
            self.active += weight;
            self.seen.insert(client, self.clock);
        } else {
            self.active -= weight;
        }
    }

    fn value(&mut self, client: ClientKey) -> u64 {
        (u128::from(WHOLE) * u128::from(self.weights[&client]) / u128::from(self.active)) as u64
    }

    fn due_ns(&mut self, client: ClientKey, service_ns: u64) -> u64 {
        self.advance(service_ns);
        let seen = self.seen.get_mut(&client).expect("it is active");
        // Whole nanoseconds; the rest is due the next time.
        let due = (self.clock - *seen) * u128::from(self.weights[&client]);
        let whole = due >> 64;
        *seen = self.clock - (due - (whole << 64)) / u128::from(self.weights[&client]);
        whole as u64
    }
}

fn settings(cpus: u32, seed: u64) -> Settings {
    Settings { cpus, quantum_ns: QUANTUM_NS, seed, ..Settings::default() }
}

/// Clients 0, 1, 2, … with these weights and a thread each, asleep.
fn machine(policy: PolicyName, cpus: u32, seed: u64, weights: &[u64]) -> Machine<Weights> {
    let names = (0..).zip(weights.iter().copied());
    let funding = Weights { weights: names.collect(), ..Weights::default() };
    let mut machine = Machine::new(policy, settings(cpus, seed), HORIZON_NS, funding);
    for client in 0..weights.len() as u64 {
        machine.add_client(client);
        machine.add_thread(client);
    }
    machine
}

fn dice(seed: u64) -> impl FnMut() -> u64 {
    let mut number = 0u64;
    move || {
        number += 1;
        mixed(mixed(seed).wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }
}

#[test]
#[ignore]
fn explore() {
    for policy in PolicyName::ALL {
        for (cpus, weights) in [
            (1, vec![1, 1]),
            (1, vec![3, 2, 2, 1]),
            (2, vec![3, 2, 2, 1]),
            (2, vec![10, 1, 1]),
            (4, vec![9, 8, 7, 6, 5, 4, 3, 2, 1]),
            (1, [vec![100], vec![2; 50]].concat()),
            (1, [vec![200], vec![1; 200]].concat()),
            (2, [vec![200], vec![1; 200]].concat()),
        ] {
            let mut machine = machine(policy, cpus, 1, &weights);
            for thread in 0..weights.len() {
                machine.wake_at(thread, 0, None);
            }
            let end = 100_000_000_000;
            while machine.advance(end).is_some() {}
            let total: u64 = weights.iter().sum();
            print!(
                "{policy} {cpus} {} lost {:.3}s: ",
                weights.len(),
                (machine.service_ns() as f64 - (end * u64::from(cpus)) as f64) / 1e9
            );
            for i in 0..weights.len().min(9) {
                print!(
                    "{:.4}({:.4}) ",
                    machine.used_ns(i as u64) as f64 / end as f64 / f64::from(cpus),
                    weights[i] as f64 / total as f64
                );
            }
            println!();
        }
    }
}
