//! The identity of a process, beyond its number.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A process, named so that a reused pid is never mistaken for it: its number together with
/// the moment it began. Valid within one boot; the journal notes the boot it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Process id (thread group id).
    pub pid: u32,
    /// Start time in clock ticks since boot: field 22 of `/proc/<pid>/stat`.
    pub start_time_ticks: u64,
}

impl fmt::Display for ProcessIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {} (started at tick {})", self.pid, self.start_time_ticks)
    }
}
