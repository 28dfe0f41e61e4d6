//! How an experiment is to be run, and what it tells while it runs.

use crate::{ExperimentError, ExperimentInfo};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The policies that an experiment can ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Winners are drawn.
    #[default]
    Lottery,
    /// Winners follow from what all had.
    Stride,
    /// Each has a quota, and its place in a list (paper 2).
    MtrLs,
}

impl Policy {
    const ALL: [Policy; 3] = [Policy::Lottery, Policy::Stride, Policy::MtrLs];

    /// Its name as on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Policy::Lottery => "lottery",
            Policy::Stride => "stride",
            Policy::MtrLs => "mtr-ls",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Policy {
    type Err = ExperimentError;

    fn from_str(name: &str) -> Result<Policy, ExperimentError> {
        Policy::ALL.into_iter().find(|policy| policy.as_str() == name).ok_or_else(|| {
            let what =
                format!("no policy is called `{name}`; there are lottery, stride and mtr-ls");
            ExperimentError::BadOption(what)
        })
    }
}

/// How an experiment is to be run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// How long, in all, in seconds; setting up and cleaning up come on top.
    pub seconds: f64,
    /// Of the policy's random numbers.
    pub seed: u64,
    /// Who wins a quantum.
    pub policy: Policy,
    /// As allotd's `--enforcer`; what allotd thinks best for one's own processes where it is left
    /// out. `sched-ext` and `cgroup` need root: the own allotd is then one for the whole machine.
    pub enforcer: Option<String>,
    /// Milliseconds between draws, 1 to 1000; what the enforcer thinks best where it is left out.
    pub quantum_ms: Option<u64>,
    /// The CPUs to use; the experiment's own choice where they are left out (all for
    /// `cpu-hierarchy`, the last one for the others).
    pub cpus: Option<Vec<u32>>,
    /// Another funding graph for `cpu-hierarchy`.
    pub graph: Option<PathBuf>,
    /// Where the results will go: that it can be written is made sure of first.
    pub out: Option<PathBuf>,
    /// The socket of a running allotd to use instead of an own one. Its policy, seed, quantum,
    /// enforcer and CPUs are then as they are there.
    pub socket: Option<PathBuf>,
    /// The allotd to start; else $ALLOTD, the one beside this program, or the one in $PATH.
    pub allotd: Option<PathBuf>,
    /// The words that run [`workload_main`](crate::workload_main); else this program with
    /// `workload`.
    pub workload: Option<Vec<OsString>>,
    /// Setting it ends the experiment early; signals set it too.
    pub stop: Arc<AtomicBool>,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            seconds: 30.0,
            seed: 1,
            policy: Policy::default(),
            enforcer: None,
            quantum_ms: None,
            cpus: None,
            graph: None,
            out: None,
            socket: None,
            allotd: None,
            workload: None,
            stop: Arc::default(),
        }
    }
}

impl RunOptions {
    /// Whether the enforcer is one for the whole machine.
    pub(crate) fn shares_the_machine(&self) -> bool {
        matches!(self.enforcer.as_deref(), Some("sched-ext" | "cgroup"))
    }

    /// With an enforcer for the whole machine: cgroups, where none is named.
    pub(crate) fn sharing_the_machine(&self) -> RunOptions {
        let enforcer = self.enforcer.clone().or_else(|| Some("cgroup".to_owned()));
        RunOptions { enforcer, ..self.clone() }
    }

    pub(crate) fn check(&self, info: &ExperimentInfo) -> Result<(), ExperimentError> {
        let bad = |what: String| Err(ExperimentError::BadOption(what));
        if !self.seconds.is_finite() || self.seconds > 86_400.0 {
            return bad(format!("--seconds cannot be {}; a day is the most", self.seconds));
        }
        if self.seconds < info.least_seconds {
            let (least, asked) = (info.least_seconds, self.seconds);
            return Err(ExperimentError::TooShort { name: info.name.to_owned(), least, asked });
        }
        if let Some(ms) = self.quantum_ms.filter(|ms| !(1..=1000).contains(ms)) {
            return bad(format!("a quantum of {ms} ms; it has 1 to 1000"));
        }
        if self.shares_the_machine() && !nix::unistd::geteuid().is_root() {
            let enforcer = self.enforcer.as_deref().unwrap_or_default();
            return bad(format!("--enforcer {enforcer} shares the whole machine: it needs root"));
        }
        if self.socket.is_some() && info.own_allotd {
            return bad(format!(
                "{} starts and stops its own allotd; leave out --socket",
                info.name
            ));
        }
        if self.graph.is_some() && info.name != "cpu-hierarchy" {
            return bad(format!("--graph is for cpu-hierarchy; {} has its own", info.name));
        }
        Ok(())
    }
}

/// What an experiment tells about four times a second, for a live display.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Seconds so far.
    pub elapsed: f64,
    /// Seconds in all.
    pub total: f64,
    /// What goes on, in a few words.
    pub phase: String,
    /// One for each client.
    pub rows: Vec<ProgressRow>,
    /// Who shares the CPU now: `allot`, or `the kernel's default`.
    pub note: String,
}

/// A client in a [`Progress`].
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressRow {
    /// Its name.
    pub client: String,
    /// What its tickets promise in this phase: its part of what all clients get, 0 to 1.
    pub promised: f64,
    /// What it got of that since the phase began (after settling), 0 to 1.
    pub measured: f64,
}
