//! The plots of `rre`.

use crate::report::plot::{Line, Panel, plain_panel, progress, progress_panel};
use crate::report::series::{SETTLE_SECONDS, Series};
use crate::report::wobble::{WINDOWS_MS, Wobble};

/// Returns the first second of each run, which shows the wobble of its lines.
pub(super) fn zoomed(names: &[String], runs: &[(String, Series)]) -> Vec<Panel> {
    let panel = |(by, series): &(String, Series)| {
        let last = series.at.last().copied().unwrap_or(0.0);
        let from = SETTLE_SECONDS.min(last / 10.0);
        let keep = |at: f64| at >= from && at < from + 1.0;
        progress_panel(by, progress(names, series, &keep), Vec::new())
    };
    runs.iter().map(panel).collect()
}

/// Returns the standard deviations over the lengths of windows, a line for each rule.
pub(super) fn deviations(wobble: &[Wobble]) -> Panel {
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
    let y_label = "standard deviation of the share (percentage points)";
    let panel = plain_panel("process 2 of 4:1", "length of the window (ms)", y_label, lines);
    Panel { x_names: WINDOWS_MS.iter().map(u64::to_string).collect(), ..panel }
}
