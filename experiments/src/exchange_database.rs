//! `exchange-database`: paper 1, section 6.6. Two look-up servers exchange disk tickets for memory tickets, beside four
//! readers.

use crate::contest::mean;
use crate::daemon::{Daemon, Memory, Setup};
use crate::disk_bench::{Disk, soft};
use crate::disk_loads::{DiskLoad, DiskWork};
use crate::exchange_database_figures::{Cell, SERVERS, judge};
use crate::exchanges::{Did, EQUAL, Floor, Trader};
use crate::look_ups::Database;
use crate::memory_load::{KIB, PAGE_BYTES, group_of, held, memory_tickets, number};
use crate::orders::Work;
use crate::plot::draw;
use crate::report::Findings;
use crate::session::Bench;
use crate::workers::Job;
use crate::{Check, Contest, ExperimentError, ExperimentInfo, Outcome};
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "exchange-database",
    title: "Exchanges of memory for disk",
    paper: "paper 1, section 6.6",
    what: "Two look-up servers (LMDB), one whose data nearly fits and one whose data never will, exchange disk for memory \
           tickets in ten of the paper's 64 amounts, beside four iohogs in 7 MiB. Needs root and a disk that may be used \
           up (lab/with-disk).",
    least_seconds: 240.0,
    usual_seconds: 1200.0,
    own_allotd: true,
};

/// What is exchanged: memory (pages) for disk. Of the paper's 64 those that its text speaks of.
const CELLS: [(u64, u64); 10] = [
    (100, 100),
    (100, 800),
    (200, 400),
    (300, 600),
    (300, 800),
    (400, 800),
    (700, 100),
    (700, 800),
    (800, 100),
    (800, 800),
];
/// Before and after them it is measured without exchange.
const RUNS: usize = CELLS.len() + 2;
/// What the paper's page is here. It had all data twice in memory, in the kernel's cache and in the database's own; LMDB
/// has it once, so that half of the memory does the same.
const PAGE_KIB: u64 = 2;
/// What each server reserves, in the paper's pages; there it is 1375, which is no whole number of pages here.
const RESERVED_PAGES: u64 = 1376;
/// All clients together, MiB. In the paper they could reserve 11.1 MB, half of which is 5.3 MiB; here the processes' other
/// memory is in it too.
const LIMIT_MIB: u64 = 7;
/// The entries of `small` and of `big`, and how long each value is: 3.9 and 59 MiB.
const ENTRIES: [u64; 2] = [70_000, 1 << 20];
const VALUE_BYTES: usize = 40;
const IOHOGS: usize = 4;
/// Each iohog's file, MiB.
const FILE_MIB: u64 = 16;
/// Parts of each run: nothing is exchanged and `small` fills its memory; the exchange is there, and it fills what it got;
/// what counts.
const PARTS: [f64; 3] = [0.2, 0.5, 0.3];
/// How far the runs without exchange may be apart, as a part: a turn of BFQ's and what is drawn by chance.
const AGREE: f64 = 0.1;
/// How long allotd may take until the servers' memory is set as the tickets say.
const SET_LIMIT: Duration = Duration::from_secs(60);

/// What was seen of the two servers in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seen {
    /// Look-ups a second.
    look_ups: [f64; 2],
    /// Reads of the disk a second, in pages.
    reads: [f64; 2],
    /// What they held on average, KiB.
    held_kib: [f64; 2],
}

