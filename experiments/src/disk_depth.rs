//! `disk-queue-depth`: whether a disk's shares hold whatever is asked of it: past the page cache, through
//! it and by mapping; by two to sixteen readers; by readers beside writers; and what they cost.
//!
//! The device's own depth is the disk's that it is given: `experiments/lab-disk` runs it at 1, 4 and 16.

use crate::contest::Contest;
use crate::disk_bench::{Disk, DiskClient, DiskPart, DiskRule, Fund};
use crate::disk_loads::DiskLoad;
use crate::plot::{draw, side_by_side};
use crate::report::Findings;
use crate::session::{Bench, Series};
use crate::{Check, ExperimentError, ExperimentInfo, Outcome};

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "disk-queue-depth",
    title: "Shares of a disk, whatever is asked of it",
    paper: "none: BFQ's defaults under systemd were seen to make 48:52 of 2:3",
    what: "Two groups of processes share a disk 4:1 and 2:3: O_DIRECT, buffered and mmap, two to sixteen \
           of them, readers beside writers. By BFQ, by iocost on the measured disk, and as the disk was \
           found, which also says what the disk can do. Needs root and a disk that may be used up \
           (lab/with-disk); run it at several depths of the device.",
    least_seconds: 60.0,
    usual_seconds: 600.0,
    own_allotd: true,
};

/// Of the time, for measuring the disk.
const OF_MEASURING: f64 = 0.05;
/// Of each run, until all is as it stays.
const SETTLE: f64 = 0.3;
/// How far a ratio may be off, as a part of it.
const OFF: f64 = 0.05;
/// BFQ serves one for up to so long (`timeout_sync`) before the next.
const TURN_SECONDS: f64 = 0.125;
/// At either end, somebody has one turn more or less.
const TURNS_SECONDS: f64 = 2.0 * TURN_SECONDS;
/// Rounds of turns that have to be seen: with fewer, how many turns those with few tickets have in that
/// time is a matter of when it begins.
const ROUNDS: f64 = 5.0;
/// What shares may cost: total throughput, as a part of the best without.
const OF_BEST: f64 = 0.9;
const MIB: u64 = 8;

/// What one group of a cell does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Past the page cache, with so many requests at a time that a group alone keeps the device busy.
    Direct,
    /// Through the page cache.
    Buffered,
    /// By mapping.
    Mapped,
    /// As `Direct`, written.
    DirectWrite,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Direct => "O_DIRECT",
            Kind::Buffered => "buffered",
            Kind::Mapped => "mmap",
            Kind::DirectWrite => "O_DIRECT writers",
        }
    }

    /// Requests of each process in flight, of `count` in a group.
    fn in_flight(self, device: usize, count: usize) -> usize {
        match self {
            Kind::Direct | Kind::DirectWrite => (2 * device).div_ceil(count).max(1),
            // The kernel reads ahead a piece while one is waited for.
            Kind::Buffered => 2,
            Kind::Mapped => 1,
        }
    }

    fn load(self, device: usize, count: usize) -> DiskLoad {
        match self {
            Kind::Direct => DiskLoad::ReadDirect(self.in_flight(device, count)),
            Kind::Buffered => DiskLoad::ReadBuffered,
            Kind::Mapped => DiskLoad::IoHog,
            Kind::DirectWrite => DiskLoad::WriteDirect(self.in_flight(device, count)),
        }
    }
}

/// What is run at a time: two groups of as many processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    kinds: [Kind; 2],
    /// Processes in all.
    count: usize,
    weights: [u64; 2],
}

impl Cell {
    const fn of(kind: Kind, count: usize, weights: [u64; 2]) -> Cell {
        Cell { kinds: [kind, kind], count, weights }
    }

    fn name(&self) -> String {
        let [one, other] = self.kinds;
        let what = match one == other {
            true => one.name().to_owned(),
            false => format!("{} and {}", one.name(), other.name()),
        };
        let [heavy, light] = self.weights;
        format!("{what} x{}, {heavy}:{light}", self.count)
    }

