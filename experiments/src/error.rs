//! The reasons why an experiment ends without a report.

use crate::funding::graph::GraphError;
use std::io;
use std::path::PathBuf;

/// The reason why an experiment ended without a report.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the fields")]
pub enum ExperimentError {
    /// No experiment has that name.
    #[error("no experiment is called `{name}`; there are {known}")]
    Unknown { name: String, known: String },
    /// The experiment has no version for real processes.
    #[error("{name} runs in virtual time only; add --simulate")]
    OnlySimulated { name: String },
    /// The experiment has no version for virtual time.
    #[error("{name} runs on real processes only; leave out --simulate")]
    OnlyLive { name: String },
    /// This machine lacks something that the experiment needs.
    #[error("{name} cannot run here: {what}")]
    Lacking { name: String, what: String },
    /// Fewer seconds than the experiment's phases need.
    #[error("{name} needs at least {least} seconds for its phases; --seconds says {asked}")]
    TooShort { name: String, least: f64, asked: f64 },
    /// An option that this experiment, or none, can use.
    #[error("{0}")]
    BadOption(String),
    /// A funding graph that cannot be used.
    #[error("{0}")]
    Graph(#[from] GraphError),
    /// A CPU that this process may not use.
    #[error("CPU {cpu} cannot be used here: this process may run on CPUs {allowed}")]
    NoSuchCpu { cpu: u32, allowed: String },
    /// The results cannot be written.
    #[error("cannot write {path}: {cause}")]
    CannotWrite { path: PathBuf, cause: io::Error },
    /// The system refused something.
    #[error("cannot {what}: {cause}")]
    System { what: String, cause: io::Error },
    /// There is no daemon to start; `beside` is the running program.
    #[error(
        "cannot find allotd beside {beside}, in $ALLOTD or in $PATH; build it with `cargo build`, \
         or name a running one with --socket"
    )]
    NoDaemon { beside: PathBuf },
    /// The daemon did not start, or ended. `log` has its last lines.
    #[error("allotd {what}{log}")]
    DaemonFailed { what: String, log: String },
    /// The daemon refused, or cannot be reached.
    #[error("while {doing}: {cause}")]
    Client { doing: String, cause: wire::ClientError },
    /// A workload process ended before its time. `log` has its output.
    #[error("workload {name} (pid {pid}) ended early: {how}{log}")]
    WorkloadEnded { name: String, pid: u32, how: String, log: String },
    /// Slices are too short for the time that it takes to start and stop allotd, in seconds.
    #[error(
        "it took {took:.1} s to switch between allot and the kernel's default, in a slice of \
         {slice:.1} s; give more with --seconds"
    )]
    SwitchTooSlow { took: f64, slice: f64 },
    /// SIGINT, SIGTERM or SIGHUP came, or the caller's stop flag was set. All was cleaned up.
    #[error("interrupted")]
    Interrupted,
}

impl ExperimentError {
    /// The exit status of a command that ends with this error: 130 (128 + SIGINT) when it was
    /// interrupted, 2 when there is no report for another reason.
    pub fn exit_status(&self) -> u8 {
        match self {
            ExperimentError::Interrupted => 130,
            _ => 2,
        }
    }

    /// Wraps an error of the system with what was tried.
    pub(crate) fn system(what: &str) -> impl FnOnce(io::Error) -> ExperimentError + use<> {
        let what = what.to_owned();
        move |cause| ExperimentError::System { what, cause }
    }
}
