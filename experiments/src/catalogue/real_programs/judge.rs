//! The judgement of `real-programs`.

use crate::catalogue::real_programs::programs::Program;
use crate::report::comparison::Comparison;
use crate::report::statistics::mean;
use crate::report::verdict::Verdict;

/// Tickets of the two users.
pub(super) const TICKETS: [u64; 2] = [3000, 1000];
/// The greatest part by which the ratio of progress may differ from that of the tickets.
const RATIO_BOUND: f64 = 0.05;
/// The least that both do together, as a part of what they do under the default.
const THROUGHPUT_MIN: f64 = 0.95;

/// What one turn measured: the progress of each user.
pub(super) type Measured = [f64; 2];

/// Judges one program: what was measured under allot, and under the default.
pub(super) fn judge(program: &Program, allot: &[Measured], default: &[Measured]) -> Verdict {
    let mut verdict = Verdict::default();
    let promised = TICKETS[0] as f64 / TICKETS[1] as f64;
    let total =
        |turns: &[Measured]| mean(&turns.iter().map(|it| it[0] + it[1]).collect::<Vec<_>>());
    let user = |turns: &[Measured], index: usize| {
        mean(&turns.iter().map(|it| it[index]).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    let ratio = |turns: &[Measured]| Some(user(turns, 0) / user(turns, 1));
    let name = program.name;
    let ratios = Comparison::new(name, "ratio", "").measured(ratio(allot), ratio(default));
    verdict.comparisons.push(ratios.promising(Some(promised)));
    let together = Comparison::new(name, "together", program.unit);
    verdict.comparisons.push(together.measured(total(allot), total(default)));
    let found = ratio(allot).unwrap_or(0.0);
    let what = format!("{name}: the ratio is within 5 % of {promised:.0} ({found:.2})");
    verdict.check(what, (found / promised - 1.0).abs() <= RATIO_BOUND);
    let part = total(allot).unwrap_or(0.0) / total(default).unwrap_or(f64::INFINITY);
    let what =
        format!("{name}: both do at least 0.95 of what they do under the default ({part:.2})");
    verdict.check(what, part >= THROUGHPUT_MIN);
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::real_programs::programs::PROGRAMS;

    #[test]
    fn both_goals_are_judged() {
        let default = [[50.0, 50.0]];
        let oks = |allot: Measured| -> Vec<bool> {
            judge(&PROGRAMS[0], &[allot], &default).checks.iter().map(|it| it.ok).collect()
        };
        assert_eq!(oks([74.0, 25.0]), [true, true]);
        assert_eq!(oks([60.0, 40.0]), [false, true]);
        assert_eq!(oks([30.0, 10.0]), [true, false]);
        assert_eq!(oks([0.0, 0.0]), [false, false]);
    }
}
