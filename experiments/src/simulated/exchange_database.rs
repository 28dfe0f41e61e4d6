//! Paper 1, 6.6: two look-up servers exchange memory for disk, in all 64 amounts.

use super::exchanging::{Done, database, thousandths};
use super::report::Findings;
use super::scene::Plan;
use crate::exchange_database_figures::{Cell, judge};
use crate::{ExperimentInfo, Outcome};

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
    let of = |memory: u64, disk: u64| {
        let done = pair(plan, disk, memory);
        let times = [0, 1].map(|server| done[server].iterations / none[server].iterations);
        Cell { memory, disk, times }
    };
    let of_memory = |memory: u64| AMOUNTS.map(|disk| of(memory, disk));
    let cells: Vec<Cell> = AMOUNTS.into_iter().flat_map(of_memory).collect();
    let mut findings = Findings::new();
    findings.policy = "LRU by page, VINO's rule; disk: YFQ; CPU: stride".to_owned();
    findings.default = "no exchange".to_owned();
    findings.units =
        "times of the look-ups without exchange, in the last third of each run".to_owned();
    let plots = findings.take(judge(&cells));
    findings.finish(plan, plots)
}
