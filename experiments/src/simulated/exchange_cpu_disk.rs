//! Paper 1, 6.5 (figures 11 and 12): a CPU-bound and a disk-bound program exchange tickets one for one.

use super::exchanging::{Done, EQUAL, cpu_disk};
use super::report::Findings;
use super::scene::{Plan, level};
use crate::plot::{Line, Panel};
use crate::{Contest, ExperimentInfo, Outcome};

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "exchange-cpu-disk",
    title: "Exchanges of CPU for disk",
    paper: "paper 1, figures 11 and 12",
    what: "A dhrystone gives an iohog n disk tickets for n CPU tickets, n = 100 to 800 of 1000; one more \
           dhrystone and four more iohogs are bystanders.",
    least_seconds: 60.0,
    usual_seconds: 600.0,
    own_allotd: false,
};

/// What is each bystander's, whatever others exchange.
const GUARANTEED: f64 = 1.0 / 7.0;
/// What a bystander may lack of it, as a part: the lottery's chance, and the disk's last request.
const TOLERANCE: f64 = 0.03;

struct Exchange {
    n: u64,
    done: Vec<Done>,
}

impl Exchange {
    fn cpu(&self, client: usize) -> f64 {
        self.done[client].cpu
    }

    /// The part of all that the disk served.
    fn disk(&self, client: usize) -> f64 {
        let all: f64 = self.done.iter().map(|done| done.disk_requests).sum();
        self.done[client].disk_requests / all
    }

    fn least_disk_beside(&self) -> f64 {
        (3..7).map(|client| self.disk(client)).fold(f64::INFINITY, f64::min)
    }
}

pub(super) fn run(plan: &Plan) -> Outcome {
    let exchanges: Vec<Exchange> = (0..=8)
        .map(|hundreds| {
            let n = hundreds * 100;
            let mut load = cpu_disk(plan.seed);
            load.exchange((n, n));
            // What is read first settles.
            Exchange { n, done: load.between(plan.seconds * 0.1, plan.seconds) }
        })
        .collect();
    let none = &exchanges[0];
    let times = |exchange: &Exchange, client: usize| {
        exchange.done[client].iterations / none.done[client].iterations
    };
    let mut findings = Findings::new();
    findings.policy = "CPU: lottery, 10 ms; disk: YFQ".to_owned();
    findings.default = "no exchange".to_owned();
    findings.units =
        "times of the progress without exchange; parts of the CPU and of the disk's requests"
            .to_owned();
    for exchange in &exchanges {
        let what = format!("n = {}", exchange.n);
        let number = |quantity: &str, value: f64, before: f64| {
            Contest::new(&what, quantity, "").measured(Some(value), Some(before))
        };
        findings.contest(number("dhrystone's progress", times(exchange, 0), 1.0));
        findings.contest(number("iohog's progress", times(exchange, 1), 1.0));
        let guaranteed = Some(GUARANTEED);
        findings.contest(
            number("CPU, other dhrystone", exchange.cpu(2), none.cpu(2)).promising(guaranteed),
        );
        findings.contest(
            number(
                "disk, least of other iohogs",
                exchange.least_disk_beside(),
                none.least_disk_beside(),
            )
            .promising(guaranteed),
        );
    }
    let all = |test: &dyn Fn(&Exchange) -> bool| exchanges[1..].iter().all(test);
    findings.check(
        "both gain by every exchange (paper: both do)",
        all(&|it| times(it, 0) > 1.0 && times(it, 1) > 1.0),
    );
    findings.check(
        "dhrystone gains more, the more it exchanges (paper: it does)",
        exchanges.windows(2).all(|pair| times(&pair[1], 0) > times(&pair[0], 0)),
    );
    let floor = GUARANTEED * (1.0 - TOLERANCE);
    findings.check(
        "no bystander has less than a seventh of what it competes for",
        exchanges.iter().all(|it| it.cpu(2) >= floor && it.least_disk_beside() >= floor),
    );
    let greatest = exchanges.iter().max_by(|a, b| times(a, 1).total_cmp(&times(b, 1)));
    if let Some(greatest) = greatest {
        findings.note(format!(
            "iohog gains most at n = {} ({:.2} times; paper: 500). What it loses of the CPU costs it what it waits \
             for a turn: with compensation tickets, little.",
            greatest.n,
            times(greatest, 1)
        ));
    }
    let line = |name: &str, of: &dyn Fn(&Exchange) -> f64| Line {
        name: name.to_owned(),
        points: exchanges.iter().map(|it| (it.n as f64, of(it))).collect(),
        dashed: false,
    };
    let panel = |title: &str, y_label: &str, lines: Vec<Line>| Panel {
        title: title.to_owned(),
        x_label: "tickets exchanged, n".to_owned(),
        y_label: y_label.to_owned(),
        lines,
        marks: Vec::new(),
        x_names: Vec::new(),
    };
    let progress = vec![
        line("dhrystone", &|it| times(it, 0)),
        line("iohog", &|it| times(it, 1)),
        level("no exchange", 0.0, 800.0, 1.0),
    ];
    let cpu = vec![
        line("dhrystone that exchanges", &|it| it.cpu(0)),
        line("the other", &|it| it.cpu(2)),
        line("promised", &|it| (EQUAL + it.n) as f64 / (7 * EQUAL) as f64),
        level("a seventh", 0.0, 800.0, GUARANTEED),
    ];
    let disk = vec![
        line("iohog that exchanges", &|it| it.disk(1)),
        line("the least of the others", &Exchange::least_disk_beside),
        line("promised", &|it| (EQUAL + it.n) as f64 / (7 * EQUAL) as f64),
        level("a seventh", 0.0, 800.0, GUARANTEED),
    ];
    findings.finish(
        plan,
        vec![
            ("figure-11", vec![panel("Figure 11: progress", "times of that without", progress)]),
            (
                "figure-12",
                vec![
                    panel("Figure 12: the CPU", "part", cpu),
                    panel("Figure 12: the disk", "part", disk),
                ],
            ),
        ],
    )
}
