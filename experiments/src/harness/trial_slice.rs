//! One slice of an experiment: processes of a few currencies, under allot or under the kernel's
//! default. Each slice has its own processes, and its own allotd where it has one, so that slices
//! of both rules can alternate and share nothing.

use crate::error::ExperimentError;
use crate::funding::graph::BASE;
use crate::harness::cgroups::{WeightNode, WeightTree};
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::{Daemon, DaemonSettings};
use crate::harness::process_tree::tree_cpu_ns;
use crate::harness::progress::ProgressRow;
use crate::harness::workers::{Job, Workers};
use crate::report::statistics::shares;
use crate::workloads::clock::monotonic_ns;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{Amount, CurrencyRef, Operation, TicketKind};

/// Interval between checks that all processes live.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Checks between reports of progress.
const CHECKS_PER_REPORT: u64 = 3;

/// The rule that shares the CPU in a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuRule {
    /// allot.
    Allot,
    /// allot without ticket transfers: a client that waits for a lock lends nothing.
    AllotWithoutTransfers,
    /// The kernel's default, with the same weights where it can have them.
    Default,
}

impl CpuRule {
    fn name(self) -> &'static str {
        match self {
            CpuRule::Allot => "allot",
            CpuRule::AllotWithoutTransfers => "allot, no transfers",
            CpuRule::Default => "the kernel's default",
        }
    }
}

/// A currency with soft tickets from base.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrialCurrency {
    pub name: &'static str,
    /// Its base tickets.
    pub tickets: u64,
    /// Its owner's uid, where that is not the caller.
    pub uid: Option<u32>,
}

impl TrialCurrency {
    /// Creates a currency of the caller's.
    pub const fn new(name: &'static str, tickets: u64) -> TrialCurrency {
        TrialCurrency { name, tickets, uid: None }
    }
}

/// A process of a slice.
#[derive(Clone, Debug)]
pub(crate) struct TrialProcess {
    /// The index of its currency.
    pub currency: usize,
    /// Its tickets of that currency.
    pub tickets: u64,
    pub job: Job,
}

/// A slice. Dropping it ends its allotd, and removes its control groups.
pub(crate) struct TrialSlice {
    pub rule: CpuRule,
    daemon: Option<Daemon>,
    currencies: Vec<TrialCurrency>,
    ids: Vec<CurrencyRef>,
    tree: Option<WeightTree>,
    /// The promise to each process while all compete, as a part of all, by pid.
    promised: BTreeMap<u32, f64>,
}

impl ExperimentContext<'_> {
    /// Begins a slice. `number` changes the random numbers, so that slices do not repeat each
    /// other.
    pub fn slice(
        &self,
        rule: CpuRule,
        settings: &DaemonSettings,
        currencies: &[TrialCurrency],
        number: u64,
    ) -> Result<TrialSlice, ExperimentError> {
        let mut slice = TrialSlice {
            rule,
            daemon: None,
            currencies: currencies.to_vec(),
            ids: Vec::new(),
            tree: None,
            promised: BTreeMap::new(),
        };
        if rule == CpuRule::Default {
            let node = |currency: &TrialCurrency| WeightNode {
                name: currency.name.to_owned(),
                parent: None,
                weight: currency.tickets as f64,
            };
            let nodes: Vec<WeightNode> = currencies.iter().map(node).collect();
            slice.tree =
                self.kernel.tree(&nodes).map_err(ExperimentError::system("make control groups"))?;
            return Ok(slice);
        }
        let seed = settings.seed.wrapping_add(number);
        let transfers = rule == CpuRule::Allot;
        let daemon = self.allotd(&DaemonSettings { seed, transfers, ..settings.clone() })?;
        slice.ids = create(&daemon, currencies)?;
        slice.daemon = Some(daemon);
        Ok(slice)
    }
}

/// Creates and funds currencies.
fn create(
    daemon: &Daemon,
    currencies: &[TrialCurrency],
) -> Result<Vec<CurrencyRef>, ExperimentError> {
    let create = |currency: &TrialCurrency| Operation::CreateCurrency {
        name: currency.name.to_owned(),
        owner: currency.uid,
        group: currency.uid,
        mode: None,
    };
    let made =
        daemon.operate("creating the currencies", currencies.iter().map(create).collect())?;
    let id = |id: Option<u64>| CurrencyRef(format!("#{}", id.expect("it was created")));
    let ids: Vec<CurrencyRef> = made.into_iter().map(id).collect();
    let fund = |(currency, id): (&TrialCurrency, &CurrencyRef)| Operation::Fund {
        currency: id.clone(),
        from: CurrencyRef::from(BASE),
        amount: soft(currency.tickets),
    };
    let funding = currencies.iter().zip(&ids).map(fund).collect();
    daemon.operate("funding the currencies", funding)?;
    Ok(ids)
}

