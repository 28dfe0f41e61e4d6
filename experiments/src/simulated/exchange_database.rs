//! Paper 1, 6.6: two look-up servers exchange memory for disk, in all 64 amounts.

use super::exchanging::{Done, database, thousandths};
use super::report::Findings;
use super::scene::{Plan, level};
use crate::plot::{Line, Panel};
use crate::{Contest, ExperimentInfo, Outcome};

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "exchange-database",
    title: "Exchanges of memory for disk",
    paper: "paper 1, 6.6",
    what: "Two look-up servers, one whose data nearly fits and one whose data never will, exchange disk for \
           memory tickets in all 64 amounts of 100 to 800, beside four iohogs.",
    least_seconds: 300.0,
    usual_seconds: 900.0,
    own_allotd: false,
};

const AMOUNTS: [u64; 8] = [100, 200, 300, 400, 500, 600, 700, 800];

/// `small` gives `disk` tickets for `memory` pages after a third of the time; what both do in the
/// last third.
fn pair(plan: &Plan, disk: u64, memory: u64) -> [Done; 2] {
    let mut load = database(plan.seed);
    load.machine.run_until((plan.seconds / 3.0 * 1e9) as u64);
    // In thousandths of the memory: the difference of what is held, so that sums come out even.
    let amount = thousandths(1375 + memory) - thousandths(1375);
    load.exchange((disk, amount));
    let done = load.between(plan.seconds * 2.0 / 3.0, plan.seconds);
    [done[0], done[1]]
}

pub(super) fn run(plan: &Plan) -> Outcome {
    let none = pair(plan, 0, 0);
    let times = |done: &[Done; 2], server: usize| done[server].iterations / none[server].iterations;
    let of_memory = |memory: u64| AMOUNTS.map(|disk| pair(plan, disk, memory));
    let all: Vec<[[Done; 2]; 8]> = AMOUNTS.iter().map(|&memory| of_memory(memory)).collect();
    let mut findings = Findings::new();
    findings.policy = "LRU by page, VINO's rule; disk: YFQ; CPU: stride".to_owned();
    findings.default = "no exchange".to_owned();
    findings.units =
        "times of the look-ups without exchange, in the last third of each run".to_owned();
    for (row, &memory) in all.iter().zip(&AMOUNTS) {
        for (done, &disk) in row.iter().zip(&AMOUNTS) {
            let what = format!("{memory} memory for {disk} disk");
            for (server, name) in ["small", "big"].iter().enumerate() {
                let value = times(done, server);
                findings.contest(
                    Contest::new(&what, &format!("{name}'s look-ups"), "")
                        .measured(Some(value), Some(1.0)),
                );
            }
        }
    }
    let small = |memory: usize, disk: usize| times(&all[memory][disk], 0);
    let big = |memory: usize, disk: usize| times(&all[memory][disk], 1);
    let everywhere = |memories: std::ops::Range<usize>, test: &dyn Fn(usize, usize) -> bool| {
        memories.into_iter().all(|memory| (0..8).all(|disk| test(memory, disk)))
    };
    let count = |of: &dyn Fn(usize, usize) -> f64| {
        (0..64).filter(|cell| of(cell / 8, cell % 8) > 1.0).count()
    };
    findings.check(
        format!("small gains by most ({} of 64; paper: most)", count(&small)),
        count(&small) > 32,
    );
    findings
        .check(format!("big gains by most ({} of 64; paper: most)", count(&big)), count(&big) > 32);
    findings.check(
        "small loses where it gives 800 disk for 100 to 300 memory (paper: it does)",
        (0..3).all(|memory| small(memory, 7) < 1.0),
    );
    let least = (6..8).flat_map(|memory| (0..8).map(move |disk| (memory, disk)));
    let least = least.map(|(memory, disk)| small(memory, disk)).fold(f64::INFINITY, f64::min);
    findings.check(
        format!("small gains tenfold by 700 and 800 memory, for any disk (least: {least:.1}; paper: over 1000 %)"),
        least >= 10.0,
    );
    findings.check(
        "big gains by 600 disk and more, for any memory (paper: it does)",
        (0..8).all(|memory| (5..8).all(|disk| big(memory, disk) > 1.0)),
    );
    findings.check(
        "more memory is no worse for small, nor more disk for big, 3 % aside",
        everywhere(1..8, &|memory, disk| small(memory, disk) > 0.97 * small(memory - 1, disk))
            && everywhere(0..8, &|memory, disk| {
                disk == 0 || big(memory, disk) > 0.97 * big(memory, disk - 1)
            }),
    );
    let ratio = [(0, 1), (1, 3), (2, 5), (3, 7)].map(|(memory, disk)| small(memory, disk));
    findings.note(format!(
        "two disk for one memory is {:.2}, {:.2}, {:.2}, {:.2} times for small, at 100, 200, 300 and 400 memory: a ratio \
         alone is no offer (paper: no at 100 and 200, yes from 300)",
        ratio[0], ratio[1], ratio[2], ratio[3]
    ));
    findings.note(format!(
        "small gains by 400 memory up to {} disk (paper: for any); it has its pages with the same chance here, where \
         the paper's queries repeat some more",
        (0..8).filter(|disk| small(3, *disk) > 1.0).map(|disk| AMOUNTS[disk]).max().unwrap_or(0)
    ));
    let lines = |server: usize| {
        let line = |(memory, row): (&u64, &[[Done; 2]; 8])| Line {
            name: format!("{memory} memory"),
            points: AMOUNTS
                .iter()
                .zip(row)
                .map(|(disk, done)| (*disk as f64, times(done, server)))
                .collect(),
            dashed: false,
        };
        let mut lines: Vec<Line> = AMOUNTS.iter().zip(&all).map(line).collect();
        lines.push(level("no exchange", 100.0, 800.0, 1.0));
        lines
    };
    let panel = |title: &str, lines: Vec<Line>| Panel {
        title: title.to_owned(),
        x_label: "disk tickets that small gives".to_owned(),
        y_label: "times of the look-ups without".to_owned(),
        lines,
        marks: Vec::new(),
        x_names: Vec::new(),
    };
    let without_leap = lines(0)
        .into_iter()
        .filter(|line| !line.name.starts_with('7') && !line.name.starts_with('8'));
    let plots = vec![
        ("small", vec![panel("small", lines(0))]),
        ("small-up-to-600", vec![panel("small, up to 600 memory", without_leap.collect())]),
        ("big", vec![panel("big", lines(1))]),
    ];
    findings.finish(plan, plots)
}
