//! Weights as `cpu.shares` of cgroups, version 1.
//!
//! 1. Each client that competes has a cgroup of its own at the root of the tree, beside those of others and the processes
//!    that no plan names. There is no cgroup around those of a house: the kernel divides a cgroup's shares among the CPUs
//!    by where its threads were, so that a house whose threads are on one CPU would weigh nothing on the other, and would
//!    stay there. The weight of a cgroup with one thread goes where the thread goes.
//! 2. Who has not competed yet stays where it was found or born: in the cgroup of its parent, mostly. So a process that
//!    ends soon is not moved. A cgroup weighs what the clients in it weigh together.
//!    In a house of [short lives](crate::short_lives) they are moved to its nursery instead, which weighs besides as one
//!    that sleeps would if it awoke.
//! 3. All clients together weigh as [`OUTER_WEIGHT`] ordinary groups, or as many as there are houses, if these are more.
//! 4. Guests are together in one cgroup, with `cpu.idle` where the kernel has that, else with the least shares.
//! 5. Who is in a cgroup with settings that somebody made is left there, and said.
//! 6. A cgroup that no client is in is removed once it is empty, or after [`GRACE_NS`]: until then those in it may be
//!    clients' children that no plan names yet.

use super::v1_tree;
use super::{Carrier, Hands};
use crate::client::Client;
use crate::record::UndoEntry;
use enforcer::clock::now_ns;
use ledger::{CurrencyId, ProcessIdentity};
use observe::{Hierarchy, ProcessHandle};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use undo::cgroup::{Moved, create, move_process, read, write};

/// All clients together weigh as so many ordinary groups, or threads.
const OUTER_WEIGHT: f64 = 10.0;
/// The kernel's bounds of `cpu.shares`.
const SHARES: std::ops::RangeInclusive<u64> = 2..=262_144;

/// Time after which a cgroup is removed that no client is in, but somebody else, in ns.
const GRACE_NS: u64 = 2_000_000_000;

/// Most passes at once to remove a cgroup while others have weights.
const PASSES_AT_WORK: u32 = 3;

/// A cgroup of ours.
#[derive(Debug)]
struct Group {
    /// `cpu.shares`, or 0 for one that is idle.
    shares: u64,
    /// Where its first process was found.
    origin: String,
    /// Since when no client has been in it; `None` while one is.
    left_at_ns: Option<u64>,
}

/// A process that was taken in.
#[derive(Debug)]
struct Placed {
    /// Where it was found, from `/`.
    origin: String,
    /// The folder that it is in; `None` before it was moved, and where it has to be moved again.
    folder: Option<PathBuf>,
}

/// The carrier.
pub(crate) struct CgroupV1 {
    tree: Hierarchy,
    /// The names of our cgroups at the root begin so.
    name: String,
    groups: BTreeMap<PathBuf, Group>,
    processes: BTreeMap<ProcessIdentity, Placed>,
    /// Messages that were told already.
    told: BTreeSet<String>,
}

impl CgroupV1 {
    /// Removes cgroups of this name that are left without a record.
    pub fn new(tree: Hierarchy, name: String) -> CgroupV1 {
        for kind in ["c", "guests", "nursery"] {
            let beginning = format!("{name}-{kind}");
            for group in v1_tree::named(&tree, &beginning) {
                if let Err(what) =
                    v1_tree::dissolve(&tree, &group, v1_tree::PASSES, |_| "/".to_owned())
                {
                    tracing::warn!("from an earlier run: {what}");
                }
            }
        }
        CgroupV1 {
            tree,
            name,
            groups: BTreeMap::new(),
            processes: BTreeMap::new(),
            told: BTreeSet::new(),
        }
    }

    /// The folder in which a client's processes belong.
    fn folder_of(&self, client: &Client) -> PathBuf {
        if client.is_guest {
            return self.tree.mount().join(format!("{}-guests", self.name));
        }
        self.tree.mount().join(format!("{}-c{}", self.name, client.id.0))
    }

    /// The folder of a house's nursery.
    fn nursery_of(&self, house: CurrencyId) -> PathBuf {
        self.tree.mount().join(format!("{}-nursery{}", self.name, house.0))
    }

    /// Makes a cgroup that is not there, noting it before.
    fn make(&mut self, folder: &Path, origin: &str, hands: &mut Hands<'_>) -> io::Result<()> {
        if self.groups.contains_key(folder) && folder.is_dir() {
            return Ok(());
        }
        let entry = UndoEntry::Group {
            folder: folder.to_owned(),
            mount: self.tree.mount().to_owned(),
            origin: origin.to_owned(),
        };
        entry.note(hands.record)?;
        create(folder)?;
        let group =
            Group { shares: v1_tree::SHARES_AS_MADE, origin: origin.to_owned(), left_at_ns: None };
        self.groups.insert(folder.to_owned(), group);
        Ok(())
    }

