//! The plots of `exchange-database`, live or simulated.

use crate::catalogue::exchange_database::judge::Cell;
use crate::report::plot::{Line, Panel, level, plain_panel};

/// Returns the figures, by their files' names.
pub(super) fn plots(cells: &[Cell]) -> Vec<(&'static str, Vec<Panel>)> {
    let mut memories: Vec<u64> = cells.iter().map(|cell| cell.memory).collect();
    memories.sort_unstable();
    memories.dedup();
    let lines = |server: usize, keep: &dyn Fn(u64) -> bool| {
        let of = |memory: &u64| {
            let points = cells.iter().filter(|cell| cell.memory == *memory);
            Line {
                name: format!("{memory} memory"),
                points: points.map(|cell| (cell.disk as f64, cell.times[server])).collect(),
                dashed: false,
            }
        };
        let kept = memories.iter().filter(|memory| keep(**memory));
        let mut lines: Vec<Line> = kept.map(of).collect();
        lines.push(level("no exchange", 100.0, 800.0, 1.0));
        lines
    };
    let panel = |title: &str, lines: Vec<Line>| {
        plain_panel(title, "disk tickets that small gives", "times of the look-ups without", lines)
    };
    vec![
        ("small", vec![panel("small", lines(0, &|_| true))]),
        (
            "small-up-to-600",
            vec![panel("small, up to 600 memory", lines(0, &|memory| memory <= 600))],
        ),
        ("big", vec![panel("big", lines(1, &|_| true))]),
    ]
}
