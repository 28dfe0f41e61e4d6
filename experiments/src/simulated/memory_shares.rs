//! Paper 1, 6.3: guaranteed memory (figure 9), and why tickets must not be deactivated at each block (figure 6).
//!
//! Four readers of random pages compete for about 4.2 MB; two have hard shares of 2 and 1.4 MB. The same load runs
//! with tickets that count only while their holder is runnable, and without guarantees (plain LRU).

use super::four_readers::{self, FREE, GUARANTEED, RESERVABLE};
use super::report::Findings;
use super::scene::{Plan, Samples, over_time, sample};
use crate::contest::mean;
use crate::plot::level;
use crate::{Contest, ExperimentInfo, Outcome};
use sim::machine::{Machine, MemorySettings, Settings, TicketsCount};

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "memory-shares",
    title: "Guaranteed memory",
    paper: "paper 1, figures 6 and 9",
    what: "Four readers of random pages compete for 4.2 MB, two of them with hard shares; beside it \
           tickets that are deactivated whenever their holder blocks, and plain LRU.",
    least_seconds: 60.0,
    usual_seconds: 300.0,
    own_allotd: false,
};

/// What a sample may lack of a guarantee, in pages.
const TOLERANCE: f64 = 1.0;

fn readers(plan: &Plan, count: TicketsCount, guaranteed: bool) -> Samples {
    let memory = MemorySettings { tickets: count, ..four_readers::memory() };
    let mut machine = Machine::new(Settings { seed: plan.seed, memory, ..Settings::default() });
    let clients = four_readers::start(&mut machine, guaranteed);
    sample(&mut machine, &clients, plan.seconds, 600)
}

pub(super) fn run(plan: &Plan) -> Outcome {
    let names = ["500 pages", "350 pages", "none", "none too"].map(str::to_owned);
    let always = readers(plan, TicketsCount::Always, true);
    let blocked = readers(plan, TicketsCount::WhileRunnable, true);
    let plain = readers(plan, TicketsCount::Always, false);
    let held = |usage: &sim::machine::Usage| usage.held_pages as f64;
    let least = |values: Vec<f64>| values.into_iter().fold(f64::INFINITY, f64::min);

    let mut findings = Findings::new();
    findings.policy = "LRU by page, VINO's rule".to_owned();
    findings.default = "plain LRU, nobody is guaranteed anything".to_owned();
    findings.units = "pages of 4 KiB, in the last two thirds of each run".to_owned();
    for (place, name) in names.iter().enumerate() {
        let guaranteed = GUARANTEED.get(place).map(|(pages, _)| *pages as f64);
        let paper =
            guaranteed.map_or("\"much less memory\"".to_owned(), |pages| format!("≥ {pages}"));
        for (label, samples) in
            [("tickets always count", &always), ("tickets off at a block", &blocked)]
        {
            let what = format!("{label}: {name}");
            let paper = match label {
                "tickets always count" => paper.as_str(),
                _ if guaranteed.is_some() => "not kept",
                _ => "-",
            };
            let measured = [mean(&samples.of(place, held)), mean(&plain.of(place, held))];
            findings.contest(
                Contest::new(&what, "pages held on average", "")
                    .promising(guaranteed)
                    .measured(measured[0], measured[1])
                    .paper(paper),
            );
            findings.contest(Contest::new(&what, "fewest", "").measured(
                Some(least(samples.of(place, held))),
                Some(least(plain.of(place, held))),
            ));
            findings.contest(Contest::new(&what, "reads a second", "").measured(
                Some(samples.rate(place, |usage| usage.iterations)),
                Some(plain.rate(place, |usage| usage.iterations)),
            ));
        }
        if let Some(guaranteed) = guaranteed {
            let fewest = least(always.of(place, held));
            findings.check(
                format!("{name}: no sample is below the guarantee (fewest: {fewest})"),
                fewest >= guaranteed - TOLERANCE,
            );
            let samples = blocked.of(place, held);
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
    }
    let broken: u64 = always.last().iter().map(|usage| usage.taken_within_guarantee).sum();
    findings.check(format!("no page was taken within a guarantee ({broken})"), broken == 0);
    let spare = always.spare_pages[always.steady()..].iter().max().copied().unwrap_or(0);
    let used = (RESERVABLE + FREE).saturating_sub(spare) as f64 / (RESERVABLE + FREE) as f64;
    findings.check(format!("memory is in use ({:.1} % at the least)", used * 100.0), used >= 0.9);

    let panel = |title: &str, samples: &Samples| {
        let mut lines = samples.lines(&names, held);
        for (pages, _) in GUARANTEED {
            let name = format!("{pages} guaranteed");
            lines.push(level(&name, 0.0, plan.seconds, pages as f64));
        }
        over_time(title, "pages held", lines)
    };
    let panels = vec![
        panel("Figure 9: hard shares", &always),
        panel("Figure 6: tickets off at each block", &blocked),
        panel("Plain LRU", &plain),
    ];
    findings.finish(plan, vec![("memory-shares", panels)])
}
