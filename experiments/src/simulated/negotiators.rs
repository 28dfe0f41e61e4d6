//! Negotiators in paper 1's two loads (6.5 and 6.6): what they find by themselves, how fast, at what cost.

use super::exchanging::{
    Load, alike, cpu_disk, cpu_good, database, disk_good, memory_good, thousandths, turning,
};
use super::report::Findings;
use super::scene::{Plan, over_time};
use crate::plot::{Line, level};
use crate::{Contest, ExperimentInfo, Outcome};
use ledger::{CurrencyId, Good};
use market::Negotiator;
use market::negotiator::{Observation, Options, Seen, Tally};
use sim::machine::Usage;
use sim::trading::Floor;

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "negotiators",
    title: "Negotiators",
    paper: "paper 1, 4.2, 6.5 and 6.6",
    what: "Two programs that know nothing of tickets have a negotiator each, in the loads of \
           exchange-cpu-disk and exchange-database, in one whose programs change places half-way, and in one \
           where no trade helps.",
    least_seconds: 1800.0,
    usual_seconds: 3600.0,
    own_allotd: false,
};

/// CPU time of one step of a negotiator: assumed, since nothing is measured in virtual time; a step
/// is some tens of microseconds, and reading what is to be seen some more.
const STEP_NS: u64 = 200_000;
/// How often the dealer clears.
const TICK_NS: u64 = 5_000_000_000;
/// Intervals of the plots.
const INTERVAL_S: f64 = 60.0;
/// What negotiators are to find of the best static exchange.
const GOAL: f64 = 0.8;

struct Trader {
    negotiator: Negotiator,
    cost_ns: u64,
}

/// What a run with negotiators gave.
struct Run {
    /// Iterations a second of both in each interval.
    rates: Vec<[f64; 2]>,
    tallies: [Tally; 2],
    /// CPU time of the negotiators, as parts of what their clients were due.
    costs: [f64; 2],
    /// The most reversals in any hour.
    reversals: usize,
    /// What each holds in the end of each good, by own tickets.
    held: Vec<String>,
}

/// What either of the two has of its own.
fn own(load: &Load, goods: &[Good]) -> Vec<u64> {
    let of = |good: &Good| {
        let traded = load.goods.iter().find(|(other, _)| other == good);
        traded.map_or(super::exchanging::EQUAL, |(_, own)| *own)
    };
    goods.iter().map(of).collect()
}

fn observe(
    load: &Load,
    floor: &mut Floor,
    goods: &[Good],
    place: usize,
    usage: &Usage,
    cost_ns: u64,
) -> Observation {
    let id = load.clients[place];
    let now_ns = load.machine.now_ns();
    let seen = goods.iter().zip(own(load, goods)).map(|(good, own)| Seen {
        good: good.clone(),
        waited_ns: match &good.resource {
            ledger::Resource::Cpu => usage.runnable_ns.saturating_sub(usage.cpu_ns),
            ledger::Resource::Memory => usage.memory_wait_ns,
            // What waits for pages that were taken waits for the disk as well as for memory.
            _ => usage.disk_wait_ns,
        },
        held: floor.held(id, good, own),
        free: floor.free(id, good, own),
    });
    Observation {
        now_ns,
        progress: Some(usage.iterations),
        run_ns: usage.cpu_ns,
        faults: usage.faults,
        due_ns: now_ns / load.clients.len() as u64,
        cost_ns,
        seen: seen.collect(),
        events: floor.events(id),
    }
}

/// Sets everybody's tickets to what the floor says, less before more.
fn settle(load: &mut Load, floor: &Floor, goods: &[Good], set: &mut [Vec<u64>; 2]) {
    let wanted = [0, 1].map(|place| {
        let own = own(load, goods);
        let held = goods.iter().zip(own);
        held.map(|(good, own)| floor.held(load.clients[place], good, own)).collect::<Vec<u64>>()
    });
    for more in [false, true] {
        for place in 0..2 {
            for (index, good) in goods.iter().enumerate() {
                let (now, then) = (set[place][index], wanted[place][index]);
                if now != then && (then > now) == more {
                    load.set(place, good, then);
                    set[place][index] = then;
                }
            }
        }
    }
}

