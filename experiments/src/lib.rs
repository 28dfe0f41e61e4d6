//! The papers' figures and tables as programs that run on real processes: what the tickets
//! promise beside what was measured, with a bound that is stated before it is judged.
//!
//! [`catalogue`] names the experiments, [`run`] runs one, [`simulate`] runs one in virtual time,
//! [`workload_main`] is the main function of the processes that [`run`] starts. An experiment starts an allotd of its own unless
//! [`RunOptions::socket`] names one. It leaves nothing behind: no process, no file outside
//! [`Outcome::write`]'s directory; also not when it fails or is interrupted.

mod arena;
mod bound;
mod cgroups;
mod compile;
mod contest;
mod cpus;
mod daemon;
mod disk_bench;
mod disk_depth;
mod disk_loads;
mod disk_shares;
mod error;
mod exchange_cpu_disk;
mod exchange_database;
mod exchange_database_figures;
mod exchanges;
mod expected;
mod graph;
mod guest_memory;
mod hierarchy;
mod insulation;
mod interrupt;
mod inversion;
mod latency;
mod loads;
mod locks;
mod look_ups;
mod machine;
mod memory_load;
mod memory_policies;
mod memory_shares;
mod mtr_ls;
mod negotiator_process;
mod negotiators;
mod nice;
mod options;
mod orders;
mod page;
mod paging;
mod players;
mod plot;
mod report;
mod rre;
mod session;
mod simulated;
mod sources;
mod spawn;
mod timeline;
mod tree_cpu;
mod wobble;
mod workers;
mod workload;

pub use contest::Contest;
pub use cpus::{allowed_cpus, parse_cpus, show_cpus};
pub use error::ExperimentError;
pub use graph::{Graph, GraphError};
pub use machine::Machine;
pub use options::{Policy, Progress, ProgressRow, RunOptions};
pub use report::{Check, Compared, Outcome, Report, Row};
pub use simulated::{SimulateOptions, simulate};
pub use wobble::Wobble;
pub use workload::workload_main;

use cgroups::Kernel;
use interrupt::Interrupts;
use session::Bench;

/// An experiment that can be run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExperimentInfo {
    /// What [`run`] takes.
    pub name: &'static str,
    /// In a few words.
    pub title: &'static str,
    /// What it repeats.
    pub paper: &'static str,
    /// What it does and shows, in a sentence or two.
    pub what: &'static str,
    /// The fewest seconds that its phases need.
    pub least_seconds: f64,
    /// Enough to say something on most machines.
    pub usual_seconds: f64,
    /// Whether it starts and stops allotds of its own, and cannot use a running one.
    pub own_allotd: bool,
}

const LIST: [ExperimentInfo; 17] = [
    hierarchy::INFO,
    rre::INFO,
    insulation::INFO,
    nice::INFO,
    latency::INFO,
    compile::INFO,
    spawn::INFO,
    inversion::INFO,
    mtr_ls::INFO,
    memory_shares::INFO,
    memory_policies::INFO,
    guest_memory::INFO,
    disk_shares::INFO,
    disk_depth::INFO,
    exchange_cpu_disk::INFO,
    exchange_database::INFO,
    negotiators::INFO,
];

/// An experiment, and how it can be run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Listed {
    /// Which.
    pub info: ExperimentInfo,
    /// On real processes, by [`run`].
    pub live: bool,
    /// In virtual time, by [`simulate`]: then its seconds are of that.
    pub simulated: Option<ExperimentInfo>,
}

/// Every experiment that runs on real processes.
pub fn list() -> &'static [ExperimentInfo] {
    &LIST
}

/// Every experiment, those that run live first.
pub fn catalogue() -> Vec<Listed> {
    let simulated = |name: &str| simulated::LIST.iter().find(|info| info.name == name).copied();
    let live =
        LIST.iter().map(|info| Listed { info: *info, live: true, simulated: simulated(info.name) });
    let only_simulated = simulated::LIST
        .iter()
        .filter(|info| LIST.iter().all(|live| live.name != info.name))
        .map(|info| Listed { info: *info, live: false, simulated: Some(*info) });
    live.chain(only_simulated).collect()
}

fn unknown(name: &str) -> ExperimentError {
    let known = catalogue().iter().map(|listed| listed.info.name).collect::<Vec<_>>().join(", ");
    ExperimentError::Unknown { name: name.to_owned(), known }
}

/// Runs an experiment; takes about [`RunOptions::seconds`]. `progress` is called about four times
/// a second. SIGINT, SIGTERM and SIGHUP end it early, as does [`RunOptions::stop`]: everything is
/// cleaned up and the error is [`ExperimentError::Interrupted`].
///
/// Call it on a thread that lives as long as the call: workloads end with the thread that started
/// them.
pub fn run(
    name: &str,
    options: &RunOptions,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, ExperimentError> {
    let info = LIST.iter().find(|info| info.name == name).ok_or_else(|| {
        match simulated::LIST.iter().any(|info| info.name == name) {
            true => ExperimentError::OnlySimulated { name: name.to_owned() },
            false => unknown(name),
        }
    })?;
    options.check(info)?;
    if let Some(dir) = &options.out {
        report::check_writable(dir)?;
    }
    let cpus = match (&options.cpus, name) {
        (Some(cpus), _) => cpus::usable(cpus)?,
        (None, "cpu-hierarchy" | "memory-shares" | "memory-policies" | "guest-memory") => {
            allowed_cpus()?
        }
        // The papers' machines had one CPU, and on several no two processes can have 4:1.
        (None, _) => allowed_cpus()?.split_off(allowed_cpus()?.len() - 1),
    };
    let interrupts = Interrupts::catch(options.stop.clone())
        .map_err(ExperimentError::system("catch signals"))?;
    let dir = tempfile::Builder::new()
        .prefix("allot-exp-")
        .tempdir()
        .map_err(ExperimentError::system("make a temporary directory"))?;
    let stop = || interrupts.came();
    let mut bench = Bench {
        options,
        machine: Machine::look(&cpus),
        kernel: Kernel::look(),
        cpus,
        dir,
        stop: &stop,
        progress,
        elapsed: 0.0,
        total: options.seconds,
    };
    let experiment = match name {
        "cpu-hierarchy" => hierarchy::run,
        "rre" => rre::run,
        "insulation" => insulation::run,
        "nice" => nice::run,
        "latency" => latency::run,
        "compile" => compile::run,
        "spawn" => spawn::run,
        "inversion" => inversion::run,
        "memory-shares" => memory_shares::run,
        "memory-policies" => memory_policies::run,
        "guest-memory" => guest_memory::run,
        "disk-shares" => disk_shares::run,
        "disk-queue-depth" => disk_depth::run,
        "exchange-cpu-disk" => exchange_cpu_disk::run,
        "exchange-database" => exchange_database::run,
        "negotiators" => negotiators::run,
        _ => mtr_ls::run,
    };
    experiment(&mut bench)
}
