//! The judgement of `disk-shares`.

use crate::harness::test_disk::DiskRule;
use crate::report::comparison::Comparison;
use crate::report::series::Series;
use crate::report::types::Check;
use crate::report::verdict::Verdict;

/// Size of each client's file.
pub(super) const MIB: u64 = 16;
pub(super) const PAGES: u64 = MIB * 256;
/// The part of each run that settles: BFQ lets some of the clients that were at work before their
/// weights came wait for seconds, however long the run.
pub(super) const SETTLE: f64 = 0.3;
/// The fewest seconds that settle, where the run is twice as long.
pub(super) const SETTLE_SECONDS: f64 = 8.0;
/// The most by which the ratio may be off, as a part of it, besides what one turn of BFQ's makes.
const OFF: f64 = 0.05;
/// BFQ serves one client for up to 125 ms (`timeout_sync`): at either end, one has one turn more or
/// less.
const TURNS_SECONDS: f64 = 0.25;

/// The observations of one rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Observed {
    /// Pages of the first client for one page of the others, on average.
    ratio: f64,
    /// The fewest pages of the others, as a part of their average.
    least: f64,
    /// The most pages of the others, as a part of their average.
    most: f64,
    /// Pages of all a second.
    total: f64,
    /// The begin of what counts, in s from the start.
    from: f64,
    /// The end, in s from the start.
    at: f64,
    /// Whether the first client was done by then.
    is_done: bool,
}

impl Observed {
    /// Observes the work after settling.
    pub fn of(series: &Series) -> Option<Observed> {
        let (pages, at) = (series.iterations.last()?, *series.at.last()?);
        let settle = (at * SETTLE).max(SETTLE_SECONDS.min(at / 2.0));
        let begin = series.at.iter().position(|at| *at >= settle)?;
        let from = series.at[begin];
        let done: Vec<u64> =
            pages.iter().zip(&series.iterations[begin]).map(|(last, first)| last - first).collect();
        let (first, others) = done.split_first()?;
        let average = others.iter().sum::<u64>() as f64 / others.len() as f64;
        if average <= 0.0 || at <= from {
            return None;
        }
        let part = |count: Option<&u64>| count.map_or(0.0, |count| *count as f64 / average);
        Some(Observed {
            ratio: *first as f64 / average,
            least: part(others.iter().min()),
            most: part(others.iter().max()),
            total: done.iter().sum::<u64>() as f64 / (at - from),
            from,
            at,
            is_done: pages[0] >= PAGES,
        })
    }

    /// Returns the most by which the ratio may be off.
    fn bound(&self) -> f64 {
        4.0 * (OFF + TURNS_SECONDS / (self.at - self.from))
    }
}

/// Judges each rule of allot's against the default.
pub(super) fn judge(seen: &[(DiskRule, Observed)]) -> Verdict {
    let mut verdict = Verdict::default();
    let default = seen.iter().find(|(rule, _)| *rule == DiskRule::Default).map(|(_, seen)| *seen);
    let is_allots = |(rule, _): &&(DiskRule, Observed)| *rule != DiskRule::Default;
    for (rule, found) in seen.iter().filter(is_allots) {
        let mut put =
            |quantity: &str, unit: &str, of: fn(&Observed) -> f64, promised, paper: &str| {
                verdict.comparisons.push(
                    Comparison::new(rule.name(), quantity, unit)
                        .promising(promised)
                        .measured(Some(of(found)), default.as_ref().map(of))
                        .paper(paper),
                );
            };
        put("hard for one soft", ":1", |seen| seen.ratio, Some(4.0), "4.1");
        put("least soft", "of average", |seen| seen.least, Some(1.0), "overlap");
        put("most soft", "of average", |seen| seen.most, Some(1.0), "overlap");
        put("pages", "1/s", |seen| seen.total, None, "-");
        let (bound, ratio) = (found.bound(), found.ratio);
        let when = match found.is_done {
            true => "until the hard share's client had touched its file",
            false => "to the end",
        };
        verdict.checks.push(Check {
            what: format!(
                "{}: the ratio is 4:1 within {bound:.2} from {:.1} s after the start {when} at {:.1} s ({ratio:.2}:1)",
                rule.name(),
                found.from,
                found.at
            ),
            ok: (ratio - 4.0).abs() <= bound,
        });
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the series of three moments.
    fn series(at: [f64; 3], pages: [[u64; 5]; 3]) -> Series {
        Series {
            at: at.to_vec(),
            iterations: pages.map(|pages| pages.to_vec()).to_vec(),
            used_ns: vec![vec![0; 5]; 3],
        }
    }

    #[test]
    fn the_ratio_is_of_the_others_average_after_settling() {
        let early = [96, 0, 10, 90, 0];
        let late = [4096, 1000, 1020, 1080, 1000];
        let seen = Observed::of(&series([0.0, 16.0, 41.0], [[0; 5], early, late])).unwrap();
        assert!((seen.ratio - 4.0).abs() < 1e-9 && seen.is_done, "{seen:?}");
        assert!((seen.least - 0.99).abs() < 1e-9 && (seen.most - 1.01).abs() < 1e-9, "{seen:?}");
        assert_eq!((seen.from, seen.at, seen.total), (16.0, 41.0, 320.0));
        assert!((seen.bound() - 0.24).abs() < 1e-9);
        // A part of long runs, a time of shorter ones, half of those that are shorter yet.
        let from = |at: [f64; 3]| Observed::of(&series(at, [[0; 5], [0; 5], late])).unwrap().from;
        assert_eq!(from([0.0, 30.0, 100.0]), 30.0);
        assert_eq!(from([0.0, 8.0, 18.0]), 8.0);
        assert_eq!(from([0.0, 6.0, 12.0]), 6.0);
        // Nothing is seen of who did nothing, nor of nothing at all.
        assert_eq!(Observed::of(&series([0.0, 9.0, 18.0], [[0; 5], early, early])), None);
        assert_eq!(Observed::of(&Series::default()), None);
    }
}
