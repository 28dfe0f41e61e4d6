//! The identity of a thread, beyond its number.

use crate::ProcessIdentity;
use serde::{Deserialize, Serialize};

/// A thread, named so that a reused number is never mistaken for it. Valid within one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ThreadIdentity {
    /// The process that it belongs to.
    pub process: ProcessIdentity,
    /// Thread id.
    pub tid: u32,
    /// Its own start time in clock ticks since boot.
    pub start_time_ticks: u64,
}