    /// Sets the shares of a cgroup of ours; 0 makes it idle.
    fn weigh(&mut self, folder: &Path, shares: u64) -> io::Result<()> {
        let Some(group) = self.groups.get_mut(folder) else { return Ok(()) };
        if group.shares == shares {
            return Ok(());
        }
        let written = match shares {
            0 => write(folder, "cpu.idle", "1")
                .or_else(|_| write(folder, "cpu.shares", &SHARES.start().to_string())),
            shares => write(folder, "cpu.shares", &shares.to_string()),
        };
        written.map(|()| group.shares = shares)
    }

    /// Puts a client's processes into its own cgroup.
    fn place(&mut self, client: &Client, hands: &mut Hands<'_>) -> io::Result<()> {
        let folder = self.folder_of(client);
        client
            .processes
            .iter()
            .try_for_each(|process| self.move_to(&process.handle, &folder, hands))
    }

    /// Moves a process into a cgroup of ours, noting where it was found.
    fn move_to(
        &mut self,
        process: &ProcessHandle,
        folder: &Path,
        hands: &mut Hands<'_>,
    ) -> io::Result<()> {
        let identity = process.identity();
        let Some(placed) = self.processes.get(&identity) else { return Ok(()) };
        if placed.folder.as_deref() == Some(folder) {
            return Ok(());
        }
        let origin = placed.origin.clone();
        self.make(folder, &origin, hands)?;
        if self.groups[folder].origin != origin {
            let mount = self.tree.mount().to_owned();
            UndoEntry::Place { process: identity, mount, origin }.note(hands.record)?;
        }
        if move_process(process, &self.tree, folder)? == Moved::There
            && let Some(placed) = self.processes.get_mut(&identity)
        {
            placed.folder = Some(folder.to_owned());
        }
        Ok(())
    }

    /// Returns what each cgroup weighs by rule 2, in parts of the mean of active houses.
    fn weights(&self, clients: &[Client]) -> BTreeMap<PathBuf, f64> {
        let mut weights: BTreeMap<PathBuf, f64> = BTreeMap::new();
        // The greatest part of those who sleep in a nursery.
        let mut newborn: BTreeMap<PathBuf, f64> = BTreeMap::new();
        for client in clients.iter().filter(|client| !client.is_guest) {
            let part = client.part / client.processes.len().max(1) as f64;
            for process in &client.processes {
                let placed = self.processes.get(&process.identity());
                if let Some(folder) = placed.and_then(|placed| placed.folder.clone()) {
                    // A sleeper adds to its own cgroup alone: elsewhere others would have what it is due.
                    let own = client.competes() || folder == self.folder_of(client);
                    if !own && folder == self.nursery_of(client.house) {
                        let greatest = newborn.entry(folder.clone()).or_default();
                        *greatest = greatest.max(client.part);
                    }
                    *weights.entry(folder).or_default() += if own { part } else { 0.0 };
                }
            }
        }
        for (folder, part) in newborn {
            *weights.entry(folder).or_default() += part;
        }
        weights
    }

    /// Removes the cgroups that no client is in any more (rule 6).
    fn prune(&mut self, now_ns: u64, hands: &mut Hands<'_>) {
        let needed: BTreeSet<&PathBuf> =
            self.processes.values().filter_map(|placed| placed.folder.as_ref()).collect();
        let mut stale = Vec::new();
        for (folder, group) in &mut self.groups {
            if needed.contains(folder) {
                group.left_at_ns = None;
                continue;
            }
            let left_at_ns = *group.left_at_ns.get_or_insert(now_ns);
            if now_ns.saturating_sub(left_at_ns) >= GRACE_NS
                || observe::processes_in(folder).is_empty()
            {
                stale.push(folder.clone());
            }
        }
        for folder in stale {
            let origin = |group: &Path| self.origin_of(group);
            // Others wait for weights meanwhile: where that was not enough it is tried again with the next.
            match v1_tree::dissolve(&self.tree, &folder, PASSES_AT_WORK, origin) {
                Ok(_) => {
                    self.groups.remove(&folder);
                    // If that fails, it is given back again at the end.
                    let _ = hands.record.note_given_back(&UndoEntry::group_key(&folder));
                }
                Err(what) => tracing::debug!("{what}"),
            }
        }
    }

    fn origin_of(&self, group: &Path) -> String {
        self.groups.get(group).map_or_else(|| "/".to_owned(), |group| group.origin.clone())
    }

    /// Tells something once.
    fn tell(&mut self, hands: &mut Hands<'_>, what: String) {
        if self.told.insert(what.clone()) {
            hands.drift.tell(what);
        }
    }
}

impl Carrier for CgroupV1 {
    fn why(&self) -> String {
        super::v1_why(self.tree.mount())
    }

