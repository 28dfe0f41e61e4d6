//! Runs one experiment of the catalogue.

use crate::catalogue::EXPERIMENTS;
use crate::error::ExperimentError;
use crate::experiment::{CpuChoice, DaemonChoice, EnforcerChoice, Experiment, Live};
use crate::harness::context::ExperimentContext;
use crate::harness::cpus::{allowed_cpus, usable};
use crate::harness::interrupt::Interrupts;
use crate::harness::needs::{Machine, Need};
use crate::harness::options::RunOptions;
use crate::harness::progress::Progress;
use crate::report::outcome::{Outcome, check_writable};
use crate::simulation::plan::Plan;
use std::path::PathBuf;

/// The longest experiment: a day.
const SECONDS_MAX: f64 = 86_400.0;

/// The options of a simulated run.
#[derive(Clone, Debug, Default)]
pub struct SimulateOptions {
    /// Length of each run, in seconds of virtual time; none: the experiment's usual one.
    pub seconds: Option<f64>,
    /// Seed of all random number generators.
    pub seed: u64,
    /// The directory of the results. It is refused at the start if it cannot be written.
    pub out: Option<PathBuf>,
}

/// Returns the experiment of a name.
pub fn find(name: &str) -> Result<&'static Experiment, ExperimentError> {
    let found = EXPERIMENTS.into_iter().find(|experiment| experiment.name == name);
    found.ok_or_else(|| {
        let known = EXPERIMENTS.map(|experiment| experiment.name).join(", ");
        ExperimentError::Unknown { name: name.to_owned(), known }
    })
}

/// Runs an experiment on real processes; takes about [`RunOptions::seconds`]. `progress` is called
/// about four times a second. SIGINT, SIGTERM and SIGHUP end it early, as does
/// [`RunOptions::stop`]: everything is cleaned up and the error is
/// [`ExperimentError::Interrupted`].
///
/// Call it on a thread that lives as long as the call: workloads end with the thread that started
/// them.
pub fn run(
    name: &str,
    options: &RunOptions,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, ExperimentError> {
    let experiment = find(name)?;
    let Some(live) = experiment.live() else {
        return Err(ExperimentError::OnlySimulated { name: name.to_owned() });
    };
    check_seconds(name, options.seconds, live.seconds.least)?;
    check_options(name, live, options)?;
    check_needs(name, live, options, &Machine::look())?;
    if let Some(dir) = &options.out {
        check_writable(dir)?;
    }
    let cpus = match (&options.cpus, live.cpus) {
        (Some(cpus), _) => usable(cpus)?,
        (None, CpuChoice::All) => allowed_cpus()?,
        (None, CpuChoice::Last) => allowed_cpus()?.split_off(allowed_cpus()?.len() - 1),
    };
    let interrupts = Interrupts::catch(options.stop.clone())
        .map_err(ExperimentError::system("catch signals"))?;
    let stop = || interrupts.came();
    let mut context =
        ExperimentContext::new(experiment.name, live.about, options, cpus, &stop, progress)?;
    (live.run)(&mut context)
}

/// Runs an experiment in virtual time. It starts no process and reads no clock.
pub fn simulate(name: &str, options: &SimulateOptions) -> Result<Outcome, ExperimentError> {
    let experiment = find(name)?;
    let Some(simulated) = experiment.simulated() else {
        return Err(ExperimentError::OnlyLive { name: name.to_owned() });
    };
    let seconds = options.seconds.unwrap_or(simulated.seconds.usual);
    check_seconds(name, seconds, simulated.seconds.least)?;
    if let Some(dir) = &options.out {
        check_writable(dir)?;
    }
    let (name, about, seed) = (experiment.name, simulated.about, options.seed);
    Ok((simulated.run)(&Plan { name, about, seconds, seed }))
}

fn check_seconds(name: &str, seconds: f64, least: f64) -> Result<(), ExperimentError> {
    if !seconds.is_finite() || seconds > SECONDS_MAX {
        let what = format!("--seconds cannot be {seconds}; a day is the most");
        return Err(ExperimentError::BadOption(what));
    }
    if seconds < least {
        return Err(ExperimentError::TooShort { name: name.to_owned(), least, asked: seconds });
    }
    Ok(())
}

/// Refuses options that the experiment cannot use.
fn check_options(name: &str, live: &Live, options: &RunOptions) -> Result<(), ExperimentError> {
    let bad = |what: String| Err(ExperimentError::BadOption(what));
    if let Some(ms) = options.quantum_ms.filter(|ms| !(1..=1000).contains(ms)) {
        return bad(format!("a quantum of {ms} ms; it has 1 to 1000"));
    }
    match (live.enforcer, options.enforcer.as_deref()) {
        (EnforcerChoice::WholeMachine, Some("user-level")) => {
            return bad(format!("{name} shares the whole machine: leave out --enforcer"));
        }
        (EnforcerChoice::CgroupAlone, Some(enforcer)) if enforcer != "cgroup" => {
            let what = "shares of a disk are kept by cgroups: leave out --enforcer";
            return bad(what.to_owned());
        }
        _ => {}
    }
    if options.socket.is_some() && live.daemon == DaemonChoice::Own {
        return bad(format!("{name} starts and stops its own allotd; leave out --socket"));
    }
    if options.graph.is_some() && !live.takes_graph {
        return bad(format!("--graph is for cpu-hierarchy; {name} has its own"));
    }
    Ok(())
}

/// Refuses an experiment that the machine lacks something for.
fn check_needs(
    name: &str,
    live: &Live,
    options: &RunOptions,
    machine: &Machine,
) -> Result<(), ExperimentError> {
    let of_enforcer = Need::of_enforcer(options.enforcer.as_deref());
    let mut lacking: Vec<String> = Vec::new();
    for need in live.needs.iter().chain(of_enforcer) {
        lacking.extend(need.lacking(machine).filter(|what| !lacking.contains(what)));
    }
    match lacking.is_empty() {
        true => Ok(()),
        false => {
            let what = lacking.join("; ");
            Err(ExperimentError::Lacking { name: name.to_owned(), what })
        }
    }
}
