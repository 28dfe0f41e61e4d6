//! `negotiators`: two processes that can gain by exchanging CPU for disk (paper 1, 6.5), and two
//! that can gain by exchanging memory for disk (6.6), with an `allot negotiate` each instead of a
//! preset exchange; and two that cannot gain.

mod judge;
mod live;
mod simulated;

use crate::about::About;
use crate::experiment::{
    CpuChoice, DaemonChoice, EnforcerChoice, Experiment, Live, Runs, Seconds, Simulated,
};
use crate::harness::needs::Need;

/// The experiment `negotiators`.
pub(crate) const E: Experiment =
    Experiment { name: "negotiators", runs: Runs::Both(LIVE, SIMULATED) };

const LIVE: Live = Live {
    about: About {
        title: "Negotiators instead of a preset exchange",
        paper: "paper 1, 4.2, 6.5 and 6.6",
        summary: "A dhrystone and an iohog with an `allot negotiate` each, beside the bystanders \
                  of exchange-cpu-disk, and the two servers of exchange-database: what part of a \
                  static exchange's gain they find, how fast, at what cost; and two dhrystones, \
                  who have nothing to exchange. Needs root and a disk that may be used up \
                  (lab/with-disk).",
    },
    needs: &[
        Need::Root,
        Need::Controller("memory"),
        Need::Controller("io"),
        Need::SpareDisk,
        Need::DiskScheduler("bfq"),
        Need::MemoryMib(256),
        Need::Database,
        Need::Program("allot-negotiate"),
    ],
    seconds: Seconds { least: 240.0, usual: 4000.0 },
    daemon: DaemonChoice::Own,
    enforcer: EnforcerChoice::WholeMachine,
    cpus: CpuChoice::Last,
    takes_graph: false,
    run: live::run,
};

const SIMULATED: Simulated = Simulated {
    about: About {
        title: "Negotiators",
        paper: "paper 1, 4.2, 6.5 and 6.6",
        summary: "Two programs that know nothing of tickets have a negotiator each, in the loads \
                  of exchange-cpu-disk and exchange-database, in one whose programs change \
                  places half-way, and in one where no trade helps.",
    },
    seconds: Seconds { least: 1800.0, usual: 3600.0 },
    run: simulated::run,
};
