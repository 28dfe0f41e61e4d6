//! `negotiators`: two processes that could gain by exchanging CPU for disk (paper 1, 6.5), and two that could by exchanging
//! memory for disk (6.6), with an `allot negotiate` each instead of a preset exchange; and two that could not.

use crate::contest::mean;
use crate::daemon::{Daemon, Setup};
use crate::disk_bench::{Disk, soft};
use crate::exchanges::{Did, Floor};
use crate::negotiator_process::{Negotiators, Told};
use crate::plot::{Line, Panel, draw, level};
use crate::report::Findings;
use crate::session::Bench;
use crate::{
    Check, Contest, ExperimentError, ExperimentInfo, Outcome, exchange_cpu_disk, exchange_database,
};
use std::time::Duration;

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "negotiators",
    title: "Negotiators instead of a preset exchange",
    paper: "paper 1, 4.2, 6.5 and 6.6",
    what: "A dhrystone and an iohog with an `allot negotiate` each, beside the bystanders of exchange-cpu-disk, and the two \
           servers of exchange-database: what part of a static exchange's gain they find, how fast, at what cost; and \
           two dhrystones, who have nothing to exchange. Needs root and a disk that may be used up (lab/with-disk).",
    least_seconds: 240.0,
    usual_seconds: 4000.0,
    own_allotd: true,
};

/// The static exchanges to compare with are the best of exchange-cpu-disk, one for one,
const CPU_FOR_DISK: u64 = 600;
/// and of exchange-database: memory (pages) for disk.
const MEMORY_FOR_DISK: (u64, u64) = (700, 800);
/// Parts of the time of each load: without exchange (the last twice), with the static one, with negotiators.
const CPU_AND_DISK: [f64; 3] = [0.06, 0.06, 0.3];
const ALIKE: [f64; 2] = [0.05, 0.13];
const MEMORY_AND_DISK: [f64; 3] = [0.04, 0.06, 0.26];
/// Negotiators' windows: so many in the time that they have, or as long as usual. More of them would cost more, fewer
/// leave no time for trials.
const WINDOWS: f64 = 120.0;
const WINDOW_SECONDS: std::ops::RangeInclusive<f64> = 1.0..=5.0;
/// Of each phase without negotiators, until all is as it stays.
const SETTLE: f64 = 0.2;
/// The same, where memory must be filled.
const FILL: f64 = 0.6;
/// With negotiators it is looked at in so many stretches; the last count as the end.
const STRETCHES: usize = 12;
const LAST: usize = 4;
/// Of the static exchange's gain, what they should find.
const GOAL: f64 = 0.8;
/// What may be lost where nothing is to be gained, as a part.
const LOSS: f64 = 0.02;
/// Of what its client is due of the CPU, what a negotiator may cost.
const COST: f64 = 0.01;
/// In any hour, by both.
const REVERSALS: usize = 12;

/// What two did in a load.
struct Load {
    name: &'static str,
    /// Progress without exchange.
    none: [f64; 2],
    /// The static exchange, in words, and what both gain by it.
    fixed: Option<(String, f64)>,
    found: Traded,
}

/// What two with negotiators did.
struct Traded {
    /// For files' names.
    file: &'static str,
    /// What a client is due of the CPU.
    due: f64,
    /// Progress of both, stretch by stretch.
    rates: Vec<[f64; 2]>,
    /// Of each stretch, in s.
    seconds: f64,
    told: Told,
    /// What both have given and got in the end, net, in words.
    held: Vec<String>,
}

impl Traded {
    /// The mean of the stretches from one on.
    fn from(&self, first: usize) -> [f64; 2] {
        let of = |place: usize| -> Vec<f64> {
            self.rates[first..].iter().map(|both| both[place]).collect()
        };
        [0, 1].map(|place| mean(&of(place)).unwrap_or(0.0))
    }

    fn end(&self) -> [f64; 2] {
        self.from(self.rates.len().saturating_sub(LAST))
    }
}

/// What two gain: the mean of the logarithms.
fn gain(rates: [f64; 2], none: [f64; 2]) -> f64 {
    [0, 1].map(|place| (rates[place] / none[place]).ln()).iter().sum::<f64>() / 2.0
}

