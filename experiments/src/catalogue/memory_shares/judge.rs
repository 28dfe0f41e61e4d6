//! The judgement of `memory-shares`, and of other experiments with its readers.

use crate::harness::memory_trace::{IN_USE, KIB, Reader, SteadyState};
use crate::report::comparison::Comparison;
use crate::report::types::Check;
use crate::report::verdict::Verdict;

/// Limit of all readers together. Paper 1 left 4.2 MB of 8 to clients; here the kernel's own memory
/// is outside the limit.
pub(in crate::catalogue) const LIMIT_MIB: u64 = 8;
/// The readers, with the paper's guarantees of 500 and 350 pages (its 2 MB is 2000 KB).
pub(in crate::catalogue) const READERS: [Reader; 4] =
    [reader("A", 2048), reader("B", 1400), reader("C", 0), reader("D", 0)];

const fn reader(name: &'static str, guaranteed_kib: u64) -> Reader {
    Reader { name, guaranteed_kib, guest: false, file_mib: 16 }
}

/// Judges the readers under allot, under the kernel alone, and under allot when tickets are
/// deactivated at every block.
pub(super) fn judge(
    allot: &SteadyState,
    kernel: Option<&SteadyState>,
    at_blocks: &SteadyState,
) -> Verdict {
    let mut verdict = Verdict::default();
    let measured = |steady: &SteadyState, of: &dyn Fn(&SteadyState) -> f64| {
        (steady.looks > 0).then(|| of(steady) / KIB)
    };
    for (place, reader) in READERS.iter().enumerate() {
        let promised = (reader.guaranteed_kib > 0).then_some(reader.guaranteed_kib as f64);
        let title = reader.title();
        let mean = |steady: &SteadyState| steady.mean[place];
        let least = |steady: &SteadyState| steady.least[place] as f64;
        let mut put = |quantity: &str, allot: Option<f64>, default: Option<f64>| {
            let comparison = Comparison::new(&title, quantity, "KiB").measured(allot, default);
            verdict.comparisons.push(comparison.promising(promised));
        };
        let of_kernel = |of: &dyn Fn(&SteadyState) -> f64| kernel.and_then(|it| measured(it, of));
        put("held on average", measured(allot, &mean), of_kernel(&mean));
        put("the least of any look", measured(allot, &least), of_kernel(&least));
        put("figure 6: average", measured(at_blocks, &mean), None);
        put("figure 6: least", measured(at_blocks, &least), None);
    }
    verdict.checks.extend(keeps(&READERS, allot, ""));
    let [_, _, rest @ ..] = &allot.mean[..] else { return verdict };
    let (most, fewest) =
        (rest.iter().copied().fold(0.0, f64::max), allot.mean[0].min(allot.mean[1]));
    let what = format!(
        "the two without tickets hold less than the others on average (at most {:.0} KiB, the others at least {:.0})",
        most / KIB,
        fewest / KIB
    );
    verdict.check(what, allot.looks > 0 && most < fewest);
    verdict
}

/// Checks that every guarantee was kept, and memory used. `label` goes before each check, where it
/// is not empty.
pub(in crate::catalogue) fn keeps(
    readers: &[Reader],
    steady: &SteadyState,
    label: &str,
) -> Vec<Check> {
    let label = if label.is_empty() { String::new() } else { format!("{label}: ") };
    let since = steady.since.map_or("never".to_owned(), |at| format!("from {at:.1} s on"));
    let guaranteed = readers.iter().enumerate().filter(|(_, reader)| reader.guaranteed_kib > 0);
    let mut checks: Vec<Check> = guaranteed
        .map(|(place, reader)| {
            let least = steady.least.get(place).map_or(0.0, |least| *least as f64 / KIB);
            let what = format!(
                "{label}{} keeps its guarantee in every look, but for a page, once steady ({since}: {} looks, the \
                 least {least:.0} KiB)",
                reader.title(),
                steady.looks
            );
            Check { what, ok: steady.keeps(place, reader) }
        })
        .collect();
    let what = format!(
        "{label}at least {:.0} % of the memory is in use ({:.1} %)",
        IN_USE * 100.0,
        steady.in_use * 100.0
    );
    checks.push(Check { what, ok: steady.looks > 0 && steady.in_use >= IN_USE });
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(kib: [u64; 4], least: [u64; 4], in_use: f64) -> SteadyState {
        SteadyState {
            since: Some(5.0),
            looks: 100,
            mean: kib.map(|kib| kib as f64 * KIB).to_vec(),
            least: least.map(|kib| kib << 10).to_vec(),
            in_use,
        }
    }

    #[test]
    fn the_verdict() {
        let verdict = |allot: &SteadyState| {
            let kernel = steady([1700, 1800, 2100, 2300], [1500, 1600, 2000, 2100], 0.99);
            let Verdict { comparisons, checks, .. } = judge(allot, Some(&kernel), &kernel);
            assert_eq!(comparisons[0].promised, Some(2048.0));
            assert_eq!(
                (comparisons[0].default, comparisons[9].default),
                (Some(1700.0), Some(2000.0))
            );
            checks.iter().map(|check| check.ok).collect::<Vec<_>>()
        };
        let good = steady([3000, 2500, 900, 900], [2044, 1400, 300, 300], 0.95);
        assert_eq!(verdict(&good), [true; 4]);
        let low = steady([3000, 2500, 900, 900], [2043, 1395, 300, 300], 0.89);
        assert_eq!(verdict(&low), [false, false, false, true]);
        assert!(!verdict(&steady([3000, 2000, 2100, 900], [2048; 4], 1.0))[3]);
        let nothing = SteadyState { looks: 0, since: None, ..good };
        assert_eq!(verdict(&nothing), [false; 4]);
    }
}
