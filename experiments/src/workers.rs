//! The parent's side of workloads: real processes, started at a barrier, never left behind.

use crate::ExperimentError;
use crate::graph::{Client, Doing};
use crate::orders::{Orders, Work};
use crate::page::Page;
use crate::workload::monotonic_ns;
use nix::sys::signal::{Signal, killpg};
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeWriter};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long processes may take until they wait at the barrier. Sixty of them share a busy machine.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// A process to be started.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// Its name.
    pub name: String,
    /// Whom to run as, where not the caller.
    pub uid: Option<u32>,
    /// Its nice value.
    pub nice: i32,
    /// What it does.
    pub work: Work,
}

impl Job {
    /// As the caller, with nice value 0.
    pub fn new(name: &str, work: Work) -> Job {
        Job { name: name.to_owned(), uid: None, nice: 0, work }
    }

    /// What a graph's client does in a run of so many seconds.
    pub fn of_client(client: &Client, seconds: f64) -> Job {
        let work = Work::Burn(steps(client, seconds));
        Job { name: client.name.clone(), uid: client.uid, nice: client.nice, work }
    }
}

/// Workload processes. Dropping them kills and reaps every one, and ends what they started.
pub(crate) struct Workers {
    page: Page,
    barrier: Option<PipeWriter>,
    workers: Vec<Worker>,
    log: PathBuf,
    /// Since when they stand still, CLOCK_MONOTONIC in ns; none while they run.
    paused_ns: Option<u64>,
}

/// One workload process. It is our child and not yet reaped, so its pid is nobody else's.
pub(crate) struct Worker {
    /// Its client's name.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Field 22 of /proc/PID/stat.
    pub start_time_ticks: u64,
    child: Child,
    cpu_clock: ClockId,
}

impl Workers {
    /// Starts a process for each job; all wait at a barrier. `command` runs [`workload_main`]
    /// with what follows.
    ///
    /// [`workload_main`]: crate::workload_main
    pub fn start(
        command: &[OsString],
        dir: &Path,
        jobs: &[Job],
        cpus: &[u32],
        seconds: f64,
        stop: &dyn Fn() -> bool,
    ) -> Result<Workers, ExperimentError> {
        let system = ExperimentError::system;
        let number = std::fs::read_dir(dir).map_or(0, Iterator::count);
        let path = dir.join(format!("page-{number}"));
        let page = Page::create(&path, jobs.len()).map_err(system("make the page of counters"))?;
        let log = dir.join(format!("workload-{number}.log"));
        let stderr = File::create(&log).map_err(system("write in the temporary directory"))?;
        let (reader, barrier) = io::pipe().map_err(system("make the barrier"))?;
        let mut workers = Workers {
            page,
            barrier: Some(barrier),
            workers: Vec::new(),
            log: log.clone(),
            paused_ns: None,
        };
        let (program, words) = command.split_first().expect("a command has a program");
        for (slot, job) in jobs.iter().enumerate() {
            let orders = Orders {
                page: path.clone(),
                slots: jobs.len(),
                slot,
                name: job.name.clone(),
                parent: std::process::id(),
                cpus: cpus.to_vec(),
                uid: job.uid,
                nice: job.nice,
                end_ns: nanoseconds(seconds),
                work: job.work.clone(),
            };
            let starting = || format!("start the workload {}", job.name);
            let stdin = reader.try_clone().map_err(system(&starting()))?;
            let stderr = stderr.try_clone().map_err(system(&starting()))?;
            let child = Command::new(program)
                .args(words)
                .args(orders.to_args())
                .stdin(stdin)
                .stdout(Stdio::null())
                .stderr(stderr)
                // A Ctrl-C at the terminal is for us alone; we end them.
                .process_group(0)
                .spawn()
                .map_err(system(&starting()))?;
            workers.add(job.name.clone(), child).map_err(system(&starting()))?;
        }
        drop(reader);
        workers.wait_until_ready(stop)?;
        Ok(workers)
    }

    fn add(&mut self, name: String, child: Child) -> io::Result<()> {
        let pid = child.id();
        // First into the list, so that it is ended whatever fails now.
        let cpu_clock = ClockId::CLOCK_PROCESS_CPUTIME_ID;
        self.workers.push(Worker { name, pid, start_time_ticks: 0, child, cpu_clock });
        let worker = self.workers.last_mut().expect("just pushed");
        worker.cpu_clock = clock_getcpuclockid(Pid::from_raw(pid as i32))?;
        worker.start_time_ticks = start_time_ticks(pid)?;
        Ok(())
    }

