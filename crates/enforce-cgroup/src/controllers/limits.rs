//! Hard caps on disks that somebody asked for: lines of `io.max`.
//!
//! 1. A **client's** limit is on its own cgroup and on the cgroups that are its members; if it has several, each has an
//!    equal part, so that together they do no more.
//! 2. A **currency's** limit is on the cgroup around all clients that it alone funds ([`crate::placement::Layout`]).
//!    Clients that have other issuers too stand elsewhere, and guests with the guests: those it does not hold.
//! 3. On cgroups that are not ours what was found is noted before and given back; and what was limited more strictly
//!    there stays so.
//! 4. A limit that somebody changes is told and put right.
//! 5. A limit that cannot be set is told, once, and tried again: a disk that is missing, a process in a cgroup that is
//!    not its own, a tree that systemd owns.

use super::controller::{Context, Controller};
use super::io_max;
use crate::cgroups::Cgroups;
use crate::tree;
use disk::{DeviceNumber, look};
use enforcer::ResourceStatus;
use enforcer::{Plan, PlannedLimit};
use ledger::{CurrencyId, DiskLimit};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// Interval between looks at limits.
const LOOK_NS: u64 = 1_000_000_000;

/// A cgroup's folder, and a disk.
type Target = (PathBuf, DeviceNumber);

/// DiskLimit of currencies on disks that have no effect, and why, in words.
type Troubles = BTreeMap<(CurrencyId, String), String>;

/// All limits by one plan.
#[derive(Debug)]
pub(crate) struct LimitsController {
    /// Whether the kernel has an io controller for us.
    has_io: bool,
    planned: Vec<PlannedLimit>,
    /// Some limit that can be set was planned since the last revert.
    has_limited: bool,
    /// DiskLimit that are set.
    set: BTreeMap<Target, DiskLimit>,
    /// DiskLimit that cgroups that are not ours had.
    found: BTreeMap<Target, DiskLimit>,
    looked_ns: Option<u64>,
    /// As told.
    told: Troubles,
}

impl LimitsController {
    pub fn new(has_io: bool) -> LimitsController {
        LimitsController {
            has_io,
            planned: Vec::new(),
            has_limited: false,
            set: BTreeMap::new(),
            found: BTreeMap::new(),
            looked_ns: None,
            told: Troubles::new(),
        }
    }

    /// Returns the limits that are to be set, and those that cannot be.
    fn wanted(&self, context: &Context) -> (BTreeMap<Target, DiskLimit>, Troubles) {
        let mut numbers: BTreeMap<&str, Result<DeviceNumber, String>> = BTreeMap::new();
        let mut wanted: BTreeMap<Target, DiskLimit> = BTreeMap::new();
        let mut troubles = Troubles::new();
        for PlannedLimit { id, disk, limits } in &self.planned {
            let folders = match self.folders(*id, context) {
                Ok(folders) if folders.is_empty() => continue,
                Ok(folders) => folders,
                Err(why) => {
                    troubles.insert((*id, disk.clone()), why);
                    continue;
                }
            };
            let number = numbers.entry(disk).or_insert_with(|| {
                look(disk).map(|facts| facts.number).map_err(|error| error.to_string())
            });
            match number {
                Ok(number) => {
                    let part = limits.part(folders.len() as u64);
                    for folder in folders {
                        let known = wanted.entry((folder, *number)).or_default();
                        *known = known.stricter(part);
                    }
                }
                Err(why) => drop(troubles.insert((*id, disk.clone()), why.clone())),
            }
        }
        (wanted, troubles)
    }

    /// Lists the cgroups that a currency's limit is on; none if it has no client at present.
    ///
    /// # Errors
    /// Why there can be none, in words.
    fn folders(&self, id: CurrencyId, context: &Context) -> Result<Vec<PathBuf>, String> {
        if context.cgroups.systemd.is_some() {
            let advice =
                "`systemctl set-property UNIT IOReadBandwidthMax=` limits one of its units";
            return Err(format!("systemd owns the cgroup tree ({advice})"));
        }
        if !self.has_io {
            return Err("there is no io controller".to_owned());
        }
        let Some(client) = context.placement.client(id) else {
            let folder = context.placement.folder_of(id, context.cgroups);
            return Ok(folder.filter(|folder| folder.is_dir()).into_iter().collect());
        };
        let groups = client.groups.iter().map(|group| group.folder.clone());
        match client.is_among_others() {
            true => Err("it is in a cgroup that is not its own".to_owned()),
            false => Ok(client.leaf.iter().cloned().chain(groups).collect()),
        }
    }

