//! Protections of cgroups: `memory.min` and `memory.low`, and `MemoryMin` and `MemoryLow` of systemd's units.

use super::super::controller::Context;
use crate::cgroups::Cgroups;
use crate::systemd::{UNIT_EVERY_NS, unit_name};
use crate::tree;
use ledger::CurrencyId;
use std::collections::BTreeMap;
use valuation::{Graph, WHOLE};

/// A cgroup's protection, in bytes, whole pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Protection {
    pub min_bytes: u64,
    pub low_bytes: u64,
}

impl Protection {
    /// Returns the greater of each.
    fn or_more(self, other: Protection) -> Protection {
        Protection {
            min_bytes: self.min_bytes.max(other.min_bytes),
            low_bytes: self.low_bytes.max(other.low_bytes),
        }
    }

    /// Returns an equal part for each of several cgroups.
    fn part(self, count: u64) -> Protection {
        Protection {
            min_bytes: pages(self.min_bytes.div_ceil(count)),
            low_bytes: pages(self.low_bytes.div_ceil(count)),
        }
    }

    /// Returns whether the difference is not worth a file of systemd's.
    fn is_close_to(self, wanted: Protection) -> bool {
        let close = |known: u64, wanted: u64| {
            known > 0 && wanted > 0 && known.abs_diff(wanted) <= (known / 64).max(1 << 20)
        };
        close(self.min_bytes, wanted.min_bytes) && close(self.low_bytes, wanted.low_bytes)
    }
}

/// The worth of memory tickets.
pub(super) struct Worth<'a> {
    pub graph: &'a mut Graph,
    /// Memory that there is to promise; `None`: all that was promised.
    pub most_bytes: Option<u64>,
}

impl Worth<'_> {
    /// Returns what a client's tickets protect, not rounded; nothing while they do not count.
    pub fn protection(&mut self, client: CurrencyId) -> Protection {
        let graph = &mut *self.graph;
        if !graph.is_active(client) {
            return Protection::default();
        }
        let promised = graph.memory_bytes(WHOLE);
        let (guaranteed, now) = (graph.guaranteed(client), graph.value(client));
        let min_bytes = within(graph.memory_bytes(guaranteed), promised, self.most_bytes);
        let low_bytes = within(graph.memory_bytes(now), promised, self.most_bytes).max(min_bytes);
        Protection { min_bytes, low_bytes }
    }
}

/// Protections that are set, by the cgroup's path.
#[derive(Debug, Default)]
pub(super) struct Protections {
    set: BTreeMap<String, Protection>,
    /// Protections of cgroups and units that are not ours, as they were found.
    found: BTreeMap<String, Protection>,
    /// When each was set last.
    set_at_ns: BTreeMap<String, u64>,
}

impl Protections {
    /// Brings all protections up to date. Returns false if some have to wait.
    pub fn set(&mut self, worth: &mut Worth, context: &mut Context) -> bool {
        let Context { cgroups, drift, now_ns, .. } = context;
        let mut wanted = wanted(worth, &context.placement.clients, cgroups);
        for path in self.set.keys() {
            wanted.entry(path.clone()).or_default();
        }
        let mut is_done = true;
        for (path, protection) in wanted {
            // What somebody else has promised is never less for ours.
            let found = self.found(&path, cgroups);
            let protection = protection.or_more(found);
            let known = self.set.get(&path).copied();
            if known.unwrap_or(found) == protection {
                continue;
            }
            if let (Some(known), Some(_)) = (known, &cgroups.systemd) {
                if known.is_close_to(protection) {
                    continue;
                }
                let is_soon = |at_ns: &u64| now_ns.saturating_sub(*at_ns) < UNIT_EVERY_NS;
                if self.set_at_ns.get(&path).is_some_and(is_soon) {
                    is_done = false;
                    continue;
                }
            }
            if let Err(what) = write(&path, protection, cgroups) {
                drift.tell(what);
            }
            // Half of it may be set: the next look tries again.
            self.set_at_ns.insert(path.clone(), *now_ns);
            match protection == found {
                true => self.set.remove(&path),
                false => self.set.insert(path, protection),
            };
        }
        is_done
    }

