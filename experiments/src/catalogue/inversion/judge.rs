//! The judgement of `inversion`.

use crate::harness::trial_slice::CpuRule;
use crate::report::comparison::Comparison;
use crate::report::statistics::{mean, percentile};
use crate::report::verdict::Verdict;

/// Tickets of the holder's, the waiter's and the hogs' currency.
pub(super) const LOW: u64 = 50;
pub(super) const HIGH: u64 = 950;
pub(super) const MEDIUM: u64 = 900;
/// The most that an average wait may be with transfers, as a part of what it is without.
const SHORTER: f64 = 0.5;

/// The observations of one lock under one rule.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    pub waits_ms: Vec<f64>,
    /// Number of waits that ended while they were measured.
    pub over: usize,
    pub holds: u64,
    pub holder_ns: u64,
    pub seconds: f64,
}

impl Observed {
    fn count(&self) -> f64 {
        self.waits_ms.len() as f64
    }

    fn average(&self) -> Option<f64> {
        mean(&self.waits_ms)
    }

    /// Returns the CPU time of a hold, in ms.
    fn hold(&self) -> Option<f64> {
        (self.holds > 0).then(|| self.holder_ns as f64 / 1e6 / self.holds as f64)
    }
}

/// Judges one lock; `of` has the observations under a rule, if it was tried.
pub(super) fn judge<'a>(
    name: &str,
    cpus: usize,
    of: &dyn Fn(CpuRule) -> Option<&'a Observed>,
    verdict: &mut Verdict,
) {
    let rules = [CpuRule::Allot, CpuRule::AllotWithoutTransfers, CpuRule::Default].map(of);
    let [allot, without, default] = rules;
    type Value<'v> = &'v dyn Fn(&Observed) -> Option<f64>;
    let mut put = |quantity: &str, unit: &str, value: Value, promised: Option<f64>| {
        let mut comparison = Comparison::new(name, quantity, unit)
            .promising(promised)
            .measured(allot.and_then(value), default.and_then(value));
        comparison.allot_without_transfers = without.and_then(value);
        verdict.comparisons.push(comparison);
    };
    // While one waits and lends, the holder has what both have of what all have: one CPU at most.
    let part = (LOW + HIGH) as f64 / (LOW + MEDIUM + HIGH) as f64;
    let lent = allot.and_then(Observed::hold).map(|ms| ms / (part * cpus as f64).min(1.0));
    put("hold, CPU", "ms", &Observed::hold, None);
    put("wait, average", "ms", &Observed::average, lent.filter(|_| without.is_some()));
    put("wait, p99", "ms", &|it| percentile(&it.waits_ms, 0.99), None);
    put("wait, worst", "ms", &|it| percentile(&it.waits_ms, 1.0), None);
    put("waits", "", &|it| Some(it.count()), None);
    let Some(without) = without else {
        let waits = allot.map_or(0, |it| it.over);
        verdict.check(format!("{name}: who waits gets the lock ({waits} times)"), waits > 0);
        return;
    };
    // Where no wait began, the holder has not got as far as to take the lock again.
    let least = without.average().unwrap_or(without.seconds * 1000.0);
    let with = allot.and_then(Observed::average);
    let shown = with.map_or("none".to_owned(), |with| format!("{with:.1} ms"));
    let what = format!(
        "{name}: with transfers the average wait is at most half of what it is without ({shown}, \
         {least:.1} ms)"
    );
    verdict.check(what, with.is_some_and(|with| with <= SHORTER * least));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict() {
        let seen = |ms: &[f64]| Observed {
            waits_ms: ms.to_vec(),
            over: ms.len(),
            holds: 2,
            holder_ns: 40_000_000,
            seconds: 4.0,
        };
        let verdict = |with: &Observed, without: Option<&Observed>| {
            let default = seen(&[100.0]);
            let of = |rule| match rule {
                CpuRule::Allot => Some(with),
                CpuRule::AllotWithoutTransfers => without,
                CpuRule::Default => Some(&default),
            };
            let mut verdict = Verdict::default();
            judge("mutex", 1, &of, &mut verdict);
            let Verdict { comparisons, checks, .. } = verdict;
            assert_eq!(comparisons[0].allot, Some(20.0));
            let promised = comparisons[1].promised;
            assert_eq!(promised.map(f64::round), without.map(|_| 38.0));
            checks[0].ok
        };
        assert!(verdict(&seen(&[40.0, 42.0]), Some(&seen(&[400.0]))));
        assert!(!verdict(&seen(&[300.0]), Some(&seen(&[400.0]))));
        assert!(verdict(&seen(&[300.0]), Some(&seen(&[]))), "in vain for four seconds");
        assert!(!verdict(&seen(&[]), Some(&seen(&[]))));
        assert!(verdict(&seen(&[300.0]), None));
        assert!(!verdict(&seen(&[]), None));
    }
}
