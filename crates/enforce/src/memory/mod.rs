//! Memory: who loses some when there is too little, by a [`policy::reclaim`] policy.
//!
//! A [`Reclaimer`] follows clients, each a cgroup or some processes. When memory runs short it asks its policy who
//! loses, and has the kernel take some from that one. What a client is guaranteed is never taken by choice; that the
//! kernel does not take it either is for `memory.min` and `memory.low` to say, which are not set here.
//!
//! **Nothing is set**: `memory.reclaim` and process_madvise(2) act once, and a pressure trigger ends with its file.
//! So there is nothing to give back, whatever becomes of us.
//!
//! See docs/memory.md.
//!
//! ```no_run
//! # use ledger::CurrencyId;
//! use allot_enforce::memory::{Body, MemoryClient, MemoryError, ReclaimOptions, Reclaimer};
//! use policy::MinFunding;
//!
//! # fn share(id: CurrencyId) -> Result<(), MemoryError> {
//! let options = ReclaimOptions::new(Some("/sys/fs/cgroup/users".into()), Box::new(MinFunding::default()));
//! let reclaimer = Reclaimer::start(options)?;
//! reclaimer.follow(vec![MemoryClient {
//!     id,
//!     key: id.0,
//!     tickets: 3 << 40,
//!     guaranteed_bytes: 2 << 20,
//!     guest: false,
//!     body: Body::Group("/sys/fs/cgroup/users/ann".into()),
//! }])?;
//! for client in reclaimer.sample() {
//!     println!("{}: holds {:?}, lost {}", client.key, client.held_bytes, client.taken_bytes);
//! }
//! # Ok(())
//! # }
//! ```

mod by_processes;
mod client;
mod error;
mod group;
mod pressure;
mod processes;
mod reclaimer;
mod room;
mod size;
mod worker;

pub use by_processes::MemoryByProcesses;
pub use error::MemoryError;
pub use reclaimer::Reclaimer;

use ledger::CurrencyId;
use observe::ProcessHandle;
use policy::Reclaim;
use std::path::{Path, PathBuf};

/// How a [`Reclaimer`] works.
pub struct ReclaimOptions {
    /// The cgroup under which all clients are: its limit and those around it are what memory is short of, and its
    /// pressure wakes. Without one (or where none has a limit) it is the machine's memory.
    pub top: Option<PathBuf>,
    /// What else memory can be short of.
    pub together: Option<Together>,
    /// Who loses.
    pub policy: Box<dyn Reclaim>,
    /// What is kept free, in bytes; a sixteenth of what there is, 256 KiB to 64 MiB, where nothing is said.
    pub headroom_bytes: Option<u64>,
    /// What a cgroup keeps besides its guarantee, in bytes, since the kernel's counts of cgroups are not exact; where
    /// nothing is said, 64 pages for each CPU (up to 16) and 64 more.
    pub margin_bytes: Option<u64>,
    /// Between two rounds while memory is short, in ns, above 0. Usually 10 ms.
    pub period_ns: u64,
    /// After so long without a shortfall it sleeps until it is woken, in ns. Usually 2 s.
    pub quiet_ns: u64,
}

impl ReclaimOptions {
    /// The usual ones.
    pub fn new(top: Option<PathBuf>, policy: Box<dyn Reclaim>) -> ReclaimOptions {
        ReclaimOptions {
            top,
            together: None,
            policy,
            headroom_bytes: None,
            margin_bytes: None,
            period_ns: 10_000_000,
            quiet_ns: 2_000_000_000,
        }
    }
}

/// A limit for several cgroups that no cgroup around them has: nobody but the reclaimer keeps it, so for moments they
/// may hold more.
#[derive(Clone, Debug)]
pub struct Together {
    /// What they may hold, in bytes.
    pub limit_bytes: u64,
    /// Their folders. Each may come and go.
    pub folders: Vec<PathBuf>,
}

/// Who may lose memory.
#[derive(Debug)]
pub struct MemoryClient {
    /// Its currency.
    pub id: CurrencyId,
    /// Names it to the policy; no two have the same. What it has lost is counted under this key.
    pub key: u64,
    /// The base value of its memory tickets, 0 to [`policy::MAX_WEIGHT`].
    pub tickets: u64,
    /// What it is sure to keep, in bytes.
    pub guaranteed_bytes: u64,
    /// It is here for what others leave.
    pub guest: bool,
    /// Where its memory is.
    pub body: Body,
}

/// Where a client's memory is.
#[derive(Debug)]
pub enum Body {
    /// The folder of a cgroup of version 2.
    Group(PathBuf),
    /// Processes, where there is no such cgroup.
    Processes(Vec<ProcessHandle>),
}

/// One client's memory, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySample {
    /// Its currency.
    pub id: CurrencyId,
    /// Its key.
    pub key: u64,
    /// What it holds, in bytes; `None` when it is gone or cannot be read.
    pub held_bytes: Option<u64>,
    /// What it is sure to keep, in bytes.
    pub guaranteed_bytes: u64,
    /// What was taken from it since its key was first followed, in bytes: a lower bound.
    pub taken_bytes: u64,
    /// How often it was chosen and asked.
    pub draws: u64,
    /// How often it needed again what had been taken from it, by anybody, in pages; of processes their major faults.
    /// `None` when it is gone or cannot be read.
    pub refaults: Option<u64>,
    /// That per second, averaged over 2 s, in 1/1024, as the policy was told last.
    pub refault_rate: u64,
    /// For how long at least one of its threads has waited for memory, in ns; `None` where that is not known.
    pub stalled_ns: Option<u64>,
    /// Why it could not be read, or nothing could be taken, when that was tried last.
    pub trouble: Option<String>,
}

/// What the reclaimer did since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReclaimTotals {
    /// Times that pressure woke it.
    pub woken: u64,
    /// Rounds, those of them in which nothing was lacking included.
    pub rounds: u64,
    /// Draws: somebody was chosen and asked.
    pub draws: u64,
    /// What was taken, in bytes: a lower bound.
    pub taken_bytes: u64,
    /// What was lacking at the beginning of the last round, in bytes.
    pub shortfall_bytes: u64,
    /// CPU time that its thread used, in ns: the kernel takes pages in the name of who asks.
    pub own_cpu_ns: u64,
}

/// By what means memory can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryMeans {
    /// From cgroups, by `memory.reclaim`.
    Groups,
    /// From processes, by process_madvise(2).
    Processes,
}

impl std::fmt::Display for MemoryMeans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            MemoryMeans::Groups => "memory is taken from cgroups (memory.reclaim)",
            MemoryMeans::Processes => "memory is paged out of processes (process_madvise)",
        })
    }
}

/// By what means memory can be taken from those under a cgroup, and failing that (or without one) from processes.
///
/// # Errors
/// When neither works: why not the latter. (It needs CAP_SYS_NICE.)
pub fn memory_means(top: Option<&Path>) -> Result<MemoryMeans, MemoryError> {
    let group = top.and_then(|top| group::Group::open(top).ok());
    if group.is_some_and(|group| group.can_reclaim()) {
        return Ok(MemoryMeans::Groups);
    }
    processes::advice_works().map_err(MemoryError::NoAdvice)?;
    Ok(MemoryMeans::Processes)
}
