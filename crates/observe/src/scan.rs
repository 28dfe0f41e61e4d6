//! All processes of the machine at one moment.

use crate::error::ProcessError;
use crate::facts::ProcessFacts;
use crate::proc_dir::ProcDir;
use identity::ProcessIdentity;
use std::collections::{BTreeMap, BTreeSet};

/// A process as a scan saw it. It may have exited since: act on it only through
/// [`ProcessHandle::open_identity`](crate::ProcessHandle::open_identity).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Process {
    /// Which process.
    pub identity: ProcessIdentity,
    /// What was known about it.
    pub facts: ProcessFacts,
}

/// All processes that `/proc` shows now, in the order of their pids; kernel threads and zombies
/// are among them and marked. Processes that vanish or that we may not read are left out.
///
/// A scan is not one instant: a process that is born meanwhile may be missed, so start a
/// [`LifeSource`](crate::LifeSource) first and scan after.
///
/// # Errors
/// When `/proc` itself cannot be read.
pub fn scan() -> std::io::Result<Vec<Process>> {
    Ok(pids()?.into_iter().filter_map(|pid| read(pid).ok()).collect())
}

fn read(pid: u32) -> Result<Process, ProcessError> {
    let directory = ProcDir::open(pid)?;
    let start_time_ticks = directory.stat(|stat| stat.start_time_ticks)?;
    let facts = ProcessFacts::read(&directory)?;
    Ok(Process { identity: ProcessIdentity { pid, start_time_ticks }, facts })
}

/// The pids in `/proc`, ascending.
pub(crate) fn pids() -> std::io::Result<Vec<u32>> {
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        if let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
            pids.push(pid);
        }
    }
    pids.sort_unstable();
    Ok(pids)
}

/// Who is whose child, from one scan.
#[derive(Clone, Debug, Default)]
pub struct Ancestry {
    parent_of: BTreeMap<ProcessIdentity, ProcessIdentity>,
    children_of: BTreeMap<ProcessIdentity, Vec<ProcessIdentity>>,
}

impl Ancestry {
    /// Links each process to its parent by the parent's pid. A parent that began after its
    /// child only reused the number, and is not linked.
    pub fn from_scan(processes: &[Process]) -> Self {
        let by_pid: BTreeMap<u32, ProcessIdentity> =
            processes.iter().map(|process| (process.identity.pid, process.identity)).collect();
        let mut ancestry = Self::default();
        for process in processes {
            let child = process.identity;
            let Some(parent) = by_pid.get(&process.facts.parent_pid) else { continue };
            if parent.start_time_ticks <= child.start_time_ticks && *parent != child {
                ancestry.parent_of.insert(child, *parent);
                ancestry.children_of.entry(*parent).or_default().push(child);
            }
        }
        ancestry
    }

    /// The parent that the scan saw; an orphan's is init or a subreaper.
    pub fn parent_of(&self, child: ProcessIdentity) -> Option<ProcessIdentity> {
        self.parent_of.get(&child).copied()
    }

    /// The children that the scan saw, by pid.
    pub fn children_of(&self, parent: ProcessIdentity) -> &[ProcessIdentity] {
        self.children_of.get(&parent).map_or(&[], Vec::as_slice)
    }

    /// All children, their children and so on, without the process itself; parents come before
    /// their children. Processes that left the tree because their parent died are not among
    /// them: only a [`LifeSource`](crate::LifeSource) that saw the forks knows those.
    pub fn descendants_of(&self, ancestor: ProcessIdentity) -> Vec<ProcessIdentity> {
        let mut seen = BTreeSet::from([ancestor]);
        let mut found = Vec::new();
        let mut next = vec![ancestor];
        while let Some(parent) = next.pop() {
            for child in self.children_of(parent) {
                // A scan is not one instant, so guard against a cycle of reused pids.
                if seen.insert(*child) {
                    found.push(*child);
                    next.push(*child);
                }
            }
        }
        found
    }
}
