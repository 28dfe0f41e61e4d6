//! The user-level CPU enforcer: a lottery over real processes, for any Linux machine.
//!
//! Once a quantum a thread of ours draws as many winners as there are CPUs. Losers wait in
//! SCHED_IDLE, or stopped; winners have their own policy. Only what changes costs system calls.
//! See docs/user-level.md for what that can and cannot do.

mod answers;
mod client;
mod group;
mod lottery;
mod membership;
mod process;

pub use group::scheduling_groups;

use crate::{Applied, EnforceError, Enforcer, Guardian, Hold, Plan, Sample, hold_available};
use ledger::ProcessIdentity;
use lottery::{Command, Lottery, Setting};
use policy::PolicyName;
use rustix::event::EventfdFlags;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

/// Quanta from 1 ms to 1 s.
pub const QUANTUM_NS: RangeInclusive<u64> = 1_000_000..=1_000_000_000;
/// 10 ms.
pub const DEFAULT_QUANTUM_NS: u64 = 10_000_000;

/// How a [`UserLevel`] works.
pub struct UserLevelOptions {
    /// Time between two draws, in ns, within [`QUANTUM_NS`].
    pub quantum_ns: u64,
    /// Who chooses the winners.
    pub policy: PolicyName,
    /// Of the policy's random numbers.
    pub seed: u64,
    /// The CPUs that are shared out: there are as many seats. Those that we may use, where nothing
    /// is said. It counts CPUs only: where a process may run is its own affinity's business.
    pub cpus: Option<Vec<u32>>,
    /// How losers wait.
    pub hold: Hold,
    /// On watch before any process is touched.
    pub guardian: Guardian,
}

impl UserLevelOptions {
    /// Stride over all CPUs, in quanta of 10 ms.
    pub fn new(guardian: Guardian) -> UserLevelOptions {
        UserLevelOptions {
            quantum_ns: DEFAULT_QUANTUM_NS,
            policy: PolicyName::Stride,
            seed: 0,
            cpus: None,
            hold: Hold::Auto,
            guardian,
        }
    }
}

/// The enforcer. Dropping it gives every process back what it had.
pub struct UserLevel {
    commands: mpsc::Sender<Command>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    followed: u64,
    cpus: Vec<u32>,
    hold: Hold,
    why: String,
    quantum_ns: u64,
    policy: PolicyName,
    seed: u64,
}

impl UserLevel {
    /// Starts the enforcer's thread. It touches nothing before the first plan. Raises the limit of
    /// open files of this process to the most that it may have: every client needs some.
    ///
    /// # Errors
    /// When an option is out of range, a CPU is not ours, losers cannot wait in the way that was
    /// asked for, or the kernel refuses what the thread needs.
    pub fn start(options: UserLevelOptions) -> Result<UserLevel, EnforceError> {
        let UserLevelOptions { quantum_ns, policy, seed, cpus, hold, guardian } = options;
        if !QUANTUM_NS.contains(&quantum_ns) {
            return Err(EnforceError::QuantumOutOfRange(quantum_ns));
        }
        let cpus = shared_cpus(cpus)?;
        let (hold, why) = match hold {
            Hold::Stop => (Hold::Stop, "losers are stopped: so it was asked for".to_owned()),
            Hold::Idle | Hold::Auto => match hold_available() {
                (Hold::Stop, why) if hold == Hold::Idle => {
                    return Err(EnforceError::NoIdle(why));
                }
                found => found,
            },
        };
        raise_open_files();
        let setting = Setting { quantum_ns, policy, seed, seats: cpus.len(), hold };
        let (commands, orders) = mpsc::channel();
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(EnforceError::os("make an eventfd"))?;
        let wake = Arc::new(wake);
        let lottery = Lottery::new(setting, guardian, orders, Arc::clone(&wake))?;
        let thread = std::thread::Builder::new()
            .name("allot-lottery".to_owned())
            .spawn(move || lottery.run())
            .map_err(EnforceError::os("start the lottery's thread"))?;
        Ok(UserLevel {
            commands,
            wake,
            thread: Some(thread),
            followed: 0,
            cpus,
            hold,
            why,
            quantum_ns,
            policy,
            seed,
        })
    }

    /// The CPUs that are shared out.
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// How losers wait, never [`Hold::Auto`], and why so.
    pub fn hold(&self) -> (Hold, &str) {
        (self.hold, &self.why)
    }

    /// Time between two draws, in ns.
    pub fn quantum_ns(&self) -> u64 {
        self.quantum_ns
    }

    /// Who chooses the winners, with which seed.
    pub fn policy(&self) -> (PolicyName, u64) {
        (self.policy, self.seed)
    }

    fn send(&self, command: Command) -> Result<(), EnforceError> {
        self.commands.send(command).map_err(|_| EnforceError::Ended)?;
        // Full at 2⁶⁴ unanswered calls only.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        Ok(())
    }

    fn ask<T>(&self, command: impl FnOnce(mpsc::Sender<T>) -> Command) -> Result<T, EnforceError> {
        let (reply, answer) = mpsc::channel();
        self.send(command(reply))?;
        answer.recv().map_err(|_| EnforceError::Ended)
    }
}

impl Enforcer for UserLevel {
    fn name(&self) -> &'static str {
        "user-level"
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

    fn note_fork(&mut self, parent: ProcessIdentity, child: ProcessIdentity) {
        // Nothing is held any more where the thread has ended.
        let _ = self.send(Command::Fork { parent, child });
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

impl Drop for UserLevel {
    fn drop(&mut self) {
        let _ = self.send(Command::Quit);
        if let Some(thread) = self.thread.take() {
            // Had it panicked, it has given everything back while it unwound.
            let _ = thread.join();
        }
    }
}

/// The CPUs that we may use, or those of them that were asked for, ascending.
fn shared_cpus(asked: Option<Vec<u32>>) -> Result<Vec<u32>, EnforceError> {
    let set = rustix::thread::sched_getaffinity(None)
        .map_err(EnforceError::os("ask which CPUs we may use"))?;
    let ours = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    let ours: Vec<u32> = ours.map(|cpu| cpu as u32).collect();
    let mut cpus = asked.unwrap_or_else(|| ours.clone());
    cpus.sort_unstable();
    cpus.dedup();
    if let Some(cpu) = cpus.iter().find(|cpu| !ours.contains(cpu)) {
        return Err(EnforceError::NotOurCpu(*cpu));
    }
    if cpus.is_empty() {
        return Err(EnforceError::NoCpus);
    }
    Ok(cpus)
}

fn raise_open_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // Where it is refused, the processes that find no descriptor are told as unmanaged.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
