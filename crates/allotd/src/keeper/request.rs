//! Requests to the keeper.

use super::snapshot::Snapshot;
use enforcer::Trace;
use ledger::Caller;
use policy::PolicyName;
use tokio::sync::oneshot;
use wire::{ApiError, ErrorBody, Event, Operation, OperationsDone, PolicyView, Sample, Status};

/// The most events of one answer: they are read from the journal while others wait.
pub const EVENTS_PAGE: usize = 500;

/// The way of an answer back to the one who waits for it.
pub type Reply<T> = oneshot::Sender<T>;

/// A request to the keeper.
pub enum Request {
    /// Do these in one step, or none of them.
    Operate {
        /// Who asks, as the kernel says.
        caller: Caller,
        /// What.
        operations: Vec<Operation>,
        /// Where the answer goes.
        reply: Reply<Result<OperationsDone, ApiError>>,
    },
    /// Something happened to processes: [`Lives`](crate::lives::Lives) has it.
    Life,
    /// How things are set up.
    Status(Reply<Status>),
    /// A copy of all that is known, for those who only look.
    Snapshot(Reply<Box<Snapshot>>),
    /// The latest measurements.
    Sample(Reply<Sample>),
    /// The next [`EVENTS_PAGE`] events after a journal number, as far as they are kept.
    Events(u64, Reply<Result<Vec<Event>, ErrorBody>>),
    /// Who draws.
    Policy(Reply<PolicyView>),
    /// Let another draw.
    SetPolicy {
        /// Who asks.
        caller: Caller,
        /// From now on.
        policy: PolicyName,
        /// Where the answer goes.
        reply: Reply<Result<PolicyView, ApiError>>,
    },
    /// What the scheduler does from now on.
    Trace(Caller, Reply<Result<Trace, ApiError>>),
    /// Give everything back and end.
    Stop,
}
