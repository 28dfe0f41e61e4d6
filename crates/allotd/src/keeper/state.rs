//! The state of the keeper.

use super::request::{Reply, Request};
use super::written::Written;
use crate::audit::Audit;
use crate::elder::Elder;
use crate::exchange_desk::ExchangeDesk;
use crate::lives::Lives;
use crate::members::{Cgroups, Commands};
use crate::names::Names;
use crate::others::Others;
use crate::policy_file::FundingPolicy;
use enforcement::{Enforcement, Question};
use front::Meter;
use journal::{Entry, Journal};
use ledger::{
    Change, CurrencyId, ExchangeId, JoinedAs, Ledger, Member, OfferId, ProcessIdentity,
    ResourceKinds,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use tokio::sync::broadcast;
use valuation::Graph;
use wire::{ApiError, Event, OperationResult, OperationsDone, Status};

/// The state that the keeper starts with.
pub struct Keeper {
    pub ledger: Ledger,
    pub journal: Journal,
    /// `None` in a private allotd: it touches only what it is given.
    pub policy: Option<FundingPolicy>,
    /// The record of who changed what.
    pub audit: Audit,
    /// The machine's allotd, where this one is private.
    pub elder: Option<Elder>,
    /// The enforcers of all resources.
    pub enforcement: Enforcement,
    /// The kinds of resources that tickets may be of.
    pub kinds: ResourceKinds,
    /// The parts of the status that do not change.
    pub status: Status,
    /// The channel of events.
    pub events: broadcast::Sender<Event>,
    /// The memory that base can promise, in KiB; `None` where that is not known.
    pub memory_kib: Option<u64>,
    /// The births and deaths of processes; `None` where they cannot be watched.
    pub lives: Option<Arc<Lives>>,
    /// Processes older than this (ticks since boot) were seen before.
    pub watched_until_ticks: u64,
    /// The number of the last operation that was acknowledged, for those who look.
    pub acknowledged: Arc<AtomicU64>,
    /// CPU time that is taken for persons.
    pub served: Meter,
}

/// The effects of a round, until they are durable.
#[derive(Default)]
pub(super) struct Round {
    pub(super) entries: Vec<Entry>,
    pub(super) waiting: Vec<Waiting>,
}

/// An answer that can be given once the round is durable.
pub(super) struct Waiting {
    pub(super) reply: Reply<Result<OperationsDone, ApiError>>,
    pub(super) answer: Result<Vec<OperationResult>, ApiError>,
    /// The number of entries once this was done.
    pub(super) upto: usize,
}

/// The things that an operation made.
#[derive(Default)]
pub(super) struct Made {
    pub(super) currency: Option<CurrencyId>,
    pub(super) offer: Option<OfferId>,
    pub(super) exchange: Option<ExchangeId>,
}

/// A request that waits for the answer of that number to a question.
pub(super) struct Awaiting {
    pub(super) question: Question,
    pub(super) number: u64,
    pub(super) request: Request,
    /// Until when it waits; `None` for as long as it takes.
    pub(super) until: Option<Instant>,
}

/// The state of the keeper while it serves.
pub(super) struct Running {
    pub(super) keeper: Keeper,
    /// The funding graph of the CPU.
    pub(super) cpu: Graph,
    pub(super) others: Others,
    pub(super) desk: ExchangeDesk,
    pub(super) names: Names,
    /// Whether processes wait for the system to say who their users are.
    pub(super) has_unnamed: bool,
    pub(super) commands: Commands,
    pub(super) cgroups: Cgroups,
    /// The last thread or cgroup whose life was looked at.
    pub(super) looked_at: Option<Member>,
    /// Processes that were released, and so are not taken up again.
    pub(super) released: BTreeSet<ProcessIdentity>,
    pub(super) joined_as: JoinedAs,
    pub(super) written: Written,
    /// CPU time that it took to write the last round down.
    pub(super) write_time: Duration,
    /// Observations from while the journal could not be written: they hold, and are written when there is room.
    pub(super) owed: Vec<Entry>,
    /// When the journal could not be written, until it can.
    pub(super) failed: Option<Instant>,
    pub(super) generation: u64,
    /// The changes of each operation that the copy has not followed; `None` where it needs all.
    pub(super) unseen: Option<Vec<Vec<Change>>>,
    /// Requests that wait for the enforcing process.
    pub(super) awaiting: Vec<Awaiting>,
    pub(super) must_sweep: bool,
    /// Start of the last sweep. Sweeps cost a look at every process; a user who makes events get
    /// lost, or fills the disk, must not make allotd do nothing else.
    pub(super) swept: Option<Instant>,
}
