//! Paper 1, 6.3: guaranteed memory (figure 9), and why tickets must not be deactivated at each
//! block (figure 6).
//!
//! Four readers of random pages compete for about 4.2 MB; two have hard shares of 2 and 1.4 MB. The
//! same load runs with tickets that count only while their holder is runnable, and without
//! guarantees (plain LRU).

use crate::report::comparison::Comparison;
use crate::report::findings::Findings;
use crate::report::outcome::Outcome;
use crate::report::plot::{Panel, level};
use crate::report::statistics::mean;
use crate::simulation::four_readers::{self, FREE, GUARANTEED, RESERVABLE};
use crate::simulation::plan::{Plan, Words};
use crate::simulation::samples::{Samples, over_time, sample};
use sim::machine::{Machine, MemorySettings, Settings, TicketsCount, Usage};

/// The most pages that a sample may lack of a guarantee.
const TOLERANCE: f64 = 1.0;

fn readers(plan: &Plan, count: TicketsCount, guaranteed: bool) -> Samples {
    let memory = MemorySettings { tickets: count, ..four_readers::memory() };
    let mut machine = Machine::new(Settings { seed: plan.seed, memory, ..Settings::default() });
    let clients = four_readers::start(&mut machine, guaranteed);
    sample(&mut machine, &clients, plan.seconds, 600)
}

const NAMES: [&str; 4] = ["500 pages", "350 pages", "none", "none too"];

/// The three runs.
struct Runs {
    /// Tickets always count.
    always: Samples,
    /// Tickets count while their holder is runnable.
    blocked: Samples,
    /// There are no guarantees.
    plain: Samples,
}

fn held(usage: &Usage) -> f64 {
    usage.held_pages as f64
}

/// Returns the fewest pages that a client held.
fn fewest(samples: &Samples, place: usize) -> f64 {
    samples.of(place, held).into_iter().fold(f64::INFINITY, f64::min)
}

pub(crate) fn run(plan: &Plan) -> Outcome {
    let runs = Runs {
        always: readers(plan, TicketsCount::Always, true),
        blocked: readers(plan, TicketsCount::WhileRunnable, true),
        plain: readers(plan, TicketsCount::Always, false),
    };
    let mut findings = Findings::default();
    for (place, name) in NAMES.iter().enumerate() {
        let guaranteed = GUARANTEED.get(place).map(|(pages, _)| *pages as f64);
        compare(&runs, place, guaranteed, &mut findings);
        if let Some(guaranteed) = guaranteed {
            check_guarantee(&runs, place, name, guaranteed, &mut findings);
        }
    }
    let last = runs.always.last();
    let broken: u64 = last.iter().map(|usage| usage.taken_within_guarantee).sum();
    findings.check(format!("no page was taken within a guarantee ({broken})"), broken == 0);
    let steady = runs.always.steady();
    let spare = runs.always.spare_pages[steady..].iter().max().copied().unwrap_or(0);
    let used = (RESERVABLE + FREE).saturating_sub(spare) as f64 / (RESERVABLE + FREE) as f64;
    findings.check(format!("memory is in use ({:.1} % at the least)", used * 100.0), used >= 0.9);
    let panels = vec![
        panel(plan, "Figure 9: hard shares", &runs.always),
        panel(plan, "Figure 6: tickets off at each block", &runs.blocked),
        panel(plan, "Plain LRU", &runs.plain),
    ];
    let words = Words {
        policy: "LRU by page, VINO's rule".to_owned(),
        default: "plain LRU, nobody is guaranteed anything",
        units: "pages of 4 KiB, in the last two thirds of each run",
    };
    plan.finish(words, findings, vec![("memory-shares", panels)])
}

/// Compares one reader under both rules with plain LRU.
fn compare(runs: &Runs, place: usize, guaranteed: Option<f64>, findings: &mut Findings) {
    let name = NAMES[place];
    let plain = &runs.plain;
    let paper = guaranteed.map_or("\"much less memory\"".to_owned(), |pages| format!("≥ {pages}"));
    let at_blocks = if guaranteed.is_some() { "not kept" } else { "-" };
    for (label, samples, paper) in [
        ("tickets always count", &runs.always, paper.as_str()),
        ("tickets off at a block", &runs.blocked, at_blocks),
    ] {
        let what = format!("{label}: {name}");
        findings.compare(
            Comparison::new(&what, "pages held on average", "")
                .promising(guaranteed)
                .measured(mean(&samples.of(place, held)), mean(&plain.of(place, held)))
                .paper(paper),
        );
        findings.compare(
            Comparison::new(&what, "fewest", "")
                .measured(Some(fewest(samples, place)), Some(fewest(plain, place))),
        );
        findings.compare(Comparison::new(&what, "reads a second", "").measured(
            Some(samples.rate(place, |usage| usage.iterations)),
            Some(plain.rate(place, |usage| usage.iterations)),
        ));
    }
}

/// Checks that a guarantee holds when tickets always count, and does not when they count while
/// their holder is runnable.
fn check_guarantee(
    runs: &Runs,
    place: usize,
    name: &str,
    guaranteed: f64,
    findings: &mut Findings,
) {
    let fewest = fewest(&runs.always, place);
    findings.check(
        format!("{name}: no sample is below the guarantee (fewest: {fewest})"),
        fewest >= guaranteed - TOLERANCE,
    );
    let samples = runs.blocked.of(place, held);
    let below = samples.iter().filter(|pages| **pages < guaranteed).count();
    let part = below as f64 / samples.len() as f64;
    findings.check(
        format!(
            "{name}: with tickets off at each block {:.0} % of the samples are below it",
            part * 100.0
        ),
        part > 0.5,
    );
}

fn panel(plan: &Plan, title: &str, samples: &Samples) -> Panel {
    let mut lines = samples.lines(&NAMES.map(str::to_owned), held);
    for (pages, _) in GUARANTEED {
        let name = format!("{pages} guaranteed");
        lines.push(level(&name, 0.0, plan.seconds, pages as f64));
    }
    over_time(title, "pages held", lines)
}
