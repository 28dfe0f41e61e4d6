//! `rre` on real processes.

use super::plots::{deviations, zoomed};
use crate::error::ExperimentError;
use crate::funding::graph::Graph;
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::{Daemon, DaemonSettings};
use crate::harness::graph_part::{GraphPart, PartRecord};
use crate::report::findings::Findings;
use crate::report::outcome::{Outcome, Plot};
use crate::report::plot::{Panel, progress, progress_panel};
use crate::report::series::Series;
use crate::report::wobble::wobble;
use crate::scheduling_policy::Policy;
use std::time::Duration;

/// Pieces of the run: allot and the kernel's default with the same weights have five each, two of
/// them for the changed ratio; the other policy and nice values have one each.
const PIECES: f64 = 12.0;
/// Interval between samples: fine enough for the shortest windows of the wobble.
const TICK: Duration = Duration::from_millis(10);
/// The kernel's weights of nice values 0 to 19.
const NICE_WEIGHTS: [u32; 20] =
    [1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15];
const NICE: &str = "the kernel's nice";
const WEIGHTS: &str = "the kernel's default";

/// The runs so far.
#[derive(Default)]
struct Runs {
    findings: Findings,
    plots: Vec<Plot>,
    /// The runs at 4:1, by their rules, whose wobble is compared.
    wobbly: Vec<(String, Series)>,
    default_series: Option<Series>,
}

pub(crate) fn run(context: &mut ExperimentContext) -> Result<Outcome, ExperimentError> {
    let mut daemon = context.allotd(&DaemonSettings::of(context.options))?;
    let selection = context.selection();
    let is_own = daemon.is_own();
    let mut runs = Runs::default();
    if !is_own {
        runs.findings.note(
            "the running allotd goes on beside the kernel's default: nothing to compare with",
        );
    }
    for (ratio, figure) in [(4, "figure 19"), (3, "figure 20"), (20, "no figure; text")] {
        constant_ratio(context, &mut daemon, ratio, figure, &mut runs)?;
    }
    changed_ratio(context, &mut daemon, &mut runs)?;
    // One allotd at a time shares a CPU.
    drop(daemon);
    let other = if selection.policy == Policy::Lottery { Policy::Stride } else { Policy::Lottery };
    match is_own {
        true => other_policy(context, other, &mut runs)?,
        false => runs.findings.note(format!(
            "the running allotd has {} only: no wobble for {other}",
            selection.policy
        )),
    }
    runs.wobbly.extend(runs.default_series.take().map(|series| (WEIGHTS.to_owned(), series)));
    nice_values(context, &mut runs)?;
    let names = names(&pair(4, None)?);
    let chance = (0.8, selection.quantum.as_millis() as u64);
    for (by, series) in &runs.wobbly {
        let draws = (by == Policy::Lottery.as_str()).then_some(chance);
        runs.findings.wobble.extend(wobble(by, &names[1], 1, series, draws));
    }
    let title = "Wobble: one second at 4:1 (paper 3, figures 24 to 27)";
    runs.plots.push(Plot::new("rre-zoomed", title, zoomed(&names, &runs.wobbly)));
    let title = "Wobble of the share over short windows (paper 3, figures 24 to 28)";
    let panel = deviations(&runs.findings.wobble);
    runs.plots.push(Plot::new("rre-wobble", title, vec![panel]));
    Ok(context.finish(runs.findings, runs.plots))
}

/// Runs a constant ratio, by allot and by the kernel's default.
fn constant_ratio(
    context: &mut ExperimentContext,
    daemon: &mut Daemon,
    ratio: u64,
    figure: &str,
    runs: &mut Runs,
) -> Result<(), ExperimentError> {
    let (piece, selection) = (context.total / PIECES, context.selection());
    let graph = pair(ratio, None)?;
    let label = format!("{ratio}:1");
    let record = one(context, Some(daemon), &graph, &label, piece, true)?;
    runs.findings.add_shares(&selection, &label, &names(&graph), &record.windows);
    let mut panels = vec![panel(selection.policy.as_str(), &graph, &record, Vec::new())];
    if daemon.is_own() {
        let default = beside(context, daemon, &graph, &label, piece)?;
        runs.findings.add_default_shares(&label, &names(&graph), &default.windows);
        panels.push(panel(WEIGHTS, &graph, &default, Vec::new()));
        runs.default_series.get_or_insert(default.series);
    }
    let title = format!("Relative rate of execution {ratio}:1 (paper 3, {figure})");
    runs.plots.push(Plot::new(&format!("rre-{ratio}-1"), &title, panels));
    if ratio == 4 {
        runs.wobbly.push((selection.policy.to_string(), record.series));
    }
    Ok(())
}

/// Runs 4:1 that becomes 1:1 half-way, by allot and by the kernel's default.
fn changed_ratio(
    context: &mut ExperimentContext,
    daemon: &mut Daemon,
    runs: &mut Runs,
) -> Result<(), ExperimentError> {
    let (seconds, selection) = (2.0 * context.total / PIECES, context.selection());
    let graph = pair(4, Some(1))?;
    let marks = || vec![(seconds / 2.0, "4:1 becomes 1:1".to_owned())];
    let record = one(context, Some(daemon), &graph, "changed", seconds, true)?;
    runs.findings.add_shares(&selection, "", &names(&graph), &record.windows);
    let mut panels = vec![panel(selection.policy.as_str(), &graph, &record, marks())];
    if daemon.is_own() {
        let default = beside(context, daemon, &graph, "changed", seconds)?;
        runs.findings.add_default_shares("", &names(&graph), &default.windows);
        panels.push(panel(WEIGHTS, &graph, &default, marks()));
    }
    let title = "Ticket ratio changed half-way from 4:1 to 1:1 (paper 3, figure 23)";
    runs.plots.push(Plot::new("rre-changed", title, panels));
    Ok(())
}