    /// Returns the protection that a cgroup or unit that is not ours had at the first look.
    fn found(&mut self, path: &str, cgroups: &Cgroups) -> Protection {
        if cgroups.is_ours(path) {
            return Protection::default();
        }
        if let Some(found) = self.found.get(path) {
            return *found;
        }
        let group = cgroups.folder(path);
        let number = |file: &str, property: &str| match &cgroups.systemd {
            Some(manager) => manager.get(&unit_name(path), property).unwrap_or(0),
            // Without limit is more than anybody has.
            None => tree::read(&group, file).map_or(0, |text| text.parse().unwrap_or(u64::MAX)),
        };
        let (min_bytes, low_bytes) =
            (number("memory.min", "MemoryMin"), number("memory.low", "MemoryLow"));
        let found = Protection { min_bytes, low_bytes };
        self.found.insert(path.to_owned(), found);
        found
    }

    /// Checks whether cgroups are protected as they were set, and puts right what is not.
    pub fn check(&self, context: &mut Context) {
        let Context { cgroups, drift, .. } = context;
        for (path, protection) in &self.set {
            let group = cgroups.folder(path);
            let number = |file: &str| tree::read(&group, file).ok()?.parse::<u64>().ok();
            let (Some(min_bytes), Some(low_bytes)) = (number("memory.min"), number("memory.low"))
            else {
                // Gone, or without limit, which nobody wants less of.
                continue;
            };
            if *protection == (Protection { min_bytes, low_bytes }) {
                continue;
            }
            drift.tell(match write(path, *protection, cgroups) {
                Ok(()) => format!(
                    "the share of memory of {path} was {min_bytes}; it is {} again",
                    protection.min_bytes
                ),
                Err(why) => why,
            });
        }
    }
}

/// Adds up the protection that every cgroup is to have (rule 2).
fn wanted(
    worth: &mut Worth,
    clients: &[crate::placement::Client],
    cgroups: &Cgroups,
) -> BTreeMap<String, Protection> {
    let mut wanted: BTreeMap<String, Protection> = BTreeMap::new();
    for client in clients {
        let protection = worth.protection(client.id);
        if protection.low_bytes == 0 {
            continue;
        }
        let mut places: Vec<String> = client.foreign().into_iter().map(str::to_owned).collect();
        places.extend(client.leaf.as_deref().map(|leaf| cgroups.path_of(leaf)));
        let part = protection.part(places.len().max(1) as u64);
        for path in places.iter().flat_map(|place| cgroups.around(place)) {
            let has = wanted.entry(path).or_default();
            has.min_bytes += part.min_bytes;
            has.low_bytes += part.low_bytes;
        }
    }
    wanted
}

/// Sets a protection. A cgroup that is gone needs nothing.
///
/// # Errors
/// In words.
fn write(path: &str, protection: Protection, cgroups: &mut Cgroups) -> Result<(), String> {
    let Protection { min_bytes, low_bytes } = protection;
    if !cgroups.folder(path).is_dir() {
        return Ok(());
    }
    for (file, property, bytes) in
        [("memory.min", "MemoryMin", min_bytes), ("memory.low", "MemoryLow", low_bytes)]
    {
        let text = if bytes == u64::MAX { "max".to_owned() } else { bytes.to_string() };
        let done = match &cgroups.systemd {
            Some(_) => cgroups.set_unit(path, property, bytes),
            None => cgroups.set_file(path, file, &text, |found| found),
        };
        done.map_err(|why| format!("the share of memory of {path} cannot be set: {why}"))?;
    }
    Ok(())
}

/// Returns a part of what was promised. If there is less by now, all parts are less in the same proportion.
fn within(bytes: u64, promised: u64, most: Option<u64>) -> u64 {
    match most.filter(|most| *most < promised) {
        Some(most) => {
            let part = u128::from(bytes) * u128::from(most) / u128::from(promised);
            u64::try_from(part).expect("less than there is")
        }
        None => bytes,
    }
}

/// Rounds up to whole pages.
pub(super) fn pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(rustix::param::page_size() as u64)
}