pub(crate) fn run(bench: &mut Bench) -> Result<Outcome, ExperimentError> {
    let disk = Disk::find_for_all(bench.options)?;
    disk.must_have_bfq()?;
    let mut daemon = bench.allotd_with_bfq(&setup(bench))?;
    let mut findings = Findings::new(bench, &daemon)?;
    let seconds = bench.total / RUNS as f64;
    make_databases(bench, &disk)?;
    let mut one = |exchanged| run_one(bench, &mut daemon, &disk, seconds, exchanged);
    let first = one((0, 0))?;
    let seen: Vec<Seen> = CELLS.into_iter().map(&mut one).collect::<Result<_, _>>()?;
    let last = one((0, 0))?;
    drop(daemon);
    let none = average(&first, &last);
    let cells: Vec<Cell> = CELLS
        .iter()
        .zip(&seen)
        .map(|((memory, disk), seen)| Cell {
            memory: *memory,
            disk: *disk,
            times: [0, 1].map(|server| seen.look_ups[server] / none.look_ups[server]),
        })
        .collect();
    let judged = judge(&cells);
    findings.contests = judged.contests;
    findings.contests.extend(details("no exchange", &none));
    for ((memory, disk), seen) in CELLS.iter().zip(&seen) {
        findings.contests.extend(details(&Cell::name(*memory, *disk), seen));
    }
    findings.checks = judged.checks;
    findings.checks.push(agree(&first, &last));
    findings.notes.extend(judged.notes);
    let [begin, fill, counts] = PARTS.map(|part| part * seconds);
    findings.notes.push(format!(
        "each run: {begin:.0} s without exchange, {fill:.0} s with it, then {counts:.0} s that count; `default` is the \
         average of two without exchange, before and after all others"
    ));
    findings.notes.push(format!(
        "{LIMIT_MIB} MiB for all, of which each server has {} KiB for sure; memory.min and memory.low alone choose who \
         loses; the disk takes {} requests at a time and is shared by BFQ",
        RESERVED_PAGES * PAGE_KIB,
        disk.depth
    ));
    let svg =
        judged.plots.iter().map(|(name, panels)| (format!("{name}.svg"), draw(INFO.title, panels)));
    let svg = svg.collect();
    Ok(findings.finish(bench, &INFO, INFO.title, INFO.paper, svg))
}

/// An allotd for the servers: 7 MiB for all, and the kernel alone reclaims.
pub(crate) fn setup(bench: &Bench) -> Setup {
    let memory = Memory { policy: "kernel", limit_mib: LIMIT_MIB, guests: None };
    Setup { memory: Some(memory), ..Setup::of(bench.options) }
}

/// The databases, made by processes that do nothing else: who has just written much is no reader like the others.
pub(crate) fn make_databases(bench: &Bench, disk: &Disk) -> Result<(), ExperimentError> {
    let servers = traders(disk).into_iter().take(SERVERS.len());
    let jobs: Vec<Job> = servers.map(|trader| Job::new(&trader.name, trader.work)).collect();
    bench.workers(&jobs, 0.0).map(drop)
}

/// What is compared with must be the same before and after.
fn agree(first: &Seen, last: &Seen) -> Check {
    let apart = [0, 1].map(|server| {
        let (first, last) = (first.look_ups[server], last.look_ups[server]);
        2.0 * (first - last).abs() / (first + last)
    });
    let what = format!(
        "the two runs without exchange agree within {:.0} % (look-ups of small {:.1} and {:.1}, of big {:.1} and {:.1} a \
         second)",
        AGREE * 100.0,
        first.look_ups[0],
        last.look_ups[0],
        first.look_ups[1],
        last.look_ups[1]
    );
    Check { what, ok: apart.iter().all(|apart| *apart <= AGREE) }
}

fn details(what: &str, seen: &Seen) -> Vec<Contest> {
    let put = |quantity: String, unit: &str, value: f64| {
        Contest::new(what, &quantity, unit).measured(Some(value), None)
    };
    let of = |(server, name): (usize, &&str)| {
        [
            put(format!("{name}'s look-ups"), "1/s", seen.look_ups[server]),
            put(format!("{name} reads"), "1/s", seen.reads[server]),
            put(format!("{name} holds"), "KiB", seen.held_kib[server]),
        ]
    };
    SERVERS.iter().enumerate().flat_map(of).collect()
}

fn average(one: &Seen, other: &Seen) -> Seen {
    let both = |of: fn(&Seen) -> [f64; 2]| {
        let (one, other) = (of(one), of(other));
        [0, 1].map(|server| (one[server] + other[server]) / 2.0)
    };
    Seen {
        look_ups: both(|seen| seen.look_ups),
        reads: both(|seen| seen.reads),
        held_kib: both(|seen| seen.held_kib),
    }
}

/// The servers, and the iohogs beside them.
pub(crate) fn traders(disk: &Disk) -> Vec<Trader> {
    let tickets = || vec![soft("cpu", EQUAL), soft(&disk.resource(), EQUAL)];
    let server = |(name, entries): (&str, u64)| {
        let file = disk.dir.join(name);
        let mut funding = tickets();
        funding.push(memory_tickets(RESERVED_PAGES * PAGE_KIB));
        let work = Work::LookUp(Database { file, entries, value_bytes: VALUE_BYTES });
        Trader { name: name.to_owned(), work, funding }
    };
    let mut all: Vec<Trader> = SERVERS.into_iter().zip(ENTRIES).map(server).collect();
    all.extend((0..IOHOGS).map(|number| {
        let file = disk.dir.join(format!("iohog-{number}"));
        let work = Work::Disk(DiskWork { file, mib: FILE_MIB, load: DiskLoad::IoHog });
        Trader { name: format!("iohog {number}"), work, funding: tickets() }
    }));
    all
}

