//! Shares of memory: `memory.min` and `memory.low` of our cgroups, and of those that are not ours.
//!
//! 1. A client's `memory.min` is what its tickets are worth when all compete; the kernel takes that from nobody (paper 1,
//!    5.4: pages "owned by clients who have not exceeded their memory share are also not reclaimed"). Its `memory.low`
//!    is what they are worth now, when others are idle: the kernel takes of that only what nobody else has.
//! 2. A cgroup has what those below it have together, because the kernel gives a child no more than its parent has. A
//!    client in several cgroups has an equal part in each.
//! 3. A client that has been idle for long ([`policy::idle`]) has neither, and its tickets count for nobody.
//! 4. A share is no limit: nothing is taken from anybody while there is enough. When there is not, a policy chooses who
//!    loses ([`reclaim`]); without one the kernel does, in proportion to what each holds above its protection.

mod losers;
mod options;
mod protection;

pub use options::MemoryOptions;

use super::controller::{Check, Context, Controller};
use crate::tree;
use enforcer::Plan;
use enforcer::ResourceStatus;
use ledger::{CurrencyId, Resource};
use losers::Losers;
use policy::idle::Idle;
use protection::{Protections, Worth};
use std::collections::BTreeMap;
use std::path::Path;
use valuation::Graph;

/// Interval between looks at who is idle, and at what is set.
const LOOK_NS: u64 = 1_000_000_000;

/// Shares of memory, if anybody has tickets of it.
pub(crate) struct MemoryController {
    options: MemoryOptions,
    shares: Option<MemoryShares>,
    /// The kernel's lack of a memory controller was told.
    has_told_refusal: bool,
    /// The thread of a plan that was reverted: it may be taking memory at this moment.
    ending: Option<Losers>,
}

/// Shares of memory by one plan.
struct MemoryShares {
    graph: Graph,
    idle: BTreeMap<CurrencyId, Idle>,
    looked_ns: Option<u64>,
    /// Anybody has tickets; else nobody is protected.
    is_planned: bool,
    protections: Protections,
    /// Protections are not set as they should be.
    is_due: bool,
    losers: Losers,
}

impl MemoryController {
    pub fn new(options: MemoryOptions) -> MemoryController {
        MemoryController { options, shares: None, has_told_refusal: false, ending: None }
    }
}

impl Controller for MemoryController {
    /// Takes the plan's memory tickets, if anybody has any, or ever had.
    fn plan(&mut self, plan: &Plan, context: &mut Context) {
        let planned = plan.graph(&Resource::MEMORY);
        let known = self.shares.take();
        if planned.is_some() && !offers_memory(context.cgroups.tree.mount()) {
            if !std::mem::replace(&mut self.has_told_refusal, true) {
                let why = "the root of the cgroup tree offers no memory controller";
                context.drift.tell(format!("memory tickets have no effect: {why}"));
            }
            return;
        }
        let graph = planned.cloned().or_else(|| known.as_ref().map(|it| it.graph.clone()));
        let Some(graph) = graph else { return };
        let mut shares = known.unwrap_or_else(|| MemoryShares {
            graph: graph.clone(),
            idle: BTreeMap::new(),
            looked_ns: None,
            is_planned: true,
            protections: Protections::default(),
            is_due: true,
            losers: Losers::default(),
        });
        shares.follow(graph, planned.is_some(), plan, &self.options);
        tracing::debug!(clients = plan.clients.len(), "shares of memory are planned");
        self.shares = Some(shares);
    }

    fn tick(&mut self, context: &mut Context) {
        let Some(shares) = &mut self.shares else { return };
        let is_look =
            shares.looked_ns.is_none_or(|at| context.now_ns.saturating_sub(at) >= LOOK_NS);
        if is_look {
            shares.look(context);
        }
        if std::mem::take(&mut shares.is_due) {
            shares.set(&self.options, context);
        } else if is_look {
            shares.protections.check(context);
        }
    }

    fn check(&mut self, check: &Check, context: &mut Context) {
        if let (Check::Everything, Some(shares)) = (check, &mut self.shares) {
            shares.protections.check(context);
        }
    }

    fn status(&self) -> Vec<ResourceStatus> {
        let of_shares = |shares: &MemoryShares| ResourceStatus {
            resource: Resource::MEMORY,
            by: Some("cgroup".to_owned()),
            why: shares.losers.describe(),
            active: shares.graph.active_clients().collect(),
        };
        self.shares.iter().map(of_shares).collect()
    }

    /// Files are on record, or go with our cgroups.
    fn revert(&mut self, _: &mut Context) {
        self.ending = self.shares.take().map(|shares| shares.losers);
    }

    fn join(&mut self) {
        self.ending = None;
    }

    fn kernel_controller(&self) -> Option<&'static str> {
        self.shares.as_ref().map(|_| "memory")
    }
}

impl MemoryShares {
    fn follow(&mut self, graph: Graph, is_planned: bool, plan: &Plan, options: &MemoryOptions) {
        self.graph = graph;
        let is_client =
            |id: &CurrencyId| plan.clients.binary_search_by_key(id, |client| client.id).is_ok();
        self.idle.retain(|id, _| is_client(id));
        for client in &plan.clients {
            let idle = self.idle.entry(client.id).or_insert_with(|| Idle::new(options.idle));
            // Where nobody has tickets any more, nobody's count.
            self.graph.set_active(client.id, is_planned && idle.is_active());
        }
        self.is_planned = is_planned;
        self.looked_ns = None;
        self.is_due = true;
    }

    /// Finds out who is idle.
    fn look(&mut self, context: &mut Context) {
        self.looked_ns = Some(context.now_ns);
        for client in &mut context.placement.clients {
            let done = client.measure_use();
            let Some(idle) = self.idle.get_mut(&client.id) else { continue };
            let active = idle.observe(context.now_ns, done.busy_ns()) && self.is_planned;
            self.is_due |= self.graph.set_active(client.id, active);
        }
    }

    /// Brings limits, protections and the reclaimer up to date.
    fn set(&mut self, options: &MemoryOptions, context: &mut Context) {
        if let Some(limit_bytes) = options.limit_bytes {
            limit_memory(limit_bytes, context);
        }
        let mut worth = Worth { graph: &mut self.graph, most_bytes: options.most_bytes };
        let is_done = self.protections.set(&mut worth, context);
        self.is_due |= !is_done;
        if let Some(policy) = &options.reclaim {
            self.losers.follow(policy, options.limit_bytes, &mut worth, context);
        }
    }
}

fn offers_memory(mount: &Path) -> bool {
    tree::read(mount, "cgroup.controllers")
        .is_ok_and(|listed| listed.split(' ').any(|name| name == "memory"))
}

/// Sets `memory.max` of our cgroups, which is removed with them. The reclaimer keeps the hosts' and the guests' together
/// below the limit: no cgroup is around both alone.
fn limit_memory(limit_bytes: u64, context: &mut Context) {
    let Context { cgroups, drift, .. } = context;
    for folder in [&cgroups.top, &cgroups.guests] {
        if folder.is_dir()
            && let Err(error) = tree::write(folder, "memory.max", &limit_bytes.to_string())
        {
            drift.tell(format!("the clients' memory cannot be limited: {error}"));
        }
    }
}
