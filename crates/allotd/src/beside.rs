//! Memory and disks where something else than cgroups shares the CPU: a cgroup tree for them alone, from the
//! moment when anybody has such tickets.

use crate::cpu::with_causes;
use crate::options::{Options, OthersName};
use enforce::cgroup::{DiskOptions, MemoryOptions, OtherResource, ReclaimPolicy, available_for};
use enforce::{Cgroup, CgroupOptions, EnforceError, Enforcer, Plan};
use ledger::Resource;
use policy::IdleOptions;
use std::path::PathBuf;

/// The tree, once there is one.
pub struct Beside {
    options: Options,
    seed: u64,
    record: PathBuf,
    tree: Option<Cgroup>,
    /// Why there is none, once it was tried.
    refused: Option<String>,
    /// Resources of the last plan.
    planned: Vec<Resource>,
}

impl Beside {
    /// Touches nothing yet. `record` is where the tree's is kept.
    pub fn new(options: &Options, seed: u64, record: PathBuf) -> Beside {
        let options = options.clone();
        Beside { options, seed, record, tree: None, refused: None, planned: Vec::new() }
    }

    /// Follow a plan's tickets of memory and disks. Answers what is new to tell.
    pub fn apply(&mut self, plan: Plan) -> Option<String> {
        self.planned = plan.others.iter().map(|graph| graph.resource().clone()).collect();
        if self.tree.is_none() {
            if self.planned.is_empty() || self.refused.is_some() {
                return None;
            }
            match self.start() {
                Ok(tree) => self.tree = Some(tree),
                Err(why) => {
                    self.refused = Some(why.clone());
                    return Some(format!("tickets of memory and disks have no effect: {why}"));
                }
            }
        }
        let tree = self.tree.as_mut()?;
        tree.apply(plan).err().map(|error| error.to_string())
    }

    fn start(&self) -> Result<Cgroup, String> {
        if self.options.user {
            return Err("a private allotd shares the CPU only".to_owned());
        }
        if self.options.others == OthersName::None {
            return Err("started with --others none".to_owned());
        }
        let root = available_for("memory")
            .or_else(|_| available_for("io"))
            .map_err(|error| with_causes(&error))?;
        let program = std::env::current_exe().map_err(|source| EnforceError::Os {
            what: "find our own program, to start the guardian",
            source,
        });
        let program = program.map_err(|error| with_causes(&error))?;
        let wanted = CgroupOptions {
            shares_cpu: false,
            ..with_others(
                &self.options,
                self.seed,
                CgroupOptions::new(root, program, self.record.clone()),
            )
        };
        Cgroup::start(wanted).map_err(|error| with_causes(&error))
    }

    /// What was found not to be as it was set, in words.
    pub fn drift(&mut self) -> Vec<String> {
        let applied = self.tree.as_mut().and_then(|tree| tree.read_back().ok());
        applied.map_or_else(Vec::new, |applied| {
            applied.drift.iter().map(ToString::to_string).collect()
        })
    }

    /// How memory and disks are enforced, by our own tree or another.
    pub fn others(&self, other_tree: Option<&Cgroup>) -> Vec<OtherResource> {
        let tree = other_tree.or(self.tree.as_ref());
        let enforced = tree.and_then(|tree| tree.others().ok()).unwrap_or_default();
        let mut all: Vec<OtherResource> =
            enforced.into_iter().filter(|other| self.planned.contains(&other.resource)).collect();
        for resource in &self.planned {
            if all.iter().all(|other| other.resource != *resource) {
                let why = match (resource, &self.refused) {
                    (Resource::Net(_), _) => "this version shares no networks",
                    (_, Some(why)) => why,
                    (_, None) => "left alone",
                };
                let why = why.to_owned();
                let (resource, active) = (resource.clone(), Vec::new());
                all.push(OtherResource { resource, enforcer: None, why, active });
            }
        }
        all
    }

    /// Another tree follows the plans: ours is not needed.
    pub fn leave_to_other(&mut self, plan: &Plan) {
        self.planned = plan.others.iter().map(|graph| graph.resource().clone()).collect();
        self.end();
    }

    /// Gives everything back.
    pub fn end(&mut self) {
        if let Some(mut tree) = self.tree.take()
            && let Err(error) = tree.revert()
        {
            tracing::warn!("while giving memory and disks back: {error}");
        }
    }
}

/// The same, sharing memory and disks as was asked for.
pub fn with_others(options: &Options, seed: u64, wanted: CgroupOptions) -> CgroupOptions {
    if options.others == OthersName::None {
        return wanted;
    }
    let total_bytes = observe::machine().memory_total_bytes.unwrap_or(u64::MAX);
    let all_bytes = options.memory_limit.unwrap_or(total_bytes).min(total_bytes);
    let reclaim = options.memory_policy.0.map(|name| ReclaimPolicy {
        name,
        seed,
        idle_tax: options.memory_idle_tax,
        guests_bytes: options
            .guest_memory
            .map(|parts| (all_bytes / 100 * parts.low, all_bytes / 100 * parts.high)),
        headroom_bytes: None,
    });
    let idle_ns = options.memory_idle_seconds * 1_000_000_000;
    let memory = MemoryOptions {
        reclaim,
        idle: IdleOptions { idle_ns, ..IdleOptions::default() },
        limit_bytes: options.memory_limit,
    };
    let disks = DiskOptions { file: Some(options.disks_file.clone()) };
    CgroupOptions { memory: Some(memory), disks: Some(disks), ..wanted }
}
