//! A client of a disk.

use crate::workloads::disk::DiskLoad;

/// The funding of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskFunding {
    /// Hard tickets of base: thousandths of the disk.
    Hard(u64),
    /// Soft tickets of the user's currency.
    OfUser(u64),
}

/// A process that loads the disk.
#[derive(Clone, Debug)]
pub(crate) struct DiskClient {
    pub name: String,
    pub fund: DiskFunding,
    /// Its part of the disk while all compete.
    pub promised: f64,
    pub load: DiskLoad,
    /// The size of its file, in MiB.
    pub mib: u64,
}
