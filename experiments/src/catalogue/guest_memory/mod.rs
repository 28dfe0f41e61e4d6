//! `guest-memory`: a guest beside a host, with paper 4's thresholds (section 2).

mod judge;
mod live;
mod simulated;

use crate::about::About;
use crate::experiment::{
    CpuChoice, DaemonChoice, EnforcerChoice, Experiment, Live, Runs, Seconds, Simulated,
};
use crate::harness::needs::Need;

/// The experiment `guest-memory`.
pub(crate) const E: Experiment =
    Experiment { name: "guest-memory", runs: Runs::Both(LIVE, SIMULATED) };

const LIVE: Live = Live {
    about: About {
        title: "A guest's memory beside a host's",
        paper: "paper 4, section 2: low and high thresholds, 5 to 10 % of the memory",
        summary: "A guest that reads at random has all memory for itself; then a host comes that \
                  wants as much. With thresholds of 5 and 10 % the guest gives way down to \
                  between them, and without any (the kernel alone) it keeps half.",
    },
    needs: &[Need::Root, Need::Controller("memory"), Need::DiskDirectory],
    seconds: Seconds { least: 80.0, usual: 140.0 },
    daemon: DaemonChoice::Own,
    enforcer: EnforcerChoice::WholeMachine,
    cpus: CpuChoice::All,
    takes_graph: false,
    run: live::run,
};

const SIMULATED: Simulated = Simulated {
    about: About {
        title: "A guest's memory",
        paper: "paper 4, section 2",
        summary: "A host that needs 89 % of memory beside a guest that needs twice as much as \
                  there is: as equals under LRU, and as a guest with thresholds of 5 and 10 % of \
                  memory.",
    },
    seconds: Seconds { least: 120.0, usual: 600.0 },
    run: simulated::run,
};
