//! The CPU: `cpu.weight` of our cgroups, of those that are not ours, and of systemd's units; `cpu.idle` of the guests'.

mod foreign;

use super::controller::{Check, Context, Controller};
use crate::cgroups::Cgroups;
use crate::placement::{MAX_WEIGHT, Weights};
use crate::tree;
use enforcer::DriftLog;
use enforcer::Plan;
use enforcer::ResourceStatus;
use foreign::ForeignWeights;
use ledger::{CurrencyId, Resource};
use std::path::{Path, PathBuf};
use valuation::Graph;

/// Weights that are still to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Nothing,
    /// Weights of cgroups that are not ours: some may not be set as yet.
    Foreign,
    /// All weights: activity or tickets have changed since they were set.
    All,
}

/// Shares of the CPU by one plan.
#[derive(Debug)]
pub(crate) struct CpuController {
    /// CPUs that are shared out.
    seats: usize,
    graph: Option<Graph>,
    weights: Option<Weights>,
    foreign: ForeignWeights,
    pending: Pending,
}

impl CpuController {
    pub fn new(seats: usize) -> CpuController {
        let (foreign, pending) = (ForeignWeights::default(), Pending::Nothing);
        CpuController { seats, graph: None, weights: None, foreign, pending }
    }

    /// Finds out who competes.
    fn look(&mut self, context: &mut Context) {
        for client in &mut context.placement.clients {
            let competed = client.competes();
            client.presence = client.look(context.now_ns);
            let competes = client.competes();
            if competed != competes {
                self.pending = Pending::All;
                if let Some(graph) = &mut self.graph {
                    graph.set_active(client.id, competes);
                }
            }
        }
    }

    /// Values and promises anew.
    fn revalue(&mut self, context: &mut Context) {
        let Some(graph) = &mut self.graph else { return };
        let clients = &mut context.placement.clients;
        for client in clients.iter_mut() {
            client.value = if client.competes() { graph.value(client.id) } else { 0 };
        }
        let values: Vec<(u64, u64)> =
            clients.iter().map(|client| (client.id.0, client.value)).collect();
        let promised = policy::feasible::promised(&values, self.seats);
        for (client, (_, promised)) in clients.iter_mut().zip(promised) {
            client.promised = promised;
        }
    }

    fn weigh_ours(&mut self, context: &mut Context) {
        let Context { cgroups, placement, drift, .. } = context;
        let (Some(graph), Some(layout), Some(weights)) =
            (&mut self.graph, &placement.layout, &mut self.weights)
        else {
            return;
        };
        for (path, weight) in weights.changes(layout, graph) {
            let group = cgroups.top.join(path);
            let Some(set) = cgroups.ours.get_mut(&group) else { continue };
            if std::mem::replace(set, weight) == weight {
                continue;
            }
            // If that fails, the next check tells and tries again.
            if let Err(error) = tree::write(&group, "cpu.weight", &weight.to_string()) {
                drift.tell(format!("the weight of {} stays: {error}", group.display()));
            }
        }
    }
}

impl Controller for CpuController {
    fn plan(&mut self, plan: &Plan, _: &mut Context) {
        let mut graph = plan.cpu().clone();
        let was_active: Vec<CurrencyId> = graph.active_clients().collect();
        for id in was_active {
            graph.set_active(id, false);
        }
        self.graph = Some(graph);
    }

    fn lay_out(&mut self, context: &mut Context) {
        let (Some(graph), Some(layout)) = (&mut self.graph, &context.placement.layout) else {
            return;
        };
        for client in context.placement.clients.iter().filter(|client| client.competes()) {
            graph.set_active(client.id, true);
        }
        self.weights = Some(Weights::of(layout, graph, MAX_WEIGHT));
        self.pending = Pending::All;
    }

    fn tick(&mut self, context: &mut Context) {
        self.look(context);
        if self.pending == Pending::All {
            self.revalue(context);
            self.weigh_ours(context);
            self.pending = Pending::Foreign;
        }
        if self.pending == Pending::Foreign
            && let Some(graph) = &mut self.graph
            && self.foreign.weigh(graph, self.seats, context)
        {
            self.pending = Pending::Nothing;
        }
    }

    fn check(&mut self, check: &Check, context: &mut Context) {
        match check {
            Check::Client(checked) => {
                if checked.has_moved {
                    self.pending = Pending::All;
                }
                match &checked.leaf {
                    Some(_) if checked.is_leaf_gone => check_ours(context),
                    Some(leaf) => check_leaf(leaf, context),
                    None => {}
                }
            }
            Check::Everything => {
                check_ours(context);
                self.foreign.check(context);
            }
        }
    }

    fn status(&self) -> Vec<ResourceStatus> {
        let active = self.graph.iter().flat_map(Graph::active_clients).collect();
        let why = "cpu.weight and cpu.idle".to_owned();
        let by = Some("cgroup".to_owned());
        vec![ResourceStatus { resource: Resource::CPU, by, why, active }]
    }

    fn revert(&mut self, _: &mut Context) {
        *self = CpuController::new(self.seats);
    }

    fn kernel_controller(&self) -> Option<&'static str> {
        Some("cpu")
    }

    fn deciding_graphs(&self) -> Vec<&Graph> {
        self.graph.iter().collect()
    }
}

/// Checks the weights of all our cgroups, and that the guests' is idle.
fn check_ours(context: &mut Context) {
    let Context { cgroups, drift, .. } = context;
    for (path, weight) in &cgroups.ours {
        check_weight(path, *weight, drift);
    }
    if tree::read(&cgroups.guests, "cpu.idle").is_ok_and(|idle| idle != "1") {
        let _ = tree::write(&cgroups.guests, "cpu.idle", "1");
        drift.tell("the guests' cgroup was not idle any more; it is again");
    }
}

fn check_leaf(leaf: &PathBuf, context: &mut Context) {
    let cgroups: &Cgroups = context.cgroups;
    if let Some(weight) = cgroups.ours.get(leaf) {
        check_weight(leaf, *weight, context.drift);
    }
}

fn check_weight(group: &Path, weight: u32, drift: &mut DriftLog) {
    // 0 when the cgroup is idle.
    let Some(found) = tree::weight(group).filter(|found| *found != weight) else { return };
    let put = tree::write(group, "cpu.idle", "0")
        .and_then(|()| tree::write(group, "cpu.weight", &weight.to_string()));
    let group = group.display();
    drift.tell(match put {
        Ok(()) => format!("the weight of {group} was {found}; it is {weight} again"),
        Err(error) => format!("the weight of {group} is {found}, not {weight}: {error}"),
    });
}
