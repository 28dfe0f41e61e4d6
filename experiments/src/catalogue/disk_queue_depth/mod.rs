//! `disk-queue-depth`: shares of a disk under every kind of load: past the page cache, through it
//! and by mapping; two to sixteen readers; readers beside writers. It measures what shares cost,
//! too.

mod cells;
mod judge;
mod live;
mod simulated;

use crate::about::About;
use crate::experiment::{
    CpuChoice, DaemonChoice, EnforcerChoice, Experiment, Live, Runs, Seconds, Simulated,
};
use crate::harness::needs::Need;

/// The experiment `disk-queue-depth`.
pub(crate) const E: Experiment =
    Experiment { name: "disk-queue-depth", runs: Runs::Both(LIVE, SIMULATED) };

const LIVE: Live = Live {
    about: About {
        title: "Shares of a disk, whatever is asked of it",
        paper: "none: BFQ's defaults under systemd were seen to make 48:52 of 2:3",
        summary: "Two groups of processes share a disk 4:1 and 2:3: O_DIRECT, buffered and mmap, \
                  two to sixteen of them, readers beside writers. By BFQ, by iocost on the \
                  measured disk, and as the disk was found, which also says what the disk can \
                  do. Needs root and a disk that may be used up (lab/with-disk); run it at \
                  several depths of the device.",
    },
    needs: &[Need::Root, Need::Controller("io"), Need::SpareDisk],
    seconds: Seconds { least: 60.0, usual: 600.0 },
    daemon: DaemonChoice::Own,
    enforcer: EnforcerChoice::CgroupAlone,
    cpus: CpuChoice::Last,
    takes_graph: false,
    run: live::run,
};

const SIMULATED: Simulated = Simulated {
    about: About {
        title: "Shares of a disk at depth",
        paper: "paper 1, 5.5 (batches)",
        summary: "Clients with tickets 4:1 read and write at queue depths 1, 4 and 16: O_DIRECT, \
                  buffered and mapped, two to sixteen of them; the ratio that they get, and what \
                  order costs.",
    },
    seconds: Seconds { least: 10.0, usual: 60.0 },
    run: simulated::run,
};
