//! `rre`: relative rate of execution; paper 3, section 5.2, figures 19 to 28.

use crate::daemon::{Daemon, Setup};
use crate::graph::Graph;
use crate::plot::{Line, Panel, draw, progress, progress_panel};
use crate::report::Findings;
use crate::session::{Bench, Part, Record, Series};
use crate::wobble::{WINDOWS_MS, Wobble, wobble};
use crate::{ExperimentError, ExperimentInfo, Outcome, Policy};
use std::time::Duration;

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "rre",
    title: "Relative rate of execution",
    paper: "paper 3, figures 19 to 28",
    what: "Two processes on one CPU at 4:1, 3:1 and 20:1, and 4:1 changed to 1:1 half-way. How \
           even that is over short times, under lottery, stride, the kernel's weights and its nice values.",
    least_seconds: 12.0,
    usual_seconds: 40.0,
    own_allotd: false,
};

/// The run is cut into so many pieces: allot and the kernel's default with the same weights have
/// five each, two of them for the changed ratio; the other policy and nice values have one.
const PIECES: f64 = 12.0;
/// Fine enough for the shortest windows of the wobble.
const TICK: Duration = Duration::from_millis(10);
/// What the kernel gives to nice values 0 to 19, by its table of weights.
const NICE_WEIGHTS: [u32; 20] =
    [1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15];
const NICE: &str = "the kernel's nice";
const WEIGHTS: &str = "the kernel's default";

pub(crate) fn run(bench: &mut Bench) -> Result<Outcome, ExperimentError> {
    let piece = bench.total / PIECES;
    let setup = Setup::of(bench.options);
    let mut daemon = bench.allotd(&setup)?;
    let mut findings = Findings::new(bench, &daemon)?;
    let policy = findings.policy;
    let own = daemon.is_own();
    if !own {
        let what =
            "the running allotd goes on beside the kernel's default: nothing to compare with";
        findings.notes.push(what.to_owned());
    }
    let other = if policy == Policy::Lottery { Policy::Stride } else { Policy::Lottery };
    let mut svg = Vec::new();
    let mut wobbly: Vec<(String, Series)> = Vec::new();
    let mut default_series = None;

    for (ratio, figure) in [(4, "figure 19"), (3, "figure 20"), (20, "no figure; text")] {
        let graph = pair(ratio, None)?;
        let label = format!("{ratio}:1");
        let record = one(bench, Some(&mut daemon), &graph, &label, piece, true)?;
        findings.add(&label, &names(&graph), &record.windows);
        let mut panels = vec![panel(&policy.to_string(), &graph, &record, Vec::new())];
        if own {
            let default = beside(bench, &mut daemon, &graph, &label, piece)?;
            findings.add_default(&label, &names(&graph), &default.windows);
            panels.push(panel(WEIGHTS, &graph, &default, Vec::new()));
            default_series.get_or_insert(default.series);
        }
        let title = format!("Relative rate of execution {ratio}:1 (paper 3, {figure})");
        svg.push((format!("rre-{ratio}-1.svg"), draw(&title, &panels)));
        if ratio == 4 {
            wobbly.push((policy.to_string(), record.series));
        }
    }
    let graph = pair(4, Some(1))?;
    let marks = |seconds: f64| vec![(seconds / 2.0, "4:1 becomes 1:1".to_owned())];
    let record = one(bench, Some(&mut daemon), &graph, "changed", 2.0 * piece, true)?;
    findings.add("", &names(&graph), &record.windows);
    let mut panels = vec![panel(&policy.to_string(), &graph, &record, marks(2.0 * piece))];
    if own {
        let default = beside(bench, &mut daemon, &graph, "changed", 2.0 * piece)?;
        findings.add_default("", &names(&graph), &default.windows);
        panels.push(panel(WEIGHTS, &graph, &default, marks(2.0 * piece)));
    }
    let title = "Ticket ratio changed half-way from 4:1 to 1:1 (paper 3, figure 23)";
    svg.push(("rre-changed.svg".to_owned(), draw(title, &panels)));
    // One allotd at a time shares a CPU.
    drop(daemon);

    let graph = pair(4, None)?;
    if own {
        let mut daemon = bench.allotd(&Setup { policy: other, ..setup })?;
        let label = format!("4:1 by {other}");
        let record = one(bench, Some(&mut daemon), &graph, &label, piece, true)?;
        findings.compare(&label, &names(&graph), &record.windows, other.as_str());
        wobbly.push((other.to_string(), record.series));
    } else {
        let what = format!("the running allotd has {policy} only: no wobble for {other}");
        findings.notes.push(what);
    }
    wobbly.extend(default_series.map(|series| (WEIGHTS.to_owned(), series)));

    let mut niced = graph.clone();
    let (nice, ratio) = nearest_nice(4.0);
    niced.clients[0].nice = nice;
    let record = one(bench, None, &niced, NICE, piece, false)?;
    let label = format!("4:1 by nice 0 and {nice}");
    findings.compare(&label, &names(&niced), &record.windows, NICE);
    findings.notes.push(format!(
        "no nice value means 4:1 to the kernel: the nearest, {nice}, means {ratio:.2}:1 by its \
         table of weights"
    ));
    wobbly.push((NICE.to_owned(), record.series));

    let chance = (0.8, findings.quantum().as_millis() as u64);
    for (by, series) in &wobbly {
        let draws = (by == Policy::Lottery.as_str()).then_some(chance);
        findings.wobble.extend(wobble(by, &graph.clients[1].name, 1, series, draws));
    }
    svg.push(("rre-zoomed.svg".to_owned(), zoomed(&graph, &wobbly)));
    svg.push(("rre-wobble.svg".to_owned(), plot_wobble(&findings.wobble)));
    Ok(findings.finish(bench, &INFO, INFO.title, INFO.paper, svg))
}

