//! Giving processes back what they had.

use crate::registry::{Before, Entry, IDLED, Registry, STOPPED};
use crate::scheduling::{SchedulingPolicy, policy_of, set_policy};
use ledger::ProcessIdentity;
use observe::ProcessHandle;
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// What was given back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Processes taken out of SCHED_IDLE.
    pub processes: usize,
    /// Processes continued.
    pub continued: usize,
    /// What could not be given back, in words.
    pub failed: Vec<String>,
}

/// Restores every process that is in the file of a registry whose allotd and guardian are both
/// gone, and removes the file. Nothing to do where there is no such file, or one of an earlier
/// boot.
///
/// # Errors
/// When the file cannot be read, or an allotd still uses it.
pub fn restore_leftovers(path: &Path) -> io::Result<Restored> {
    let Some(mut registry) = Registry::leftover(path)? else { return Ok(Restored::default()) };
    let restored = restore_all(&registry, Lineage::default);
    registry.clear();
    std::fs::remove_file(path)?;
    Ok(restored)
}

/// Who descends from a process that was held, as seen when it was born.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lineage {
    /// By pid, while it lives: the start time where it is known, and the policy that its
    /// ancestor had of its own.
    pub born: BTreeMap<u32, (Option<u64>, SchedulingPolicy)>,
    /// Whether every birth was seen.
    pub complete: bool,
}

/// Passes over all processes that find nothing to do, in a row, before we believe it.
const CLEAN_PASSES: u32 = 2;
/// A process that is restored while it forks can leave a child for the next pass, not more.
const MAX_PASSES: u32 = 50;

/// Restores everybody who is in the registry, and all who inherited SCHED_IDLE from them. `lineage`
/// is asked anew for each look: who was not restored yet still has children.
pub(crate) fn restore_all(registry: &Registry, lineage: impl FnMut() -> Lineage) -> Restored {
    let mut restored = Restored::default();
    let entries: Vec<Entry> = registry.entries().collect();
    let threads: BTreeMap<u32, SchedulingPolicy> = entries
        .iter()
        .filter(|entry| entry.live)
        .filter_map(|entry| Some((entry.tid?, entry.before.policy)))
        .collect();
    for entry in entries.iter().filter(|entry| entry.live && entry.tid.is_none()) {
        let identity = entry.before.process;
        let Ok(handle) = ProcessHandle::open_identity(identity) else { continue };
        if entry.flags & IDLED != 0 {
            match free_threads(&handle, entry.before.policy, &threads) {
                Ok(true) => restored.processes += 1,
                Ok(false) => {}
                Err(error) => restored.failed.push(format!("{identity}: {error}")),
            }
        }
        if entry.flags & STOPPED != 0 {
            match rustix::process::pidfd_send_signal(handle.pidfd(), Signal::CONT) {
                Ok(()) => restored.continued += 1,
                Err(rustix::io::Errno::SRCH) => {}
                Err(error) => restored.failed.push(format!("{identity}: {error}")),
            }
        }
    }
    restored.processes += free_inheritors(registry, lineage, &mut restored.failed);
    restored
}

/// Takes everybody out of SCHED_IDLE who inherited it from a process in the registry. Answers
/// how many these were.
pub(crate) fn free_inheritors(
    registry: &Registry,
    mut lineage: impl FnMut() -> Lineage,
    failed: &mut Vec<String>,
) -> usize {
    let mut kin = Kin::of(registry);
    if kin.ancestors.is_empty() {
        return 0;
    }
    let mut count = 0;
    let mut clean = 0;
    for _ in 0..MAX_PASSES {
        let found = kin.pass(&mut lineage, failed);
        count += found;
        clean = if found == 0 { clean + 1 } else { 0 };
        if clean == CLEAN_PASSES {
            break;
        }
    }
    count
}

/// By what an inheritor is known.
struct Kin {
    made_ticks: u64,
    lineage: Lineage,
    /// Processes in the registry that were idled, live or released.
    ancestors: BTreeMap<ProcessIdentity, SchedulingPolicy>,
    /// Live ones: restored by their own record.
    live: BTreeSet<ProcessIdentity>,
    sessions: BTreeMap<u32, SchedulingPolicy>,
    process_groups: BTreeMap<u32, SchedulingPolicy>,
    uids: BTreeMap<u32, SchedulingPolicy>,
}

impl Kin {
    fn of(registry: &Registry) -> Kin {
        let mut kin = Kin {
            made_ticks: registry.made_ticks(),
            lineage: Lineage::default(),
            ancestors: BTreeMap::new(),
            live: BTreeSet::new(),
            sessions: BTreeMap::new(),
            process_groups: BTreeMap::new(),
            uids: BTreeMap::new(),
        };
        for entry in registry.entries().filter(|entry| entry.tid.is_none()) {
            let Before { process, policy, session, process_group, uid, .. } = entry.before;
            if entry.live {
                kin.live.insert(process);
            }
            if entry.flags & IDLED != 0 {
                kin.ancestors.insert(process, policy);
                kin.sessions.insert(session, policy);
                kin.process_groups.insert(process_group, policy);
                kin.uids.insert(uid, policy);
            }
        }
        kin
    }

