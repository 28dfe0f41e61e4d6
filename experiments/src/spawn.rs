//! `spawn`: paper 3's `/bin/cat` anomaly (section 5.5.4, table 11, and 7).
//!
//! Beside a kernel build, a shell loop that runs `cat /proc/interrupts` over and over made some
//! 44 000 rounds under the lottery and over 600 000 under the standard scheduler, while the same
//! reading without processes (5.5.5) behaved as it should: who lives by short processes got far
//! less than its tickets' share. Here a currency of such processes competes with a hog of another.

use crate::arena::{Group, Member, Rule, TURNS, trees_ns, two_users};
use crate::bound::bound;
use crate::contest::{Contest, mean};
use crate::daemon::Setup;
use crate::orders::Work;
use crate::plot::{draw, side_by_side};
use crate::report::Findings;
use crate::session::{Bench, SETTLE_SECONDS, shares};
use crate::workers::{Job, nanoseconds};
use crate::workload::monotonic_ns;
use crate::{Check, ExperimentError, ExperimentInfo, Outcome};

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "spawn",
    title: "Short-lived processes beside a hog",
    paper: "paper 3, 5.5.4 (the /bin/cat anomaly) and table 11",
    what: "A currency that runs one short process after the other (cat, true), or reads the same \
           without processes, against one with a hog; both have the same tickets. Each currency's \
           share, and processes a second; allot and the kernel's default take turns.",
    least_seconds: 6.0,
    usual_seconds: 60.0,
    own_allotd: true,
};

/// CPU time of processes is counted in ticks, and a quantum that ends in a fork is cut: a share
/// may differ so much in any case.
const LEAST_BOUND: f64 = 0.05;

pub(crate) fn run(bench: &mut Bench) -> Result<Outcome, ExperimentError> {
    let words = |words: &[&str]| Work::Spawn(words.iter().map(|word| (*word).to_owned()).collect());
    let parts = [
        ("cat", words(&["/bin/cat", "/proc/interrupts"]), "0.07 of the default's rounds"),
        ("true", words(&["/bin/true"]), "-"),
        ("read, no processes", Work::ReadLines("/proc/interrupts".into()), "as user-mode load"),
    ];
    let setup = Setup::of(bench.options);
    let [one, other] = two_users();
    let groups = [
        Group { uid: one, ..Group::new("short", 1000) },
        Group { uid: other, ..Group::new("hog", 1000) },
    ];
    let seconds = bench.total / (parts.len() * TURNS.len()) as f64;
    let mut findings: Option<Findings> = None;
    let mut measured = [const { [const { Vec::<Measured>::new() }; 2] }; 3];
    for (turn, rule) in TURNS.into_iter().enumerate() {
        let mut slice = bench.slice(rule, &setup, &groups, turn as u64)?;
        if let (None, Some(daemon)) = (&findings, slice.daemon()) {
            findings = Some(Findings::new(bench, daemon)?);
        }
        for ((name, work, _), measured) in parts.iter().zip(&mut measured) {
            let members = [(0, "short", work.clone(), one), (1, "hog", burn(), other)].map(
                |(group, name, work, uid)| {
                    let job = Job { uid, ..Job::new(name, work) };
                    Member { group, tickets: 100, job }
                },
            );
            let mut workers = slice.start(bench, &members, seconds)?;
            let start_ns = workers.release();
            let settle = SETTLE_SECONDS.min(seconds / 5.0);
            slice.pass(
                bench,
                &mut [&mut workers],
                start_ns + nanoseconds(settle),
                name,
                &mut || false,
            )?;
            let (used, done, at) = (trees_ns(&workers), workers.iterations(), monotonic_ns());
            slice.pass(
                bench,
                &mut [&mut workers],
                start_ns + nanoseconds(seconds),
                name,
                &mut || false,
            )?;
            let passed = (monotonic_ns() - at) as f64 / 1e9;
            let used: Vec<u64> =
                trees_ns(&workers).iter().zip(&used).map(|(now, then)| now - then).collect();
            let rounds = workers.iterations()[0] - done[0];
            measured[usize::from(rule == Rule::Default)].push(Measured {
                used_seconds: used.iter().sum::<u64>() as f64 / 1e9,
                seconds: passed,
                share: shares(&used)[0],
                rounds: rounds as f64 / passed,
            });
            drop(workers);
            bench.elapsed += seconds;
        }
    }
    let mut findings = findings.expect("there was a slice of allot's");
    let mut contests = Vec::new();
    let mut checks = Vec::new();
    for ((name, _, paper), measured) in parts.iter().zip(&measured) {
        let [allot, default] = measured;
        let of = |from: &[Measured], what: fn(&Measured) -> f64| {
            mean(&from.iter().map(what).collect::<Vec<_>>())
        };
        let share = |from| of(from, |measured| measured.share * 100.0);
        contests.push(
            Contest::new(name, "its currency's share", "%")
                .promising(Some(50.0))
                .measured(share(allot), share(default)),
        );
        let both = |from| of(from, |one| one.used_seconds / one.seconds * 100.0);
        contests.push(
            Contest::new(name, "both have of the CPU", "%").measured(both(allot), both(default)),
        );
        contests.push(
            Contest::new(name, "rounds", "1/s")
                .measured(of(allot, |one| one.rounds), of(default, |one| one.rounds))
                .paper(paper),
        );
        let used: f64 = allot.iter().map(|one| one.used_seconds).sum();
        let draws = used / findings.quantum().as_secs_f64();
        let bound = bound(findings.policy, findings.drawing, &[0.5], 1.0, draws).max(LEAST_BOUND);
        let measured = share(allot).unwrap_or(0.0) / 100.0;
        checks.push(Check {
            what: format!(
                "{name}: the currency of short processes gets its half, within {:.1} percentage \
                 points ({:.1} %)",
                bound * 100.0,
                measured * 100.0
            ),
            ok: (measured - 0.5).abs() <= bound,
        });
    }
    let svg = vec![(
        "spawn.svg".to_owned(),
        draw(
            INFO.title,
            &[side_by_side("share of the CPU (%)", &contests, "its currency's share")],
        ),
    )];
    findings.contests = contests;
    findings.checks = checks;
    Ok(findings.finish(bench, &INFO, INFO.title, INFO.paper, svg))
}

struct Measured {
    used_seconds: f64,
    seconds: f64,
    share: f64,
    rounds: f64,
}

fn burn() -> Work {
    Work::Burn(vec![(0, true)])
}