    fn clients(&self, device: usize) -> Vec<DiskClient> {
        let half = self.count / 2;
        let all: u64 = self.weights.iter().sum();
        let mut clients = Vec::new();
        for (group, (kind, weight)) in self.kinds.iter().zip(self.weights).enumerate() {
            for number in 0..half {
                let share = 1.0 / half as f64;
                clients.push(DiskClient {
                    name: format!("{}{number}", ["heavy", "light"][group]),
                    fund: Fund::OfUser(weight * 100),
                    promised: weight as f64 / all as f64 * share,
                    load: kind.load(device, half),
                    mib: MIB,
                });
            }
        }
        clients
    }

    /// How long it takes until everybody has had their turns under BFQ, in s: one for the least weight,
    /// so many times that for the others.
    fn round_seconds(&self) -> f64 {
        let [one, other] = self.weights;
        let turns = (self.count / 2) as f64 * (one + other) as f64 / one.min(other) as f64;
        turns * TURN_SECONDS
    }

    /// Why the device, and not who shares it, decides here; `None` where shares must hold.
    fn explained(&self, device: usize) -> Option<&'static str> {
        let half = self.count / 2;
        let mut in_flight = self.kinds.iter().map(|kind| kind.in_flight(device, half) * half);
        if in_flight.clone().any(|count| count < 2) {
            return Some("a group with one request at a time gives up its place at each");
        }
        in_flight
            .any(|count| count < device + 1)
            .then_some("a group asks for less at a time than the device takes: it cannot use more")
    }
}

const SHORT: [Cell; 2] = [Cell::of(Kind::Direct, 2, [4, 1]), Cell::of(Kind::Mapped, 4, [4, 1])];
/// Every value of everything that differs between cells, and not each with each.
const REDUCED: [Cell; 6] = [
    Cell::of(Kind::Direct, 2, [4, 1]),
    Cell::of(Kind::Direct, 16, [4, 1]),
    Cell::of(Kind::Direct, 2, [2, 3]),
    Cell::of(Kind::Buffered, 4, [4, 1]),
    Cell::of(Kind::Mapped, 16, [4, 1]),
    Cell { kinds: [Kind::Direct, Kind::DirectWrite], count: 4, weights: [4, 1] },
];
const FULL: [Cell; 13] = [
    Cell::of(Kind::Direct, 2, [4, 1]),
    Cell::of(Kind::Direct, 4, [4, 1]),
    Cell::of(Kind::Direct, 16, [4, 1]),
    Cell::of(Kind::Direct, 2, [2, 3]),
    Cell::of(Kind::Direct, 16, [2, 3]),
    Cell::of(Kind::Buffered, 2, [4, 1]),
    Cell::of(Kind::Buffered, 4, [4, 1]),
    Cell::of(Kind::Buffered, 16, [4, 1]),
    Cell::of(Kind::Mapped, 2, [4, 1]),
    Cell::of(Kind::Mapped, 4, [4, 1]),
    Cell::of(Kind::Mapped, 16, [4, 1]),
    Cell { kinds: [Kind::Direct, Kind::DirectWrite], count: 4, weights: [4, 1] },
    Cell { kinds: [Kind::DirectWrite, Kind::Direct], count: 4, weights: [4, 1] },
];
/// With less, the reduced cells are run.
const FULL_SECONDS: f64 = 300.0;
/// With less, only two are.
const REDUCED_SECONDS: f64 = 100.0;

fn cells_for(seconds: f64) -> &'static [Cell] {
    match seconds {
        seconds if seconds < REDUCED_SECONDS => &SHORT,
        seconds if seconds < FULL_SECONDS => &REDUCED,
        _ => &FULL,
    }
}

const RULES: [DiskRule; 3] = [DiskRule::Bfq, DiskRule::Iocost, DiskRule::Default];

/// What one rule made of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    ratio: Option<f64>,
    total: f64,
    seconds: f64,
}

impl Seen {
    /// Of what was done after settling.
    fn of(series: &Series) -> Option<Seen> {
        let (end, last) = (*series.at.last()?, series.iterations.last()?);
        let begin = series.at.iter().position(|at| *at >= end * SETTLE)?;
        let first = &series.iterations[begin];
        let done: Vec<f64> =
            last.iter().zip(first).map(|(last, first)| (last - first) as f64).collect();
        let seconds = end - series.at[begin];
        let (heavy, light) = done.split_at(done.len() / 2);
        let [heavy, light] = [heavy, light].map(|group| group.iter().sum::<f64>());
        (seconds > 0.0).then(|| Seen {
            ratio: (light > 0.0).then(|| heavy / light),
            total: (heavy + light) / seconds,
            seconds,
        })
    }
}

