//! Hard caps on disks that somebody asked for: lines of `io.max`.
//!
//! 1. A **client's** is on its own cgroup and on the cgroups that are its members; where it has several, each
//!    has an equal part, so that together they do no more.
//! 2. A **currency's** is on the cgroup around all whom it alone funds ([`super::layout`]). Clients that have
//!    other issuers too stand elsewhere, and guests with the guests: those it does not hold.
//! 3. On cgroups that are not ours what was found is noted before and given back; and what was limited more
//!    strictly there stays so.
//! 4. What somebody changes is told and put right.
//! 5. What cannot be limited is told, once, and tried again: a disk that is not there, a process in a
//!    cgroup that is not its own, a tree that systemd owns.

use super::state::State;
use super::tree;
use crate::cgroup::record::Found;
use crate::disk::{DeviceNumber, LIMIT_FILE, Limits, look};
use crate::{Drift, PlannedLimit};
use ledger::CurrencyId;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// Limits are looked after so often.
const LOOK_NS: u64 = 1_000_000_000;

/// A cgroup's folder, and a disk.
type Place = (PathBuf, DeviceNumber);

/// All limits by one plan.
#[derive(Debug, Default)]
pub(super) struct DiskLimits {
    /// Some limit was planned since the last revert: our cgroups need the controller.
    pub is_on: bool,
    /// What is set.
    set: BTreeMap<Place, Limits>,
    /// What cgroups that are not ours had.
    found: BTreeMap<Place, Limits>,
    looked_ns: Option<u64>,
    /// Whose limit on which disk has no effect, and why, as told.
    told: BTreeMap<(CurrencyId, String), String>,
}

impl State {
    /// Takes the plan's limits: they are looked after next.
    pub(super) fn plan_limits(&mut self) {
        let planned = self.plan.as_ref().is_some_and(|plan| !plan.limits.is_empty());
        let can = self.manager.is_none() && self.setting.disks.is_some();
        if planned && can && !std::mem::replace(&mut self.limits.is_on, true) {
            self.new_controllers = true;
        }
        self.limits.looked_ns = None;
    }

    /// Brings all limits up to date.
    pub(super) fn keep_limits(&mut self, now: u64) {
        let Some(plan) = &self.plan else { return };
        let limits = &mut self.limits;
        let is_due = limits.looked_ns.is_none_or(|at| now.saturating_sub(at) >= LOOK_NS);
        if !is_due || (plan.limits.is_empty() && limits.set.is_empty()) {
            return;
        }
        limits.looked_ns = Some(now);
        let planned: Vec<PlannedLimit> = plan.limits.clone();
        let mut numbers: BTreeMap<String, Result<DeviceNumber, String>> = BTreeMap::new();
        let mut wanted: BTreeMap<Place, Limits> = BTreeMap::new();
        let mut troubles: BTreeMap<(CurrencyId, String), String> = BTreeMap::new();
        for PlannedLimit { id, disk, limits } in planned {
            let folders = match self.limited_folders(id) {
                Ok(folders) if folders.is_empty() => continue,
                Ok(folders) => folders,
                Err(why) => {
                    troubles.insert((id, disk), why);
                    continue;
                }
            };
            let number = numbers.entry(disk.clone()).or_insert_with(|| {
                look(&disk).map(|facts| facts.number).map_err(|error| error.to_string())
            });
            match number {
                Ok(number) => {
                    let part = limits.part(folders.len() as u64);
                    for folder in folders {
                        let known = wanted.entry((folder, *number)).or_default();
                        *known = known.stricter(part);
                    }
                }
                Err(why) => drop(troubles.insert((id, disk), why.clone())),
            }
        }
        let not_wanted: Vec<Place> =
            self.limits.set.keys().filter(|place| !wanted.contains_key(*place)).cloned().collect();
        for place in not_wanted {
            self.unlimit(&place);
        }
        for (place, limits) in wanted {
            if let Err(what) = self.limit(&place, limits) {
                self.tell_limit(what);
            }
        }
        let told = std::mem::take(&mut self.limits.told);
        for ((id, disk), why) in &troubles {
            if told.get(&(*id, disk.clone())) != Some(why) {
                self.tell_limit(format!("the limit of {id} on {disk} has no effect: {why}"));
            }
        }
        self.limits.told = troubles;
    }

