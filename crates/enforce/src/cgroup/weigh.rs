//! Weights set: in our own cgroups, on cgroups that are not ours, and on systemd's units.

use super::layout::portions;
use super::record::Found;
use super::state::{Set, State};
use super::systemd::{UNSET, unit_name, units_of};
use super::{CgroupOwner, tree};
use crate::Drift;
use std::collections::BTreeMap;
use std::path::Path;

/// On a CPU, all clients together weigh as much as so many ordinary threads that are nobody's
/// clients, and that are scheduled beside our cgroups.
const TOP_WEIGHT_A_CPU: u64 = 1000;
/// The weight of a cgroup that nobody gave one.
const DEFAULT_WEIGHT: u64 = 100;
/// A unit's, as systemd calls it.
const CPU_WEIGHT: &str = "CPUWeight";
/// systemd writes a file for each change: at most one a unit in this time.
pub(super) const UNIT_EVERY_NS: u64 = 1_000_000_000;
/// A foreign weight that is off by less than one in so many stays.
const CLOSE_ENOUGH: u32 = 50;

/// What stands below a foreign cgroup.
#[derive(Clone, Copy, Debug, Default)]
struct Worth {
    now: u64,
    sure: u64,
}

impl State {
    /// Brings all weights up to date with what clients are worth.
    pub(super) fn weigh(&mut self, now: u64) {
        if std::mem::take(&mut self.changed) {
            self.weigh_ours();
            self.foreign_due = true;
        }
        if self.foreign_due {
            self.foreign_due = !self.weigh_foreign(now);
        }
    }

    fn weigh_ours(&mut self) {
        let (Some(graph), Some(layout), Some(weights)) =
            (&mut self.graph, &self.layout, &mut self.weights)
        else {
            return;
        };
        let mut failed = Vec::new();
        for (path, weight) in weights.changes(layout, graph) {
            let group = self.setting.top.join(path);
            let Some(set) = self.ours.get_mut(&group) else { continue };
            if std::mem::replace(set, weight) == weight {
                continue;
            }
            // Where that fails, the next check tells and tries again.
            if let Err(error) = tree::write(&group, "cpu.weight", &weight.to_string()) {
                failed.push(format!("the weight of {} stays: {error}", group.display()));
            }
        }
        for what in failed {
            self.tell(Drift { process: None, what });
        }
    }

    /// What is worth something below each cgroup that is not ours.
    fn worths(&mut self) -> BTreeMap<String, Worth> {
        let mut worths: BTreeMap<String, Worth> = BTreeMap::new();
        let mount = self.setting.root.mount.clone();
        let Some(graph) = &mut self.graph else { return worths };
        let systemd = self.setting.root.owner == CgroupOwner::Systemd;
        let top = self.setting.top.strip_prefix(&mount).unwrap_or(&self.setting.top);
        let top = format!("/{}", top.display());
        for client in &self.clients {
            // Nobody can be a guest or frozen there: such a client has the least.
            let (now, sure) = match client.guest || client.to_freeze {
                true => (0, 0),
                false => (client.value, graph.guaranteed(client.id)),
            };
            let mut places = client.foreign();
            if client.has_leaf() {
                places.push(&top);
            }
            let count = places.len().max(1) as u64;
            for place in places {
                let around = if systemd { units_of(place) } else { cgroups_of(place) };
                for path in around {
                    let worth = worths.entry(path).or_default();
                    worth.now += now / count;
                    worth.sure += sure / count;
                }
            }
        }
        worths.retain(|path, _| tree::weight(&tree::folder(&mount, path)).is_some() || systemd);
        worths
    }

    /// False: some have to wait.
    fn weigh_foreign(&mut self, now: u64) -> bool {
        let is_foreign = |client: &super::client::Client| !client.foreign().is_empty();
        if self.foreign.len() == 1 && !self.clients.iter().any(is_foreign) {
            // The top alone: it stays as it is.
            return true;
        }
        let worths = self.worths();
        let mut siblings: BTreeMap<&str, Vec<(&String, Worth)>> = BTreeMap::new();
        for (path, worth) in &worths {
            let outer = path.rsplit_once('/').map_or("", |(outer, _)| outer);
            siblings.entry(outer).or_default().push((path, *worth));
        }
        let mut wanted: Vec<(String, u32)> = Vec::new();
        for (outer, members) in siblings {
            let systemd = self.manager.is_some();
            let total = if outer.is_empty() && !systemd {
                TOP_WEIGHT_A_CPU * self.setting.seats as u64
            } else {
                DEFAULT_WEIGHT * members.len() as u64
            };
            let awake = members.iter().any(|(_, worth)| worth.now > 0);
            let values: Vec<u64> = members
                .iter()
                .map(|(_, worth)| if awake { worth.now } else { worth.sure })
                .collect();
            let weights = portions(&values, total.min(u64::from(super::layout::MAX_WEIGHT)));
            let pairs = members.iter().zip(values).zip(weights);
            // Who sleeps needs no weight; what it had is right for when it wakes. Who is worth
            // nothing, awake or not, has the least.
            let pairs = pairs.filter(|(((_, worth), value), _)| *value > 0 || worth.sure == 0);
            wanted.extend(pairs.map(|(((path, _), _), weight)| ((*path).clone(), weight)));
        }
        wanted
            .iter()
            .fold(true, |done, (path, weight)| self.set_foreign(path, *weight, now) && done)
    }