pub(crate) fn run(bench: &mut Bench) -> Result<Outcome, ExperimentError> {
    let disk = Disk::find(bench.options)?;
    let measured = disk.measure(bench, bench.total * OF_MEASURING)?;
    bench.elapsed += bench.total * OF_MEASURING;
    let nothing = bench.dir.path().join("no-disks.toml");
    let mut findings = {
        let daemon = bench.disk_daemon(&disk, &nothing)?;
        Findings::new(bench, &daemon)?
    };
    let cells = cells_for(bench.total);
    let (rules, left_out): (Vec<DiskRule>, Vec<DiskRule>) =
        RULES.into_iter().partition(|rule| disk.lacks(*rule, &measured).is_none());
    findings.notes.extend(left_out.iter().filter_map(|rule| disk.lacks(*rule, &measured)));
    let runs = cells.len() * rules.len();
    let seconds = bench.total * (1.0 - OF_MEASURING) / runs as f64;
    for cell in cells {
        let clients = cell.clients(disk.depth);
        let mut seen: Vec<(DiskRule, Seen)> = Vec::new();
        for rule in rules.iter().copied() {
            let disks = match (rule, &measured) {
                (DiskRule::Iocost, Ok(file)) => file,
                _ => &nothing,
            };
            let label = cell.name();
            let part = DiskPart { label: &label, rule, clients: &clients, disks, seconds };
            let series = bench.run_on_disk(&disk, &part, &|_| false)?;
            seen.extend(Seen::of(&series).map(|found| (rule, found)));
        }
        let verdict = judge(cell, disk.depth, &seen);
        findings.contests.extend(verdict.contests);
        findings.checks.extend(verdict.checks);
        findings.notes.extend(verdict.notes);
    }
    findings.notes.push(format!(
        "{}: it takes {} requests at a time, and was found with the scheduler {}; the kernel's default is \
         that, with each client in a control group of its share's weight; groups of O_DIRECT have twice \
         that in flight, a buffered reader 2, a mapping one 1",
        disk.name, disk.depth, disk.scheduler
    ));
    let svg = vec![(
        "disk-queue-depth.svg".to_owned(),
        draw(
            INFO.title,
            &[side_by_side("the heavy for one of the light", &findings.contests, "ratio")],
        ),
    )];
    Ok(findings.finish(bench, &INFO, INFO.title, INFO.paper, svg))
}

/// What is said of a cell.
#[derive(Debug, Default)]
struct Verdict {
    contests: Vec<Contest>,
    checks: Vec<Check>,
    notes: Vec<String>,
}

