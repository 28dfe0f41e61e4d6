//! What experiments on a disk have in common: the disk, its ways, and one run of some loads on it.
//!
//! The disk is one that may be used up: a directory on it, and its kernel name, as `lab/with-disk` gives
//! them (`ALLOT_DISK_DIR` and `ALLOT_DISK`). The kernel's default is the disk as it was found, with the
//! promised shares as weights in every file that the kernel has for them then.

use crate::daemon::{Daemon, Extra, Setup, find_allotd};
use crate::disk_loads::{DiskLoad, DiskWork};
use crate::graph::BASE;
use crate::orders::Work;
use crate::session::{Bench, Series};
use crate::workers::{Job, Workers, nanoseconds};
use crate::workload::monotonic_ns;
use crate::{ExperimentError, ProgressRow, RunOptions};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wire::{Amount, CurrencyRef, Operation, TicketKind};

/// Between two samples.
const LOOK: Duration = Duration::from_millis(100);
/// How long a disk may take until its weights are enforced.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// The file to measure the disk's speed on, in MiB.
const CALIBRATION_MIB: u64 = 32;

/// Who shares the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskRule {
    /// allot, through BFQ.
    Bfq,
    /// allot, through iocost.
    Iocost,
    /// The kernel, as it was found.
    Default,
}

impl DiskRule {
    /// In tables.
    pub fn name(self) -> &'static str {
        match self {
            DiskRule::Bfq => "BFQ",
            DiskRule::Iocost => "iocost",
            DiskRule::Default => "the kernel's default",
        }
    }

    /// As allotd calls it.
    fn enforcer(self) -> Option<&'static str> {
        match self {
            DiskRule::Bfq => Some("bfq"),
            DiskRule::Iocost => Some("iocost"),
            DiskRule::Default => None,
        }
    }
}

/// A disk that may be used up.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    /// Its kernel name.
    pub name: String,
    /// A directory on it.
    pub dir: PathBuf,
    /// Requests that it takes at a time.
    pub depth: usize,
    /// Its scheduler as found.
    pub scheduler: String,
    /// Whether BFQ can be chosen.
    pub has_bfq: bool,
}

/// allotd takes iocost for disks that take so many requests at a time.
const DEEP: usize = 8;

impl Disk {
    /// The one that the environment names, for cgroups to share out.
    pub fn find(options: &RunOptions) -> Result<Disk, ExperimentError> {
        if !matches!(options.enforcer.as_deref(), None | Some("cgroup")) {
            let what = "shares of a disk are kept by cgroups: leave out --enforcer";
            return Err(ExperimentError::BadOption(what.to_owned()));
        }
        Disk::find_for_all(options)
    }

    /// The one that the environment names, whoever shares the CPU.
    pub fn find_for_all(options: &RunOptions) -> Result<Disk, ExperimentError> {
        let bad = |what: &str| ExperimentError::BadOption(what.to_owned());
        if !nix::unistd::geteuid().is_root() {
            return Err(bad("shares of a disk are kept for the whole machine: it needs root"));
        }
        if options.enforcer.as_deref() == Some("user-level") {
            return Err(bad("a private allotd shares no disk: leave out --enforcer"));
        }
        let (Some(name), Some(dir)) =
            (std::env::var_os("ALLOT_DISK"), std::env::var_os("ALLOT_DISK_DIR"))
        else {
            return Err(bad(
                "it needs a disk that may be used up: its kernel name in ALLOT_DISK and a \
                            directory on it in ALLOT_DISK_DIR, as lab/with-disk gives them",
            ));
        };
        let name = name.to_string_lossy().into_owned();
        let block = Path::new("/sys/block").join(&name);
        let read = |file: &str| fs::read_to_string(block.join(file));
        let scheduler = read("queue/scheduler")
            .map_err(|_| bad(&format!("ALLOT_DISK: there is no disk `{name}` in /sys/block")))?;
        let chosen = scheduler.split_whitespace().find_map(|word| word.strip_prefix('['));
        let depth = read("mq/0/nr_tags").ok().and_then(|text| text.trim().parse().ok());
        Ok(Disk {
            dir: dir.into(),
            depth: depth.unwrap_or(1),
            has_bfq: scheduler
                .split_whitespace()
                .any(|word| word.trim_matches(['[', ']']) == "bfq"),
            scheduler: chosen.unwrap_or(scheduler.trim()).trim_end_matches(']').to_owned(),
            name,
        })
    }

