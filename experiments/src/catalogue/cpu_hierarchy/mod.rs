//! `cpu-hierarchy`: paper 1, section 6.2, figures 7 and 8; or any other funding graph.

mod live;

pub(super) use live::run_graph;

use crate::about::About;
use crate::experiment::{CpuChoice, DaemonChoice, EnforcerChoice, Experiment, Live, Runs, Seconds};

/// The experiment `cpu-hierarchy`.
pub(crate) const E: Experiment = Experiment { name: "cpu-hierarchy", runs: Runs::Live(LIVE) };

const LIVE: Live = Live {
    about: About {
        title: "Hierarchical proportional sharing of CPU time",
        paper: "paper 1, figures 7 and 8",
        summary: "Five processes share the CPUs: currencies A and B have the same, A1:A2 = 1:2, \
                  B1:B2:B3 = 1:2:3. B3 sleeps for the first half; when it wakes, A1 and A2 keep \
                  what they have. Or any other funding graph (--graph). The kernel's default \
                  takes turns with allot in the same run.",
    },
    needs: &[],
    seconds: Seconds { least: 8.0, usual: 30.0 },
    daemon: DaemonChoice::OwnOrRunning,
    enforcer: EnforcerChoice::Any,
    cpus: CpuChoice::All,
    takes_graph: true,
    run: live::run,
};
