//! `compile`: paper 3, section 5.5, tables 7 to 12: a build alone and beside four loads, and, which
//! the paper did not measure, how the loads progress meanwhile.

use crate::arena::{Group, Member, Rule, Slice, TURNS, trees_ns};
use crate::contest::{Contest, mean};
use crate::daemon::Setup;
use crate::orders::Work;
use crate::page::Notes;
use crate::plot::{draw, side_by_side};
use crate::report::Findings;
use crate::session::{Bench, shares};
use crate::sources;
use crate::workers::{Job, nanoseconds};
use crate::workload::monotonic_ns;
use crate::{Check, ExperimentError, ExperimentInfo, Outcome};
use std::io;
use std::path::Path;
use std::time::Instant;

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "compile",
    title: "A build beside loads",
    paper: "paper 3, 5.5, tables 7 to 12",
    what: "A real build (generated C, cc and make) alone and beside each of the paper's four \
           loads: listing files, user-mode CPU, kernel-mode CPU by /bin/cat and by reading. Both \
           sides have the same tickets. The build's time, its share, and the load's progress; \
           allot and the kernel's default take turns.",
    least_seconds: 10.0,
    usual_seconds: 240.0,
    own_allotd: true,
};

/// Rows of table 7: our name, and the paper's times under standard Linux and its two lotteries.
const ROWS: [(&str, &str); 5] = [
    ("no load", "4:04, 4:05, 4:03"),
    ("ls -lR", "14:28, 12:44, 12:50"),
    ("user-mode CPU", "7:29, 11:33, 10:46"),
    ("cat (spawns)", "10:13, 4:09, 4:10"),
    ("sh read", "7:29, 11:25, 10:46"),
];
/// These want all the CPU that they can get.
const CPU_BOUND: [&str; 3] = ["user-mode CPU", "cat (spawns)", "sh read"];
/// Builds' worth of time that the rows take: alone once, beside a load twice as long.
const BUILDS_WORTH: f64 = 9.0;
const FILES_MIN: usize = 2;
const FILES_MAX: usize = 400;
/// A build that takes so many times what it should is given up.
const PATIENCE: f64 = 20.0;
/// Beside a CPU-bound load each side is due a half. A build waits now and then, for files and
/// between its processes.
const BUILD_MIN: f64 = 0.42;
const BUILD_MAX: f64 = 0.55;

#[derive(Clone, Copy, Debug)]
struct Measured {
    build_seconds: f64,
    build_share: f64,
    progress: f64,
}

pub(crate) fn run(bench: &mut Bench) -> Result<Outcome, ExperimentError> {
    if let Some(missing) = sources::missing() {
        return Err(ExperimentError::BadOption(format!("compile needs cc and make: {missing}")));
    }
    let dir = bench.dir.path().join("project");
    let each = seconds_per_file(&dir).map_err(ExperimentError::system("compile a file"))?;
    let files = bench.total / (BUILDS_WORTH * TURNS.len() as f64) / each;
    let files = (files as usize).clamp(FILES_MIN, FILES_MAX);
    sources::write_project(&dir, files).map_err(ExperimentError::system("write sources"))?;
    let setup = Setup::of(bench.options);
    let mut findings: Option<Findings> = None;
    let groups = [Group::new("build", 1000), Group::new("load", 1000)];
    let limit = each * files as f64 * PATIENCE + 30.0;
    let mut measured = [const { [const { Vec::<Measured>::new() }; 2] }; ROWS.len()];
    // Both sides of the first build find the sources and the compiler in the page cache.
    for (turn, rule) in TURNS.into_iter().enumerate() {
        let mut slice = bench.slice(rule, &setup, &groups, turn as u64)?;
        if let (None, Some(daemon)) = (&findings, slice.daemon()) {
            findings = Some(Findings::new(bench, daemon)?);
        }
        for (row, measured) in measured.iter_mut().enumerate() {
            sources::clean(&dir).map_err(ExperimentError::system("take away what was built"))?;
            let done = one(bench, &mut slice, &dir, row, limit)?;
            measured[usize::from(rule == Rule::Default)].push(done);
        }
    }
    let mut contests = Vec::new();
    let mut checks = Vec::new();
    for (row, ((name, paper), measured)) in ROWS.into_iter().zip(&measured).enumerate() {
        let of = |side: usize, what: fn(&Measured) -> f64| {
            mean(&measured[side].iter().map(what).collect::<Vec<_>>())
        };
        let both = |what: fn(&Measured) -> f64| (of(0, what), of(1, what));
        let (allot, default) = both(|one| one.build_seconds);
        contests.push(
            Contest::new(name, "build", "s")
                .measured(allot, default)
                .paper(&format!("{paper} (min)")),
        );
        if row == 0 {
            continue;
        }
        let (allot, default) = both(|one| one.build_share * 100.0);
        let bound = CPU_BOUND.contains(&name);
        contests.push(
            Contest::new(name, "build's share", "%")
                .promising(bound.then_some(50.0))
                .measured(allot, default),
        );
        let (progress, beside) = both(|one| one.progress);
        contests.push(Contest::new(name, "load's progress", "1/s").measured(progress, beside));
        if bound {
            let share = allot.unwrap_or(0.0) / 100.0;
            checks.push(Check {
                what: format!(
                    "{name}: build and load share the CPU equally: the build has {:.0} to {:.0} \
                     % of what both have ({:.1} %)",
                    BUILD_MIN * 100.0,
                    BUILD_MAX * 100.0,
                    share * 100.0
                ),
                ok: (BUILD_MIN..=BUILD_MAX).contains(&share),
            });
        }
    }
    let mut findings = findings.expect("there was a slice of allot's");
    findings.notes.push(format!(
        "{files} files, one at a time as the paper's make; its times are for a Linux 2.4 kernel: \
         standard, lottery, lottery for interactive processes"
    ));
    let panels = [
        side_by_side("build time (s)", &contests, "build"),
        side_by_side("build's share (%)", &contests, "build's share"),
    ];
    let svg = vec![("compile.svg".to_owned(), draw(INFO.title, &panels))];
    findings.contests = contests;
    findings.checks = checks;
    Ok(findings.finish(bench, &INFO, INFO.title, INFO.paper, svg))
}

