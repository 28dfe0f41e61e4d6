//! `exchange-database`: paper 1, section 6.6. Two look-up servers exchange disk tickets for memory
//! tickets, beside four readers.

mod judge;
mod live;
mod plots;
pub(super) mod servers;
mod simulated;

use crate::about::About;
use crate::experiment::{
    CpuChoice, DaemonChoice, EnforcerChoice, Experiment, Live, Runs, Seconds, Simulated,
};
use crate::harness::needs::Need;

/// The experiment `exchange-database`.
pub(crate) const E: Experiment =
    Experiment { name: "exchange-database", runs: Runs::Both(LIVE, SIMULATED) };

const LIVE: Live = Live {
    about: About {
        title: "Exchanges of memory for disk",
        paper: "paper 1, section 6.6",
        summary: "Two look-up servers (LMDB), one whose data nearly fits and one whose data \
                  never will, exchange disk for memory tickets in ten of the paper's 64 amounts, \
                  beside four iohogs in 7 MiB. Needs root and a disk that may be used up \
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
    ],
    seconds: Seconds { least: 240.0, usual: 1200.0 },
    daemon: DaemonChoice::Own,
    enforcer: EnforcerChoice::WholeMachine,
    cpus: CpuChoice::Last,
    takes_graph: false,
    run: live::run,
};

const SIMULATED: Simulated = Simulated {
    about: About {
        title: "Exchanges of memory for disk",
        paper: "paper 1, 6.6",
        summary: "Two look-up servers, one whose data nearly fits and one whose data never will, \
                  exchange disk for memory tickets in all 64 amounts of 100 to 800, beside four \
                  iohogs.",
    },
    seconds: Seconds { least: 300.0, usual: 900.0 },
    run: simulated::run,
};
