//! What a negotiator remembers of each pair of goods: how large its steps are, how long it waits
//! before it tries again, and how cautious it has become.
//!
//! 1. A step that helped: the next may be at once, twice as large; waiting begins from the least again.
//! 2. One that hurt: half as large, half as cautious again. One that did nothing: twice as large.
//!    Both wait; each time twice as long as the last time.
//! 3. An offer that nobody took: waits too, twice as long each time, but less long.

use ledger::Good;
use std::collections::BTreeMap;

/// The first wait after a reversal, and the longest.
const WAIT_NS: (u64, u64) = (60_000_000_000, 3_600_000_000_000);
/// The first wait after nobody took an offer, and the longest.
const UNMET_NS: (u64, u64) = (15_000_000_000, 600_000_000_000);
/// The first step, the least and the greatest, in thousandths of what is one's own.
const STEPS: (u64, u64, u64) = (100, 20, 400);
/// How cautious one may become (see `curve`, rule 3).
const CAUTION_MOST: f64 = 8.0;

/// What is given for what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair {
    /// What is given.
    pub(crate) gives: Good,
    /// What is wanted.
    pub(crate) wants: Good,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    not_before_ns: u64,
    reversals: u32,
    unmet: u32,
    step: u64,
    caution: f64,
}

impl Default for Known {
    fn default() -> Self {
        Known { not_before_ns: 0, reversals: 0, unmet: 0, step: STEPS.0, caution: 1.0 }
    }
}

/// The memory.
#[derive(Debug, Default)]
pub(crate) struct Pairs(BTreeMap<Pair, Known>);

fn doubled((first_ns, longest_ns): (u64, u64), times: u32) -> u64 {
    first_ns.saturating_mul(1 << times.min(32)).min(longest_ns)
}

impl Pairs {
    fn of(&mut self, pair: &Pair) -> &mut Known {
        self.0.entry(pair.clone()).or_default()
    }

    /// Whether it may be tried now.
    pub(crate) fn may(&self, pair: &Pair, now_ns: u64) -> bool {
        self.0.get(pair).is_none_or(|known| known.not_before_ns <= now_ns)
    }

    /// How large the next step is, of what is one's `own`; at least 1.
    pub(crate) fn step(&self, pair: &Pair, own: u64) -> u64 {
        let thousandths = self.0.get(pair).map_or(STEPS.0, |known| known.step);
        let amount = u128::from(own) * u128::from(thousandths) / 1000;
        u64::try_from(amount).expect("no more than there is").max(1)
    }

    /// How much more is wanted than waiting alone would say.
    pub(crate) fn caution(&self, pair: &Pair) -> f64 {
        self.0.get(pair).map_or(1.0, |known| known.caution)
    }

    /// Somebody took an offer.
    pub(crate) fn met(&mut self, pair: &Pair) {
        self.of(pair).unmet = 0;
    }

    /// Nobody did (rule 3).
    pub(crate) fn unmet(&mut self, pair: &Pair, now_ns: u64) {
        let known = self.of(pair);
        known.not_before_ns = now_ns.saturating_add(doubled(UNMET_NS, known.unmet));
        known.unmet += 1;
    }

    /// Rule 1. Reversals are not forgotten: who gains in three steps and loses by the fourth
    /// would otherwise begin again every minute.
    pub(crate) fn helped(&mut self, pair: &Pair) {
        let known = self.of(pair);
        known.not_before_ns = 0;
        known.step = (known.step * 2).min(STEPS.2);
        known.caution = (known.caution * 0.9).max(1.0);
    }

    /// Rule 2.
    pub(crate) fn hurt(&mut self, pair: &Pair, now_ns: u64) {
        let known = self.of(pair);
        known.step = (known.step / 2).max(STEPS.1);
        known.caution = (known.caution * 1.5).min(CAUTION_MOST);
        self.back_off(pair, now_ns);
    }

    /// Rule 2.
    pub(crate) fn did_nothing(&mut self, pair: &Pair, now_ns: u64) {
        let known = self.of(pair);
        known.step = (known.step * 2).min(STEPS.2);
        self.back_off(pair, now_ns);
    }

    /// Waits longer than the last time.
    pub(crate) fn back_off(&mut self, pair: &Pair, now_ns: u64) {
        let known = self.of(pair);
        known.not_before_ns = now_ns.saturating_add(doubled(WAIT_NS, known.reversals));
        known.reversals += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_terms::{NAMES, good};

    #[test]
    fn in_an_hour_a_pair_is_taken_back_seven_times_at_most() {
        let pair = Pair { gives: good(NAMES[0]), wants: good(NAMES[1]) };
        let (mut pairs, mut times) = (Pairs::default(), Vec::new());
        for second in 0..6 * 3600 {
            let now_ns = second * 1_000_000_000;
            if pairs.may(&pair, now_ns) {
                pairs.hurt(&pair, now_ns);
                times.push(second);
            }
        }
        // At 0, 1, 3, 7, 15, 31 and, had it not an hour to end in, 63 minutes; then every hour.
        let first = times.iter().filter(|&&second| second < 3600).count();
        assert_eq!(first, 6, "{times:?}");
        assert!(times.windows(2).skip(7).all(|pair| pair[1] - pair[0] >= 3600), "{times:?}");
    }
}
