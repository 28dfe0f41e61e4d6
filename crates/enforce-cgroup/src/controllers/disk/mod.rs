//! Shares of disks: weights of our cgroups, and of those that are not ours, on each disk of which anybody has tickets.
//!
//! 1. A disk is **prepared** when the first tickets of it are planned, and given back when there are none any more
//!    ([`disk`]). A disk that vanishes, that cannot be prepared, or that somebody else changes, is told, and tried again
//!    after [`RETRY_NS`].
//! 2. Weights are as the CPU's ([`crate::placement::Weights`]): if they depend on activity, a client that asked for
//!    something within the last second is active. That is looked up, per client, at each period.
//! 3. Beside cgroups without clients, all clients together weigh ten times what a cgroup without a weight has, the guests
//!    1; where clients live in cgroups of others, each cgroup weighs among its siblings what the clients in it are worth.

mod foreign;
mod shared;

use super::controller::{Context, Controller};
use crate::cgroups::Cgroups;
use disk::{DeviceNumber, IoController, KeptDisks, Places, PreparedDisk, look, prepare};
use enforcer::Plan;
use enforcer::ResourceStatus;
use shared::{DiskState, RETRY_NS, SharedDisk};
use std::collections::BTreeMap;
use std::path::PathBuf;
use valuation::Graph;

/// How shares of disks are kept.
#[derive(Clone, Debug, Default)]
pub struct DiskOptions {
    /// The file of measured speeds of disks ([`KeptDisks`]); read anew for each disk.
    pub file: Option<PathBuf>,
}

/// Shares of all disks by one plan.
#[derive(Debug)]
pub(crate) struct DiskController {
    options: DiskOptions,
    /// In order of name.
    disks: Vec<SharedDisk>,
    /// Some disk has been shared since the last revert.
    has_shared: bool,
}

impl DiskController {
    pub fn new(options: DiskOptions) -> DiskController {
        DiskController { options, disks: Vec::new(), has_shared: false }
    }

    /// Tries a disk that is not prepared, if it is time.
    fn hold(&mut self, index: usize, context: &mut Context) {
        let DiskState::Refused { why: before, retry_ns } = &self.disks[index].state else { return };
        if context.now_ns < *retry_ns {
            return;
        }
        let (name, before) = (self.disks[index].name.clone(), before.clone());
        let state = match self.prepare(&name, context.cgroups) {
            Ok(prepared) => {
                tracing::info!("{name}: shared by {}", prepared.controller().name());
                self.has_shared = true;
                DiskState::Prepared(Box::new(prepared))
            }
            Err(why) => {
                if why != before {
                    context.drift.tell(format!("tickets of {name} have no effect: {why}"));
                }
                DiskState::Refused { why, retry_ns: context.now_ns + RETRY_NS }
            }
        };
        self.disks[index].set_state(state);
    }

    fn prepare(&self, name: &str, cgroups: &mut Cgroups) -> Result<PreparedDisk, String> {
        let facts = look(name).map_err(|error| error.to_string())?;
        if !facts.controllers.0 {
            return Err("the root of the cgroup tree offers no io controller".to_owned());
        }
        let kept = match &self.options.file {
            Some(file) => KeptDisks::load(file).map_err(|error| error.to_string())?,
            None => KeptDisks::default(),
        };
        let speed = kept.get(&facts).map(|kept| &kept.speed);
        let controller = IoController::choose(&facts, speed).map_err(|error| error.to_string())?;
        if let Some(other) = self.carrier_of_another(name, facts.number) {
            return Err(format!("{} carries its requests, as it does {other}'s", facts.name));
        }
        prepare(&Places::of_this_machine(), &facts, controller, cgroups.disk_notes())
            .map_err(|error| error.to_string())
    }

    /// Returns the other name under which a device is shared.
    fn carrier_of_another(&self, name: &str, number: DeviceNumber) -> Option<&str> {
        let is_it = |disk: &&SharedDisk| {
            disk.name != name && disk.device().is_some_and(|(_, taken)| taken == number)
        };
        self.disks.iter().find(is_it).map(|disk| disk.name.as_str())
    }

    /// Checks, once a second, that a disk is there and as it was prepared.
    fn check_disk(&mut self, index: usize, context: &mut Context) {
        let disk = &mut self.disks[index];
        if !disk.is_look_due(context.now_ns) {
            return;
        }
        if disk.device().is_some() && !disk.lose_if_changed(context) {
            return disk.renew_weights(context.placement.layout.as_ref());
        }
        self.hold(index, context);
        self.disks[index].renew_weights(context.placement.layout.as_ref());
    }

    /// Forgets weights on cgroups that were made or removed meanwhile.
    fn forget_renewed(&mut self, cgroups: &mut Cgroups) {
        for group in cgroups.take_renewed() {
            let path = cgroups.path_of(&group);
            self.disks.iter_mut().for_each(|disk| disk.forget_weight(&path));
        }
    }
}

impl Controller for DiskController {
    /// Takes the plan's disk tickets: prepares disks that are new, gives back those of which nobody has tickets any
    /// more.
    fn plan(&mut self, plan: &Plan, context: &mut Context) {
        self.forget_renewed(context.cgroups);
        let mut known: BTreeMap<String, SharedDisk> = std::mem::take(&mut self.disks)
            .into_iter()
            .map(|disk| (disk.name.clone(), disk))
            .collect();
        for graph in plan.graphs.values() {
            let Some(name) = graph.resource().disk_name() else { continue };
            let disk = match known.remove(name) {
                Some(disk) => disk.following(graph.clone()),
                None => SharedDisk::new(name.to_owned(), graph.clone(), context.now_ns),
            };
            self.disks.push(disk);
        }
        for disk in known.into_values() {
            disk.release(context);
        }
        for index in 0..self.disks.len() {
            self.hold(index, context);
        }
    }

    /// Gives cgroups their weights before anybody is there: BFQ has processes that are at work while its weight changes
    /// wait for seconds.
    fn lay_out(&mut self, context: &mut Context) {
        if self.disks.is_empty() {
            return;
        }
        for disk in &mut self.disks {
            disk.lay_out(context.placement.layout.as_ref());
        }
        context.placement.make_leaves(context.cgroups);
        self.forget_renewed(context.cgroups);
        for disk in &mut self.disks {
            disk.set_weights(context);
        }
    }

    fn tick(&mut self, context: &mut Context) {
        self.forget_renewed(context.cgroups);
        for index in 0..self.disks.len() {
            self.check_disk(index, context);
            self.disks[index].follow_activity(context);
        }
    }

    fn status(&self) -> Vec<ResourceStatus> {
        self.disks.iter().map(SharedDisk::status).collect()
    }

    /// Gives all disks back. Our cgroups go, and weights of others are on record.
    fn revert(&mut self, context: &mut Context) {
        for disk in std::mem::take(&mut self.disks) {
            disk.release(context);
        }
        self.has_shared = false;
    }

    fn kernel_controller(&self) -> Option<&'static str> {
        self.has_shared.then_some("io")
    }

    fn deciding_graphs(&self) -> Vec<&Graph> {
        self.disks.iter().map(|disk| &disk.graph).collect()
    }
}