fn both(did: &[Did]) -> [f64; 2] {
    [did[0].progress(), did[1].progress()]
}

pub(crate) fn run(bench: &mut Bench) -> Result<Outcome, ExperimentError> {
    let disk = Disk::find_for_all(bench.options)?;
    disk.must_have_bfq()?;
    let window = bench.total * CPU_AND_DISK[2] / WINDOWS;
    let window = window.clamp(*WINDOW_SECONDS.start(), *WINDOW_SECONDS.end());
    let window = Duration::from_secs_f64(window);
    let mut daemon = bench.allotd_with_bfq(&Setup::of(bench.options))?;
    let mut findings = Findings::new(bench, &daemon)?;
    let mut loads = vec![
        cpu_and_disk(bench, &mut daemon, &disk, window)?,
        two_alike(bench, &mut daemon, &disk, window)?,
    ];
    drop(daemon);
    loads.push(memory_and_disk(bench, &disk, window)?);
    let (mut panels, mut files) = (Vec::new(), Vec::new());
    for load in loads {
        judge(&load, &mut findings);
        panels.push(panel(&load));
        for (place, said) in load.found.told.said.into_iter().enumerate() {
            files.push((format!("{}-{}.log", load.found.file, place + 1), said));
        }
    }
    findings.notes.push(format!(
        "gain is the geometric mean of both programs' progress, as times of that without exchange; windows are {:.1} s; with \
         negotiators the last {LAST} of {STRETCHES} stretches count",
        window.as_secs_f64()
    ));
    files.push(("negotiators.svg".to_owned(), draw(INFO.title, &panels)));
    Ok(findings.finish(bench, &INFO, INFO.title, INFO.paper, files))
}

/// The load of exchange-cpu-disk.
fn cpu_and_disk(
    bench: &mut Bench,
    daemon: &mut Daemon,
    disk: &Disk,
    window: Duration,
) -> Result<Load, ExperimentError> {
    let [none_s, fixed_s, traded_s] = CPU_AND_DISK.map(|part| part * bench.total);
    let mut floor = bench.floor(daemon, disk, &exchange_cpu_disk::traders(disk), bench.total)?;
    floor.release();
    let none = steady(bench, &mut floor, none_s, SETTLE, "cpu-disk, no exchange")?;
    let tickets = |resource: &str| soft(resource, CPU_FOR_DISK);
    let exchange = floor.exchange(&tickets(&disk.resource()), &tickets("cpu"))?;
    let fixed = steady(bench, &mut floor, fixed_s, SETTLE, "cpu-disk, static exchange")?;
    floor.end(exchange)?;
    let found = negotiate(bench, &mut floor, window, traded_s, "cpu-disk")?;
    let words = format!("{CPU_FOR_DISK} disk for {CPU_FOR_DISK} CPU");
    let fixed = Some((words, gain(fixed, none)));
    Ok(Load { name: "cpu and disk", none, fixed, found })
}

/// Two who need the same.
fn two_alike(
    bench: &mut Bench,
    daemon: &mut Daemon,
    disk: &Disk,
    window: Duration,
) -> Result<Load, ExperimentError> {
    let [none_s, traded_s] = ALIKE.map(|part| part * bench.total);
    let mut alike = exchange_cpu_disk::traders(disk);
    alike[1] = exchange_cpu_disk::trader(disk, "dhrystone that is alike", false);
    let mut floor = bench.floor(daemon, disk, &alike, bench.total)?;
    floor.release();
    let none = steady(bench, &mut floor, none_s, SETTLE, "alike, no exchange")?;
    let found = negotiate(bench, &mut floor, window, traded_s, "alike")?;
    Ok(Load { name: "two alike", none, fixed: None, found })
}

