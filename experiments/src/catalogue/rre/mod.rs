//! `rre`: relative rate of execution; paper 3, section 5.2, figures 19 to 28.

mod live;
mod plots;

use crate::about::About;
use crate::experiment::{CpuChoice, DaemonChoice, EnforcerChoice, Experiment, Live, Runs, Seconds};

/// The experiment `rre`.
pub(crate) const E: Experiment = Experiment { name: "rre", runs: Runs::Live(LIVE) };

const LIVE: Live = Live {
    about: About {
        title: "Relative rate of execution",
        paper: "paper 3, figures 19 to 28",
        summary: "Two processes on one CPU at 4:1, 3:1 and 20:1, and 4:1 changed to 1:1 \
                  half-way. How even that is over short times, under lottery, stride, the \
                  kernel's weights and its nice values.",
    },
    needs: &[],
    seconds: Seconds { least: 12.0, usual: 40.0 },
    daemon: DaemonChoice::OwnOrRunning,
    enforcer: EnforcerChoice::Any,
    cpus: CpuChoice::Last,
    takes_graph: false,
    run: live::run,
};
