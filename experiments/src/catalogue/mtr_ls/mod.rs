//! `mtr-ls`: the guarantee of paper 2's CPU scheduler (section 2.3; Bruno et al. 1998). Each
//! client's cumulative service is, to within a constant, at least its share times the time for
//! which it was runnable, however clients block and wake.

mod judge;
mod live;
mod schedule;

use crate::about::About;
use crate::experiment::{CpuChoice, DaemonChoice, EnforcerChoice, Experiment, Live, Runs, Seconds};

/// The experiment `mtr-ls`.
pub(crate) const E: Experiment = Experiment { name: "mtr-ls", runs: Runs::Live(LIVE) };

const LIVE: Live = Live {
    about: About {
        title: "MTR-LS: cumulative service against the guarantee",
        paper: "paper 2, 2.3; Bruno et al. 1998",
        summary: "Clients with 5, 3 and 2 tickets block and wake at random. The greatest amount \
                  by which a client's service falls short of its share of the time for which it \
                  was runnable, under MTR-LS and under the kernel's default in turns.",
    },
    needs: &[],
    seconds: Seconds { least: 4.0, usual: 40.0 },
    daemon: DaemonChoice::Own,
    enforcer: EnforcerChoice::Any,
    cpus: CpuChoice::Last,
    takes_graph: false,
    run: live::run,
};
