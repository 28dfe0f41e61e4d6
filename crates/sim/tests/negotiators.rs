//! Negotiators in a model economy: they find what is to be gained, settle, and take back what does
//! not help.

use allot_sim::trading::economy::Economy;
use ledger::{Good, TicketKind};
use market::negotiator::{Options, REVERSALS_MAX};
use proptest::prelude::*;

const WINDOW_NS: u64 = 5_000_000_000;
const HOUR: u64 = 720;

fn goods(count: usize) -> Vec<Good> {
    let good =
        |name: &&str| Good { resource: name.parse().expect("a resource"), kind: TicketKind::Soft };
    ["cpu", "disk:sda", "memory"].iter().take(count).map(good).collect()
}

/// Two opposite clients, and bystanders who want both.
fn pair(noise: f64, seed: u64, needs: [[f64; 2]; 2]) -> Economy {
    let mut economy = Economy::new(goods(2), noise, seed);
    economy.others = vec![2000, 2000];
    for needs in needs {
        economy.add(needs.to_vec(), vec![1000, 1000], Some(Options::default()));
    }
    economy
}

/// The best one-for-one exchange's gain.
fn best_static(economy: &Economy) -> f64 {
    let own: Vec<Vec<u64>> = economy.clients.iter().map(|client| client.own.clone()).collect();
    let before = economy.rates(&own);
    let gain = |n: u64| {
        let held = [vec![1000 + n, 1000 - n], vec![1000 - n, 1000 + n]];
        let now = economy.rates(&held);
        let logs = before.iter().zip(&now).map(|(before, now)| (now.0 / before.0).ln());
        (logs.sum::<f64>() / 2.0).exp()
    };
    (0..10).map(|n| gain(n * 100)).fold(1.0, f64::max)
}

#[test]
fn opposite_needs_find_most_of_the_best_exchange() {
    for seed in 1..6 {
        let mut economy = pair(0.01, seed, [[0.9, 0.02], [0.02, 0.9]]);
        (0..HOUR / 2).for_each(|_| economy.pass(WINDOW_NS));
        let found = (economy.gain() - 1.0) / (best_static(&economy) - 1.0);
        let tallies: Vec<_> =
            economy.clients.iter().map(|it| it.negotiator.as_ref().expect("one").tally()).collect();
        assert!(
            found >= 0.8,
            "seed {seed}: {found:.2} of the best, {tallies:?} {:?}",
            economy.held()
        );
    }
}

#[test]
fn where_no_trade_helps_nothing_is_lost() {
    for seed in 1..6 {
        let mut economy = pair(0.01, seed, [[0.5, 0.5], [0.5, 0.5]]);
        (0..2 * HOUR).for_each(|_| economy.pass(WINDOW_NS));
        assert!(economy.gain() > 0.98, "seed {seed}: {:.3}", economy.gain());
    }
}

/// Thirty clients, each of which needs one of three goods most.
fn population(fixed: bool) -> Economy {
    let mut economy = Economy::new(goods(3), 0.01, 7);
    economy.fixed = fixed;
    for place in 0..30u32 {
        let of = |good: u32| if place % 3 == good { 0.8 } else { 0.1 };
        economy.add(vec![of(0), of(1), of(2)], vec![1000; 3], Some(Options::default()));
    }
    economy
}

#[test]
fn a_population_with_fixed_shares_gains_and_settles() {
    let mut economy = population(true);
    (0..HOUR).for_each(|_| economy.pass(WINDOW_NS));
    let (made, gain) = (economy.session.made, economy.gain());
    (0..3 * HOUR).for_each(|_| economy.pass(WINDOW_NS));
    let later = economy.session.made - made;
    // The best that can be is 1.29: tickets in the proportion of the roots of the needs.
    assert!(economy.gain() > 1.15 && economy.gain() >= gain * 0.98, "{gain} {}", economy.gain());
    assert!(later < made, "{made} in the first hour, {later} in the next three");
}

/// Where what one does not use is others' anyway, and all want to trade the same way, what one gains
/// by more tickets others lose: nothing is to be won by all. Little is lost, and it settles.
#[test]
fn a_population_that_has_nothing_to_gain_settles_and_loses_little() {
    let mut economy = population(false);
    (0..HOUR).for_each(|_| economy.pass(WINDOW_NS));
    let made = economy.session.made;
    (0..3 * HOUR).for_each(|_| economy.pass(WINDOW_NS));
    let later = economy.session.made - made;
    assert!(economy.gain() > 0.97, "{}", economy.gain());
    assert!(later < made, "{made} in the first hour, {later} in the next three");
}

#[test]
fn needs_that_turn_round_are_followed() {
    let mut economy = pair(0.01, 3, [[0.9, 0.02], [0.02, 0.9]]);
    (0..HOUR / 2).for_each(|_| economy.pass(WINDOW_NS));
    let needs = [economy.clients[1].needs.clone(), economy.clients[0].needs.clone()];
    for (client, needs) in economy.clients.iter_mut().zip(needs) {
        client.needs = needs;
    }
    let turned = economy.gain();
    (0..HOUR).for_each(|_| economy.pass(WINDOW_NS));
    let found = (economy.gain() - 1.0) / (best_static(&economy) - 1.0);
    assert!(turned < 1.0 && found >= 0.8, "{turned} at first, then {found:.2} of the best");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn on_a_steady_load_reversals_are_few(
        needs in prop::collection::vec((0.01f64..1.0, 0.01f64..1.0, 0.01f64..1.0), 2..8),
        noise in 0.0f64..0.1, seed in any::<u64>(),
    ) {
        let mut economy = Economy::new(goods(3), noise, seed);
        for (a, b, c) in needs {
            economy.add(vec![a, b, c], vec![1000; 3], Some(Options::default()));
        }
        for window in 0..3 * HOUR {
            economy.pass(WINDOW_NS);
            for client in &economy.clients {
                let negotiator = client.negotiator.as_ref().expect("one");
                let reversals = negotiator.reversals(window * WINDOW_NS);
                prop_assert!(reversals <= REVERSALS_MAX, "{} in an hour", reversals);
            }
        }
    }
}