    fn pass(&mut self, lineage: &mut impl FnMut() -> Lineage, failed: &mut Vec<String>) -> usize {
        // Most passes end here: whoever inherited it, did so with its first thread.
        let idle: BTreeSet<u32> =
            pids().filter(|pid| policy_of(*pid).is_ok_and(SchedulingPolicy::is_idle)).collect();
        if !idle.iter().any(|pid| self.may_have_inherited(*pid)) {
            return 0;
        }
        let Ok(processes) = observe::scan() else { return 0 };
        // After the look, so that it knows whoever was seen.
        self.lineage = lineage();
        let by_pid: BTreeMap<u32, &observe::Process> =
            processes.iter().map(|process| (process.identity.pid, process)).collect();
        let mut count = 0;
        for process in processes.iter().filter(|process| idle.contains(&process.identity.pid)) {
            let identity = process.identity;
            if !self.may_have_inherited(identity.pid) || process.facts.is_kernel_thread {
                continue;
            }
            let Some(policy) = self.policy_of_kin(process, &by_pid) else { continue };
            let Ok(handle) = ProcessHandle::open_identity(identity) else { continue };
            match free_threads(&handle, policy, &BTreeMap::new()) {
                Ok(true) => count += 1,
                Ok(false) => {}
                Err(error) => failed.push(format!("{identity}: {error}")),
            }
        }
        count
    }

    /// Not one that is older than the registry, or that has a record of its own.
    fn may_have_inherited(&self, pid: u32) -> bool {
        ProcessHandle::open(pid).is_ok_and(|handle| {
            let identity = handle.identity();
            identity.start_time_ticks >= self.made_ticks && !self.live.contains(&identity)
        })
    }

    /// The policy that an inheritor's ancestor had of its own; `None` for one who is no kin.
    fn policy_of_kin(
        &self,
        process: &observe::Process,
        by_pid: &BTreeMap<u32, &observe::Process>,
    ) -> Option<SchedulingPolicy> {
        if let Some((start, policy)) = self.lineage.born.get(&process.identity.pid)
            && start.is_none_or(|start| start == process.identity.start_time_ticks)
        {
            return Some(*policy);
        }
        let mut ancestor = process;
        // A scan is not one instant: reused pids could make a circle.
        for _ in 0..64 {
            let Some(parent) = by_pid.get(&ancestor.facts.parent_pid) else { break };
            if let Some(policy) = self.ancestors.get(&parent.identity) {
                return Some(*policy);
            }
            ancestor = parent;
        }
        if self.lineage.complete {
            return None;
        }
        let facts = &process.facts;
        self.sessions
            .get(&facts.session)
            .or_else(|| self.process_groups.get(&facts.process_group))
            .or_else(|| self.uids.get(&facts.real_uid))
            .copied()
    }
}

fn pids() -> impl Iterator<Item = u32> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Takes every thread of a process out of SCHED_IDLE; threads with a policy of their own get
/// that. Answers whether one was in it.
pub(crate) fn free_threads(
    handle: &ProcessHandle,
    policy: SchedulingPolicy,
    threads: &BTreeMap<u32, SchedulingPolicy>,
) -> io::Result<bool> {
    let mut any = false;
    if policy.is_idle() && threads.is_empty() {
        return Ok(false);
    }
    // Each pass can miss threads that were started meanwhile by one not yet freed.
    for _ in 0..MAX_PASSES {
        let Ok(tids) = handle.threads() else { return Ok(any) };
        let mut found = false;
        for tid in tids {
            let own = threads.get(&tid).copied().unwrap_or(policy);
            let now = match policy_of(tid) {
                Ok(now) => now,
                Err(_) => continue,
            };
            if !now.is_idle() || own.is_idle() || !handle.is_alive() {
                continue;
            }
            match set_policy(tid, own) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => continue,
                Err(error) => return Err(error),
            }
            if !is_thread_of(handle, tid) {
                // It ended, and the number may name somebody else's thread, whose policy was
                // SCHED_IDLE.
                let _ = set_policy(tid, now);
                continue;
            }
            found = true;
        }
        any |= found;
        if !found {
            break;
        }
    }
    Ok(any)
}

/// Whether the thread is (still) one of the process.
fn is_thread_of(handle: &ProcessHandle, tid: u32) -> bool {
    if !handle.is_alive() {
        return false;
    }
    let pid = handle.identity().pid;
    // While the process lives, /proc/<pid> is its own.
    tid == pid || Path::new(&format!("/proc/{pid}/task/{tid}")).exists()
}
