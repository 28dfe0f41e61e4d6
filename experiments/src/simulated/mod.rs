//! Experiments in virtual time: the simulated machine under the ledger, the valuation and the policies themselves.
//!
//! An experiment may have the name of one that runs on real processes; then both repeat the same figure. Here
//! nothing is measured but what the simulated machine counts, so equal seeds give equal reports.

mod disk_queue_depth;
mod disk_shares;
mod exchange_cpu_disk;
mod exchange_database;
mod exchanging;
mod four_readers;
mod guest_memory;
mod market;
mod memory_policies;
mod memory_shares;
mod negotiators;
mod report;
mod scene;

use crate::{ExperimentError, ExperimentInfo, Outcome};
use std::path::PathBuf;

/// Those that can be simulated.
pub(crate) const LIST: [ExperimentInfo; 9] = [
    memory_shares::INFO,
    memory_policies::INFO,
    guest_memory::INFO,
    disk_shares::INFO,
    disk_queue_depth::INFO,
    exchange_cpu_disk::INFO,
    exchange_database::INFO,
    negotiators::INFO,
    market::INFO,
];

/// How an experiment is to be simulated.
#[derive(Clone, Debug, Default)]
pub struct SimulateOptions {
    /// How long each of its runs is, in seconds of virtual time; none: what the experiment needs.
    pub seconds: Option<f64>,
    /// Decides all that is left to chance.
    pub seed: u64,
    /// Where the results will go: refused at once if they cannot.
    pub out: Option<PathBuf>,
}

/// Runs an experiment in virtual time. It starts no process and reads no clock.
pub fn simulate(name: &str, options: &SimulateOptions) -> Result<Outcome, ExperimentError> {
    let Some(info) = LIST.iter().find(|info| info.name == name) else {
        return Err(match crate::LIST.iter().any(|info| info.name == name) {
            true => ExperimentError::OnlyLive { name: name.to_owned() },
            false => crate::unknown(name),
        });
    };
    let seconds = options.seconds.unwrap_or(info.usual_seconds);
    if !seconds.is_finite() || seconds > 86_400.0 {
        let what = format!("--seconds cannot be {seconds}; a day is the most");
        return Err(ExperimentError::BadOption(what));
    }
    if seconds < info.least_seconds {
        let (name, least) = (info.name.to_owned(), info.least_seconds);
        return Err(ExperimentError::TooShort { name, least, asked: seconds });
    }
    if let Some(dir) = &options.out {
        crate::report::check_writable(dir)?;
    }
    let run = match info.name {
        "memory-shares" => memory_shares::run,
        "memory-policies" => memory_policies::run,
        "guest-memory" => guest_memory::run,
        "disk-shares" => disk_shares::run,
        "disk-queue-depth" => disk_queue_depth::run,
        "exchange-cpu-disk" => exchange_cpu_disk::run,
        "exchange-database" => exchange_database::run,
        "negotiators" => negotiators::run,
        _ => market::run,
    };
    Ok(run(&scene::Plan { info: *info, seconds, seed: options.seed }))
}