    /// False: it has to wait.
    fn set_foreign(&mut self, path: &str, weight: u32, now: u64) -> bool {
        if let Some(set) = self.foreign.get(path) {
            let close = weight.abs_diff(set.weight) <= set.weight / CLOSE_ENOUGH;
            let soon = self.manager.is_some() && now.saturating_sub(set.at_ns) < UNIT_EVERY_NS;
            if close || soon {
                return close;
            }
        }
        let done = match &self.manager {
            Some(_) => self.set_unit(path, CPU_WEIGHT, u64::from(weight)),
            None => self.set_group(path, weight),
        };
        match done {
            Ok(()) => {
                self.foreign.insert(path.to_owned(), Set { weight, at_ns: now });
            }
            Err(why) => {
                // Not at each tick again.
                let weight = self.foreign.get(path).map_or(weight, |set| set.weight);
                let known = self.foreign.insert(path.to_owned(), Set { weight, at_ns: now });
                if known.is_none() {
                    let what = format!("the weight of {path} cannot be set: {why}");
                    self.tell(Drift { process: None, what });
                }
            }
        }
        true
    }

    /// Sets a number of the unit at this path, as systemd calls it, and notes before what it was.
    pub(super) fn set_unit(
        &mut self,
        path: &str,
        property: &str,
        value: u64,
    ) -> Result<(), String> {
        let Some(manager) = &self.manager else { return Ok(()) };
        let unit = unit_name(path);
        if !self.record.knows(&Found::unit_key(&unit, property)) {
            let found = manager.get(&unit, property).map_err(|error| error.to_string())?;
            let (unit, property) = (unit.clone(), property.to_owned());
            let found = Found::Unit { unit, property, value: found };
            self.record.note(&found).map_err(|error| error.to_string())?;
        }
        manager.set(&unit, property, value).map_err(|error| error.to_string())
    }

    fn set_group(&mut self, path: &str, weight: u32) -> Result<(), String> {
        let group = tree::folder(&self.setting.root.mount, path);
        if group != self.setting.top && !self.record.knows(&Found::weight_key(path)) {
            let found = tree::weight(&group).ok_or("it has no CPU controller")?;
            self.record
                .note(&Found::Weight { cgroup: path.to_owned(), weight: found })
                .map_err(|error| error.to_string())?;
        }
        tree::write(&group, "cpu.weight", &weight.to_string()).map_err(|error| error.to_string())
    }

    /// Looks whether foreign weights are as they were set, and puts them right.
    pub(super) fn check_foreign(&mut self) {
        let set: Vec<(String, u32)> =
            self.foreign.iter().map(|(path, set)| (path.clone(), set.weight)).collect();
        for (path, weight) in set {
            let found = match &self.manager {
                Some(manager) => match manager.get(&unit_name(&path), CPU_WEIGHT) {
                    Ok(UNSET) => Some(DEFAULT_WEIGHT),
                    Ok(found) => Some(found),
                    Err(error) => {
                        if error.is_gone() {
                            self.foreign.remove(&path);
                        }
                        None
                    }
                },
                None => tree::weight(&tree::folder(&self.setting.root.mount, &path)).map(u64::from),
            };
            if found.is_some_and(|found| found != u64::from(weight)) {
                let found = found.unwrap_or_default();
                let done = match &self.manager {
                    Some(_) => self.set_unit(&path, CPU_WEIGHT, u64::from(weight)),
                    None => self.set_group(&path, weight),
                };
                let what = match done {
                    Ok(()) => format!("the weight of {path} was {found}; it is {weight} again"),
                    Err(why) => format!("the weight of {path} is {found}, not {weight}: {why}"),
                };
                self.tell(Drift { process: None, what });
            }
        }
    }
}

/// A cgroup and those around it, outermost first, the root left out.
pub(super) fn cgroups_of(path: &str) -> Vec<String> {
    let mut all: Vec<String> = Path::new(path)
        .ancestors()
        .filter_map(Path::to_str)
        .filter(|path| *path != "/" && !path.is_empty())
        .map(str::to_owned)
        .collect();
    all.reverse();
    all
}
