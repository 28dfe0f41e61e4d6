//! The circumstances under which an experiment ran.

use crate::report::machine::MachineDescription;
use crate::scheduling_policy::Policy;
use std::time::Duration;

/// The circumstances of a run, for its report.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub machine: MachineDescription,
    pub enforcer: String,
    /// The policy, in words.
    pub policy: String,
    pub seed: u64,
    pub seconds: f64,
    pub quantum_ns: u64,
    /// The rule that allot is compared with, in words.
    pub kernel_default: String,
    /// The meaning of the numbers, in words.
    pub units: String,
    /// The derivation of the rows' bounds, in words.
    pub bound_formula: String,
}

/// The enforcer of simulated experiments, in reports.
pub(crate) const SIMULATED: &str = "simulated";

/// The way in which winners are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drawing {
    /// Nothing is drawn.
    None,
    /// A winner for each CPU, all at once, none twice (the user-level enforcer).
    AllCpus,
    /// A winner whenever a CPU has ended a turn. A client that runs meanwhile keeps its win for
    /// later (the scheduler in the kernel), so these draws are independent, as those of one CPU
    /// are.
    EachCpu,
}

/// The way in which the enforcer in force chooses the clients that run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection {
    pub policy: Policy,
    pub drawing: Drawing,
    /// Interval between draws.
    pub quantum: Duration,
}