/// Compiles one file twice; the second time counts.
fn seconds_per_file(dir: &Path) -> io::Result<f64> {
    std::fs::create_dir_all(dir)?;
    let (source, object) = (dir.join("part-0.c"), dir.join("part-0.o"));
    sources::write_file(&source, 0)?;
    let mut seconds = 0.0;
    for _ in 0..2 {
        let begun = Instant::now();
        let status = sources::compiler(&source, &object).status()?;
        if !status.success() {
            return Err(io::Error::other(format!("cc ended with {status}")));
        }
        seconds = begun.elapsed().as_secs_f64();
    }
    Ok(seconds.max(1e-3))
}

fn load(row: usize, dir: &Path) -> Option<Work> {
    Some(match row {
        0 => return None,
        1 => Work::List { tree: "/usr".into(), to: dir.join("list") },
        2 => Work::Burn(vec![(0, true)]),
        3 => Work::Spawn(vec!["/bin/cat".to_owned(), "/proc/interrupts".to_owned()]),
        _ => Work::ReadLines("/proc/interrupts".into()),
    })
}

/// One build.
fn one(
    bench: &mut Bench,
    slice: &mut Slice,
    dir: &Path,
    row: usize,
    limit: f64,
) -> Result<Measured, ExperimentError> {
    let path = bench.dir.path().join("notes");
    let notes = Notes::create(&path).map_err(ExperimentError::system("make room for notes"))?;
    let member =
        |group, name: &str, work| Member { group, tickets: 100, job: Job::new(name, work) };
    let build = Work::Build { dir: dir.to_owned(), notes: path.clone() };
    let mut members = vec![member(0, "build", build)];
    members.extend(load(row, bench.dir.path()).map(|work| member(1, "load", work)));
    let mut workers = slice.start(bench, &members, limit)?;
    let start_ns = workers.release();
    let until_ns = start_ns + nanoseconds(limit);
    let label = ROWS[row].0;
    slice.pass(bench, &mut [&mut workers], until_ns, label, &mut || !notes.all().is_empty())?;
    let used = trees_ns(&workers);
    let passed = (monotonic_ns() - start_ns) as f64 / 1e9;
    let Some(note) = notes.all().first().copied() else {
        let cause = io::Error::new(io::ErrorKind::TimedOut, format!("not done in {limit:.0} s"));
        return Err(ExperimentError::system("build")(cause));
    };
    let progress = workers.iterations().get(1).map_or(0.0, |done| *done as f64 / passed);
    drop(workers);
    std::fs::remove_file(&path).map_err(ExperimentError::system("take away the notes"))?;
    let build_seconds = note.took_ns as f64 / 1e9;
    bench.elapsed += bench.total / (ROWS.len() * TURNS.len()) as f64;
    Ok(Measured { build_seconds, build_share: shares(&used)[0], progress })
}
