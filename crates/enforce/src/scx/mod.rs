//! The CPU enforcer in the kernel: allot's sched_ext scheduler (bpf/sched).
//!
//! The scheduler holds the funding graph and decides at every wake-up and every quantum; a thread
//! here gives it plans, reads what it counts, and loads it again when the kernel has thrown it
//! out. Nothing in the kernel outlives this process: the link is not pinned, so when we die, in
//! whatever way, the kernel's own scheduler takes over.

mod abi;
mod account;
mod backoff;
mod encode;
mod facts;
mod fifo;
mod libbpf_log;
mod probe;
mod released;
mod session;
mod slots;
mod topology;
mod trace;
mod worker;

pub use facts::{KernelFacts, WhyNot, available};
pub use fifo::Fifo;
pub use probe::{PolicyOperation, PolicyStep, ProgramCost, Totals, program_costs};
pub use trace::{Event, EventKind, Trace};

use crate::{Applied, EnforceError, Enforcer, Plan, Sample};
use ledger::CurrencyId;

use policy::PolicyName;
use std::io;
use std::ops::RangeInclusive;
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use worker::{Command, Worker};

/// Quanta from 0.1 ms to 100 ms.
pub const QUANTUM_NS: RangeInclusive<u64> = 100_000..=100_000_000;

/// How a [`Scx`] works.
#[derive(Clone, Debug)]
pub struct ScxOptions {
    /// Who is next. Can be [changed](crate::Enforcer::set_policy) while it runs.
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
    /// False: load the scheduler and give it plans, but let nothing run by it: for tests of what
    /// it computes.
    pub attach: bool,
}

impl Default for ScxOptions {
    /// Stride, quanta of 4 ms, with transfers.
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
            attach: true,
        }
    }
}

