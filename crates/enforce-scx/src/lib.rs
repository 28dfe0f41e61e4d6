//! The CPU enforcer in the kernel: allot's sched_ext scheduler (bpf/sched).
//!
//! The scheduler holds the funding graph and decides at every wake-up and every quantum; a thread
//! here gives it plans, reads what it counts, and has it loaded again when the kernel has thrown it
//! out. A process of its own loads it ([`loader_main`]) and hands over its descriptors. Nothing in the kernel outlives this process: the link is not pinned, so when we die, in
//! whatever way, the kernel's own scheduler takes over.

mod abi;
mod account;
mod backoff;
mod bank_array;
mod encode;
mod facts;
mod fifo;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod handles;
mod libbpf_log;
mod loader;
mod probe;
mod registration;
mod released;
mod session;
mod slots;
mod topology;
mod trace;
mod worker;

pub use facts::{KernelFacts, WhyNot, available};
pub use fifo::Fifo;
pub use loader::loader_main;
pub use probe::{PolicyOperation, PolicyStep, ProgramCost, Totals, program_costs};
pub use registration::REGISTRATION;

use enforcer::{Actor, EnforceError, Enforcer, Plan, Sample, Status, Trace, trace_channel};
use ledger::CurrencyId;

use loader::Loader;
use policy::PolicyName;
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use worker::{Own, Worker};

/// The name of the enforcer, as users write it.
const NAME: &str = "sched-ext";

/// Quanta from 0.1 ms to 100 ms.
pub const QUANTUM_NS: RangeInclusive<u64> = 100_000..=100_000_000;

/// How a [`Scx`] works.
#[derive(Clone, Debug)]
pub struct ScxOptions {
    /// Who is next. Can be [changed](enforcer::Enforcer::set_algorithm) while it runs.
    pub policy: PolicyName,
    /// Of the lottery's random numbers.
    pub seed: u64,
    /// How long a thread runs before the next choice, in ns, within [`QUANTUM_NS`].
    pub quantum_ns: u64,
    /// MTR-LS: its round T, in ns.
    pub round_ns: u64,
    /// Whether who waits for a lock lends its tickets to who holds it.
    pub transfers: bool,
    /// No key is further ahead of virtual time than this, in ns: the starvation guard.
    pub horizon_ns: u64,
    /// The kernel throws the scheduler out when a runnable thread has waited for so long, in ms,
    /// at most 30 000.
    pub watchdog_ms: u32,
    /// Who may wait for ever (guests, frozen clients) runs for a moment after so long, in ns, so
    /// that the watchdog stays calm. Well below `watchdog_ms`.
    pub guest_grace_ns: u64,
    /// The program that calls [`loader_main`] when it is run with `helper sched-ext`.
    pub program: PathBuf,
    /// False: load the scheduler and give it plans, but let nothing run by it: for tests of what
    /// it computes.
    pub attach: bool,
}

impl Default for ScxOptions {
    /// Stride, quanta of 4 ms, with transfers; loaded by this program.
    fn default() -> Self {
        ScxOptions {
            policy: PolicyName::Stride,
            seed: 0,
            quantum_ns: 4_000_000,
            round_ns: 100_000_000,
            transfers: true,
            horizon_ns: 2_000_000_000,
            watchdog_ms: 30_000,
            guest_grace_ns: 10_000_000_000,
            program: std::env::current_exe().unwrap_or_default(),
            attach: true,
        }
    }
}

