//! Why an experiment did not end with a report.

use crate::graph::GraphError;
use std::io;
use std::path::PathBuf;

/// Why an experiment did not end with a report.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// No experiment has that name.
    #[error("no experiment is called `{name}`; there are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Those that exist.
        known: String,
    },
    /// An experiment without a version for real processes.
    #[error("{name} runs in virtual time only; add --simulate")]
    OnlySimulated {
        /// Which.
        name: String,
    },
    /// An experiment without a version for virtual time.
    #[error("{name} runs on real processes only; leave out --simulate")]
    OnlyLive {
        /// Which.
        name: String,
    },
    /// Fewer seconds than its phases need.
    #[error("{name} needs at least {least} seconds for its phases; --seconds says {asked}")]
    TooShort {
        /// Which experiment.
        name: String,
        /// What it needs.
        least: f64,
        /// What was asked for.
        asked: f64,
    },
    /// An option that this experiment, or none, can use.
    #[error("{0}")]
    BadOption(String),
    /// A funding graph that cannot be used.
    #[error("{0}")]
    Graph(#[from] GraphError),
    /// A CPU that this process may not use.
    #[error("CPU {cpu} cannot be used here: this process may run on CPUs {allowed}")]
    NoSuchCpu {
        /// Which was asked for.
        cpu: u32,
        /// Those that can be used, as in `0-1,3`.
        allowed: String,
    },
    /// More seats needed than there are.
    #[error("{what} needs {needed} CPUs and there are {there}; give more with --cpus")]
    TooFewCpus {
        /// What needs them.
        what: String,
        /// How many.
        needed: usize,
        /// How many there are.
        there: usize,
    },
    /// The results have nowhere to go.
    #[error("cannot write {path}: {cause}")]
    CannotWrite {
        /// Where.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// Something that the system refused.
    #[error("cannot {what}: {cause}")]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        cause: io::Error,
    },
    /// There is no daemon to start.
    #[error(
        "cannot find allotd beside {beside}, in $ALLOTD or in $PATH; build it with `cargo build`, \
         or name a running one with --socket"
    )]
    NoDaemon {
        /// The running program.
        beside: PathBuf,
    },
    /// The daemon did not start, or ended.
    #[error("allotd {what}{log}")]
    DaemonFailed {
        /// What happened.
        what: String,
        /// Its last words, each on a line of its own; empty where there are none.
        log: String,
    },
    /// The daemon refused, or cannot be reached.
    #[error("while {doing}: {cause}")]
    Client {
        /// What was asked of it.
        doing: String,
        /// What it said.
        cause: wire::ClientError,
    },
    /// A workload process ended before its time.
    #[error("workload {name} (pid {pid}) ended early: {how}{log}")]
    WorkloadEnded {
        /// Its client.
        name: String,
        /// Its process.
        pid: u32,
        /// Its exit status in words.
        how: String,
        /// What it said; empty where it said nothing.
        log: String,
    },
    /// Slices are too short for the time that it takes to start and stop allotd.
    #[error(
        "it took {took:.1} s to switch between allot and the kernel's default, in a slice of \
         {slice:.1} s; give more with --seconds"
    )]
    SwitchTooSlow {
        /// Seconds that it took.
        took: f64,
        /// Seconds of the slice.
        slice: f64,
    },
    /// SIGINT, SIGTERM or SIGHUP came, or the caller's stop flag was set. All was cleaned up.
    #[error("interrupted")]
    Interrupted,
}

impl ExperimentError {
    /// The exit status of a command that ends with this: 130 when interrupted (128 + SIGINT), 2
    /// when the request itself was wrong, else 1.
    pub fn exit_status(&self) -> u8 {
        match self {
            ExperimentError::Interrupted => 130,
            ExperimentError::Unknown { .. }
            | ExperimentError::OnlySimulated { .. }
            | ExperimentError::OnlyLive { .. }
            | ExperimentError::TooShort { .. }
            | ExperimentError::BadOption(_)
            | ExperimentError::Graph(_)
            | ExperimentError::NoSuchCpu { .. } => 2,
            _ => 1,
        }
    }

    /// What the system refused.
    pub(crate) fn system(what: &str) -> impl FnOnce(io::Error) -> ExperimentError + use<> {
        let what = what.to_owned();
        move |cause| ExperimentError::System { what, cause }
    }
}
