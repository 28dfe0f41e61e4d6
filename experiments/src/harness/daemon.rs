//! The allotd that an experiment starts for itself, or a running one that it uses.

use crate::cpu_list::show_cpus;
use crate::error::ExperimentError;
use crate::harness::log_file::log_file;
use crate::harness::options::RunOptions;
use crate::scheduling_policy::Policy;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wire::{
    Client, ClientError, DoctorResource, EnforcerView, LegRef, MarketView, Operation,
    OperationsDone, Sample,
};

/// A funding policy that manages nobody on its own.
const NOBODY: &str =
    "[users]\nmanaged = false\n[system]\nmanaged = false\n[containers]\nmanaged = false\n";

/// Timeout of a start: verifying a scheduler takes seconds of CPU time on an emulated CPU.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Timeout of an end, after which it is killed.
const END_LIMIT: Duration = Duration::from_secs(20);
/// The most operations in one step.
const BATCH_MAX: usize = 1000;

/// A connection to an allotd. Dropping it ends the daemon where it is our own.
pub(crate) struct Daemon {
    client: Client,
    own: Option<OwnDaemon>,
    enforcer: EnforcerView,
}

/// The settings of an own allotd.
#[derive(Clone, Debug)]
pub(crate) struct DaemonSettings {
    pub policy: Policy,
    /// Milliseconds between draws; none leaves the choice to the enforcer.
    pub quantum_ms: Option<u64>,
    /// Seed of the policy's random number generator.
    pub seed: u64,
    /// Whether a client that waits for a lock lends its tickets.
    pub transfers: bool,
    /// The way in which memory is shared; none leaves that to allotd.
    pub memory: Option<DaemonMemory>,
    /// The file with the speeds of disks; none: allotd's own.
    pub disks: Option<PathBuf>,
}

/// The way in which an own allotd shares memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DaemonMemory {
    /// The policy, as its `--memory-policy`.
    pub policy: &'static str,
    /// Limit of all clients together, in MiB.
    pub limit_mib: u64,
    /// Thresholds for guests, as its `--guest-memory`.
    pub guests: Option<&'static str>,
}

impl DaemonSettings {
    /// Returns the settings that the options ask for.
    pub fn of(options: &RunOptions) -> DaemonSettings {
        let RunOptions { policy, quantum_ms, seed, .. } = *options;
        DaemonSettings { policy, quantum_ms, seed, transfers: true, memory: None, disks: None }
    }

    /// Writes the arguments of an allotd with its state in a directory.
    fn arguments(
        &self,
        options: &RunOptions,
        cpus: &[u32],
        state: &Path,
    ) -> Result<Vec<OsString>, ExperimentError> {
        let mut arguments: Vec<OsString> = Vec::new();
        let mut option = |name: &str, value: &OsStr| {
            arguments.extend([OsString::from(name), value.to_owned()]);
        };
        option("--state-dir", state.as_os_str());
        option("--socket", state.join(SOCKET).as_os_str());
        option("--policy", self.policy.as_str().as_ref());
        if let Some(quantum_ms) = self.quantum_ms {
            option("--quantum-ms", quantum_ms.to_string().as_ref());
        }
        option("--cpus", show_cpus(cpus).as_ref());
        if let Some(enforcer) = &options.enforcer {
            option("--enforcer", enforcer.as_ref());
        }
        for setting in &options.set {
            option("--set", setting.as_ref());
        }
        if let Some(memory) = self.memory {
            option("--memory-policy", memory.policy.as_ref());
            option("--memory-limit", format!("{}M", memory.limit_mib).as_ref());
            if let Some(guests) = memory.guests {
                option("--guest-memory", guests.as_ref());
            }
        }
        if options.shares_the_machine() {
            // A policy that names nobody: it manages the processes that we give it.
            let nobody = state.join("policy.toml");
            std::fs::write(&nobody, NOBODY)
                .map_err(ExperimentError::system("write a funding policy"))?;
            option("--funding-policy", nobody.as_os_str());
        } else {
            arguments.push("--user".into());
        }
        if !self.transfers {
            arguments.push("--no-transfer".into());
        }
        arguments.push("--with-parent".into());
        if let Some(disks) = &self.disks {
            arguments.extend(["--disks-file".into(), disks.into()]);
        }
        Ok(arguments)
    }
}

