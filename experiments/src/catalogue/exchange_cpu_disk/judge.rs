//! The judgement of `exchange-cpu-disk`, live or simulated.

use crate::report::comparison::Comparison;
use crate::report::verdict::Verdict;

/// CPU tickets, and disk tickets, of every client.
pub(in crate::catalogue) const EQUAL: u64 = 1000;
/// The clients: the two that exchange come first.
pub(super) const NAMES: [&str; 7] = [
    "dhrystone",
    "iohog",
    "other dhrystone",
    "other iohog 1",
    "other iohog 2",
    "other iohog 3",
    "other iohog 4",
];
/// The bystanders on the disk.
const OTHER_IOHOGS: std::ops::Range<usize> = 3..7;
/// The guaranteed part of each bystander, whatever others exchange.
pub(super) const GUARANTEED: f64 = 1.0 / NAMES.len() as f64;
/// The most that a bystander may lack of it, as a part: chance, and the last turns on the disk.
const TOLERANCE: f64 = 0.03;
/// The work of all clients while n tickets were exchanged.
pub(super) struct Observed {
    pub n: u64,
    /// Iterations a second.
    pub progress: Vec<f64>,
    /// Parts of the CPU time of all.
    pub cpu: Vec<f64>,
    /// Parts of what the disk read for all.
    pub disk: Vec<f64>,
    /// Time for which the second client, which reads, waits for the CPU for each page, in ms.
    pub cpu_wait_ms: f64,
}

impl Observed {
    /// Returns the least part of the disk that a bystander has.
    pub fn least_disk_beside(&self) -> f64 {
        OTHER_IOHOGS.map(|client| self.disk[client]).fold(f64::INFINITY, f64::min)
    }
}

/// Returns a client's progress as times of that without exchange.
fn times(observed: &Observed, none: &Observed, client: usize) -> f64 {
    observed.progress[client] / none.progress[client]
}

/// Returns the part of a resource that a client is due with n tickets more.
pub(super) fn due(n: u64) -> f64 {
    (EQUAL + n) as f64 * GUARANTEED / EQUAL as f64
}

/// Judges exchanges, of which the first is none. `turn` is the time for which one client is served
/// on the disk before another, as a part of the time of each: by so much a share may be off.
pub(super) fn judge(exchanges: &[Observed], turn: f64) -> Verdict {
    let none = &exchanges[0];
    let mut verdict = Verdict {
        comparisons: exchanges.iter().flat_map(|it| comparisons(it, none)).collect(),
        ..Verdict::default()
    };
    judge_gains(exchanges, turn, &mut verdict);
    judge_bystanders(exchanges, turn, &mut verdict);
    let greatest = exchanges.iter().max_by(|a, b| times(a, none, 1).total_cmp(&times(b, none, 1)));
    verdict.notes.extend(greatest.zip(exchanges.last()).map(|(greatest, last)| {
        format!(
            "iohog gains most at n = {} ({:.2} times; paper: 500); for each page it waits {:.2} ms \
             for the CPU without exchange, {:.2} ms then and {:.2} ms at n = {}",
            greatest.n,
            times(greatest, none, 1),
            none.cpu_wait_ms,
            greatest.cpu_wait_ms,
            last.cpu_wait_ms,
            last.n
        )
    }));
    verdict
}

fn comparisons(observed: &Observed, none: &Observed) -> Vec<Comparison> {
    let what = format!("n = {}", observed.n);
    let put = |quantity: &str, value: f64, before: f64, promised: Option<f64>| {
        let comparison = Comparison::new(&what, quantity, "").promising(promised);
        comparison.measured(Some(value), Some(before))
    };
    let due = Some(due(observed.n));
    let (wait, wait_before) = (observed.cpu_wait_ms, none.cpu_wait_ms);
    let (least, least_before) = (observed.least_disk_beside(), none.least_disk_beside());
    vec![
        put("dhrystone's progress", times(observed, none, 0), 1.0, None),
        put("iohog's progress", times(observed, none, 1), 1.0, None),
        put("iohog waits for CPU, ms a page", wait, wait_before, None),
        put("CPU, dhrystone", observed.cpu[0], none.cpu[0], due),
        put("CPU, other dhrystone", observed.cpu[2], none.cpu[2], Some(GUARANTEED)),
        put("disk, iohog", observed.disk[1], none.disk[1], due),
        put("disk, least of other iohogs", least, least_before, Some(GUARANTEED)),
    ]
}

