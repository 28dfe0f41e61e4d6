//! Paper 4, section 2: a guest job beside a host that needs nearly all memory.
//!
//! The host works at random over most of memory; the guest over twice as much as there is. Three
//! runs: the host alone; both under LRU, as equals (the default); the guest as a guest, with
//! thresholds of 5 and 10 % of memory. Half-way the host falls idle.

use crate::report::comparison::Comparison;
use crate::report::findings::Findings;
use crate::report::outcome::Outcome;
use crate::report::plot::{Panel, level};
use crate::report::statistics::mean;
use crate::simulation::plan::{Plan, Words};
use crate::simulation::samples::{Samples, over_time, sample};
use crate::simulation::tickets::{client, cpu, soft_disk};
use ledger::BASE;
use policy::GuestMemory;
use policy::reclaim::{ReclaimName, build};
use sim::machine::workload::WorkingSet;
use sim::machine::{Machine, MemorySettings, PAGE_BYTES, Settings, Usage};

/// Pages that can be had: 16 MiB.
const RESERVABLE: u64 = 4096;
const FREE: u64 = 64;
/// Pages of the host: all but those of guests at their high threshold, and a batch.
const HOST: u64 = RESERVABLE - HIGH - FREE / 2;
const GUEST: u64 = RESERVABLE * 2;
const LOW: u64 = RESERVABLE * 5 / 100;
const HIGH: u64 = RESERVABLE * 10 / 100;
/// The most pages that one choice takes.
const DRAW_PAGES: u64 = 8;
/// The least progress of the host beside a guest, as a part of its progress alone.
const HOST_LEAST: f64 = 0.95;

/// The client beside the host.
#[derive(Clone, Copy, PartialEq)]
enum Beside {
    Nobody,
    Equal,
    Guest,
}

fn host_beside(plan: &Plan, beside: Beside) -> Samples {
    let memory = MemorySettings {
        pages: RESERVABLE + FREE,
        free_low_pages: FREE / 2,
        free_high_pages: FREE,
        active_ns: 10_000_000_000,
        ..MemorySettings::default()
    };
    // A guest runs when no host wants the CPU: here it has one of its own, so that memory alone
    // matters.
    let settings = Settings { seed: plan.seed, cpus: 2, memory, ..Settings::default() };
    let mut machine = Machine::new(settings);
    if beside == Beside::Guest {
        let inner = build(ReclaimName::MinFunding, plan.seed);
        let thresholds = GuestMemory::new(inner, LOW * PAGE_BYTES, HIGH * PAGE_BYTES);
        machine.reclaim_by(Box::new(thresholds), DRAW_PAGES);
    }
    let half_ns = (plan.seconds / 2.0 * 1e9) as u64;
    let host = client(&mut machine, BASE, &[cpu(), soft_disk(1000)]);
    let file = (machine.add_file(HOST), HOST);
    machine.start(host, 0, WorkingSet::new(file, false, 1_000_000).idle(half_ns, u64::MAX / 2));
    let mut clients = vec![host];
    if beside != Beside::Nobody {
        let guest = client(&mut machine, BASE, &[cpu(), soft_disk(1000)]);
        if beside == Beside::Guest {
            machine.make_guest(guest).expect("root may");
        }
        let file = (machine.add_file(GUEST), GUEST);
        machine.start(guest, 0, WorkingSet::new(file, false, 1_000_000));
        clients.push(guest);
    }
    sample(&mut machine, &clients, plan.seconds, 600)
}

/// Returns the progress a second between two parts of the run.
fn rate(samples: &Samples, client: usize, from: f64, to: f64) -> f64 {
    let last = (samples.usages.len() - 1) as f64;
    let (from, to) = ((from * last) as usize, (to * last) as usize);
    let done = samples.usages[to][client].iterations - samples.usages[from][client].iterations;
    done as f64 / (samples.at[to] - samples.at[from])
}

fn held(usage: &Usage) -> f64 {
    usage.held_pages as f64
}

/// The three runs.
struct Runs {
    alone: Samples,
    equal: Samples,
    guest: Samples,
}

