//! The judgement of `spawn`.

use crate::report::bound::bound;
use crate::report::comparison::Comparison;
use crate::report::setting::Selection;
use crate::report::statistics::mean;
use crate::report::verdict::Verdict;

/// The least bound of a share: CPU time of processes is counted in ticks, and a quantum that ends
/// in a fork is cut.
const LEAST_BOUND: f64 = 0.05;

/// The measurements of one slice.
pub(super) struct Measured {
    pub used_seconds: f64,
    pub seconds: f64,
    pub share: f64,
    pub rounds: f64,
}

/// Judges one kind of short processes by its slices: allot's, and the default's.
pub(super) fn judge(
    name: &str,
    paper: &str,
    measured: &[Vec<Measured>; 2],
    selection: &Selection,
    verdict: &mut Verdict,
) {
    let both = |what: fn(&Measured) -> f64| {
        let [allot, default] = measured;
        [allot, default].map(|slices| mean(&slices.iter().map(what).collect::<Vec<_>>()))
    };
    let mut put = |comparison: Comparison, [allot, default]: [Option<f64>; 2]| {
        verdict.comparisons.push(comparison.measured(allot, default));
    };
    let share = both(|one| one.share * 100.0);
    put(Comparison::new(name, "its currency's share", "%").promising(Some(50.0)), share);
    let of_cpu = both(|one| one.used_seconds / one.seconds * 100.0);
    put(Comparison::new(name, "both have of the CPU", "%"), of_cpu);
    put(Comparison::new(name, "rounds", "1/s").paper(paper), both(|one| one.rounds));
    let used: f64 = measured[0].iter().map(|one| one.used_seconds).sum();
    let draws = used / selection.quantum.as_secs_f64();
    let bound = bound(selection, &[0.5], 1.0, draws).max(LEAST_BOUND);
    let share = share[0].unwrap_or(0.0) / 100.0;
    let what = format!(
        "{name}: the currency of short processes gets its half, within {:.1} percentage points \
         ({:.1} %)",
        bound * 100.0,
        share * 100.0
    );
    verdict.check(what, (share - 0.5).abs() <= bound);
}