    fn admit(&mut self, process: &ProcessHandle) -> Result<(), String> {
        let identity = process.identity();
        if self.processes.contains_key(&identity) {
            return Ok(());
        }
        let pid = identity.pid;
        let path = v1_tree::cgroup_of(pid).ok_or("its cgroup is out of our sight")?;
        let threads = process.threads().map_err(|error| error.to_string())?;
        let elsewhere = |tid: &u32| v1_tree::is_elsewhere(pid, *tid, &path);
        if threads.len() > 1 && threads.iter().any(elsewhere) {
            return Err("its threads are in different cgroups, and stay there".to_owned());
        }
        let folder = self.tree.folder(&path);
        if v1_tree::is_ours(&path) {
            let origin = self.origin_of(&folder);
            self.processes.insert(identity, Placed { origin, folder: Some(folder) });
        } else if v1_tree::is_as_made(&self.tree, &path) {
            self.processes.insert(identity, Placed { origin: path, folder: None });
        } else {
            return Err(format!("its cgroup {path} has settings of its own, so it stays there"));
        }
        Ok(())
    }

    fn nurse(&mut self, process: &ProcessHandle, house: CurrencyId, hands: &mut Hands<'_>) -> bool {
        let identity = process.identity();
        let is_inside = |carrier: &CgroupV1| {
            carrier.processes.get(&identity).is_some_and(|placed| placed.folder.is_some())
        };
        if is_inside(self) {
            return true;
        }
        let folder = self.nursery_of(house);
        if let Err(error) = self.move_to(process, &folder, hands) {
            self.tell(hands, format!("the nursery {} takes nobody: {error}", folder.display()));
        }
        is_inside(self)
    }

    fn release(&mut self, process: &ProcessHandle, hands: &mut Hands<'_>) {
        let identity = process.identity();
        let Some(placed) = self.processes.remove(&identity) else { return };
        if placed.folder.is_some()
            && process.is_alive()
            && let Err(error) = v1_tree::move_back(process, &self.tree, &placed.origin)
        {
            hands.drift.tell_of(identity, format!("it stays in our cgroup: {error}"));
            return;
        }
        let _ = hands.record.note_given_back(&UndoEntry::place_key(identity));
    }

    fn set(&mut self, clients: &[Client], hands: &mut Hands<'_>) {
        for client in clients.iter().filter(|client| client.competes() || client.is_guest) {
            if let Err(error) = self.place(client, hands) {
                self.tell(hands, format!("client {} has no weight: {error}", client.id));
            }
        }
        let awake = clients.iter().filter(|client| client.competes());
        let houses: BTreeSet<CurrencyId> = awake.map(|client| client.house).collect();
        let scale = OUTER_WEIGHT.max(houses.len() as f64) / houses.len().max(1) as f64;
        for (folder, weight) in self.weights(clients) {
            let shares = (weight * scale * v1_tree::SHARES_AS_MADE as f64).round() as u64;
            let shares = shares.clamp(*SHARES.start(), *SHARES.end());
            if let Err(error) = self.weigh(&folder, shares) {
                self.tell(hands, format!("the weight of {} stays: {error}", folder.display()));
            }
        }
        let guests = self.tree.mount().join(format!("{}-guests", self.name));
        if let Err(error) = self.weigh(&guests, 0) {
            self.tell(hands, format!("guests have a weight: {error}"));
        }
        self.prune(now_ns(), hands);
    }

    fn check(&mut self, client: &Client, hands: &mut Hands<'_>) {
        for process in &client.processes {
            let identity = process.identity();
            let Some(placed) = self.processes.get_mut(&identity) else { continue };
            let (Some(folder), Some(path)) = (&placed.folder, v1_tree::cgroup_of(identity.pid))
            else {
                continue;
            };
            if self.tree.folder(&path) == *folder || !process.handle.is_alive() {
                continue;
            }
            let is_free = v1_tree::is_ours(&path) || v1_tree::is_as_made(&self.tree, &path);
            let what = match is_free {
                true => "it is moved back",
                false => "it stays there, for that cgroup has settings of its own",
            };
            hands.drift.tell_of(identity, format!("somebody moved it to {path}; {what}"));
            match is_free {
                true => placed.folder = None,
                false => drop(self.processes.remove(&identity)),
            }
        }
        let folder = self.folder_of(client);
        let Some(group) = self.groups.get_mut(&folder) else { return };
        match read(&folder, "cpu.shares") {
            // An idle one has shares of its own.
            Ok(found) if group.shares == 0 || found == group.shares.to_string() => {}
            Ok(found) => {
                let what =
                    format!("cpu.shares of {} was {found}; it is set again", folder.display());
                // No shares are so many: the next time they are set.
                group.shares = u64::MAX;
                hands.drift.tell(what);
            }
            Err(_) => {
                hands
                    .drift
                    .tell(format!("somebody removed {}; it is made again", folder.display()));
                self.groups.remove(&folder);
                let inside = self.processes.values_mut();
                inside
                    .filter(|placed| placed.folder.as_deref() == Some(&folder))
                    .for_each(|placed| placed.folder = None);
            }
        }
    }

    fn clear(&mut self) {
        self.groups.clear();
        self.processes.clear();
        self.told.clear();
    }
}