/// The load of exchange-database.
fn memory_and_disk(
    bench: &mut Bench,
    disk: &Disk,
    window: Duration,
) -> Result<Load, ExperimentError> {
    let [none_s, fixed_s, traded_s] = MEMORY_AND_DISK.map(|part| part * bench.total);
    let mut daemon = bench.allotd_with_bfq(&exchange_database::setup(bench))?;
    exchange_database::make_databases(bench, disk)?;
    let traders = exchange_database::traders(disk);
    let mut floor = bench.floor(&mut daemon, disk, &traders, bench.total)?;
    exchange_database::equal(bench, &floor)?;
    floor.release();
    let none = steady(bench, &mut floor, none_s, FILL, "memory-disk, no exchange")?;
    let exchange = exchange_database::exchange(bench, &floor, disk, MEMORY_FOR_DISK)?;
    let fixed = steady(bench, &mut floor, fixed_s, FILL, "memory-disk, static exchange")?;
    floor.end(exchange)?;
    // Memory goes back to whom it belongs.
    exchange_database::equal(bench, &floor)?;
    steady(bench, &mut floor, none_s, FILL, "memory-disk, no exchange")?;
    let found = negotiate(bench, &mut floor, window, traded_s, "memory-disk")?;
    let (memory, tickets) = MEMORY_FOR_DISK;
    let fixed = Some((format!("{tickets} disk for {memory} memory"), gain(fixed, none)));
    Ok(Load { name: "memory and disk", none, fixed, found })
}

/// What the first two do, after settling.
fn steady(
    bench: &mut Bench,
    floor: &mut Floor,
    seconds: f64,
    settle: f64,
    label: &str,
) -> Result<[f64; 2], ExperimentError> {
    floor.pass(bench, seconds * settle, label, &mut |_| Ok(()))?;
    let did = floor.pass(bench, seconds * (1.0 - settle), label, &mut |_| Ok(()))?;
    Ok(both(&did))
}

/// With a negotiator each.
fn negotiate(
    bench: &mut Bench,
    floor: &mut Floor,
    window: Duration,
    seconds: f64,
    file: &'static str,
) -> Result<Traded, ExperimentError> {
    let (dir, socket) = (bench.dir.path(), floor.daemon().socket());
    let mut negotiators = Negotiators::start(file, dir, socket, &floor.ids()[..2], window)?;
    let seconds = seconds / STRETCHES as f64;
    let label = format!("{file}, negotiators");
    let mut rates = Vec::new();
    for _ in 0..STRETCHES {
        let did = floor
            .pass(bench, seconds, &label, &mut |floor| negotiators.tell(&floor.iterations()))?;
        rates.push(both(&did));
    }
    let held = held(floor)?;
    let due = 1.0 / floor.ids().len() as f64;
    Ok(Traded { file, due, rates, seconds, told: negotiators.end()?, held })
}

/// What the two have by exchanges, in words.
fn held(floor: &Floor) -> Result<Vec<String>, ExperimentError> {
    let market = floor.daemon().market()?;
    let legs = || market.exchanges.iter().flat_map(|exchange| &exchange.legs);
    let number = |place: usize| floor.ids()[place].0.trim_start_matches('#').parse().ok();
    let mut goods: Vec<&str> = legs().map(|leg| leg.good.resource.as_str()).collect();
    goods.sort_unstable();
    goods.dedup();
    let net = |place: usize, good: &str| -> i64 {
        let id: Option<u64> = number(place);
        let of = legs().filter(|leg| leg.good.resource == good);
        of.map(|leg| {
            let sign = i64::from(Some(leg.receiver) == id) - i64::from(Some(leg.giver) == id);
            sign * leg.amount as i64
        })
        .sum()
    };
    let words = |place: usize| {
        let each = goods.iter().map(|good| format!("{:+} {good}", net(place, good)));
        each.collect::<Vec<_>>().join(", ")
    };
    Ok(vec![words(0), words(1)])
}

