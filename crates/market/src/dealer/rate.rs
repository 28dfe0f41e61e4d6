//! Rates: what an offer wants for one ticket of what it gives.
//!
//! Compared exactly within a queue, by logarithms (in integers, so that they are the same on every
//! machine) between queues.

use ledger::{Point, Terms};
use std::cmp::Ordering;

/// Binary places of a logarithm.
const PLACES: u32 = 32;

/// The difference of logarithms that rounding can make in a ring of four.
pub(super) const LOG_ERROR: i64 = 16;

/// What a curve gives at most beyond its end: 2⁸ times what there can be, so that the products of
/// three stay below 2¹²⁸.
const BEYOND_MAX: u64 = 1 << 42;

/// The least that terms want for what they give: no acceptable exchange is at a lower rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    want: u64,
    give: u64,
}

impl Rate {
    /// The lowest rate of the curve: on a line between two points it is at one of them, so the
    /// points are looked at, and where the least and the most that are wanted cut the curve.
    /// `None` where the terms accept nothing.
    pub(super) fn lowest(terms: &Terms) -> Option<Rate> {
        let least = terms.least.max(1);
        let points = terms.points.iter().filter(|point| point.want <= terms.most);
        points
            .map(|point| Rate { want: point.want.max(least), give: point.give })
            .chain([least, terms.most].into_iter().filter_map(|get| Rate::at(terms, get)))
            .min()
    }

    /// The rate where a curve is cut, without rounding to tickets.
    fn at(terms: &Terms, get: u64) -> Option<Rate> {
        let (below, next) = around(terms, get);
        let Some(next) = next.filter(|_| terms.partial) else {
            return (below.give > 0).then_some(Rate { want: get, give: below.give });
        };
        let (rise, run) = (next.give - below.give, next.want - below.want);
        let want = u128::from(get) * u128::from(run);
        let give = u128::from(below.give) * u128::from(run)
            + u128::from(rise) * u128::from(get - below.want);
        // Below 2⁷⁰; shortened so that two of them can be multiplied, and never to a higher rate.
        let shift = (128 - want.max(give).leading_zeros()).saturating_sub(63);
        let short = |value: u128| u64::try_from(value).expect("shortened");
        let (want, give) = (short(want >> shift), short(give.div_ceil(1 << shift)));
        (give > 0).then_some(Rate { want, give })
    }

    /// By how many millionths the product of two rates is above 1, rounded up; `None` where it is
    /// not, and the two can meet.
    pub(super) fn gap_millionths(self, other: Rate) -> Option<u64> {
        let wanted = u128::from(self.want) * u128::from(other.want);
        let given = u128::from(self.give) * u128::from(other.give);
        let above = wanted.checked_sub(given).filter(|&above| above > 0)?;
        Some(u64::try_from((above * 1_000_000).div_ceil(given)).unwrap_or(u64::MAX))
    }

    /// The logarithm to base 2 of the rate, times 2³².
    pub(super) fn log(self) -> i64 {
        log2(self.want) - log2(self.give)
    }
}

impl Ord for Rate {
    fn cmp(&self, other: &Self) -> Ordering {
        let scaled = |rate: &Rate, by: &Rate| u128::from(rate.want) * u128::from(by.give);
        scaled(self, other).cmp(&scaled(other, self))
    }
}

/// 1:2 is the rate 2:4.
impl PartialEq for Rate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Rate {}

impl PartialOrd for Rate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The most that the curve gives for `get`, however much more than the most that is; `None` where
/// it gives nothing. The inverse of [`Terms::want_for`].
pub(super) fn give_for(terms: &Terms, get: u64) -> Option<u64> {
    if get < terms.least.max(1) {
        return None;
    }
    let (below, next) = around(terms, get);
    let part = match next {
        Some(next) if terms.partial => {
            let part = u128::from(next.give - below.give) * u128::from(get - below.want)
                / u128::from(next.want - below.want);
            u64::try_from(part).expect("less than the points are apart")
        }
        _ => 0,
    };
    (below.give + part > 0).then_some(below.give + part)
}

/// The same as if the curve went on beyond its end at the rate that it has there. A price is about
/// rates: that somebody has no more to give does not make it cheaper.
pub(super) fn give_beyond(terms: &Terms, get: u64) -> Option<u64> {
    let end = *terms.points.last()?;
    let want = end.want.max(terms.least);
    if get <= want {
        return give_for(terms, get);
    }
    let give = u128::from(end.give) * u128::from(get) / u128::from(want);
    Some(u64::try_from(give.min(u128::from(BEYOND_MAX))).expect("bounded"))
}

/// The last point that `get` reaches, 0 if none, and the one after it.
fn around(terms: &Terms, get: u64) -> (Point, Option<Point>) {
    let reached = terms.points.iter().rposition(|point| point.want <= get);
    let below = reached.map_or(Point { give: 0, want: 0 }, |index| terms.points[index]);
    (below, terms.points.get(reached.map_or(0, |index| index + 1)).copied())
}

/// The logarithm to base 2 of `value`, at least 1, times 2³², rounded down.
fn log2(value: u64) -> i64 {
    let whole = value.ilog2();
    // The mantissa in [1, 2) with 63 places; squaring it yields one binary place after another.
    let mut mantissa = u128::from(value) << (63 - whole);
    let mut log = i64::from(whole);
    for _ in 0..PLACES {
        mantissa = (mantissa * mantissa) >> 63;
        let bit = mantissa >> 64;
        mantissa >>= bit;
        log = (log << 1) | i64::try_from(bit).expect("a bit");
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_terms::terms;
    use proptest::prelude::*;

    #[test]
    fn logarithms_are_those_of_the_library() {
        for value in [1u64, 2, 3, 10, 1000, 65_535, 1 << 34, u64::MAX] {
            #[allow(clippy::cast_precision_loss)]
            let (ours, theirs) = (log2(value) as f64 / 4_294_967_296.0, (value as f64).log2());
            assert!((ours - theirs).abs() < 1e-9, "{value}: {ours} {theirs}");
        }
    }

    proptest! {
        #[test]
        fn what_is_given_is_the_inverse_of_what_is_wanted(terms in terms(), get in 1u64..300) {
            let most = (1..=terms.give_most())
                .rev()
                .find(|&give| terms.want_for(give).is_some_and(|want| want <= get));
            prop_assert_eq!(give_for(&terms, get), most);
        }

        #[test]
        fn nothing_is_accepted_below_the_lowest_rate(terms in terms()) {
            let lowest = Rate::lowest(&terms);
            for give in 1..=terms.give_most() {
                let want = terms.want_for(give).expect("within");
                if terms.accept(give, want) {
                    let at_least = lowest.is_some_and(|lowest| lowest <= Rate { want, give });
                    prop_assert!(at_least, "{} for {}", want, give);
                }
            }
        }
    }
}