/// Runs 4:1 by another policy.
fn other_policy(
    context: &mut ExperimentContext,
    policy: Policy,
    runs: &mut Runs,
) -> Result<(), ExperimentError> {
    let settings = DaemonSettings { policy, ..DaemonSettings::of(context.options) };
    let mut daemon = context.allotd(&settings)?;
    let graph = pair(4, None)?;
    let label = format!("4:1 by {policy}");
    let record = one(context, Some(&mut daemon), &graph, &label, context.total / PIECES, true)?;
    runs.findings.add_not_judged(&label, &names(&graph), &record.windows, policy.as_str());
    runs.wobbly.push((policy.to_string(), record.series));
    Ok(())
}

/// Runs the nice values that come nearest to 4:1.
fn nice_values(context: &mut ExperimentContext, runs: &mut Runs) -> Result<(), ExperimentError> {
    let mut graph = pair(4, None)?;
    let (nice, ratio) = nearest_nice(4.0);
    graph.clients[0].nice = nice;
    let record = one(context, None, &graph, NICE, context.total / PIECES, false)?;
    let label = format!("4:1 by nice 0 and {nice}");
    runs.findings.add_not_judged(&label, &names(&graph), &record.windows, NICE);
    runs.findings.note(format!(
        "no nice value means 4:1 to the kernel: the nearest, {nice}, means {ratio:.2}:1 by its \
         table of weights"
    ));
    runs.wobbly.push((NICE.to_owned(), record.series));
    Ok(())
}

/// Runs one piece.
fn one(
    context: &mut ExperimentContext,
    daemon: Option<&mut Daemon>,
    graph: &Graph,
    label: &str,
    seconds: f64,
    weights: bool,
) -> Result<PartRecord, ExperimentError> {
    let mut daemon = daemon;
    if let Some(daemon) = &mut daemon {
        daemon.resume(context.stop)?;
    }
    let slices = &[1.0];
    context
        .run(daemon, &GraphPart { label, graph, seconds, tick: TICK, slices, weights, last: false })
}

/// Runs one piece by the kernel's default alone; allot's next piece starts the daemon again.
fn beside(
    context: &mut ExperimentContext,
    daemon: &mut Daemon,
    graph: &Graph,
    label: &str,
    seconds: f64,
) -> Result<PartRecord, ExperimentError> {
    daemon.pause();
    one(context, None, graph, label, seconds, true)
}

fn names(graph: &Graph) -> Vec<String> {
    graph.clients.iter().map(|client| client.name.clone()).collect()
}

fn panel(title: &str, graph: &Graph, record: &PartRecord, marks: Vec<(f64, String)>) -> Panel {
    progress_panel(title, progress(&names(graph), &record.series, &|_| true), marks)
}

/// Returns the graph of two processes of one user. As in the paper, process 1 has 200 tickets, and
/// process 2 the greater number.
fn pair(ratio: u64, then: Option<u64>) -> Result<Graph, ExperimentError> {
    let mut text = format!(
        "title = 'Relative rate of execution'\n\
         [[currency]]\nname = 'user'\nfunding = [{{ from = 'base', amount = 1000 }}]\n\
         [[client]]\nname = 'process-1'\nfunding = [{{ from = 'user', amount = 200 }}]\n\
         [[client]]\nname = 'process-2'\nfunding = [{{ from = 'user', amount = {} }}]\n",
        200 * ratio
    );
    if let Some(then) = then {
        text = format!(
            "phases = ['{ratio}:1, to be changed', 'changed to {then}:1']\n{text}\
             [[change]]\nat = '50%'\n\
             fund = {{ holder = 'process-2', from = 'user', amount = {} }}\n",
            200 * then
        );
    }
    Ok(Graph::parse("rre", &text)?)
}

/// Returns the nice value whose weight comes nearest to a ratio below that of nice 0, and its
/// ratio.
fn nearest_nice(ratio: f64) -> (i32, f64) {
    let of = |nice: usize| f64::from(NICE_WEIGHTS[0]) / f64::from(NICE_WEIGHTS[nice]);
    let far = |nice: &usize| (of(*nice) / ratio).ln().abs();
    let nice = (0..NICE_WEIGHTS.len()).min_by(|a, b| far(a).total_cmp(&far(b)));
    let nice = nice.expect("the table is not empty");
    (nice as i32, of(nice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::funding::phases::phases;

    #[test]
    fn the_nearest_nice_value() {
        assert_eq!(nearest_nice(4.0).0, 6);
        assert_eq!(nearest_nice(1.0).0, 0);
        assert_eq!(nearest_nice(1000.0).0, 19);
    }

    #[test]
    fn the_pairs_are_sound() {
        for (ratio, then) in [(4, None), (20, None), (4, Some(1))] {
            let graph = pair(ratio, then).unwrap();
            let count = phases(&graph, 10.0).unwrap().len();
            assert_eq!(count, 1 + usize::from(then.is_some()));
        }
    }
}
