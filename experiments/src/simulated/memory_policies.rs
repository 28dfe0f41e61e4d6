//! Who loses memory: the load of `memory-shares` under each policy, and tickets as weights.
//!
//! 1. **Guarantees**: four readers of random pages, two with hard shares, under age alone (VINO's rule; `memory.min`
//!    is its like), inverse lottery, min-funding revocation and shares by faults. What is beyond the guarantees
//!    differs.
//! 2. **Weights**: four working sets that together need three times the memory there is, with soft tickets 4:2:1:1 that
//!    guarantee nothing. Half-way the one with most tickets falls idle.

use super::four_readers::{self, FREE, GUARANTEED, RESERVABLE};
use super::report::Findings;
use super::scene::{Plan, Samples, client, cpu, over_time, sample, soft_disk, soft_memory};
use crate::contest::mean;
use crate::plot::level;
use crate::{Contest, ExperimentInfo, Outcome};
use ledger::BASE;
use policy::reclaim::{ReclaimName, build};
use sim::machine::workload::WorkingSet;
use sim::machine::{Machine, MemorySettings, Settings, Usage};

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "memory-policies",
    title: "Who loses memory",
    paper: "paper 1, 5.4; Waldspurger 1995",
    what: "Four readers with guarantees, and four working sets with tickets 4:2:1:1 of which the richest \
           falls idle, under age alone, inverse lottery, min-funding revocation and shares by faults.",
    least_seconds: 120.0,
    usual_seconds: 600.0,
    own_allotd: false,
};

/// Soft tickets of the working sets.
const WEIGHTS: [u64; 4] = [4000, 2000, 1000, 1000];
/// Pages of a working set.
const SET: u64 = 800;
/// What one choice takes at most: 32 KiB, for who loses what it has over its share, and a draw more.
const DRAW_PAGES: u64 = 8;
/// What a share by min-funding may differ from tickets, as a part of it: a batch of pages comes before any is taken.
const SHARE_TOLERANCE: f64 = 0.15;
/// In steady state: pages that a sample may lack of a guarantee.
const TOLERANCE: f64 = 1.0;

/// Age alone, or a policy.
type Rule = Option<ReclaimName>;
const RULES: [Rule; 4] = [
    None,
    Some(ReclaimName::InverseLottery),
    Some(ReclaimName::MinFunding),
    Some(ReclaimName::FaultShare),
];

fn name_of(rule: Rule) -> String {
    rule.map_or("age alone".to_owned(), |name| name.to_string())
}

fn machine(plan: &Plan, rule: Rule, guarantees: bool) -> Machine {
    let memory = MemorySettings {
        guarantees,
        // At 70 pages a second it takes long to use what one has.
        active_ns: 60_000_000_000,
        ..four_readers::memory()
    };
    let mut machine = Machine::new(Settings { seed: plan.seed, memory, ..Settings::default() });
    if let Some(name) = rule {
        machine.reclaim_by(build(name, plan.seed), DRAW_PAGES);
    }
    machine
}

fn readers(plan: &Plan, rule: Rule) -> Samples {
    let mut machine = machine(plan, rule, true);
    let clients = four_readers::start(&mut machine, true);
    sample(&mut machine, &clients, plan.seconds, 600)
}

fn working_sets(plan: &Plan, rule: Rule) -> Samples {
    let mut machine = machine(plan, rule, false);
    let half_ns = (plan.seconds / 2.0 * 1e9) as u64;
    let mut clients = Vec::new();
    for (place, amount) in WEIGHTS.into_iter().enumerate() {
        let id = client(&mut machine, BASE, &[cpu(), soft_disk(1000), soft_memory(amount)]);
        let file = (machine.add_file(SET), SET);
        let work = WorkingSet::new(file, false, 100_000);
        let work = if place == 0 { work.idle(half_ns, u64::MAX / 2) } else { work };
        machine.start(id, 0, work);
        clients.push(id);
    }
    sample(&mut machine, &clients, plan.seconds, 600)
}

fn held(usage: &Usage) -> f64 {
    usage.held_pages as f64
}

/// The mean of what a client held between two parts of the run.
fn held_between(samples: &Samples, client: usize, from: f64, to: f64) -> f64 {
    let length = samples.usages.len() as f64;
    let some = &samples.usages[(from * length) as usize..(to * length) as usize];
    some.iter().map(|usages| held(&usages[client])).sum::<f64>() / some.len() as f64
}

