//! How much changes hands in a ring of offers that cross.
//!
//! 1. Offer i gives a_i and gets a_(i+1), the last one gets a_0: balanced by construction.
//! 2. With a_0 fixed, offer 0 wants at least lo for it, and the others together would give at most
//!    hi, at their rates, whether or not they have so much.
//!    Slack = hi / lo. Each of the k gets the k-th root of it: a_1 = (lo^(k-1) · hi)^(1/k), and so
//!    on with those who are left. For two with rates r_a and r_b that is the price
//!    √(1 / (r_a r_b)): the geometric mean. (openBarter, 2009, divides what a cycle of bids has
//!    to spare in the same way; Loopring, 2017, gives each order of a ring the same discount.)
//! 3. Rounded to the nearest, but never below what is wanted or above what is given, so every offer
//!    accepts; where slack is less than a ticket, some gain nothing.
//! 4. What is fixed is tried: where an offer's curve has a point, and where somebody cannot give
//!    more or has no use for more. Between those, surplus is linear, so one of them is the best.
//! 5. The best has the greatest surplus at its own prices, (hi − lo) / a_1 of the whole; of two
//!    with the same, the greater. For straight offers it is the greatest volume.
//! 6. Where what is fixed does not fit to the ticket, the greatest below it that does is taken,
//!    found as a greatest fixed point (Knaster and Tarski) within [`SETTLE_MAX`] steps.
//! 7. Where nothing fits below somebody's most, that one gets the most and the others keep the rest.

use super::RING_MAX;
use super::rate::{give_beyond, give_for};
use ledger::Terms;

/// Steps of rule 6.
const SETTLE_MAX: usize = 24;

/// An offer in a ring, and the most that it can give.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) terms: &'a Terms,
    pub(super) available: u64,
}

/// What each offer of a ring gives, in the order of the ring; what is beyond it is 0.
pub(super) type Amounts = [u64; RING_MAX];

struct Candidate {
    amounts: Amounts,
    /// Surplus as a part of what is traded, times the amount that offer 0 gives: a fraction.
    surplus: (u128, u128),
}

impl Candidate {
    fn better_than(&self, other: &Candidate) -> bool {
        let (ours, theirs) = (self.surplus.0 * other.surplus.1, other.surplus.0 * self.surplus.1);
        (ours, self.amounts[0]) > (theirs, other.amounts[0])
    }
}

/// The amounts at which all offers of the ring accept (rules 1 to 7); `None` where there are none.
pub(super) fn fit(ring: &[Side]) -> Option<Amounts> {
    let k = ring.len();
    let mut caps: Amounts = [0; RING_MAX];
    for (index, side) in ring.iter().enumerate() {
        let before = ring[(index + k - 1) % k].terms;
        caps[index] = side.available.min(side.terms.give_most()).min(before.most);
        if caps[index] == 0 {
            return None;
        }
    }
    let mut best: Option<Candidate> = None;
    for clamped in [false, true] {
        for edge in 0..k {
            for fixed in fixed_amounts(ring, edge, caps[edge]) {
                let found = settle(ring, edge, fixed)
                    .and_then(|fixed| split(ring, edge, fixed, &caps, clamped));
                if let Some(found) = found
                    && best.as_ref().is_none_or(|best| found.better_than(best))
                {
                    best = Some(found);
                }
            }
        }
        if best.is_some() {
            break;
        }
    }
    best.map(|best| best.amounts)
}

/// The amounts of one good that are tried (rule 4), up to `cap`.
fn fixed_amounts<'a>(ring: &'a [Side], edge: usize, cap: u64) -> impl Iterator<Item = u64> + 'a {
    let giver = ring[edge].terms;
    let receiver = ring[(edge + ring.len() - 1) % ring.len()].terms;
    let given = giver.points.iter().map(|point| point.give);
    let wanted = receiver.points.iter().map(|point| point.want);
    given.chain(wanted).filter(move |&amount| amount < cap).chain([cap])
}

/// The most of what each can give, if the offer at `edge` gives `fixed`: at index j of the answer,
/// what the offer j places after it gives. `None` where somebody gives nothing.
fn highest(
    ring: &[Side],
    edge: usize,
    fixed: u64,
    give: impl Fn(&Terms, u64) -> Option<u64>,
) -> Option<Amounts> {
    let mut high: Amounts = [0; RING_MAX];
    let mut get = fixed;
    for place in (1..ring.len()).rev() {
        get = give(ring[(edge + place) % ring.len()].terms, get)?;
        high[place] = get;
    }
    Some(high)
}

