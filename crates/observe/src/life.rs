//! What happens to processes: born, changed, ended.

use identity::ProcessIdentity;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A process that an event tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessRef {
    /// Its pid at the time of the event: good for linking events of one stream in their order,
    /// not for acting on it.
    pub pid: u32,
    /// Who it is, where that is known: a process that was reaped before we could ask for its
    /// start time has none.
    pub identity: Option<ProcessIdentity>,
}

impl From<ProcessIdentity> for ProcessRef {
    fn from(identity: ProcessIdentity) -> Self {
        Self { pid: identity.pid, identity: Some(identity) }
    }
}

/// Something that happened to a process. New and ending threads are not told: what concerns a
/// process concerns its threads, and new ones inherit their scheduling from their creator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LifeEvent {
    /// A process was born.
    Fork {
        /// Its parent. A scanner sees an orphan's adopter here.
        parent: ProcessRef,
        /// The new process.
        child: ProcessRef,
    },
    /// A process runs another program now.
    Exec {
        /// Which process.
        process: ProcessRef,
    },
    /// The real or effective uid of a process changed (of its leading thread).
    UidChanged {
        /// Which process.
        process: ProcessRef,
        /// Real uid since then.
        real_uid: u32,
        /// Effective uid since then.
        effective_uid: u32,
    },
    /// The real or effective gid of a process changed (of its leading thread).
    GidChanged {
        /// Which process.
        process: ProcessRef,
        /// Real gid since then.
        real_gid: u32,
        /// Effective gid since then.
        effective_gid: u32,
    },
    /// The last thread of a process exited.
    Exit {
        /// Which process.
        process: ProcessRef,
    },
    /// Events were lost before this point: the reader must scan.
    Lost {
        /// Why, for a log.
        reason: String,
    },
}

/// Why a source of life events failed or could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum LifeError {
    /// The source cannot serve here.
    #[error("{reason}")]
    Unavailable {
        /// Why, for a person.
        reason: String,
    },
    /// The kernel stopped telling of events, and opening the source anew did not help.
    #[error("the kernel does not tell of process events any more: {reason}")]
    Deaf {
        /// What was tried.
        reason: String,
    },
    /// The kernel refused a call.
    #[error("{call}")]
    Os {
        /// The call that failed.
        call: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
}

impl LifeError {
    pub(crate) fn os(call: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::Os { call, source: errno.into() }
    }
}

/// A source of life events. Start it first and scan after, so that no process is missed.
pub trait LifeSource: Send {
    /// The events since the last call, in their order; waits at most `timeout` for the first.
    /// Empty when nothing happened.
    ///
    /// # Errors
    /// When the source cannot go on.
    fn next(&mut self, timeout: Duration) -> Result<Vec<LifeEvent>, LifeError>;

    /// All events up to now, in their order, without waiting: what happened before the call has been
    /// told after it, where the source hears at all.
    ///
    /// # Errors
    /// When the source cannot go on.
    fn catch_up(&mut self) -> Result<Vec<LifeEvent>, LifeError>;

    /// Readable when events wait. `None` for a source that has to look for itself: call
    /// [`next`](Self::next) every now and then. Also call it now and then when there is one: a
    /// source checks in `next` that it still hears. The descriptor may be another, or gone,
    /// after [`LifeEvent::Lost`]: ask again.
    fn poll_fd(&self) -> Option<BorrowedFd<'_>>;

    /// Short name, for a log.
    fn name(&self) -> &'static str;
}
