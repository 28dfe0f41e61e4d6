//! Why a process could not be read.

use identity::ProcessIdentity;
use std::io;

/// Why a process could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// No process has this pid, or the process has exited.
    #[error("process {pid} has exited")]
    Gone {
        /// The pid that was asked for.
        pid: u32,
    },
    /// The pid now belongs to another process than the one asked for.
    #[error(
        "{expected} has exited and its pid now belongs to a process started at tick {found_start_time_ticks}"
    )]
    Reused {
        /// The process that was asked for.
        expected: ProcessIdentity,
        /// When the process that has the pid now began, in clock ticks since boot.
        found_start_time_ticks: u64,
    },
    /// The number names a thread that is not the leader of a process.
    #[error("{pid} names a thread, not a process")]
    NotAProcess {
        /// The number that was asked for.
        pid: u32,
    },
    /// The process lives, but `/proc` does not show it to us (mounted with `hidepid`).
    #[error("process {pid} lives but is hidden from us in /proc")]
    Hidden {
        /// The pid that was asked for.
        pid: u32,
    },
    /// The kernel wrote something that we do not understand.
    #[error("cannot understand /proc/{pid}/{file}")]
    Malformed {
        /// The process.
        pid: u32,
        /// The file below `/proc/<pid>`.
        file: &'static str,
    },
    /// The kernel refused a call for another reason.
    #[error("{call} for process {pid}")]
    Os {
        /// The process.
        pid: u32,
        /// The call or file that failed.
        call: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl ProcessError {
    /// An operating system error, told apart from "no such process".
    pub(crate) fn from_errno(pid: u32, call: &'static str, errno: rustix::io::Errno) -> Self {
        match errno {
            rustix::io::Errno::NOENT | rustix::io::Errno::SRCH => Self::Gone { pid },
            other => Self::Os { pid, call, source: other.into() },
        }
    }

    /// True when the process asked for does not live any more.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. } | Self::Reused { .. })
    }
}
