//! The enforcer: a handle of the thread that follows plans.

use crate::cgroups::{Cgroups, Folders};
use crate::controllers::{
    Controller, CpuController, DiskController, DiskOptions, LimitsController, MemoryController,
    MemoryOptions,
};
use crate::options::{CGROUP_PERIOD_NS, CgroupOptions, PeriodOutOfRange};
use crate::record::Record;
use crate::root::{CgroupOwner, CgroupRoot};
use crate::state::State;
use crate::systemd::{Manager, UserScope};
use enforcer::{Actor, EnforceError, Enforcer, Plan, Sample, Status, periodic};
use observe::{CgroupVersion, Hierarchy};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use undo::Restored;

/// The enforcer. Dropping it puts every process back where it was found, and every weight back to its former value.
pub struct Cgroup {
    actor: Actor<Infallible>,
    root: CgroupRoot,
    period_ns: u64,
    cpus: usize,
    leftovers: Restored,
}

impl Cgroup {
    /// Restores what an earlier enforcer left, starts a guardian and the enforcer's thread. Changes nothing else before
    /// the first plan.
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
            return Err(PeriodOutOfRange(period_ns).into());
        }
        let what = "reach systemd";
        let unreachable = |source| EnforceError::Os { what, source };
        let (manager, scope) = match root.owner {
            CgroupOwner::Nobody => (None, None),
            CgroupOwner::Systemd => {
                let manager = Manager::connect().map_err(std::io::Error::other);
                (Some(manager.map_err(unreachable)?), None)
            }
            CgroupOwner::UserManager => (None, Some(UserScope::new(&root).map_err(unreachable)?)),
        };
        let base = scope.as_ref().map_or(&*root.mount, UserScope::folder);
        let below = base.strip_prefix(&root.mount).unwrap_or(base).display();
        let names = [name.clone(), format!("{name}-guests")];
        let names = names.map(|name| match &scope {
            Some(_) => format!("{below}/{name}"),
            None => name,
        });
        let mut record =
            Record::create(&program, &path, &root, &names).map_err(EnforceError::refused)?;
        let leftovers = record.leftovers().clone();
        // Cgroups of ours without a record: it was removed, or is of another place.
        record.restore();
        let [top, guests] = names.map(|name| root.mount.join(name));
        let tree = Hierarchy::new(root.mount.clone(), CgroupVersion::V2);
        let folders = Folders { tree, top, guests };
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let controllers = controllers(shares_cpu.then_some(cpus), memory, disks);
        let cgroups = Cgroups::new(folders, (manager, scope), shares_cpu, record);
        let pace = (Duration::from_nanos(period_ns), cpus);
        let actor = periodic::start("allot-cgroup", State::new(pace, cgroups, controllers))?;
        Ok(Cgroup { actor, root, period_ns, cpus, leftovers })
    }

    /// The tree that it works in.
    pub fn root(&self) -> &CgroupRoot {
        &self.root
    }

    /// Interval between two looks at who competes, in ns.
    pub fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// Number of CPUs that are shared out.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// Settings that an earlier enforcer had left changed, given back at the start.
    pub fn leftovers(&self) -> &Restored {
        &self.leftovers
    }
}

/// Makes the controllers of the resources that are shared out, in the order in which they are called.
fn controllers(
    cpus: Option<usize>,
    memory: Option<MemoryOptions>,
    disks: Option<DiskOptions>,
) -> Vec<Box<dyn Controller>> {
    let limits = LimitsController::new(disks.is_some());
    let mut all: Vec<Box<dyn Controller>> = Vec::new();
    all.extend(cpus.map(|seats| Box::new(CpuController::new(seats)) as Box<dyn Controller>));
    all.extend(memory.map(|it| Box::new(MemoryController::new(it)) as Box<dyn Controller>));
    all.extend(disks.map(|it| Box::new(DiskController::new(it)) as Box<dyn Controller>));
    all.push(Box::new(limits));
    all
}

impl Enforcer for Cgroup {
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
}