fn negotiate(mut load: Load, goods: &[Good], seconds: f64) -> Run {
    let mut floor = Floor::default();
    let new = || Trader { negotiator: Negotiator::new(Options::default()), cost_ns: 0 };
    let mut traders = [new(), new()];
    let mut set = [own(&load, goods), own(&load, goods)];
    let (mut rates, mut reversals) = (Vec::new(), 0);
    let mut last = [0, 0];
    let ticks = (seconds * 1e9) as u64 / TICK_NS;
    let per_interval = (INTERVAL_S * 1e9) as u64 / TICK_NS;
    for tick in 1..=ticks {
        load.machine.run_until(tick * TICK_NS);
        let usages = load.usages();
        for place in 0..2 {
            let trader = &mut traders[place];
            let seen = observe(&load, &mut floor, goods, place, &usages[place], trader.cost_ns);
            let actions = trader.negotiator.step(&seen);
            trader.cost_ns += STEP_NS;
            floor.act(load.clients[place], actions);
            reversals = reversals.max(trader.negotiator.reversals(seen.now_ns));
        }
        let free = |_: CurrencyId, good: &Good| {
            let index = goods.iter().position(|other| other == good);
            index.map_or(0, |index| own(&load, goods)[index])
        };
        floor.clear(tick * TICK_NS / 1_000_000_000, free);
        settle(&mut load, &floor, goods, &mut set);
        if tick % per_interval == 0 {
            let done = [usages[0].iterations, usages[1].iterations];
            rates.push([0, 1].map(|place| (done[place] - last[place]) as f64 / INTERVAL_S));
            last = done;
        }
    }
    let due_ns = load.machine.now_ns() / load.clients.len() as u64;
    let words = |place: usize| {
        let each =
            goods.iter().zip(&set[place]).map(|(good, held)| format!("{held} {}", good.resource));
        format!("{} holds {}", load.names[place], each.collect::<Vec<_>>().join(", "))
    };
    Run {
        rates,
        tallies: [0, 1].map(|place| traders[place].negotiator.tally()),
        costs: [0, 1].map(|place| traders[place].cost_ns as f64 / due_ns as f64),
        reversals,
        held: vec![words(0), words(1)],
    }
}

/// Iterations a second of the two with a static exchange from the beginning, when it is steady.
fn fixed(mut load: Load, amounts: (u64, u64), seconds: f64) -> [f64; 2] {
    load.exchange(amounts);
    let done = load.between(seconds * 0.7, seconds);
    [done[0].iterations, done[1].iterations]
}

/// What two gain: the mean of the logarithms.
fn gain(rates: [f64; 2], none: [f64; 2]) -> f64 {
    ((rates[0] / none[0]).ln() + (rates[1] / none[1]).ln()) / 2.0
}

fn mean_of(rates: &[[f64; 2]]) -> [f64; 2] {
    [0, 1].map(|place| rates.iter().map(|rates| rates[place]).sum::<f64>() / rates.len() as f64)
}

/// The gain in the last sixth of some intervals.
fn end_gain(rates: &[[f64; 2]], none: [f64; 2]) -> f64 {
    gain(mean_of(&rates[rates.len() - rates.len() / 6..]), none)
}

/// The interval from whose beginning on five in a row have this gain, on average, in seconds.
fn reached(rates: &[[f64; 2]], none: [f64; 2], wanted: f64) -> Option<f64> {
    let five = rates.windows(5.min(rates.len()));
    let found = five.map(|five| gain(mean_of(five), none)).position(|gain| gain >= wanted);
    found.map(|interval| interval as f64 * INTERVAL_S)
}

/// A load of the paper.
struct Traded<'a> {
    name: &'static str,
    make: fn(u64) -> Load,
    goods: &'a [Good],
    /// The static exchanges that it is compared with.
    exchanges: Vec<(u64, u64)>,
}

