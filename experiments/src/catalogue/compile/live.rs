//! `compile` on real processes.

use crate::catalogue::compile::judge::{Builds, Measured, ROWS, judge};
use crate::error::ExperimentError;
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::DaemonSettings;
use crate::harness::trial_slice::{
    CpuRule, TURNS, TrialCurrency, TrialProcess, TrialSlice, trees_ns,
};
use crate::harness::workers::{Job, nanoseconds};
use crate::report::findings::Findings;
use crate::report::outcome::{Outcome, Plot};
use crate::report::plot::side_by_side;
use crate::report::statistics::shares;
use crate::workloads::c_project;
use crate::workloads::clock::monotonic_ns;
use crate::workloads::notes::Notes;
use crate::workloads::spec::Work;
use std::io;
use std::path::Path;
use std::time::Instant;

/// Builds' worth of time that the rows take: alone once, beside a load twice as long.
const BUILDS_WORTH: f64 = 9.0;
const FILES_MIN: usize = 2;
const FILES_MAX: usize = 400;
/// Timeout of a build, as times of its expected length.
const PATIENCE: f64 = 20.0;

pub(crate) fn run(context: &mut ExperimentContext) -> Result<Outcome, ExperimentError> {
    let dir = context.dir.path().join("project");
    let each = seconds_per_file(&dir).map_err(ExperimentError::system("compile a file"))?;
    let files = context.total / (BUILDS_WORTH * TURNS.len() as f64) / each;
    let files = (files as usize).clamp(FILES_MIN, FILES_MAX);
    c_project::write_project(&dir, files).map_err(ExperimentError::system("write sources"))?;
    let builds = build_all(context, &dir, each * files as f64 * PATIENCE + 30.0)?;
    let mut findings = Findings::default();
    findings.add_verdict(judge(&builds));
    findings.note(format!(
        "{files} files, one at a time as the paper's make; its times are for a Linux 2.4 kernel: \
         standard, lottery, lottery for interactive processes"
    ));
    let panels = vec![
        side_by_side("build time (s)", &findings.comparisons, "build"),
        side_by_side("build's share (%)", &findings.comparisons, "build's share"),
    ];
    let plot = Plot::new("compile", context.about.title, panels);
    Ok(context.finish(findings, vec![plot]))
}

/// Builds alone and beside each load, under both rules in turns.
fn build_all(
    context: &mut ExperimentContext,
    dir: &Path,
    limit: f64,
) -> Result<Builds, ExperimentError> {
    let settings = DaemonSettings::of(context.options);
    let currencies = [TrialCurrency::new("build", 1000), TrialCurrency::new("load", 1000)];
    let mut builds = [const { [const { Vec::<Measured>::new() }; 2] }; ROWS.len()];
    // Both sides of the first build find the sources and the compiler in the page cache.
    for (turn, rule) in TURNS.into_iter().enumerate() {
        let mut slice = context.slice(rule, &settings, &currencies, turn as u64)?;
        for (row, builds) in builds.iter_mut().enumerate() {
            c_project::clean(dir).map_err(ExperimentError::system("remove what was built"))?;
            let done = build(context, &mut slice, dir, row, limit)?;
            builds[usize::from(rule == CpuRule::Default)].push(done);
        }
    }
    Ok(builds)
}

/// Returns the time to compile one file. It is compiled twice; the second time counts.
fn seconds_per_file(dir: &Path) -> io::Result<f64> {
    std::fs::create_dir_all(dir)?;
    let (source, object) = (dir.join("part-0.c"), dir.join("part-0.o"));
    c_project::write_file(&source, 0)?;
    let mut seconds = 0.0;
    for _ in 0..2 {
        let begun = Instant::now();
        let status = c_project::compiler(&source, &object).status()?;
        if !status.success() {
            return Err(io::Error::other(format!("cc ended with {status}")));
        }
        seconds = begun.elapsed().as_secs_f64();
    }
    Ok(seconds.max(1e-3))
}

/// Returns the load of a row.
fn load(row: usize, dir: &Path) -> Option<Work> {
    Some(match row {
        0 => return None,
        1 => Work::List { tree: "/usr".into(), to: dir.join("list") },
        2 => Work::Burn(vec![(0, true)]),
        3 => Work::Spawn(vec!["/bin/cat".to_owned(), "/proc/interrupts".to_owned()]),
        _ => Work::ReadLines("/proc/interrupts".into()),
    })
}

/// Builds once beside the load of a row.
fn build(
    context: &mut ExperimentContext,
    slice: &mut TrialSlice,
    dir: &Path,
    row: usize,
    limit: f64,
) -> Result<Measured, ExperimentError> {
    let path = context.dir.path().join("notes");
    let notes = Notes::create(&path).map_err(ExperimentError::system("make room for notes"))?;
    let process = |currency, name: &str, work| TrialProcess {
        currency,
        tickets: 100,
        job: Job::new(name, work),
    };
    let build = Work::Build { dir: dir.to_owned(), notes: path.clone() };
    let mut processes = vec![process(0, "build", build)];
    processes.extend(load(row, context.dir.path()).map(|work| process(1, "load", work)));
    let mut workers = slice.start(context, &processes, limit)?;
    let start_ns = workers.release();
    let until_ns = start_ns + nanoseconds(limit);
    let label = ROWS[row].0;
    slice.pass(context, &mut [&mut workers], until_ns, label, &mut || !notes.all().is_empty())?;
    let used = trees_ns(&workers);
    let passed = (monotonic_ns() - start_ns) as f64 / 1e9;
    let Some(note) = notes.all().first().copied() else {
        let cause = io::Error::new(io::ErrorKind::TimedOut, format!("not done in {limit:.0} s"));
        return Err(ExperimentError::system("build")(cause));
    };
    let progress = workers.iterations().get(1).map_or(0.0, |done| *done as f64 / passed);
    drop(workers);
    std::fs::remove_file(&path).map_err(ExperimentError::system("remove the notes"))?;
    let build_seconds = note.took_ns as f64 / 1e9;
    context.elapsed += context.total / (ROWS.len() * TURNS.len()) as f64;
    Ok(Measured { build_seconds, build_share: shares(&used)[0], progress })
}
