//! The parent's side of workloads: real processes that start at a barrier and are never left
//! behind.

use crate::error::ExperimentError;
use crate::workloads::clock::monotonic_ns;
use crate::workloads::page::CounterPage;
use crate::workloads::spec::{Work, WorkloadSpec};
use nix::sys::signal::{Signal, killpg};
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeWriter};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Timeout until all processes wait at the barrier: sixty of them may share a busy machine.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// A process to be started.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub name: String,
    /// The uid to run as, where that is not the caller.
    pub uid: Option<u32>,
    pub nice: i32,
    pub work: Work,
}

impl Job {
    /// Creates a job of the caller, with nice value 0.
    pub fn new(name: &str, work: Work) -> Job {
        Job { name: name.to_owned(), uid: None, nice: 0, work }
    }
}

/// Workload processes. Dropping them kills and reaps each of them with all that it started.
pub(crate) struct Workers {
    page: CounterPage,
    barrier: Option<PipeWriter>,
    workers: Vec<Worker>,
    log: PathBuf,
    /// The time since when they stand still, CLOCK_MONOTONIC in ns; none while they run.
    paused_ns: Option<u64>,
}

/// One workload process. It is our child and not yet reaped, so its pid is nobody else's.
pub(crate) struct Worker {
    /// Its client's name.
    pub name: String,
    pub pid: u32,
    /// Field 22 of /proc/PID/stat.
    pub start_time_ticks: u64,
    child: Child,
    cpu_clock: ClockId,
}

impl Workers {
    /// Starts a process for each job; all wait at a barrier. `command` runs the main function of
    /// workloads.
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
        let page =
            CounterPage::create(&path, jobs.len()).map_err(system("make the page of counters"))?;
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
            let spec = WorkloadSpec {
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
                .args(spec.to_args())
                .stdin(stdin)
                .stdout(Stdio::null())
                .stderr(stderr)
                // A Ctrl-C at the terminal is for us alone; we end the workloads.
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

    /// Returns an error if one ended.
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

    /// Starts all at once. Returns the common start, CLOCK_MONOTONIC in ns.
    pub fn release(&mut self) -> u64 {
        let start_ns = monotonic_ns();
        self.page.start_ns().store(start_ns, Ordering::Release);
        self.barrier = None;
        start_ns
    }

    /// Returns the common start, CLOCK_MONOTONIC in ns; each pause moves it on by its length.
    pub fn start_ns(&self) -> u64 {
        self.page.start_ns().load(Ordering::Acquire)
    }

    /// Stops all by SIGSTOP until [`Workers::go_on`]. Returns when all stand still. If `go_on`
    /// never comes, they are killed all the same: when this is dropped, or with us.
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

    /// Ends a pause. Its time does not count in the workloads' schedules.
    pub fn go_on(&mut self) {
        let Some(since_ns) = self.paused_ns.take() else { return };
        // Before they run: a workload that reads the old start would be late.
        self.page.start_ns().fetch_add(monotonic_ns() - since_ns, Ordering::AcqRel);
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        for worker in &self.workers {
            // Fails for one that has ended, which `check` reports.
            let _ = killpg(Pid::from_raw(worker.pid as i32), signal);
        }
    }

    /// Returns the processes, in the order of their jobs.
    pub fn list(&self) -> &[Worker] {
        &self.workers
    }

    /// Returns the iterations so far, in the order of jobs.
    pub fn iterations(&self) -> Vec<u64> {
        let slots = 0..self.workers.len();
        slots.map(|slot| self.page.iterations(slot).load(Ordering::Relaxed)).collect()
    }

    /// Returns the CPU time so far in ns, in the order of jobs, from each process's own clock.
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
    /// Returns whether it is stopped, or has ended.
    fn stands_still(&self) -> io::Result<bool> {
        let pid = rustix::process::Pid::from_raw(self.pid as i32).expect("a pid is not 0");
        // NOWAIT: an end is still to be reaped.
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

/// Converts seconds.
pub(crate) fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
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
