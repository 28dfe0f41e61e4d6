//! `exchange-cpu-disk`: paper 1, section 6.5, figures 11 and 12. A CPU-bound and a disk-bound process exchange tickets
//! one for one, beside five others.

use crate::contest::mean;
use crate::daemon::Setup;
use crate::disk_bench::{Disk, soft};
use crate::disk_loads::{DiskLoad, DiskWork};
use crate::exchanges::{Did, EQUAL, Judged, Trader};
use crate::orders::Work;
use crate::plot::{Line, Panel, draw, level};
use crate::report::Findings;
use crate::session::Bench;
use crate::{Check, Contest, ExperimentError, ExperimentInfo, Outcome};

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "exchange-cpu-disk",
    title: "Exchanges of CPU for disk",
    paper: "paper 1, section 6.5, figures 11 and 12",
    what: "A dhrystone gives an iohog n disk tickets for n CPU tickets, n = 100 to 800 of 1000; one more \
           dhrystone and four more iohogs are bystanders. What both gain, and the least that a bystander has. Needs root \
           and a disk that may be used up (lab/with-disk).",
    least_seconds: 60.0,
    usual_seconds: 120.0,
    own_allotd: true,
};

/// Who there is: the two that exchange come first.
pub(crate) const NAMES: [&str; 7] = [
    "dhrystone",
    "iohog",
    "other dhrystone",
    "other iohog 1",
    "other iohog 2",
    "other iohog 3",
    "other iohog 4",
];
/// Those that are bystanders on the disk.
const OTHER_IOHOGS: std::ops::Range<usize> = 3..7;
/// What is each bystander's, whatever others exchange.
const GUARANTEED: f64 = 1.0 / NAMES.len() as f64;
/// What a bystander may lack of it, as a part: chance, and the last turns on the disk.
const TOLERANCE: f64 = 0.03;
/// Each file, MiB.
const FILE_MIB: u64 = 16;
/// BFQ serves one for up to 125 ms (`timeout_sync`).
const TURN_SECONDS: f64 = 0.125;
/// What is exchanged, phase by phase: the load without exchange is there between, so that what else changes
/// with time would be seen.
const PHASES: [u64; 12] = [0, 100, 200, 300, 0, 400, 500, 600, 0, 700, 800, 0];
/// Of each phase, until all is as it stays.
const SETTLE: f64 = 0.2;

/// What all did while n tickets were exchanged.
pub(crate) struct Seen {
    pub n: u64,
    /// Iterations a second.
    pub progress: Vec<f64>,
    /// Parts of the CPU time of all.
    pub cpu: Vec<f64>,
    /// Parts of what the disk read for all.
    pub disk: Vec<f64>,
    /// How long the second, which reads, waits for the CPU for each page, ms.
    pub cpu_wait_ms: f64,
}

impl Seen {
    fn least_disk_beside(&self) -> f64 {
        OTHER_IOHOGS.map(|client| self.disk[client]).fold(f64::INFINITY, f64::min)
    }
}

