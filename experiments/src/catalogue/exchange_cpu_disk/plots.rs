//! The plots of `exchange-cpu-disk`, live or simulated.

use crate::catalogue::exchange_cpu_disk::judge::{GUARANTEED, Observed, due};
use crate::report::plot::{Line, Panel, level, plain_panel};

/// Returns the figures, by their files' names.
pub(super) fn plots(exchanges: &[Observed]) -> Vec<(&'static str, Vec<Panel>)> {
    let none = &exchanges[0];
    let last = exchanges.last().map_or(0.0, |it| it.n as f64);
    let line = |name: &str, dashed: bool, of: &dyn Fn(&Observed) -> f64| Line {
        name: name.to_owned(),
        points: exchanges.iter().map(|it| (it.n as f64, of(it))).collect(),
        dashed,
    };
    let panel = |title: &str, y_label: &str, lines: Vec<Line>| {
        plain_panel(title, "tickets exchanged, n", y_label, lines)
    };
    let times = |client: usize| move |it: &Observed| it.progress[client] / none.progress[client];
    let promised = |it: &Observed| due(it.n);
    let progress = vec![
        line("dhrystone", false, &times(0)),
        line("iohog", false, &times(1)),
        level("no exchange", 0.0, last, 1.0),
    ];
    let cpu = vec![
        line("dhrystone that exchanges", false, &|it| it.cpu[0]),
        line("the other", false, &|it| it.cpu[2]),
        line("promised", true, &promised),
        level("a seventh", 0.0, last, GUARANTEED),
    ];
    let disk = vec![
        line("iohog that exchanges", false, &|it| it.disk[1]),
        line("the least of the others", false, &Observed::least_disk_beside),
        line("promised", true, &promised),
        level("a seventh", 0.0, last, GUARANTEED),
    ];
    vec![
        ("figure-11", vec![panel("Figure 11: progress", "times of that without", progress)]),
        (
            "figure-12",
            vec![
                panel("Figure 12: the CPU", "part", cpu),
                panel("Figure 12: the disk", "part", disk),
            ],
        ),
    ]
}
