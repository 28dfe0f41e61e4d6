//! What MTR-LS promises: service within a constant of its part of the time for which it competes.

mod common;

use allot_policy::{MtrLs, mtr_ls::ROUND_QUANTA};
use common::{Machine, QUANTUM_NS};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64;

/// Turns are long: one client after the other, each for its part of the round.
#[test]
fn each_client_has_its_part_of_a_round_in_one_piece() {
    let mut machine = Machine::with(Box::new(MtrLs::new()), &[5, 3, 2]);
    let mut turns = Vec::new();
    for _ in 0..2 * ROUND_QUANTA {
        machine.run(1, 1);
        turns.push(machine.winners[0]);
    }
    let round = [0, 0, 0, 0, 0, 1, 1, 1, 2, 2];
    assert_eq!(turns, [round, round].concat());
}

/// The property, over every interval of a run: no client that competes throughout gets less than
/// its part of that time, less a constant; nor, when all are busy, more than it, and a constant.
#[test]
fn service_is_within_a_constant_of_the_part() {
    for seed in 0..50 {
        let mut dice = Pcg64::seed_from_u64(seed);
        let weights: Vec<u64> =
            (0..2 + dice.next_u64() % 10).map(|_| 1 + dice.next_u64() % 30).collect();
        let total: u64 = weights.iter().sum();
        let mut machine = Machine::with(Box::new(MtrLs::new()), &weights);
        // For each client the least and the greatest of service − part · time so far: the
        // difference of any two of its values is an interval's error.
        let mut extremes = vec![(0f64, 0f64); weights.len()];
        for quanta in 1..=3_000u64 {
            machine.quantum(1, |_| QUANTUM_NS / 4 + dice.next_u64() % QUANTUM_NS);
            let time: f64 = (0..weights.len()).map(|i| machine.got(i as u64).quanta()).sum();
            for (i, &weight) in weights.iter().enumerate() {
                let off = machine.got(i as u64).quanta() - time * weight as f64 / total as f64;
                extremes[i] = (extremes[i].0.min(off), extremes[i].1.max(off));
                let span = extremes[i].1 - extremes[i].0;
                // A whole quota late and a whole one early, and quanta that are not divisible.
                let constant = 2.0 * ROUND_QUANTA as f64 * weight as f64 / total as f64 + 5.0;
                assert!(span <= constant, "seed {seed}, quantum {quanta}, client {i}: {span}");
            }
        }
    }
}

/// Who blocks keeps place and quota: it is served at once when it wakes, for what it has left.
#[test]
fn a_sleeper_keeps_its_place_and_no_more_than_its_quota() {
    let mut machine = Machine::with(Box::new(MtrLs::new()), &[1, 1]);
    machine.run(1, 2);
    assert_eq!(machine.got(0).wins, 2);
    machine.policy.leave(0);
    machine.run(1, 1_000);
    machine.policy.join(0, 1);
    for _ in 0..3 {
        machine.run(1, 1);
        assert_eq!(machine.winners, [0], "three of its five quanta are left");
    }
    // Now they take turns: it has not saved up the thousand quanta.
    let before = machine.got(0).wins;
    machine.run(1, 100);
    let won = machine.got(0).wins - before;
    assert!((45..=55).contains(&won), "{won}");
}

/// A part that is less than a quantum of the round is served whole quanta, and misses rounds.
#[test]
fn small_parts_are_exact_though_quanta_are_whole() {
    let mut machine = Machine::with(Box::new(MtrLs::new()), &[1, 2, 997]);
    machine.run(1, 100_000);
    for (client, due) in [(0, 100.0), (1, 200.0)] {
        let off: f64 = machine.got(client).wins as f64 - due;
        assert!(off.abs() <= 3.0, "client {client} is {off} quanta off");
    }
}
