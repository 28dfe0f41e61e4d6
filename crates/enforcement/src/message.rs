//! The messages between the keeper and the enforcing process.
//!
//! The keeper asks, one request after the other, and each request but [`Request::NoteFork`] is answered once, in order.

use crate::reach::Reach;
use crate::survey::Surveyed;
use crate::walls::Wall;
use enforcer::{Plan, ResourceStatus, Sample, Settings};
use identity::ProcessIdentity;
use ledger::{CurrencyId, Resource};
use policy::PolicyName;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The choice of who enforces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Choice {
    /// Nobody: the ledger is kept and nothing is touched.
    Nobody,
    /// The best that there is.
    Best,
    /// This one for the CPU, by its name.
    Named(String),
}

/// The task of an enforcing process, for as long as it lives. Its parent gives it while it has all its rights.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The settings of all enforcers.
    pub settings: Settings,
    /// The choice of the enforcer.
    pub choice: Choice,
    /// Whether kinds besides the CPU are shared.
    pub shares_others: bool,
    /// The users whose processes may be touched at all.
    pub reach: Reach,
    /// The socket that people connect to, which is removed at the end: the keeper may not.
    pub socket: Option<PathBuf>,
}

/// A request of the keeper.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Takes up the task and looks at the machine. The first request, once.
    Begin(Box<Task>),
    /// Restores what earlier ones left, and starts the CPU's enforcer. The second request, once.
    Start,
    /// Follows a plan.
    Apply(Plan),
    /// Notes that a client forked. It is not answered.
    NoteFork {
        /// The client's process.
        parent: ProcessIdentity,
        /// Its child.
        child: ProcessIdentity,
    },
    /// Asks what is really set.
    Look,
    /// Asks what was measured.
    Measure,
    /// Replaces enforcers that gave up, and asks what happened since this was asked last.
    LookAfter,
    /// Chooses who is next by another algorithm.
    SetAlgorithm(PolicyName),
    /// Begins a trace. Where there is one, a socket follows the answer from which batches are read.
    Trace,
    /// Asks why tickets of these have no effect.
    WithoutEffect(Vec<Resource>),
    /// Gives everything back for this reason, or takes it up again.
    Defer(Option<String>),
    /// Gives everything back. The last request.
    End,
}

/// An answer to the keeper.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// To [`Request::Begin`].
    Begun(Result<Surveyed, String>),
    /// To [`Request::Start`].
    Started(Result<Started, String>),
    /// To [`Request::Apply`]: the plan's generation, and the CPU's refusal in words.
    Applied(u64, Result<(), String>),
    /// To [`Request::Look`].
    Seen(Box<Seen>),
    /// To [`Request::Measure`].
    Measured(Box<Measured>),
    /// To [`Request::LookAfter`].
    LookedAfter(LookedAfter),
    /// To [`Request::SetAlgorithm`].
    AlgorithmSet(Result<(), String>),
    /// To [`Request::Trace`].
    Tracing(Result<(), String>),
    /// To [`Request::WithoutEffect`], in the same order.
    WithoutEffect(Vec<Option<String>>),
    /// To [`Request::Defer`]: what changed, in words.
    Deferred(Option<String>),
    /// To [`Request::End`].
    Ended,
}

/// An enforcer that was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Whether all threads of the machine are scheduled, the kernel's own too.
    pub covers_everybody: bool,
    /// The rights that the process has given up, in words.
    pub walls: Vec<Wall>,
}

/// The state of the machine as it is really set.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// The CPU's enforcer.
    pub cpu: CpuSeen,
    /// Every resource of the last plan besides the CPU.
    pub others: Vec<ResourceStatus>,
    /// The clients that compete for the CPU now.
    pub active: Vec<CurrencyId>,
}

/// The CPU's enforcer: its settings, and what is not as it should be. The interface's type of the same fields lies in a
/// crate with an HTTP client, which is kept out of the enforcing process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSeen {
    /// Its name, or `none`.
    pub name: String,
    /// Why it serves.
    pub why: String,
    /// The algorithm that chooses who is next.
    pub algorithm: String,
    /// Seed of the algorithm's random number generator.
    pub seed: u64,
    /// Time between two choices, in ns.
    pub quantum_ns: u64,
    /// The CPUs that are shared out.
    pub cpus: Vec<u32>,
    /// How losers of a draw wait, or `none`.
    pub hold: String,
    /// The last plan.
    pub generation: u64,
    /// Settings that are not as they should be, in words.
    pub drift: Vec<String>,
}

/// The measurements of all enforcers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// The CPU's, and those of other resources.
    pub sample: Sample,
    /// Time between two choices, in ns, as of the last look.
    pub quantum_ns: u64,
    /// CPU time of the enforcing process, in ns.
    pub own_cpu_ns: u64,
}

/// The events since this was asked last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookedAfter {
    /// Enforcers that were replaced, in words. Those in their place have no plan yet.
    pub replaced: Vec<String>,
    /// New drift, in words.
    pub drift: Vec<String>,
}
