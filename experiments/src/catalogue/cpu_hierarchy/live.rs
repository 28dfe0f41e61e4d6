//! `cpu-hierarchy` on real processes.

use crate::error::ExperimentError;
use crate::funding::graph::Graph;
use crate::funding::phases::{Phase, phases};
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::DaemonSettings;
use crate::harness::graph_part::{GraphPart, PartRecord};
use crate::harness::slices::{OF_ALLOT, is_allots};
use crate::report::findings::Findings;
use crate::report::outcome::{Outcome, Plot};
use crate::report::plot::{Panel, progress, progress_panel};

const FIGURE_7: &str = include_str!("../../../graphs/figure-7.toml");

pub(crate) fn run(context: &mut ExperimentContext) -> Result<Outcome, ExperimentError> {
    let graph = match &context.options.graph {
        Some(path) => Graph::read(path)?,
        None => Graph::parse("figure-7.toml", FIGURE_7)?,
    };
    run_graph(context, &graph, |_, _| {})
}

/// Runs any graph once; `more` may add to the findings before they are judged.
pub(crate) fn run_graph(
    context: &mut ExperimentContext,
    graph: &Graph,
    more: impl FnOnce(&mut Findings, &PartRecord),
) -> Result<Outcome, ExperimentError> {
    let seconds = context.total;
    // Before anything is started.
    let phases = phases(graph, seconds)?;
    let mut daemon = context.allotd(&DaemonSettings::of(context.options))?;
    let selection = context.selection();
    let part = GraphPart {
        label: "",
        graph,
        seconds,
        tick: selection.quantum,
        slices: context.slices(),
        weights: true,
        last: true,
    };
    let record = context.run(Some(&mut daemon), &part)?;
    let names: Vec<String> = graph.clients.iter().map(|client| client.name.clone()).collect();
    let mut findings = Findings::default();
    findings.add_shares(&selection, "", &names, &record.windows);
    more(&mut findings, &record);
    let title = match graph.paper.as_str() {
        "" => graph.title.clone(),
        paper => format!("{} ({paper})", graph.title),
    };
    let plot = Plot::new("progress", &title, panels(context, graph, &phases, &record));
    Ok(context.finish_as(&graph.title, &graph.paper, findings, vec![plot], Vec::new()))
}

/// Returns a panel for each rule. It shows the slices of that rule, joined: a phase is as long as
/// its slices are.
fn panels(
    context: &ExperimentContext,
    graph: &Graph,
    phases: &[Phase],
    record: &PartRecord,
) -> Vec<Panel> {
    let slices = context.slices();
    let names: Vec<String> = graph.clients.iter().map(|client| client.name.clone()).collect();
    let bounds: Vec<(f64, f64)> = phases.iter().map(|phase| (phase.start, phase.end)).collect();
    let marks = |part: f64| -> Vec<(f64, String)> {
        match graph.phases.is_empty() {
            true => {
                phases.iter().skip(1).map(|phase| (phase.start * part, String::new())).collect()
            }
            false => phases.iter().map(|phase| (phase.start * part, phase.name.clone())).collect(),
        }
    };
    let allots = progress(&names, &record.series, &|at| is_allots(at, &bounds, slices));
    let kernels = progress(&names, &record.series, &|at| !is_allots(at, &bounds, slices));
    let policy = context.selection().policy;
    let under = match context.cpus.len() {
        1 => format!("allot: {policy}, one CPU"),
        count => format!("allot: {policy}, {count} CPUs"),
    };
    vec![
        progress_panel(&under, allots, marks(OF_ALLOT)),
        progress_panel("the kernel's default", kernels, marks(1.0 - OF_ALLOT)),
    ]
}
