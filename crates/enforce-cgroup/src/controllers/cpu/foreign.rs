//! CPU weights of cgroups that are not ours, of our top beside them, and of systemd's units.

use super::super::controller::Context;
use crate::cgroups::Cgroups;
use crate::placement::{MAX_WEIGHT, portions};
use crate::systemd::{UNIT_EVERY_NS, UNSET, unit_name};
use crate::tree;
use std::collections::BTreeMap;
use valuation::Graph;

/// The weight of all clients together on a CPU, as many times that of an ordinary thread that is nobody's client and
/// is scheduled beside our cgroups.
const TOP_WEIGHT_A_CPU: u64 = 1000;
/// The weight of a cgroup that nobody gave one.
const DEFAULT_WEIGHT: u64 = 100;
/// The weight of a unit, by systemd's name of it.
const CPU_WEIGHT: &str = "CPUWeight";
/// A foreign weight that is off by less than one part in this many stays.
const CLOSE_ENOUGH: u32 = 50;

/// A weight that is set.
#[derive(Clone, Copy, Debug)]
struct SetWeight {
    weight: u32,
    /// When, on the monotonic clock.
    at_ns: u64,
}

/// The worth of the clients below a foreign cgroup.
#[derive(Clone, Copy, Debug, Default)]
struct Worth {
    now: u64,
    guaranteed: u64,
}

/// Weights that are set, by path.
#[derive(Debug, Default)]
pub(super) struct ForeignWeights {
    set: BTreeMap<String, SetWeight>,
}

impl ForeignWeights {
    /// Brings the weights up to date with what clients are worth. Returns false if some have to wait.
    pub fn weigh(&mut self, graph: &mut Graph, seats: usize, context: &mut Context) -> bool {
        if context.cgroups.scope.is_some() {
            // What is around our scope is the user's manager's.
            return true;
        }
        let mut clients = context.placement.clients.iter();
        if self.set.len() == 1 && !clients.any(|client| !client.foreign().is_empty()) {
            // The top alone: it stays as it is.
            return true;
        }
        let worths = worths(graph, context);
        let wanted = wanted(&worths, seats, context.cgroups.systemd.is_some());
        wanted.iter().fold(true, |done, (path, weight)| self.set(path, *weight, context) && done)
    }

    /// Sets a weight that is not close to what it should be. Returns false if it has to wait.
    fn set(&mut self, path: &str, weight: u32, context: &mut Context) -> bool {
        let now_ns = context.now_ns;
        let has_systemd = context.cgroups.systemd.is_some();
        if let Some(set) = self.set.get(path) {
            let close = weight.abs_diff(set.weight) <= set.weight / CLOSE_ENOUGH;
            let soon = has_systemd && now_ns.saturating_sub(set.at_ns) < UNIT_EVERY_NS;
            if close || soon {
                return close;
            }
        }
        match write(path, weight, context.cgroups) {
            Ok(()) => {
                self.set.insert(path.to_owned(), SetWeight { weight, at_ns: now_ns });
            }
            Err(why) => {
                // Not at each tick again.
                let weight = self.set.get(path).map_or(weight, |set| set.weight);
                let known = self.set.insert(path.to_owned(), SetWeight { weight, at_ns: now_ns });
                if known.is_none() {
                    context.drift.tell(format!("the weight of {path} cannot be set: {why}"));
                }
            }
        }
        true
    }

    /// Checks whether weights are as they were set, and puts them right.
    pub fn check(&mut self, context: &mut Context) {
        let Context { cgroups, drift, .. } = context;
        let mut gone = Vec::new();
        for (path, SetWeight { weight, .. }) in &self.set {
            let found = match &cgroups.systemd {
                Some(manager) => match manager.get(&unit_name(path), CPU_WEIGHT) {
                    Ok(UNSET) => Some(DEFAULT_WEIGHT),
                    Ok(found) => Some(found),
                    Err(error) => {
                        if error.is_gone() {
                            gone.push(path.clone());
                        }
                        None
                    }
                },
                None => tree::weight(&cgroups.folder(path)).map(u64::from),
            };
            let Some(found) = found.filter(|found| *found != u64::from(*weight)) else { continue };
            drift.tell(match write(path, *weight, cgroups) {
                Ok(()) => format!("the weight of {path} was {found}; it is {weight} again"),
                Err(why) => format!("the weight of {path} is {found}, not {weight}: {why}"),
            });
        }
        for path in gone {
            self.set.remove(&path);
        }
    }
}

fn write(path: &str, weight: u32, cgroups: &mut Cgroups) -> Result<(), String> {
    match &cgroups.systemd {
        Some(_) => cgroups.set_unit(path, CPU_WEIGHT, u64::from(weight)),
        None => cgroups.set_weight(path, weight),
    }
}

/// Adds up the worth of clients below each cgroup that is not ours.
fn worths(graph: &mut Graph, context: &Context) -> BTreeMap<String, Worth> {
    let mut worths: BTreeMap<String, Worth> = BTreeMap::new();
    let cgroups: &Cgroups = context.cgroups;
    let top = cgroups.path_of(&cgroups.top);
    for client in &context.placement.clients {
        // In a foreign cgroup nobody can be a guest or frozen: such a client has the least.
        let (now, guaranteed) = match client.is_guest || client.is_to_freeze {
            true => (0, 0),
            false => (client.value, graph.guaranteed(client.id)),
        };
        let mut places = client.foreign();
        if client.has_leaf() {
            places.push(&top);
        }
        let count = places.len().max(1) as u64;
        for path in places.into_iter().flat_map(|place| cgroups.around(place)) {
            let worth = worths.entry(path).or_default();
            worth.now += now / count;
            worth.guaranteed += guaranteed / count;
        }
    }
    let has_systemd = cgroups.systemd.is_some();
    worths.retain(|path, _| has_systemd || tree::weight(&cgroups.folder(path)).is_some());
    worths
}

/// Returns the weights that cgroups should have, each by its worth among its siblings.
fn wanted(worths: &BTreeMap<String, Worth>, seats: usize, has_systemd: bool) -> Vec<(String, u32)> {
    let mut siblings: BTreeMap<&str, Vec<(&String, Worth)>> = BTreeMap::new();
    for (path, worth) in worths {
        let outer = path.rsplit_once('/').map_or("", |(outer, _)| outer);
        siblings.entry(outer).or_default().push((path, *worth));
    }
    let mut wanted = Vec::new();
    for (outer, members) in siblings {
        let total = if outer.is_empty() && !has_systemd {
            TOP_WEIGHT_A_CPU * seats as u64
        } else {
            DEFAULT_WEIGHT * members.len() as u64
        };
        let awake = members.iter().any(|(_, worth)| worth.now > 0);
        let values: Vec<u64> = members
            .iter()
            .map(|(_, worth)| if awake { worth.now } else { worth.guaranteed })
            .collect();
        let weights = portions(&values, total.min(u64::from(MAX_WEIGHT)));
        let pairs = members.iter().zip(values).zip(weights);
        // A sleeper needs no new weight: its last one is right for when it wakes. A cgroup that is worth nothing, awake
        // or not, has the least.
        let pairs = pairs.filter(|(((_, worth), value), _)| *value > 0 || worth.guaranteed == 0);
        wanted.extend(pairs.map(|(((path, _), _), weight)| ((*path).clone(), weight)));
    }
    wanted
}
