//! Readers (paper 1, section 6.3) that together have little memory, under allot or in a plain
//! control group.

use crate::error::ExperimentError;
use crate::funding::graph::BASE;
use crate::harness::cgroups::KernelBaseline;
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::{Daemon, DaemonMemory, DaemonSettings};
use crate::harness::memory_cgroup::{LimitedGroup, group_of, held, number, refaults};
use crate::harness::memory_trace::{MIB, MemoryTrace, Reader};
use crate::harness::progress::ProgressRow;
use crate::harness::workers::{Job, Workers};
use crate::workloads::clock::monotonic_ns;
use crate::workloads::memory::Access;
use crate::workloads::spec::Work;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wire::{Amount, Class, CurrencyRef, Operation, TicketKind};

/// Interval between samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
const SAMPLES_PER_REPORT: usize = 6;
/// Time for which nothing may have changed before the readers start.
const SETTLED: Duration = Duration::from_millis(500);
/// Timeout until allotd has set what it was told.
const SET_LIMIT: Duration = Duration::from_secs(60);
/// The buffer of each reader, in MiB (paper 1).
const BUFFER_MIB: u64 = 4;

/// Readers under one rule. Dropping it ends them, then the allotd, then the group with the limit,
/// in the order of its fields: allotd then has no client to restore, and the group is empty.
pub(crate) struct MemoryTrial {
    readers: Vec<Reader>,
    workers: Vec<Workers>,
    /// The cgroup of each.
    groups: Vec<PathBuf>,
    ids: Vec<CurrencyRef>,
    pub daemon: Option<Daemon>,
    limited: Option<LimitedGroup>,
    limit_bytes: u64,
}

/// The moment of a sample.
pub(crate) struct MemoryLook<'a> {
    pub daemon: Option<&'a Daemon>,
    /// The readers, as clients.
    pub ids: &'a [CurrencyRef],
    /// Whether each sleeps, or waits for the disk.
    pub blocked: &'a [bool],
}

impl ExperimentContext<'_> {
    /// Prepares a trial under allot.
    pub fn memory_trial(&self, memory: DaemonMemory) -> Result<MemoryTrial, ExperimentError> {
        let of_options = DaemonSettings::of(self.options);
        let daemon = self.allotd_for_all(&DaemonSettings { memory: Some(memory), ..of_options })?;
        let limit_bytes = memory.limit_mib * MIB;
        Ok(MemoryTrial { daemon: Some(daemon), ..MemoryTrial::empty(limit_bytes) })
    }

    /// Prepares a trial under the kernel alone, with a limit. Returns none where no control group
    /// is ours to make.
    pub fn memory_trial_of_kernel(
        &self,
        limit_mib: u64,
    ) -> Result<Option<MemoryTrial>, ExperimentError> {
        let KernelBaseline::Weights(base) = &self.kernel else { return Ok(None) };
        let limit_bytes = limit_mib * MIB;
        let limited = LimitedGroup::make(base, limit_bytes)
            .map_err(ExperimentError::system("make a control group with a limit"))?;
        Ok(Some(MemoryTrial { limited: Some(limited), ..MemoryTrial::empty(limit_bytes) }))
    }
}

impl MemoryTrial {
    fn empty(limit_bytes: u64) -> MemoryTrial {
        MemoryTrial {
            readers: Vec::new(),
            workers: Vec::new(),
            groups: Vec::new(),
            ids: Vec::new(),
            daemon: None,
            limited: None,
            limit_bytes,
        }
    }