    /// An error where BFQ cannot be chosen.
    pub fn must_have_bfq(&self) -> Result<(), ExperimentError> {
        match self.has_bfq {
            true => Ok(()),
            false => Err(ExperimentError::BadOption(format!(
                "{} is to be shared by BFQ, which is not offered: `modprobe bfq`",
                self.name
            ))),
        }
    }

    /// Why a rule cannot be tried on it; `measured` says whether its speed is known.
    pub fn lacks<T>(&self, rule: DiskRule, measured: &Result<T, String>) -> Option<String> {
        match (rule, measured) {
            (DiskRule::Bfq, _) if !self.has_bfq => {
                Some("BFQ was left out: it is not offered (`modprobe bfq`)".to_owned())
            }
            (DiskRule::Iocost, Err(why)) => {
                Some(format!("iocost was left out, for the disk was not measured: {why}"))
            }
            (DiskRule::Iocost, Ok(_)) if self.depth < DEEP && self.has_bfq => Some(format!(
                "iocost was left out: on a disk that takes {} requests at a time allot takes BFQ",
                self.depth
            )),
            _ => None,
        }
    }

    /// The resource that its tickets are of.
    pub fn resource(&self) -> String {
        format!("disk:{}", self.name)
    }

    /// Measures it for iocost, into a file; `None`, and why, where it cannot be.
    pub fn measure(
        &self,
        bench: &Bench,
        seconds: f64,
    ) -> Result<Result<PathBuf, String>, ExperimentError> {
        let file = bench.dir.path().join("disks.toml");
        let output = Command::new(find_allotd(bench.options)?)
            .args(["calibrate", &self.name, "--dir"])
            .arg(&self.dir)
            .args(["--seconds", &format!("{:.0}", seconds.clamp(16.0, 60.0))])
            .args(["--size", &CALIBRATION_MIB.to_string(), "--disks"])
            .arg(&file)
            .stdin(Stdio::null())
            .output()
            .map_err(ExperimentError::system("measure the disk"))?;
        let words = String::from_utf8_lossy(&output.stderr);
        Ok(match output.status.success() {
            true => Ok(file),
            false => Err(words.lines().last().unwrap_or("it ended by itself").to_owned()),
        })
    }
}

/// Who funds a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fund {
    /// Base, so many thousandths of the disk for sure.
    Hard(u64),
    /// The user's currency, softly.
    OfUser(u64),
}

/// A process that loads the disk.
#[derive(Clone, Debug)]
pub(crate) struct DiskClient {
    /// Its name.
    pub name: String,
    /// What it has.
    pub fund: Fund,
    /// Its part of the disk while all compete.
    pub promised: f64,
    /// What it does.
    pub load: DiskLoad,
    /// The size of its file, in MiB.
    pub mib: u64,
}

/// What the user's currency has of base's soft tickets.
const OF_BASE: u64 = 1000;

/// One run.
pub(crate) struct DiskPart<'a> {
    /// Shown while it runs.
    pub label: &'a str,
    /// Who shares the disk.
    pub rule: DiskRule,
    /// The loads.
    pub clients: &'a [DiskClient],
    /// The speeds of disks.
    pub disks: &'a Path,
    /// How long, once all have begun.
    pub seconds: f64,
}