/// What there is to say; the first of them is without exchange. `turn` is how long one is served on the disk before
/// another, as a part of the time of each: by so much a share may be off.
pub(crate) fn judge(exchanges: &[Seen], turn: f64) -> Judged {
    let none = &exchanges[0];
    let times = |seen: &Seen, client: usize| seen.progress[client] / none.progress[client];
    let mut contests = Vec::new();
    for seen in exchanges {
        let what = format!("n = {}", seen.n);
        let mut put = |quantity: &str, value: f64, before: f64, promised: Option<f64>| {
            let contest = Contest::new(&what, quantity, "").promising(promised);
            contests.push(contest.measured(Some(value), Some(before)));
        };
        put("dhrystone's progress", times(seen, 0), 1.0, None);
        put("iohog's progress", times(seen, 1), 1.0, None);
        let due = (EQUAL + seen.n) as f64 * GUARANTEED / EQUAL as f64;
        put("iohog waits for CPU, ms a page", seen.cpu_wait_ms, none.cpu_wait_ms, None);
        put("CPU, dhrystone", seen.cpu[0], none.cpu[0], Some(due));
        put("CPU, other dhrystone", seen.cpu[2], none.cpu[2], Some(GUARANTEED));
        put("disk, iohog", seen.disk[1], none.disk[1], Some(due));
        let least = seen.least_disk_beside();
        put("disk, least of other iohogs", least, none.least_disk_beside(), Some(GUARANTEED));
    }
    let due_of_disk = |n: u64| {
        let iohogs = OTHER_IOHOGS.len() as u64 + 1;
        (EQUAL + n) as f64 / (iohogs * EQUAL + n) as f64
    };
    let shown = |seen: &&Seen| due_of_disk(seen.n) - due_of_disk(0) > 2.0 * turn;
    let floor = GUARANTEED * (1.0 - TOLERANCE);
    let least = |of: &dyn Fn(&Seen) -> f64| exchanges.iter().map(of).fold(f64::INFINITY, f64::min);
    let (cpu, disk) = (least(&|seen| seen.cpu[2]), least(&Seen::least_disk_beside));
    let by = exchanges.iter().find(shown).map_or(0, |seen| seen.n);
    let mut gains = exchanges.iter().filter(shown).peekable();
    let checks = vec![
        Check {
            what: format!(
                "both gain by every exchange, of those that are more than the disk's turns by chance: n = {by} and more \
                 (paper: both do)"
            ),
            ok: gains.peek().is_some() && gains.all(|it| times(it, 0) > 1.0 && times(it, 1) > 1.0),
        },
        Check {
            what: "dhrystone gains more, the more it exchanges (paper: it does)".to_owned(),
            ok: exchanges.windows(2).all(|pair| times(&pair[1], 0) > times(&pair[0], 0)),
        },
        Check {
            what: format!(
                "no bystander has less than a seventh of what it competes for, {:.0} % of that and a turn on the disk \
                 ({:.2} % of the time) aside (the least: {:.1} % of the CPU, {:.1} % of the disk)",
                TOLERANCE * 100.0,
                turn * 100.0,
                cpu * 100.0,
                disk * 100.0
            ),
            ok: cpu >= floor && disk >= floor - turn,
        },
    ];
    let greatest = exchanges.iter().max_by(|a, b| times(a, 1).total_cmp(&times(b, 1)));
    let notes = greatest.zip(exchanges.last()).map(|(greatest, last)| {
        format!(
            "iohog gains most at n = {} ({:.2} times; paper: 500); for each page it waits {:.2} ms for the CPU without \
             exchange, {:.2} ms then and {:.2} ms at n = {}",
            greatest.n,
            times(greatest, 1),
            none.cpu_wait_ms,
            greatest.cpu_wait_ms,
            last.cpu_wait_ms,
            last.n
        )
    });
    Judged { contests, checks, notes: notes.into_iter().collect(), plots: plots(exchanges) }
}

fn plots(exchanges: &[Seen]) -> Vec<(&'static str, Vec<Panel>)> {
    let none = &exchanges[0];
    let last = exchanges.last().map_or(0.0, |seen| seen.n as f64);
    let line = |name: &str, dashed: bool, of: &dyn Fn(&Seen) -> f64| Line {
        name: name.to_owned(),
        points: exchanges.iter().map(|seen| (seen.n as f64, of(seen))).collect(),
        dashed,
    };
    let panel = |title: &str, y_label: &str, lines: Vec<Line>| Panel {
        title: title.to_owned(),
        x_label: "tickets exchanged, n".to_owned(),
        y_label: y_label.to_owned(),
        lines,
        marks: Vec::new(),
        x_names: Vec::new(),
    };
    let times = |client: usize| move |seen: &Seen| seen.progress[client] / none.progress[client];
    let due = |seen: &Seen| (EQUAL + seen.n) as f64 * GUARANTEED / EQUAL as f64;
    let progress = vec![
        line("dhrystone", false, &times(0)),
        line("iohog", false, &times(1)),
        level("no exchange", 0.0, last, 1.0),
    ];
    let cpu = vec![
        line("dhrystone that exchanges", false, &|seen| seen.cpu[0]),
        line("the other", false, &|seen| seen.cpu[2]),
        line("promised", true, &due),
        level("a seventh", 0.0, last, GUARANTEED),
    ];
    let disk = vec![
        line("iohog that exchanges", false, &|seen| seen.disk[1]),
        line("the least of the others", false, &Seen::least_disk_beside),
        line("promised", true, &due),
        level("a seventh", 0.0, last, GUARANTEED),
    ];
    vec![
        ("figure-11", vec![panel("Figure 11: progress", "times of that without", progress)]),
        (
            "figure-12",
            vec![
                panel("Figure 12: the CPU", "part", cpu),
                panel("Figure 12: the disk", "part", disk),
            ],
        ),
    ]
}

