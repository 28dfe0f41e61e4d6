//! NegotiatorProcesses in paper 1's two loads (6.5 and 6.6): what they find by themselves, how
//! fast, at what cost.

use crate::report::comparison::Comparison;
use crate::report::findings::Findings;
use crate::report::outcome::Outcome;
use crate::report::plot::{Line, Panel, level};
use crate::simulation::exchange_loads::{
    EQUAL, Load, alike, cpu_disk, cpu_good, database, disk_good, memory_good, thousandths, turning,
};
use crate::simulation::plan::{Plan, Words};
use crate::simulation::samples::over_time;
use ledger::{CurrencyId, Good};
use market::Negotiator;
use market::negotiator::{Observation, Options, Seen, Tally};
use sim::machine::Usage;
use sim::trading::TradingSession;

/// CPU time of one step of a negotiator. It is assumed, since nothing is measured in virtual time:
/// a step takes some tens of microseconds, and reading its input some more.
const STEP_NS: u64 = 200_000;
/// Interval between clearings of the dealer.
const TICK_NS: u64 = 5_000_000_000;
/// Intervals of the plots.
const INTERVAL_S: f64 = 60.0;
/// The part of the best static gain that negotiators are to find.
const GOAL: f64 = 0.8;

struct Trader {
    negotiator: Negotiator,
    cost_ns: u64,
}

/// The result of a run with negotiators.
struct Run {
    /// Iterations a second of both in each interval.
    rates: Vec<[f64; 2]>,
    tallies: [Tally; 2],
    /// CPU time of the negotiators, as parts of what their clients were due.
    costs: [f64; 2],
    /// The most reversals in any hour.
    reversals: usize,
    /// The tickets of each good that each holds in the end, in words.
    held: Vec<String>,
}

/// Returns the tickets of each good that either of the two has of its own.
fn own(load: &Load, goods: &[Good]) -> Vec<u64> {
    let of = |good: &Good| {
        let traded = load.goods.iter().find(|(other, _)| other == good);
        traded.map_or(EQUAL, |(_, own)| *own)
    };
    goods.iter().map(of).collect()
}

fn observe(
    load: &Load,
    session: &mut TradingSession,
    goods: &[Good],
    place: usize,
    usage: &Usage,
    cost_ns: u64,
) -> Observation {
    let id = load.clients[place];
    let now_ns = load.machine.now_ns();
    let seen = goods.iter().zip(own(load, goods)).map(|(good, own)| Seen {
        good: good.clone(),
        waited_ns: match good.resource.kind() {
            ledger::KindName::CPU => usage.runnable_ns.saturating_sub(usage.cpu_ns),
            ledger::KindName::MEMORY => usage.memory_wait_ns,
            // A wait for pages that were taken is a wait for the disk as well as for memory.
            _ => usage.disk_wait_ns,
        },
        held: session.held(id, good, own),
        free: session.free(id, good, own),
    });
    Observation {
        now_ns,
        progress: Some(usage.iterations),
        run_ns: usage.cpu_ns,
        faults: usage.faults,
        due_ns: now_ns / load.clients.len() as u64,
        cost_ns,
        seen: seen.collect(),
        events: session.events(id),
    }
}

