//! Paper 1, 6.6: two look-up servers exchange memory for disk, in all 64 amounts.

use crate::catalogue::exchange_database::judge::{Cell, judge};
use crate::catalogue::exchange_database::plots::plots;
use crate::report::findings::Findings;
use crate::report::outcome::Outcome;
use crate::simulation::exchange_loads::{Done, database, thousandths};
use crate::simulation::plan::{Plan, Words};

const AMOUNTS: [u64; 8] = [100, 200, 300, 400, 500, 600, 700, 800];

/// Exchanges: `small` gives `disk` tickets for `memory` pages after a third of the time. Returns
/// the work of both in the last third.
fn pair(plan: &Plan, disk: u64, memory: u64) -> [Done; 2] {
    let mut load = database(plan.seed);
    load.machine.run_until((plan.seconds / 3.0 * 1e9) as u64);
    // In thousandths of the memory: the difference of the amounts held, so that sums come out even.
    let amount = thousandths(1375 + memory) - thousandths(1375);
    load.exchange((disk, amount));
    let done = load.between(plan.seconds * 2.0 / 3.0, plan.seconds);
    [done[0], done[1]]
}

pub(crate) fn run(plan: &Plan) -> Outcome {
    let none = pair(plan, 0, 0);
    let of = |memory: u64, disk: u64| {
        let done = pair(plan, disk, memory);
        let times = [0, 1].map(|server| done[server].iterations / none[server].iterations);
        Cell { memory, disk, times }
    };
    let of_memory = |memory: u64| AMOUNTS.map(|disk| of(memory, disk));
    let cells: Vec<Cell> = AMOUNTS.into_iter().flat_map(of_memory).collect();
    let mut findings = Findings::default();
    findings.add_verdict(judge(&cells));
    let words = Words {
        policy: "LRU by page, VINO's rule; disk: YFQ; CPU: stride".to_owned(),
        default: "no exchange",
        units: "times of the look-ups without exchange, in the last third of each run",
    };
    plan.finish(words, findings, plots(&cells))
}
