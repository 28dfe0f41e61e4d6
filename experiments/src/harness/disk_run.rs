//! A run of some loads on a disk.

use crate::error::ExperimentError;
use crate::funding::graph::BASE;
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::{Daemon, DaemonSettings};
use crate::harness::disk_client::{DiskClient, DiskFunding};
use crate::harness::disk_weights::DiskWeights;
use crate::harness::progress::ProgressRow;
use crate::harness::test_disk::{DiskRule, TestDisk};
use crate::harness::workers::{Job, Workers, nanoseconds};
use crate::report::series::Series;
use crate::workloads::clock::monotonic_ns;
use crate::workloads::disk::DiskWork;
use crate::workloads::spec::Work;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};
use wire::{Amount, CurrencyRef, Operation, TicketKind};

/// Interval between samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// Timeout until a disk's weights are enforced.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// Base's soft tickets of the user's currency.
const OF_BASE: u64 = 1000;

/// One run of some loads.
pub(crate) struct DiskRun<'a> {
    /// Its name while it runs.
    pub label: &'a str,
    pub rule: DiskRule,
    pub clients: &'a [DiskClient],
    /// The file with the speeds of disks.
    pub disks: &'a Path,
    /// Its length, once all have begun.
    pub seconds: f64,
}

impl ExperimentContext<'_> {
    /// Runs some loads on the disk until the time is over or `done` says so of the iterations.
    /// Returns the iterations over time.
    pub fn run_on_disk(
        &mut self,
        disk: &TestDisk,
        part: &DiskRun,
        done: &dyn Fn(&[u64]) -> bool,
    ) -> Result<Series, ExperimentError> {
        let jobs: Vec<Job> = part
            .clients
            .iter()
            .enumerate()
            .map(|(number, client)| {
                let file = disk.dir.join(format!("load-{number}"));
                let work = DiskWork { file, mib: client.mib, load: client.load };
                Job::new(&client.name, Work::Disk(work))
            })
            .collect();
        // The files are made by the loads while nobody is held back.
        let mut workers = self.workers(&jobs, part.seconds)?;
        let mut daemon = None;
        let mut weights = None;
        match part.rule.enforcer() {
            Some(enforcer) => {
                let started = self.disk_daemon(disk, part.disks)?;
                adopt(&started, disk, part.clients, &workers)?;
                wait_until(self.stop, &started, disk, enforcer)?;
                daemon = Some(started);
            }
            None => {
                let made = DiskWeights::make(part.clients, &workers);
                weights = Some(made.map_err(ExperimentError::system("make control groups"))?);
            }
        }
        let outcome = self.watch(&mut workers, daemon.as_mut(), part, done);
        // In any case the loads end first.
        drop(workers);
        drop(weights);
        drop(daemon);
        for number in 0..part.clients.len() {
            // What is left goes with the disk.
            let _ = fs::remove_file(disk.dir.join(format!("load-{number}")));
        }
        self.elapsed += part.seconds;
        outcome
    }

    /// Starts an allotd for the whole machine, with a file of the speeds of disks.
    pub fn allotd_on_disks(
        &self,
        settings: DaemonSettings,
        disks: &Path,
    ) -> Result<Daemon, ExperimentError> {
        let disks = Some(disks.to_owned());
        self.allotd_for_all(&DaemonSettings { disks, ..settings })
    }

    /// Starts an allotd for disks, with a currency of a user.
    pub fn disk_daemon(&self, disk: &TestDisk, disks: &Path) -> Result<Daemon, ExperimentError> {
        let daemon = self.allotd_on_disks(DaemonSettings::of(self.options), disks)?;
        let user = Operation::CreateCurrency {
            name: "user".to_owned(),
            owner: None,
            group: None,
            mode: None,
        };
        let made = daemon.operate("creating the user's currency", vec![user])?;
        let currency = CurrencyRef(format!("#{}", made[0].expect("it was created")));
        let fund = |resource: &str| Operation::Fund {
            currency: currency.clone(),
            from: CurrencyRef::from(BASE),
            amount: soft(resource, OF_BASE),
        };
        daemon.operate("funding it", vec![fund("cpu"), fund(&disk.resource())])?;
        Ok(daemon)
    }

    fn watch(
        &mut self,
        workers: &mut Workers,
        mut daemon: Option<&mut Daemon>,
        part: &DiskRun,
        done: &dyn Fn(&[u64]) -> bool,
    ) -> Result<Series, ExperimentError> {
        let start_ns = workers.release();
        let end_ns = start_ns + nanoseconds(part.seconds);
        let mut series = Series::default();
        loop {
            let now_ns = monotonic_ns();
            let iterations = workers.iterations();
            series.at.push((now_ns - start_ns) as f64 / 1e9);
            series.used_ns.push(vec![0; iterations.len()]);
            series.iterations.push(iterations.clone());
            if now_ns >= end_ns || done(&iterations) {
                return Ok(series);
            }
            if (self.stop)() {
                return Err(ExperimentError::Interrupted);
            }
            workers.check()?;
            if let Some(daemon) = &mut daemon {
                daemon.check()?;
            }
            let all: u64 = iterations.iter().sum();
            let rows = part.clients.iter().zip(&iterations).map(|(client, count)| ProgressRow {
                client: client.name.clone(),
                promised: client.promised,
                measured: *count as f64 / all.max(1) as f64,
            });
            let at = (now_ns - start_ns) as f64 / 1e9;
            self.report(at, part.label, rows.collect(), part.rule.name());
            std::thread::sleep(SAMPLE_INTERVAL.min(Duration::from_nanos(end_ns - now_ns)));
        }
    }
}

/// Returns soft tickets.
pub(crate) fn soft(resource: &str, amount: u64) -> Amount {
    Amount { resource: resource.to_owned(), kind: TicketKind::Soft, amount }
}

fn adopt(
    daemon: &Daemon,
    disk: &TestDisk,
    clients: &[DiskClient],
    workers: &Workers,
) -> Result<(), ExperimentError> {
    let adopt = clients.iter().zip(workers.list()).map(|(client, worker)| {
        let resource = disk.resource();
        let (from, amount) = match client.fund {
            DiskFunding::Hard(amount) => {
                (BASE, Amount { kind: TicketKind::Hard, ..soft(&resource, amount) })
            }
            DiskFunding::OfUser(amount) => ("user", soft(&resource, amount)),
        };
        Operation::Adopt {
            pid: Some(worker.pid),
            start_time_ticks: Some(worker.start_time_ticks),
            from: Some(CurrencyRef::from(from)),
            funding: Some(vec![soft("cpu", 100), amount]),
        }
    });
    daemon.operate("adopting the loads", adopt.collect()).map(drop)
}

/// Waits until the disk's weights are enforced by the enforcer meant.
pub(crate) fn wait_until(
    stop: &dyn Fn() -> bool,
    daemon: &Daemon,
    disk: &TestDisk,
    enforcer: &str,
) -> Result<(), ExperimentError> {
    let begun = Instant::now();
    loop {
        let others = daemon.others()?;
        let found = others.iter().find(|other| other.resource == disk.resource());
        if found.is_some_and(|found| found.enforcer == enforcer) {
            return Ok(());
        }
        if stop() {
            return Err(ExperimentError::Interrupted);
        }
        if begun.elapsed() > READY_LIMIT {
            let why = found
                .map_or("nobody".to_owned(), |found| format!("{}: {}", found.enforcer, found.why));
            let what = format!("wait for {enforcer} to share {} ({why})", disk.name);
            let cause = io::Error::new(io::ErrorKind::TimedOut, "it does not");
            return Err(ExperimentError::system(&what)(cause));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
