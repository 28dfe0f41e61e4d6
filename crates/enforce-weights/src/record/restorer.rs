//! Gives back what was changed, by the record alone.

use super::{UNDO, UndoEntry};
use crate::carriers::{change_threads, find_autogroup, set_autogroup, v1_tree};
use ledger::ProcessIdentity;
use observe::{Process, ProcessHandle};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use undo::cgroup::Dissolved;
use undo::{LogEntry, Restored, Restorer};

/// Gives back what a [`Weights`](crate::Weights) changes: processes go back to where they were found, if they are still
/// where they were put; our cgroups are removed; nice values that are still as they were set are set back, those of
/// children that inherited them too; who was stopped goes on.
#[derive(Clone, Copy, Debug)]
pub struct WeightsRestorer;

impl Restorer for WeightsRestorer {
    fn name(&self) -> &'static str {
        UNDO
    }

    fn restore(&self, kept: &[LogEntry], restored: &mut Restored) {
        let mut entries: Vec<UndoEntry> = restored.read(kept);
        // The oldest first: what was noted first is as it was found.
        entries.reverse();
        restore_places(&entries, restored);
        restore_groups(&entries, restored);
        restore_nice(&entries, restored);
        for entry in &entries {
            match entry {
                UndoEntry::Autogroup { name, nice } => restore_autogroup(name, *nice, restored),
                UndoEntry::Stop { process } => go_on(*process, restored),
                _ => {}
            }
        }
    }
}

/// Takes those back who have an entry of their own.
fn restore_places(entries: &[UndoEntry], restored: &mut Restored) {
    for entry in entries {
        let UndoEntry::Place { process, mount, origin } = entry else { continue };
        let Ok(handle) = ProcessHandle::open_identity(*process) else { continue };
        match v1_tree::move_back(&handle, &v1_tree::at(mount), origin) {
            Ok(moved) => restored.count("processes moved", usize::from(moved)),
            Err(error) => restored.failed.push(format!("{process} stays in our cgroup: {error}")),
        }
    }
}

/// Removes our cgroups, and takes back who is in them.
fn restore_groups(entries: &[UndoEntry], restored: &mut Restored) {
    let mut groups: BTreeMap<&Path, (&Path, &str)> = BTreeMap::new();
    for entry in entries {
        if let UndoEntry::Group { folder, mount, origin } = entry {
            groups.entry(folder).or_insert((mount, origin));
        }
    }
    let origins: BTreeMap<PathBuf, String> = groups
        .iter()
        .map(|(folder, (_, origin))| (PathBuf::from(folder), (*origin).to_owned()))
        .collect();
    let origin = |group: &Path| origins.get(group).cloned().unwrap_or_else(|| "/".to_owned());
    // Inner ones first: a longer path is greater.
    for (folder, (mount, _)) in groups.iter().rev().filter(|(folder, _)| folder.exists()) {
        match v1_tree::dissolve(&v1_tree::at(mount), folder, v1_tree::PASSES, origin) {
            Ok(Dissolved { moved, .. }) => {
                restored.count("processes moved", moved);
                restored.count("cgroups removed", 1);
            }
            Err(why) => restored.failed.push(why),
        }
    }
}

fn restore_autogroup(name: &str, nice: i32, restored: &mut Restored) {
    // A session that has ended took its nice value along.
    let Some((pid, now)) = find_autogroup(name) else { return };
    match set_autogroup(pid, name, nice) {
        Ok(set) => restored.count("settings restored", usize::from(set && now != nice)),
        Err(error) => restored.failed.push(format!("{name} stays at nice {now}: {error}")),
    }
}

fn go_on(process: ProcessIdentity, restored: &mut Restored) {
    let Ok(handle) = ProcessHandle::open_identity(process) else { return };
    match rustix::process::pidfd_send_signal(handle.pidfd(), Signal::CONT) {
        Ok(()) => restored.count(undo::restore::CONTINUED, 1),
        Err(rustix::io::Errno::SRCH) => {}
        Err(error) => restored.failed.push(format!("{process}: {error}")),
    }
}

