//! `spawn` on real processes.

use crate::catalogue::spawn::judge::{Measured, judge};
use crate::error::ExperimentError;
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::DaemonSettings;
use crate::harness::trial_slice::{
    CpuRule, TURNS, TrialCurrency, TrialProcess, TrialSlice, trees_ns, two_users,
};
use crate::harness::workers::{Job, nanoseconds};
use crate::report::findings::Findings;
use crate::report::outcome::{Outcome, Plot};
use crate::report::plot::side_by_side;
use crate::report::series::SETTLE_SECONDS;
use crate::report::statistics::shares;
use crate::report::verdict::Verdict;
use crate::workloads::clock::monotonic_ns;
use crate::workloads::spec::Work;

/// Kinds of short processes: name, work, and the paper's words.
fn kinds() -> [(&'static str, Work, &'static str); 3] {
    let words = |words: &[&str]| Work::Spawn(words.iter().map(|word| (*word).to_owned()).collect());
    [
        ("cat", words(&["/bin/cat", "/proc/interrupts"]), "0.07 of the default's rounds"),
        ("true", words(&["/bin/true"]), "-"),
        ("read, no processes", Work::ReadLines("/proc/interrupts".into()), "as user-mode load"),
    ]
}

pub(crate) fn run(context: &mut ExperimentContext) -> Result<Outcome, ExperimentError> {
    let kinds = kinds();
    let settings = DaemonSettings::of(context.options);
    let [one, other] = two_users();
    let currencies = [
        TrialCurrency { uid: one, ..TrialCurrency::new("short", 1000) },
        TrialCurrency { uid: other, ..TrialCurrency::new("hog", 1000) },
    ];
    let seconds = context.total / (kinds.len() * TURNS.len()) as f64;
    let mut measured = [const { [const { Vec::<Measured>::new() }; 2] }; 3];
    for (turn, rule) in TURNS.into_iter().enumerate() {
        let mut slice = context.slice(rule, &settings, &currencies, turn as u64)?;
        for ((name, work, _), measured) in kinds.iter().zip(&mut measured) {
            let done = measure(context, &mut slice, name, work, seconds)?;
            measured[usize::from(rule == CpuRule::Default)].push(done);
        }
    }
    let (mut verdict, selection) = (Verdict::default(), context.selection());
    for ((name, _, paper), measured) in kinds.iter().zip(&measured) {
        judge(name, paper, measured, &selection, &mut verdict);
    }
    let panel = side_by_side("share of the CPU (%)", &verdict.comparisons, "its currency's share");
    let plot = Plot::new("spawn", context.about.title, vec![panel]);
    let mut findings = Findings::default();
    findings.add_verdict(verdict);
    Ok(context.finish(findings, vec![plot]))
}

/// Measures one kind of short processes beside a hog.
fn measure(
    context: &mut ExperimentContext,
    slice: &mut TrialSlice,
    name: &str,
    work: &Work,
    seconds: f64,
) -> Result<Measured, ExperimentError> {
    let [one, other] = two_users();
    let hog = Work::Burn(vec![(0, true)]);
    let processes = [(0, "short", work.clone(), one), (1, "hog", hog, other)].map(
        |(currency, name, work, uid)| {
            let job = Job { uid, ..Job::new(name, work) };
            TrialProcess { currency, tickets: 100, job }
        },
    );
    let mut workers = slice.start(context, &processes, seconds)?;
    let start_ns = workers.release();
    let settled_ns = start_ns + nanoseconds(SETTLE_SECONDS.min(seconds / 5.0));
    let end_ns = start_ns + nanoseconds(seconds);
    let mut never = || false;
    slice.pass(context, &mut [&mut workers], settled_ns, name, &mut never)?;
    let (before, done, at) = (trees_ns(&workers), workers.iterations(), monotonic_ns());
    slice.pass(context, &mut [&mut workers], end_ns, name, &mut never)?;
    let passed = (monotonic_ns() - at) as f64 / 1e9;
    let used: Vec<u64> =
        trees_ns(&workers).iter().zip(&before).map(|(now, then)| now - then).collect();
    let rounds = workers.iterations()[0] - done[0];
    drop(workers);
    context.elapsed += seconds;
    Ok(Measured {
        used_seconds: used.iter().sum::<u64>() as f64 / 1e9,
        seconds: passed,
        share: shares(&used)[0],
        rounds: rounds as f64 / passed,
    })
}