/// The seven, with what each has; files are in the disk's directory.
pub(crate) fn traders(disk: &Disk) -> Vec<Trader> {
    NAMES.iter().map(|name| trader(disk, name, name.contains("iohog"))).collect()
}

/// One with what each has, that reads or computes.
pub(crate) fn trader(disk: &Disk, name: &str, reads: bool) -> Trader {
    Trader {
        name: name.to_owned(),
        work: match reads {
            true => Work::Disk(DiskWork {
                file: disk.dir.join(name.replace(' ', "-")),
                mib: FILE_MIB,
                load: DiskLoad::IoHog,
            }),
            false => Work::Burn(Vec::new()),
        },
        funding: vec![soft("cpu", EQUAL), soft(&disk.resource(), EQUAL)],
    }
}

pub(crate) fn run(bench: &mut Bench) -> Result<Outcome, ExperimentError> {
    let disk = Disk::find_for_all(bench.options)?;
    disk.must_have_bfq()?;
    let mut daemon = bench.allotd_with_bfq(&Setup::of(bench.options))?;
    let mut findings = Findings::new(bench, &daemon)?;
    let traders = traders(&disk);
    let seconds = bench.total / PHASES.len() as f64;
    let mut floor = bench.floor(&mut daemon, &disk, &traders, bench.total)?;
    floor.release();
    let mut phases: Vec<(u64, Vec<Did>)> = Vec::new();
    for n in PHASES {
        let label = format!("n = {n}");
        let tickets = |resource: &str| soft(resource, n);
        let exchange = match n {
            0 => None,
            _ => Some(floor.exchange(&tickets(&disk.resource()), &tickets("cpu"))?),
        };
        floor.pass(bench, seconds * SETTLE, &label, &mut |_| Ok(()))?;
        phases.push((n, floor.pass(bench, seconds * (1.0 - SETTLE), &label, &mut |_| Ok(()))?));
        if let Some(exchange) = exchange {
            floor.end(exchange)?;
        }
    }
    drop(floor);
    drop(daemon);
    let counted = seconds * (1.0 - SETTLE);
    let judged = judge(&seen(&phases), TURN_SECONDS / counted);
    findings.contests = judged.contests;
    findings.checks = judged.checks;
    findings.notes.extend(judged.notes);
    findings.notes.push(spread(&phases));
    findings.notes.push(format!(
        "`default` is the same without exchange; {counted:.1} s of each phase count, its last {:.0} %; the disk takes {} \
         requests at a time and is shared by BFQ",
        (1.0 - SETTLE) * 100.0,
        disk.depth
    ));
    let svg =
        judged.plots.iter().map(|(name, panels)| (format!("{name}.svg"), draw(INFO.title, panels)));
    let svg = svg.collect();
    Ok(findings.finish(bench, &INFO, INFO.title, INFO.paper, svg))
}

