//! The property of Chandra et al. 2000: nobody is promised more than one CPU, the others keep
//! their ratios, nothing is lost.

use allot_policy::{
    ClientKey, ONE_SEAT,
    feasible::{capped, promised},
};
use proptest::prelude::*;

/// The paper's recursion, word for word, on fractions: weights in descending order.
fn readjust(weights: &mut [f64], seats: usize) {
    let total: f64 = weights.iter().sum();
    if seats == 0 || weights.is_empty() || weights[0] * seats as f64 <= total * (1.0 + 1e-12) {
        return;
    }
    let (first, rest) = weights.split_first_mut().unwrap();
    readjust(rest, seats - 1);
    *first = if seats > 1 { rest.iter().sum::<f64>() / (seats - 1) as f64 } else { *first };
}

fn number(weights: &[u64]) -> Vec<(ClientKey, u64)> {
    weights.iter().enumerate().map(|(i, &weight)| (i as ClientKey, weight)).collect()
}

fn weights() -> impl Strategy<Value = Vec<u64>> {
    // Small ones collide and tie; great ones reach the limits of the arithmetic.
    prop::collection::vec(prop_oneof![0u64..4, 1u64..1000, 1u64..=1 << 48], 0..20)
}

proptest! {
    #[test]
    fn nobody_gets_more_than_a_seat_and_nothing_is_lost(weights in weights(), seats in 0usize..9) {
        let clients = weights.iter().filter(|&&weight| weight > 0).count();
        let promises = promised(&number(&weights), seats);
        prop_assert!(promises.iter().all(|&(_, part)| part <= ONE_SEAT));
        let sum: u128 = promises.iter().map(|&(_, part)| u128::from(part)).sum();
        prop_assert_eq!(sum, clients.min(seats) as u128 * u128::from(ONE_SEAT));
        for (&weight, &(_, part)) in weights.iter().zip(&promises) {
            prop_assert!(weight > 0 || part == 0);
            prop_assert!(clients > seats || weight == 0 || part == ONE_SEAT);
        }
    }

    #[test]
    fn those_below_a_seat_keep_their_ratios(weights in weights(), seats in 1usize..9) {
        let promises = promised(&number(&weights), seats);
        for (&a, &(_, part_a)) in weights.iter().zip(&promises) {
            for (&b, &(_, part_b)) in weights.iter().zip(&promises) {
                prop_assert!(a < b || part_a >= part_b || part_a + 1 == part_b);
                if part_a < ONE_SEAT && part_b < ONE_SEAT {
                    // Each is off by less than one part: part_a / part_b = a / b up to that.
                    let cross_a = u128::from(part_a) * u128::from(b);
                    let cross_b = u128::from(part_b) * u128::from(a);
                    prop_assert!(cross_a.abs_diff(cross_b) <= u128::from(a) + u128::from(b));
                }
            }
        }
    }

    #[test]
    fn agrees_with_the_papers_recursion(
        weights in prop::collection::vec(1u64..1000, 1..20), seats in 1usize..9
    ) {
        prop_assume!(weights.len() > seats);
        let mut order = number(&weights);
        order.sort_by_key(|&(_, weight)| std::cmp::Reverse(weight));
        let mut readjusted: Vec<f64> = order.iter().map(|&(_, weight)| weight as f64).collect();
        readjust(&mut readjusted, seats);
        let total: f64 = readjusted.iter().sum();
        for (&(client, part), weight) in promised(&order, seats).iter().zip(readjusted) {
            let expected = weight / total * seats as f64 * ONE_SEAT as f64;
            prop_assert!((part as f64 - expected).abs() <= 8.0, "{client}: {part} {expected}");
        }
    }

    #[test]
    fn looks_only_at_the_heaviest(weights in weights(), seats in 0usize..9) {
        let mut order = weights.clone();
        order.sort_unstable_by(|a, b| b.cmp(a));
        let total = weights.iter().map(|&weight| u128::from(weight)).sum();
        let mut looked = 0;
        let count = capped(total, seats, order.iter().copied().inspect(|_| looked += 1));
        prop_assert!(count <= seats && looked <= seats + 1);
    }
}
