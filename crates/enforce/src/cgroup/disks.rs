//! Shares of disks: weights of our cgroups, and of those that are not ours, on each disk of which
//! anybody has tickets.
//!
//! 1. A disk is **prepared** when the first tickets of it are planned, and given back when there are
//!    none any more ([`crate::disk`]). One that vanishes, that cannot be prepared, or that somebody
//!    else changes, is told, and tried again after [`RETRY_NS`].
//! 2. Weights are as the CPU's ([`super::layout`]): where they would depend on who is active, who
//!    asked for something within [`ACTIVE_NS`] is. That is looked up, per client, at each period.
//! 3. Beside what is nobody's client, all clients together weigh [`TOP_WEIGHT`], the guests 1; where clients live
//!    in cgroups of others, each cgroup among its siblings what the clients in it are worth.

use super::layout::{Layout, Weights, portions, scaled};
use super::state::State;
use super::systemd::{unit_name, units_of};
use super::weigh::cgroups_of;
use super::{CgroupOwner, tree};
use crate::Drift;
use crate::cgroup::record::Found;
use crate::disk::{
    DeviceNumber, KeptDisks, Order, Places, PreparedDisk, Way, look, prepare, read_usage,
};
use ledger::{CurrencyId, Resource};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use valuation::Graph;

/// How shares of disks are kept.
#[derive(Clone, Debug, Default)]
pub struct DiskOptions {
    /// Where speeds of disks are kept that were measured ([`KeptDisks`]); read anew for each disk.
    pub file: Option<PathBuf>,
}

/// Between tries of a disk that cannot be shared.
const RETRY_NS: u64 = 10_000_000_000;
/// Who asked for something within this time competes for a disk.
const ACTIVE_NS: u64 = 1_000_000_000;
/// Drift is looked for so often.
const LOOK_NS: u64 = 1_000_000_000;
/// systemd gives BFQ the weights that it is given up to here, and squeezes those above into what is left:
/// of 200 and 300 it makes 109 and 118.
const SYSTEMD_BFQ_MOST: u32 = 100;
/// Of all clients together, ten times what a cgroup has that nobody gave a weight.
const TOP_WEIGHT: u32 = 1000;

/// One disk by one plan.
#[derive(Debug)]
pub(super) struct DiskShares {
    /// As its tickets name it.
    name: String,
    pub graph: Graph,
    hold: Hold,
    weights: Option<Weights>,
    /// Something has changed since weights were set.
    changed: bool,
    /// What is set, by the cgroup's path.
    set: BTreeMap<String, u32>,
    /// Requests of each client when they were last counted, and when they last were more.
    seen: BTreeMap<CurrencyId, (u64, u64)>,
    seen_ns: u64,
    looked_ns: u64,
    /// Some weight could not be set, and why, as told last.
    trouble: Option<String>,
    /// All weights are to be told anew: some are not set.
    is_stale: bool,
}

/// Whether a disk's weights are enforced.
#[derive(Debug)]
enum Hold {
    Prepared(Box<PreparedDisk>),
    Refused { why: String, retry_ns: u64 },
}

impl DiskShares {
    fn way(&self) -> Option<(Way, DeviceNumber)> {
        match &self.hold {
            Hold::Prepared(disk) => Some((*disk.way(), disk.found().number)),
            Hold::Refused { .. } => None,
        }
    }

