//! The judgement of `latency`.

use crate::report::comparison::Comparison;
use crate::report::statistics::{mean, percentile};
use crate::report::types::Check;
use crate::report::verdict::Verdict;
use crate::workloads::interactive::{InteractiveProgram, wants};

/// A latency is no worse if it is at most so many times the default's, and so many ms more:
/// the spread of repeated measurements, and the resolution of timers.
const SAME: f64 = 1.1;
const SAME_MS: f64 = 0.05;
/// The most times that any latency may be worse.
const WORST: f64 = 2.0;
/// The part of the cells that must be no worse.
const CELLS: f64 = 0.75;
/// The part of its due that each side must have.
const KEPT: f64 = 0.9;

/// The measurements of one program beside one load under one rule.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    pub late_ms: Vec<f64>,
    pub met: u64,
    pub due: u64,
    pub own_ns: u64,
    pub load_ns: u64,
    pub seconds: f64,
}

/// The measurements of one program beside one load under both rules.
pub(super) struct Pair<'a> {
    pub program: InteractiveProgram,
    pub load: &'a str,
    pub allot: Cell,
    pub default: Cell,
}

impl Cell {
    fn p99(&self) -> Option<f64> {
        percentile(&self.late_ms, 0.99)
    }

    /// Returns its part of the CPU time of both sides.
    fn share(&self) -> f64 {
        self.own_ns as f64 / ((self.own_ns + self.load_ns) as f64).max(1.0)
    }
}

/// Judges all cells.
pub(super) fn judge(pairs: &[Pair]) -> Verdict {
    let mut verdict = Verdict {
        comparisons: pairs.iter().flat_map(comparisons).collect(),
        checks: against_default(pairs),
        notes: Vec::new(),
    };
    // Beside a load that takes all it can get, shares say whether both sides keep theirs.
    verdict.checks.extend(pairs.iter().filter(|pair| pair.load == "burn").map(keeps_its_due));
    verdict
}

fn comparisons(pair: &Pair) -> Vec<Comparison> {
    let what = format!("{}, {}", pair.program.name(), pair.load);
    let mut comparisons = Vec::new();
    let mut put = |quantity: &str, unit: &str, of: &dyn Fn(&Cell) -> Option<f64>| {
        let comparison = Comparison::new(&what, quantity, unit);
        comparisons.push(comparison.measured(of(&pair.allot), of(&pair.default)));
    };
    put("average", "ms", &|cell| mean(&cell.late_ms));
    put("p99", "ms", &Cell::p99);
    put("worst", "ms", &|cell| percentile(&cell.late_ms, 1.0));
    put("deadlines met", "%", &|cell| {
        (cell.due > 0).then(|| cell.met as f64 * 100.0 / cell.due as f64)
    });
    put("its CPU", "%", &|cell| Some(cell.own_ns as f64 / 1e7 / cell.seconds.max(1e-9)));
    put("load's CPU", "%", &|cell| Some(cell.load_ns as f64 / 1e7 / cell.seconds.max(1e-9)));
    put("wake-ups", "", &|cell| Some(cell.late_ms.len() as f64));
    comparisons
}

/// Checks the latencies against the kernel's default.
fn against_default(pairs: &[Pair]) -> Vec<Check> {
    let mut worse = Vec::new();
    let mut twice = Vec::new();
    let mut strictly = 0;
    for pair in pairs {
        let name = || format!("{} beside {}", pair.program.name(), pair.load);
        match (pair.allot.p99(), pair.default.p99()) {
            (Some(allot), Some(default)) => {
                strictly += usize::from(allot <= default);
                if allot > default * SAME + SAME_MS {
                    worse.push(name());
                }
                if allot > default * WORST + SAME_MS {
                    twice.push(name());
                }
            }
            // Never awake under allot.
            (None, _) => twice.push(name()),
            _ => {}
        }
    }
    let list = |names: &[String]| match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    let total = pairs.len();
    let good = total - worse.len();
    vec![
        Check {
            what: format!(
                "p99 is no worse than the kernel's default (at most {SAME} times, and {SAME_MS} \
                 ms) in three quarters of the cells: {good} of {total}, in {strictly} of them not \
                 at all; worse: {}",
                list(&worse)
            ),
            ok: good as f64 >= CELLS * total as f64,
        },
        Check {
            what: format!(
                "p99 is nowhere more than {WORST} times the default's; where it is: {}",
                list(&twice)
            ),
            ok: twice.is_empty(),
        },
    ]
}

/// Checks that both sides have what they are due.
fn keeps_its_due(pair: &Pair) -> Check {
    let due = wants(pair.program, 0.5);
    let (own, rest) = (pair.allot.share(), 1.0 - pair.allot.share());
    Check {
        what: format!(
            "{} beside {}: each side keeps {:.0} % of what it is due ({:.0} % of the CPU for \
             {due:.2}, {:.0} % for 0.50)",
            pair.program.name(),
            pair.load,
            KEPT * 100.0,
            own * 100.0,
            rest * 100.0
        ),
        ok: own >= KEPT * due && rest >= KEPT * 0.5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(p99: f64, own: u64) -> Cell {
        Cell { late_ms: vec![p99; 10], own_ns: own, load_ns: 100 - own, ..Cell::default() }
    }

    #[test]
    fn the_verdict() {
        let program = InteractiveProgram::Video;
        let pair = |load, allot, default| {
            let (allot, default) = (cell(allot, 40), cell(default, 40));
            Pair { program, load, allot, default }
        };
        let same = || pair("none", 1.0, 1.0);
        let checks = |pairs: &[Pair]| judge(pairs).checks;
        let ok = |pairs: &[Pair]| checks(pairs).iter().map(|check| check.ok).collect::<Vec<_>>();
        assert_eq!(ok(&[same(), same(), same(), pair("read", 1.9, 1.0)]), [true; 2]);
        assert_eq!(ok(&[same(), pair("read", 1.9, 1.0)]), [false, true]);
        let bad = [same(), same(), same(), pair("read", 2.5, 1.0)];
        assert_eq!(ok(&bad), [true, false]);
        assert!(checks(&bad)[1].what.contains("video beside read"));
        assert_eq!(ok(&[pair("burn", 1.0, 1.0)]), [true; 3]);
        let starved = Pair { program, load: "burn", allot: cell(1.0, 20), default: cell(1.0, 40) };
        assert_eq!(ok(&[starved]), [true, true, false]);
        let program = InteractiveProgram::Audio;
        let silent = Pair { program, load: "none", allot: Cell::default(), default: cell(1.0, 5) };
        assert_eq!(ok(&[silent]), [true, false]);
    }
}
