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

/// What one user did in a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    /// Progress a second.
    pub progress: f64,
    /// CPU time used, the server's and the load's.
    pub used_s: f64,
}

/// What one turn measured, of each user.
pub(super) type Measured = [Side; 2];

/// The sum of both users.
fn both(turn: &Measured, of: fn(&Side) -> f64) -> f64 {
    turn.iter().map(of).sum()
}

fn progress(side: &Side) -> f64 {
    side.progress
}

fn used_s(side: &Side) -> f64 {
    side.used_s
}

/// The mean over turns.
fn over(turns: &[Measured], of: impl Fn(&Measured) -> f64) -> Option<f64> {
    mean(&turns.iter().map(of).collect::<Vec<_>>())
}

/// The ratio of the users' means over all turns.
fn ratio(turns: &[Measured], of: fn(&Side) -> f64) -> Option<f64> {
    Some(over(turns, |turn| of(&turn[0]))? / over(turns, |turn| of(&turn[1]))?)
}

/// Judges one program: what was measured under allot, and under the default.
pub(super) fn judge(program: &Program, allot: &[Measured], default: &[Measured]) -> Verdict {
    let mut verdict = Verdict::default();
    let promised = TICKETS[0] as f64 / TICKETS[1] as f64;
    let name = program.name;
    let compare = |quantity: &str, unit: &str, of: &dyn Fn(&[Measured]) -> Option<f64>| {
        Comparison::new(name, quantity, unit).measured(of(allot), of(default))
    };
    let ratios = compare("ratio", "", &|turns| ratio(turns, progress));
    verdict.comparisons.push(ratios.promising(Some(promised)));
    // A second of CPU time is worth more to who is interrupted less: weights share time and not progress.
    let of_time = compare("ratio of CPU time", "", &|turns| ratio(turns, used_s));
    verdict.comparisons.push(of_time.promising(Some(promised)));
    let together = |turns: &[Measured]| over(turns, |turn| both(turn, progress));
    verdict.comparisons.push(compare("together", program.unit, &together));
    // Others' load takes CPU time from both, and changes what a second of it does far less.
    let a_second =
        |turns: &[Measured]| over(turns, |turn| both(turn, progress) / both(turn, used_s));
    let unit = "parts of the default's";
    let efficiency = a_second(allot).zip(a_second(default)).map(|(allot, default)| allot / default);
    let by_time = Comparison::new(name, "by CPU time", unit).measured(efficiency, Some(1.0));
    verdict.comparisons.push(by_time);
    for (who, turns) in [("allot", allot), ("default", default)] {
        verdict.notes.push(format!("{name}, {who}, in turns: {}", words(turns, program.unit)));
    }
    let found = ratio(allot, progress).unwrap_or(0.0);
    let what = format!("{name}: the ratio is within 5 % of {promised:.0} ({found:.2})");
    verdict.check(what, (found / promised - 1.0).abs() <= RATIO_BOUND);
    let part = together(allot).unwrap_or(0.0) / together(default).unwrap_or(f64::INFINITY);
    let what =
        format!("{name}: both do at least 0.95 of what they do under the default ({part:.2})");
    verdict.check(what, part >= THROUGHPUT_MIN);
    verdict
}

/// Each turn in words, for the spread.
fn words(turns: &[Measured], unit: &str) -> String {
    let turn = |turn: &Measured| {
        let [rich, poor] = turn;
        format!(
            "{:.1} {unit} at {:.2}, {:.2} s of CPU time at {:.2}",
            both(turn, progress),
            rich.progress / poor.progress,
            both(turn, used_s),
            rich.used_s / poor.used_s
        )
    };
    turns.iter().map(turn).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::real_programs::programs::PROGRAMS;

    fn turn(rich: (f64, f64), poor: (f64, f64)) -> Measured {
        [rich, poor].map(|(progress, used_s)| Side { progress, used_s })
    }

    #[test]
    fn both_goals_are_judged() {
        let default = [turn((50.0, 1.0), (50.0, 1.0))];
        let oks = |rich: f64, poor: f64| -> Vec<bool> {
            let allot = [turn((rich, 1.5), (poor, 0.5))];
            judge(&PROGRAMS[0], &allot, &default).checks.iter().map(|it| it.ok).collect()
        };
        assert_eq!(oks(74.0, 25.0), [true, true]);
        assert_eq!(oks(60.0, 40.0), [false, true]);
        assert_eq!(oks(30.0, 10.0), [true, false]);
        assert_eq!(oks(0.0, 0.0), [false, false]);
    }

    #[test]
    fn what_others_take_shows_in_time_and_not_in_what_a_second_does() {
        let default = [turn((50.0, 1.0), (50.0, 1.0))];
        // Half of the time is others', and the ratio of time is not quite that of progress.
        let allot = [turn((30.0, 0.7), (15.0, 0.3))];
        let verdict = judge(&PROGRAMS[0], &allot, &default);
        let of = |quantity: &str| {
            let is_it = |it: &&Comparison| it.quantity == quantity;
            verdict.comparisons.iter().find(is_it).and_then(|it| it.allot).expect("measured")
        };
        assert!((of("ratio") - 2.0).abs() < 1e-9);
        assert!((of("ratio of CPU time") - 7.0 / 3.0).abs() < 1e-9);
        assert!((of("by CPU time") - 0.9).abs() < 1e-9);
    }
}
