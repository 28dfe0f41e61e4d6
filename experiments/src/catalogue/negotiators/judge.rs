//! The judgement of `negotiators` on real processes.

use crate::harness::negotiators::NegotiatorRecord;
use crate::report::comparison::Comparison;
use crate::report::plot::{Line, Panel, level, plain_panel};
use crate::report::statistics::mean;
use crate::report::verdict::Verdict;

/// Number of stretches with negotiators, of which the last count as the end.
pub(super) const STRETCHES: usize = 12;
pub(super) const LAST: usize = 4;
/// The part of the static exchange's gain that negotiators should find.
const GOAL: f64 = 0.8;
/// The most that may be lost where nothing can be gained, as a part.
const LOSS: f64 = 0.02;
/// The most that a negotiator may cost, as a part of what its client is due of the CPU.
const COST: f64 = 0.01;
/// The most reversals in any hour, by both.
const REVERSALS: usize = 12;

/// The work of two clients in a load.
pub(super) struct Load {
    pub name: &'static str,
    /// Progress without exchange.
    pub none: [f64; 2],
    /// The static exchange, in words, and the gain of both by it.
    pub fixed: Option<(String, f64)>,
    pub found: Traded,
}

/// The work of two clients with negotiators.
pub(super) struct Traded {
    /// The begin of files' names.
    pub file: &'static str,
    /// The part of the CPU that a client is due.
    pub due: f64,
    /// Progress of both, stretch by stretch.
    pub rates: Vec<[f64; 2]>,
    /// Length of each stretch, in s.
    pub seconds: f64,
    pub record: NegotiatorRecord,
    /// The tickets that each has by exchanges in the end, in words.
    pub held: Vec<String>,
}

impl Traded {
    /// Returns the mean of the stretches from one on.
    fn from(&self, first: usize) -> [f64; 2] {
        let of = |place: usize| -> Vec<f64> {
            self.rates[first..].iter().map(|both| both[place]).collect()
        };
        [0, 1].map(|place| mean(&of(place)).unwrap_or(0.0))
    }

    fn end(&self) -> [f64; 2] {
        self.from(self.rates.len().saturating_sub(LAST))
    }

    /// Returns the costs of both negotiators, as parts of what their clients are due of the CPU.
    fn costs(&self) -> [f64; 2] {
        let seconds = self.seconds * self.rates.len() as f64;
        self.record.cpu_seconds.map(|used| used / seconds / self.due)
    }
}

/// Returns the gain of two: the mean of the logarithms.
pub(super) fn gain(rates: [f64; 2], none: [f64; 2]) -> f64 {
    [0, 1].map(|place| (rates[place] / none[place]).ln()).iter().sum::<f64>() / 2.0
}

/// Judges one load.
pub(super) fn judge(load: &Load) -> Verdict {
    let Load { name, found, .. } = load;
    let mut verdict = Verdict::default();
    judge_gain(load, &mut verdict);
    let costs = found.costs();
    verdict.check(
        format!(
            "{name}: a negotiator costs at most {:.0} % of what its client is due of the CPU \
             ({:.2} and {:.2} %)",
            COST * 100.0,
            costs[0] * 100.0,
            costs[1] * 100.0
        ),
        costs.iter().all(|cost| *cost <= COST),
    );
    let back: usize = found.record.back.iter().sum();
    let what = format!("{name}: at most {REVERSALS} reversals in any hour ({back})");
    verdict.check(what, back <= REVERSALS);
    verdict.notes.extend(notes(load));
    verdict
}

/// Judges the gain in the end: by the static exchange's, or that nothing is lost.
fn judge_gain(load: &Load, verdict: &mut Verdict) {
    let Load { name, found, none, .. } = load;
    let best = load.fixed.as_ref().map(|(_, best)| *best);
    let end = gain(found.end(), *none);
    let whole = gain(found.from(0), *none);
    verdict.comparisons.push(
        Comparison::new(name, "gain in the end", "")
            .promising(Some(best.unwrap_or(0.0).exp()))
            .measured(Some(end.exp()), Some(1.0)),
    );
    match &load.fixed {
        Some((words, best)) => verdict.check(
            format!(
                "{name}: negotiators find {:.0} % of the gain of {words}, which is {:.2} times \
                 (goal: {:.0} %)",
                end / best * 100.0,
                best.exp(),
                GOAL * 100.0
            ),
            end >= GOAL * best,
        ),
        None => verdict.check(
            format!(
                "{name}: nothing is lost, {:.0} % aside (in the end {:.3}, over all {:.3})",
                LOSS * 100.0,
                end.exp(),
                whole.exp()
            ),
            end.exp() >= 1.0 - LOSS && whole.exp() >= 1.0 - LOSS,
        ),
    }
}

fn notes(load: &Load) -> [String; 2] {
    let Load { name, found, none, .. } = load;
    let of_both =
        |rates: [f64; 2]| format!("{:.2} and {:.2}", rates[0] / none[0], rates[1] / none[1]);
    let stretches: Vec<String> = found.rates.iter().map(|rates| of_both(*rates)).collect();
    let record = &found.record;
    [
        format!(
            "{name}: times of the progress of both, stretch by stretch: {}",
            stretches.join(", ")
        ),
        format!(
            "{name}: {} and {} steps kept, {} and {} taken back{}; the first has {}, the second {}",
            record.kept[0],
            record.kept[1],
            record.back[0],
            record.back[1],
            when_reached(load),
            found.held[0],
            found.held[1]
        ),
    ]
}

/// Describes when the goal was reached, where there is one.
fn when_reached(load: &Load) -> String {
    let Some((_, best)) = &load.fixed else { return String::new() };
    let found = &load.found;
    let enough = |rates: &[f64; 2]| gain(*rates, load.none) >= GOAL * best;
    match found.rates.iter().position(enough) {
        Some(stretch) => format!(
            "; {:.0} % of it after {:.0} s",
            GOAL * 100.0,
            (stretch + 1) as f64 * found.seconds
        ),
        None => format!("; {:.0} % of it in no stretch", GOAL * 100.0),
    }
}

/// Returns a panel of the gain over time.
pub(super) fn panel(load: &Load) -> Panel {
    let Load { found, none, .. } = load;
    let at = |stretch: usize| (stretch as f64 + 0.5) * found.seconds;
    let rates = found.rates.iter().enumerate();
    let points = rates.map(|(stretch, rates)| (at(stretch), gain(*rates, *none).exp())).collect();
    let end = found.seconds * found.rates.len() as f64;
    let mut lines = vec![
        Line { name: "with negotiators".to_owned(), points, dashed: false },
        level("no exchange", 0.0, end, 1.0),
    ];
    if let Some((_, best)) = &load.fixed {
        lines.push(level("static exchange", 0.0, end, best.exp()));
    }
    plain_panel(load.name, "time (s)", "times of the progress without exchange", lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_the_last_third() {
        let rates = (0..12).map(|at| [f64::from(at), 2.0 * f64::from(at)]).collect();
        let record = NegotiatorRecord::default();
        let found = Traded { file: "", due: 1.0, rates, seconds: 10.0, record, held: Vec::new() };
        assert_eq!(found.end(), [9.5, 19.0]);
        assert_eq!(found.from(0), [5.5, 11.0]);
        assert!((gain([2.0, 8.0], [1.0, 1.0]) - 4.0_f64.ln()).abs() < 1e-9);
    }
}
