//! `memory-shares`: paper 1's figure 9, four readers of which two have guarantees, and its figure
//! 6, where tickets are deactivated whenever a client blocks.

pub(super) mod judge;
mod live;
mod simulated;

use crate::about::About;
use crate::experiment::{
    CpuChoice, DaemonChoice, EnforcerChoice, Experiment, Live, Runs, Seconds, Simulated,
};
use crate::harness::needs::Need;

/// The experiment `memory-shares`.
pub(crate) const E: Experiment =
    Experiment { name: "memory-shares", runs: Runs::Both(LIVE, SIMULATED) };

const LIVE: Live = Live {
    about: About {
        title: "Hard shares of memory, and tickets that are deactivated at every block",
        paper: "paper 1, figures 9 and 6",
        summary: "Four readers of 16 MiB at random in 8 MiB of memory, two with guarantees of \
                  2048 and 1400 KiB: what each holds under allot and under the kernel alone, and \
                  under allot when whoever blocks loses its tickets until it runs again.",
    },
    needs: &[Need::Root, Need::Controller("memory"), Need::DiskDirectory],
    seconds: Seconds { least: 40.0, usual: 120.0 },
    daemon: DaemonChoice::Own,
    enforcer: EnforcerChoice::WholeMachine,
    cpus: CpuChoice::All,
    takes_graph: false,
    run: live::run,
};

const SIMULATED: Simulated = Simulated {
    about: About {
        title: "Guaranteed memory",
        paper: "paper 1, figures 6 and 9",
        summary: "Four readers of random pages compete for 4.2 MB, two of them with hard shares; \
                  beside it tickets that are deactivated whenever their holder blocks, and plain \
                  LRU.",
    },
    seconds: Seconds { least: 60.0, usual: 300.0 },
    run: simulated::run,
};
