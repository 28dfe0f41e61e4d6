//! The trait of every enforcer.

use crate::{EnforceError, Plan, Sample, Status, Trace};
use identity::ProcessIdentity;
use ledger::CurrencyId;
use policy::PolicyName;
use std::sync::Arc;

/// Makes the machine give what plans say, and decides no share.
///
/// The first four methods are what every enforcer does. The others are capabilities: what an enforcer lacks, it leaves
/// as it is here, so nobody has to know which enforcer runs.
pub trait Enforcer: Send {
    /// Follows this plan from now on, in place of the one before. Returns when the plan was accepted;
    /// [`status`](Enforcer::status) tells what came of it.
    ///
    /// # Errors
    /// When the plan is older than the one that is followed, or the enforcer has ended.
    fn apply(&mut self, plan: &Arc<Plan>) -> Result<(), EnforceError>;

    /// Reads back what is really set, and where that is not what the plan says.
    ///
    /// # Errors
    /// When the enforcer has ended.
    fn status(&mut self) -> Result<Status, EnforceError>;

    /// Returns what was measured so far.
    ///
    /// # Errors
    /// When the enforcer has ended.
    fn sample(&mut self) -> Result<Sample, EnforceError>;

    /// Gives everything back, and follows no plan until the next [`apply`](Enforcer::apply). Returns when that is
    /// done. Dropping an enforcer does the same.
    ///
    /// # Errors
    /// When the enforcer has ended (it gave everything back then).
    fn revert(&mut self) -> Result<(), EnforceError>;

    /// Notes that `parent` made `child`, as soon as that is known and before a plan names the child: what the child
    /// inherited from a parent that was held is not its own.
    fn note_fork(&mut self, _parent: ProcessIdentity, _child: ProcessIdentity) {}

    /// Chooses who is next by this algorithm from now on.
    ///
    /// # Errors
    /// When the enforcer cannot while it runs, or has ended.
    fn set_algorithm(&mut self, _algorithm: PolicyName) -> Result<(), EnforceError> {
        Err(EnforceError::AlgorithmIsFixed)
    }

    /// Begins a trace of every choice; one that is read already ends. `None` where choices are not told one by one.
    fn tracer(&mut self) -> Option<Result<Trace, EnforceError>> {
        None
    }

    /// Has a thread, whose client may have changed, find it anew at once. Answers its client; `None` where there is no
    /// such thread, or threads are not tagged one by one.
    ///
    /// # Errors
    /// When the enforcer has ended.
    fn retag(&mut self, _tid: u32) -> Result<Option<CurrencyId>, EnforceError> {
        Ok(None)
    }

    /// Whether it schedules everybody, the kernel's own threads and unmanaged processes too.
    fn covers_everybody(&self) -> bool {
        false
    }

    /// Why it has given up for good; from then on every call is an error, and the next best takes its place.
    fn gave_up(&self) -> Option<String> {
        None
    }
}
