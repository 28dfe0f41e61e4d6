//! What the experiments on memory have in common: readers (paper 1, section 6.3) that together have little memory,
//! under allot or in a plain control group, and what each holds over time.

use crate::cgroups::Kernel;
use crate::contest::mean;
use crate::daemon::{Daemon, Memory, Setup};
use crate::graph::BASE;
use crate::orders::{Access, Work};
use crate::plot::{Line, Panel};
use crate::session::Bench;
use crate::workers::{Job, Workers};
use crate::workload::monotonic_ns;
use crate::{ExperimentError, ProgressRow};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wire::{Amount, Class, CurrencyRef, Operation, TicketKind};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const KIB: f64 = 1024.0;
/// What a sample may be below a guarantee: the kernel counts in pages.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// Of the limit, what must be in use on average.
pub(crate) const IN_USE: f64 = 0.9;
const MOUNT: &str = "/sys/fs/cgroup";
/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS_PER_REPORT: usize = 6;
/// What is steady is so old.
const SETTLED_SECONDS: f64 = 2.0;
/// How long nothing may have changed before the readers start.
const SETTLED: Duration = Duration::from_millis(500);
/// How long allotd may take until what it was told is set.
const SET_LIMIT: Duration = Duration::from_secs(60);
/// The buffer of each, in MiB (paper 1).
const BUFFER_MIB: u64 = 4;

/// A reader and what it is promised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub name: &'static str,
    /// Hard memory tickets of base, KiB; without any where 0.
    pub guaranteed_kib: u64,
    pub guest: bool,
    /// What it reads, MiB.
    pub file_mib: u64,
}

impl Reader {
    pub fn guaranteed_bytes(&self) -> u64 {
        self.guaranteed_kib << 10
    }

    /// In tables.
    pub fn title(&self) -> String {
        match (self.guaranteed_kib, self.guest) {
            (0, false) => self.name.to_owned(),
            (0, true) => format!("{} (guest)", self.name),
            (kib, _) => format!("{} ({kib} KiB)", self.name),
        }
    }
}

/// Where the readers' files are: a disk, for what is read from memory cannot be taken.
pub(crate) fn disk(info: &str) -> Result<PathBuf, ExperimentError> {
    if !nix::unistd::geteuid().is_root() {
        let what = format!("{info} shares the machine's memory: it needs root");
        return Err(ExperimentError::BadOption(what));
    }
    std::env::var_os("ALLOT_DISK_DIR").map(PathBuf::from).ok_or_else(|| {
        let what = format!(
            "{info} reads files from a disk: name a directory there in ALLOT_DISK_DIR, or run it as \
             `lab/with-disk --swap 256M -- sh -c 'allot exp run {info}'`"
        );
        ExperimentError::BadOption(what)
    })
}

/// Readers under one rule. Dropping it ends them, then the allotd, then what was made for them, in the order of its
/// fields: allotd then has nobody to give anything back to, and a fence is empty.
pub(crate) struct Stage {
    readers: Vec<Reader>,
    workers: Vec<Workers>,
    /// The cgroup of each, and the one around all.
    groups: Vec<PathBuf>,
    ids: Vec<CurrencyRef>,
    pub daemon: Option<Daemon>,
    fence: Option<Fence>,
    limit_bytes: u64,
}

/// What there is at a look besides memory.
pub(crate) struct Look<'a> {
    pub daemon: Option<&'a Daemon>,
    /// The readers as clients.
    pub ids: &'a [CurrencyRef],
    /// Whether each sleeps, or waits for the disk.
    pub blocked: &'a [bool],
}

impl Bench<'_> {
    /// Under allot.
    pub fn memory_stage(&self, memory: Memory) -> Result<Stage, ExperimentError> {
        let options = self.options.sharing_the_machine();
        let setup = Setup { memory: Some(memory), ..Setup::of(&options) };
        let daemon = Daemon::start(&options, &setup, &self.cpus, self.dir.path(), self.stop)?;
        let limit_bytes = memory.limit_mib * MIB;
        Ok(Stage { daemon: Some(daemon), ..Stage::empty(limit_bytes) })
    }

    /// Under the kernel alone, with the same limit; `None` where no control group is ours to make.
    pub fn memory_fence(&self, limit_mib: u64) -> Result<Option<Stage>, ExperimentError> {
        let Kernel::Weights(base) = &self.kernel else { return Ok(None) };
        let limit_bytes = limit_mib * MIB;
        let fence = Fence::make(base, limit_bytes)
            .map_err(ExperimentError::system("make a control group with a limit"))?;
        Ok(Some(Stage { fence: Some(fence), ..Stage::empty(limit_bytes) }))
    }
}

