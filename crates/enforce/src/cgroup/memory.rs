//! Shares of memory: `memory.min` and `memory.low` of our cgroups, and of those that are not ours.
//!
//! 1. A client is **sure** of what its tickets are worth when all compete: its `memory.min`, which the
//!    kernel takes from nobody (paper 1, 5.4: pages "owned by clients who have not exceeded their memory
//!    share are also not reclaimed"). `memory.low` is what they are worth now, when others are idle:
//!    the kernel takes of that only what nobody else has.
//! 2. A cgroup has what those below it have together, because the kernel gives a child no more than
//!    its parent has. A client in several cgroups has an equal part in each.
//! 3. Who has been idle for long ([`policy::idle`]) has neither, and its tickets count for nobody.
//! 4. A share is no limit: nothing is taken from anybody while there is enough. When there is not, a
//!    policy chooses who loses ([`crate::memory`]); without one the kernel does, in proportion to what
//!    each holds above its protection.

use super::disks::below;
use super::state::State;
use super::weigh::{UNIT_EVERY_NS, cgroups_of};
use super::{CgroupOwner, systemd, tree};
use crate::Drift;
use crate::cgroup::record::Found;
use crate::memory::{Body, MemoryClient, ReclaimOptions, Reclaimer, Together};
use ledger::{CurrencyId, Resource};
use policy::idle::{Idle, IdleOptions};
use policy::{GuestMemory, MinFunding, Reclaim, ReclaimName};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use valuation::{Graph, WHOLE};

/// How shares of memory are kept.
#[derive(Clone, Debug, Default)]
pub struct MemoryOptions {
    /// Who loses memory when there is too little; `None` leaves that to the kernel, within shares.
    pub reclaim: Option<ReclaimPolicy>,
    /// When the memory tickets of an idle client do not count.
    pub idle: IdleOptions,
    /// Most memory that all clients together may have, in bytes: the `memory.max` of our cgroup.
    /// Not where systemd owns the tree.
    pub limit_bytes: Option<u64>,
    /// What there is to promise now, in bytes, where that may be less than was promised: then everybody
    /// is sure of so much less. `None`: all that was promised.
    pub most_bytes: Option<u64>,
}

/// Who loses memory when there is too little.
#[derive(Clone, Debug)]
pub struct ReclaimPolicy {
    /// By which rule.
    pub name: ReclaimName,
    /// Decides all that is left to chance.
    pub seed: u64,
    /// Of the minimum funding: what of a client's idle memory is taxed away, in thousandths.
    pub idle_tax: u64,
    /// What all guests together have before theirs goes first, and below which the hosts' does
    /// (paper 4, section 2), in bytes: low, high.
    pub guests_bytes: Option<(u64, u64)>,
    /// What is kept free, in bytes; where nothing is said, a sixteenth, 256 KiB to 64 MiB.
    pub headroom_bytes: Option<u64>,
}

impl ReclaimPolicy {
    /// Makes it.
    ///
    /// # Panics
    /// When the tax or the thresholds are out of range: broken invariants.
    pub fn build(&self) -> Box<dyn Reclaim> {
        let inner: Box<dyn Reclaim> = match self.name {
            ReclaimName::MinFunding => Box::new(MinFunding::new(self.idle_tax)),
            name => policy::reclaim::build(name, self.seed),
        };
        match self.guests_bytes {
            Some((low, high)) => Box::new(GuestMemory::new(inner, low, high)),
            None => inner,
        }
    }
}

/// What a cgroup is protected by, in bytes, whole pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Protection {
    min_bytes: u64,
    low_bytes: u64,
}

/// Shares of memory by one plan.
pub(super) struct MemoryShares {
    pub graph: Graph,
    idle: BTreeMap<CurrencyId, Idle>,
    looked_ns: Option<u64>,
    changed: bool,
    /// What is set, by the cgroup's path.
    set: BTreeMap<String, Protection>,
    /// Takes memory from who the policy chooses; `None` where there is none, or it could not be had.
    reclaimer: Option<Reclaimer>,
    refused: bool,
    /// Anybody has tickets; else nobody is protected.
    planned: bool,
    /// What cgroups and units that are not ours were protected by.
    found: BTreeMap<String, Protection>,
    /// When each was set last, where systemd does that.
    set_at_ns: BTreeMap<String, u64>,
}

