//! One slice of an experiment: processes of a few currencies, under allot or under the kernel's
//! default. Each slice starts its own processes, and its own allotd where it has one, so that
//! slices of both rules can alternate and share nothing.

use crate::cgroups::{Node, Tree};
use crate::daemon::{Daemon, Setup};
use crate::graph::BASE;
use crate::session::{Bench, shares};
use crate::tree_cpu::tree_cpu_ns;
use crate::workers::{Job, Workers};
use crate::workload::monotonic_ns;
use crate::{ExperimentError, ProgressRow};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{Amount, CurrencyRef, Operation, TicketKind};

/// Between two looks at whether all is well.
const LOOK: Duration = Duration::from_millis(100);
/// Every so many looks are told.
const LOOKS_PER_REPORT: u64 = 3;

/// Who shares the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// allot.
    Allot,
    /// allot, and who waits for a lock lends nothing.
    AllotWithoutTransfers,
    /// The kernel, with the same weights where it can have them.
    Default,
}

impl Rule {
    fn name(self) -> &'static str {
        match self {
            Rule::Allot => "allot",
            Rule::AllotWithoutTransfers => "allot, no transfers",
            Rule::Default => "the kernel's default",
        }
    }
}

/// A currency with soft tickets from base.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// Its name.
    pub name: &'static str,
    /// Its base tickets.
    pub tickets: u64,
    /// Its owner, where not the caller.
    pub uid: Option<u32>,
}

impl Group {
    /// The caller's.
    pub const fn new(name: &'static str, tickets: u64) -> Group {
        Group { name, tickets, uid: None }
    }
}

/// A process with its place in the funding graph.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Which of the groups.
    pub group: usize,
    /// Its tickets from there.
    pub tickets: u64,
    /// What it does.
    pub job: Job,
}

/// One slice. Dropping it ends its allotd, and removes its control groups.
pub(crate) struct Slice {
    /// Who shares the CPU.
    pub rule: Rule,
    daemon: Option<Daemon>,
    groups: Vec<Group>,
    ids: Vec<CurrencyRef>,
    tree: Option<Tree>,
    /// By pid: what is promised while all compete, as a part of all.
    promised: BTreeMap<u32, f64>,
}

impl Bench<'_> {
    /// Begins a slice; `number` changes the random numbers, so that slices do not repeat each
    /// other.
    pub fn slice(
        &self,
        rule: Rule,
        setup: &Setup,
        groups: &[Group],
        number: u64,
    ) -> Result<Slice, ExperimentError> {
        let mut slice = Slice {
            rule,
            daemon: None,
            groups: groups.to_vec(),
            ids: Vec::new(),
            tree: None,
            promised: BTreeMap::new(),
        };
        if rule == Rule::Default {
            let node = |group: &Group| Node {
                name: group.name.to_owned(),
                parent: None,
                weight: group.tickets as f64,
            };
            let nodes: Vec<Node> = groups.iter().map(node).collect();
            slice.tree =
                self.kernel.tree(&nodes).map_err(ExperimentError::system("make control groups"))?;
            return Ok(slice);
        }
        let seed = setup.seed.wrapping_add(number);
        let setup = Setup { seed, transfers: rule == Rule::Allot, ..*setup };
        let daemon = self.allotd(&setup)?;
        let create = |group: &Group| Operation::CreateCurrency {
            name: group.name.to_owned(),
            owner: group.uid,
            group: group.uid,
            mode: None,
        };
        let made =
            daemon.operate("creating the currencies", slice.groups.iter().map(create).collect())?;
        let id = |id: Option<u64>| CurrencyRef(format!("#{}", id.expect("it was created")));
        slice.ids = made.into_iter().map(id).collect();
        let fund = |(group, id): (&Group, &CurrencyRef)| Operation::Fund {
            currency: id.clone(),
            from: CurrencyRef::from(BASE),
            amount: soft(group.tickets),
        };
        let funding = slice.groups.iter().zip(&slice.ids).map(fund).collect();
        daemon.operate("funding the currencies", funding)?;
        slice.daemon = Some(daemon);
        Ok(slice)
    }
}

fn soft(amount: u64) -> Amount {
    Amount { resource: "cpu".to_owned(), kind: TicketKind::Soft, amount }
}