/// Returns the progress while the host is busy.
fn busy(samples: &Samples, client: usize) -> f64 {
    rate(samples, client, 0.33, 0.5)
}

/// Returns the progress while the host is idle.
fn idle(samples: &Samples, client: usize) -> f64 {
    rate(samples, client, 0.6, 1.0)
}

/// Returns the pages that a client held while the host was busy.
fn held_while_busy(samples: &Samples, client: usize) -> Vec<f64> {
    let length = samples.usages.len();
    samples.usages[length / 3..length / 2].iter().map(|usages| held(&usages[client])).collect()
}

pub(crate) fn run(plan: &Plan) -> Outcome {
    let runs = Runs {
        alone: host_beside(plan, Beside::Nobody),
        equal: host_beside(plan, Beside::Equal),
        guest: host_beside(plan, Beside::Guest),
    };
    let mut findings = Findings::default();
    compare(&runs, &mut findings);
    check(&runs, &mut findings);
    let panels =
        vec![panel(plan, "A guest", &runs.guest), panel(plan, "An equal, plain LRU", &runs.equal)];
    let words = Words {
        policy: "thresholds for guests around min-funding".to_owned(),
        default: "plain LRU, both are hosts",
        units: "from a third of the run to its half, when the host falls idle; idle: from then on",
    };
    plan.finish(words, findings, vec![("guest-memory", panels)])
}

fn compare(Runs { alone, equal, guest }: &Runs, findings: &mut Findings) {
    findings.compare(
        Comparison::new("host", "touches a second", "")
            .promising(Some(busy(alone, 0)))
            .measured(Some(busy(guest, 0)), Some(busy(equal, 0)))
            .paper("\"not to affect\" it"),
    );
    findings.compare(
        Comparison::new("guest", "touches a second", "")
            .measured(Some(busy(guest, 1)), Some(busy(equal, 1))),
    );
    findings.compare(
        Comparison::new("guest, host idle", "touches a second", "")
            .measured(Some(idle(guest, 1)), Some(idle(equal, 1))),
    );
    for (client, name) in ["host", "guest"].into_iter().enumerate() {
        let pages = |samples: &Samples| mean(&held_while_busy(samples, client));
        let comparison =
            Comparison::new(name, "pages held", "").measured(pages(guest), pages(equal));
        findings.compare(match client {
            1 => comparison.paper("5-10 % of memory"),
            _ => comparison,
        });
    }
}

fn check(Runs { alone, equal, guest }: &Runs, findings: &mut Findings) {
    let kept = busy(guest, 0) / busy(alone, 0);
    findings.check(
        format!("beside a guest the host does {:.1} % of what it does alone", kept * 100.0),
        kept >= HOST_LEAST,
    );
    let as_equal = busy(equal, 0) / busy(alone, 0);
    findings.check(
        format!("beside an equal it does less ({:.1} %)", as_equal * 100.0),
        as_equal < kept,
    );
    let pages = held_while_busy(guest, 1);
    let (least, most) = pages
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(low, high), it| (low.min(*it), high.max(*it)));
    // A draw may take more than is missing; and what the host does not want is the guest's.
    let (low, high) = (LOW - DRAW_PAGES, RESERVABLE + FREE / 2 - HOST);
    findings.check(
        format!(
            "the guest holds {least} to {most} pages: {LOW} at least, {HIGH} at most, but for a draw of \
             {DRAW_PAGES} and what the host leaves ({low} to {high})"
        ),
        least >= low as f64 && most <= high as f64,
    );
}

fn panel(plan: &Plan, title: &str, samples: &Samples) -> Panel {
    let mut lines = samples.lines(&["host", "guest"].map(str::to_owned), held);
    lines.push(level("low", 0.0, plan.seconds, LOW as f64));
    lines.push(level("high", 0.0, plan.seconds, HIGH as f64));
    let mut panel = over_time(title, "pages held", lines);
    panel.marks.push((plan.seconds / 2.0, "the host falls idle".to_owned()));
    panel
}
