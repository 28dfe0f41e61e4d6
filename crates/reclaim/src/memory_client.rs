//! A client of a reclaimer, as its owner describes it.

use ledger::CurrencyId;
use observe::ProcessHandle;
use std::path::PathBuf;

/// A client that may lose memory.
#[derive(Debug)]
pub struct MemoryClient {
    /// Its currency.
    pub id: CurrencyId,
    /// Its name for the policy, unique. Its losses are counted under this key.
    pub key: u64,
    /// The base value of its memory tickets, 0 to [`policy::MAX_WEIGHT`].
    pub tickets: u64,
    /// Guaranteed memory, in bytes.
    pub guaranteed_bytes: u64,
    /// It is here for what others leave.
    pub guest: bool,
    /// Where its memory is.
    pub source: MemorySource,
}

/// Where a client's memory is.
#[derive(Debug)]
pub enum MemorySource {
    /// The folder of a cgroup of version 2.
    Group(PathBuf),
    /// Processes, where there is no such cgroup.
    Processes(Vec<ProcessHandle>),
}
