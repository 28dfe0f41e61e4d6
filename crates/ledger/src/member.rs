//! What a client consists of, and how it competes.

use identity::{ProcessIdentity, ThreadIdentity};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A part of the machine's work that consumes as (part of) one client. What several members
/// cover belongs to the most specific: a thread, its process, the nearest cgroup above it, the
/// kernel's threads, the rest.
///
/// Paper 2 tags processes and file descriptors with queues; these are the tags for the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Member {
    /// A process: all its threads that are no members themselves.
    Process(ProcessIdentity),
    /// One thread.
    Thread(ThreadIdentity),
    /// A cgroup (v2) and those below it, by the kernel's id (the inode of its directory). Valid
    /// within one boot.
    Cgroup(u64),
    /// All threads of the kernel.
    Kernel,
    /// Every process that no other member covers.
    Rest,
}

impl Member {
    /// The process, where it is one.
    pub fn process(&self) -> Option<ProcessIdentity> {
        match self {
            Member::Process(process) => Some(*process),
            _ => None,
        }
    }

    /// The process that it is or belongs to; `None` where it may cover several.
    pub fn within_process(&self) -> Option<ProcessIdentity> {
        match self {
            Member::Process(process) => Some(*process),
            Member::Thread(thread) => Some(thread.process),
            Member::Cgroup(_) | Member::Kernel | Member::Rest => None,
        }
    }

    /// The member as a line of text for people names it: pids without their start times.
    pub fn short(&self) -> String {
        match self {
            Member::Process(process) => format!("pid {}", process.pid),
            Member::Thread(thread) => {
                format!("thread {} of pid {}", thread.tid, thread.process.pid)
            }
            other => other.to_string(),
        }
    }

    /// Whether it means the same after a reboot.
    pub fn outlives_boot(&self) -> bool {
        matches!(self, Member::Kernel | Member::Rest)
    }
}

impl From<ProcessIdentity> for Member {
    fn from(process: ProcessIdentity) -> Member {
        Member::Process(process)
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Member::Process(process) => write!(f, "{process}"),
            Member::Thread(thread) => write!(f, "thread {} of {}", thread.tid, thread.process),
            Member::Cgroup(id) => write!(f, "cgroup {id}"),
            Member::Kernel => f.write_str("the kernel's threads"),
            Member::Rest => f.write_str("all other processes"),
        }
    }
}

/// How a client competes (paper 4, section 2).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// By its tickets.
    #[default]
    Host,
    /// With no host: it gets only what no host wants, whatever its tickets.
    Guest,
}

impl Class {
    /// Whether it is the one that needs no mention.
    pub fn is_host(&self) -> bool {
        *self == Class::Host
    }
}