impl Stage {
    fn empty(limit_bytes: u64) -> Stage {
        Stage {
            readers: Vec::new(),
            workers: Vec::new(),
            groups: Vec::new(),
            ids: Vec::new(),
            daemon: None,
            fence: None,
            limit_bytes,
        }
    }

    /// Starts readers, each in a cgroup of its own with what it is promised, and lets them go.
    pub fn start(
        &mut self,
        bench: &Bench,
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
        let mut workers = bench.workers(&jobs, seconds)?;
        for (reader, worker) in readers.iter().zip(workers.list()) {
            match (&self.daemon, &self.fence) {
                (Some(daemon), _) => {
                    let id = adopt(daemon, reader, worker.pid, worker.start_time_ticks)?;
                    self.ids.push(id);
                    let group = self.settled(reader, worker.pid, bench.stop)?;
                    self.groups.push(group);
                }
                (None, Some(fence)) => {
                    let put = fence.put(reader.name, worker.pid);
                    let group =
                        put.map_err(ExperimentError::system("put a reader into its cgroup"))?;
                    self.groups.push(group);
                }
                (None, None) => unreachable!("a stage has a rule"),
            }
        }
        workers.release();
        self.workers.push(workers);
        self.readers.extend(readers);
        Ok(())
    }

    /// A currency without members that holds memory tickets: allot leaves memory alone until somebody does.
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

