//! The inverse lottery against its exact probabilities. Seeds are fixed; allowances are five standard deviations of
//! the number of draws (`common::SIGMAS`).

mod common;

use allot_policy::{Holder, InverseLottery, MAX_WEIGHT, Reclaim, reclaim::MAX_HELD_BYTES};
use common::assert_binomial;
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64;

fn holder(key: u64, tickets: u64, held_bytes: u64, guaranteed_bytes: u64) -> Holder {
    Holder { key, tickets, held_bytes, guaranteed_bytes, ..Holder::default() }
}

/// How often each loses.
fn losses(seed: u64, holders: &[Holder], draws: u64) -> Vec<u64> {
    let mut lottery = InverseLottery::new(seed);
    let mut losses = vec![0; holders.len()];
    for _ in 0..draws {
        losses[lottery.choose(holders).expect("somebody has more than its guarantee")] += 1;
    }
    losses
}

/// Rule 1, computed anew from its words: (1 − t/T) · u over the sum of that, among those of rule 2.
fn probabilities(holders: &[Holder]) -> Vec<f64> {
    let excess = |it: &Holder| it.held_bytes as f64 - it.guaranteed_bytes as f64;
    let takes_part = |it: &&Holder| it.held_bytes > it.guaranteed_bytes;
    let total: f64 = holders.iter().filter(takes_part).map(|it| it.tickets as f64).sum();
    let part = |it: &Holder| match takes_part(&it) {
        true => (1.0 - it.tickets as f64 / total) * excess(it),
        false => 0.0,
    };
    let sum: f64 = holders.iter().map(part).sum();
    holders.iter().map(|it| part(it) / sum).collect()
}

#[test]
fn losses_are_binomial_with_the_exact_probabilities() {
    let draws = 20_000;
    for seed in 0..40 {
        let mut dice = Pcg64::seed_from_u64(seed);
        let mut below = |bound: u64| dice.next_u64() % bound;
        let count = 2 + below(8);
        let mut holders: Vec<Holder> =
            (0..count).map(|key| holder(key, below(100), below(1 << 24), below(1 << 23))).collect();
        // So that there are two at least that take part, with tickets.
        holders.push(holder(100, 1 + below(50), 1 << 24, 1 << 20));
        holders.push(holder(101, 1 + below(50), 1 << 22, 0));
        let lost = losses(seed, &holders, draws);
        for ((holder, lost), p) in holders.iter().zip(lost).zip(probabilities(&holders)) {
            assert_binomial(&format!("seed {seed}, {holder:?}"), lost, draws, p);
        }
    }
}

#[test]
fn of_two_each_loses_by_the_others_tickets() {
    let draws = 30_000;
    let lost = losses(1, &[holder(0, 3, 8 << 20, 0), holder(1, 1, 8 << 20, 0)], draws);
    assert_binomial("three tickets", lost[0], draws, 0.25);
}

#[test]
fn only_what_lies_above_the_guarantee_is_drawn() {
    let draws = 30_000;
    // Both hold 8 MiB; 6 of the first's are guaranteed.
    let lost = losses(2, &[holder(0, 1, 8 << 20, 6 << 20), holder(1, 1, 8 << 20, 0)], draws);
    assert_binomial("guaranteed", lost[0], draws, 0.2);
}

#[test]
fn who_cannot_lose_has_no_part_in_the_ratio_of_the_others() {
    let draws = 30_000;
    let others = [holder(1, 2, 1 << 20, 0), holder(2, 1, 1 << 20, 0)];
    let rich = holder(0, 1 << 40, 1 << 20, 1 << 20);
    let lost = losses(3, &[rich, others[0], others[1]], draws);
    assert_eq!(lost[0], 0);
    assert_binomial("two tickets", lost[1], draws, 1.0 / 3.0);
}

#[test]
fn a_lone_client_loses_and_who_has_all_the_tickets_never() {
    assert_eq!(losses(4, &[holder(9, 5, 4096, 0)], 10), [10]);
    assert_eq!(losses(4, &[holder(9, MAX_WEIGHT, 4096, 4095)], 10), [10]);
    let draws = 30_000;
    let all = [holder(0, 7, 1 << 30, 0), holder(1, 0, 3 << 12, 0), holder(2, 0, 1 << 12, 0)];
    let lost = losses(5, &all, draws);
    assert_eq!(lost[0], 0, "it has all the tickets");
    assert_binomial("three pages", lost[1], draws, 0.75);
}

#[test]
fn without_any_tickets_all_lose_by_what_they_hold() {
    let draws = 30_000;
    let lost = losses(6, &[holder(0, 0, 3 << 20, 0), holder(1, 0, 1 << 20, 0)], draws);
    assert_binomial("three MiB", lost[0], draws, 0.75);
}

#[test]
fn nobody_loses_where_all_keep_to_their_guarantees() {
    let mut lottery = InverseLottery::new(7);
    assert_eq!(lottery.choose(&[]), None);
    assert_eq!(lottery.choose(&[holder(0, 1, 10, 10), holder(1, 0, 10, 20)]), None);
}

#[test]
fn the_greatest_numbers_fit() {
    let greatest = |key| holder(key, MAX_WEIGHT, MAX_HELD_BYTES, 0);
    let many: Vec<Holder> = (0..1 << 13).map(greatest).collect();
    let lost = losses(8, &many, 100);
    assert_eq!(lost.iter().sum::<u64>(), 100);
    // One whole shared by more: a part each.
    let many: Vec<Holder> =
        (0..1 << 17).map(|key| holder(key, MAX_WEIGHT >> 17, MAX_HELD_BYTES, 0)).collect();
    assert!(InverseLottery::new(9).choose(&many).is_some());
}

#[test]
#[should_panic(expected = "tickets of holder 3")]
fn more_tickets_than_there_are_break_an_invariant() {
    let _ = InverseLottery::new(10).choose(&[holder(3, MAX_WEIGHT + 1, 1, 0)]);
}

#[test]
fn the_same_seed_draws_the_same() {
    let holders: Vec<Holder> = (0..20).map(|key| holder(key, key, 4096 * (key + 1), 0)).collect();
    let draw = |seed| {
        let mut lottery = InverseLottery::new(seed);
        (0..100).map(|_| lottery.choose(&holders)).collect::<Vec<_>>()
    };
    assert_eq!(draw(11), draw(11));
    assert_ne!(draw(11), draw(12));
}
