//! The judgement of `disk-queue-depth`.

use crate::catalogue::disk_queue_depth::cells::{Cell, TURN_SECONDS};
use crate::harness::test_disk::DiskRule;
use crate::report::comparison::Comparison;
use crate::report::series::Series;
use crate::report::verdict::Verdict;

/// The part of each run that settles.
const SETTLE: f64 = 0.3;
/// The most by which a ratio may be off, as a part of it.
const OFF: f64 = 0.05;
/// At either end, one process has one turn more or less.
const TURNS_SECONDS: f64 = 2.0 * TURN_SECONDS;
/// Rounds of turns that have to be observed: with fewer, the number of turns of processes with few
/// tickets depends on when the observation begins.
const ROUNDS: f64 = 5.0;
/// The least total throughput, as a part of the best without shares.
const OF_BEST: f64 = 0.9;

/// The observations of a cell under one rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Observed {
    ratio: Option<f64>,
    total: f64,
    seconds: f64,
}

impl Observed {
    /// Observes the work after settling.
    pub fn of(series: &Series) -> Option<Observed> {
        let (end, last) = (*series.at.last()?, series.iterations.last()?);
        let begin = series.at.iter().position(|at| *at >= end * SETTLE)?;
        let first = &series.iterations[begin];
        let done: Vec<f64> =
            last.iter().zip(first).map(|(last, first)| (last - first) as f64).collect();
        let seconds = end - series.at[begin];
        let (heavy, light) = done.split_at(done.len() / 2);
        let [heavy, light] = [heavy, light].map(|group| group.iter().sum::<f64>());
        (seconds > 0.0).then(|| Observed {
            ratio: (light > 0.0).then(|| heavy / light),
            total: (heavy + light) / seconds,
            seconds,
        })
    }
}

/// Judges each rule of allot's in a cell against the default.
pub(super) fn judge(cell: &Cell, device: usize, seen: &[(DiskRule, Observed)]) -> Verdict {
    let mut verdict = Verdict::default();
    let default = seen.iter().find(|(rule, _)| *rule == DiskRule::Default).map(|(_, seen)| *seen);
    let [heavy, light] = cell.weights;
    let promised = heavy as f64 / light as f64;
    for (rule, found) in seen.iter().filter(|(rule, _)| *rule != DiskRule::Default) {
        let what = format!("{}: {}", rule.name(), cell.name());
        verdict.comparisons.push(
            Comparison::new(&what, "ratio", ":1")
                .promising(Some(promised))
                .measured(found.ratio, default.and_then(|seen| seen.ratio)),
        );
        verdict.comparisons.push(
            Comparison::new(&what, "iterations", "1/s")
                .measured(Some(found.total), default.map(|seen| seen.total)),
        );
        if let Some(why) = cell.explained(device) {
            verdict.notes.push(format!("{what}: not judged: {why}"));
            continue;
        }
        judge_ratio(&what, cell, *rule, found, &mut verdict);
        if let Some(best) = default.map(|seen| seen.total).filter(|best| *best > 0.0) {
            let part = found.total / best * 100.0;
            let what = format!(
                "{what}: all together do {part:.0} % of what they do without shares, at least 90"
            );
            verdict.check(what, found.total >= OF_BEST * best);
        }
    }
    verdict
}

/// Judges the ratio of a cell, if enough rounds of turns were observed.
fn judge_ratio(what: &str, cell: &Cell, rule: DiskRule, found: &Observed, verdict: &mut Verdict) {
    let [heavy, light] = cell.weights;
    let promised = heavy as f64 / light as f64;
    let round_seconds = cell.round_seconds();
    let (bound, is_long) = match rule {
        DiskRule::Bfq => {
            (OFF + TURNS_SECONDS / found.seconds, found.seconds >= ROUNDS * round_seconds)
        }
        _ => (OFF, true),
    };
    let ratio = found.ratio.unwrap_or(f64::INFINITY);
    match is_long {
        true => verdict.check(
            format!(
                "{what}: the ratio is {promised:.2}:1 within {:.1} % ({ratio:.2}:1)",
                bound * 100.0
            ),
            (ratio / promised - 1.0).abs() <= bound,
        ),
        false => verdict.notes.push(format!(
            "{what}: the ratio ({ratio:.2}:1) is not judged: a round of turns on this device takes \
             {round_seconds:.1} s, and {:.1} s were measured",
            found.seconds
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::disk_queue_depth::cells::LoadKind;

    #[test]
    fn what_is_done_after_settling_counts() {
        let series = Series {
            at: vec![0.0, 2.9, 3.0, 10.0],
            iterations: vec![vec![0, 0], vec![500, 10], vec![500, 10], vec![1200, 185]],
            used_ns: vec![vec![0, 0]; 4],
        };
        let seen = Observed::of(&series).unwrap();
        assert_eq!((seen.ratio, seen.total, seen.seconds), (Some(4.0), 125.0, 7.0));
        assert_eq!(Observed::of(&Series::default()), None);
    }

    #[test]
    fn a_ratio_is_judged_over_some_rounds_of_turns() {
        assert_eq!(Cell::of(LoadKind::Direct, 2, [4, 1]).round_seconds(), 0.625);
        let cell = Cell::of(LoadKind::Direct, 16, [4, 1]);
        assert_eq!(cell.round_seconds(), 5.0);
        let checks = |rule, seconds| {
            let seen = |total| Observed { ratio: Some(5.0), total, seconds };
            let verdict = judge(&cell, 1, &[(rule, seen(95.0)), (DiskRule::Default, seen(100.0))]);
            assert_eq!(verdict.checks.len() + verdict.notes.len(), 2, "{verdict:?}");
            verdict.checks.iter().map(|check| check.ok).collect::<Vec<_>>()
        };
        assert_eq!(checks(DiskRule::Bfq, 24.0), [true], "what it costs is");
        assert_eq!(checks(DiskRule::Bfq, 25.0), [false, true]);
        assert_eq!(checks(DiskRule::Iocost, 8.0), [false, true], "iocost has no turns");
    }

    #[test]
    fn the_verdict_is_of_ratio_and_cost() {
        let cell = Cell::of(LoadKind::Direct, 2, [2, 3]);
        let seen = |ratio, total| Observed { ratio: Some(ratio), total, seconds: 10.0 };
        let verdict = |ratio: f64, total: f64| {
            let rules =
                [(DiskRule::Bfq, seen(ratio, total)), (DiskRule::Default, seen(1.0, 100.0))];
            let verdict = judge(&cell, 1, &rules);
            assert_eq!(verdict.comparisons.len(), 2);
            verdict.checks.iter().map(|check| check.ok).collect::<Vec<_>>()
        };
        assert_eq!(verdict(0.67, 95.0), [true, true]);
        assert_eq!(verdict(0.92, 95.0), [false, true]);
        assert_eq!(verdict(0.65, 80.0), [true, false]);
    }
}