    /// How it is enforced, or why not, in words.
    pub fn says(&self) -> (Option<&'static str>, String) {
        match &self.hold {
            Hold::Prepared(disk) if disk.found().name == self.name => {
                (Some(disk.way().name()), format!("{} is prepared for it", self.name))
            }
            Hold::Prepared(disk) => {
                let carries = &disk.found().name;
                (
                    Some(disk.way().name()),
                    format!("{carries} carries the requests of {}", self.name),
                )
            }
            Hold::Refused { why, .. } => (None, why.clone()),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl State {
    /// Takes the plan's disk tickets: prepares disks that are new, gives back those of which nobody
    /// has tickets any more.
    pub(super) fn plan_disks(&mut self, now: u64) {
        let Some(options) = self.setting.disks.clone() else { return };
        let Some(plan) = &self.plan else { return };
        let mut known: BTreeMap<String, DiskShares> = std::mem::take(&mut self.disks)
            .into_iter()
            .map(|disk| (disk.name.clone(), disk))
            .collect();
        let planned: Vec<(String, Graph)> = plan
            .others
            .iter()
            .filter_map(|graph| match graph.resource() {
                Resource::Disk(name) => Some((name.clone(), graph.clone())),
                _ => None,
            })
            .collect();
        for (name, mut graph) in planned {
            let disk = match known.remove(&name) {
                Some(mut disk) => {
                    for client in disk.graph.active_clients() {
                        graph.set_active(client, true);
                    }
                    disk.graph = graph;
                    disk
                }
                None => {
                    let why = "not tried yet".to_owned();
                    let hold = Hold::Refused { why, retry_ns: 0 };
                    let (set, seen) = (BTreeMap::new(), BTreeMap::new());
                    DiskShares {
                        name,
                        graph,
                        hold,
                        weights: None,
                        changed: true,
                        set,
                        seen,
                        seen_ns: 0,
                        trouble: None,
                        is_stale: false,
                        looked_ns: now,
                    }
                }
            };
            self.disks.push(disk);
        }
        for (_, disk) in known {
            self.release_disk(disk);
        }
        for index in 0..self.disks.len() {
            self.hold_disk(index, &options, now);
        }
        let has_io = self.disks.iter().any(|disk| disk.way().is_some());
        self.new_controllers |= has_io && !std::mem::replace(&mut self.shares_disks, has_io);
    }

    /// After the tree of a plan was made: weights are for its places.
    pub(super) fn lay_out_disks(&mut self, layout: &Layout) {
        for disk in &mut self.disks {
            let most = disk.way().map_or(1, |(way, _)| *way.weights().end());
            disk.weights = Some(Weights::of(layout, &disk.graph, most));
            disk.changed = true;
        }
    }

    /// Tries a disk that is not prepared, if it is time.
    fn hold_disk(&mut self, index: usize, options: &DiskOptions, now: u64) {
        let disk = &self.disks[index];
        let Hold::Refused { why: before, retry_ns } = &disk.hold else { return };
        if now < *retry_ns {
            return;
        }
        let (name, before) = (disk.name.clone(), before.clone());
        let hold = match self.try_disk(&name, options) {
            Ok(prepared) => {
                tracing::info!("{name}: shared by {}", prepared.way().name());
                Hold::Prepared(Box::new(prepared))
            }
            Err(why) => {
                if why != before {
                    let what = format!("tickets of {name} have no effect: {why}");
                    self.tell(Drift { process: None, what });
                }
                Hold::Refused { why, retry_ns: now + RETRY_NS }
            }
        };
        let disk = &mut self.disks[index];
        disk.hold = hold;
        disk.changed = true;
        // Our cgroups may be without the controller as yet.
        self.must_follow |= disk.way().is_some() && !self.shares_disks;
    }

    fn try_disk(&mut self, name: &str, options: &DiskOptions) -> Result<PreparedDisk, String> {
        let facts = look(name).map_err(|error| error.to_string())?;
        if !facts.controllers.0 {
            return Err("the root of the cgroup tree offers no io controller".to_owned());
        }
        let kept = match &options.file {
            Some(file) => KeptDisks::load(file).map_err(|error| error.to_string())?,
            None => KeptDisks::default(),
        };
        let speed = kept.get(&facts).map(|kept| &kept.speed);
        let way = Way::choose(&facts, speed).map_err(|error| error.to_string())?;
        let taken = self.disks.iter().find(|disk| {
            disk.name != name && disk.way().is_some_and(|(_, number)| number == facts.number)
        });
        if let Some(other) = taken {
            return Err(format!(
                "{} carries its requests, as it does {}'s",
                facts.name, other.name
            ));
        }
        prepare(&Places::of_this_machine(), &facts, way, &mut self.record)
            .map_err(|error| error.to_string())
    }

    /// Gives all disks back. Our cgroups go, and weights of others are in the record.
    pub(super) fn revert_disks(&mut self) {
        for disk in std::mem::take(&mut self.disks) {
            self.release_disk(disk);
        }
        self.shares_disks = false;
    }

    /// Gives a disk back, and takes the weights on it away.
    fn release_disk(&mut self, disk: DiskShares) {
        let DiskShares { name, hold, set, .. } = disk;
        let Hold::Prepared(prepared) = hold else { return };
        if prepared.is_there() && self.manager.is_none() {
            let (way, number) = (*prepared.way(), prepared.found().number);
            for path in set.keys() {
                let group = tree::folder(&self.setting.root.mount, path);
                let key = group.join(way.weight_file());
                // What was there before is in the record, which has it set back at the end.
                if !self.record.knows(&Found::setting_key(&key)) {
                    let Order { file, text } = way.unweigh(number);
                    let _ = tree::write(&group, file, &text);
                }
            }
        }
        let carries = prepared.found().name.clone();
        let given = prepared.give_back();
        if given.failed.is_empty()
            && let Err(error) = self.record.note_given_back(&carries)
        {
            tracing::warn!(%error, "it cannot be noted that {carries} was given back");
        }
        for what in given.left.into_iter().chain(given.failed) {
            self.tell(Drift { process: None, what: format!("{name}: {what}") });
        }
    }

    /// A cgroup is gone, or was made anew: no weight of ours is on it.
    pub(super) fn forget_disk_weights(&mut self, group: &Path) {
        let path = below(&self.setting.root.mount, group);
        for disk in &mut self.disks {
            if disk.set.remove(&path).is_some() {
                disk.is_stale = true;
            }
        }
    }

    /// Brings the weights on all disks up to date with who competes.
    pub(super) fn weigh_disks(&mut self, now: u64) {
        for index in 0..self.disks.len() {
            self.look_at_disk(index, now);
            let is_stable = match (&self.layout, &self.disks[index].weights) {
                (Some(layout), Some(weights)) => weights.are_stable(layout),
                _ => continue,
            };
            if self.disks[index].way().is_none() {
                continue;
            }
            // For who asks us; weights that are stable do not depend on it.
            let is_due = now.saturating_sub(self.disks[index].seen_ns) >= LOOK_NS;
            if !is_stable || is_due {
                self.see_who_asks(index, now);
            }
            if std::mem::take(&mut self.disks[index].changed) {
                self.set_weights(index);
            }
        }
    }

    /// Whether a disk is there and as it was prepared.
    fn look_at_disk(&mut self, index: usize, now: u64) {
        let Some(options) = self.setting.disks.clone() else { return };
        let disk = &mut self.disks[index];
        if now.saturating_sub(disk.looked_ns) < LOOK_NS {
            return;
        }
        disk.looked_ns = now;
        if let Hold::Prepared(prepared) = &disk.hold {
            let drift = prepared.drift();
            let gone = !prepared.is_there();
            if !gone && drift.is_empty() {
                return self.tell_weights_anew(index);
            }
            let name = disk.name.clone();
            let why = if gone { format!("{name} is gone") } else { drift.join("; ") };
            let refused = Hold::Refused { why: why.clone(), retry_ns: now + RETRY_NS };
            let held = std::mem::replace(&mut disk.hold, refused);
            disk.set.clear();
            if let Hold::Prepared(prepared) = held {
                prepared.give_back();
            }
            let what = format!("tickets of {name} have no effect for a while: {why}");
            self.tell(Drift { process: None, what });
        }
        self.hold_disk(index, &options, now);
        self.tell_weights_anew(index);
    }

    /// Where some weights are not set.
    fn tell_weights_anew(&mut self, index: usize) {
        let disk = &mut self.disks[index];
        if let (Some(layout), Some((way, _))) = (&self.layout, disk.way())
            && (disk.set.is_empty() || std::mem::take(&mut disk.is_stale))
        {
            disk.weights = Some(Weights::of(layout, &disk.graph, *way.weights().end()));
            disk.changed = true;
        }
    }

    /// Finds out who competes for a disk.
    fn see_who_asks(&mut self, index: usize, now: u64) {
        let Some((_, number)) = self.disks[index].way() else { return };
        let mount = self.setting.root.mount.clone();
        let disk = &mut self.disks[index];
        disk.seen_ns = now;
        disk.seen.retain(|id, _| self.clients.binary_search_by_key(id, |it| it.id).is_ok());
        for client in &self.clients {
            let mut folders: Vec<PathBuf> =
                client.foreign().into_iter().map(|path| tree::folder(&mount, path)).collect();
            folders.extend(client.leaf.clone());
            let requests = folders
                .iter()
                .filter_map(|folder| Some(read_usage(folder).ok()?.get(&number)?.requests()))
                .sum();
            let (before, since) = disk.seen.entry(client.id).or_insert((requests, 0));
            if *before != requests {
                (*before, *since) = (requests, now);
            }
            let is_active = *since > 0 && now.saturating_sub(*since) < ACTIVE_NS;
            disk.changed |= disk.graph.set_active(client.id, is_active);
        }
    }

    pub(super) fn set_weights(&mut self, index: usize) {
        let Some(layout) = &self.layout else { return };
        let disk = &mut self.disks[index];
        let (Some((way, number)), Some(weights)) = (disk.way(), &mut disk.weights) else { return };
        let mount = self.setting.root.mount.clone();
        let top = self.setting.top.clone();
        let mut wanted: BTreeMap<String, u32> = BTreeMap::new();
        for (path, weight) in weights.changes(layout, &mut disk.graph) {
            wanted.insert(below(&mount, &top.join(path)), weight);
        }
        wanted.insert(below(&mount, &self.setting.guests), 1);
        for (path, weight) in self.foreign_disk_weights(index, way) {
            wanted.entry(path).or_insert(weight);
        }
        wanted.entry(below(&mount, &top)).or_insert(TOP_WEIGHT);
        let mut trouble = None;
        for (path, weight) in wanted {
            if self.disks[index].set.get(&path) == Some(&weight) {
                continue;
            }
            let group = tree::folder(&mount, &path);
            if !group.is_dir() {
                continue;
            }
            match self.set_disk_weight(&path, &group, way, number, weight) {
                Ok(()) => drop(self.disks[index].set.insert(path, weight)),
                Err(why) => trouble = Some((path, why)),
            }
        }
        let disk = &mut self.disks[index];
        disk.is_stale |= trouble.is_some();
        let why = trouble.as_ref().map(|(_, why)| why.clone());
        let is_new = why.is_some() && disk.trouble != why;
        disk.trouble = why;
        if let Some((path, why)) = trouble.filter(|_| is_new) {
            let what = format!("the weight of {path} on {} cannot be set: {why}", disk.name);
            self.tell(Drift { process: None, what });
        }
    }

    /// Cgroups that are not ours, each by what the clients in it are worth now, among siblings.
    fn foreign_disk_weights(&mut self, index: usize, way: Way) -> Vec<(String, u32)> {
        let has_systemd = self.setting.root.owner == CgroupOwner::Systemd;
        let top = below(&self.setting.root.mount, &self.setting.top);
        let mut is_foreign = false;
        let graph = &mut self.disks[index].graph;
        let mut worths: BTreeMap<String, u64> = BTreeMap::new();
        for client in &self.clients {
            let mut places = client.foreign();
            is_foreign |= !places.is_empty();
            if client.has_leaf() && !client.guest {
                places.push(&top);
            }
            let worth = graph.guaranteed(client.id).max(graph.value(client.id));
            for place in &places {
                for path in if has_systemd { units_of(place) } else { cgroups_of(place) } {
                    *worths.entry(path).or_default() += worth / places.len() as u64;
                }
            }
        }
        if !is_foreign {
            return Vec::new();
        }
        let mut siblings: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
        for (path, worth) in worths {
            let outer = path.rsplit_once('/').map_or("", |(outer, _)| outer).to_owned();
            siblings.entry(outer).or_default().push((path, worth));
        }
        let mut weights = Vec::new();
        for (_, members) in siblings {
            let values: Vec<u64> = members.iter().map(|(_, worth)| *worth).collect();
            // As much as neighbours that are nobody's, on average.
            let portions = match (has_systemd, way) {
                (true, Way::Bfq) => scaled(&values, SYSTEMD_BFQ_MOST),
                _ => portions(&values, 100 * members.len() as u64),
            };
            let portions = portions.into_iter().map(|weight| weight.min(*way.weights().end()));
            weights.extend(members.into_iter().map(|(path, _)| path).zip(portions));
        }
        weights
    }

    fn set_disk_weight(
        &mut self,
        path: &str,
        group: &Path,
        way: Way,
        number: DeviceNumber,
        weight: u32,
    ) -> Result<(), String> {
        if self.manager.is_some() {
            return self.set_unit_disk_weight(path, number, weight);
        }
        let Order { file, text } = way.weigh(number, weight);
        let key = group.join(file);
        if !self.is_ours(path) && !self.record.knows(&Found::setting_key(&key)) {
            let found = tree::read(group, file).map_err(|error| error.to_string())?;
            let found = Found::Setting { path: key, text: way.reweigh(number, &found).text };
            self.record.note(&found).map_err(|error| error.to_string())?;
        }
        tree::write(group, file, &text).map_err(|error| error.to_string())
    }

    /// Asks systemd for a unit's weight on a device, and notes before which weights it had.
    fn set_unit_disk_weight(
        &mut self,
        path: &str,
        number: DeviceNumber,
        weight: u32,
    ) -> Result<(), String> {
        let Some(manager) = &self.manager else { return Ok(()) };
        let unit = unit_name(path);
        if !self.record.knows(&Found::unit_disks_key(&unit)) {
            let weights = manager.disk_weights(&unit).map_err(|error| error.to_string())?;
            let found = Found::UnitDisks { unit: unit.clone(), weights };
            self.record.note(&found).map_err(|error| error.to_string())?;
        }
        let device = format!("/dev/block/{number}");
        manager
            .set_disk_weights(&unit, &[(device, u64::from(weight))])
            .map_err(|error| error.to_string())
    }
}

/// A folder of the tree as a cgroup's path.
pub(super) fn below(mount: &Path, folder: &Path) -> String {
    format!("/{}", folder.strip_prefix(mount).unwrap_or(folder).display())
}