fn one(
    bench: &mut Bench,
    daemon: Option<&mut Daemon>,
    graph: &Graph,
    label: &str,
    seconds: f64,
    weights: bool,
) -> Result<Record, ExperimentError> {
    let mut daemon = daemon;
    if let Some(daemon) = &mut daemon {
        daemon.resume(bench.stop)?;
    }
    let slices = &[1.0];
    bench.run(daemon, &Part { label, graph, seconds, tick: TICK, slices, weights, last: false })
}

/// The same by the kernel's default alone; the next part of allot's starts it again.
fn beside(
    bench: &mut Bench,
    daemon: &mut Daemon,
    graph: &Graph,
    label: &str,
    seconds: f64,
) -> Result<Record, ExperimentError> {
    daemon.pause();
    one(bench, None, graph, label, seconds, true)
}

fn names(graph: &Graph) -> Vec<String> {
    graph.clients.iter().map(|client| client.name.clone()).collect()
}

fn panel(title: &str, graph: &Graph, record: &Record, marks: Vec<(f64, String)>) -> Panel {
    progress_panel(title, progress(&names(graph), &record.series, &|_| true), marks)
}

/// Two processes of one user. As in the paper, process 1 has 200 tickets, and process 2 the
/// greater number.
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

/// The nice value whose weight comes nearest to a ratio below nice 0's, and the ratio it means.
fn nearest_nice(ratio: f64) -> (i32, f64) {
    let of = |nice: usize| f64::from(NICE_WEIGHTS[0]) / f64::from(NICE_WEIGHTS[nice]);
    let far = |nice: &usize| (of(*nice) / ratio).ln().abs();
    let nice = (0..NICE_WEIGHTS.len()).min_by(|a, b| far(a).total_cmp(&far(b)));
    let nice = nice.expect("the table is not empty");
    (nice as i32, of(nice))
}

/// The first second of each run, where the lines' wobble shows.
fn zoomed(graph: &Graph, runs: &[(String, Series)]) -> String {
    let panels: Vec<Panel> = runs
        .iter()
        .map(|(by, series)| {
            let last = series.at.last().copied().unwrap_or(0.0);
            let from = crate::session::SETTLE_SECONDS.min(last / 10.0);
            let keep = |at: f64| at >= from && at < from + 1.0;
            progress_panel(by, progress(&names(graph), series, &keep), Vec::new())
        })
        .collect();
    draw("Wobble: one second at 4:1 (paper 3, figures 24 to 27)", &panels)
}

fn plot_wobble(wobble: &[Wobble]) -> String {
    let mut lines: Vec<Line> = Vec::new();
    for one in wobble {
        let Some(x) = WINDOWS_MS.iter().position(|window| *window == one.window_ms) else {
            continue;
        };
        let mut put = |name: String, y: f64, dashed: bool| {
            let point = (x as f64, y * 100.0);
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(point),
                None => lines.push(Line { name, points: vec![point], dashed }),
            }
        };
        put(one.by.clone(), one.standard_deviation, false);
        if let Some(deviation) = one.of_the_draw {
            put("binomial, by arithmetic".to_owned(), deviation, true);
        }
    }
    let panel = Panel {
        title: "process 2 of 4:1".to_owned(),
        x_label: "length of the window (ms)".to_owned(),
        y_label: "standard deviation of the share (percentage points)".to_owned(),
        lines,
        marks: Vec::new(),
        x_names: WINDOWS_MS.iter().map(u64::to_string).collect(),
    };
    draw("Wobble of the share over short windows (paper 3, figures 24 to 28)", &[panel])
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let count = crate::timeline::phases(&graph, 10.0).unwrap().len();
            assert_eq!(count, 1 + usize::from(then.is_some()));
        }
    }
}