/// Judges the gains of the two that exchange.
fn judge_gains(exchanges: &[Observed], turn: f64, verdict: &mut Verdict) {
    let none = &exchanges[0];
    let due_of_disk = |n: u64| {
        let iohogs = OTHER_IOHOGS.len() as u64 + 1;
        (EQUAL + n) as f64 / (iohogs * EQUAL + n) as f64
    };
    let shown = |it: &&Observed| due_of_disk(it.n) - due_of_disk(0) > 2.0 * turn;
    let by = exchanges.iter().find(shown).map_or(0, |it| it.n);
    let mut gains = exchanges.iter().filter(shown).peekable();
    let both = |it: &Observed| times(it, none, 0) > 1.0 && times(it, none, 1) > 1.0;
    verdict.check(
        format!(
            "both gain by every exchange, of those that are more than the disk's turns by chance: \
             n = {by} and more (paper: both do)"
        ),
        gains.peek().is_some() && gains.all(both),
    );
    let more = |pair: &[Observed]| times(&pair[1], none, 0) > times(&pair[0], none, 0);
    verdict.check(
        "dhrystone gains more, the more it exchanges (paper: it does)",
        exchanges.windows(2).all(more),
    );
}

/// Judges the parts that bystanders keep.
fn judge_bystanders(exchanges: &[Observed], turn: f64, verdict: &mut Verdict) {
    let floor = GUARANTEED * (1.0 - TOLERANCE);
    let least =
        |of: &dyn Fn(&Observed) -> f64| exchanges.iter().map(of).fold(f64::INFINITY, f64::min);
    let (cpu, disk) = (least(&|it| it.cpu[2]), least(&Observed::least_disk_beside));
    verdict.check(
        format!(
            "no bystander has less than a seventh of what it competes for, {:.0} % of that and a \
             turn on the disk ({:.2} % of the time) aside (the least: {:.1} % of the CPU, {:.1} % \
             of the disk)",
            TOLERANCE * 100.0,
            turn * 100.0,
            cpu * 100.0,
            disk * 100.0
        ),
        cpu >= floor && disk >= floor - turn,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(dhrystone: f64, iohog: f64, least: f64, turn: f64) -> Vec<bool> {
        let of = |n, counts: [f64; 7]| {
            let all: f64 = counts.iter().sum();
            let parts = counts.map(|count| count / all).to_vec();
            Observed {
                n,
                progress: counts.to_vec(),
                cpu: parts.clone(),
                disk: parts,
                cpu_wait_ms: 2.0,
            }
        };
        let some = [dhrystone, iohog, 100.0, 100.0, 100.0, least, 100.0];
        let judged = judge(&[of(0, [100.0; 7]), of(100, some)], turn);
        assert_eq!(judged.comparisons.len(), 14);
        judged.checks.iter().map(|check| check.ok).collect()
    }

    #[test]
    fn the_verdict() {
        assert_eq!(verdict(110.0, 101.0, 100.0, 0.0), [true, true, true]);
        assert_eq!(verdict(99.0, 110.0, 100.0, 0.0), [false, false, true]);
        assert_eq!(verdict(110.0, 99.0, 100.0, 0.0), [false, true, true]);
        let least = verdict(101.0, 110.0, 85.0, 0.0);
        assert_eq!(least, [true, true, false], "85 of 696 are 12.2 %");
        // A turn of 2 % more or less could be all of the gain, from 20 to 21.6 %, and of the lack.
        assert_eq!(verdict(101.0, 110.0, 85.0, 0.02), [false, true, true]);
    }
}
