//! The settings that enforcers are started with.

use crate::HoldMethod;
use ledger::KindName;
use policy::{PolicyName, ReclaimName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// The settings that enforcers are started with, as the daemon's options give them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Whether the daemon is private: it shares what it is given, and has no rights over others.
    pub is_private: bool,
    /// The daemon's program, whose command `guardian` watches over it.
    pub program: PathBuf,
    /// Where records of what was changed are kept; each enforcer adds a suffix of its own ([`Settings::record`]).
    pub records: PathBuf,
    /// Seed of all random number generators.
    pub seed: u64,
    /// The CPU's.
    pub cpu: CpuSettings,
    /// Memory's.
    pub memory: MemorySettings,
    /// The file that keeps measured speeds of disks.
    pub disks_file: PathBuf,
    /// Settings of kinds that have none here, by `KIND.NAME`.
    pub own: BTreeMap<String, String>,
}

/// How the CPU is shared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CpuSettings {
    /// The algorithm that chooses who is next.
    pub algorithm: PolicyName,
    /// Time between two choices, in ns; the enforcer's default where it is `None`.
    pub quantum_ns: Option<u64>,
    /// The CPUs to share out; all that we may use where it is `None`.
    pub cpus: Option<Vec<u32>>,
    /// How losers of a draw wait.
    pub hold: HoldMethod,
    /// Whether a thread that waits for a lock lends its tickets to the holder.
    pub transfers: bool,
}

/// How memory is shared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemorySettings {
    /// The policy that chooses who loses memory; `None` leaves that to the kernel.
    pub policy: Option<ReclaimName>,
    /// Tax on idle memory, in thousandths.
    pub idle_tax: u64,
    /// Time after which the tickets of an idle client do not count, in ns.
    pub idle_ns: u64,
    /// Most memory that all clients together may have, in bytes.
    pub limit_bytes: Option<u64>,
    /// Thresholds of the guests' memory, low and high, in bytes.
    pub guests_bytes: Option<(u64, u64)>,
    /// Memory that hard tickets from base can promise, in bytes.
    pub most_bytes: Option<u64>,
}

impl Settings {
    /// The record of one enforcer: the common path with its suffix.
    pub fn record(&self, suffix: &str) -> PathBuf {
        let mut path = OsString::from(&self.records);
        path.push(suffix);
        PathBuf::from(path)
    }

    /// A setting of a kind that has none here.
    pub fn own(&self, kind: KindName, name: &str) -> Option<&str> {
        self.own.get(&format!("{kind}.{name}")).map(String::as_str)
    }
}