    /// Starts readers, each in a cgroup of its own with its guarantee.
    pub fn start(
        &mut self,
        context: &ExperimentContext,
        disk: &Path,
        readers: &[Reader],
        seconds: f64,
    ) -> Result<(), ExperimentError> {
        let jobs = readers.iter().map(|reader| {
            let file = disk.join(format!("allot-exp-{}", reader.name));
            let (mib, buffer_mib, by) = (reader.file_mib, BUFFER_MIB, Access::Read);
            Job::new(reader.name, Work::ReadAtRandom { file, mib, buffer_mib, by })
        });
        let jobs: Vec<Job> = jobs.collect();
        let mut workers = context.workers(&jobs, seconds)?;
        for (reader, worker) in readers.iter().zip(workers.list()) {
            match (&self.daemon, &self.limited) {
                (Some(daemon), _) => {
                    let id = adopt(daemon, reader, worker.pid, worker.start_time_ticks)?;
                    self.ids.push(id);
                    let group = self.settled(reader, worker.pid, context.stop)?;
                    self.groups.push(group);
                }
                (None, Some(limited)) => {
                    let put = limited.put(reader.name, worker.pid);
                    let group =
                        put.map_err(ExperimentError::system("put a reader into its cgroup"))?;
                    self.groups.push(group);
                }
                (None, None) => unreachable!("a trial has a rule"),
            }
        }
        workers.release();
        self.workers.push(workers);
        self.readers.extend(readers);
        Ok(())
    }

    /// Makes a currency without members that holds memory tickets: allot leaves memory alone until
    /// a currency does.
    pub fn hold_tickets(&self, kib: u64) -> Result<(), ExperimentError> {
        let Some(daemon) = &self.daemon else { return Ok(()) };
        let create = Operation::CreateCurrency {
            name: "holder".to_owned(),
            owner: None,
            group: None,
            mode: None,
        };
        let made = daemon.operate("creating a currency", vec![create])?;
        let currency = CurrencyRef(format!("#{}", made[0].expect("it was created")));
        let from = CurrencyRef::from(BASE);
        let fund = Operation::Fund { currency, from, amount: memory_tickets(kib) };
        daemon.operate("funding it", vec![fund]).map(drop)
    }

