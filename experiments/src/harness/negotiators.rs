//! `allot negotiate` for two clients, as processes of their own, with the clients' iterations as
//! progress.

use crate::error::ExperimentError;
use crate::harness::log_file::log_file;
use command_line::programs;
use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wire::CurrencyRef;

/// Timeout of an end, after which it is killed.
const END_LIMIT: Duration = Duration::from_secs(20);

/// Two negotiators. Dropping them ends them.
pub(crate) struct NegotiatorProcesses {
    each: Vec<Negotiator>,
}

struct Negotiator {
    child: Child,
    progress: File,
    log: PathBuf,
}

/// The records of both negotiators.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NegotiatorRecord {
    /// Their output.
    pub said: [String; 2],
    /// Number of steps that helped.
    pub kept: [usize; 2],
    /// Number of steps that did not.
    pub back: [usize; 2],
    pub cpu_seconds: [f64; 2],
}

impl NegotiatorProcesses {
    /// Starts negotiators for the two clients, with windows of this length. Their files are made in
    /// a directory, and named after the load.
    pub fn start(
        load: &str,
        dir: &Path,
        socket: &Path,
        clients: &[CurrencyRef],
        window: Duration,
    ) -> Result<NegotiatorProcesses, ExperimentError> {
        let system = ExperimentError::system;
        let program = programs::path("allot-negotiate");
        let mut started = NegotiatorProcesses { each: Vec::new() };
        for client in clients {
            let name = format!("negotiator-{load}-{}", client.0.trim_start_matches('#'));
            let counted = dir.join(format!("{name}-progress"));
            let progress = File::create(&counted).map_err(system("make a file for progress"))?;
            tell(&progress, 0).map_err(system("write progress"))?;
            let log = dir.join(format!("{name}-log"));
            let (stdout, stderr) = log_file(&log).map_err(system("write a log"))?;
            let child = Command::new(&program)
                .arg("--socket")
                .arg(socket)
                .args(["--verbose", "--for", &client.0, "--window"])
                .args([&format!("{}ms", window.as_millis()), "--progress"])
                .arg(format!("file:{}", counted.display()))
                .stdin(Stdio::null())
                .stdout(stdout)
                .stderr(stderr)
                .spawn()
                .map_err(system("start a negotiator"))?;
            started.each.push(Negotiator { child, progress, log });
        }
        Ok(started)
    }

    /// Passes on the iterations of all clients, of which the first two have negotiators. Returns an
    /// error if a negotiator has ended.
    pub fn tell(&mut self, iterations: &[u64]) -> Result<(), ExperimentError> {
        let system = ExperimentError::system;
        for (negotiator, count) in self.each.iter_mut().zip(iterations) {
            tell(&negotiator.progress, *count).map_err(system("write progress"))?;
            let ended = negotiator.child.try_wait().map_err(system("wait for a negotiator"))?;
            if let Some(status) = ended {
                let said = std::fs::read_to_string(&negotiator.log).unwrap_or_default();
                let cause = io::Error::other(format!("it ended ({status}): {}", said.trim()));
                return Err(system("negotiate")(cause));
            }
        }
        Ok(())
    }

    /// Ends them. Returns their records.
    pub fn end(mut self) -> Result<NegotiatorRecord, ExperimentError> {
        let mut record = NegotiatorRecord::default();
        for (place, negotiator) in self.each.iter_mut().enumerate() {
            record.cpu_seconds[place] = negotiator
                .cpu_seconds()
                .map_err(ExperimentError::system("read a negotiator's CPU time"))?;
            negotiator.end();
            let said = std::fs::read_to_string(&negotiator.log).unwrap_or_default();
            record.kept[place] = verdicts(&said, "kept: ");
            record.back[place] = verdicts(&said, "taken back: ");
            record.said[place] = said;
        }
        Ok(record)
    }
}

/// Writes a number of the same length each time: a reader always finds a whole number.
fn tell(file: &File, count: u64) -> io::Result<()> {
    file.write_all_at(format!("{count:020}\n").as_bytes(), 0)
}

fn verdicts(said: &str, word: &str) -> usize {
    said.lines().filter(|line| line.contains(word)).count()
}

impl Negotiator {
    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    fn cpu_seconds(&self) -> io::Result<f64> {
        let clock: ClockId = clock_getcpuclockid(self.pid())?;
        let time = clock_gettime(clock)?;
        Ok(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
    }

    /// Ends it. It is asked first, so that it ends an exchange on trial.
    fn end(&mut self) {
        // Failures: it has ended already.
        let _ = kill(self.pid(), Signal::SIGTERM);
        let begun = Instant::now();
        while begun.elapsed() < END_LIMIT {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Negotiator {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_counted() {
        let said = "a #3: offered\na #3: kept: +12.3 % (exchange 3)\na #3: taken back: -5.0 %\n\
                    a #3: kept: +2.0 % (exchange 4)\n";
        assert_eq!((verdicts(said, "kept: "), verdicts(said, "taken back: ")), (2, 1));
    }

    #[test]
    fn progress_is_one_number_whenever_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("progress");
        let file = File::create(&path).unwrap();
        for count in [7, u64::MAX, 8] {
            tell(&file, count).unwrap();
            let said = std::fs::read_to_string(&path).unwrap();
            assert_eq!(said.trim().parse::<u64>().unwrap(), count);
        }
    }
}