/// The greatest amount up to `fixed` that the offer at `edge` can give so that all accept.
fn settle(ring: &[Side], edge: usize, fixed: u64) -> Option<u64> {
    let mut fixed = fixed;
    for _ in 0..SETTLE_MAX {
        let high = highest(ring, edge, fixed, give_for)?;
        let back = give_for(ring[edge].terms, high[1])?;
        if back >= fixed {
            return Some(fixed);
        }
        fixed = back;
    }
    None
}

/// The amounts with what the offer at `edge` gives fixed (rules 2 and 3).
fn split(
    ring: &[Side],
    edge: usize,
    fixed: u64,
    caps: &Amounts,
    clamped: bool,
) -> Option<Candidate> {
    let k = ring.len();
    let high = highest(ring, edge, fixed, give_beyond)?;
    let mut amounts: Amounts = [0; RING_MAX];
    amounts[edge] = fixed;
    let mut given = fixed;
    let mut surplus = (0, 1);
    for place in 1..k {
        let here = (edge + place) % k;
        let low = ring[(edge + place - 1) % k].terms.want_for(given)?;
        if low > high[place] || low > caps[here] {
            return None;
        }
        let mut amount = part_of_slack(low, high[place], k + 1 - place);
        if amount > caps[here] {
            if !clamped {
                return None;
            }
            amount = caps[here];
        }
        if place == 1 {
            surplus = (u128::from(high[1] - low), u128::from(amount));
        }
        amounts[here] = amount;
        given = amount;
    }
    surplus.0 *= u128::from(amounts[0]);
    Some(Candidate { amounts, surplus })
}

/// (low^(k−1) · high)^(1/k), rounded, within `low..=high`; the lower is below 2³⁵, the higher at
/// most 2⁴².
fn part_of_slack(low: u64, high: u64, k: usize) -> u64 {
    let (low_wide, high_wide) = (u128::from(low), u128::from(high));
    let root = match k {
        2 => square_root(low_wide * high_wide),
        3 => cube_root(low_wide * low_wide * high_wide),
        4 => square_root(square_root(low_wide * high_wide) * low_wide),
        _ => unreachable!("rings have 2 to {RING_MAX} offers"),
    };
    u64::try_from(root).expect("no more than the greater").clamp(low, high)
}

/// Rounded to the nearest.
fn square_root(value: u128) -> u128 {
    let root = value.isqrt();
    root + u128::from(value - root * root > root)
}

