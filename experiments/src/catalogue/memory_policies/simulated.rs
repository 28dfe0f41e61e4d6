//! `memory-policies` in virtual time: the load of `memory-shares` under each policy, and tickets as
//! weights.
//!
//! 1. **Guarantees**: four readers of random pages, two with hard shares, under age alone (VINO's
//!    rule; `memory.min` is its like), inverse lottery, min-funding revocation and shares by faults.
//!    What is beyond the guarantees differs.
//! 2. **Weights**: four working sets that together need three times the memory there is, with soft
//!    tickets 4:2:1:1 that guarantee nothing. Half-way the one with most tickets falls idle.

use crate::report::comparison::Comparison;
use crate::report::findings::Findings;
use crate::report::outcome::Outcome;
use crate::report::plot::{Panel, level};
use crate::report::statistics::mean;
use crate::simulation::four_readers::{self, FREE, GUARANTEED, RESERVABLE};
use crate::simulation::plan::{Plan, Words};
use crate::simulation::samples::{Samples, over_time, sample};
use crate::simulation::tickets::{client, cpu, soft_disk, soft_memory};
use ledger::BASE;
use policy::reclaim::{ReclaimName, build};
use sim::machine::workload::WorkingSet;
use sim::machine::{Machine, MemorySettings, Settings, Usage};

/// Soft tickets of the working sets.
const WEIGHTS: [u64; 4] = [4000, 2000, 1000, 1000];
/// Pages of a working set.
const SET: u64 = 800;
/// The most pages that one choice takes: 32 KiB.
const DRAW_PAGES: u64 = 8;
/// The most by which a share by min-funding may differ from tickets, as a part of it: a batch of
/// pages comes before any is taken.
const SHARE_TOLERANCE: f64 = 0.15;
/// The most pages that a sample may lack of a guarantee, in steady state.
const TOLERANCE: f64 = 1.0;

/// A rule for who loses memory: a policy; none for age alone.
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

/// Returns the mean of the pages that a client held between two parts of the run.
fn held_between(samples: &Samples, client: usize, from: f64, to: f64) -> f64 {
    let length = samples.usages.len() as f64;
    let some = &samples.usages[(from * length) as usize..(to * length) as usize];
    some.iter().map(|usages| held(&usages[client])).sum::<f64>() / some.len() as f64
}

const READERS: [&str; 4] = ["500 pages", "350 pages", "none", "none too"];
const SETS: [&str; 4] = ["4 tickets", "2 tickets", "1 ticket", "1 ticket too"];

pub(crate) fn run(plan: &Plan) -> Outcome {
    let mut findings = Findings::default();
    let by_age = readers(plan, None);
    for rule in RULES {
        let samples = readers(plan, rule);
        for place in 0..READERS.len() {
            judge_reader(rule, place, &samples, &by_age, &mut findings);
        }
        judge_use(rule, &samples, &mut findings);
    }
    let by_age = working_sets(plan, None);
    let mut panels = Vec::new();
    for rule in RULES {
        let samples = working_sets(plan, rule);
        for place in 0..SETS.len() {
            judge_set(rule, place, &samples, &by_age, &mut findings);
        }
        judge_idle_tax(rule, &samples, &mut findings);
        panels.push(panel(plan, rule, &samples));
    }
    let words = Words {
        policy: "age alone, inverse-lottery, min-funding, fault-share".to_owned(),
        default: "the same client under age alone",
        units: "pages of 4 KiB; readers: the last two thirds of each run; working sets: the second \
                quarter, and idle: the last tenth",
    };
    plan.finish(words, findings, vec![("memory-policies", panels)])
}

/// Judges a reader with a guarantee, or without.
fn judge_reader(
    rule: Rule,
    place: usize,
    samples: &Samples,
    by_age: &Samples,
    findings: &mut Findings,
) {
    let what = format!("{}: {}", name_of(rule), READERS[place]);
    let guaranteed = GUARANTEED.get(place).map(|(pages, _)| *pages as f64);
    let default = |value: Option<f64>| rule.and(value);
    findings.compare(
        Comparison::new(&what, "pages held", "")
            .promising(guaranteed)
            .measured(mean(&samples.of(place, held)), default(mean(&by_age.of(place, held)))),
    );
    let fewest = samples.of(place, held).into_iter().fold(f64::INFINITY, f64::min);
    findings.compare(Comparison::new(&what, "fewest", "").measured(Some(fewest), None));
    let rate = |samples: &Samples| Some(samples.rate(place, |usage| usage.iterations));
    let reads = Comparison::new(&what, "reads a second", "");
    findings.compare(reads.measured(rate(samples), default(rate(by_age))));
    if let Some(guaranteed) = guaranteed {
        findings.check(
            format!("{what}: no sample is below the guarantee (fewest: {fewest})"),
            fewest >= guaranteed - TOLERANCE,
        );
    }
}

/// Checks that guarantees were kept page by page, and that memory was in use.
fn judge_use(rule: Rule, samples: &Samples, findings: &mut Findings) {
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

/// Judges a working set by its tickets.
fn judge_set(
    rule: Rule,
    place: usize,
    samples: &Samples,
    by_age: &Samples,
    findings: &mut Findings,
) {
    let what = format!("weights, {}: {}", name_of(rule), SETS[place]);
    let total: u64 = WEIGHTS.iter().sum();
    let due = (RESERVABLE * WEIGHTS[place]) as f64 / total as f64;
    let (busy, idle) =
        (held_between(samples, place, 0.25, 0.5), held_between(samples, place, 0.9, 1.0));
    let default = rule.map(|_| held_between(by_age, place, 0.25, 0.5));
    findings.compare(
        Comparison::new(&what, "pages held", "").promising(Some(due)).measured(Some(busy), default),
    );
    findings.compare(Comparison::new(&what, "when 4 is idle", "").measured(Some(idle), None));
    if rule == Some(ReclaimName::MinFunding) {
        findings.check(
            format!("{what}: what it holds is what its tickets are ({busy:.0} of {due:.0} pages)"),
            (busy / due - 1.0).abs() <= SHARE_TOLERANCE,
        );
    }
}

/// Checks that min-funding takes memory from the idle client.
fn judge_idle_tax(rule: Rule, samples: &Samples, findings: &mut Findings) {
    let (busy, idle) = (held_between(samples, 0, 0.25, 0.5), held_between(samples, 0, 0.9, 1.0));
    if rule == Some(ReclaimName::MinFunding) {
        findings.check(
            format!("the idle tax takes from who is idle ({busy:.0} pages, then {idle:.0})"),
            idle < 0.75 * busy,
        );
    }
}

fn panel(plan: &Plan, rule: Rule, samples: &Samples) -> Panel {
    let lines = samples.lines(&SETS.map(str::to_owned), held);
    let half = plan.seconds / 2.0;
    let mut panel = over_time(&name_of(rule), "pages held", lines);
    panel.lines.push(level("due to 4 tickets", 0.0, half, RESERVABLE as f64 / 2.0));
    panel.marks.push((half, "4 falls idle".to_owned()));
    panel
}
