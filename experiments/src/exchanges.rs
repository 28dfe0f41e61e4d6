//! What the live experiments on exchanges have in common (paper 1, 6.5 and 6.6): processes with tickets of base, an
//! exchange between two of them, and what each did in a stretch of time.

use crate::daemon::{Daemon, Setup};
use crate::disk_bench::{Disk, wait_until};
use crate::graph::BASE;
use crate::orders::Work;
use crate::plot::Panel;
use crate::session::Bench;
use crate::workers::{Job, Workers};
use crate::workload::monotonic_ns;
use crate::{Check, Contest, ExperimentError, ProgressRow};
use std::time::Duration;
use wire::{Amount, CurrencyRef, Good, LegRef, Operation};

/// Between two looks: a negotiator's windows are seconds, and what it reads must not be old by much of them. More looks
/// would cost those that are looked at, on an emulated CPU.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS_PER_REPORT: u64 = 5;
/// What everybody has of the CPU and the disk.
pub(crate) const EQUAL: u64 = 1000;

/// What an experiment on exchanges says of what it saw, live or simulated.
pub(crate) struct Judged {
    pub contests: Vec<Contest>,
    pub checks: Vec<Check>,
    pub notes: Vec<String>,
    /// By their files' names.
    pub plots: Vec<(&'static str, Vec<Panel>)>,
}

/// A process, and what it has of base.
pub(crate) struct Trader {
    pub name: String,
    pub work: Work,
    pub funding: Vec<Amount>,
}

/// Processes that compete under one allotd. Dropping it ends them.
pub(crate) struct Floor<'a> {
    daemon: &'a mut Daemon,
    workers: Workers,
    names: Vec<String>,
    ids: Vec<CurrencyRef>,
}

/// What a process did in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Did {
    /// How long that was.
    pub seconds: f64,
    pub iterations: u64,
    pub cpu_ns: u64,
    /// How long it was runnable and did not run, as the kernel counts it.
    pub cpu_wait_ns: u64,
    /// What the disk read for it.
    pub read_bytes: u64,
}

impl Did {
    pub fn add(&mut self, more: &Did) {
        self.seconds += more.seconds;
        self.iterations += more.iterations;
        self.cpu_ns += more.cpu_ns;
        self.cpu_wait_ns += more.cpu_wait_ns;
        self.read_bytes += more.read_bytes;
    }

    /// Iterations a second.
    pub fn progress(&self) -> f64 {
        self.iterations as f64 / self.seconds
    }
}

impl Bench<'_> {
    /// An allotd that knows no disk's speed, so that BFQ shares them out.
    pub fn allotd_with_bfq(&self, setup: &Setup) -> Result<Daemon, ExperimentError> {
        self.allotd_on_disks(setup, &self.dir.path().join("no-disks.toml"))
    }

    /// Starts processes, which wait, and makes them clients.
    pub fn floor<'a>(
        &self,
        daemon: &'a mut Daemon,
        disk: &Disk,
        traders: &[Trader],
        seconds: f64,
    ) -> Result<Floor<'a>, ExperimentError> {
        let jobs: Vec<Job> =
            traders.iter().map(|trader| Job::new(&trader.name, trader.work.clone())).collect();
        let workers = self.workers(&jobs, seconds)?;
        let adopt = traders.iter().zip(workers.list()).map(|(trader, worker)| Operation::Adopt {
            pid: Some(worker.pid),
            start_time_ticks: Some(worker.start_time_ticks),
            from: Some(CurrencyRef::from(BASE)),
            funding: Some(trader.funding.clone()),
        });
        let made = daemon.operate("adopting the processes", adopt.collect())?;
        let id = |made: Option<u64>| {
            CurrencyRef(format!("#{}", made.expect("an adopted client has an id")))
        };
        wait_until(self.stop, daemon, disk, "bfq")?;
        let names = traders.iter().map(|trader| trader.name.clone()).collect();
        Ok(Floor { daemon, workers, names, ids: made.into_iter().map(id).collect() })
    }
}