    fn wait_until_ready(&mut self, stop: &dyn Fn() -> bool) -> Result<(), ExperimentError> {
        let begun = Instant::now();
        while !(0..self.workers.len()).all(|slot| self.page.is_ready(slot)) {
            if stop() {
                return Err(ExperimentError::Interrupted);
            }
            self.check()?;
            if begun.elapsed() > READY_LIMIT {
                let cause = io::Error::new(io::ErrorKind::TimedOut, "they were not ready in time");
                return Err(ExperimentError::system("start the workloads")(cause));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// An error if one ended.
    pub fn check(&mut self) -> Result<(), ExperimentError> {
        for worker in &mut self.workers {
            let ended = worker.child.try_wait().map_err(ExperimentError::system("wait"))?;
            if let Some(status) = ended {
                let said = std::fs::read_to_string(&self.log).unwrap_or_default();
                let log = match said.trim() {
                    "" => String::new(),
                    said => format!(": {said}"),
                };
                let (name, pid) = (worker.name.clone(), worker.pid);
                let how = status.to_string();
                return Err(ExperimentError::WorkloadEnded { name, pid, how, log });
            }
        }
        Ok(())
    }

    /// Lets all start at once. Answers the common start, CLOCK_MONOTONIC in ns.
    pub fn release(&mut self) -> u64 {
        let start_ns = monotonic_ns();
        self.page.start_ns().store(start_ns, Ordering::Release);
        self.barrier = None;
        start_ns
    }

    /// The common start, CLOCK_MONOTONIC in ns; each pause moves it on by its length.
    pub fn start_ns(&self) -> u64 {
        self.page.start_ns().load(Ordering::Acquire)
    }

    /// Stops all by SIGSTOP until [`Workers::go_on`]. Answers when all stand still. If that never
    /// comes they are killed all the same: by dropping this, or with us.
    pub fn pause(&mut self, stop: &dyn Fn() -> bool) -> Result<(), ExperimentError> {
        self.paused_ns = Some(monotonic_ns());
        self.signal(Signal::SIGSTOP);
        let begun = Instant::now();
        for place in 0..self.workers.len() {
            while !self.workers[place]
                .stands_still()
                .map_err(ExperimentError::system("see whether a workload stands still"))?
            {
                if stop() {
                    return Err(ExperimentError::Interrupted);
                }
                if begun.elapsed() > READY_LIMIT {
                    let cause = io::Error::new(io::ErrorKind::TimedOut, "they still run");
                    return Err(ExperimentError::system("pause the workloads")(cause));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// Ends a pause: the time that it lasted is none of the workloads' schedules.
    pub fn go_on(&mut self) {
        let Some(since_ns) = self.paused_ns.take() else { return };
        // Before they run: who reads the old start would be late.
        self.page.start_ns().fetch_add(monotonic_ns() - since_ns, Ordering::AcqRel);
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        for worker in &self.workers {
            // Fails where it has ended, which `check` reports.
            let _ = killpg(Pid::from_raw(worker.pid as i32), signal);
        }
    }

    /// The processes, in the order of their jobs.
    pub fn list(&self) -> &[Worker] {
        &self.workers
    }

    /// Iterations done so far, in the order of jobs.
    pub fn iterations(&self) -> Vec<u64> {
        let slots = 0..self.workers.len();
        slots.map(|slot| self.page.iterations(slot).load(Ordering::Relaxed)).collect()
    }

    /// CPU time used so far, ns, in the order of jobs, from each process's own clock.
    pub fn cpu_ns(&self) -> Result<Vec<u64>, ExperimentError> {
        let read = |worker: &Worker| {
            let time = clock_gettime(worker.cpu_clock).map_err(io::Error::from)?;
            Ok(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
        };
        let all: io::Result<Vec<u64>> = self.workers.iter().map(read).collect();
        all.map_err(ExperimentError::system("read a workload's CPU time"))
    }
}

impl Worker {
    /// Whether it is stopped, or has ended.
    fn stands_still(&self) -> io::Result<bool> {
        let pid = rustix::process::Pid::from_raw(self.pid as i32).expect("a pid is not 0");
        // Looks only: an end is still to be reaped.
        let options = WaitIdOptions::STOPPED
            | WaitIdOptions::EXITED
            | WaitIdOptions::NOHANG
            | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(pid), options)?.is_some())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // SIGKILL also ends those that are stopped. Each leads a process group, with what it has
        // started; its number is its own until it is reaped. Failures: it has ended already.
        self.signal(Signal::SIGKILL);
        for worker in &mut self.workers {
            let _ = worker.child.kill();
        }
        for worker in &mut self.workers {
            let _ = worker.child.wait();
        }
    }
}

pub(crate) fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// A client's steps, in ns from the start.
fn steps(client: &Client, seconds: f64) -> Vec<(u64, bool)> {
    let start = (0, true);
    let steps = client
        .does
        .iter()
        .map(|step| (nanoseconds(step.at.seconds(seconds)), step.what == Doing::Burn));
    std::iter::once(start).chain(steps).collect()
}

fn start_time_ticks(pid: u32) -> io::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name may hold spaces and parentheses: count from the last one. Field 3 comes first.
    let rest = stat.rsplit_once(')').map(|(_, rest)| rest);
    let field = rest.and_then(|rest| rest.split_ascii_whitespace().nth(19));
    field
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat has no start time")))
}

/// Opens a log for both outputs of a child.
pub(crate) fn log_file(path: &Path) -> io::Result<(File, File)> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let again = file.try_clone()?;
    Ok((file, again))
}