/// New processes, none of whose data is in memory; `small` gives `disk` tickets for `memory` pages after the first part.
fn run_one(
    bench: &mut Bench,
    daemon: &mut Daemon,
    disk: &Disk,
    seconds: f64,
    (memory, tickets): (u64, u64),
) -> Result<Seen, ExperimentError> {
    let [begin, fill, counts] = PARTS.map(|part| part * seconds);
    let mut floor = bench.floor(daemon, disk, &traders(disk), seconds)?;
    let groups = equal(bench, &floor)?;
    floor.release();
    let label = Cell::name(memory, tickets);
    floor.pass(bench, begin, &label, &mut |_| Ok(()))?;
    let exchange = match memory {
        0 => None,
        _ => Some(exchange(bench, &floor, disk, (memory, tickets))?),
    };
    floor.pass(bench, fill, &label, &mut |_| Ok(()))?;
    let mut all_held: [Vec<f64>; 2] = Default::default();
    let did = floor.pass(bench, counts, &label, &mut |_| {
        for (group, all) in groups.iter().zip(&mut all_held) {
            all.push(held(group) as f64 / KIB);
        }
        Ok(())
    })?;
    if let Some(exchange) = exchange {
        floor.end(exchange)?;
        equal(bench, &floor)?;
    }
    let of = |of: fn(&Did) -> f64| [0, 1].map(|server| of(&did[server]));
    Ok(Seen {
        look_ups: of(Did::progress),
        reads: of(|did| did.read_bytes as f64 / PAGE_BYTES as f64 / did.seconds),
        held_kib: all_held.map(|held| mean(&held).unwrap_or(0.0)),
    })
}

/// `small` gives disk tickets for memory, in the paper's pages. Answers the exchange's number when memory is set so.
pub(crate) fn exchange(
    bench: &Bench,
    floor: &Floor,
    disk: &Disk,
    (memory, tickets): (u64, u64),
) -> Result<u64, ExperimentError> {
    let gives = soft(&disk.resource(), tickets);
    let exchange = floor.exchange(&gives, &memory_tickets(memory * PAGE_KIB))?;
    settled(bench, floor, [RESERVED_PAGES + memory, RESERVED_PAGES - memory])?;
    Ok(exchange)
}

/// Waits until memory is set as without any exchange. Answers where the servers are.
pub(crate) fn equal(bench: &Bench, floor: &Floor) -> Result<[PathBuf; 2], ExperimentError> {
    settled(bench, floor, [RESERVED_PAGES; 2])
}

/// Waits until the servers' cgroups have so many pages for sure. Answers where they are.
fn settled(bench: &Bench, floor: &Floor, pages: [u64; 2]) -> Result<[PathBuf; 2], ExperimentError> {
    let begun = Instant::now();
    let pids = floor.pids();
    loop {
        let groups = [0, 1].map(|server| {
            let bytes = (pages[server] * PAGE_KIB) << 10;
            group_of(pids[server]).filter(|group| number(group, "memory.min") == Some(bytes))
        });
        if let [Some(small), Some(big)] = groups {
            return Ok([small, big]);
        }
        if (bench.stop)() {
            return Err(ExperimentError::Interrupted);
        }
        if begun.elapsed() > SET_LIMIT {
            let what = format!("has not reserved {pages:?} pages for the servers in {SET_LIMIT:?}");
            return Err(ExperimentError::DaemonFailed { what, log: String::new() });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_without_exchange_are_averaged() {
        let seen = |value: f64| Seen {
            look_ups: [value, 2.0 * value],
            reads: [value; 2],
            held_kib: [value; 2],
        };
        let both = average(&seen(1.0), &seen(3.0));
        assert_eq!(both, seen(2.0));
        assert_eq!(details("no exchange", &both).len(), 6);
        assert!(agree(&seen(1.0), &seen(1.1)).ok);
        assert!(!agree(&seen(1.0), &seen(1.2)).ok);
    }
}
