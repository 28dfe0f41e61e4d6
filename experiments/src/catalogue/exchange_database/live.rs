//! `exchange-database` on real processes.

use crate::catalogue::exchange_database::judge::{Cell, SERVERS, judge};
use crate::catalogue::exchange_database::plots::plots;
use crate::catalogue::exchange_database::servers::{
    LIMIT_MIB, PAGE_KIB, RESERVED_PAGES, equal, exchange, make_databases, settings, traders,
};
use crate::error::ExperimentError;
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::Daemon;
use crate::harness::memory_cgroup::held;
use crate::harness::memory_trace::{KIB, PAGE_BYTES};
use crate::harness::test_disk::TestDisk;
use crate::harness::trading_session::StretchUsage;
use crate::report::comparison::Comparison;
use crate::report::findings::Findings;
use crate::report::outcome::{Outcome, Plot};
use crate::report::statistics::mean;
use crate::report::types::Check;

/// The exchanges: memory (pages) for disk. Of the paper's 64 those of which its text speaks.
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
/// Number of runs: before and after the exchanges there is one without.
const RUNS: usize = CELLS.len() + 2;
/// Parts of each run: `small` fills its memory, without exchange; it fills what it got by the
/// exchange; the part that counts.
const PARTS: [f64; 3] = [0.2, 0.5, 0.3];
/// The most by which the runs without exchange may differ, as a part: a turn of BFQ's, and chance.
const AGREE: f64 = 0.1;

/// The observations of the two servers in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Observed {
    /// MemoryLook-ups a second.
    look_ups: [f64; 2],
    /// Reads of the disk a second, in pages.
    reads: [f64; 2],
    /// Memory held on average, in KiB.
    held_kib: [f64; 2],
}

pub(crate) fn run(context: &mut ExperimentContext) -> Result<Outcome, ExperimentError> {
    let disk = TestDisk::find()?;
    let mut daemon = context.allotd_with_bfq(settings(context))?;
    let seconds = context.total / RUNS as f64;
    make_databases(context, &disk)?;
    let mut one = |exchanged| run_one(context, &mut daemon, &disk, seconds, exchanged);
    let first = one((0, 0))?;
    let observed: Vec<Observed> = CELLS.into_iter().map(&mut one).collect::<Result<_, _>>()?;
    let last = one((0, 0))?;
    drop(daemon);
    let none = average(&first, &last);
    let cell = |((memory, disk), observed): (&(u64, u64), &Observed)| Cell {
        memory: *memory,
        disk: *disk,
        times: [0, 1].map(|server| observed.look_ups[server] / none.look_ups[server]),
    };
    let cells: Vec<Cell> = CELLS.iter().zip(&observed).map(cell).collect();
    let mut verdict = judge(&cells);
    verdict.comparisons.extend(details("no exchange", &none));
    for ((memory, disk), observed) in CELLS.iter().zip(&observed) {
        verdict.comparisons.extend(details(&Cell::name(*memory, *disk), observed));
    }
    verdict.checks.push(agree(&first, &last));
    let mut findings = Findings::default();
    findings.add_verdict(verdict);
    findings.notes.extend(notes(seconds, &disk));
    let title = context.about.title;
    let plots = plots(&cells).into_iter().map(|(file, panels)| Plot::new(file, title, panels));
    let plots = plots.collect();
    Ok(context.finish(findings, plots))
}

fn notes(seconds: f64, disk: &TestDisk) -> Vec<String> {
    let [begin, fill, counts] = PARTS.map(|part| part * seconds);
    vec![
        format!(
            "each run: {begin:.0} s without exchange, {fill:.0} s with it, then {counts:.0} s that \
             count; `default` is the average of two without exchange, before and after all others"
        ),
        format!(
            "{LIMIT_MIB} MiB for all, of which each server has {} KiB for sure; memory.min and \
             memory.low alone choose who loses; the disk takes {} requests at a time and is shared \
             by BFQ",
            RESERVED_PAGES * PAGE_KIB,
            disk.depth
        ),
    ]
}

/// Checks that the baseline was the same before and after.
fn agree(first: &Observed, last: &Observed) -> Check {
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

fn details(what: &str, seen: &Observed) -> Vec<Comparison> {
    let put = |quantity: String, unit: &str, value: f64| {
        Comparison::new(what, &quantity, unit).measured(Some(value), None)
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

fn average(one: &Observed, other: &Observed) -> Observed {
    let both = |of: fn(&Observed) -> [f64; 2]| {
        let (one, other) = (of(one), of(other));
        [0, 1].map(|server| (one[server] + other[server]) / 2.0)
    };
    Observed {
        look_ups: both(|seen| seen.look_ups),
        reads: both(|seen| seen.reads),
        held_kib: both(|seen| seen.held_kib),
    }
}

/// Runs new processes, none of whose data is in memory. `small` gives `disk` tickets for `memory`
/// pages after the first part.
fn run_one(
    context: &mut ExperimentContext,
    daemon: &mut Daemon,
    disk: &TestDisk,
    seconds: f64,
    (memory, tickets): (u64, u64),
) -> Result<Observed, ExperimentError> {
    let [begin, fill, counts] = PARTS.map(|part| part * seconds);
    let mut session = context.trading_session(daemon, disk, &traders(disk), seconds)?;
    let groups = equal(context, &session)?;
    session.release();
    let label = Cell::name(memory, tickets);
    session.pass(context, begin, &label, &mut |_| Ok(()))?;
    let exchange = match memory {
        0 => None,
        _ => Some(exchange(context, &session, disk, (memory, tickets))?),
    };
    session.pass(context, fill, &label, &mut |_| Ok(()))?;
    let mut all_held: [Vec<f64>; 2] = Default::default();
    let did = session.pass(context, counts, &label, &mut |_| {
        for (group, all) in groups.iter().zip(&mut all_held) {
            all.push(held(group) as f64 / KIB);
        }
        Ok(())
    })?;
    if let Some(exchange) = exchange {
        session.end(exchange)?;
        equal(context, &session)?;
    }
    let of = |of: fn(&StretchUsage) -> f64| [0, 1].map(|server| of(&did[server]));
    Ok(Observed {
        look_ups: of(StretchUsage::progress),
        reads: of(|did| did.read_bytes as f64 / PAGE_BYTES as f64 / did.seconds),
        held_kib: all_held.map(|held| mean(&held).unwrap_or(0.0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_without_exchange_are_averaged() {
        let seen = |value: f64| Observed {
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
