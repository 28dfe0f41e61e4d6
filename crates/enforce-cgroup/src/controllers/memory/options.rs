//! How shares of memory are kept.

use policy::idle::IdleOptions;
use reclaim::ReclaimPolicy;

/// How shares of memory are kept.
#[derive(Clone, Debug, Default)]
pub struct MemoryOptions {
    /// The policy that chooses who loses memory when there is too little; `None` leaves that to the kernel, within
    /// shares.
    pub reclaim: Option<ReclaimPolicy>,
    /// When the memory tickets of an idle client do not count.
    pub idle: IdleOptions,
    /// Most memory that all clients together may have, in bytes: the `memory.max` of our cgroup. Not where systemd owns
    /// the tree.
    pub limit_bytes: Option<u64>,
    /// Memory that there is to promise now, in bytes, if that may be less than was promised: then all guarantees are
    /// lower in proportion. `None`: all that was promised.
    pub most_bytes: Option<u64>,
}