    /// Sets a limit if it is not set.
    ///
    /// # Errors
    /// The message to be told.
    fn limit(
        &mut self,
        target: &Target,
        limits: DiskLimit,
        cgroups: &mut Cgroups,
    ) -> Result<(), String> {
        let (folder, number) = target;
        let says = |error: &io::Error| format!("{} cannot be limited: {error}", folder.display());
        let text = match tree::read(folder, io_max::FILE) {
            Ok(text) => text,
            Err(_) if !folder.is_dir() => return Ok(()),
            Err(error) => return Err(says(&error)),
        };
        let is = io_max::parse(*number, &text);
        let mut wanted = limits;
        if !cgroups.is_our_folder(folder) {
            let found = *self.found.get(target).unwrap_or(&is);
            let (file, text) = (folder.join(io_max::FILE), io_max::line(*number, found));
            cgroups.note_limit(file, *number, text).map_err(|error| says(&error))?;
            self.found.insert(target.clone(), found);
            wanted = limits.stricter(found);
        }
        let before = self.set.insert(target.clone(), wanted);
        if is == wanted {
            return Ok(());
        }
        if let Err(error) = tree::write(folder, io_max::FILE, &io_max::line(*number, wanted)) {
            self.set.remove(target);
            return Err(says(&error));
        }
        match before == Some(wanted) {
            true => Err(format!("{}: the limit on {number} is set again", folder.display())),
            false => Ok(()),
        }
    }

    /// Takes a limit away: what was found comes back.
    ///
    /// # Errors
    /// The message to be told.
    fn unlimit(&mut self, target: &Target, cgroups: &mut Cgroups) -> Result<(), String> {
        let (folder, number) = target;
        self.set.remove(target);
        let found = self.found.remove(target);
        let text = io_max::line(*number, found.unwrap_or_default());
        let done = tree::write(folder, io_max::FILE, &text);
        let noted = match found {
            Some(_) if done.is_ok() => {
                cgroups.note_limit_given_back(&folder.join(io_max::FILE), *number)
            }
            _ => Ok(()),
        };
        match done.and(noted) {
            Err(error) if folder.is_dir() => {
                Err(format!("the limit of {} stays: {error}", folder.display()))
            }
            _ => Ok(()),
        }
    }

    /// Tells of limits without effect that were not told before.
    fn tell_troubles(&mut self, troubles: Troubles, context: &mut Context) {
        for ((id, disk), why) in &troubles {
            if self.told.get(&(*id, disk.clone())) != Some(why) {
                context.drift.tell(format!("the limit of {id} on {disk} has no effect: {why}"));
            }
        }
        self.told = troubles;
    }
}

impl Controller for LimitsController {
    /// Takes the plan's limits: they are looked after next.
    fn plan(&mut self, plan: &Plan, context: &mut Context) {
        self.planned = plan.limits.clone();
        let can_limit = self.has_io && context.cgroups.systemd.is_none();
        self.has_limited |= can_limit && !self.planned.is_empty();
        self.looked_ns = None;
    }

    fn tick(&mut self, context: &mut Context) {
        let now_ns = context.now_ns;
        let is_due = self.looked_ns.is_none_or(|at| now_ns.saturating_sub(at) >= LOOK_NS);
        if !is_due || (self.planned.is_empty() && self.set.is_empty()) {
            return;
        }
        self.looked_ns = Some(now_ns);
        let (wanted, troubles) = self.wanted(context);
        let is_stale = |target: &&Target| !wanted.contains_key(*target);
        let stale: Vec<Target> = self.set.keys().filter(is_stale).cloned().collect();
        for target in stale {
            if let Err(what) = self.unlimit(&target, context.cgroups) {
                context.drift.tell(what);
            }
        }
        for (target, limits) in wanted {
            if let Err(what) = self.limit(&target, limits, context.cgroups) {
                context.drift.tell(what);
            }
        }
        self.tell_troubles(troubles, context);
    }

    /// Tells nothing: a limit is no share of a resource.
    fn status(&self) -> Vec<ResourceStatus> {
        Vec::new()
    }

    /// DiskLimit of others are on record, and ours go with our cgroups.
    fn revert(&mut self, _: &mut Context) {
        *self = LimitsController::new(self.has_io);
    }

    fn kernel_controller(&self) -> Option<&'static str> {
        self.has_limited.then_some("io")
    }
}
