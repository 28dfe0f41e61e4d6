//! Processes that inherited SCHED_IDLE from one that was held.

use super::forks::until_settled;
use super::threads::free_threads;
use crate::record::{IDLED, OriginalState, ProcessEntry, ProcessTable};
use crate::scheduling::{SchedulingPolicy, policy_of};
use identity::ProcessIdentity;
use observe::ProcessHandle;
use std::collections::{BTreeMap, BTreeSet};

/// Descendants of processes that were held, as seen when they were born.
#[derive(Clone, Debug, Default)]
pub struct Lineage {
    /// By pid, while it lives: the start time where it is known, and the policy that its
    /// ancestor had of its own.
    pub born: BTreeMap<u32, (Option<u64>, SchedulingPolicy)>,
    /// Whether every birth was seen.
    pub complete: bool,
}

/// Takes everybody out of SCHED_IDLE who inherited it from a process in the table. Answers how many
/// these were.
pub fn free_inheritors(
    table: &ProcessTable,
    lineage: impl FnMut() -> Lineage,
    failed: &mut Vec<String>,
) -> usize {
    free_inheritors_of(table.made_ticks(), table.entries(), lineage, failed)
}

/// The same for what a record tells that was made at this tick. `lineage` is asked anew for each
/// look: who was not freed yet still has children.
pub(super) fn free_inheritors_of(
    made_ticks: u64,
    entries: impl Iterator<Item = ProcessEntry>,
    mut lineage: impl FnMut() -> Lineage,
    failed: &mut Vec<String>,
) -> usize {
    let mut kin = Kin::of(made_ticks, entries);
    if kin.ancestors.is_empty() {
        return 0;
    }
    let mut count = 0;
    until_settled(|| {
        let freed = kin.pass(&mut lineage, failed);
        count += freed.len();
        freed
    });
    count
}

/// The marks by which an inheritor is known.
struct Kin {
    made_ticks: u64,
    lineage: Lineage,
    /// Processes on record that were idled, live or released.
    ancestors: BTreeMap<ProcessIdentity, SchedulingPolicy>,
    /// Live ones: restored by their own entry.
    live: BTreeSet<ProcessIdentity>,
    sessions: BTreeMap<u32, SchedulingPolicy>,
    process_groups: BTreeMap<u32, SchedulingPolicy>,
    uids: BTreeMap<u32, SchedulingPolicy>,
}

impl Kin {
    fn of(made_ticks: u64, entries: impl Iterator<Item = ProcessEntry>) -> Kin {
        let mut kin = Kin {
            made_ticks,
            lineage: Lineage::default(),
            ancestors: BTreeMap::new(),
            live: BTreeSet::new(),
            sessions: BTreeMap::new(),
            process_groups: BTreeMap::new(),
            uids: BTreeMap::new(),
        };
        for entry in entries.filter(|entry| entry.tid.is_none()) {
            let original = entry.original;
            let OriginalState { process, policy, session, process_group, uid, .. } = original;
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

    /// Frees the inheritors that are there, and returns them.
    fn pass(
        &mut self,
        lineage: &mut impl FnMut() -> Lineage,
        failed: &mut Vec<String>,
    ) -> Vec<ProcessHandle> {
        // Most passes end here: whoever inherited it, did so with its first thread.
        let idle: BTreeSet<u32> =
            pids().filter(|pid| policy_of(*pid).is_ok_and(SchedulingPolicy::is_idle)).collect();
        if !idle.iter().any(|pid| self.may_have_inherited(*pid)) {
            return Vec::new();
        }
        let Ok(processes) = observe::scan() else { return Vec::new() };
        // After the look, so that it knows whoever was seen.
        self.lineage = lineage();
        let by_pid: BTreeMap<u32, &observe::Process> =
            processes.iter().map(|process| (process.identity.pid, process)).collect();
        let mut freed = Vec::new();
        for process in processes.iter().filter(|process| idle.contains(&process.identity.pid)) {
            let identity = process.identity;
            if !self.may_have_inherited(identity.pid) || process.facts.is_kernel_thread {
                continue;
            }
            let Some(policy) = self.policy_of_kin(process, &by_pid) else { continue };
            let Ok(handle) = ProcessHandle::open_identity(identity) else { continue };
            match free_threads(&handle, policy, &BTreeMap::new()) {
                Ok(true) => freed.push(handle),
                Ok(false) => {}
                Err(error) => failed.push(format!("{identity}: {error}")),
            }
        }
        freed
    }

    /// Not one that is older than the record, or that is in it itself.
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
