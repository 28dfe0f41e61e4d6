//! `negotiators` on real processes.

use crate::catalogue::exchange_cpu_disk::live as cpu_disk;
use crate::catalogue::exchange_database::servers as database;
use crate::catalogue::negotiators::judge::{LAST, Load, STRETCHES, Traded, gain, judge, panel};
use crate::error::ExperimentError;
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::{Daemon, DaemonSettings};
use crate::harness::disk_run::soft;
use crate::harness::negotiators::NegotiatorProcesses;
use crate::harness::test_disk::TestDisk;
use crate::harness::trading_session::{StretchUsage, TradingSession};
use crate::report::findings::Findings;
use crate::report::outcome::{Outcome, Plot};
use std::time::Duration;

/// The static exchanges of the comparison: the best of exchange-cpu-disk, one for one,
const CPU_FOR_DISK: u64 = 600;
/// and of exchange-database, memory (pages) for disk.
const MEMORY_FOR_DISK: (u64, u64) = (700, 800);
/// Parts of the time of each load: without exchange (the last twice), with the static one, with
/// negotiators.
const CPU_AND_DISK: [f64; 3] = [0.06, 0.06, 0.3];
const ALIKE: [f64; 2] = [0.05, 0.13];
const MEMORY_AND_DISK: [f64; 3] = [0.04, 0.06, 0.26];
/// Windows of a negotiator in the time that it has. More of them would cost more, fewer leave no
/// time for trials.
const WINDOWS: f64 = 120.0;
/// The shortest and the longest window.
const WINDOW_SECONDS: [f64; 2] = [1.0, 5.0];
/// The part of each phase without negotiators that settles.
const SETTLE: f64 = 0.2;
/// The same, where memory must be filled.
const FILL: f64 = 0.6;

fn both(did: &[StretchUsage]) -> [f64; 2] {
    [did[0].progress(), did[1].progress()]
}

pub(crate) fn run(context: &mut ExperimentContext) -> Result<Outcome, ExperimentError> {
    let disk = TestDisk::find()?;
    let [shortest, longest] = WINDOW_SECONDS;
    let window = (context.total * CPU_AND_DISK[2] / WINDOWS).clamp(shortest, longest);
    let window = Duration::from_secs_f64(window);
    let mut daemon = context.allotd_with_bfq(DaemonSettings::of(context.options))?;
    let mut loads = vec![
        cpu_and_disk(context, &mut daemon, &disk, window)?,
        two_alike(context, &mut daemon, &disk, window)?,
    ];
    drop(daemon);
    loads.push(memory_and_disk(context, &disk, window)?);
    let mut findings = Findings::default();
    let (mut panels, mut logs) = (Vec::new(), Vec::new());
    for load in loads {
        findings.add_verdict(judge(&load));
        panels.push(panel(&load));
        for (place, said) in load.found.record.said.into_iter().enumerate() {
            logs.push((format!("{}-{}.log", load.found.file, place + 1), said));
        }
    }
    findings.note(format!(
        "gain is the geometric mean of both programs' progress, as times of that without exchange; \
         windows are {:.1} s; with negotiators the last {LAST} of {STRETCHES} stretches count",
        window.as_secs_f64()
    ));
    let title = context.about.title;
    let plots = vec![Plot::new("negotiators", title, panels)];
    Ok(context.finish_as(title, context.about.paper, findings, plots, logs))
}

/// Runs the load of exchange-cpu-disk.
fn cpu_and_disk(
    context: &mut ExperimentContext,
    daemon: &mut Daemon,
    disk: &TestDisk,
    window: Duration,
) -> Result<Load, ExperimentError> {
    let [none_s, fixed_s, traded_s] = CPU_AND_DISK.map(|part| part * context.total);
    let mut session =
        context.trading_session(daemon, disk, &cpu_disk::traders(disk), context.total)?;
    session.release();
    let none = steady(context, &mut session, none_s, SETTLE, "cpu-disk, no exchange")?;
    let tickets = |resource: &str| soft(resource, CPU_FOR_DISK);
    let exchange = session.exchange(&tickets(&disk.resource()), &tickets("cpu"))?;
    let fixed = steady(context, &mut session, fixed_s, SETTLE, "cpu-disk, static exchange")?;
    session.end(exchange)?;
    let found = negotiate(context, &mut session, window, traded_s, "cpu-disk")?;
    let words = format!("{CPU_FOR_DISK} disk for {CPU_FOR_DISK} CPU");
    let fixed = Some((words, gain(fixed, none)));
    Ok(Load { name: "cpu and disk", none, fixed, found })
}