/// Why the scheduler could not be loaded or attached.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// This kernel cannot run it.
    #[error(transparent)]
    WhyNot(#[from] WhyNot),
    /// The CPUs could not be read.
    #[error("read which CPUs there are: {0}")]
    Topology(#[source] io::Error),
    /// The kernel refused.
    #[error("{what}: {source}{}", if said.is_empty() { String::new() } else { format!("\n{said}") })]
    Refused {
        /// What was tried.
        what: &'static str,
        /// What the kernel answered.
        source: io::Error,
        /// What libbpf and the verifier said, its last lines.
        said: String,
    },
}

impl LoadError {
    fn libbpf(what: &'static str, error: libbpf_rs::Error) -> LoadError {
        LoadError::Refused { what, source: io::Error::other(error), said: libbpf_log::take() }
    }
}

/// The enforcer. Dropping it gives every thread back to the kernel's own scheduler.
pub struct Scx {
    commands: mpsc::Sender<Command>,
    thread: Option<JoinHandle<()>>,
    followed: u64,
    gave_up: Arc<OnceLock<String>>,
}

impl Scx {
    /// Loads the scheduler and starts the thread that serves it. Nothing runs by it before the
    /// first plan.
    ///
    /// # Errors
    /// When an option is out of range, or the kernel cannot run the scheduler or refuses it.
    pub fn start(options: ScxOptions) -> Result<Scx, EnforceError> {
        if !QUANTUM_NS.contains(&options.quantum_ns) {
            return Err(EnforceError::ScxQuantumOutOfRange(options.quantum_ns));
        }
        let (commands, orders) = mpsc::channel();
        let gave_up = Arc::new(OnceLock::new());
        let theirs = Arc::clone(&gave_up);
        let (loaded, answer) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("allot-scx".to_owned())
            .spawn(move || match Worker::new(options, orders, theirs) {
                Ok(worker) => {
                    let _ = loaded.send(Ok(()));
                    worker.run();
                }
                Err(error) => drop(loaded.send(Err(error))),
            })
            .map_err(EnforceError::os("start the scheduler's thread"))?;
        answer.recv().map_err(|_| EnforceError::Ended)??;
        Ok(Scx { commands, thread: Some(thread), followed: 0, gave_up })
    }

    /// Why it has been given up to load the scheduler again and again; from then on every call
    /// answers with this as an error.
    pub fn gave_up(&self) -> Option<&str> {
        self.gave_up.get().map(String::as_str)
    }

    /// What the scheduler does from now on, event by event. One trace at a time: a new one ends
    /// the one before.
    ///
    /// # Errors
    /// When the enforcer has ended.
    pub fn trace(&mut self) -> Result<Trace, EnforceError> {
        let (reader, batches) = mpsc::sync_channel(trace::KEPT_BATCHES);
        self.send(Command::Trace(reader))?;
        Ok(Trace { batches, batch: Vec::new().into_iter() })
    }

    /// Counters of the whole scheduler; `None` while it is not loaded.
    ///
    /// # Errors
    /// When the enforcer has ended.
    pub fn totals(&mut self) -> Result<Option<Totals>, EnforceError> {
        self.ask(Command::Totals)
    }

    /// Has a thread, whose client may have changed, find it anew at once. Answers its client;
    /// `None` where there is no such thread.
    ///
    /// # Errors
    /// When the enforcer has ended.
    pub fn retag(&mut self, tid: u32) -> Result<Option<CurrencyId>, EnforceError> {
        self.ask(|reply| Command::Retag { tid, reply })
    }

    /// For tests: what the scheduler makes of a client's tickets, after the client was made to
    /// compete (or not) where that is given. `None` where it does not know the client.
    ///
    /// # Errors
    /// When the enforcer has ended.
    pub fn probe_value(
        &mut self,
        id: CurrencyId,
        active: Option<bool>,
    ) -> Result<Option<u64>, EnforceError> {
        self.ask(|reply| Command::ProbeValue { id, active, reply })
    }

    /// For tests: one step of the policy in use. `None` where the scheduler does not know the
    /// client.
    ///
    /// # Errors
    /// When the enforcer has ended.
    pub fn probe_policy(&mut self, step: PolicyStep) -> Result<Option<u64>, EnforceError> {
        self.ask(|reply| Command::ProbePolicy { step, reply })
    }

    fn send(&self, command: Command) -> Result<(), EnforceError> {
        self.commands.send(command).map_err(|_| self.ended())
    }

    fn ask<T>(&self, command: impl FnOnce(mpsc::Sender<T>) -> Command) -> Result<T, EnforceError> {
        let (reply, answer) = mpsc::channel();
        self.send(command(reply))?;
        answer.recv().map_err(|_| self.ended())
    }

    fn ended(&self) -> EnforceError {
        match self.gave_up() {
            Some(why) => EnforceError::GaveUp(why.to_owned()),
            None => EnforceError::Ended,
        }
    }
}

impl Enforcer for Scx {
    fn name(&self) -> &'static str {
        "scx"
    }

    fn apply(&mut self, plan: Plan) -> Result<(), EnforceError> {
        let given = plan.generation;
        if given < self.followed {
            return Err(EnforceError::Stale { followed: self.followed, given });
        }
        self.send(Command::Apply(Box::new(plan)))?;
        self.followed = given;
        Ok(())
    }

    fn set_policy(&mut self, policy: PolicyName) -> Result<(), EnforceError> {
        self.send(Command::SetPolicy(policy))
    }

    fn read_back(&mut self) -> Result<Applied, EnforceError> {
        self.ask(Command::ReadBack)
    }

    fn take_sample(&mut self) -> Result<Sample, EnforceError> {
        self.ask(Command::Sample)
    }

    fn revert(&mut self) -> Result<(), EnforceError> {
        self.ask(Command::Revert)
    }
}

impl Drop for Scx {
    fn drop(&mut self) {
        let _ = self.send(Command::Quit);
        if let Some(thread) = self.thread.take() {
            // Had it panicked, the scheduler went when it unwound.
            let _ = thread.join();
        }
    }
}
