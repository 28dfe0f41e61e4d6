//! The trait of all controllers, and the parts that they share.

use crate::cgroups::Cgroups;
use crate::placement::{Checked, Placement};
use enforcer::Plan;
use enforcer::{DriftLog, ResourceStatus};
use valuation::Graph;

/// The parts that all controllers share. They belong to the loop.
pub(crate) struct Context<'a> {
    pub cgroups: &'a mut Cgroups,
    pub placement: &'a mut Placement,
    pub drift: &'a mut DriftLog,
    /// Now, on the monotonic clock.
    pub now_ns: u64,
}

/// One kind of resource, shared out by settings of cgroups.
pub(crate) trait Controller: Send {
    /// Takes what concerns it from a new plan, before the plan's clients have their cgroups.
    fn plan(&mut self, plan: &Plan, context: &mut Context);

    /// Takes the tree of cgroups for the plan's clients, before processes are moved there.
    fn lay_out(&mut self, _context: &mut Context) {}

    /// Finds out who competes, brings what is set up to date with that, and repairs what drifted.
    fn tick(&mut self, context: &mut Context);

    /// Puts right what is not as it was set, beyond what ticks do.
    fn check(&mut self, _check: &Check, _context: &mut Context) {}

    /// Tells how each of its resources is enforced.
    fn status(&self) -> Vec<ResourceStatus>;

    /// Forgets its plan, and gives back what is neither on record nor removed with our cgroups.
    fn revert(&mut self, context: &mut Context);

    /// Waits for threads of its own, once everything was given back.
    fn join(&mut self) {}

    /// The kernel's controller that our cgroups need for it now.
    fn kernel_controller(&self) -> Option<&'static str>;

    /// The graphs that decide about the tree of cgroups. Amounts, as of memory, hold in any tree.
    fn deciding_graphs(&self) -> Vec<&Graph> {
        Vec::new()
    }
}

/// The scope of a check.
#[derive(Debug)]
pub(crate) enum Check {
    /// One client, whose place was checked before.
    Client(Checked),
    /// All cgroups.
    Everything,
}