/// Sets all tickets to those of the trading session, less before more.
fn settle(load: &mut Load, session: &TradingSession, goods: &[Good], set: &mut [Vec<u64>; 2]) {
    let wanted = [0, 1].map(|place| {
        let own = own(load, goods);
        let held = goods.iter().zip(own);
        held.map(|(good, own)| session.held(load.clients[place], good, own)).collect::<Vec<u64>>()
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
    let mut session = TradingSession::default();
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
            let seen = observe(&load, &mut session, goods, place, &usages[place], trader.cost_ns);
            let actions = trader.negotiator.step(&seen);
            trader.cost_ns += STEP_NS;
            session.act(load.clients[place], actions);
            reversals = reversals.max(trader.negotiator.reversals(seen.now_ns));
        }
        let free = |_: CurrencyId, good: &Good| {
            let index = goods.iter().position(|other| other == good);
            index.map_or(0, |index| own(&load, goods)[index])
        };
        session.clear(tick * TICK_NS / 1_000_000_000, free);
        settle(&mut load, &session, goods, &mut set);
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

/// Returns the iterations a second of the two in the steady state of a static exchange.
fn fixed(mut load: Load, amounts: (u64, u64), seconds: f64) -> [f64; 2] {
    load.exchange(amounts);
    let done = load.between(seconds * 0.7, seconds);
    [done[0].iterations, done[1].iterations]
}

/// Returns the gain of two: the mean of the logarithms.
fn gain(rates: [f64; 2], none: [f64; 2]) -> f64 {
    ((rates[0] / none[0]).ln() + (rates[1] / none[1]).ln()) / 2.0
}

fn mean_of(rates: &[[f64; 2]]) -> [f64; 2] {
    [0, 1].map(|place| rates.iter().map(|rates| rates[place]).sum::<f64>() / rates.len() as f64)
}

/// Returns the gain in the last sixth of some intervals.
fn end_gain(rates: &[[f64; 2]], none: [f64; 2]) -> f64 {
    gain(mean_of(&rates[rates.len() - rates.len() / 6..]), none)
}

/// Returns the begin of the first five intervals in a row with this gain on average, in seconds.
fn reached(rates: &[[f64; 2]], none: [f64; 2], wanted: f64) -> Option<f64> {
    let five = rates.windows(5.min(rates.len()));
    let found = five.map(|five| gain(mean_of(five), none)).position(|gain| gain >= wanted);
    found.map(|interval| interval as f64 * INTERVAL_S)
}

/// A load of the paper.
struct PaperLoad {
    name: &'static str,
    make: fn(u64) -> Load,
    goods: Vec<Good>,
    /// The static exchanges that it is compared with.
    exchanges: Vec<(u64, u64)>,
}

/// The yardstick of a load: its progress without exchange, and the gain of the best static
/// exchange.
#[derive(Clone, Copy)]
struct Yardstick {
    none: [f64; 2],
    best: f64,
}

/// The findings so far, and a panel for each load.
struct Results<'a> {
    plan: &'a Plan,
    findings: Findings,
    panels: Vec<Panel>,
}

pub(crate) fn run(plan: &Plan) -> Outcome {
    let mut results = Results { plan, findings: Findings::default(), panels: Vec::new() };
    let [cpu_disk, memory_disk] = paper_loads();
    let yardstick = results.paper_load(&cpu_disk);
    results.paper_load(&memory_disk);
    results.changed_places(yardstick, &cpu_disk.goods);
    results.no_trade(&cpu_disk.goods);
    let words = Words {
        policy: "negotiators with their usual options; the dealer every 5 s".to_owned(),
        default: "no exchange",
        units: "times of the progress without exchange, geometric mean of the two",
    };
    let files = ["cpu-disk", "memory-disk", "changed", "no-trade"];
    let plots = files.into_iter().zip(results.panels.into_iter().map(|panel| vec![panel]));
    plan.finish(words, results.findings, plots.collect())
}

fn paper_loads() -> [PaperLoad; 2] {
    let amounts = |memory: u64| thousandths(1375 + memory) - thousandths(1375);
    let hundreds = 1..=8u64;
    [
        PaperLoad {
            name: "cpu and disk",
            make: cpu_disk,
            goods: vec![cpu_good(), disk_good()],
            exchanges: hundreds.clone().map(|n| (n * 100, n * 100)).collect(),
        },
        PaperLoad {
            name: "memory and disk",
            make: database,
            goods: vec![cpu_good(), disk_good(), memory_good()],
            exchanges: hundreds.map(|disk| (disk * 100, amounts(700))).collect(),
        },
    ]
}

impl Results<'_> {
    /// Returns the length of a run with a static exchange.
    fn static_seconds(&self) -> f64 {
        self.plan.seconds.min(900.0)
    }

    /// Runs a load of the paper, with the static exchanges and with negotiators.
    fn paper_load(&mut self, load: &PaperLoad) -> Yardstick {
        let PaperLoad { name, make, goods, exchanges } = load;
        let (seed, seconds) = (self.plan.seed, self.static_seconds());
        let none = fixed(make(seed), (0, 0), seconds);
        let gains =
            exchanges.iter().map(|amounts| gain(fixed(make(seed), *amounts, seconds), none));
        let yardstick = Yardstick { none, best: gains.fold(0.0, f64::max) };
        let found = negotiate(make(seed), goods, self.plan.seconds);
        let share = end_gain(&found.rates, none) / yardstick.best;
        self.compare(name, yardstick.best.exp(), end_gain(&found.rates, none).exp());
        self.findings.check(
            format!(
                "{name}: negotiators find {:.0} % of the best static gain (goal: 80 %)",
                share * 100.0
            ),
            share >= GOAL,
        );
        self.findings.note(match reached(&found.rates, none, yardstick.best * GOAL) {
            Some(seconds) => format!("{name}: 80 % of it from {seconds:.0} s on"),
            None => format!("{name}: 80 % of it is not reached for long"),
        });
        self.report(name, &found, yardstick);
        yardstick
    }

    /// Runs two programs that change places half-way.
    fn changed_places(&mut self, yardstick: Yardstick, goods: &[Good]) {
        let name = "places changed half-way";
        let Yardstick { none, best } = yardstick;
        let half_ns = (self.plan.seconds / 2.0 * 1e9) as u64;
        let mut found = negotiate(turning(self.plan.seed, half_ns), goods, self.plan.seconds);
        let half = found.rates.len() / 2;
        // What would be, had they kept what was good in the first half.
        let turned = [none[1], none[0]];
        let after: Vec<[f64; 2]> = found.rates[half..].to_vec();
        let share = end_gain(&after, turned) / best;
        self.findings.check(
            format!(
                "{name}: {:.0} % of the best static gain in the end (goal: 80 %)",
                share * 100.0
            ),
            share >= GOAL,
        );
        self.compare(name, best.exp(), end_gain(&after, turned).exp());
        self.findings.note(match reached(&after, turned, best * GOAL) {
            Some(seconds) => format!("{name}: 80 % of it {seconds:.0} s later"),
            None => format!("{name}: 80 % of it is not reached for long"),
        });
        for rates in &mut found.rates[half..] {
            rates.swap(0, 1);
        }
        self.report(name, &found, yardstick);
    }

    /// Runs two programs that need the same.
    fn no_trade(&mut self, goods: &[Good]) {
        let name = "no trade helps";
        let none = fixed(alike(self.plan.seed), (0, 0), self.static_seconds());
        let found = negotiate(alike(self.plan.seed), goods, self.plan.seconds);
        let end = end_gain(&found.rates, none).exp();
        let whole = gain(mean_of(&found.rates), none).exp();
        self.compare(name, 1.0, end);
        self.findings.check(
            format!(
                "{name}: nothing is lost, 2 % aside (in the end {end:.3}, over all {whole:.3})"
            ),
            end >= 0.98 && whole >= 0.98,
        );
        self.report(name, &found, Yardstick { none, best: 0.0 });
    }

    fn compare(&mut self, name: &str, promised: f64, measured: f64) {
        self.findings.compare(
            Comparison::new(name, "gain in the end", "")
                .promising(Some(promised))
                .measured(Some(measured), Some(1.0)),
        );
    }

    /// Reports what negotiators did and cost, and adds a panel.
    fn report(&mut self, name: &str, run: &Run, Yardstick { none, best }: Yardstick) {
        self.panels.push(self.panel(name, run, none, best));
        let [a, b] = run.tallies;
        self.findings.note(format!(
            "{name}: {} and {} steps kept, {} and {} taken back, {} and {} ended by the partner, {} \
             and {} changes of load seen; {}",
            a.kept,
            b.kept,
            a.reversed,
            b.reversed,
            a.abandoned,
            b.abandoned,
            a.changes,
            b.changes,
            run.held.join("; ")
        ));
        let cost = run.costs[0].max(run.costs[1]);
        self.findings.check(
            format!(
                "{name}: a negotiator costs at most 1 % of what its client is due ({:.3} %)",
                cost * 100.0
            ),
            cost <= 0.01,
        );
        self.findings.check(
            format!("{name}: at most 12 reversals in any hour ({})", run.reversals),
            run.reversals <= market::negotiator::REVERSALS_MAX,
        );
    }

    fn panel(&self, name: &str, run: &Run, none: [f64; 2], best: f64) -> Panel {
        let at = |interval: usize| interval as f64 * INTERVAL_S;
        let steps = run.rates.iter().enumerate();
        let points = steps.map(|(interval, rates)| (at(interval), gain(*rates, none).exp()));
        let points = points.collect();
        let mut lines = vec![Line { name: "with negotiators".to_owned(), points, dashed: false }];
        let levels = [("best static exchange", best.exp()), ("no exchange", 1.0)];
        let seconds = self.plan.seconds;
        lines.extend(levels.map(|(name, height)| level(name, 0.0, seconds, height)));
        over_time(name, "times of the progress without", lines)
    }
}