fn judge(cell: &Cell, device: usize, seen: &[(DiskRule, Seen)]) -> Verdict {
    let mut verdict = Verdict::default();
    let default = seen.iter().find(|(rule, _)| *rule == DiskRule::Default).map(|(_, seen)| *seen);
    let [heavy, light] = cell.weights;
    let promised = heavy as f64 / light as f64;
    for (rule, found) in seen.iter().filter(|(rule, _)| *rule != DiskRule::Default) {
        let what = format!("{}: {}", rule.name(), cell.name());
        verdict.contests.push(
            Contest::new(&what, "ratio", ":1")
                .promising(Some(promised))
                .measured(found.ratio, default.and_then(|seen| seen.ratio)),
        );
        verdict.contests.push(
            Contest::new(&what, "iterations", "1/s")
                .measured(Some(found.total), default.map(|seen| seen.total)),
        );
        if let Some(why) = cell.explained(device) {
            verdict.notes.push(format!("{what}: not judged: {why}"));
            continue;
        }
        let round_seconds = cell.round_seconds();
        let (bound, is_long) = match rule {
            DiskRule::Bfq => {
                (OFF + TURNS_SECONDS / found.seconds, found.seconds >= ROUNDS * round_seconds)
            }
            _ => (OFF, true),
        };
        let ratio = found.ratio.unwrap_or(f64::INFINITY);
        match is_long {
            true => verdict.checks.push(Check {
                what: format!(
                    "{what}: the ratio is {promised:.2}:1 within {:.1} % ({ratio:.2}:1)",
                    bound * 100.0
                ),
                ok: (ratio / promised - 1.0).abs() <= bound,
            }),
            false => verdict.notes.push(format!(
                "{what}: the ratio ({ratio:.2}:1) is not judged: a round of turns on this device takes \
                 {round_seconds:.1} s, and {:.1} s were measured",
                found.seconds
            )),
        }
        if let Some(best) = default.map(|seen| seen.total).filter(|best| *best > 0.0) {
            verdict.checks.push(Check {
                what: format!(
                    "{what}: all together do {:.0} % of what they do without shares, at least 90",
                    found.total / best * 100.0
                ),
                ok: found.total >= OF_BEST * best,
            });
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_after_settling_counts() {
        let series = Series {
            at: vec![0.0, 2.9, 3.0, 10.0],
            iterations: vec![vec![0, 0], vec![500, 10], vec![500, 10], vec![1200, 185]],
            used_ns: vec![vec![0, 0]; 4],
        };
        let seen = Seen::of(&series).unwrap();
        assert_eq!((seen.ratio, seen.total, seen.seconds), (Some(4.0), 125.0, 7.0));
        assert_eq!(Seen::of(&Series::default()), None);
    }

    #[test]
    fn only_where_the_device_is_asked_for_more_than_it_takes_shares_must_hold() {
        let direct = Cell::of(Kind::Direct, 2, [4, 1]);
        assert_eq!(direct.name(), "O_DIRECT x2, 4:1");
        assert_eq!(direct.clients(16)[0].load, DiskLoad::ReadDirect(32));
        assert_eq!(direct.explained(16), None);
        assert_eq!(Cell::of(Kind::Direct, 16, [4, 1]).clients(16)[9].load, DiskLoad::ReadDirect(4));
        let mapped = |count| Cell::of(Kind::Mapped, count, [4, 1]);
        assert!(mapped(2).explained(1).is_some(), "one request at a time");
        assert_eq!(mapped(4).explained(1), None);
        assert!(mapped(16).explained(16).is_some(), "8 of 16 places");
        let clients = mapped(16).clients(16);
        let all: f64 = clients.iter().map(|client| client.promised).sum();
        assert!((all - 1.0).abs() < 1e-9 && clients.len() == 16);
    }

    #[test]
    fn the_reduced_cells_leave_no_value_out() {
        let (reduced, full) = (cells_for(120.0), cells_for(400.0));
        assert_eq!((cells_for(60.0).len(), reduced.len(), full.len()), (2, 6, 13));
        for cell in full {
            assert!(reduced.iter().any(|one| one.count == cell.count), "{cell:?}");
            assert!(reduced.iter().any(|one| one.weights == cell.weights), "{cell:?}");
            for kind in cell.kinds {
                assert!(reduced.iter().any(|one| one.kinds.contains(&kind)), "{cell:?}");
            }
        }
    }

    #[test]
    fn a_ratio_is_judged_over_some_rounds_of_turns() {
        assert_eq!(Cell::of(Kind::Direct, 2, [4, 1]).round_seconds(), 0.625);
        let cell = Cell::of(Kind::Direct, 16, [4, 1]);
        assert_eq!(cell.round_seconds(), 5.0);
        let checks = |rule, seconds| {
            let seen = |total| Seen { ratio: Some(5.0), total, seconds };
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
        let cell = Cell::of(Kind::Direct, 2, [2, 3]);
        let seen = |ratio, total| Seen { ratio: Some(ratio), total, seconds: 10.0 };
        let verdict = |ratio: f64, total: f64| {
            let rules =
                [(DiskRule::Bfq, seen(ratio, total)), (DiskRule::Default, seen(1.0, 100.0))];
            let verdict = judge(&cell, 1, &rules);
            assert_eq!(verdict.contests.len(), 2);
            verdict.checks.iter().map(|check| check.ok).collect::<Vec<_>>()
        };
        assert_eq!(verdict(0.67, 95.0), [true, true]);
        assert_eq!(verdict(0.92, 95.0), [false, true]);
        assert_eq!(verdict(0.65, 80.0), [true, false]);
    }
}