fn soft(amount: u64) -> Amount {
    Amount { resource: "cpu".to_owned(), kind: TicketKind::Soft, amount }
}

impl TrialSlice {
    /// Starts processes. Each waits for the start, as a client of its currency or in its control
    /// group.
    pub fn start(
        &mut self,
        context: &ExperimentContext,
        processes: &[TrialProcess],
        seconds: f64,
    ) -> Result<Workers, ExperimentError> {
        let jobs: Vec<Job> = processes.iter().map(|process| process.job.clone()).collect();
        let workers = context.workers(&jobs, seconds)?;
        let all: u64 = self.currencies.iter().map(|currency| currency.tickets).sum();
        for (process, worker) in processes.iter().zip(workers.list()) {
            let fellows = processes.iter().filter(|other| other.currency == process.currency);
            let of_group =
                process.tickets as f64 / fellows.map(|fellow| fellow.tickets).sum::<u64>() as f64;
            let of_all = self.currencies[process.currency].tickets as f64 / all as f64;
            self.promised.insert(worker.pid, of_group * of_all);
        }
        if let Some(daemon) = &self.daemon {
            let adopt =
                processes.iter().zip(workers.list()).map(|(process, worker)| Operation::Adopt {
                    pid: Some(worker.pid),
                    start_time_ticks: Some(worker.start_time_ticks),
                    from: Some(self.ids[process.currency].clone()),
                    funding: Some(vec![soft(process.tickets)]),
                });
            daemon.operate("adopting the workloads", adopt.collect())?;
        }
        if let Some(tree) = &self.tree {
            for (process, worker) in processes.iter().zip(workers.list()) {
                tree.put(self.currencies[process.currency].name, worker.pid)
                    .map_err(ExperimentError::system("put a workload into its control group"))?;
            }
        }
        Ok(workers)
    }

    /// Waits until `done` says so or a moment comes (CLOCK_MONOTONIC, in ns), and watches
    /// `workers`.
    pub fn pass(
        &mut self,
        context: &mut ExperimentContext,
        workers: &mut [&mut Workers],
        until_ns: u64,
        phase: &str,
        done: &mut dyn FnMut() -> bool,
    ) -> Result<(), ExperimentError> {
        let begun_ns = monotonic_ns();
        let mut checks = 0;
        loop {
            let now_ns = monotonic_ns();
            if now_ns >= until_ns || done() {
                return Ok(());
            }
            if (context.stop)() {
                return Err(ExperimentError::Interrupted);
            }
            for workers in workers.iter_mut() {
                workers.check()?;
            }
            if let Some(daemon) = &mut self.daemon {
                daemon.check()?;
            }
            if checks % CHECKS_PER_REPORT == 0 {
                let rows = self.rows(workers);
                context.report((now_ns - begun_ns) as f64 / 1e9, phase, rows, self.rule.name());
            }
            checks += 1;
            let left = Duration::from_nanos(until_ns - now_ns);
            std::thread::sleep(left.min(CHECK_INTERVAL));
        }
    }

    /// Returns the CPU time of each process since it started, as parts of all.
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

/// The slices in which one thing is measured: allot, the kernel's default, and both again, so that
/// other work of the machine hits both.
pub(crate) const TURNS: [CpuRule; 4] =
    [CpuRule::Allot, CpuRule::Default, CpuRule::Allot, CpuRule::Default];

/// Returns the uids of two users, where we may choose: numbers that no person has.
pub(crate) fn two_users() -> [Option<u32>; 2] {
    match nix::unistd::geteuid().is_root() {
        true => [Some(65533), Some(65534)],
        false => [None, None],
    }
}

/// Returns the CPU time of each worker with its descendants, in ns.
pub(crate) fn trees_ns(workers: &Workers) -> Vec<u64> {
    workers.list().iter().map(|worker| tree_cpu_ns(worker.pid).unwrap_or(0)).collect()
}