impl std::fmt::Debug for MemoryShares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryShares").field("set", &self.set).finish_non_exhaustive()
    }
}

/// Idleness is looked at so often.
const LOOK_NS: u64 = 1_000_000_000;

impl MemoryShares {
    /// What a client's tickets protect, not rounded; nothing while they do not count. `most` is what there
    /// is to promise.
    fn worth(&mut self, client: CurrencyId, most: Option<u64>) -> Protection {
        if !self.graph.is_active(client) {
            return Protection::default();
        }
        let promised = self.graph.memory_bytes(WHOLE);
        let (sure, now) = (self.graph.guaranteed(client), self.graph.value(client));
        let min_bytes = within(self.graph.memory_bytes(sure), promised, most);
        let low_bytes = within(self.graph.memory_bytes(now), promised, most).max(min_bytes);
        Protection { min_bytes, low_bytes }
    }

    /// What keeps shares, in words.
    pub fn says(&self) -> String {
        match &self.reclaimer {
            None => "memory.min and memory.low; the kernel chooses who loses".to_owned(),
            Some(reclaimer) => {
                let woken = match reclaimer.woken_by() {
                    Ok(path) => format!("woken by {}", path.display()),
                    Err(why) => format!("looking ten times a second: {why}"),
                };
                format!("memory.min and memory.low; a policy chooses who loses, {woken}")
            }
        }
    }
}

impl State {
    /// Takes the plan's memory tickets, if anybody has any, or ever had.
    pub(super) fn plan_memory(&mut self) {
        let Some(options) = self.setting.memory.clone() else { return };
        let Some(plan) = &self.plan else { return };
        let planned = plan.others.iter().find(|graph| *graph.resource() == Resource::Memory);
        let known = self.memory.take();
        let offered = tree::read(&self.setting.root.mount, "cgroup.controllers");
        if planned.is_some() && !offered.is_ok_and(|it| it.split(' ').any(|name| name == "memory"))
        {
            if !std::mem::replace(&mut self.memory_refused, true) {
                let why = "the root of the cgroup tree offers no memory controller";
                let what = format!("memory tickets have no effect: {why}");
                self.tell(Drift { process: None, what });
            }
            return;
        }
        let Some(mut graph) =
            planned.cloned().or_else(|| known.as_ref().map(|it| it.graph.clone()))
        else {
            return;
        };
        self.new_controllers |= known.is_none();
        let known = known.unwrap_or_else(|| MemoryShares {
            graph: graph.clone(),
            idle: BTreeMap::new(),
            looked_ns: None,
            changed: true,
            set: BTreeMap::new(),
            reclaimer: None,
            refused: false,
            planned: true,
            found: BTreeMap::new(),
            set_at_ns: BTreeMap::new(),
        });
        let planned = planned.is_some();
        let mut idle = known.idle;
        idle.retain(|id, _| plan.clients.binary_search_by_key(id, |client| client.id).is_ok());
        for client in &plan.clients {
            let idle = idle.entry(client.id).or_insert_with(|| Idle::new(options.idle));
            // Where nobody has tickets any more, nobody's count.
            graph.set_active(client.id, planned && idle.is_active());
        }
        tracing::debug!(clients = plan.clients.len(), "shares of memory are planned");
        let shares = MemoryShares { graph, idle, looked_ns: None, changed: true, planned, ..known };
        self.memory = Some(shares);
    }