/// Why the scheduler could not be loaded or attached.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The quantum is not one of the scheduler in the kernel.
    #[error("a quantum of {0} ns is out of range: 100 000 (0.1 ms) to 100 000 000 (100 ms)")]
    QuantumOutOfRange(u64),
    /// This kernel cannot run it.
    #[error(transparent)]
    WhyNot(#[from] WhyNot),
    /// The CPUs could not be read.
    #[error("read which CPUs there are: {0}")]
    Topology(#[source] io::Error),
    /// The process that loads schedulers cannot be started.
    #[error("start `{0}`, to load the scheduler: {1}")]
    Loader(String, #[source] io::Error),
    /// There is none, and this process has given up the rights to start another.
    #[error("the process that loads schedulers is gone; another starts with allotd")]
    NoLoader,
    /// The loaded scheduler cannot be used.
    #[error("map the memory of the scheduler: {0}")]
    Map(#[source] io::Error),
    /// The kernel refused.
    #[error("{what}: {source}{}", if said.is_empty() { String::new() } else { format!("\n{said}") })]
    Refused {
        /// What was tried.
        what: String,
        /// What the kernel answered.
        source: io::Error,
        /// What libbpf and the verifier said, its last lines.
        said: String,
    },
}

impl From<LoadError> for EnforceError {
    fn from(error: LoadError) -> Self {
        EnforceError::refused(error)
    }
}

impl LoadError {
    fn libbpf(what: &'static str, error: libbpf_rs::Error) -> LoadError {
        LoadError::Refused {
            what: what.to_owned(),
            source: io::Error::other(error),
            said: libbpf_log::take(),
        }
    }
}

/// The enforcer. Dropping it gives every thread back to the kernel's own scheduler.
pub struct Scx {
    actor: Actor<Own>,
}

impl Scx {
    /// Loads the scheduler and starts the thread that serves it. Nothing runs by it before the
    /// first plan.
    ///
    /// # Errors
    /// When an option is out of range, or the kernel cannot run the scheduler or refuses it.
    pub fn start(options: ScxOptions) -> Result<Scx, EnforceError> {
        if !QUANTUM_NS.contains(&options.quantum_ns) {
            return Err(LoadError::QuantumOutOfRange(options.quantum_ns).into());
        }
        available().map_err(LoadError::from)?;
        let loader = Loader::own(&options.program)?;
        let loads = Arc::clone(&loader);
        let prepare = move |orders, gave_up| Worker::new(options, loads, orders, gave_up);
        // Nobody keeps rights to load what the kernel has refused.
        let actor =
            Actor::start("allot-scx", || {}, prepare, Worker::run).inspect_err(|_| loader.end())?;
        Ok(Scx { actor })
    }

    /// Counters of the whole scheduler; `None` while it is not loaded.
    ///
    /// # Errors
    /// When the enforcer has ended.
    pub fn totals(&mut self) -> Result<Option<Totals>, EnforceError> {
        self.actor.ask(Own::Totals)
    }

    /// For tests: the value that the scheduler gives a client's tickets, after the client was made to
    /// compete (or not) where that is given. `None` where it does not know the client.
    ///
    /// # Errors
    /// When the enforcer has ended.
    pub fn probe_value(
        &mut self,
        id: CurrencyId,
        active: Option<bool>,
    ) -> Result<Option<u64>, EnforceError> {
        self.actor.ask(|reply| Own::ProbeValue { id, active, reply })
    }

    /// For tests: one step of the policy in use. `None` where the scheduler does not know the
    /// client.
    ///
    /// # Errors
    /// When the enforcer has ended.
    pub fn probe_policy(&mut self, step: PolicyStep) -> Result<Option<u64>, EnforceError> {
        self.actor.ask(|reply| Own::ProbePolicy { step, reply })
    }
}

impl Enforcer for Scx {
    fn apply(&mut self, plan: &Arc<Plan>) -> Result<(), EnforceError> {
        self.actor.apply(plan)
    }

    fn status(&mut self) -> Result<Status, EnforceError> {
        self.actor.status()
    }

    fn sample(&mut self) -> Result<Sample, EnforceError> {
        self.actor.sample()
    }

    fn revert(&mut self) -> Result<(), EnforceError> {
        self.actor.revert()
    }

    fn set_algorithm(&mut self, algorithm: PolicyName) -> Result<(), EnforceError> {
        self.actor.tell(Own::SetPolicy(algorithm))
    }

    fn tracer(&mut self) -> Option<Result<Trace, EnforceError>> {
        let (writer, trace) = trace_channel();
        Some(self.actor.tell(Own::Trace(writer)).map(|()| trace))
    }

    fn retag(&mut self, tid: u32) -> Result<Option<CurrencyId>, EnforceError> {
        self.actor.ask(|reply| Own::Retag { tid, reply })
    }

    fn covers_everybody(&self) -> bool {
        true
    }

    fn gave_up(&self) -> Option<String> {
        self.actor.gave_up()
    }
}
