//! Memory and disks where something else than cgroups shares the CPU: a cgroup tree for them alone, from the
//! moment when anybody has such tickets.

use crate::cpu::with_causes;
use crate::options::{Options, OthersName};
use enforce::cgroup::{DiskOptions, MemoryOptions, OtherResource, ReclaimPolicy, available_for};
use enforce::memory::MemoryByProcesses;
use enforce::{Cgroup, CgroupOptions, EnforceError, Enforcer, Plan};
use ledger::Resource;
use policy::IdleOptions;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Between two tries to have a tree; plans come often enough.
const RETRY: Duration = Duration::from_secs(30);

/// The tree, once there is one.
pub struct Beside {
    options: Options,
    seed: u64,
    record: PathBuf,
    tree: Option<Cgroup>,
    /// Where there is no tree, memory alone, of processes.
    processes: Option<MemoryByProcesses>,
    /// Why there is none, once it was tried.
    refused: Option<String>,
    tried: Option<Instant>,
    /// Resources of the last plan.
    planned: Vec<Resource>,
}

impl Beside {
    /// Touches nothing yet. `record` is where the tree's is kept.
    pub fn new(options: &Options, seed: u64, record: PathBuf) -> Beside {
        let options = options.clone();
        Beside {
            options,
            seed,
            record,
            tree: None,
            processes: None,
            refused: None,
            tried: None,
            planned: Vec::new(),
        }
    }

    /// Follow a plan's tickets of memory and disks. Answers what is new to tell.
    pub fn apply(&mut self, plan: &Plan) -> Option<String> {
        self.planned = plan.others.iter().map(|graph| graph.resource().clone()).collect();
        let shared = |resource: &Resource| matches!(resource, Resource::Memory | Resource::Disk(_));
        if !self.planned.iter().any(shared) && plan.limits.is_empty() {
            self.end();
            return None;
        }
        let mut told = None;
        let is_due = self.tried.is_none_or(|tried| tried.elapsed() >= RETRY);
        if self.tree.is_none() && is_due {
            self.tried = Some(Instant::now());
            match self.start() {
                Ok(tree) => {
                    (self.tree, self.processes, self.refused) = (Some(tree), None, None);
                }
                Err(why) if self.refused.as_ref() == Some(&why) => {}
                Err(why) => {
                    told = Some(self.make_do_with_processes(&why));
                    self.refused = Some(why);
                }
            }
        }
        if let Some(tree) = &mut self.tree {
            return tree.apply(plan.clone()).err().map(|error| error.to_string());
        }
        let followed = self.processes.as_ref().map_or(Ok(()), |processes| processes.apply(plan));
        told.or_else(|| followed.err().map(|error| error.to_string()))
    }

    /// Where no tree can be had: the same policy pages out processes. Answers what to tell.
    fn make_do_with_processes(&mut self, why: &str) -> String {
        let may = !self.options.user && self.options.others == OthersName::Auto;
        let policy = reclaim_policy(&self.options, self.seed).filter(|_| may);
        let Some(policy) = policy else {
            return format!(
                "tickets of memory, and tickets and limits of disks, have no effect: {why}"
            );
        };
        match MemoryByProcesses::start(policy.build()) {
            Ok(processes) => {
                self.processes = Some(processes);
                format!("memory is paged out of processes, and disks are not shared: {why}")
            }
            Err(nor) => {
                let nor = with_causes(&nor);
                format!(
                    "tickets of memory, and tickets and limits of disks, have no effect: {why}; {nor}"
                )
            }
        }
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
                let refused = self.refused.as_deref().unwrap_or("left alone");
                let (enforcer, why) = match (resource, &self.processes) {
                    (Resource::Net(_), _) => (None, "this version shares no networks".to_owned()),
                    (Resource::Memory, Some(_)) => {
                        (Some("processes"), format!("a policy pages out processes; {refused}"))
                    }
                    _ => (None, refused.to_owned()),
                };
                let (resource, active) = (resource.clone(), Vec::new());
                all.push(OtherResource { resource, enforcer, why, active });
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
        self.processes = None;
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
    let reclaim = reclaim_policy(options, seed);
    let idle_ns = options.memory_idle_seconds * 1_000_000_000;
    let memory = MemoryOptions {
        reclaim,
        idle: IdleOptions { idle_ns, ..IdleOptions::default() },
        limit_bytes: options.memory_limit,
        most_bytes: memory_to_promise_kib(options).map(|kib| kib * 1024),
    };
    let disks = DiskOptions { file: Some(options.disks_file.clone()) };
    CgroupOptions {
        memory: available_for("memory").is_ok().then_some(memory),
        disks: available_for("io").is_ok().then_some(disks),
        ..wanted
    }
}

/// How much memory hard tickets from base can promise: seven eighths of what clients may have. The
/// kernel has the rest, and who has no tickets (paper 1, 6.3: of 8 MB about 4.2 could be reserved).
/// A private allotd shares no memory and promises none.
pub fn memory_to_promise_kib(options: &Options) -> Option<u64> {
    if options.user {
        return None;
    }
    let total = observe::machine().memory_total_bytes;
    let most_bytes = match (options.memory_limit, total) {
        (Some(limit), Some(total)) => limit.min(total),
        (limit, total) => limit.or(total)?,
    };
    Some((most_bytes / 8 * 7 / 1024).clamp(1, ledger::MEMORY_KIB_MAX))
}

/// Who loses memory, as was asked for; `None` leaves that to the kernel.
fn reclaim_policy(options: &Options, seed: u64) -> Option<ReclaimPolicy> {
    let total_bytes = observe::machine().memory_total_bytes.unwrap_or(u64::MAX);
    let all_bytes = options.memory_limit.unwrap_or(total_bytes).min(total_bytes);
    options.memory_policy.0.map(|name| ReclaimPolicy {
        name,
        seed,
        idle_tax: options.memory_idle_tax,
        guests_bytes: options
            .guest_memory
            .map(|parts| (all_bytes / 100 * parts.low, all_bytes / 100 * parts.high)),
        headroom_bytes: None,
    })
}