/// Runs two clients that need the same.
fn two_alike(
    context: &mut ExperimentContext,
    daemon: &mut Daemon,
    disk: &TestDisk,
    window: Duration,
) -> Result<Load, ExperimentError> {
    let [none_s, traded_s] = ALIKE.map(|part| part * context.total);
    let mut alike = cpu_disk::traders(disk);
    alike[1] = cpu_disk::trader(disk, "dhrystone that is alike", false);
    let mut session = context.trading_session(daemon, disk, &alike, context.total)?;
    session.release();
    let none = steady(context, &mut session, none_s, SETTLE, "alike, no exchange")?;
    let found = negotiate(context, &mut session, window, traded_s, "alike")?;
    Ok(Load { name: "two alike", none, fixed: None, found })
}

/// Runs the load of exchange-database.
fn memory_and_disk(
    context: &mut ExperimentContext,
    disk: &TestDisk,
    window: Duration,
) -> Result<Load, ExperimentError> {
    let [none_s, fixed_s, traded_s] = MEMORY_AND_DISK.map(|part| part * context.total);
    let mut daemon = context.allotd_with_bfq(database::settings(context))?;
    database::make_databases(context, disk)?;
    let traders = database::traders(disk);
    let mut session = context.trading_session(&mut daemon, disk, &traders, context.total)?;
    database::equal(context, &session)?;
    session.release();
    let none = steady(context, &mut session, none_s, FILL, "memory-disk, no exchange")?;
    let exchange = database::exchange(context, &session, disk, MEMORY_FOR_DISK)?;
    let fixed = steady(context, &mut session, fixed_s, FILL, "memory-disk, static exchange")?;
    session.end(exchange)?;
    // Memory goes back to whom it belongs.
    database::equal(context, &session)?;
    steady(context, &mut session, none_s, FILL, "memory-disk, no exchange")?;
    let found = negotiate(context, &mut session, window, traded_s, "memory-disk")?;
    let (memory, tickets) = MEMORY_FOR_DISK;
    let fixed = Some((format!("{tickets} disk for {memory} memory"), gain(fixed, none)));
    Ok(Load { name: "memory and disk", none, fixed, found })
}

/// Returns the progress of the first two, after settling.
fn steady(
    context: &mut ExperimentContext,
    session: &mut TradingSession,
    seconds: f64,
    settle: f64,
    label: &str,
) -> Result<[f64; 2], ExperimentError> {
    session.pass(context, seconds * settle, label, &mut |_| Ok(()))?;
    let did = session.pass(context, seconds * (1.0 - settle), label, &mut |_| Ok(()))?;
    Ok(both(&did))
}

/// Runs the first two with a negotiator each.
fn negotiate(
    context: &mut ExperimentContext,
    session: &mut TradingSession,
    window: Duration,
    seconds: f64,
    file: &'static str,
) -> Result<Traded, ExperimentError> {
    let (dir, socket) = (context.dir.path(), session.daemon().socket());
    let mut negotiators =
        NegotiatorProcesses::start(file, dir, socket, &session.ids()[..2], window)?;
    let seconds = seconds / STRETCHES as f64;
    let label = format!("{file}, negotiators");
    let mut rates = Vec::new();
    for _ in 0..STRETCHES {
        let did = session.pass(context, seconds, &label, &mut |session| {
            negotiators.tell(&session.iterations())
        })?;
        rates.push(both(&did));
    }
    let held = held(session)?;
    let due = 1.0 / session.ids().len() as f64;
    Ok(Traded { file, due, rates, seconds, record: negotiators.end()?, held })
}

/// Describes the tickets that the two have by exchanges.
fn held(session: &TradingSession) -> Result<Vec<String>, ExperimentError> {
    let market = session.daemon().market()?;
    let legs = || market.exchanges.iter().flat_map(|exchange| &exchange.legs);
    let number = |place: usize| session.ids()[place].0.trim_start_matches('#').parse().ok();
    let mut goods: Vec<&str> = legs().map(|leg| leg.good.resource.as_str()).collect();
    goods.sort_unstable();
    goods.dedup();
    let net = |place: usize, good: &str| -> i64 {
        let id: Option<u64> = number(place);
        let of = legs().filter(|leg| leg.good.resource == good);
        of.map(|leg| {
            let sign = i64::from(Some(leg.receiver) == id) - i64::from(Some(leg.giver) == id);
            sign * leg.amount as i64
        })
        .sum()
    };
    let words = |place: usize| {
        let each = goods.iter().map(|good| format!("{:+} {good}", net(place, good)));
        each.collect::<Vec<_>>().join(", ")
    };
    Ok(vec![words(0), words(1)])
}