impl Floor<'_> {
    /// Lets all start.
    pub fn release(&mut self) {
        self.workers.release();
    }

    /// The processes' numbers.
    pub fn pids(&self) -> Vec<u32> {
        self.workers.list().iter().map(|worker| worker.pid).collect()
    }

    /// The first gives the second `gives`, for `gets`. Answers the exchange's number.
    pub fn exchange(&self, gives: &Amount, gets: &Amount) -> Result<u64, ExperimentError> {
        let leg = |from: usize, to: usize, what: &Amount| LegRef {
            from: self.ids[from].clone(),
            to: self.ids[to].clone(),
            good: Good { resource: what.resource.clone(), kind: what.kind },
            amount: what.amount,
        };
        self.daemon.exchange(vec![leg(0, 1, gives), leg(1, 0, gets)])
    }

    /// Gives both back what they gave.
    pub fn end(&self, exchange: u64) -> Result<(), ExperimentError> {
        let end = Operation::EndExchange { exchange };
        self.daemon.operate("ending an exchange", vec![end]).map(drop)
    }

    /// Who they are.
    pub fn ids(&self) -> &[CurrencyRef] {
        &self.ids
    }

    /// The allotd.
    pub fn daemon(&self) -> &Daemon {
        self.daemon
    }

    /// Iterations so far.
    pub fn iterations(&self) -> Vec<u64> {
        self.workers.iterations()
    }

    /// Lets time pass, and answers what each did in it. `each` is called at every look.
    pub fn pass(
        &mut self,
        bench: &mut Bench,
        seconds: f64,
        label: &str,
        each: &mut dyn FnMut(&Floor) -> Result<(), ExperimentError>,
    ) -> Result<Vec<Did>, ExperimentError> {
        let begun_ns = monotonic_ns();
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
            each(self)?;
            if looks % LOOKS_PER_REPORT == 0 {
                self.workers.check()?;
                self.daemon.check()?;
                bench.report(at, label, self.rows(&before), "allot");
            }
            looks += 1;
            std::thread::sleep(LOOK.min(Duration::from_secs_f64(seconds - at)));
        }
        let (after, took) = (self.counts()?, (monotonic_ns() - begun_ns) as f64 / 1e9);
        bench.elapsed += seconds;
        let did = before.iter().zip(&after).map(|(before, after)| Did {
            seconds: took,
            iterations: after.iterations - before.iterations,
            cpu_ns: after.cpu_ns.saturating_sub(before.cpu_ns),
            cpu_wait_ns: after.cpu_wait_ns.saturating_sub(before.cpu_wait_ns),
            read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
        });
        Ok(did.collect())
    }

    /// What each did so far.
    fn counts(&self) -> Result<Vec<Did>, ExperimentError> {
        let cpu_ns = self.workers.cpu_ns()?;
        let counts = self.workers.list().iter().zip(self.workers.iterations()).zip(cpu_ns);
        let counts = counts.map(|((worker, iterations), cpu_ns)| {
            let (cpu_wait_ns, read_bytes) = (cpu_wait_ns(worker.pid)?, read_bytes(worker.pid)?);
            Ok(Did { seconds: 0.0, iterations, cpu_ns, cpu_wait_ns, read_bytes })
        });
        counts.collect()
    }

    /// The disk's shares, for a live display.
    fn rows(&self, before: &[Did]) -> Vec<ProgressRow> {
        let Ok(now) = self.counts() else { return Vec::new() };
        let read: Vec<u64> =
            now.iter().zip(before).map(|(now, then)| now.read_bytes - then.read_bytes).collect();
        let all = read.iter().sum::<u64>().max(1) as f64;
        let promised = 1.0 / self.names.len() as f64;
        let rows = self.names.iter().zip(read);
        rows.map(|(name, read)| ProgressRow {
            client: name.clone(),
            promised,
            measured: read as f64 / all,
        })
        .collect()
    }
}

/// How long a process with one thread was runnable and did not run; 0 where the kernel does not count it.
fn cpu_wait_ns(pid: u32) -> Result<u64, ExperimentError> {
    let path = format!("/proc/{pid}/schedstat");
    let text = std::fs::read_to_string(&path).map_err(ExperimentError::system(&path))?;
    Ok(text.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0))
}

/// What the disk read for a process, as getrusage counts it.
fn read_bytes(pid: u32) -> Result<u64, ExperimentError> {
    let path = format!("/proc/{pid}/io");
    let text = std::fs::read_to_string(&path).map_err(ExperimentError::system(&path))?;
    Ok(field(&text, "read_bytes").unwrap_or(0))
}

fn field(text: &str, name: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok();
    text.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_found_in_a_process_s_account() {
        let text = "rchar: 9\nread_bytes: 8192\nwrite_bytes: 4096\n";
        assert_eq!(field(text, "read_bytes"), Some(8192));
        assert_eq!(field(text, "read"), None);
    }

    #[test]
    fn stretches_add_up() {
        let did = |seconds, iterations| Did { seconds, iterations, ..Did::default() };
        let mut sum = did(2.0, 10);
        sum.add(&did(3.0, 40));
        assert_eq!(sum, did(5.0, 50));
        assert!((sum.progress() - 10.0).abs() < 1e-9);
    }
}