pub(super) fn run(plan: &Plan) -> Outcome {
    let mut findings = Findings::new();
    findings.policy = "age alone, inverse-lottery, min-funding, fault-share".to_owned();
    findings.default = "the same client under age alone".to_owned();
    findings.units = "pages of 4 KiB; readers: the last two thirds of each run; working sets: the second quarter, \
                      and idle: the last tenth"
        .to_owned();
    let mut panels = Vec::new();
    let names = ["500 pages", "350 pages", "none", "none too"].map(str::to_owned);
    let by_age = readers(plan, None);
    for rule in RULES {
        let samples = readers(plan, rule);
        for (place, name) in names.iter().enumerate() {
            let what = format!("{}: {name}", name_of(rule));
            let guaranteed = GUARANTEED.get(place).map(|(pages, _)| *pages as f64);
            let default = |value: Option<f64>| rule.and(value);
            findings.contest(
                Contest::new(&what, "pages held", "").promising(guaranteed).measured(
                    mean(&samples.of(place, held)),
                    default(mean(&by_age.of(place, held))),
                ),
            );
            let fewest = samples.of(place, held).into_iter().fold(f64::INFINITY, f64::min);
            findings.contest(Contest::new(&what, "fewest", "").measured(Some(fewest), None));
            let rate = |samples: &Samples| Some(samples.rate(place, |usage| usage.iterations));
            let rates = (rate(&samples), default(rate(&by_age)));
            findings.contest(Contest::new(&what, "reads a second", "").measured(rates.0, rates.1));
            if let Some(guaranteed) = guaranteed {
                findings.check(
                    format!("{what}: no sample is below the guarantee (fewest: {fewest})"),
                    fewest >= guaranteed - TOLERANCE,
                );
            }
        }
        let broken: u64 = samples.last().iter().map(|usage| usage.taken_within_guarantee).sum();
        let spare = samples.spare_pages[samples.steady()..].iter().max().copied().unwrap_or(0);
        let used = 1.0 - spare as f64 / (RESERVABLE + FREE) as f64;
        findings.check(
            format!(
                "{}: no page was taken within a guarantee ({broken}), and memory is in use ({:.1} %)",
                name_of(rule),
                used * 100.0
            ),
            broken == 0 && used >= 0.9,
        );
    }

    let total: u64 = WEIGHTS.iter().sum();
    let names = ["4 tickets", "2 tickets", "1 ticket", "1 ticket too"].map(str::to_owned);
    let by_age = working_sets(plan, None);
    for rule in RULES {
        let samples = working_sets(plan, rule);
        for (place, name) in names.iter().enumerate() {
            let what = format!("weights, {}: {name}", name_of(rule));
            let due = (RESERVABLE * WEIGHTS[place]) as f64 / total as f64;
            let (busy, idle) =
                (held_between(&samples, place, 0.25, 0.5), held_between(&samples, place, 0.9, 1.0));
            let default = rule.map(|_| held_between(&by_age, place, 0.25, 0.5));
            findings.contest(
                Contest::new(&what, "pages held", "")
                    .promising(Some(due))
                    .measured(Some(busy), default),
            );
            findings.contest(Contest::new(&what, "when 4 is idle", "").measured(Some(idle), None));
            if rule == Some(ReclaimName::MinFunding) {
                findings.check(
                    format!("{what}: what it holds is what its tickets are ({busy:.0} of {due:.0} pages)"),
                    (busy / due - 1.0).abs() <= SHARE_TOLERANCE,
                );
            }
        }
        let (busy, idle) =
            (held_between(&samples, 0, 0.25, 0.5), held_between(&samples, 0, 0.9, 1.0));
        if rule == Some(ReclaimName::MinFunding) {
            findings.check(
                format!("the idle tax takes from who is idle ({busy:.0} pages, then {idle:.0})"),
                idle < 0.75 * busy,
            );
        }
        let lines = samples.lines(&names, held);
        let half = plan.seconds / 2.0;
        let mut panel = over_time(&name_of(rule), "pages held", lines);
        panel.lines.push(level("due to 4 tickets", 0.0, half, RESERVABLE as f64 / 2.0));
        panel.marks.push((half, "4 falls idle".to_owned()));
        panels.push(panel);
    }
    findings.finish(plan, vec![("memory-policies", panels)])
}
