//! `nice`: paper 1, figure 2 and sections 2.2.2, 4.4 and 5.6.

use crate::graph::Graph;
use crate::hierarchy::run_graph;
use crate::session::Bench;
use crate::{Check, ExperimentError, ExperimentInfo, Outcome};

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "nice",
    title: "The semantics of nice",
    paper: "paper 1, figure 2",
    what: "Bob gives hog 10 of his own tickets: when his task2 is idle, hog has all that is \
           Bob's. With nice, hog has 10 of Bob's base tickets and no more, and nothing changes for \
           Alice. The kernel's default takes turns with allot in the same run.",
    least_seconds: 12.0,
    usual_seconds: 40.0,
    own_allotd: false,
};

const FIGURE_2: &str = include_str!("../graphs/nice.toml");
/// Whom Alice's task runs as, where we may choose. Bob is the caller: it is the caller's own
/// currencies that nice takes from.
const ALICE_UID: u32 = 65533;
/// The ledger's integers round down; a guaranteed value is a number between 0 and 1.
const SAME: f64 = 1e-9;

pub(crate) fn run(bench: &mut Bench) -> Result<Outcome, ExperimentError> {
    let mut graph = Graph::parse("nice.toml", FIGURE_2)?;
    if nix::unistd::geteuid().is_root() {
        for currency in graph.currencies.iter_mut().filter(|currency| currency.name == "alice") {
            currency.owner = Some(ALICE_UID);
        }
        for client in graph.clients.iter_mut().filter(|client| client.name == "task1") {
            client.uid = Some(ALICE_UID);
        }
    }
    let (outcome, _) = run_graph(bench, &INFO, &graph, |findings, record| {
        let [before, after] = &record.guaranteed[..] else {
            unreachable!("the graph has one change")
        };
        for name in ["alice", "task1"] {
            let (before, after) = (before[name], after[name]);
            findings.checks.push(Check {
                what: format!(
                    "nice leaves what {name} is sure of as it was ({:.4} % before, {:.4} % after)",
                    before * 100.0,
                    after * 100.0
                ),
                ok: (before - after).abs() <= SAME,
            });
        }
    })?;
    Ok(outcome)
}