impl Slice {
    /// Its allotd.
    pub fn daemon(&self) -> Option<&Daemon> {
        self.daemon.as_ref()
    }

    /// Starts processes: each waits for the start, a client of its group or in its control group.
    pub fn start(
        &mut self,
        bench: &Bench,
        members: &[Member],
        seconds: f64,
    ) -> Result<Workers, ExperimentError> {
        let jobs: Vec<Job> = members.iter().map(|member| member.job.clone()).collect();
        let workers = bench.workers(&jobs, seconds)?;
        let all: u64 = self.groups.iter().map(|group| group.tickets).sum();
        for (member, worker) in members.iter().zip(workers.list()) {
            let fellows = members.iter().filter(|other| other.group == member.group);
            let of_group =
                member.tickets as f64 / fellows.map(|fellow| fellow.tickets).sum::<u64>() as f64;
            let of_all = self.groups[member.group].tickets as f64 / all as f64;
            self.promised.insert(worker.pid, of_group * of_all);
        }
        if let Some(daemon) = &self.daemon {
            let adopt =
                members.iter().zip(workers.list()).map(|(member, worker)| Operation::Adopt {
                    pid: Some(worker.pid),
                    start_time_ticks: Some(worker.start_time_ticks),
                    from: Some(self.ids[member.group].clone()),
                    funding: Some(vec![soft(member.tickets)]),
                });
            daemon.operate("adopting the workloads", adopt.collect())?;
        }
        if let Some(tree) = &self.tree {
            for (member, worker) in members.iter().zip(workers.list()) {
                tree.put(self.groups[member.group].name, worker.pid)
                    .map_err(ExperimentError::system("put a workload into its control group"))?;
            }
        }
        Ok(workers)
    }

    /// Lets time pass until `done` says so or a moment comes (CLOCK_MONOTONIC, ns). `at` is how
    /// far the experiment is by then; `workers` are watched.
    pub fn pass(
        &mut self,
        bench: &mut Bench,
        workers: &mut [&mut Workers],
        until_ns: u64,
        phase: &str,
        done: &mut dyn FnMut() -> bool,
    ) -> Result<(), ExperimentError> {
        let begun_ns = monotonic_ns();
        let mut looks = 0;
        loop {
            let now_ns = monotonic_ns();
            if now_ns >= until_ns || done() {
                return Ok(());
            }
            if (bench.stop)() {
                return Err(ExperimentError::Interrupted);
            }
            for workers in workers.iter_mut() {
                workers.check()?;
            }
            if let Some(daemon) = &mut self.daemon {
                daemon.check()?;
            }
            if looks % LOOKS_PER_REPORT == 0 {
                let rows = self.rows(workers);
                bench.report((now_ns - begun_ns) as f64 / 1e9, phase, rows, self.rule.name());
            }
            looks += 1;
            let left = Duration::from_nanos(until_ns - now_ns);
            std::thread::sleep(left.min(LOOK));
        }
    }

    /// What each process has had since it started, as parts of all.
    fn rows(&self, workers: &[&mut Workers]) -> Vec<ProgressRow> {
        let listed = || workers.iter().flat_map(|workers| workers.list());
        let used: Vec<u64> = listed().map(|worker| tree_cpu_ns(worker.pid).unwrap_or(0)).collect();
        listed()
            .zip(shares(&used))
            .map(|(worker, measured)| ProgressRow {
                client: worker.name.clone(),
                promised: self.promised.get(&worker.pid).copied().unwrap_or(0.0),
                measured,
            })
            .collect()
    }
}

/// In which slices one thing is measured: allot and the kernel's default, and both again, so that
/// what else the machine does hits both.
pub(crate) const TURNS: [Rule; 4] = [Rule::Allot, Rule::Default, Rule::Allot, Rule::Default];

/// The uids of two users, where we may choose: numbers that no person has.
pub(crate) fn two_users() -> [Option<u32>; 2] {
    match nix::unistd::geteuid().is_root() {
        true => [Some(65533), Some(65534)],
        false => [None, None],
    }
}

/// CPU time that the processes of each worker and its descendants have used, ns.
pub(crate) fn trees_ns(workers: &Workers) -> Vec<u64> {
    workers.list().iter().map(|worker| tree_cpu_ns(worker.pid).unwrap_or(0)).collect()
}