    /// Sees who is idle, and brings what cgroups are protected by up to date.
    pub(super) fn keep_memory(&mut self, now: u64) {
        let Some(memory) = &mut self.memory else { return };
        let mut is_look = false;
        if memory.looked_ns.is_none_or(|looked| now.saturating_sub(looked) >= LOOK_NS) {
            memory.looked_ns = Some(now);
            is_look = true;
            for client in &mut self.clients {
                let done = client.measure_use();
                let Some(idle) = memory.idle.get_mut(&client.id) else { continue };
                let active = idle.observe(now, done.busy_ns()) && memory.planned;
                memory.changed |= memory.graph.set_active(client.id, active);
            }
        }
        if std::mem::take(&mut memory.changed) {
            self.limit_memory();
            self.protect(now);
            self.tell_reclaimer();
        } else if is_look {
            self.check_memory();
        }
    }

    /// Tells the reclaimer who holds memory and what each is sure of, and starts it where there is one to be.
    fn tell_reclaimer(&mut self) {
        let options = self.setting.memory.as_ref();
        let limit_bytes = options.and_then(|options| options.limit_bytes);
        let Some(policy) = options.and_then(|options| options.reclaim.clone()) else { return };
        let holders = self.holders();
        let Some(memory) = &mut self.memory else { return };
        if memory.reclaimer.is_none() && !memory.refused {
            // Where systemd owns the tree there is no cgroup around all clients but the root.
            let top = Some(self.setting.top.clone()).filter(|top| top.is_dir());
            let headroom_bytes = policy.headroom_bytes;
            // Guests have a cgroup beside the hosts', and both have one limit.
            let folders = vec![self.setting.top.clone(), self.setting.guests.clone()];
            let together = limit_bytes.map(|limit_bytes| Together { limit_bytes, folders });
            let usual = ReclaimOptions::new(top, policy.build());
            match Reclaimer::start(ReclaimOptions { headroom_bytes, together, ..usual }) {
                Ok(reclaimer) => memory.reclaimer = Some(reclaimer),
                Err(error) => {
                    memory.refused = true;
                    let what = format!("who loses memory is left to the kernel: {error}");
                    self.tell(Drift { process: None, what });
                    return;
                }
            }
        }
        let Some(reclaimer) = self.memory.as_ref().and_then(|memory| memory.reclaimer.as_ref())
        else {
            return;
        };
        if let Err(error) = reclaimer.follow(holders) {
            self.tell(Drift { process: None, what: format!("who loses memory: {error}") });
        }
    }

    /// Everybody who holds memory in a cgroup of its own. Who shares one cannot be told apart there.
    fn holders(&mut self) -> Vec<MemoryClient> {
        let Some(memory) = &mut self.memory else { return Vec::new() };
        let most = self.setting.memory.as_ref().and_then(|options| options.most_bytes);
        let mount = &self.setting.root.mount;
        let mut taken: BTreeMap<PathBuf, MemoryClient> = BTreeMap::new();
        for client in &self.clients {
            let foreign = client.foreign();
            let folders = foreign.iter().map(|path| tree::folder(mount, path));
            let folders = folders.chain(client.leaf.clone());
            let folders: Vec<PathBuf> =
                folders.filter_map(|folder| holding(&folder, mount)).collect();
            let count = folders.len().max(1) as u64;
            let tickets = memory.graph.value(client.id);
            let sure_bytes = memory.worth(client.id, most).min_bytes;
            for folder in folders {
                let known = taken.entry(folder.clone()).or_insert_with(|| MemoryClient {
                    id: client.id,
                    // A folder's inode names it for as long as it is there.
                    key: folder.metadata().map_or(0, |found| found.ino()),
                    tickets: 0,
                    guaranteed_bytes: 0,
                    guest: true,
                    body: Body::Group(folder),
                });
                known.tickets += tickets / count;
                known.guaranteed_bytes += pages(sure_bytes.div_ceil(count));
                known.guest &= client.guest;
            }
        }
        taken.into_values().filter(|holder| holder.key != 0).collect()
    }

