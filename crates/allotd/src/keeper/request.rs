//! Requests to the keeper.

use super::snapshot::Renewal;
use enforcer::Trace;
use ledger::Caller;
use policy::PolicyName;
use tokio::sync::oneshot;
use wire::{ApiError, ErrorBody, Event, Operation, OperationsDone, PolicyView, Sample, Status};

/// The most events of one answer: they are read from the journal while others wait.
pub const EVENTS_PAGE: usize = 125;

/// The way of an answer back to the one who waits for it.
pub type Reply<T> = oneshot::Sender<T>;

/// A request to the keeper.
pub enum Request {
    /// Do these in one step, or none of them.
    Operate {
        /// The caller, as the kernel says.
        caller: Caller,
        operations: Vec<Operation>,
        reply: Reply<Result<OperationsDone, ApiError>>,
    },
    /// Something happened to processes: [`Lives`](crate::lives::Lives) has it.
    Life,
    /// Asks how allotd is set up.
    Status(Reply<Status>),
    /// Asks for what renews the copy that those who only look are answered from; for all of it where there is none.
    Renew { is_new: bool, reply: Reply<Renewal> },
    /// The latest measurements.
    Sample(Reply<Sample>),
    /// The next [`EVENTS_PAGE`] events after a journal number, as far as they are kept.
    Events(u64, Reply<Result<Vec<Event>, ErrorBody>>),
    /// Asks for the scheduling policy.
    Policy(Reply<PolicyView>),
    /// Changes the scheduling policy.
    SetPolicy { caller: Caller, policy: PolicyName, reply: Reply<Result<PolicyView, ApiError>> },
    /// Asks for a trace of the scheduler from now on.
    Trace(Caller, Reply<Result<Trace, ApiError>>),
    /// The enforcing process has answered something.
    Enforced,
    /// Give everything back and end.
    Stop,
}
