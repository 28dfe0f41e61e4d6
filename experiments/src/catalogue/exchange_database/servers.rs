//! The look-up servers of `exchange-database`, and the clients beside them.

use crate::catalogue::exchange_cpu_disk::judge::EQUAL;
use crate::catalogue::exchange_database::judge::SERVERS;
use crate::error::ExperimentError;
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::{DaemonMemory, DaemonSettings};
use crate::harness::disk_run::soft;
use crate::harness::memory_cgroup::{group_of, number};
use crate::harness::memory_trial::memory_tickets;
use crate::harness::test_disk::TestDisk;
use crate::harness::trading_session::{Trader, TradingSession};
use crate::harness::workers::Job;
use crate::workloads::database::Database;
use crate::workloads::disk::{DiskLoad, DiskWork};
use crate::workloads::spec::Work;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Memory for one page of the paper's. There all data was twice in memory, in the kernel's cache
/// and in the database's own; LMDB has it once, so that half of the memory does the same.
pub(super) const PAGE_KIB: u64 = 2;
/// Reservation of each server, in the paper's pages; there it is 1375, which is no whole number of
/// pages here.
pub(super) const RESERVED_PAGES: u64 = 1376;
/// Limit of all clients together. In the paper they could reserve 11.1 MB, half of which is 5.3
/// MiB; here the processes' other memory counts too.
pub(super) const LIMIT_MIB: u64 = 7;
/// Entries of `small` and of `big`: 3.9 and 59 MiB.
const ENTRIES: [u64; 2] = [70_000, 1 << 20];
const VALUE_BYTES: usize = 40;
const IOHOGS: usize = 4;
/// Size of each iohog's file.
const FILE_MIB: u64 = 16;
/// Timeout until the servers' memory is set as the tickets say.
const SET_LIMIT: Duration = Duration::from_secs(60);

/// Returns the settings of an allotd for the servers: the kernel alone reclaims.
pub(in crate::catalogue) fn settings(context: &ExperimentContext) -> DaemonSettings {
    let memory = DaemonMemory { policy: "kernel", limit_mib: LIMIT_MIB, guests: None };
    DaemonSettings { memory: Some(memory), ..DaemonSettings::of(context.options) }
}

/// Makes the databases, by processes that do nothing else: a process that has just written much is
/// no reader like the others.
pub(in crate::catalogue) fn make_databases(
    context: &ExperimentContext,
    disk: &TestDisk,
) -> Result<(), ExperimentError> {
    let servers = traders(disk).into_iter().take(SERVERS.len());
    let jobs: Vec<Job> = servers.map(|trader| Job::new(&trader.name, trader.work)).collect();
    context.workers(&jobs, 0.0).map(drop)
}

/// Returns the servers, and the iohogs beside them.
pub(in crate::catalogue) fn traders(disk: &TestDisk) -> Vec<Trader> {
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

/// Exchanges: `small` gives disk tickets for memory, in the paper's pages. Returns the exchange's
/// number when memory is set so.
pub(in crate::catalogue) fn exchange(
    context: &ExperimentContext,
    session: &TradingSession,
    disk: &TestDisk,
    (memory, tickets): (u64, u64),
) -> Result<u64, ExperimentError> {
    let gives = soft(&disk.resource(), tickets);
    let exchange = session.exchange(&gives, &memory_tickets(memory * PAGE_KIB))?;
    settled(context, session, [RESERVED_PAGES + memory, RESERVED_PAGES - memory])?;
    Ok(exchange)
}

/// Waits until memory is set as without any exchange. Returns the cgroups of the servers.
pub(in crate::catalogue) fn equal(
    context: &ExperimentContext,
    session: &TradingSession,
) -> Result<[PathBuf; 2], ExperimentError> {
    settled(context, session, [RESERVED_PAGES; 2])
}

/// Waits until the servers' cgroups have so many pages for sure. Returns the cgroups.
fn settled(
    context: &ExperimentContext,
    session: &TradingSession,
    pages: [u64; 2],
) -> Result<[PathBuf; 2], ExperimentError> {
    let begun = Instant::now();
    let pids = session.pids();
    loop {
        let groups = [0, 1].map(|server| {
            let bytes = (pages[server] * PAGE_KIB) << 10;
            group_of(pids[server]).filter(|group| number(group, "memory.min") == Some(bytes))
        });
        if let [Some(small), Some(big)] = groups {
            return Ok([small, big]);
        }
        if (context.stop)() {
            return Err(ExperimentError::Interrupted);
        }
        if begun.elapsed() > SET_LIMIT {
            let what = format!("has not reserved {pages:?} pages for the servers in {SET_LIMIT:?}");
            return Err(ExperimentError::DaemonFailed { what, log: String::new() });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