impl Bench<'_> {
    /// Runs some loads on the disk until the time is over or `done` says so of the iterations. Answers the
    /// iterations over time.
    pub fn run_on_disk(
        &mut self,
        disk: &Disk,
        part: &DiskPart,
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
                let made = Weights::make(part.clients, &workers);
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

    /// An allotd for the whole machine, which finds the speeds of disks in a file.
    pub fn allotd_on_disks(&self, setup: &Setup, disks: &Path) -> Result<Daemon, ExperimentError> {
        let options = self.options.sharing_the_machine();
        let extra: Extra = vec!["--disks-file".into(), disks.into()];
        Daemon::start_with(&options, setup, &self.cpus, self.dir.path(), self.stop, &extra)
    }

    /// An allotd for disks, and a currency of a user.
    pub fn disk_daemon(&self, disk: &Disk, disks: &Path) -> Result<Daemon, ExperimentError> {
        let daemon = self.allotd_on_disks(&Setup::of(self.options), disks)?;
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
        part: &DiskPart,
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
            std::thread::sleep(LOOK.min(Duration::from_nanos(end_ns - now_ns)));
        }
    }
}

/// Soft tickets.
pub(crate) fn soft(resource: &str, amount: u64) -> Amount {
    Amount { resource: resource.to_owned(), kind: TicketKind::Soft, amount }
}

fn adopt(
    daemon: &Daemon,
    disk: &Disk,
    clients: &[DiskClient],
    workers: &Workers,
) -> Result<(), ExperimentError> {
    let adopt = clients.iter().zip(workers.list()).map(|(client, worker)| {
        let resource = disk.resource();
        let (from, amount) = match client.fund {
            Fund::Hard(amount) => {
                (BASE, Amount { kind: TicketKind::Hard, ..soft(&resource, amount) })
            }
            Fund::OfUser(amount) => ("user", soft(&resource, amount)),
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

/// Until the disk's weights are enforced, by whom we meant.
pub(crate) fn wait_until(
    stop: &dyn Fn() -> bool,
    daemon: &Daemon,
    disk: &Disk,
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

/// Control groups for the kernel's default: one for each client, with its share as a weight wherever the
/// kernel has a file for that now. Dropping them removes them.
struct Weights {
    groups: Vec<PathBuf>,
    /// The controller was off.
    disable: bool,
}

const MOUNT: &str = "/sys/fs/cgroup";
/// The most that BFQ takes; iocost takes it too.
const WEIGHT_MAX: f64 = 1000.0;

impl Weights {
    fn make(clients: &[DiskClient], workers: &Workers) -> io::Result<Weights> {
        let control = Path::new(MOUNT).join("cgroup.subtree_control");
        let enabled = fs::read_to_string(&control)?;
        let disable = !enabled.split_whitespace().any(|name| name == "io");
        let mut weights = Weights { groups: Vec::new(), disable };
        fs::write(&control, "+io")?;
        let most = clients.iter().map(|client| client.promised).fold(f64::MIN_POSITIVE, f64::max);
        for (number, (client, worker)) in clients.iter().zip(workers.list()).enumerate() {
            let name = format!("allot-exp-disk-{}-{number}", std::process::id());
            let group = Path::new(MOUNT).join(name);
            fs::create_dir(&group)?;
            weights.groups.push(group.clone());
            let weight = (client.promised / most * WEIGHT_MAX).round().max(1.0);
            for file in ["io.weight", "io.bfq.weight"] {
                let file = group.join(file);
                if file.exists() {
                    fs::write(file, format!("default {weight}"))?;
                }
            }
            fs::write(group.join("cgroup.procs"), worker.pid.to_string())?;
        }
        Ok(weights)
    }
}

impl Drop for Weights {
    fn drop(&mut self) {
        // Failures leave empty groups. A process that was killed is in its group until it is reaped.
        for group in &self.groups {
            for _ in 0..100 {
                if fs::remove_dir(group).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        if self.disable {
            let _ = fs::write(Path::new(MOUNT).join("cgroup.subtree_control"), "-io");
        }
    }
}
