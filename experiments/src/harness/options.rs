//! The options of a live run.

use crate::scheduling_policy::Policy;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The options of a live run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Length in all, in seconds; setting up and cleaning up come on top.
    pub seconds: f64,
    /// Seed of the policy's random number generator.
    pub seed: u64,
    /// The scheduling policy.
    pub policy: Policy,
    /// The enforcer, as allotd's `--enforcer`; none leaves the choice to a private allotd.
    /// `sched-ext`, `cgroup` and `weights` need root: the allotd then shares the whole machine.
    pub enforcer: Option<String>,
    /// Settings of enforcers, as allotd's `--set`: KIND.NAME=VALUE.
    pub set: Vec<String>,
    /// Milliseconds between draws, 1 to 1000; none leaves the choice to the enforcer.
    pub quantum_ms: Option<u64>,
    /// The CPUs to use; none leaves the choice to the experiment.
    pub cpus: Option<Vec<u32>>,
    /// Another funding graph for `cpu-hierarchy`.
    pub graph: Option<PathBuf>,
    /// The directory of the results. It is refused at the start if it cannot be written.
    pub out: Option<PathBuf>,
    /// The socket of a running allotd to use instead of an own one. Its policy, seed, quantum,
    /// enforcer and CPUs stay as they are.
    pub socket: Option<PathBuf>,
    /// The allotd to start; else $ALLOTD, the one beside this program, or the one in $PATH.
    pub allotd: Option<PathBuf>,
    /// The words that run [`workload_main`](crate::workload_main); else this program with
    /// `workload`.
    pub workload: Option<Vec<OsString>>,
    /// Ends the experiment early when it is set; signals set it too.
    pub stop: Arc<AtomicBool>,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            seconds: 30.0,
            seed: 1,
            policy: Policy::default(),
            enforcer: None,
            set: Vec::new(),
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
    /// Returns whether the enforcer is one for the whole machine.
    pub(crate) fn shares_the_machine(&self) -> bool {
        matches!(self.enforcer.as_deref(), Some("sched-ext" | "cgroup" | "weights"))
    }

    /// Returns these options with an enforcer for the whole machine: cgroups, where none is named.
    pub(crate) fn sharing_the_machine(&self) -> RunOptions {
        let enforcer = self.enforcer.clone().or_else(|| Some("cgroup".to_owned()));
        RunOptions { enforcer, ..self.clone() }
    }
}