/// What is known of a process that was given a nice value.
#[derive(Clone, Debug)]
struct Niced {
    session: u32,
    own: i32,
    others: BTreeMap<u32, i32>,
    /// All that it was given.
    given: BTreeSet<i32>,
    /// When it was given the first, in clock ticks since boot.
    at_ticks: u64,
}

impl Niced {
    /// What a thread has to have instead of what it has now; `None` if it was not given that by us.
    fn own_of(&self, tid: u32, now: i32) -> Option<i32> {
        let own = self.others.get(&tid).copied().unwrap_or(self.own);
        (self.given.contains(&now) && now != own).then_some(own)
    }
}

/// Gives processes their own nice values back, then those that inherited another one from them.
fn restore_nice(entries: &[UndoEntry], restored: &mut Restored) {
    let mut known: BTreeMap<ProcessIdentity, Niced> = BTreeMap::new();
    for entry in entries {
        let UndoEntry::Nice { process, session, own, others, given, at_ticks } = entry else {
            continue;
        };
        let niced = known.entry(*process).or_insert_with(|| Niced {
            session: *session,
            own: *own,
            others: others.iter().copied().collect(),
            given: BTreeSet::new(),
            at_ticks: *at_ticks,
        });
        niced.given.insert(*given);
    }
    if known.is_empty() {
        return;
    }
    undo::restore::until_settled(|| {
        let processes = observe::scan().unwrap_or_default();
        let recorded = known.iter().map(|(process, niced)| (*process, niced));
        let all = recorded.chain(inheritors(&processes, &known));
        let handles = all.filter_map(|(process, niced)| {
            Some((ProcessHandle::open_identity(process).ok()?, niced))
        });
        handles
            .filter_map(|(handle, niced)| restore_one(&handle, niced, restored).then_some(handle))
            .collect()
    });
}

/// Gives one process back what it had. Returns whether anything had to be.
fn restore_one(process: &ProcessHandle, niced: &Niced, restored: &mut Restored) -> bool {
    let any = std::cell::Cell::new(false);
    let result = change_threads(process, |tid, now| {
        let own = niced.own_of(tid, now);
        any.set(any.get() || own.is_some());
        own
    });
    restored.count("nice values restored", usize::from(any.get()));
    if let Err(error) = &result {
        restored.fail(format!("{} keeps a nice value of ours: {error}", process.identity()));
    }
    result.is_ok() && any.get()
}

/// Lists the descendants of processes on record that are not on record themselves: those whose parents lead to one, and,
/// where a parent is gone, those of its session that began after it.
fn inheritors<'a>(
    processes: &[Process],
    known: &'a BTreeMap<ProcessIdentity, Niced>,
) -> Vec<(ProcessIdentity, &'a Niced)> {
    let by_pid: BTreeMap<u32, &Process> =
        processes.iter().map(|process| (process.identity.pid, process)).collect();
    let ancestor = |process: &Process| {
        let mut parent_pid = process.facts.parent_pid;
        // A scan is not one instant: reused pids could make a circle.
        for _ in 0..64 {
            let parent = by_pid.get(&parent_pid)?;
            if let Some(niced) = known.get(&parent.identity) {
                return Some(niced);
            }
            parent_pid = parent.facts.parent_pid;
        }
        None
    };
    let of_session = |process: &Process| {
        known.iter().find_map(|(elder, niced)| {
            let is_younger = process.identity.start_time_ticks >= elder.start_time_ticks;
            (niced.session == process.facts.session && is_younger).then_some(niced)
        })
    };
    let strangers = processes.iter().filter(|process| {
        !process.facts.is_kernel_thread && !known.contains_key(&process.identity)
    });
    strangers
        .filter_map(|process| {
            let niced = ancestor(process).or_else(|| of_session(process))?;
            let may_have_inherited = process.identity.start_time_ticks >= niced.at_ticks;
            may_have_inherited.then_some((process.identity, niced))
        })
        .collect()
}