    /// `memory.max` of our cgroups, which is removed with them. Of the hosts' and the guests' together the
    /// reclaimer takes care: no cgroup is around both alone.
    fn limit_memory(&mut self) {
        let limit = self.setting.memory.as_ref().and_then(|options| options.limit_bytes);
        let Some(limit) = limit else { return };
        for folder in [self.setting.top.clone(), self.setting.guests.clone()] {
            if folder.is_dir()
                && let Err(error) = tree::write(&folder, "memory.max", &limit.to_string())
            {
                let what = format!("the clients' memory cannot be limited: {error}");
                self.tell(Drift { process: None, what });
            }
        }
    }

    /// What every cgroup is to be protected by.
    fn protections(&mut self) -> BTreeMap<String, Protection> {
        let mut wanted: BTreeMap<String, Protection> = BTreeMap::new();
        let Some(memory) = &mut self.memory else { return wanted };
        let most = self.setting.memory.as_ref().and_then(|options| options.most_bytes);
        let mount = &self.setting.root.mount;
        let has_systemd = self.setting.root.owner == CgroupOwner::Systemd;
        for client in &self.clients {
            let Protection { min_bytes, low_bytes } = memory.worth(client.id, most);
            if low_bytes == 0 {
                continue;
            }
            let mut places: Vec<String> = client.foreign().into_iter().map(str::to_owned).collect();
            places.extend(client.leaf.as_deref().map(|leaf| below(mount, leaf)));
            let count = places.len().max(1) as u64;
            for place in places {
                let around =
                    if has_systemd { systemd::units_of(&place) } else { cgroups_of(&place) };
                for path in around {
                    let has = wanted.entry(path).or_default();
                    has.min_bytes += pages(min_bytes.div_ceil(count));
                    has.low_bytes += pages(low_bytes.div_ceil(count));
                }
            }
        }
        wanted
    }

    fn protect(&mut self, now: u64) {
        let mut wanted = self.protections();
        let Some(memory) = &self.memory else { return };
        let before = memory.set.clone();
        for path in before.keys() {
            wanted.entry(path.clone()).or_default();
        }
        for (path, protection) in wanted {
            // What somebody else has promised is never less for ours.
            let found = self.found_protection(&path);
            let protection = protection.or_more(found);
            let known = before.get(&path).copied();
            if known.unwrap_or(found) == protection
                || self.is_to_wait(&path, known, protection, now)
            {
                continue;
            }
            let done = self.protect_one(&path, protection);
            if let Err(what) = done {
                self.tell(Drift { process: None, what });
            }
            // Half of it may be set: the next look tries again.
            let Some(memory) = &mut self.memory else { return };
            memory.set_at_ns.insert(path.clone(), now);
            match protection == found {
                true => memory.set.remove(&path),
                false => memory.set.insert(path, protection),
            };
        }
    }

    /// What a cgroup or unit that is not ours was protected by when we first looked.
    fn found_protection(&mut self, path: &str) -> Protection {
        if self.is_ours(path) {
            return Protection::default();
        }
        if let Some(found) = self.memory.as_ref().and_then(|memory| memory.found.get(path)) {
            return *found;
        }
        let group = tree::folder(&self.setting.root.mount, path);
        let number = |file: &str, property: &str| match &self.manager {
            Some(manager) => manager.get(&systemd::unit_name(path), property).unwrap_or(0),
            // Without limit is more than anybody has.
            None => tree::read(&group, file).map_or(0, |text| text.parse().unwrap_or(u64::MAX)),
        };
        let (min_bytes, low_bytes) =
            (number("memory.min", "MemoryMin"), number("memory.low", "MemoryLow"));
        let found = Protection { min_bytes, low_bytes };
        if let Some(memory) = &mut self.memory {
            memory.found.insert(path.to_owned(), found);
        }
        found
    }

    /// systemd writes a file for each change: at most one a unit in a while, and none for little.
    fn is_to_wait(
        &mut self,
        path: &str,
        known: Option<Protection>,
        wanted: Protection,
        now: u64,
    ) -> bool {
        if self.manager.is_none() {
            return false;
        }
        let Some(known) = known else { return false };
        let close = |known: u64, wanted: u64| {
            known > 0 && wanted > 0 && known.abs_diff(wanted) <= (known / 64).max(1 << 20)
        };
        if close(known.min_bytes, wanted.min_bytes) && close(known.low_bytes, wanted.low_bytes) {
            return true;
        }
        let Some(memory) = &mut self.memory else { return false };
        let soon = memory
            .set_at_ns
            .get(path)
            .is_some_and(|at_ns| now.saturating_sub(*at_ns) < UNIT_EVERY_NS);
        memory.changed |= soon;
        soon
    }