    /// The cgroups that a limit of a currency's is on; none where it has no client at present.
    ///
    /// # Errors
    /// Why there can be none, in words.
    fn limited_folders(&self, id: CurrencyId) -> Result<Vec<PathBuf>, String> {
        if self.manager.is_some() {
            let advice =
                "`systemctl set-property UNIT IOReadBandwidthMax=` limits one of its units";
            return Err(format!("systemd owns the cgroup tree ({advice})"));
        }
        if self.setting.disks.is_none() {
            return Err("there is no io controller".to_owned());
        }
        let Ok(index) = self.clients.binary_search_by_key(&id, |client| client.id) else {
            let place = self.layout.as_ref().and_then(|layout| layout.path(id));
            let folder = place.map(|place| self.setting.top.join(place));
            return Ok(folder.filter(|folder| folder.is_dir()).into_iter().collect());
        };
        let client = &self.clients[index];
        let groups = client.groups.iter().map(|group| group.folder.clone());
        let folders: Vec<PathBuf> = client.leaf.iter().cloned().chain(groups).collect();
        match client.is_among_others() {
            true => Err("it is in a cgroup that is not its own".to_owned()),
            false => Ok(folders),
        }
    }

    /// Sets a limit where it is not set.
    ///
    /// # Errors
    /// What is to be told, in words.
    fn limit(&mut self, place: &Place, limits: Limits) -> Result<(), String> {
        let (folder, number) = place;
        let says = |error: &io::Error| format!("{} cannot be limited: {error}", folder.display());
        let text = match tree::read(folder, LIMIT_FILE) {
            Ok(text) => text,
            Err(_) if !folder.is_dir() => return Ok(()),
            Err(error) => return Err(says(&error)),
        };
        let is = Limits::found(*number, &text);
        let mut wanted = limits;
        if !self.is_our_folder(folder) {
            let found = *self.limits.found.get(place).unwrap_or(&is);
            let (path, text) = (folder.join(LIMIT_FILE), found.order(*number).text);
            self.record
                .note(&Found::Limit { path, number: *number, text })
                .map_err(|error| says(&error))?;
            self.limits.found.insert(place.clone(), found);
            wanted = limits.stricter(found);
        }
        let before = self.limits.set.insert(place.clone(), wanted);
        if is == wanted {
            return Ok(());
        }
        if let Err(error) = tree::write(folder, LIMIT_FILE, &wanted.order(*number).text) {
            self.limits.set.remove(place);
            return Err(says(&error));
        }
        match before == Some(wanted) {
            true => Err(format!("{}: the limit on {number} is set again", folder.display())),
            false => Ok(()),
        }
    }

    /// Takes a limit away: what was found comes back.
    fn unlimit(&mut self, place: &Place) {
        let (folder, number) = place;
        self.limits.set.remove(place);
        let found = self.limits.found.remove(place);
        let text = found.unwrap_or_default().order(*number).text;
        let done = tree::write(folder, LIMIT_FILE, &text);
        let noted = match found {
            Some(_) if done.is_ok() => {
                self.record.note_limit_given_back(&folder.join(LIMIT_FILE), *number)
            }
            _ => Ok(()),
        };
        if let Err(error) = done.and(noted)
            && folder.is_dir()
        {
            self.tell_limit(format!("the limit of {} stays: {error}", folder.display()));
        }
    }

    fn is_our_folder(&self, folder: &std::path::Path) -> bool {
        folder.starts_with(&self.setting.top) || folder.starts_with(&self.setting.guests)
    }

    fn tell_limit(&mut self, what: String) {
        self.tell(Drift { process: None, what });
    }
}