pub(super) fn run(plan: &Plan) -> Outcome {
    let seed = plan.seed;
    let two = [cpu_good(), disk_good()];
    let three = [cpu_good(), disk_good(), memory_good()];
    let static_s = plan.seconds.min(900.0);
    let mut findings = Findings::new();
    findings.policy = "negotiators with their usual options; the dealer every 5 s".to_owned();
    findings.default = "no exchange".to_owned();
    findings.units = "times of the progress without exchange, geometric mean of the two".to_owned();
    let mut panels = Vec::new();
    let mut report = |name: &str, run: &Run, none: [f64; 2], best: f64, findings: &mut Findings| {
        let steps = run.rates.iter().enumerate();
        let points =
            steps.map(|(interval, rates)| (interval as f64 * INTERVAL_S, gain(*rates, none).exp()));
        let line =
            Line { name: "with negotiators".to_owned(), points: points.collect(), dashed: false };
        let levels = [("best static exchange", best.exp()), ("no exchange", 1.0)];
        let mut lines = vec![line];
        lines.extend(levels.map(|(name, height)| level(name, 0.0, plan.seconds, height)));
        panels.push(over_time(name, "times of the progress without", lines));
        let [a, b] = run.tallies;
        findings.note(format!(
            "{name}: {} and {} steps kept, {} and {} taken back, {} and {} ended by the partner, {} and {} changes of load seen; \
             {}",
            a.kept, b.kept, a.reversed, b.reversed, a.abandoned, b.abandoned, a.changes, b.changes,
            run.held.join("; ")
        ));
        let cost = run.costs[0].max(run.costs[1]);
        findings.check(
            format!(
                "{name}: a negotiator costs at most 1 % of what its client is due ({:.3} %)",
                cost * 100.0
            ),
            cost <= 0.01,
        );
        findings.check(
            format!("{name}: at most 12 reversals in any hour ({})", run.reversals),
            run.reversals <= market::negotiator::REVERSALS_MAX,
        );
    };
    // The two loads of the paper.
    let amounts = |memory: u64| thousandths(1375 + memory) - thousandths(1375);
    let hundreds = 1..=8u64;
    let one_for_one: Vec<(u64, u64)> = hundreds.clone().map(|n| (n * 100, n * 100)).collect();
    let pairs: Vec<(u64, u64)> = hundreds.map(|disk| (disk * 100, amounts(700))).collect();
    let loads = [
        Traded { name: "cpu and disk", make: cpu_disk, goods: &two, exchanges: one_for_one },
        Traded { name: "memory and disk", make: database, goods: &three, exchanges: pairs },
    ];
    let mut cpu_disk_best = (0.0, [1.0; 2]);
    for Traded { name, make, goods, exchanges } in loads {
        let none = fixed(make(seed), (0, 0), static_s);
        let gains =
            exchanges.iter().map(|amounts| gain(fixed(make(seed), *amounts, static_s), none));
        let best = gains.fold(0.0, f64::max);
        if name == "cpu and disk" {
            cpu_disk_best = (best, none);
        }
        let found = negotiate(make(seed), goods, plan.seconds);
        let share = end_gain(&found.rates, none) / best;
        findings.contest(
            Contest::new(name, "gain in the end", "")
                .promising(Some(best.exp()))
                .measured(Some(end_gain(&found.rates, none).exp()), Some(1.0)),
        );
        findings.check(
            format!(
                "{name}: negotiators find {:.0} % of the best static gain (goal: 80 %)",
                share * 100.0
            ),
            share >= GOAL,
        );
        match reached(&found.rates, none, best * GOAL) {
            Some(seconds) => findings.note(format!("{name}: 80 % of it from {seconds:.0} s on")),
            None => findings.note(format!("{name}: 80 % of it is not reached for long")),
        }
        report(name, &found, none, best, &mut findings);
    }
    // Half-way each becomes what the other was.
    let (best, none) = cpu_disk_best;
    let half_ns = (plan.seconds / 2.0 * 1e9) as u64;
    let found = negotiate(turning(seed, half_ns), &two, plan.seconds);
    let half = found.rates.len() / 2;
    let turned = [none[1], none[0]];
    // What would be, had they kept what was good in the first half.
    let share = end_gain(&found.rates[half..], turned) / best;
    let after: Vec<[f64; 2]> = found.rates[half..].to_vec();
    findings.check(
        format!(
            "places changed half-way: {:.0} % of the best static gain in the end (goal: 80 %)",
            share * 100.0
        ),
        share >= GOAL,
    );
    findings.contest(
        Contest::new("places changed half-way", "gain in the end", "")
            .promising(Some(best.exp()))
            .measured(Some(end_gain(&after, turned).exp()), Some(1.0)),
    );
    match reached(&after, turned, best * GOAL) {
        Some(seconds) => {
            findings.note(format!("places changed half-way: 80 % of it {seconds:.0} s later"))
        }
        None => findings.note("places changed half-way: 80 % of it is not reached for long"),
    }
    let mut turned_run = found;
    for rates in &mut turned_run.rates[half..] {
        rates.swap(0, 1);
    }
    report("places changed half-way", &turned_run, none, best, &mut findings);
    // Two that need the same.
    let none = fixed(alike(seed), (0, 0), static_s);
    let found = negotiate(alike(seed), &two, plan.seconds);
    let end = end_gain(&found.rates, none).exp();
    let whole = gain(mean_of(&found.rates), none).exp();
    findings.contest(
        Contest::new("no trade helps", "gain in the end", "")
            .promising(Some(1.0))
            .measured(Some(end), Some(1.0)),
    );
    findings.check(
        format!(
            "no trade helps: nothing is lost, 2 % aside (in the end {end:.3}, over all {whole:.3})"
        ),
        end >= 0.98 && whole >= 0.98,
    );
    report("no trade helps", &found, none, 0.0, &mut findings);
    let plots = panels.into_iter().zip(["cpu-disk", "memory-disk", "changed", "no-trade"]);
    let plots = plots.map(|(panel, name)| (name, vec![panel])).collect();
    findings.finish(plan, plots)
}