    /// Waits until allotd has put a process into its cgroup, with its guarantee. Returns the
    /// cgroup.
    fn settled(
        &self,
        reader: &Reader,
        pid: u32,
        stop: &dyn Fn() -> bool,
    ) -> Result<PathBuf, ExperimentError> {
        let before = group_of(std::process::id());
        let begun = Instant::now();
        // It may be moved once more, to the group of guests.
        let mut found: Option<(PathBuf, Instant)> = None;
        loop {
            let group = group_of(pid).filter(|group| {
                Some(group) != before.as_ref()
                    && number(group, "memory.min") == Some(reader.guaranteed_bytes())
                    && number(&self.top(group), "memory.max") == Some(self.limit_bytes)
            });
            found = match (group, found) {
                (Some(group), Some((same, since))) if group == same => Some((same, since)),
                (group, _) => group.map(|group| (group, Instant::now())),
            };
            if let Some((group, _)) = found.take_if(|(_, since)| since.elapsed() >= SETTLED) {
                return Ok(group);
            }
            if stop() {
                return Err(ExperimentError::Interrupted);
            }
            if begun.elapsed() > SET_LIMIT {
                let (name, kib) = (reader.name, reader.guaranteed_kib);
                let what = format!("has not given {name} its {kib} KiB in {SET_LIMIT:?}");
                return Err(ExperimentError::DaemonFailed { what, log: String::new() });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the cgroup around all, which has the limit.
    fn top(&self, group: &Path) -> PathBuf {
        let has_limit = |path: &&Path| number(path, "memory.max") == Some(self.limit_bytes);
        group.ancestors().find(has_limit).unwrap_or(group).to_owned()
    }

    /// Samples for `seconds`. `each` is called at every sample.
    pub fn watch(
        &mut self,
        context: &mut ExperimentContext,
        seconds: f64,
        label: &str,
        note: &str,
        each: &mut dyn FnMut(&MemoryLook) -> Result<(), ExperimentError>,
    ) -> Result<MemoryTrace, ExperimentError> {
        // Guests have one beside that of the hosts.
        let tops: BTreeSet<PathBuf> = self.groups.iter().map(|group| self.top(group)).collect();
        let begun_ns = monotonic_ns();
        let mut watched = MemoryTrace::new(self.limit_bytes);
        let before = self.counts()?;
        let mut looks = 0;
        loop {
            let at = (monotonic_ns() - begun_ns) as f64 / 1e9;
            if at >= seconds {
                break;
            }
            if (context.stop)() {
                return Err(ExperimentError::Interrupted);
            }
            watched.at.push(at);
            watched.held.push(self.groups.iter().map(|group| held(group)).collect());
            watched.all.push(tops.iter().map(|top| held(top)).sum());
            let pids = self.workers.iter().flat_map(Workers::list).map(|worker| worker.pid);
            let blocked: Vec<bool> = pids.map(is_blocked).collect();
            each(&MemoryLook { daemon: self.daemon.as_ref(), ids: &self.ids, blocked: &blocked })?;
            if looks % SAMPLES_PER_REPORT == 0 {
                self.workers.iter_mut().try_for_each(Workers::check)?;
                if let Some(daemon) = &mut self.daemon {
                    daemon.check()?;
                }
                let rows = self.rows(watched.held.last().expect("just pushed"));
                context.report(at, label, rows, note);
            }
            looks += 1;
            std::thread::sleep(SAMPLE_INTERVAL);
        }
        let (after, took) = (self.counts()?, (monotonic_ns() - begun_ns) as f64 / 1e9);
        let per_second = |before: &[u64], after: &[u64]| -> Vec<f64> {
            let pairs = before.iter().zip(after);
            pairs.map(|(before, after)| after.saturating_sub(*before) as f64 / took).collect()
        };
        watched.refaults = per_second(&before.refaults, &after.refaults);
        watched.reads = per_second(&before.reads, &after.reads);
        watched.allotd_cpu = per_second(&[before.daemon_ns], &[after.daemon_ns])[0] / 1e9;
        context.elapsed += seconds;
        Ok(watched)
    }

    fn counts(&self) -> Result<Counts, ExperimentError> {
        let daemon_ns = match &self.daemon {
            Some(daemon) => daemon.sample()?.daemon_cpu_ns,
            None => 0,
        };
        Ok(Counts {
            refaults: self.groups.iter().map(|group| refaults(group)).collect(),
            reads: self.workers.iter().flat_map(Workers::iterations).collect(),
            daemon_ns,
        })
    }

    /// Returns the promised and held parts of the limit.
    fn rows(&self, held: &[u64]) -> Vec<ProgressRow> {
        let part = |bytes: u64| bytes as f64 / self.limit_bytes as f64;
        let readers = self.readers.iter().zip(held);
        readers
            .map(|(reader, held)| ProgressRow {
                client: reader.name.to_owned(),
                promised: part(reader.guaranteed_bytes()),
                measured: part(*held),
            })
            .collect()
    }
}

struct Counts {
    refaults: Vec<u64>,
    reads: Vec<u64>,
    daemon_ns: u64,
}

/// Makes a reader a client with memory tickets.
fn adopt(
    daemon: &Daemon,
    reader: &Reader,
    pid: u32,
    start_time_ticks: u64,
) -> Result<CurrencyRef, ExperimentError> {
    let mut funding =
        vec![Amount { resource: "cpu".to_owned(), kind: TicketKind::Soft, amount: 1000 }];
    if reader.guaranteed_kib > 0 {
        funding.push(memory_tickets(reader.guaranteed_kib));
    }
    let made = daemon.operate(
        "adopting the readers",
        vec![Operation::Adopt {
            pid: Some(pid),
            start_time_ticks: Some(start_time_ticks),
            from: Some(CurrencyRef::from(BASE)),
            funding: Some(funding),
        }],
    )?;
    let id = CurrencyRef(format!("#{}", made[0].expect("an adopted client has an id")));
    if reader.guest {
        let set = Operation::SetClass { client: Some(id.clone()), class: Class::Guest };
        daemon.operate("making a reader a guest", vec![set])?;
    }
    Ok(id)
}

/// Returns hard memory tickets of base: each is 1 KiB.
pub(crate) fn memory_tickets(kib: u64) -> Amount {
    Amount { resource: "memory".to_owned(), kind: TicketKind::Hard, amount: kib }
}

/// Returns whether a process sleeps or waits for a disk.
fn is_blocked(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, Some('R'))
}
