//! Readers of processes, their clocks and their lives.
//!
//! Data flows one way: this crate looks at the machine and never changes it. A process is held
//! by a [`ProcessHandle`] (a pidfd and a start time), never by a bare pid, so that nothing
//! here can report on a process that merely inherited a number.

mod account;
mod cgroup;
mod connector;
mod connector_wire;
mod credentials;
mod error;
mod facts;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod handle;
mod hierarchy;
mod life;
mod machine;
mod mountinfo;
mod peer;
mod proc_dir;
mod run_state;
mod scan;
mod scanner;
mod stat;
mod surroundings;
mod thread;
mod watch;

pub use account::{ThreadAccount, counts_disk_waits};
pub use cgroup::{CgroupAccount, stalled_ns};
pub use connector::ProcConnector;
pub use error::ProcessError;
pub use facts::ProcessFacts;
pub use handle::{ProcessHandle, ProcessWaits};
pub use hierarchy::{
    CgroupVersion, Hierarchy, cgroup_of, cgroups_in, cgroups_inner_first, processes_below,
    processes_in,
};
pub use life::{LifeError, LifeEvent, LifeSource, ProcessRef};
pub use machine::{CgroupLayout, MachineFacts, machine, ticks_since_boot};
pub use mountinfo::{Mount, hides_processes, mounts, mounts_of};
pub use peer::{Peer, PeerError, peer_of};
pub use run_state::RunState;
pub use scan::{Ancestry, Process, scan};
pub use scanner::Scanner;
pub use surroundings::Surroundings;
pub use thread::{is_thread_alive, thread};
pub use watch::watch_best;
