//! `spawn`: paper 3's `/bin/cat` anomaly (section 5.5.4, table 11, and 7).
//!
//! Beside a kernel build, a shell loop that runs `cat /proc/interrupts` over and over made some 44
//! 000 rounds under the lottery and over 600 000 under the standard scheduler, while the same
//! reading without processes (5.5.5) behaved as it should: a client that lives by short processes
//! got far less than its tickets' share. Here a currency of such processes competes with a hog of
//! another.

mod judge;
mod live;

use crate::about::About;
use crate::experiment::{CpuChoice, DaemonChoice, EnforcerChoice, Experiment, Live, Runs, Seconds};

/// The experiment `spawn`.
pub(crate) const E: Experiment = Experiment { name: "spawn", runs: Runs::Live(LIVE) };

const LIVE: Live = Live {
    about: About {
        title: "Short-lived processes beside a hog",
        paper: "paper 3, 5.5.4 (the /bin/cat anomaly) and table 11",
        summary: "A currency that runs one short process after the other (cat, true), or reads \
                  the same without processes, against one with a hog; both have the same \
                  tickets. Each currency's share, and processes a second; allot and the kernel's \
                  default take turns.",
    },
    needs: &[],
    seconds: Seconds { least: 6.0, usual: 60.0 },
    daemon: DaemonChoice::Own,
    enforcer: EnforcerChoice::Any,
    cpus: CpuChoice::Last,
    takes_graph: false,
    run: live::run,
};
