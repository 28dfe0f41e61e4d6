//! Stride's own properties: errors that do not grow, and bounds on what anyone can save up or owe.

mod common;

use std::collections::BTreeMap;

use allot_policy::{MAX_DEBT_QUANTA, ONE_SEAT, Policy, Stride, stride::MAX_CREDIT_QUANTA};
use common::{Machine, QUANTUM_NS};
use proptest::prelude::*;
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64;

fn stride(weights: &[u64]) -> Machine {
    Machine::with(Box::new(Stride::new()), weights)
}

/// What rounding may add to a bound in quanta.
const ROUNDING: f64 = 1e-6;

proptest! {
    /// ALGORITHMS: "pairwise error at most one quantum", at every moment.
    #[test]
    fn pairwise_error_is_at_most_one_quantum(weights in prop::collection::vec(1u64..1000, 2..10)) {
        let mut machine = stride(&weights);
        for quantum in 0..2_000 {
            machine.run(1, 1);
            for a in 0..weights.len() {
                for b in 0..a {
                    let (wins_a, wins_b) = (machine.got(a as u64).wins, machine.got(b as u64).wins);
                    let part = weights[a] as f64 / (weights[a] + weights[b]) as f64;
                    let error = wins_a as f64 - (wins_a + wins_b) as f64 * part;
                    prop_assert!(error.abs() <= 1.0 + ROUNDING, "{quantum}: {a} {b} {error}");
                }
            }
        }
    }

    /// The same in CPU time, when quanta are cut short or run long at random: two clients' use by
    /// weight differs by no more than what each used in its longest turn.
    #[test]
    fn short_and_long_quanta_do_not_bend_the_shares(
        weights in prop::collection::vec(1u64..100, 2..8), seed: u64
    ) {
        let mut machine = stride(&weights);
        let mut dice = Pcg64::seed_from_u64(seed);
        for quantum in 0..2_000 {
            machine.quantum(1, |client| match client % 3 {
                0 => QUANTUM_NS,
                1 => 1 + dice.next_u64() % (2 * QUANTUM_NS),
                _ => QUANTUM_NS / [1, 2, 50][dice.next_u64() as usize % 3],
            });
            for a in 0..weights.len() {
                for b in 0..a {
                    let (w_a, w_b) = (weights[a] as f64, weights[b] as f64);
                    let (got_a, got_b) = (machine.got(a as u64), machine.got(b as u64));
                    let error = got_a.quanta() / w_a - got_b.quanta() / w_b;
                    let allowed = 2.0 / w_a + 2.0 / w_b + ROUNDING;
                    prop_assert!(error.abs() <= allowed, "{quantum}: {a} {b} {error}");
                }
            }
        }
    }

    /// Several seats: distinct winners, no seat idle, and nobody strays from its promise by more
    /// than a number of quanta that does not grow with time.
    #[test]
    fn error_on_several_seats_does_not_grow(
        weights in prop::collection::vec(1u64..50, 1..16), seats in 1usize..9
    ) {
        let mut machine = stride(&weights);
        let promises = machine.policy.promised(seats);
        for quantum in 1..=3_000u64 {
            machine.run(seats, 1);
            let mut winners = machine.winners.clone();
            winners.sort_unstable();
            winners.dedup();
            prop_assert_eq!(winners.len(), seats.min(weights.len()));
            for &(client, part) in &promises {
                let ideal = quantum as f64 * part as f64 / ONE_SEAT as f64;
                let error = machine.got(client).wins as f64 - ideal;
                prop_assert!(error.abs() <= weights.len() as f64 / 2.0 + 1.0, "{quantum}: {client} {error}");
            }
        }
    }
}

#[test]
fn zz_probe() {
    let mut worst = (0.0f64, 0.0f64, vec![], 0);
    for seed in 0..3000u64 {
        let mut dice = Pcg64::seed_from_u64(seed);
        let seats = 1 + dice.next_u64() as usize % 8;
        let n = 1 + dice.next_u64() % 16;
        let top = [3, 50, 1000][dice.next_u64() as usize % 3];
        let weights: Vec<u64> = (0..n).map(|_| 1 + dice.next_u64() % top).collect();
        let mut machine = stride(&weights);
        let promises = machine.policy.promised(seats);
        let mut w = [0.0f64; 2];
        for quantum in 1..=4_000u64 {
            machine.run(seats, 1);
            for &(client, part) in &promises {
                let ideal = quantum as f64 * part as f64 / ONE_SEAT as f64;
                let error = (machine.got(client).wins as f64 - ideal).abs();
                let half = usize::from(quantum > 2000);
                w[half] = w[half].max(error);
            }
        }
        let m = w[0].max(w[1]);
        if m > worst.0 {
            worst = (m, w[1], weights, seats);
            eprintln!("{seed} {worst:?}");
        }
    }
}
