//! The user-level CPU enforcer: a lottery over real processes, for any Linux machine.
//!
//! Once a quantum a thread of ours draws as many winners as there are CPUs. Losers wait in
//! SCHED_IDLE, frozen in a cgroup, or stopped; winners have their own policy. Only what changes costs system calls.
//! See docs/user-level.md for what that can and cannot do.

mod accounting;
mod answers;
mod cells;
mod client;
mod error;
mod group;
mod hold;
mod lottery;
mod membership;
mod process;
mod registration;

pub use cells::{CELLS_REMOVED, CellRestorer};
pub use error::UserLevelError;
pub use group::scheduling_groups;
pub use hold::hold_available;
pub use registration::REGISTRATION;

use enforcer::{Actor, EnforceError, Enforcer, HoldMethod, Plan, Sample, Status};
use ledger::ProcessIdentity;
use lottery::{Fork, Lottery, Setting};
use policy::PolicyName;
use rustix::event::EventfdFlags;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use undo::record::MOST_PROCESSES;
use undo::{Guardian, GuardianError, RecordOptions};

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
    pub hold: HoldMethod,
    /// On watch before any process is touched: see [`start_guardian`].
    pub guardian: Guardian,
}

/// Starts the guardian that the enforcer needs: `program` is the one whose command `guardian` calls
/// [`guardian_main`](undo::guardian_main), `record` the file that outlives us, best in /run.
///
/// # Errors
/// When the program cannot be started or does not begin, or the file cannot be used.
pub fn start_guardian(program: &Path, record: Option<&Path>) -> Result<Guardian, GuardianError> {
    // Before the first cell is made: whoever restores finds them by this.
    let cells = cells::Place::find().ok().and_then(|place| place.to_log().ok());
    let (writer, standing) = ("user-level", cells.into_iter().collect());
    let options = RecordOptions { writer, processes: MOST_PROCESSES, standing };
    let guardian = Guardian::start(program, record, &options, &[&CellRestorer])?;
    let leftovers = guardian.leftovers();
    for what in leftovers.failed.iter().chain(&leftovers.left) {
        tracing::warn!("from an earlier run: {what}");
    }
    Ok(guardian)
}

impl UserLevelOptions {
    /// Stride over all CPUs, in quanta of 10 ms.
    pub fn new(guardian: Guardian) -> UserLevelOptions {
        UserLevelOptions {
            quantum_ns: DEFAULT_QUANTUM_NS,
            policy: PolicyName::Stride,
            seed: 0,
            cpus: None,
            hold: HoldMethod::Auto,
            guardian,
        }
    }
}

/// The enforcer. Dropping it gives every process back what it had.
pub struct UserLevel {
    actor: Actor<Fork>,
    setting: Setting,
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
            return Err(UserLevelError::QuantumOutOfRange(quantum_ns).into());
        }
        let cpus = shared_cpus(cpus)?;
        let asked = hold;
        let (hold, why) = match hold {
            HoldMethod::Stop => {
                (HoldMethod::Stop, "losers are stopped: so it was asked for".to_owned())
            }
            HoldMethod::Idle | HoldMethod::Auto => match hold_available() {
                (HoldMethod::Stop, why) if hold == HoldMethod::Idle => {
                    return Err(UserLevelError::NoIdle(why).into());
                }
                found => found,
            },
        };
        raise_open_files();
        let cells = match asked {
            HoldMethod::Auto => cells::Place::find().ok(),
            HoldMethod::Idle | HoldMethod::Stop => None,
        };
        let setting = Setting { quantum_ns, policy, seed, cpus, hold, cells, why };
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(EnforceError::os("make an eventfd"))?;
        let wake = Arc::new(wake);
        let theirs = Arc::clone(&wake);
        let knock = move || {
            // Full at 2⁶⁴ unanswered calls only.
            let _ = rustix::io::write(&*wake, &1u64.to_ne_bytes());
        };
        let kept = setting.clone();
        let prepare = move |orders, _| Lottery::new(kept, guardian, orders, theirs);
        let actor = Actor::start("allot-lottery", knock, prepare, Lottery::run)?;
        Ok(UserLevel { actor, setting })
    }

    /// The CPUs that are shared out.
    pub fn cpus(&self) -> &[u32] {
        &self.setting.cpus
    }

    /// How losers wait, never [`HoldMethod::Auto`], and why so.
    pub fn hold(&self) -> (HoldMethod, &str) {
        (self.setting.hold, &self.setting.why)
    }
}

impl Enforcer for UserLevel {
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

    fn note_fork(&mut self, parent: ProcessIdentity, child: ProcessIdentity) {
        // Nothing is held any more where the thread has ended.
        let _ = self.actor.tell(Fork { parent, child });
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
        return Err(UserLevelError::NotOurCpu(*cpu).into());
    }
    if cpus.is_empty() {
        return Err(UserLevelError::NoCpus.into());
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
