//! `inversion`: who has few tickets holds a lock that who has many waits for, and others of
//! middling wealth want the CPU. With ticket transfers (Waldspurger & Weihl 1994, 3.1; paper 1's
//! scheduler had none) who waits lends its tickets to the holder.

use crate::arena::{Group, Member, Rule, Slice};
use crate::contest::{Contest, mean, percentile};
use crate::daemon::Setup;
use crate::locks::{self, HOLD_NS};
use crate::orders::{Lock, Work};
use crate::page::{Note, Notes};
use crate::plot::{draw, side_by_side};
use crate::report::Findings;
use crate::session::{Bench, SETTLE_SECONDS};
use crate::workers::{Job, nanoseconds};
use crate::workload::monotonic_ns;
use crate::{Check, ExperimentError, ExperimentInfo, Outcome};
use std::os::fd::AsRawFd;

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "inversion",
    title: "Priority inversion and ticket transfer",
    paper: "Waldspurger & Weihl 1994, 3.1: ticket transfers",
    what: "A holder of a lock with 50 tickets, who waits for it with 950, three hogs with 900 \
           together: how long it waits for a kernel mutex (a file position's), an rwsem (an inode's) and \
           a futex that passes on priorities, with and without ticket transfers, and under the \
           kernel's default.",
    least_seconds: 9.0,
    usual_seconds: 90.0,
    own_allotd: true,
};

const LOW: u64 = 50;
const MEDIUM: u64 = 900;
const HIGH: u64 = 950;
const GROUPS: [Group; 3] =
    [Group::new("low", LOW), Group::new("high", HIGH), Group::new("medium", MEDIUM)];
const HOGS: usize = 3;
/// With transfers, the average wait must be so much of what it is without, at most.
const SHORTER: f64 = 0.5;
/// Each rule has so many slices for each lock; one where they would be shorter than this: a wait
/// without transfers lasts half a second.
const ROUNDS: usize = 2;
const SLICE_SECONDS: f64 = 2.0;

/// What was seen under one rule.
#[derive(Clone, Debug, Default)]
struct Seen {
    waits_ms: Vec<f64>,
    /// How many of the waits ended while they were measured.
    over: usize,
    holds: u64,
    holder_ns: u64,
    seconds: f64,
}

pub(crate) fn run(bench: &mut Bench) -> Result<Outcome, ExperimentError> {
    let mut rules = vec![Rule::Allot, Rule::Default];
    // The others know no transfers: there is nothing to switch off.
    let lends = bench.options.enforcer.as_deref() == Some("sched-ext");
    if lends {
        rules.insert(1, Rule::AllotWithoutTransfers);
    }
    let setup = Setup::of(bench.options);
    let kinds = ["mutex (file position)", "rwsem (inode)", "PI futex"];
    let each = bench.total / (kinds.len() * rules.len()) as f64;
    let rounds = if each < ROUNDS as f64 * SLICE_SECONDS { 1 } else { ROUNDS };
    let seconds = each / rounds as f64;
    let mut findings: Option<Findings> = None;
    let mut contests = Vec::new();
    let mut checks = Vec::new();
    let mut seen = vec![vec![Seen::default(); rules.len()]; kinds.len()];
    for round in 0..rounds {
        for (place, rule) in rules.iter().enumerate() {
            let number = (round * rules.len() + place) as u64;
            let mut slice = bench.slice(*rule, &setup, &GROUPS, number)?;
            if let (None, Some(daemon)) = (&findings, slice.daemon()) {
                findings = Some(Findings::new(bench, daemon)?);
            }
            for (kind, name) in kinds.into_iter().enumerate() {
                one(bench, &mut slice, kind, seconds, name, &mut seen[kind][place])?;
            }
        }
    }
    for (seen, name) in seen.iter().zip(kinds) {
        let of = |rule: Rule| rules.iter().position(|other| *other == rule).map(|at| &seen[at]);
        judge(name, bench.cpus.len(), &of, &mut contests, &mut checks);
    }
    let mut findings = findings.expect("there was a slice of allot's");
    if !lends {
        let what = "this enforcer has no ticket transfers: allot is measured without";
        findings.notes.push(what.to_owned());
    }
    let svg = vec![(
        "inversion.svg".to_owned(),
        draw(INFO.title, &[side_by_side("average wait (ms)", &contests, "wait, average")]),
    )];
    findings.contests = contests;
    findings.checks = checks;
    Ok(findings.finish(bench, &INFO, INFO.title, INFO.paper, svg))
}

