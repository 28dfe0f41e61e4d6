//! The cgroup v2 CPU enforcer: `cpu.weight` and `cpu.idle` from valuation, for machines whose
//! kernel takes no scheduler of ours.
//!
//! Where nobody else owns the cgroup tree, every client gets a cgroup of its own, nested as the
//! funding is where that is a tree. Where systemd owns it, nobody is moved: its units get weights.
//! See docs/cgroup.md for what that can and cannot do.

mod client;
mod disks;
mod layout;
mod limits;
mod memory;
mod placement;
mod record;
mod root;
mod state;
mod systemd;
mod tree;
mod waits;
mod weigh;

pub use disks::DiskOptions;
pub use memory::{MemoryOptions, ReclaimPolicy};
pub use record::{CgroupsRestored, restore_cgroup_leftovers};
pub(crate) use record::{is_record, restore_from};
pub use root::{CgroupOwner, CgroupRoot, NoCgroup, available, available_for};

use crate::guardian::Running;
use crate::{Applied, EnforceError, Enforcer, GuardianError, Plan, Sample};
use ledger::{CurrencyId, Resource};
use record::Record;
use state::{Command, Setting, State};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Times between two looks at who competes, from 10 ms to 10 s.
pub const CGROUP_PERIOD_NS: RangeInclusive<u64> = 10_000_000..=10_000_000_000;
/// 100 ms.
pub const DEFAULT_CGROUP_PERIOD_NS: u64 = 100_000_000;

/// How a [`Cgroup`] works.
#[derive(Clone, Debug)]
pub struct CgroupOptions {
    /// The tree, from [`available`].
    pub root: CgroupRoot,
    /// Time between two looks at who competes, in ns, within [`CGROUP_PERIOD_NS`].
    pub period_ns: u64,
    /// Whether it shares out the CPU; false where something else does.
    pub shares_cpu: bool,
    /// How shares of memory are kept; `None`: memory is left alone.
    pub memory: Option<MemoryOptions>,
    /// How shares of disks are kept; `None`: disks are left alone.
    pub disks: Option<DiskOptions>,
    /// Name of our cgroup at the root of the tree; that of the guests has `-guests` after it.
    /// Whatever is in cgroups of these names is taken to be ours.
    pub name: String,
    /// The program whose command `guardian` calls [`guardian_main`](crate::guardian_main).
    pub program: PathBuf,
    /// The file that outlives us, best in /run: what a killed allotd and a killed guardian left
    /// changed is found there.
    pub record: PathBuf,
}

impl CgroupOptions {
    /// Shares of the CPU alone; a look each 100 ms, in cgroups called `allot`.
    pub fn new(root: CgroupRoot, program: PathBuf, record: PathBuf) -> CgroupOptions {
        let name = "allot".to_owned();
        let period_ns = DEFAULT_CGROUP_PERIOD_NS;
        CgroupOptions {
            root,
            period_ns,
            shares_cpu: true,
            memory: None,
            disks: None,
            name,
            program,
            record,
        }
    }
}

/// How tickets of a resource besides the CPU are enforced, or why they are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherResource {
    /// Which.
    pub resource: Resource,
    /// By what; `None`: by nothing.
    pub enforcer: Option<&'static str>,
    /// In words.
    pub why: String,
    /// Whose tickets count now.
    pub active: Vec<CurrencyId>,
}

/// The enforcer. Dropping it puts every process back where it was found, and every weight back to
/// what it was.
pub struct Cgroup {
    orders: mpsc::Sender<Command>,
    thread: Option<JoinHandle<()>>,
    followed: u64,
    root: CgroupRoot,
    period_ns: u64,
    cpus: usize,
    leftovers: CgroupsRestored,
}

impl Cgroup {
    /// Restores what an earlier one left, starts a guardian and the enforcer's thread. Changes
    /// nothing else before the first plan.
    ///
    /// # Errors
    /// When an option is out of range, the record cannot be kept, there is no guardian, or systemd
    /// cannot be reached where it owns the tree.
    pub fn start(options: CgroupOptions) -> Result<Cgroup, EnforceError> {
        let CgroupOptions {
            root,
            period_ns,
            shares_cpu,
            memory,
            disks,
            name,
            program,
            record: path,
        } = options;
        if !CGROUP_PERIOD_NS.contains(&period_ns) {
            return Err(EnforceError::PeriodOutOfRange(period_ns));
        }
        let registry = |error| {
            EnforceError::from(GuardianError::Registry(format!(" in {}", path.display()), error))
        };
        let leftovers = restore_cgroup_leftovers(&path).map_err(registry)?;
        let names = [name.clone(), format!("{name}-guests")];
        let mut record = Record::create(&path, &root, &names).map_err(registry)?;
        // Cgroups of ours without a record: it was removed, or is of another place.
        record.restore();
        let mut guardian = Running::spawn(&program, record.file())?;
        if !guardian.wait_until_ready() {
            let program = program.display().to_string();
            return Err(GuardianError::NotReady { program }.into());
        }
        let [top, guests] = names.map(|name| root.mount.join(name));
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let period = Duration::from_nanos(period_ns);
        let seats = cpus;
        let setting = Setting {
            root: root.clone(),
            top,
            guests,
            period,
            shares_cpu,
            memory,
            disks,
            seats,
            program,
        };
        let (sender, orders) = mpsc::channel();
        let manager = match root.owner {
            CgroupOwner::Nobody => None,
            CgroupOwner::Systemd => Some(systemd::Manager::connect().map_err(|error| {
                EnforceError::Os { what: "reach systemd", source: std::io::Error::other(error) }
            })?),
        };
        let state = State::new(setting, record, guardian, manager, orders);
        let thread = std::thread::Builder::new()
            .name("allot-cgroup".to_owned())
            .spawn(move || state.run())
            .map_err(EnforceError::os("start the cgroup enforcer's thread"))?;
        let thread = Some(thread);
        Ok(Cgroup { orders: sender, thread, followed: 0, root, period_ns, cpus, leftovers })
    }

    /// The tree that it works in.
    pub fn root(&self) -> &CgroupRoot {
        &self.root
    }

    /// Time between two looks at who competes, in ns.
    pub fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// How many CPUs are shared out.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// What an earlier one had left and was given back at the start.
    pub fn leftovers(&self) -> &CgroupsRestored {
        &self.leftovers
    }

    /// How memory and disks are enforced that anybody has tickets of.
    ///
    /// # Errors
    /// When the enforcer has ended.
    pub fn others(&self) -> Result<Vec<OtherResource>, EnforceError> {
        self.ask(Command::Others)
    }

    fn ask<T>(&self, command: impl FnOnce(mpsc::Sender<T>) -> Command) -> Result<T, EnforceError> {
        let (reply, answer) = mpsc::channel();
        self.orders.send(command(reply)).map_err(|_| EnforceError::Ended)?;
        answer.recv().map_err(|_| EnforceError::Ended)
    }
}

impl Enforcer for Cgroup {
    fn name(&self) -> &'static str {
        "cgroup"
    }

    fn apply(&mut self, plan: Plan) -> Result<(), EnforceError> {
        let given = plan.generation;
        if given < self.followed {
            return Err(EnforceError::Stale { followed: self.followed, given });
        }
        self.orders.send(Command::Apply(Box::new(plan))).map_err(|_| EnforceError::Ended)?;
        self.followed = given;
        Ok(())
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

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = self.orders.send(Command::Quit);
        if let Some(thread) = self.thread.take() {
            // Had it panicked, it has given everything back while it unwound.
            let _ = thread.join();
        }
    }
}
