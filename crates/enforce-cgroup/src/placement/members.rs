//! Members of clients: processes, and cgroups that are not ours.

use super::waits::Waits;
use crate::tree;
use ledger::ProcessIdentity;
use observe::{ProcessHandle, RunState};
use std::path::PathBuf;

/// Most processes of a cgroup that are asked whether they want the CPU.
const ASKED_OF_A_GROUP: usize = 64;

/// The cgroup in which a process is scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The client's own cgroup.
    Leaf,
    /// A cgroup that is not ours, where the process was found.
    Foreign(String),
}

/// A process of a client.
#[derive(Debug)]
pub(crate) struct ManagedProcess {
    pub handle: ProcessHandle,
    pub place: Place,
    /// Its CPU clock when that was last read.
    clock_ns: u64,
    /// Its waits when they were last read.
    waits: Waits,
}

/// A cgroup that is a client's member.
#[derive(Debug)]
pub(crate) struct MemberCgroup {
    pub path: String,
    pub folder: PathBuf,
    clock_ns: u64,
    waits: Waits,
}

impl ManagedProcess {
    pub fn new(handle: ProcessHandle, place: Place) -> ManagedProcess {
        let clock_ns = handle.cpu_time_ns().unwrap_or(0);
        let waits = Waits::of_process(&handle);
        ManagedProcess { handle, place, clock_ns, waits }
    }

    pub fn identity(&self) -> ProcessIdentity {
        self.handle.identity()
    }

    pub fn is_in_leaf(&self) -> bool {
        self.place == Place::Leaf
    }

    /// Notes where the process is, if that is not for us to say. Returns whether it has moved.
    pub fn follow(&mut self) -> bool {
        let pid = self.handle.identity().pid;
        let Place::Foreign(place) = &mut self.place else { return false };
        match tree::cgroup_of(pid) {
            Some(found) if found != *place && self.handle.is_alive() => {
                *place = found;
                true
            }
            _ => false,
        }
    }

    /// Reads the CPU time used since the last call, in ns; `None` when the process is gone.
    pub fn read_clock(&mut self) -> Option<u64> {
        let clock = self.handle.cpu_time_ns().ok()?;
        Some(clock.saturating_sub(std::mem::replace(&mut self.clock_ns, clock)))
    }

    /// Reads the waits since the last call.
    pub fn read_waits(&mut self) -> Waits {
        let waits = Waits::of_process(&self.handle);
        waits.since(std::mem::replace(&mut self.waits, waits))
    }
}

impl MemberCgroup {
    pub fn new(path: String, folder: PathBuf) -> MemberCgroup {
        let clock_ns = tree::usage_ns(&folder).unwrap_or(0);
        let waits = Waits::of_group(&folder);
        MemberCgroup { path, folder, clock_ns, waits }
    }

    /// Returns whether a process below the cgroup wants the CPU.
    pub fn wants_the_cpu(&self) -> bool {
        let inner = tree::cgroups_inner_first(&self.folder);
        let pids = inner.iter().flat_map(|group| tree::processes_in(group));
        pids.take(ASKED_OF_A_GROUP).any(|pid| {
            let state = ProcessHandle::open(pid).and_then(|process| process.run_state());
            matches!(state, Ok(RunState::Running))
        })
    }

    /// Reads the CPU time used since the last call, in ns; `None` when the cgroup is gone.
    pub fn read_clock(&mut self) -> Option<u64> {
        let clock = tree::usage_ns(&self.folder)?;
        Some(clock.saturating_sub(std::mem::replace(&mut self.clock_ns, clock)))
    }

    /// Reads the waits since the last call.
    pub fn read_waits(&mut self) -> Waits {
        let waits = Waits::of_group(&self.folder);
        waits.since(std::mem::replace(&mut self.waits, waits))
    }
}
