//! Carriers: ways to bring a weight to a process. One file each.

mod cgroup_v1;
mod nice;
pub(crate) mod v1_tree;

use crate::client::Client;
use enforcer::DriftLog;
use ledger::{CurrencyId, ProcessIdentity};
use observe::ProcessHandle;
use std::fmt;
use std::str::FromStr;
use undo::Record;

pub(crate) use cgroup_v1::CgroupV1;
pub(crate) use nice::{Nice, change_threads, find_autogroup, set_autogroup};

/// What a carrier needs to change something: the record first, and somebody to tell.
pub(crate) struct Hands<'a> {
    pub record: &'a mut Record,
    pub drift: &'a mut DriftLog,
}

/// A way to bring weights to processes.
pub(crate) trait Carrier: Send {
    /// The means, in words, for status.
    fn why(&self) -> String;

    /// Takes a process in, without changing anything.
    ///
    /// # Errors
    /// Why it cannot be managed, in words.
    fn admit(&mut self, process: &ProcessHandle) -> Result<(), String>;

    /// Gives a process back what it had, and forgets it.
    fn release(&mut self, process: &ProcessHandle, hands: &mut Hands<'_>);

    /// Puts a process where its children are born into the weight of its house's nursery, if there is such a place and it
    /// has none of ours. Returns whether it has one then.
    fn nurse(
        &mut self,
        _process: &ProcessHandle,
        _house: CurrencyId,
        _hands: &mut Hands<'_>,
    ) -> bool {
        true
    }

    /// Gives all clients their weights. Of errors it tells, and tries again the next time.
    fn set(&mut self, clients: &[Client], hands: &mut Hands<'_>);

    /// Checks whether a client is as it was set; the next [`set`](Carrier::set) puts right what is not.
    fn check(&mut self, client: &Client, hands: &mut Hands<'_>);

    /// Forgets everything: all was given back.
    fn clear(&mut self);

    /// Notes that a process made another: what the child inherited is not its own.
    fn note_fork(&mut self, _parent: ProcessIdentity, _child: ProcessIdentity) {}
}

/// The name of a carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarrierName {
    /// `cpu.shares` of cgroups, version 1.
    CgroupV1,
    /// Nice values of autogroups and threads.
    Nice,
}

impl fmt::Display for CarrierName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            CarrierName::CgroupV1 => "cgroup-v1",
            CarrierName::Nice => "nice",
        })
    }
}

impl FromStr for CarrierName {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        [CarrierName::CgroupV1, CarrierName::Nice]
            .into_iter()
            .find(|name| name.to_string() == word)
            .ok_or_else(|| format!("no weights are carried by {word:?}: write cgroup-v1 or nice"))
    }
}

/// Returns the carrier that is asked for, or the best that works here, and in words how it would work.
///
/// # Errors
/// Why none works, in words.
pub fn available(asked: Option<CarrierName>) -> Result<(CarrierName, String), String> {
    let v1 = || v1_tree::available().map(|tree| (CarrierName::CgroupV1, v1_why(tree.mount())));
    let by_nice = || nice::available().map(|why| (CarrierName::Nice, why));
    match asked {
        Some(CarrierName::CgroupV1) => v1(),
        Some(CarrierName::Nice) => by_nice(),
        None => v1().or_else(|no_v1| {
            by_nice()
                .map(|(name, why)| (name, format!("{why} ({no_v1})")))
                .map_err(|no| if no == no_v1 { no } else { format!("{no}; {no_v1}") })
        }),
    }
}

fn v1_why(mount: &std::path::Path) -> String {
    format!(
        "cpu.shares of cgroups (version 1) in {}, steered by what was measured",
        mount.display()
    )
}