/// Rounded to the nearest, of up to 2¹²³.
fn cube_root(value: u128) -> u128 {
    let mut root = 0;
    for bit in (0..41).rev() {
        let next = root | (1 << bit);
        if next * next * next <= value {
            root = next;
        }
    }
    root + u128::from((2 * root + 1).pow(3) < 8 * value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_terms::{NAMES, good, terms_between};
    use proptest::prelude::*;

    fn line(from: usize, to: usize, give: u64, want: u64, most: u64) -> Terms {
        let one = Terms::one(good(NAMES[from]), give, good(NAMES[to]), want);
        Terms { partial: true, most, ..one }
    }

    fn fit_all(ring: &[&Terms], available: u64) -> Option<Vec<u64>> {
        let sides: Vec<Side> = ring.iter().map(|&terms| Side { terms, available }).collect();
        Some(fit(&sides)?[..ring.len()].to_vec())
    }

    #[test]
    fn two_meet_at_the_geometric_mean() {
        // One wants 1 for 1, the other gives 4 for 1: the price is 2.
        let (a, b) = (line(0, 1, 100, 100, 1000), line(1, 0, 400, 100, 1000));
        assert_eq!(fit_all(&[&a, &b], 1000), Some(vec![100, 200]));
        // The paper's own case: complementary to the ticket.
        let (a, b) = (line(0, 1, 20, 10, 10), line(1, 0, 10, 20, 20));
        assert_eq!(fit_all(&[&a, &b], 1000), Some(vec![20, 10]));
    }

    #[test]
    fn a_price_does_not_depend_on_who_is_short() {
        let (a, b) = (line(0, 1, 100, 100, 12), line(1, 0, 400, 100, 1000));
        assert_eq!(fit_all(&[&a, &b], 1000), Some(vec![6, 12]));
        let (a, b) = (line(0, 1, 100, 100, 1000), line(1, 0, 400, 100, 1000));
        assert_eq!(fit_all(&[&a, &b], 10), Some(vec![5, 10]));
    }

    #[test]
    fn all_or_nothing_keeps_the_price_too() {
        // Wants just 200 for up to 100; the other would give 4 for 1: 200 for 71, not for 50 or 100.
        let a = Terms::one(good(NAMES[0]), 100, good(NAMES[1]), 200);
        let b = line(1, 0, 4000, 1000, 1000);
        assert_eq!(fit_all(&[&a, &b], 5000), Some(vec![71, 200]));
    }

    #[test]
    fn who_has_no_use_for_more_gets_the_most() {
        let a = Terms::one(good(NAMES[0]), 100, good(NAMES[1]), 150);
        let b = Terms::one(good(NAMES[1]), 200, good(NAMES[0]), 50);
        assert_eq!(fit_all(&[&a, &b], 1000), Some(vec![50, 150]));
    }

    #[test]
    fn each_of_three_gains_the_cube_root() {
        // Each gives 200 for 100: slack is 8, and each is to gain a factor of 2.
        let ring = [line(0, 1, 2000, 1000, 9000), line(1, 2, 2000, 1000, 9000)];
        let last = line(2, 0, 2000, 1000, 9000);
        assert_eq!(fit_all(&[&ring[0], &ring[1], &last], 9000), Some(vec![2000, 2000, 2000]));
    }

    #[test]
    fn rates_that_do_not_cross_fit_nowhere() {
        let (a, b) = (line(0, 1, 100, 101, 1000), line(1, 0, 1000, 1000, 1000));
        assert_eq!(fit_all(&[&a, &b], 1000), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_pair_fits_when_any_amounts_do(
            a in terms_between(0, 1), b in terms_between(1, 0), available in 1u64..40,
        ) {
            let ring = [Side { terms: &a, available }, Side { terms: &b, available }];
            let exists = (1..=available).any(|x| {
                (1..=available).any(|y| a.accept(x, y) && b.accept(y, x))
            });
            let found = fit(&ring);
            prop_assert_eq!(found.is_some(), exists);
            if let Some([x, y, ..]) = found {
                prop_assert!(a.accept(x, y) && b.accept(y, x) && x <= available && y <= available);
            }
        }

        #[test]
        fn a_ring_of_three_fits_when_any_amounts_do(
            a in terms_between(0, 1), b in terms_between(1, 2), c in terms_between(2, 0),
            available in 1u64..30,
        ) {
            let ring = [&a, &b, &c].map(|terms| Side { terms, available });
            let exists = (1..=available).any(|x| {
                (1..=available).any(|y| {
                    a.accept(x, y)
                        && (1..=available).any(|z| b.accept(y, z) && c.accept(z, x))
                })
            });
            let found = fit(&ring);
            prop_assert_eq!(found.is_some(), exists);
            if let Some([x, y, z, _]) = found {
                prop_assert!(a.accept(x, y) && b.accept(y, z) && c.accept(z, x));
            }
        }

        #[test]
        fn a_ring_of_four_is_accepted_by_all(
            a in terms_between(0, 1), b in terms_between(1, 2),
            c in terms_between(2, 3), d in terms_between(3, 0), available in 1u64..300,
        ) {
            let ring = [&a, &b, &c, &d].map(|terms| Side { terms, available });
            if let Some(amounts) = fit(&ring) {
                for (index, side) in ring.iter().enumerate() {
                    prop_assert!(side.terms.accept(amounts[index], amounts[(index + 1) % 4]));
                }
            }
        }

        #[test]
        fn roots_are_within(low in 1u64..1 << 34, high in 1u64..1 << 34, k in 2usize..=4) {
            let (low, high) = (low.min(high), low.max(high));
            let part = part_of_slack(low, high, k);
            #[allow(clippy::cast_precision_loss)]
            let exact = (low as f64) * (high as f64 / low as f64).powf(1.0 / k as f64);
            #[allow(clippy::cast_precision_loss)]
            let error = (part as f64 - exact).abs();
            prop_assert!(error <= 1.0 + exact * 1e-9, "{} {}", part, exact);
        }
    }
}
