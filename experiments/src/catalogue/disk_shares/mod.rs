//! `disk-shares`: paper 1, section 6.4, figure 10. Five processes page a file each in from one
//! disk; one has half of base's hard disk tickets, four the default tickets of their user's
//! currency.

mod judge;
mod live;
mod simulated;

use crate::about::About;
use crate::experiment::{
    CpuChoice, DaemonChoice, EnforcerChoice, Experiment, Live, Runs, Seconds, Simulated,
};
use crate::harness::needs::Need;

/// The experiment `disk-shares`.
pub(crate) const E: Experiment =
    Experiment { name: "disk-shares", runs: Runs::Both(LIVE, SIMULATED) };

const LIVE: Live = Live {
    about: About {
        title: "Proportional shares of a disk",
        paper: "paper 1, section 6.4, figure 10",
        summary: "Five processes touch each page of a 16 MiB file of their own in order, with \
                  one request at a time. One has a hard share of half the disk, four share what \
                  their user has: 4:1 by the time when the first is done (4.1:1 in the paper). \
                  By BFQ, by iocost where the disk takes many requests at a time, and as the \
                  disk was found. Needs root and a disk that may be used up (lab/with-disk).",
    },
    needs: &[Need::Root, Need::Controller("io"), Need::SpareDisk],
    seconds: Seconds { least: 30.0, usual: 240.0 },
    daemon: DaemonChoice::Own,
    enforcer: EnforcerChoice::CgroupAlone,
    cpus: CpuChoice::Last,
    takes_graph: false,
    run: live::run,
};

const SIMULATED: Simulated = Simulated {
    about: About {
        title: "Shares of a disk",
        paper: "paper 1, figure 10",
        summary: "Five programs page in mapped files; one has half of the disk as a hard share, \
                  four have the same of their user's currency. Beside it first come, first \
                  served.",
    },
    seconds: Seconds { least: 20.0, usual: 115.0 },
    run: simulated::run,
};