/// Phases with the same n together, by n.
fn seen(phases: &[(u64, Vec<Did>)]) -> Vec<Seen> {
    let mut all: Vec<u64> = phases.iter().map(|(n, _)| *n).collect();
    all.sort_unstable();
    all.dedup();
    let of = |n: u64| {
        let mut sums = vec![Did::default(); NAMES.len()];
        for (_, did) in phases.iter().filter(|(at, _)| *at == n) {
            sums.iter_mut().zip(did).for_each(|(sum, did)| sum.add(did));
        }
        Seen {
            n,
            progress: sums.iter().map(Did::progress).collect(),
            cpu: parts(sums.iter().map(|did| did.cpu_ns)),
            disk: parts(sums.iter().map(|did| did.read_bytes)),
            cpu_wait_ms: sums[1].cpu_wait_ns as f64 / 1e6 / sums[1].iterations.max(1) as f64,
        }
    };
    all.into_iter().map(of).collect()
}

fn parts(amounts: impl Iterator<Item = u64> + Clone) -> Vec<f64> {
    let all = amounts.clone().sum::<u64>().max(1) as f64;
    amounts.map(|amount| amount as f64 / all).collect()
}

/// How far the phases without exchange differ.
fn spread(phases: &[(u64, Vec<Did>)]) -> String {
    let part = |client: usize| {
        let none = phases.iter().filter(|(n, _)| *n == 0);
        let progress: Vec<f64> = none.map(|(_, did)| did[client].progress()).collect();
        let average = mean(&progress).unwrap_or(0.0);
        let most = progress.iter().copied().fold(0.0, f64::max);
        let least = progress.iter().copied().fold(f64::INFINITY, f64::min);
        (most - least) / average * 100.0
    };
    format!(
        "the {} phases without exchange differ by {:.1} % (dhrystone) and {:.1} % (iohog), the most from the least",
        phases.iter().filter(|(n, _)| *n == 0).count(),
        part(0),
        part(1)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn did(seconds: f64, counts: [u64; 7]) -> Vec<Did> {
        let of = |count| Did {
            seconds,
            iterations: count,
            cpu_ns: count,
            cpu_wait_ns: 2_000_000 * count,
            read_bytes: count,
        };
        counts.map(of).to_vec()
    }

    fn verdict(dhrystone: u64, iohog: u64, least: u64, turn: f64) -> Vec<bool> {
        let none = did(1.0, [100, 100, 100, 100, 100, 100, 100]);
        let some = did(1.0, [dhrystone, iohog, 100, 100, 100, least, 100]);
        let judged = judge(&seen(&[(100, some), (0, none.clone()), (0, none)]), turn);
        assert_eq!(judged.contests.len(), 14);
        judged.checks.iter().map(|check| check.ok).collect()
    }

    #[test]
    fn the_verdict() {
        assert_eq!(verdict(110, 101, 100, 0.0), [true, true, true]);
        assert_eq!(verdict(99, 110, 100, 0.0), [false, false, true]);
        assert_eq!(verdict(110, 99, 100, 0.0), [false, true, true]);
        assert_eq!(verdict(101, 110, 85, 0.0), [true, true, false], "85 of 696 are 12.2 %");
        // A turn of 2 % more or less could be all of the gain, from 20 to 21.6 %, and of the lack.
        assert_eq!(verdict(101, 110, 85, 0.02), [false, true, true]);
    }

    #[test]
    fn phases_without_exchange_count_together() {
        let phases = [(0, did(1.0, [10; 7])), (300, did(2.0, [50; 7])), (0, did(3.0, [50; 7]))];
        let seen = seen(&phases);
        assert_eq!(seen.iter().map(|seen| seen.n).collect::<Vec<_>>(), [0, 300]);
        assert!((seen[0].progress[4] - 15.0).abs() < 1e-9);
        assert!((seen[1].cpu[2] - 1.0 / 7.0).abs() < 1e-9);
        assert!((seen[1].cpu_wait_ms - 2.0).abs() < 1e-9);
        assert!(spread(&phases).contains("differ by 50.0 %"), "{}", spread(&phases));
    }

    #[test]
    fn every_exchange_of_the_paper_has_a_phase() {
        let mut all = PHASES.to_vec();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all, (0..=8).map(|hundreds| hundreds * 100).collect::<Vec<u64>>());
    }
}
