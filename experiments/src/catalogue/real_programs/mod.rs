//! `real-programs`: what shares cost programs whose processes wait for one another. Two currencies run the same, 3:1: a
//! database server under its benchmark, a web server under load, and builds.

mod judge;
mod live;
mod programs;

use crate::about::About;
use crate::experiment::{CpuChoice, DaemonChoice, EnforcerChoice, Experiment, Live, Runs, Seconds};
use crate::harness::needs::Need;

/// The experiment `real-programs`.
pub(crate) const E: Experiment = Experiment { name: "real-programs", runs: Runs::Live(LIVE) };

const LIVE: Live = Live {
    about: About {
        title: "Real programs of two currencies",
        paper: "none: what shares cost",
        summary: "Two currencies, 3:1, run the same beside each other: PostgreSQL under pgbench -S, \
                  nginx under wrk, and compilers; those that are installed. The ratio of their \
                  progress, and what both do together as a part of what they do under the \
                  kernel's default; allot and the default take turns.",
    },
    needs: &[Need::Root],
    seconds: Seconds { least: 24.0, usual: 240.0 },
    daemon: DaemonChoice::Own,
    enforcer: EnforcerChoice::Any,
    cpus: CpuChoice::All,
    takes_graph: false,
    run: live::run,
};
