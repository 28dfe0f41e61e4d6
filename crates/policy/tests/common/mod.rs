//! A machine that only counts: quanta are drawn, winners run, all is summed.
#![allow(dead_code)] // Each test file uses its part.

use std::collections::BTreeMap;

use allot_policy::{ClientKey, Policy};

pub const QUANTUM_NS: u64 = 10_000_000;

/// What a client got.
#[derive(Clone, Copy, Debug, Default)]
pub struct Got {
    pub wins: u64,
    pub used_ns: u64,
    /// Sum of the squares of what it used per win, in quanta: the variance of its use under a
    /// lottery, where each win pays for one such use.
    pub squares: f64,
}

impl Got {
    pub fn quanta(&self) -> f64 {
        self.used_ns as f64 / QUANTUM_NS as f64
    }
}

pub struct Machine {
    pub policy: Box<dyn Policy>,
    pub got: BTreeMap<ClientKey, Got>,
    pub winners: Vec<ClientKey>,
}

impl Machine {
    pub fn new(policy: Box<dyn Policy>) -> Self {
        Machine { policy, got: BTreeMap::new(), winners: Vec::new() }
    }

    /// Client i has weights[i].
    pub fn with(policy: Box<dyn Policy>, weights: &[u64]) -> Self {
        let mut machine = Machine::new(policy);
        for (client, &weight) in weights.iter().enumerate() {
            machine.policy.join(client as ClientKey, weight);
        }
        machine
    }

    pub fn got(&self, client: ClientKey) -> Got {
        self.got.get(&client).copied().unwrap_or_default()
    }

    pub fn charge(&mut self, client: ClientKey, used_ns: u64) {
        self.policy.charge(client, used_ns, QUANTUM_NS);
        self.got.entry(client).or_default().used_ns += used_ns;
    }

    /// One quantum; `uses` says how long a winner runs. What the winners leave over is returned.
    pub fn quantum(&mut self, seats: usize, mut uses: impl FnMut(ClientKey) -> u64) -> u64 {
        let mut winners = std::mem::take(&mut self.winners);
        self.policy.draw(seats, &mut winners);
        let mut left = 0;
        for &client in &winners {
            let used = uses(client);
            left += QUANTUM_NS.saturating_sub(used);
            self.charge(client, used);
            let got = self.got.entry(client).or_default();
            got.wins += 1;
            got.squares += (used as f64 / QUANTUM_NS as f64).powi(2);
        }
        self.winners = winners;
        left
    }

    /// Quanta that all winners use whole.
    pub fn run(&mut self, seats: usize, quanta: u64) {
        for _ in 0..quanta {
            self.quantum(seats, |_| QUANTUM_NS);
        }
    }
}

/// How many standard deviations a count may be off: a false alarm once in 1.7 million
/// comparisons. Seeds are fixed, so a test that passed once passes always.
pub const SIGMAS: f64 = 5.0;

/// `wins` of `draws` at probability `p` each.
pub fn assert_binomial(what: &str, wins: u64, draws: u64, p: f64) {
    let n = draws as f64;
    // At p = 0 or 1 the deviation is 0: exact, but for what rounds.
    let allowed = SIGMAS * (n * p * (1.0 - p)).max(0.0).sqrt() + 1e-6 * n;
    let off = wins as f64 - n * p;
    assert!(off.abs() <= allowed, "{what}: {wins} of {draws}, expected {} ± {allowed}", n * p);
}

/// CPU time of two clients in proportion to their weights, within the chance of a lottery.
pub fn assert_proportional(what: &str, a: (Got, f64), b: (Got, f64)) {
    let off = a.0.quanta() / a.1 - b.0.quanta() / b.1;
    let variance = a.0.squares / (a.1 * a.1) + b.0.squares / (b.1 * b.1);
    let allowed = SIGMAS * variance.sqrt();
    assert!(
        off.abs() <= allowed,
        "{what}: {} and {}: {off} > {allowed}",
        a.0.quanta(),
        b.0.quanta()
    );
    // The test means something only if the chance is small beside the thing measured.
    assert!(allowed < 0.1 * a.0.quanta() / a.1, "{what}: too few draws");
}
