//! Options of the enforcer.

use crate::controllers::{DiskOptions, MemoryOptions};
use crate::root::CgroupRoot;
use enforcer::EnforceError;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Intervals between two looks at who competes, from 10 ms to 10 s.
pub const CGROUP_PERIOD_NS: RangeInclusive<u64> = 10_000_000..=10_000_000_000;
/// The usual interval, 100 ms.
pub const DEFAULT_CGROUP_PERIOD_NS: u64 = 100_000_000;

/// A period in which the enforcer would look too often to be cheap, or too seldom to follow who competes.
#[derive(Debug, thiserror::Error)]
#[error("a period of {0} ns is out of range: 10 000 000 (10 ms) to 10 000 000 000 (10 s)")]
pub struct PeriodOutOfRange(pub u64);

impl From<PeriodOutOfRange> for EnforceError {
    fn from(error: PeriodOutOfRange) -> Self {
        EnforceError::refused(error)
    }
}

/// How a [`Cgroup`](crate::Cgroup) works.
#[derive(Clone, Debug)]
pub struct CgroupOptions {
    /// The tree, from [`available`](crate::available).
    pub root: CgroupRoot,
    /// Interval between two looks at who competes, in ns, within [`CGROUP_PERIOD_NS`].
    pub period_ns: u64,
    /// Whether it shares out the CPU; false where something else does.
    pub shares_cpu: bool,
    /// How shares of memory are kept; `None`: memory is left alone.
    pub memory: Option<MemoryOptions>,
    /// How shares of disks are kept; `None`: disks are left alone.
    pub disks: Option<DiskOptions>,
    /// Name of our cgroup at the root of the tree; that of the guests has `-guests` after it. Cgroups of these names, and
    /// all in them, are taken to be ours.
    pub name: String,
    /// The program whose command `guardian` calls [`guardian_main`](undo::guardian_main).
    pub program: PathBuf,
    /// The record, a file that outlives us, best in /run: it tells what a killed allotd and a killed guardian left changed.
    pub record: PathBuf,
}

impl CgroupOptions {
    /// Returns the usual options: shares of the CPU alone, a look each 100 ms, cgroups called `allot`.
    pub fn new(root: CgroupRoot, program: PathBuf, record: PathBuf) -> CgroupOptions {
        let name = "allot".to_owned();
        let period_ns = DEFAULT_CGROUP_PERIOD_NS;
        CgroupOptions {
            root,
            period_ns,
            shares_cpu: true,
            memory: None,
            disks: None,
            name,
            program,
            record,
        }
    }
}
