//! Why memory cannot be shared as it was asked.

use std::io;
use std::path::PathBuf;

/// Why memory cannot be shared as it was asked.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The folder is not a cgroup of version 2, or is gone.
    #[error("{0} is no cgroup v2")]
    NotACgroup(PathBuf),
    /// The cgroup has no memory controller.
    #[error("the memory controller is not enabled for {0}")]
    NoController(PathBuf),
    /// The kernel is older than Linux 5.19.
    #[error("the kernel cannot be asked to take memory from {0}: there is no memory.reclaim")]
    NoReclaim(PathBuf),
    /// The kernel is older than Linux 5.10, or keeps the call from us.
    #[error("the kernel does not let us take memory from processes (process_madvise)")]
    NoAdvice(#[source] io::Error),
    /// Tickets are parts of all memory.
    #[error("client {key} has {tickets} tickets: more than there are ({most})")]
    TooManyTickets {
        /// The client.
        key: u64,
        /// Its tickets.
        tickets: u64,
        /// All that there are.
        most: u64,
    },
    /// Two clients cannot be told apart.
    #[error("two clients have the key {0}")]
    SameKey(u64),
    /// The reclaimer's thread has ended.
    #[error("the reclaimer has ended")]
    Ended,
    /// The kernel refused.
    #[error("{what}")]
    Os {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl MemoryError {
    pub(crate) fn os<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Os { what, source: source.into() }
    }
}
