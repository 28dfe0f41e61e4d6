//! The report for programs: `report.json`.

use crate::report::comparison::Comparison;
use crate::report::machine::MachineDescription;
use crate::report::wobble::Wobble;
use serde::{Deserialize, Serialize};

/// A client's share. All shares are parts of the CPU time of all clients together, 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The client or user, with the phase where there are several.
    pub client: String,
    /// The share that the funding graph promises, by exact fractions.
    pub promised: f64,
    /// The share measured.
    pub measured: f64,
    /// The distance between both, never negative.
    pub error: f64,
    /// The greatest error allowed.
    pub bound: f64,
    /// The share that allotd says it promised.
    pub promised_by_allotd: f64,
    /// CPU time, in seconds.
    pub used_seconds: f64,
    /// Number of draws.
    pub draws: u64,
    /// Number of whole draws that they were worth: see [`Report::bound_formula`].
    pub draws_worth: f64,
    /// The share under the kernel's default in the same run; none where that was not tried.
    pub default_measured: Option<f64>,
    /// The distance of that from the promise.
    pub default_error: Option<f64>,
}

/// A share under another rule than the two of a [`Row`], in the same run. It is not judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotJudged {
    /// The client, as in [`Row::client`].
    pub client: String,
    /// The rule that shared the CPU.
    pub by: String,
    /// The share that tickets would promise.
    pub promised: f64,
    /// The share measured.
    pub measured: f64,
    /// The distance between both, never negative.
    pub error: f64,
}

/// A condition, other than a share's bound, that must hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The condition, in words.
    pub what: String,
    /// Whether it held.
    pub ok: bool,
}

/// The report for programs. Every experiment gives one, live or simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The experiment's name.
    pub name: String,
    /// The figure or table that it repeats.
    pub paper: String,
    /// The machine on which it ran.
    pub machine: MachineDescription,
    /// The enforcer of the tickets; `simulated` in virtual time.
    pub enforcer: String,
    /// The policy that chose the winners.
    pub policy: String,
    /// Seed of the random number generators.
    pub seed: u64,
    /// Its length.
    pub seconds: f64,
    /// Shares, promised and measured.
    pub rows: Vec<Row>,
    /// The greatest error of a row.
    pub max_error: f64,
    /// The greatest bound of a row; each row is held to its own.
    pub bound: f64,
    /// Whether each row is within its bound and each check held.
    pub ok: bool,
    /// The derivation of the bounds.
    pub bound_formula: String,
    /// The meaning of the numbers.
    pub units: String,
    /// Interval between draws, in ns.
    pub quantum_ns: u64,
    /// Conditions besides the bounds.
    pub checks: Vec<Check>,
    /// The kernel's default on this machine.
    pub kernel_default: String,
    /// Shares under other rules.
    #[serde(rename = "compared")]
    pub not_judged: Vec<NotJudged>,
    /// Quantities that are no shares.
    #[serde(rename = "contests")]
    pub comparisons: Vec<Comparison>,
    /// Evenness of the shares over short times.
    pub wobble: Vec<Wobble>,
    /// CPU time of allotd itself, as a part of one CPU.
    pub allotd_cpu: f64,
    /// Remarks for the reader.
    pub notes: Vec<String>,
}
