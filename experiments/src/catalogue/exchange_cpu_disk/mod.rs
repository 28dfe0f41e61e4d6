//! `exchange-cpu-disk`: paper 1, section 6.5, figures 11 and 12. A CPU-bound and a disk-bound
//! process exchange tickets one for one, beside five others.

pub(super) mod judge;
pub(super) mod live;
mod plots;
mod simulated;

use crate::about::About;
use crate::experiment::{
    CpuChoice, DaemonChoice, EnforcerChoice, Experiment, Live, Runs, Seconds, Simulated,
};
use crate::harness::needs::Need;

/// The experiment `exchange-cpu-disk`.
pub(crate) const E: Experiment =
    Experiment { name: "exchange-cpu-disk", runs: Runs::Both(LIVE, SIMULATED) };

const LIVE: Live = Live {
    about: About {
        title: "Exchanges of CPU for disk",
        paper: "paper 1, section 6.5, figures 11 and 12",
        summary: "A dhrystone gives an iohog n disk tickets for n CPU tickets, n = 100 to 800 of \
                  1000; one more dhrystone and four more iohogs are bystanders. What both gain, \
                  and the least that a bystander has. Needs root and a disk that may be used up \
                  (lab/with-disk).",
    },
    needs: &[Need::Root, Need::Controller("io"), Need::SpareDisk, Need::DiskScheduler("bfq")],
    seconds: Seconds { least: 60.0, usual: 120.0 },
    daemon: DaemonChoice::Own,
    enforcer: EnforcerChoice::WholeMachine,
    cpus: CpuChoice::Last,
    takes_graph: false,
    run: live::run,
};

const SIMULATED: Simulated = Simulated {
    about: About {
        title: "Exchanges of CPU for disk",
        paper: "paper 1, section 6.5, figures 11 and 12",
        summary: "A dhrystone gives an iohog n disk tickets for n CPU tickets, n = 100 to 800 of \
                  1000; one more dhrystone and four more iohogs are bystanders. What both gain, \
                  and the least that a bystander has. Needs root and a disk that may be used up \
                  (lab/with-disk).",
    },
    seconds: Seconds { least: 60.0, usual: 600.0 },
    run: simulated::run,
};
