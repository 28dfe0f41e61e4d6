//! `nice` on real processes.

use crate::catalogue::cpu_hierarchy::run_graph;
use crate::catalogue::nice::judge::leaves_as_it_was;
use crate::error::ExperimentError;
use crate::funding::graph::Graph;
use crate::harness::context::ExperimentContext;
use crate::report::outcome::Outcome;

const FIGURE_2: &str = include_str!("../../../graphs/nice.toml");
/// The uid of Alice's task, where we may choose. Bob is the caller: nice takes from the caller's
/// own currencies.
const ALICE_UID: u32 = 65533;

pub(crate) fn run(context: &mut ExperimentContext) -> Result<Outcome, ExperimentError> {
    let mut graph = Graph::parse("nice.toml", FIGURE_2)?;
    if nix::unistd::geteuid().is_root() {
        for currency in graph.currencies.iter_mut().filter(|currency| currency.name == "alice") {
            currency.owner = Some(ALICE_UID);
        }
        for client in graph.clients.iter_mut().filter(|client| client.name == "task1") {
            client.uid = Some(ALICE_UID);
        }
    }
    run_graph(context, &graph, |findings, record| {
        let [before, after] = &record.guaranteed[..] else {
            unreachable!("the graph has one change")
        };
        findings.checks.extend(leaves_as_it_was(before, after));
    })
}
