//! Newborns of houses of [short lives](crate::short_lives), from their birth until a plan names them.
//!
//! 1. A newborn whose parent is in a nursery was born there: nothing is done.
//! 2. Any other is put there at once. A move takes the kernel longer than such a life when the last one was long ago, and
//!    hardly any time after another: so a chain is caught with its second or third newborn.
//! 3. A newborn that no plan has named for [`AGE_NS`] is let go.

use crate::client::ManagedProcess;
use ledger::{CurrencyId, ProcessIdentity};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Time for which a plan may take to name a newborn, in ns.
const AGE_NS: u64 = 1_000_000_000;

/// A process, or one that has been, of a house of short lives.
#[derive(Debug)]
pub(crate) struct Newborn {
    pub house: CurrencyId,
    /// The real uids that it may have.
    pub owners: Arc<[u32]>,
    /// It is in a cgroup of ours, so its children are.
    pub is_inside: bool,
    /// Itself, where it was taken in and no plan has named it.
    pub process: Option<ManagedProcess>,
    pub at_ns: u64,
}

impl Newborn {
    /// A child as it begins.
    pub fn child(&self, now_ns: u64) -> Newborn {
        let (house, owners) = (self.house, Arc::clone(&self.owners));
        Newborn { house, owners, is_inside: self.is_inside, process: None, at_ns: now_ns }
    }
}

/// The newborns, and the clients' processes that may be their parents.
#[derive(Debug, Default)]
pub(crate) struct Newborns {
    all: BTreeMap<ProcessIdentity, Newborn>,
}

impl Newborns {
    pub fn get(&self, process: ProcessIdentity) -> Option<&Newborn> {
        self.all.get(&process)
    }

    pub fn insert(&mut self, process: ProcessIdentity, newborn: Newborn) {
        self.all.insert(process, newborn);
    }

    /// Takes a process that a plan has named.
    pub fn take(&mut self, process: ProcessIdentity) -> Option<ManagedProcess> {
        self.all.get_mut(&process)?.process.take()
    }

    /// Forgets those that are older than rule 3 says. Returns those of them that are to be let go.
    pub fn forget(&mut self, now_ns: u64) -> Vec<ManagedProcess> {
        let is_old = |newborn: &Newborn| now_ns.saturating_sub(newborn.at_ns) > AGE_NS;
        let mut old = Vec::new();
        self.all.retain(|_, newborn| {
            if is_old(newborn) {
                old.extend(newborn.process.take());
                return false;
            }
            true
        });
        old
    }
}
