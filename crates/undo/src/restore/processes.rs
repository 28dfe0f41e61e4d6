//! Processes that are given back their scheduling policy, and go on.

use super::forks::{await_forks, until_settled};
use super::lineage::{Lineage, free_inheritors_of};
use super::restored::{CONTINUED, FREED, Restored};
use super::threads::free_threads;
use crate::record::{IDLED, ProcessEntry, STOPPED};
use crate::scheduling::SchedulingPolicy;
use observe::ProcessHandle;
use rustix::process::Signal;
use std::collections::BTreeMap;

/// Restores every live process on a record that was made at this tick, and all who inherited
/// SCHED_IDLE from one on it.
pub(super) fn restore_processes(
    made_ticks: u64,
    entries: &[ProcessEntry],
    lineage: impl FnMut() -> Lineage,
    restored: &mut Restored,
) {
    let live = || entries.iter().filter(|entry| entry.live);
    let threads: BTreeMap<u32, SchedulingPolicy> =
        live().filter_map(|entry| Some((entry.tid?, entry.original.policy))).collect();
    let idled = || entries.iter().filter(|entry| entry.tid.is_none() && entry.flags & IDLED != 0);
    let free = |restored: &mut Restored| {
        let mut freed = Vec::new();
        for entry in idled().filter(|entry| entry.live) {
            let Some(handle) = handle_of(entry) else { continue };
            match free_threads(&handle, entry.original.policy, &threads) {
                Ok(true) => freed.push(handle),
                Ok(false) => {}
                Err(error) => restored.fail(format!("{}: {error}", handle.identity())),
            }
        }
        freed
    };
    let freed = free(restored).len();
    restored.count(FREED, freed);
    for entry in live().filter(|entry| entry.tid.is_none() && entry.flags & STOPPED != 0) {
        let Some(handle) = handle_of(entry) else { continue };
        match rustix::process::pidfd_send_signal(handle.pidfd(), Signal::CONT) {
            Ok(()) => restored.count(CONTINUED, 1),
            Err(rustix::io::Errno::SRCH) => {}
            Err(error) => restored.fail(format!("{}: {error}", handle.identity())),
        }
    }
    // Those too that an enforcer let go just before it ended.
    await_forks(&idled().filter_map(handle_of).collect::<Vec<_>>());
    until_settled(|| free(restored));
    let inheritors = entries.iter().copied();
    let freed = free_inheritors_of(made_ticks, inheritors, lineage, &mut restored.failed);
    restored.count(FREED, freed);
}

fn handle_of(entry: &ProcessEntry) -> Option<ProcessHandle> {
    ProcessHandle::open_identity(entry.original.process).ok()
}