fn judge(load: &Load, findings: &mut Findings) {
    let Load { name, found, none, .. } = load;
    let (none, best) = (*none, load.fixed.as_ref().map(|(_, best)| *best));
    let end = gain(found.end(), none);
    let whole = gain(found.from(0), none);
    findings.contests.push(
        Contest::new(name, "gain in the end", "")
            .promising(Some(best.unwrap_or(0.0).exp()))
            .measured(Some(end.exp()), Some(1.0)),
    );
    let mut check = |what: String, ok: bool| findings.checks.push(Check { what, ok });
    match &load.fixed {
        Some((words, best)) => check(
            format!(
                "{name}: negotiators find {:.0} % of the gain of {words}, which is {:.2} times (goal: {:.0} %)",
                end / best * 100.0,
                best.exp(),
                GOAL * 100.0
            ),
            end >= GOAL * best,
        ),
        None => check(
            format!(
                "{name}: nothing is lost, {:.0} % aside (in the end {:.3}, over all {:.3})",
                LOSS * 100.0,
                end.exp(),
                whole.exp()
            ),
            end.exp() >= 1.0 - LOSS && whole.exp() >= 1.0 - LOSS,
        ),
    }
    let costs = found
        .told
        .cpu_seconds
        .map(|used| used / (found.seconds * found.rates.len() as f64) / found.due);
    check(
        format!(
            "{name}: a negotiator costs at most {:.0} % of what its client is due of the CPU ({:.2} and {:.2} %)",
            COST * 100.0,
            costs[0] * 100.0,
            costs[1] * 100.0
        ),
        costs.iter().all(|cost| *cost <= COST),
    );
    let back: usize = found.told.back.iter().sum();
    check(format!("{name}: at most {REVERSALS} reversals in any hour ({back})"), back <= REVERSALS);
    let reached = best.and_then(|best| {
        let enough = |rates: &&[f64; 2]| gain(**rates, none) >= GOAL * best;
        found.rates.iter().position(|rates| enough(&rates))
    });
    let when = match (best, reached) {
        (None, _) => String::new(),
        (_, Some(stretch)) => {
            format!(
                "; {:.0} % of it after {:.0} s",
                GOAL * 100.0,
                (stretch + 1) as f64 * found.seconds
            )
        }
        (_, None) => format!("; {:.0} % of it in no stretch", GOAL * 100.0),
    };
    let of_both =
        |rates: [f64; 2]| format!("{:.2} and {:.2}", rates[0] / none[0], rates[1] / none[1]);
    let stretches: Vec<String> = found.rates.iter().map(|rates| of_both(*rates)).collect();
    findings.notes.push(format!(
        "{name}: times of the progress of both, stretch by stretch: {}",
        stretches.join(", ")
    ));
    findings.notes.push(format!(
        "{name}: {} and {} steps kept, {} and {} taken back{when}; the first has {}, the second {}",
        found.told.kept[0],
        found.told.kept[1],
        found.told.back[0],
        found.told.back[1],
        found.held[0],
        found.held[1]
    ));
}

fn panel(load: &Load) -> Panel {
    let Load { found, none, .. } = load;
    let at = |stretch: usize| (stretch as f64 + 0.5) * found.seconds;
    let rates = found.rates.iter().enumerate();
    let points = rates.map(|(stretch, rates)| (at(stretch), gain(*rates, *none).exp())).collect();
    let end = found.seconds * found.rates.len() as f64;
    let mut lines = vec![
        Line { name: "with negotiators".to_owned(), points, dashed: false },
        level("no exchange", 0.0, end, 1.0),
    ];
    if let Some((_, best)) = &load.fixed {
        lines.push(level("static exchange", 0.0, end, best.exp()));
    }
    Panel {
        title: load.name.to_owned(),
        x_label: "time (s)".to_owned(),
        y_label: "times of the progress without exchange".to_owned(),
        lines,
        marks: Vec::new(),
        x_names: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_the_last_third() {
        let rates = (0..12).map(|at| [f64::from(at), 2.0 * f64::from(at)]).collect();
        let told = Told::default();
        let found = Traded { file: "", due: 1.0, rates, seconds: 10.0, told, held: Vec::new() };
        assert_eq!(found.end(), [9.5, 19.0]);
        assert_eq!(found.from(0), [5.5, 11.0]);
        assert!((gain([2.0, 8.0], [1.0, 1.0]) - 4.0_f64.ln()).abs() < 1e-9);
    }
}
