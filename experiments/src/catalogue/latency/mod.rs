//! `latency`: paper 3, section 5.4, figures 39 to 42. Interbench's interactive programs run beside
//! its loads.

mod judge;
mod live;

use crate::about::About;
use crate::experiment::{CpuChoice, DaemonChoice, EnforcerChoice, Experiment, Live, Runs, Seconds};

/// The experiment `latency`.
pub(crate) const E: Experiment = Experiment { name: "latency", runs: Runs::Live(LIVE) };

const LIVE: Live = Live {
    about: About {
        title: "Latency of interactive programs",
        paper: "paper 3, 5.4, figures 39 to 42",
        summary: "Interbench's X, video, gaming and audio, each alone and against a load: CPU \
                  burn, compiling, memory, reading, writing. How late they wake, and whether \
                  they meet their deadlines; both sides have the same tickets. Allot and the \
                  kernel's default take turns.",
    },
    needs: &[],
    seconds: Seconds { least: 24.0, usual: 240.0 },
    daemon: DaemonChoice::Own,
    enforcer: EnforcerChoice::Any,
    cpus: CpuChoice::Last,
    takes_graph: false,
    run: live::run,
};
