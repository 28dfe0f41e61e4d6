//! `memory-policies`: the load of paper 1's figure 9 under each rule for who loses memory.

mod judge;
mod live;
mod simulated;

use crate::about::About;
use crate::experiment::{
    CpuChoice, DaemonChoice, EnforcerChoice, Experiment, Live, Runs, Seconds, Simulated,
};
use crate::harness::needs::Need;

/// The experiment `memory-policies`.
pub(crate) const E: Experiment =
    Experiment { name: "memory-policies", runs: Runs::Both(LIVE, SIMULATED) };

const LIVE: Live = Live {
    about: About {
        title: "Who loses memory: the kernel within guarantees, and three policies",
        paper: "paper 1, section 5.4: inverse lottery, min-funding revocation, shares by faults",
        summary: "The four readers of memory-shares with the same guarantees, when the kernel \
                  alone chooses who loses (memory.min and memory.low), by inverse lottery, by \
                  min-funding revocation, and by faults: what each holds, how often each needs \
                  again what was taken, how much is in use, and what choosing costs.",
    },
    needs: &[Need::Root, Need::Controller("memory"), Need::DiskDirectory],
    seconds: Seconds { least: 60.0, usual: 160.0 },
    daemon: DaemonChoice::Own,
    enforcer: EnforcerChoice::WholeMachine,
    cpus: CpuChoice::All,
    takes_graph: false,
    run: live::run,
};

const SIMULATED: Simulated = Simulated {
    about: About {
        title: "Who loses memory",
        paper: "paper 1, 5.4; Waldspurger 1995",
        summary: "Four readers with guarantees, and four working sets with tickets 4:2:1:1 of \
                  which the richest falls idle, under age alone, inverse lottery, min-funding \
                  revocation and shares by faults.",
    },
    seconds: Seconds { least: 120.0, usual: 600.0 },
    run: simulated::run,
};
