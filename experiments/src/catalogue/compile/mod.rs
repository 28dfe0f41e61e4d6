//! `compile`: paper 3, section 5.5, tables 7 to 12. A build alone and beside four loads, with the
//! progress of the loads, which the paper did not measure.

mod judge;
mod live;

use crate::about::About;
use crate::experiment::{CpuChoice, DaemonChoice, EnforcerChoice, Experiment, Live, Runs, Seconds};
use crate::harness::needs::Need;

/// The experiment `compile`.
pub(crate) const E: Experiment = Experiment { name: "compile", runs: Runs::Live(LIVE) };

const LIVE: Live = Live {
    about: About {
        title: "A build beside loads",
        paper: "paper 3, 5.5, tables 7 to 12",
        summary: "A real build (generated C, cc and make) alone and beside each of the paper's \
                  four loads: listing files, user-mode CPU, kernel-mode CPU by /bin/cat and by \
                  reading. Both sides have the same tickets. The build's time, its share, and \
                  the load's progress; allot and the kernel's default take turns.",
    },
    needs: &[Need::Program("cc"), Need::Program("make")],
    seconds: Seconds { least: 10.0, usual: 240.0 },
    daemon: DaemonChoice::Own,
    enforcer: EnforcerChoice::Any,
    cpus: CpuChoice::Last,
    takes_graph: false,
    run: live::run,
};