    /// Waits until a process is where allotd puts it, with the guarantee that it was promised. Answers where.
    fn settled(
        &self,
        reader: &Reader,
        pid: u32,
        stop: &dyn Fn() -> bool,
    ) -> Result<PathBuf, ExperimentError> {
        let before = group_of(std::process::id());
        let begun = Instant::now();
        // It may be moved once more: to where guests are.
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

    /// The cgroup around all: the one with the limit.
    fn top(&self, group: &Path) -> PathBuf {
        let has_limit = |path: &&Path| number(path, "memory.max") == Some(self.limit_bytes);
        group.ancestors().find(has_limit).unwrap_or(group).to_owned()
    }

    /// Looks for so long. `each` is called at every look.
    pub fn watch(
        &mut self,
        bench: &mut Bench,
        seconds: f64,
        label: &str,
        note: &str,
        each: &mut dyn FnMut(&Look) -> Result<(), ExperimentError>,
    ) -> Result<Watched, ExperimentError> {
        // Guests have one beside the hosts'.
        let tops: BTreeSet<PathBuf> = self.groups.iter().map(|group| self.top(group)).collect();
        let begun_ns = monotonic_ns();
        let mut watched = Watched::new(self.limit_bytes);
        let before = self.counts()?;
        let mut looks = 0;
        loop {
            let at = (monotonic_ns() - begun_ns) as f64 / 1e9;
            if at >= seconds {
                break;
            }
            if (bench.stop)() {
                return Err(ExperimentError::Interrupted);
            }
            watched.at.push(at);
            watched.held.push(self.groups.iter().map(|group| held(group)).collect());
            watched.all.push(tops.iter().map(|top| held(top)).sum());
            let pids = self.workers.iter().flat_map(Workers::list).map(|worker| worker.pid);
            let blocked: Vec<bool> = pids.map(is_blocked).collect();
            each(&Look { daemon: self.daemon.as_ref(), ids: &self.ids, blocked: &blocked })?;
            if looks % LOOKS_PER_REPORT == 0 {
                self.workers.iter_mut().try_for_each(Workers::check)?;
                if let Some(daemon) = &mut self.daemon {
                    daemon.check()?;
                }
                let rows = self.rows(watched.held.last().expect("just pushed"));
                bench.report(at, label, rows, note);
            }
            looks += 1;
            std::thread::sleep(LOOK);
        }
        let (after, took) = (self.counts()?, (monotonic_ns() - begun_ns) as f64 / 1e9);
        let per_second = |before: &[u64], after: &[u64]| -> Vec<f64> {
            let pairs = before.iter().zip(after);
            pairs.map(|(before, after)| after.saturating_sub(*before) as f64 / took).collect()
        };
        watched.refaults = per_second(&before.refaults, &after.refaults);
        watched.reads = per_second(&before.reads, &after.reads);
        watched.allotd_cpu = per_second(&[before.daemon_ns], &[after.daemon_ns])[0] / 1e9;
        bench.elapsed += seconds;
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

    /// What is promised and held of the limit.
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

/// Hard tickets of base are KiB of memory.
pub(crate) fn memory_tickets(kib: u64) -> Amount {
    Amount { resource: "memory".to_owned(), kind: TicketKind::Hard, amount: kib }
}

/// What was seen of readers over time.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    limit_bytes: u64,
    /// Seconds from the start.
    pub at: Vec<f64>,
    /// What each holds, bytes, per look.
    pub held: Vec<Vec<u64>>,
    /// What all hold, bytes, per look.
    pub all: Vec<u64>,
    /// Pages a second that each needed again.
    pub refaults: Vec<f64>,
    /// Reads a second of each.
    pub reads: Vec<f64>,
    /// CPU time of allotd, as a part of one CPU.
    pub allotd_cpu: f64,
}

impl Watched {
    fn new(limit_bytes: u64) -> Watched {
        Watched {
            limit_bytes,
            at: Vec::new(),
            held: Vec::new(),
            all: Vec::new(),
            refaults: Vec::new(),
            reads: Vec::new(),
            allotd_cpu: 0.0,
        }
    }

    /// The looks that count: 2 s after memory was in use to nine tenths for the first time, and each reader held
    /// what it is guaranteed. None where that was not.
    pub fn steady(&self, readers: &[Reader]) -> Steady {
        let enough = |look: &usize| {
            let has = |(reader, held): (&Reader, &u64)| *held >= reader.guaranteed_bytes();
            self.all[*look] as f64 >= IN_USE * self.limit_bytes as f64
                && readers.iter().zip(&self.held[*look]).all(has)
        };
        let first = (0..self.at.len()).find(enough);
        self.after(first.map(|look| self.at[look] + SETTLED_SECONDS))
    }

    /// All looks from a time on.
    pub fn after(&self, seconds: Option<f64>) -> Steady {
        let looks =
            (0..self.at.len()).filter(|look| seconds.is_some_and(|at| self.at[*look] >= at));
        let looks: Vec<usize> = looks.collect();
        let readers = self.held.first().map_or(0, Vec::len);
        let of = |reader: usize| looks.iter().map(move |look| self.held[*look][reader]);
        let average = |values: Vec<f64>| mean(&values).unwrap_or(0.0);
        Steady {
            since: seconds,
            looks: looks.len(),
            mean: (0..readers)
                .map(|it| average(of(it).map(|held| held as f64).collect()))
                .collect(),
            least: (0..readers).map(|it| of(it).min().unwrap_or(0)).collect(),
            in_use: average(looks.iter().map(|look| self.all[*look] as f64).collect())
                / self.limit_bytes as f64,
        }
    }

    /// What each holds over time, KiB, with the guarantees.
    pub fn panel(&self, title: &str, readers: &[Reader]) -> Panel {
        let mut lines = Vec::new();
        for (place, reader) in readers.iter().enumerate() {
            let kib =
                |look: usize| self.held[look].get(place).map_or(0.0, |held| *held as f64 / KIB);
            let points = (0..self.at.len()).map(|look| (self.at[look], kib(look))).collect();
            lines.push(Line { name: reader.title(), points, dashed: false });
            if reader.guaranteed_kib > 0 {
                let kib = reader.guaranteed_kib as f64;
                let end = self.at.last().copied().unwrap_or(0.0);
                lines.push(Line {
                    name: String::new(),
                    points: vec![(0.0, kib), (end, kib)],
                    dashed: true,
                });
            }
        }
        Panel {
            title: title.to_owned(),
            x_label: "time (s)".to_owned(),
            y_label: "held (KiB)".to_owned(),
            lines,
            marks: Vec::new(),
            x_names: Vec::new(),
        }
    }
}

/// The looks that count, in short.
#[derive(Clone, Debug)]
pub(crate) struct Steady {
    /// Since when, in seconds from the start.
    pub since: Option<f64>,
    pub looks: usize,
    /// What each held, bytes: on average, and the least of any look.
    pub mean: Vec<f64>,
    pub least: Vec<u64>,
    /// Of the limit, on average.
    pub in_use: f64,
}

impl Steady {
    /// Whether none of enough looks found less than a guarantee.
    pub fn keeps(&self, place: usize, reader: &Reader) -> bool {
        self.looks > 0 && self.least[place] + PAGE_BYTES >= reader.guaranteed_bytes()
    }
}

/// A control group with a limit, and one in it for each reader.
struct Fence {
    base: PathBuf,
    top: PathBuf,
    disable: bool,
}

impl Fence {
    fn make(base: &Path, limit_bytes: u64) -> io::Result<Fence> {
        let enabled = fs::read_to_string(base.join("cgroup.subtree_control"))?;
        let disable = !enabled.split_whitespace().any(|name| name == "memory");
        fs::write(base.join("cgroup.subtree_control"), "+memory")?;
        let top = base.join(format!("allot-exp-{}-memory", std::process::id()));
        let fence = Fence { base: base.to_owned(), top, disable };
        fs::create_dir(&fence.top)?;
        fs::write(fence.top.join("cgroup.subtree_control"), "+memory")?;
        fs::write(fence.top.join("memory.max"), limit_bytes.to_string())?;
        Ok(fence)
    }

    fn put(&self, name: &str, pid: u32) -> io::Result<PathBuf> {
        let group = self.top.join(format!("of-{name}"));
        fs::create_dir(&group)?;
        fs::write(group.join("cgroup.procs"), pid.to_string())?;
        Ok(group)
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        // Empty by now; what is left all the same is empty cgroups.
        let groups = fs::read_dir(&self.top).into_iter().flatten().flatten();
        for group in groups.filter(|entry| entry.path().is_dir()) {
            let _ = fs::remove_dir(group.path());
        }
        let _ = fs::remove_dir(&self.top);
        if self.disable {
            let _ = fs::write(self.base.join("cgroup.subtree_control"), "-memory");
        }
    }
}

pub(crate) fn group_of(pid: u32) -> Option<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(Path::new(MOUNT).join(path.trim_start_matches('/')))
}

pub(crate) fn number(group: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(group.join(file)).ok()?.trim_end().parse().ok()
}

pub(crate) fn held(group: &Path) -> u64 {
    number(group, "memory.current").unwrap_or(0)
}

fn refaults(group: &Path) -> u64 {
    let text = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let counts = text.lines().filter(|line| line.starts_with("workingset_refault_"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// Whether a process sleeps or waits for a disk.
fn is_blocked(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, Some('R'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readers() -> Vec<Reader> {
        let of = |name, guaranteed_kib| Reader { name, guaranteed_kib, guest: false, file_mib: 16 };
        vec![of("A", 8), of("B", 0)]
    }

    fn watched(held: &[[u64; 2]]) -> Watched {
        Watched {
            at: (0..held.len()).map(|look| look as f64).collect(),
            held: held.iter().map(|held| held.map(|kib| kib << 10).to_vec()).collect(),
            all: held.iter().map(|held| held.iter().sum::<u64>() << 10).collect(),
            ..Watched::new(20 << 10)
        }
    }

    #[test]
    fn what_counts_begins_two_seconds_after_all_is_there() {
        let seen = watched(&[[1, 1], [4, 15], [9, 10], [1, 18], [9, 9], [10, 8]]);
        let steady = seen.steady(&readers());
        assert_eq!((steady.since, steady.looks), (Some(4.0), 2), "from the third look on");
        assert_eq!(steady.mean, [9.5 * KIB, 8.5 * KIB]);
        assert_eq!(steady.least, [9 << 10, 8 << 10]);
        assert!((steady.in_use - 0.9).abs() < 1e-9);
        assert!(steady.keeps(0, &readers()[0]) && steady.keeps(1, &readers()[1]));
    }

    #[test]
    fn a_page_less_is_tolerated_and_no_look_shows_nothing() {
        let look = |kib| watched(&[[9, 10], [9, 10], [kib, 10]]).steady(&readers());
        assert!(look(4).keeps(0, &readers()[0]));
        assert!(!look(3).keeps(0, &readers()[0]));
        let never = watched(&[[9, 2], [7, 12]]).steady(&readers());
        assert_eq!((never.since, never.looks), (None, 0));
        assert!(!never.keeps(0, &readers()[0]));
    }
}
