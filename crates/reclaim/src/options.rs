//! Settings of a reclaimer.

use policy::Reclaim;
use std::path::PathBuf;

/// How a [`Reclaimer`](crate::Reclaimer) works.
pub struct ReclaimOptions {
    /// The cgroup around all clients. Memory is short when its limit or one around it is near, and its pressure wakes.
    /// Without one (or where none has a limit) it is the machine's memory.
    pub top: Option<PathBuf>,
    /// A limit that no cgroup has.
    pub together: Option<SharedLimit>,
    /// The policy that chooses who loses.
    pub policy: Box<dyn Reclaim>,
    /// Memory that is kept free, in bytes. By default a sixteenth of what there is, 256 KiB to 64 MiB.
    pub headroom_bytes: Option<u64>,
    /// Memory that a cgroup keeps besides its guarantee, in bytes, since the kernel's counts of cgroups are not exact. By
    /// default 64 pages for each CPU (up to 16) and 64 more.
    pub margin_bytes: Option<u64>,
    /// Time between two rounds while memory is short, in ns, above 0. Usually 10 ms.
    pub period_ns: u64,
    /// Time without a shortfall after which it sleeps until it is woken, in ns. Usually 2 s.
    pub quiet_ns: u64,
}

impl ReclaimOptions {
    /// Returns the usual options.
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

/// A limit for several cgroups that no cgroup around them has: only the reclaimer keeps it, so for moments they may hold
/// more.
#[derive(Clone, Debug)]
pub struct SharedLimit {
    /// Memory that they may hold, in bytes.
    pub limit_bytes: u64,
    /// Their folders. Each may come and go.
    pub folders: Vec<PathBuf>,
}