/// One lock for some time.
fn one(
    bench: &mut Bench,
    slice: &mut Slice,
    kind: usize,
    seconds: f64,
    label: &str,
    seen: &mut Seen,
) -> Result<(), ExperimentError> {
    let system = ExperimentError::system;
    let dir = bench.dir.path().to_owned();
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
    let member =
        |group, name: &str, work| Member { group, tickets: 100, job: Job::new(name, work) };
    let mut members = vec![
        member(0, "holder", Work::Hold(lock)),
        member(1, "waiter", Work::Wait { lock, holder: 0, notes: notes_path.clone() }),
    ];
    let hog = |_| member(2, "hog", Work::Burn(vec![(0, true)]));
    members.extend((0..HOGS).map(hog));
    let mut workers = slice.start(bench, &members, seconds)?;
    drop(file);
    let start_ns = workers.release();
    let settled_ns = start_ns + nanoseconds(SETTLE_SECONDS.min(seconds / 5.0));
    let mut never = || false;
    slice.pass(bench, &mut [&mut workers], settled_ns, label, &mut never)?;
    let (used, holds, at) = (workers.cpu_ns()?[0], workers.iterations()[0], monotonic_ns());
    let end_ns = start_ns + nanoseconds(seconds);
    slice.pass(bench, &mut [&mut workers], end_ns, label, &mut never)?;
    seen.holder_ns += workers.cpu_ns()?[0] - used;
    seen.holds += workers.iterations()[0] - holds;
    seen.seconds += (monotonic_ns() - at) as f64 / 1e9;
    let now_ns = monotonic_ns();
    let all = notes.all();
    drop(workers);
    std::fs::remove_file(&notes_path).map_err(system("take away the notes"))?;
    for note in all {
        // A wait that goes on has lasted so long at least.
        let over = note.took_ns != Note::UNFINISHED;
        let took_ns = if over { note.took_ns } else { now_ns - note.at_ns };
        if note.at_ns + took_ns >= settled_ns {
            seen.waits_ms.push(took_ns as f64 / 1e6);
            seen.over += usize::from(over);
        }
    }
    bench.elapsed += seconds;
    Ok(())
}

/// How many waits were seen.
fn waits(seen: &Seen) -> f64 {
    seen.waits_ms.len() as f64
}

fn judge<'a>(
    name: &str,
    cpus: usize,
    of: &dyn Fn(Rule) -> Option<&'a Seen>,
    contests: &mut Vec<Contest>,
    checks: &mut Vec<Check>,
) {
    let rules = [Rule::Allot, Rule::AllotWithoutTransfers, Rule::Default].map(of);
    let [allot, without, default] = rules;
    let mut put = |quantity: &str, what: &dyn Fn(&Seen) -> Option<f64>, promised: Option<f64>| {
        let mut contest = Contest::new(name, quantity, "ms")
            .promising(promised)
            .measured(allot.and_then(what), default.and_then(what));
        contest.allot_without_transfers = without.and_then(what);
        contests.push(contest);
    };
    let hold =
        |seen: &Seen| (seen.holds > 0).then(|| seen.holder_ns as f64 / 1e6 / seen.holds as f64);
    let average = |seen: &Seen| mean(&seen.waits_ms);
    // While one waits and lends, the holder has what both have of what all have: one CPU at most.
    let part = (LOW + HIGH) as f64 / (LOW + MEDIUM + HIGH) as f64;
    let lent = allot.and_then(hold).map(|ms| ms / (part * cpus as f64).min(1.0));
    put("hold, CPU", &hold, None);
    put("wait, average", &average, lent.filter(|_| without.is_some()));
    put("wait, p99", &|seen| percentile(&seen.waits_ms, 0.99), None);
    put("wait, worst", &|seen| percentile(&seen.waits_ms, 1.0), None);
    let mut count = Contest::new(name, "waits", "").measured(allot.map(waits), default.map(waits));
    count.allot_without_transfers = without.map(waits);
    contests.push(count);
    let with = allot.and_then(average);
    match without {
        Some(without) => {
            // Where nobody began to wait, the holder has not got as far as to take the lock again.
            let least = average(without).unwrap_or(without.seconds * 1000.0);
            let ok = with.is_some_and(|with| with <= SHORTER * least);
            let shown = with.map_or("none".to_owned(), |with| format!("{with:.1} ms"));
            let what = format!(
                "{name}: with transfers the average wait is at most half of what it is without \
                 ({shown}, {least:.1} ms)"
            );
            checks.push(Check { what, ok });
        }
        None => {
            let waits = allot.map_or(0, |seen| seen.over);
            let what = format!("{name}: who waits gets the lock ({waits} times)");
            checks.push(Check { what, ok: waits > 0 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict() {
        let seen = |ms: &[f64]| Seen {
            waits_ms: ms.to_vec(),
            over: ms.len(),
            holds: 2,
            holder_ns: 40_000_000,
            seconds: 4.0,
        };
        let verdict = |with: &Seen, without: Option<&Seen>| {
            let default = seen(&[100.0]);
            let of = |rule| match rule {
                Rule::Allot => Some(with),
                Rule::AllotWithoutTransfers => without,
                Rule::Default => Some(&default),
            };
            let (mut contests, mut checks) = (Vec::new(), Vec::new());
            judge("mutex", 1, &of, &mut contests, &mut checks);
            assert_eq!(contests[0].allot, Some(20.0));
            let promised = contests[1].promised;
            assert_eq!(promised.map(f64::round), without.map(|_| 38.0));
            checks[0].ok
        };
        assert!(verdict(&seen(&[40.0, 42.0]), Some(&seen(&[400.0]))));
        assert!(!verdict(&seen(&[300.0]), Some(&seen(&[400.0]))));
        assert!(verdict(&seen(&[300.0]), Some(&seen(&[]))), "in vain for four seconds");
        assert!(!verdict(&seen(&[]), Some(&seen(&[]))));
        assert!(verdict(&seen(&[300.0]), None));
        assert!(!verdict(&seen(&[]), None));
    }
}