/// Name of the socket in the state directory.
const SOCKET: &str = "socket";

/// An allotd that we started.
struct OwnDaemon {
    program: PathBuf,
    /// All arguments but the seed.
    arguments: Vec<OsString>,
    seed: u64,
    /// None while it is stopped.
    child: Option<Child>,
    log: PathBuf,
}

impl Daemon {
    /// Starts an own allotd with a state directory under `dir`, or connects to the one at
    /// [`RunOptions::socket`]. An own one is private, unless its enforcer shares the whole machine.
    pub fn start(
        options: &RunOptions,
        settings: &DaemonSettings,
        cpus: &[u32],
        dir: &Path,
        stop: &dyn Fn() -> bool,
    ) -> Result<Daemon, ExperimentError> {
        if let Some(socket) = &options.socket {
            let client = Client::new(socket);
            let status = client.status().map_err(doing("asking allotd for its status"))?;
            return Ok(Daemon { client, own: None, enforcer: status.cpu });
        }
        let program = find_allotd(options)?;
        let number = std::fs::read_dir(dir).map_or(0, Iterator::count);
        let state = dir.join(format!("allotd-{number}"));
        std::fs::create_dir_all(&state)
            .map_err(ExperimentError::system("make a state directory"))?;
        let arguments = settings.arguments(options, cpus, &state)?;
        let log = state.join("log");
        let mut own = OwnDaemon { program, arguments, seed: settings.seed, child: None, log };
        let client = Client::new(state.join(SOCKET));
        let enforcer = own.start(&client, stop)?;
        Ok(Daemon { client, own: Some(own), enforcer })
    }

    /// Ends an own allotd for a while; the kernel alone shares the CPU then.
    pub fn pause(&mut self) {
        if let Some(own) = &mut self.own {
            own.end();
        }
    }

    /// Starts an own allotd again. It finds its clients in its ledger, and draws other numbers than
    /// before.
    pub fn resume(&mut self, stop: &dyn Fn() -> bool) -> Result<(), ExperimentError> {
        if let Some(own) = self.own.as_mut().filter(|own| own.child.is_none()) {
            own.seed = own.seed.wrapping_add(1);
            own.start(&self.client, stop)?;
        }
        Ok(())
    }

    /// Returns its CPU enforcer.
    pub fn enforcer(&self) -> &EnforcerView {
        &self.enforcer
    }

    /// Returns whether the experiment started it.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Returns an error if it ended.
    pub fn check(&mut self) -> Result<(), ExperimentError> {
        self.own.as_mut().map_or(Ok(()), OwnDaemon::check)
    }

    /// Applies operations, in several steps where they are many. Returns the ids that they made.
    pub fn operate(
        &self,
        what: &str,
        operations: Vec<Operation>,
    ) -> Result<Vec<Option<u64>>, ExperimentError> {
        let mut made = Vec::with_capacity(operations.len());
        for batch in operations.chunks(BATCH_MAX) {
            let OperationsDone { results, .. } =
                self.client.operate_all(batch.to_vec()).map_err(doing(what))?;
            made.extend(results.iter().map(|result| result.created));
        }
        Ok(made)
    }

    /// Makes an exchange. Returns its number.
    pub fn exchange(&self, legs: Vec<LegRef>) -> Result<u64, ExperimentError> {
        let operation = Operation::Exchange { legs, until_s: None };
        let done = self.client.operate_all(vec![operation]).map_err(doing("exchanging tickets"))?;
        Ok(done.results[0].exchange.expect("an exchange that was made has a number"))
    }

    /// Returns its socket.
    pub fn socket(&self) -> &Path {
        self.client.socket()
    }

    /// Returns the offers and exchanges.
    pub fn market(&self) -> Result<MarketView, ExperimentError> {
        self.client.market().map_err(doing("asking allotd for the market"))
    }

