//! `inversion` on real processes.

use crate::catalogue::inversion::judge::{HIGH, LOW, MEDIUM, Observed, judge};
use crate::error::ExperimentError;
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::DaemonSettings;
use crate::harness::trial_slice::{CpuRule, TrialCurrency, TrialProcess, TrialSlice};
use crate::harness::workers::{Job, nanoseconds};
use crate::report::findings::Findings;
use crate::report::outcome::{Outcome, Plot};
use crate::report::plot::side_by_side;
use crate::report::series::SETTLE_SECONDS;
use crate::report::verdict::Verdict;
use crate::workloads::clock::monotonic_ns;
use crate::workloads::locks::{self, HOLD_NS, Lock};
use crate::workloads::notes::{Note, Notes};
use crate::workloads::spec::Work;
use std::os::fd::AsRawFd;

const CURRENCIES: [TrialCurrency; 3] = [
    TrialCurrency::new("low", LOW),
    TrialCurrency::new("high", HIGH),
    TrialCurrency::new("medium", MEDIUM),
];
const HOGS: usize = 3;
const LOCKS: [&str; 3] = ["mutex (file position)", "rwsem (inode)", "PI futex"];
/// Slices of each rule for each lock; one where they would be shorter than `SLICE_SECONDS`: a wait
/// without transfers lasts half a second.
const ROUNDS: usize = 2;
const SLICE_SECONDS: f64 = 2.0;

pub(crate) fn run(context: &mut ExperimentContext) -> Result<Outcome, ExperimentError> {
    let mut rules = vec![CpuRule::Allot, CpuRule::Default];
    // The other enforcers know no transfers: there is nothing to switch off.
    let lends = context.options.enforcer.as_deref() == Some("sched-ext");
    if lends {
        rules.insert(1, CpuRule::AllotWithoutTransfers);
    }
    let observed = observe_all(context, &rules)?;
    let mut verdict = Verdict::default();
    for (observed, name) in observed.iter().zip(LOCKS) {
        let of =
            |rule: CpuRule| rules.iter().position(|other| *other == rule).map(|at| &observed[at]);
        judge(name, context.cpus.len(), &of, &mut verdict);
    }
    let mut findings = Findings::default();
    if !lends {
        findings.note("this enforcer has no ticket transfers: allot is measured without");
    }
    findings.add_verdict(verdict);
    let panel = side_by_side("average wait (ms)", &findings.comparisons, "wait, average");
    let plot = Plot::new("inversion", context.about.title, vec![panel]);
    Ok(context.finish(findings, vec![plot]))
}

/// Observes each lock under each rule, in turns.
fn observe_all(
    context: &mut ExperimentContext,
    rules: &[CpuRule],
) -> Result<Vec<Vec<Observed>>, ExperimentError> {
    let settings = DaemonSettings::of(context.options);
    let each = context.total / (LOCKS.len() * rules.len()) as f64;
    let rounds = if each < ROUNDS as f64 * SLICE_SECONDS { 1 } else { ROUNDS };
    let seconds = each / rounds as f64;
    let mut observed = vec![vec![Observed::default(); rules.len()]; LOCKS.len()];
    for round in 0..rounds {
        for (place, rule) in rules.iter().enumerate() {
            let number = (round * rules.len() + place) as u64;
            let mut slice = context.slice(*rule, &settings, &CURRENCIES, number)?;
            for (lock, observed) in observed.iter_mut().enumerate() {
                observe(context, &mut slice, lock, seconds, &mut observed[place])?;
            }
        }
    }
    Ok(observed)
}

/// Observes one lock for some time.
fn observe(
    context: &mut ExperimentContext,
    slice: &mut TrialSlice,
    kind: usize,
    seconds: f64,
    observed: &mut Observed,
) -> Result<(), ExperimentError> {
    let label = LOCKS[kind];
    let system = ExperimentError::system;
    let dir = context.dir.path().to_owned();
    let notes_path = dir.join("notes");
    let notes = Notes::create(&notes_path).map_err(system("make room for notes"))?;
    // Inherited by what is started while it is open: not by the slice's allotd.
    let file = match kind {
        0 | 1 => Some(locks::file().map_err(system("make a file in memory"))?),
        _ => None,
    };
    let lock = match (kind, &file) {
        (0, Some(file)) => Lock::Position(file.as_raw_fd()),
        (_, Some(file)) => Lock::Inode(file.as_raw_fd()),
        (_, None) => Lock::PiFutex(HOLD_NS),
    };
    let process = |currency, name: &str, work| TrialProcess {
        currency,
        tickets: 100,
        job: Job::new(name, work),
    };
    let mut processes = vec![
        process(0, "holder", Work::Hold(lock)),
        process(1, "waiter", Work::Wait { lock, holder: 0, notes: notes_path.clone() }),
    ];
    let hog = |_| process(2, "hog", Work::Burn(vec![(0, true)]));
    processes.extend((0..HOGS).map(hog));
    let mut workers = slice.start(context, &processes, seconds)?;
    drop(file);
    let start_ns = workers.release();
    let settled_ns = start_ns + nanoseconds(SETTLE_SECONDS.min(seconds / 5.0));
    let mut never = || false;
    slice.pass(context, &mut [&mut workers], settled_ns, label, &mut never)?;
    let (used, holds, at) = (workers.cpu_ns()?[0], workers.iterations()[0], monotonic_ns());
    let end_ns = start_ns + nanoseconds(seconds);
    slice.pass(context, &mut [&mut workers], end_ns, label, &mut never)?;
    observed.holder_ns += workers.cpu_ns()?[0] - used;
    observed.holds += workers.iterations()[0] - holds;
    observed.seconds += (monotonic_ns() - at) as f64 / 1e9;
    let now_ns = monotonic_ns();
    let all = notes.all();
    drop(workers);
    std::fs::remove_file(&notes_path).map_err(system("remove the notes"))?;
    for note in all {
        // A wait that goes on has lasted so long at least.
        let over = note.took_ns != Note::UNFINISHED;
        let took_ns = if over { note.took_ns } else { now_ns - note.at_ns };
        if note.at_ns + took_ns >= settled_ns {
            observed.waits_ms.push(took_ns as f64 / 1e6);
            observed.over += usize::from(over);
        }
    }
    context.elapsed += seconds;
    Ok(())
}
