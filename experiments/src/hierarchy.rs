//! `cpu-hierarchy`: paper 1, section 6.2, figures 7 and 8; or any other funding graph.

use crate::daemon::Setup;
use crate::graph::Graph;
use crate::plot::{draw, progress, progress_panel};
use crate::report::Findings;
use crate::session::{Bench, OF_ALLOT, Part, is_allots};
use crate::timeline::phases;
use crate::{ExperimentError, ExperimentInfo, Outcome};

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "cpu-hierarchy",
    title: "Hierarchical proportional sharing of CPU time",
    paper: "paper 1, figures 7 and 8",
    what: "Five processes share the CPUs: currencies A and B have the same, A1:A2 = 1:2, \
           B1:B2:B3 = 1:2:3. B3 sleeps for the first half; when it wakes, A1 and A2 keep what they \
           have. Or any other funding graph (--graph). The kernel's default takes turns with allot \
           in the same run.",
    least_seconds: 8.0,
    usual_seconds: 30.0,
    own_allotd: false,
};

const FIGURE_7: &str = include_str!("../graphs/figure-7.toml");

pub(crate) fn run(bench: &mut Bench) -> Result<Outcome, ExperimentError> {
    let graph = match &bench.options.graph {
        Some(path) => Graph::read(path)?,
        None => Graph::parse("figure-7.toml", FIGURE_7)?,
    };
    run_graph(bench, &INFO, &graph, |_, _| {}).map(|(outcome, _)| outcome)
}

/// Runs any graph once; `more` may add to the findings before they are judged.
pub(crate) fn run_graph(
    bench: &mut Bench,
    info: &ExperimentInfo,
    graph: &Graph,
    more: impl FnOnce(&mut Findings, &crate::session::Record),
) -> Result<(Outcome, crate::session::Record), ExperimentError> {
    let seconds = bench.total;
    // Before anything is started.
    let stretches = phases(graph, seconds)?;
    let mut daemon = bench.allotd(&Setup::of(bench.options))?;
    let mut findings = Findings::new(bench, &daemon)?;
    let tick = findings.quantum();
    let slices = bench.slices();
    let part = Part { label: "", graph, seconds, tick, slices, weights: true, last: true };
    let record = bench.run(Some(&mut daemon), &part)?;
    let names: Vec<String> = graph.clients.iter().map(|client| client.name.clone()).collect();
    let policy = findings.policy;
    findings.add("", &names, &record.windows);
    more(&mut findings, &record);
    let bounds: Vec<(f64, f64)> = stretches.iter().map(|phase| (phase.start, phase.end)).collect();
    // Each panel shows the slices of one rule, joined: a phase is as long as its slices are.
    let marks = |part: f64| -> Vec<(f64, String)> {
        match graph.phases.is_empty() {
            true => {
                stretches.iter().skip(1).map(|phase| (phase.start * part, String::new())).collect()
            }
            false => {
                let named = stretches.iter();
                named.map(|phase| (phase.start * part, phase.name.clone())).collect()
            }
        }
    };
    let allots = progress(&names, &record.series, &|at| is_allots(at, &bounds, slices));
    let kernels = progress(&names, &record.series, &|at| !is_allots(at, &bounds, slices));
    let title = match graph.paper.as_str() {
        "" => graph.title.clone(),
        paper => format!("{} ({paper})", graph.title),
    };
    let under = match bench.cpus.len() {
        1 => format!("allot: {policy}, one CPU"),
        count => format!("allot: {policy}, {count} CPUs"),
    };
    let panels = [
        progress_panel(&under, allots, marks(OF_ALLOT)),
        progress_panel("the kernel's default", kernels, marks(1.0 - OF_ALLOT)),
    ];
    let svg = draw(&title, &panels);
    let svg = vec![("progress.svg".to_owned(), svg)];
    let outcome = findings.finish(bench, info, &graph.title, &graph.paper, svg);
    Ok((outcome, record))
}
