//! The papers' figures and tables as programs that run on real processes: the promise of the
//! tickets beside what was measured, with a bound that is stated before it is judged.
//!
//! [`EXPERIMENTS`] is the catalogue, [`run()`] runs an experiment, [`simulate`] runs one in virtual
//! time, [`workload_main`] is the main function of the processes that [`run()`] starts. An
//! experiment starts an allotd of its own unless [`RunOptions::socket`] names one. It leaves
//! nothing behind: no process, no file outside [`Outcome::write`]'s directory; also not when it
//! fails or is interrupted.
//!
//! The folders, each of which sees those below it: `catalogue` (the experiments), `harness` (runs
//! on real processes) and `simulation` (runs in virtual time), `report` and `workloads`, `funding`.

mod about;
mod catalogue;
mod cpu_list;
mod error;
mod experiment;
mod funding;
mod harness;
mod report;
mod run;
mod scheduling_policy;
mod simulation;
mod workloads;

pub use about::About;
pub use catalogue::EXPERIMENTS;
pub use cpu_list::{parse_cpus, show_cpus};
pub use error::ExperimentError;
pub use experiment::{
    CpuChoice, DaemonChoice, EnforcerChoice, Experiment, Live, Runs, Seconds, Simulated,
};
pub use funding::graph::{Graph, GraphError};
pub use harness::cpus::allowed_cpus;
pub use harness::needs::{Machine, Need};
pub use harness::options::RunOptions;
pub use harness::progress::{Progress, ProgressRow};
pub use report::comparison::Comparison;
pub use report::machine::MachineDescription;
pub use report::outcome::Outcome;
pub use report::table::HEADINGS;
pub use report::types::{Check, NotJudged, Report, Row};
pub use report::wobble::Wobble;
pub use run::{SimulateOptions, find, run, simulate};
pub use scheduling_policy::Policy;
pub use workloads::process::workload_main;
