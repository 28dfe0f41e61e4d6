//! `insulation`: paper 3, section 5.3, figures 32 to 38.

mod live;

use crate::about::About;
use crate::experiment::{CpuChoice, DaemonChoice, EnforcerChoice, Experiment, Live, Runs, Seconds};

/// The experiment `insulation`.
pub(crate) const E: Experiment = Experiment { name: "insulation", runs: Runs::Live(LIVE) };

const LIVE: Live = Live {
    about: About {
        title: "User insulation",
        paper: "paper 3, figures 32 to 38",
        summary: "User bill runs one process, user paul runs 2, 10 and 60. Both users have the \
                  same, whatever paul starts. The kernel's default takes turns with allot in the \
                  same run.",
    },
    needs: &[],
    seconds: Seconds { least: 10.0, usual: 30.0 },
    daemon: DaemonChoice::OwnOrRunning,
    enforcer: EnforcerChoice::Any,
    cpus: CpuChoice::Last,
    takes_graph: false,
    run: live::run,
};