    /// # Errors
    /// In words. A cgroup that is no more needs nothing.
    fn protect_one(&mut self, path: &str, protection: Protection) -> Result<(), String> {
        let Protection { min_bytes, low_bytes } = protection;
        let group = tree::folder(&self.setting.root.mount, path);
        if !group.is_dir() {
            return Ok(());
        }
        for (file, property, bytes) in
            [("memory.min", "MemoryMin", min_bytes), ("memory.low", "MemoryLow", low_bytes)]
        {
            let text = if bytes == u64::MAX { "max".to_owned() } else { bytes.to_string() };
            let done = match &self.manager {
                Some(_) => self.set_unit(path, property, bytes),
                None => self.set_foreign_file(path, &group, file, &text),
            };
            done.map_err(|why| format!("the share of memory of {path} cannot be set: {why}"))?;
        }
        Ok(())
    }

    /// Writes a file of a cgroup; of one that is not ours, notes before what it said.
    fn set_foreign_file(
        &mut self,
        path: &str,
        group: &Path,
        file: &str,
        text: &str,
    ) -> Result<(), String> {
        let file_path = group.join(file);
        if !self.is_ours(path) && !self.record.knows(&Found::setting_key(&file_path)) {
            let found = tree::read(group, file).map_err(|error| error.to_string())?;
            self.record
                .note(&Found::Setting { path: file_path, text: found })
                .map_err(|error| error.to_string())?;
        }
        tree::write(group, file, text).map_err(|error| error.to_string())
    }

    /// Looks whether cgroups are protected as they were, and puts right what is not.
    pub(super) fn check_memory(&mut self) {
        let set: Vec<(String, Protection)> = match &self.memory {
            Some(memory) => memory.set.iter().map(|(path, it)| (path.clone(), *it)).collect(),
            None => return,
        };
        for (path, protection) in set {
            let group = tree::folder(&self.setting.root.mount, &path);
            let number = |file: &str| tree::read(&group, file).ok()?.parse::<u64>().ok();
            let (Some(min_bytes), Some(low_bytes)) = (number("memory.min"), number("memory.low"))
            else {
                // Gone, or without limit, which nobody wants less of.
                continue;
            };
            let found = Protection { min_bytes, low_bytes };
            if found == protection {
                continue;
            }
            let what = match self.protect_one(&path, protection) {
                Ok(()) => format!(
                    "the share of memory of {path} was {min_bytes}; it is {} again",
                    protection.min_bytes
                ),
                Err(why) => why,
            };
            self.tell(Drift { process: None, what });
        }
    }
}

impl Protection {
    /// Of each the more.
    fn or_more(self, other: Protection) -> Protection {
        Protection {
            min_bytes: self.min_bytes.max(other.min_bytes),
            low_bytes: self.low_bytes.max(other.low_bytes),
        }
    }
}

/// The nearest cgroup that memory can be taken from, the root left out.
fn holding(folder: &Path, mount: &Path) -> Option<PathBuf> {
    let around = folder.ancestors().take_while(|group| *group != mount);
    around.map(Path::to_owned).find(|group| group.join("memory.reclaim").exists())
}

/// A part of what was promised, where there is less by now, in the same proportion for all.
fn within(bytes: u64, promised: u64, most: Option<u64>) -> u64 {
    match most.filter(|most| *most < promised) {
        Some(most) => {
            let part = u128::from(bytes) * u128::from(most) / u128::from(promised);
            u64::try_from(part).expect("less than there is")
        }
        None => bytes,
    }
}

/// Whole pages, at least as many bytes.
fn pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(rustix::param::page_size() as u64)
}