    /// Returns the enforcers of other resources than the CPU.
    pub fn others(&self) -> Result<Vec<DoctorResource>, ExperimentError> {
        Ok(self.client.status().map_err(doing("asking allotd for its status"))?.others)
    }

    /// Returns the last measurements.
    pub fn sample(&self) -> Result<Sample, ExperimentError> {
        self.client.sample().map_err(doing("asking allotd for a sample"))
    }

    /// Returns the guaranteed parts of the CPU, by the currency's id.
    pub fn guaranteed(&self) -> Result<BTreeMap<u64, f64>, ExperimentError> {
        let view = self.client.ledger().map_err(doing("asking allotd for the ledger"))?;
        let cpu = |currency: &wire::CurrencyView| {
            let value = currency.resources.iter().find(|value| value.resource == "cpu")?;
            Some((currency.id, value.guaranteed))
        };
        Ok(view.currencies.iter().filter_map(cpu).collect())
    }
}

fn doing(what: impl Into<String>) -> impl FnOnce(ClientError) -> ExperimentError {
    let doing = what.into();
    move |cause| ExperimentError::Client { doing, cause }
}

impl OwnDaemon {
    fn start(
        &mut self,
        client: &Client,
        stop: &dyn Fn() -> bool,
    ) -> Result<EnforcerView, ExperimentError> {
        let system = ExperimentError::system;
        let (stdout, stderr) = log_file(&self.log).map_err(system("write a log"))?;
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .args(["--seed", &self.seed.to_string()])
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            // A Ctrl-C at the terminal is for us alone; we end allotd after the workloads.
            .process_group(0)
            .spawn()
            .map_err(system(&format!("start {}", self.program.display())))?;
        self.child = Some(child);
        let begun = Instant::now();
        loop {
            if stop() {
                return Err(ExperimentError::Interrupted);
            }
            self.check()?;
            match client.status() {
                Ok(status) => return Ok(status.cpu),
                Err(ClientError::Unreachable { .. }) if begun.elapsed() < START_LIMIT => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) => {
                    let what = format!("did not get ready: {error}");
                    return Err(ExperimentError::DaemonFailed { what, log: self.last_words() });
                }
            }
        }
    }

    fn check(&mut self) -> Result<(), ExperimentError> {
        let Some(child) = &mut self.child else { return Ok(()) };
        let ended = child.try_wait().map_err(ExperimentError::system("wait for allotd"))?;
        match ended {
            Some(status) => {
                let what = format!("ended by itself ({status})");
                Err(ExperimentError::DaemonFailed { what, log: self.last_words() })
            }
            None => Ok(()),
        }
    }

    fn last_words(&self) -> String {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        let last = &lines[lines.len().saturating_sub(10)..];
        last.iter().map(|line| format!("\n  {line}")).collect()
    }

    fn end(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // Asked first: it puts every process back as it was. If it will not, its guardian does.
        // Failures: it has ended already.
        let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
        let begun = Instant::now();
        while begun.elapsed() < END_LIMIT {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for OwnDaemon {
    fn drop(&mut self) {
        self.end();
    }
}

/// Finds the binary: the one that the options name, $ALLOTD, the one beside this program (or, for
/// tests, one directory above), the one in $PATH.
pub(crate) fn find_allotd(options: &RunOptions) -> Result<PathBuf, ExperimentError> {
    let named = options.allotd.clone().or_else(|| std::env::var_os("ALLOTD").map(PathBuf::from));
    if let Some(path) = named {
        return match path.is_file() {
            true => Ok(path),
            false => {
                let what = format!("there is no allotd at {}", path.display());
                Err(ExperimentError::BadOption(what))
            }
        };
    }
    let here = std::env::current_exe().map_err(ExperimentError::system("find this program"))?;
    let beside = here.ancestors().skip(1).take(2).map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = beside.chain(std::env::split_paths(&path));
    all.map(|dir| dir.join("allotd"))
        .find(|path| path.is_file())
        .ok_or(ExperimentError::NoDaemon { beside: here })
}
