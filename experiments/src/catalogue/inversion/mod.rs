//! `inversion`: a client with few tickets holds a lock for which a client with many waits, and
//! others of middling wealth want the CPU. With ticket transfers (Waldspurger & Weihl 1994, 3.1;
//! paper 1's scheduler had none) the waiting client lends its tickets to the holder.

mod judge;
mod live;

use crate::about::About;
use crate::experiment::{CpuChoice, DaemonChoice, EnforcerChoice, Experiment, Live, Runs, Seconds};

/// The experiment `inversion`.
pub(crate) const E: Experiment = Experiment { name: "inversion", runs: Runs::Live(LIVE) };

const LIVE: Live = Live {
    about: About {
        title: "Priority inversion and ticket transfer",
        paper: "Waldspurger & Weihl 1994, 3.1: ticket transfers",
        summary: "A holder of a lock with 50 tickets, who waits for it with 950, three hogs with \
                  900 together: how long it waits for a kernel mutex (a file position's), an \
                  rwsem (an inode's) and a futex that passes on priorities, with and without \
                  ticket transfers, and under the kernel's default.",
    },
    needs: &[],
    seconds: Seconds { least: 9.0, usual: 90.0 },
    daemon: DaemonChoice::Own,
    enforcer: EnforcerChoice::Any,
    cpus: CpuChoice::Last,
    takes_graph: false,
    run: live::run,
};
