//! One disk: whether it is prepared, who asks it for something, and the weights on it.

use super::super::controller::Context;
use super::foreign::foreign_weights;
use crate::cgroups::Cgroups;
use crate::placement::{Layout, Weights};
use crate::tree;
use disk::{DeviceNumber, FileWrite, IoController, PreparedDisk, read_usage};
use enforcer::ResourceStatus;
use ledger::{CurrencyId, Resource};
use std::collections::BTreeMap;
use std::path::PathBuf;
use valuation::Graph;

/// Interval between tries of a disk that cannot be shared.
pub(super) const RETRY_NS: u64 = 10_000_000_000;
/// A client that asked for something within this time competes for a disk.
const ACTIVE_NS: u64 = 1_000_000_000;
/// Interval between checks for drift.
const LOOK_NS: u64 = 1_000_000_000;
/// The weight of all clients together, ten times what a cgroup has that nobody gave a weight.
const TOP_WEIGHT: u32 = 1000;

/// Whether a disk's weights are enforced.
#[derive(Debug)]
pub(super) enum DiskState {
    Prepared(Box<PreparedDisk>),
    Refused { why: String, retry_ns: u64 },
}

/// Weights that are still to be set.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    /// Weights that changed, at the next tick.
    changes: bool,
    /// All weights, at the next look: some could not be set, or are lost.
    all: bool,
}

/// Shares of one disk by one plan.
#[derive(Debug)]
pub(super) struct SharedDisk {
    /// The name that its tickets give it.
    pub name: String,
    pub graph: Graph,
    pub state: DiskState,
    weights: Option<Weights>,
    pending: Pending,
    /// Weights that are set, by the cgroup's path.
    set: BTreeMap<String, u32>,
    /// Requests of each client when they were last counted, and when they last were more.
    seen: BTreeMap<CurrencyId, (u64, u64)>,
    seen_ns: u64,
    looked_ns: u64,
    /// Why some weight could not be set, as told last.
    trouble: Option<String>,
}

impl SharedDisk {
    pub fn new(name: String, graph: Graph, now_ns: u64) -> SharedDisk {
        SharedDisk {
            name,
            graph,
            state: DiskState::Refused { why: "not tried yet".to_owned(), retry_ns: 0 },
            weights: None,
            pending: Pending { changes: true, all: false },
            set: BTreeMap::new(),
            seen: BTreeMap::new(),
            seen_ns: 0,
            looked_ns: now_ns,
            trouble: None,
        }
    }

    /// Takes the graph of a new plan. Its clients are as active as they were.
    pub fn following(mut self, mut graph: Graph) -> SharedDisk {
        for client in self.graph.active_clients() {
            graph.set_active(client, true);
        }
        self.graph = graph;
        self
    }

    pub fn set_state(&mut self, state: DiskState) {
        self.state = state;
        self.pending.changes = true;
    }

    /// Returns the device, and how its weights are enforced, if it is prepared.
    pub fn device(&self) -> Option<(IoController, DeviceNumber)> {
        match &self.state {
            DiskState::Prepared(disk) => Some((*disk.controller(), disk.found().number)),
            DiskState::Refused { .. } => None,
        }
    }

    /// Tells how it is enforced, or why not.
    pub fn status(&self) -> ResourceStatus {
        let (by, why) = match &self.state {
            DiskState::Prepared(disk) => {
                let (name, carrier) = (&self.name, &disk.found().name);
                let why = match carrier == name {
                    true => format!("{name} is prepared for it"),
                    false => format!("{carrier} carries the requests of {name}"),
                };
                (Some(disk.controller().name()), why)
            }
            DiskState::Refused { why, .. } => (None, why.clone()),
        };
        let resource = Resource::disk(self.name.as_str());
        let (by, active) = (by.map(str::to_owned), self.graph.active_clients().collect());
        ResourceStatus { resource, by, why, active }
    }

    /// Derives the weights for a tree, all of which are to be set.
    pub fn lay_out(&mut self, layout: Option<&Layout>) {
        let most = self.device().map_or(1, |(controller, _)| *controller.weights().end());
        self.weights = layout.map(|layout| Weights::of(layout, &self.graph, most));
        self.pending.changes = true;
    }

    /// Returns whether it is time to check for drift.
    pub fn is_look_due(&mut self, now_ns: u64) -> bool {
        let is_due = now_ns.saturating_sub(self.looked_ns) >= LOOK_NS;
        if is_due {
            self.looked_ns = now_ns;
        }
        is_due
    }

    /// Gives a prepared disk back that is gone, or that somebody else has changed. Returns whether that was so.
    pub fn lose_if_changed(&mut self, context: &mut Context) -> bool {
        let DiskState::Prepared(prepared) = &self.state else { return false };
        let drift = prepared.drift();
        let gone = !prepared.is_there();
        if !gone && drift.is_empty() {
            return false;
        }
        let name = &self.name;
        let why = if gone { format!("{name} is gone") } else { drift.join("; ") };
        context.drift.tell(format!("tickets of {name} have no effect for a while: {why}"));
        let refused = DiskState::Refused { why, retry_ns: context.now_ns + RETRY_NS };
        let before = std::mem::replace(&mut self.state, refused);
        self.set.clear();
        if let DiskState::Prepared(prepared) = before {
            prepared.give_back();
        }
        true
    }

    /// Has all weights set anew if some are not set.
    pub fn renew_weights(&mut self, layout: Option<&Layout>) {
        let is_due = self.set.is_empty() || self.pending.all;
        if layout.is_some() && self.device().is_some() && is_due {
            self.pending.all = false;
            self.lay_out(layout);
        }
    }

