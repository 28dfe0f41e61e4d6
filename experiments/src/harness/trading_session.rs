//! A session of trade on real processes (paper 1, 6.5 and 6.6): processes with tickets of base, an
//! exchange between two of them, and the work of each in a stretch of time.

use crate::error::ExperimentError;
use crate::funding::graph::BASE;
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::{Daemon, DaemonSettings};
use crate::harness::disk_run::wait_until;
use crate::harness::progress::ProgressRow;
use crate::harness::test_disk::TestDisk;
use crate::harness::workers::{Job, Workers};
use crate::workloads::clock::monotonic_ns;
use crate::workloads::spec::Work;
use std::time::Duration;
use wire::{Amount, CurrencyRef, Good, LegRef, Operation};

/// Interval between looks. A negotiator's windows are seconds, and what it reads must not be old by
/// much of them; more looks would cost the processes CPU time, where it is emulated.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
const LOOKS_PER_REPORT: u64 = 5;
/// A process, and its tickets of base.
pub(crate) struct Trader {
    pub name: String,
    pub work: Work,
    pub funding: Vec<Amount>,
}

/// Processes that compete under one allotd. Dropping the session ends them.
pub(crate) struct TradingSession<'a> {
    daemon: &'a mut Daemon,
    workers: Workers,
    names: Vec<String>,
    ids: Vec<CurrencyRef>,
}

/// The work of a process in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct StretchUsage {
    /// Length of the stretch.
    pub seconds: f64,
    pub iterations: u64,
    pub cpu_ns: u64,
    /// Time for which it was runnable and did not run, as the kernel counts it.
    pub cpu_wait_ns: u64,
    /// Bytes that the disk read for it.
    pub read_bytes: u64,
}

impl StretchUsage {
    /// Adds another stretch.
    pub fn add(&mut self, more: &StretchUsage) {
        self.seconds += more.seconds;
        self.iterations += more.iterations;
        self.cpu_ns += more.cpu_ns;
        self.cpu_wait_ns += more.cpu_wait_ns;
        self.read_bytes += more.read_bytes;
    }

    /// Returns the iterations a second.
    pub fn progress(&self) -> f64 {
        self.iterations as f64 / self.seconds
    }
}

impl ExperimentContext<'_> {
    /// Starts an allotd that knows no disk's speed, so that BFQ shares them out.
    pub fn allotd_with_bfq(&self, settings: DaemonSettings) -> Result<Daemon, ExperimentError> {
        self.allotd_on_disks(settings, &self.dir.path().join("no-disks.toml"))
    }

    /// Starts processes, which wait, and makes them clients.
    pub fn trading_session<'a>(
        &self,
        daemon: &'a mut Daemon,
        disk: &TestDisk,
        traders: &[Trader],
        seconds: f64,
    ) -> Result<TradingSession<'a>, ExperimentError> {
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
        Ok(TradingSession { daemon, workers, names, ids: made.into_iter().map(id).collect() })
    }
}

impl TradingSession<'_> {
    /// Starts all.
    pub fn release(&mut self) {
        self.workers.release();
    }

    /// Returns the processes' ids.
    pub fn pids(&self) -> Vec<u32> {
        self.workers.list().iter().map(|worker| worker.pid).collect()
    }

    /// Exchanges: the first process gives the second `gives`, for `gets`. Returns the exchange's
    /// number.
    pub fn exchange(&self, gives: &Amount, gets: &Amount) -> Result<u64, ExperimentError> {
        let leg = |from: usize, to: usize, what: &Amount| LegRef {
            from: self.ids[from].clone(),
            to: self.ids[to].clone(),
            good: Good { resource: what.resource.clone(), kind: what.kind },
            amount: what.amount,
        };
        self.daemon.exchange(vec![leg(0, 1, gives), leg(1, 0, gets)])
    }

    /// Ends an exchange.
    pub fn end(&self, exchange: u64) -> Result<(), ExperimentError> {
        let end = Operation::EndExchange { exchange };
        self.daemon.operate("ending an exchange", vec![end]).map(drop)
    }

    /// Returns the processes as clients.
    pub fn ids(&self) -> &[CurrencyRef] {
        &self.ids
    }

    /// Returns the allotd.
    pub fn daemon(&self) -> &Daemon {
        self.daemon
    }

    /// Returns the iterations so far.
    pub fn iterations(&self) -> Vec<u64> {
        self.workers.iterations()
    }

    /// Waits for `seconds`. Returns the work of each process. `each` is called at every look.
    pub fn pass(
        &mut self,
        context: &mut ExperimentContext,
        seconds: f64,
        label: &str,
        each: &mut dyn FnMut(&TradingSession) -> Result<(), ExperimentError>,
    ) -> Result<Vec<StretchUsage>, ExperimentError> {
        let begun_ns = monotonic_ns();
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
            each(self)?;
            if looks % LOOKS_PER_REPORT == 0 {
                self.workers.check()?;
                self.daemon.check()?;
                context.report(at, label, self.rows(&before), "allot");
            }
            looks += 1;
            std::thread::sleep(LOOK_INTERVAL.min(Duration::from_secs_f64(seconds - at)));
        }
        let (after, took) = (self.counts()?, (monotonic_ns() - begun_ns) as f64 / 1e9);
        context.elapsed += seconds;
        let did = before.iter().zip(&after).map(|(before, after)| StretchUsage {
            seconds: took,
            iterations: after.iterations - before.iterations,
            cpu_ns: after.cpu_ns.saturating_sub(before.cpu_ns),
            cpu_wait_ns: after.cpu_wait_ns.saturating_sub(before.cpu_wait_ns),
            read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
        });
        Ok(did.collect())
    }

    /// Returns the work of each so far.
    fn counts(&self) -> Result<Vec<StretchUsage>, ExperimentError> {
        let cpu_ns = self.workers.cpu_ns()?;
        let counts = self.workers.list().iter().zip(self.workers.iterations()).zip(cpu_ns);
        let counts = counts.map(|((worker, iterations), cpu_ns)| {
            let (cpu_wait_ns, read_bytes) = (cpu_wait_ns(worker.pid)?, read_bytes(worker.pid)?);
            Ok(StretchUsage { seconds: 0.0, iterations, cpu_ns, cpu_wait_ns, read_bytes })
        });
        counts.collect()
    }

    /// Returns the disk's shares, for a live display.
    fn rows(&self, before: &[StretchUsage]) -> Vec<ProgressRow> {
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

/// Returns the time for which a process of one thread was runnable and did not run; 0 where the
/// kernel does not count it.
fn cpu_wait_ns(pid: u32) -> Result<u64, ExperimentError> {
    let path = format!("/proc/{pid}/schedstat");
    let text = std::fs::read_to_string(&path).map_err(ExperimentError::system(&path))?;
    Ok(text.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0))
}

/// Returns the bytes that the disk read for a process, as getrusage counts them.
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
        let did =
            |seconds, iterations| StretchUsage { seconds, iterations, ..StretchUsage::default() };
        let mut sum = did(2.0, 10);
        sum.add(&did(3.0, 40));
        assert_eq!(sum, did(5.0, 50));
        assert!((sum.progress() - 10.0).abs() < 1e-9);
    }
}
