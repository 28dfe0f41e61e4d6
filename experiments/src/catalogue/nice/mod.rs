//! `nice`: paper 1, figure 2 and sections 2.2.2, 4.4 and 5.6.

mod judge;
mod live;

use crate::about::About;
use crate::experiment::{CpuChoice, DaemonChoice, EnforcerChoice, Experiment, Live, Runs, Seconds};

/// The experiment `nice`.
pub(crate) const E: Experiment = Experiment { name: "nice", runs: Runs::Live(LIVE) };

const LIVE: Live = Live {
    about: About {
        title: "The semantics of nice",
        paper: "paper 1, figure 2",
        summary: "Bob gives hog 10 of his own tickets: when his task2 is idle, hog has all that \
                  is Bob's. With nice, hog has 10 of Bob's base tickets and no more, and nothing \
                  changes for Alice. The kernel's default takes turns with allot in the same \
                  run.",
    },
    needs: &[],
    seconds: Seconds { least: 12.0, usual: 40.0 },
    daemon: DaemonChoice::OwnOrRunning,
    enforcer: EnforcerChoice::Any,
    cpus: CpuChoice::Last,
    takes_graph: false,
    run: live::run,
};