    /// Forgets the weight of a cgroup that is gone, or was made anew.
    pub fn forget_weight(&mut self, path: &str) {
        self.pending.all |= self.set.remove(path).is_some();
    }

    /// Finds out who competes, and brings the weights up to date with that.
    pub fn follow_activity(&mut self, context: &mut Context) {
        let (Some(layout), Some(weights)) = (&context.placement.layout, &self.weights) else {
            return;
        };
        let Some((_, number)) = self.device() else { return };
        // Weights that are stable do not depend on activity, but it is told to those who ask us.
        let is_due = context.now_ns.saturating_sub(self.seen_ns) >= LOOK_NS;
        if !weights.are_stable(layout) || is_due {
            self.see_who_asks(number, context);
        }
        if std::mem::take(&mut self.pending.changes) {
            self.set_weights(context);
        }
    }

    fn see_who_asks(&mut self, number: DeviceNumber, context: &Context) {
        let (placement, now_ns) = (&context.placement, context.now_ns);
        self.seen_ns = now_ns;
        self.seen.retain(|id, _| placement.client(*id).is_some());
        for client in &placement.clients {
            let foreign = client.foreign();
            let folders = foreign.into_iter().map(|path| context.cgroups.folder(path));
            let folders: Vec<PathBuf> = folders.chain(client.leaf.clone()).collect();
            let requests = folders
                .iter()
                .filter_map(|folder| Some(read_usage(folder).ok()?.get(&number)?.requests()))
                .sum();
            let (before, since) = self.seen.entry(client.id).or_insert((requests, 0));
            if *before != requests {
                (*before, *since) = (requests, now_ns);
            }
            let is_active = *since > 0 && now_ns.saturating_sub(*since) < ACTIVE_NS;
            self.pending.changes |= self.graph.set_active(client.id, is_active);
        }
    }

    /// Sets the weights that changed.
    pub fn set_weights(&mut self, context: &mut Context) {
        let Some((controller, number)) = self.device() else { return };
        let Some(wanted) = self.wanted(controller, context) else { return };
        let Context { cgroups, drift, .. } = context;
        let mut trouble = None;
        for (path, weight) in wanted {
            if self.set.get(&path) == Some(&weight) || !cgroups.folder(&path).is_dir() {
                continue;
            }
            match write(&path, controller, number, weight, cgroups) {
                Ok(()) => drop(self.set.insert(path, weight)),
                Err(why) => trouble = Some((path, why)),
            }
        }
        self.pending.all |= trouble.is_some();
        let why = trouble.as_ref().map(|(_, why)| why.clone());
        let is_new = why.is_some() && self.trouble != why;
        self.trouble = why;
        if let Some((path, why)) = trouble.filter(|_| is_new) {
            drift.tell(format!("the weight of {path} on {} cannot be set: {why}", self.name));
        }
    }

    /// Returns the weights that changed, by the cgroup's path.
    fn wanted(
        &mut self,
        controller: IoController,
        context: &Context,
    ) -> Option<BTreeMap<String, u32>> {
        let cgroups: &Cgroups = context.cgroups;
        let layout = context.placement.layout.as_ref()?;
        let changes = self.weights.as_mut()?.changes(layout, &mut self.graph);
        let mut wanted: BTreeMap<String, u32> = changes
            .into_iter()
            .map(|(path, weight)| (cgroups.path_of(&cgroups.top.join(path)), weight))
            .collect();
        wanted.insert(cgroups.path_of(&cgroups.guests), 1);
        let clients = &context.placement.clients;
        for (path, weight) in foreign_weights(&mut self.graph, controller, clients, cgroups) {
            wanted.entry(path).or_insert(weight);
        }
        wanted.entry(cgroups.path_of(&cgroups.top)).or_insert(TOP_WEIGHT);
        Some(wanted)
    }

    /// Gives the disk back, and takes the weights on it away.
    pub fn release(self, context: &mut Context) {
        let SharedDisk { name, state, set, .. } = self;
        let Context { cgroups, drift, .. } = context;
        let DiskState::Prepared(prepared) = state else { return };
        if prepared.is_there() && cgroups.systemd.is_none() {
            let (controller, number) = (*prepared.controller(), prepared.found().number);
            for path in set.keys() {
                let group = cgroups.folder(path);
                // What is on record is set back at the end.
                if !cgroups.knows_file(&group.join(controller.weight_file())) {
                    let FileWrite { file, text } = controller.unweigh(number);
                    let _ = tree::write(&group, file, &text);
                }
            }
        }
        let carrier = prepared.found().name.clone();
        let given = prepared.give_back();
        if given.failed.is_empty()
            && let Err(error) = cgroups.note_disk_given_back(&carrier)
        {
            tracing::warn!(%error, "it cannot be noted that {carrier} was given back");
        }
        for what in given.left.into_iter().chain(given.failed) {
            drift.tell(format!("{name}: {what}"));
        }
    }
}

/// Sets the weight of a cgroup, or unit, on a device.
fn write(
    path: &str,
    controller: IoController,
    number: DeviceNumber,
    weight: u32,
    cgroups: &mut Cgroups,
) -> Result<(), String> {
    if cgroups.systemd.is_some() {
        return cgroups.set_unit_disk_weight(path, number, weight);
    }
    let FileWrite { file, text } = controller.weigh(number, weight);
    cgroups.set_file(path, file, &text, |found| controller.reweigh(number, &found).text)
}
