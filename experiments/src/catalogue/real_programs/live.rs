//! `real-programs` on real processes.

use crate::catalogue::real_programs::judge::{Measured, Side, TICKETS, judge};
use crate::catalogue::real_programs::programs::{PROGRAMS, Program, directory};
use crate::error::ExperimentError;
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::DaemonSettings;
use crate::harness::trial_slice::{
    CpuRule, TURNS, TrialCurrency, TrialProcess, TrialSlice, trees_ns,
};
use crate::harness::workers::{Job, Workers, nanoseconds};
use crate::report::findings::Findings;
use crate::report::outcome::{Outcome, Plot};
use crate::report::plot::side_by_side;
use crate::workloads::clock::monotonic_ns;
use crate::workloads::spec::Work;
use std::io;
use std::path::{Path, PathBuf};

/// Timeout of what comes before and after the load: a database is made, on a busy machine.
const PATIENCE_S: f64 = 180.0;
/// The part of a turn in which the load warms up, and weights that are steered are learned.
const WARM: f64 = 0.4;

/// The uid of nobody.
const NOBODY: u32 = 65_534;

const NAMES: [&str; 2] = ["rich", "poor"];

pub(crate) fn run(context: &mut ExperimentContext) -> Result<Outcome, ExperimentError> {
    let mut findings = Findings::default();
    let (there, lacking): (Vec<Program>, Vec<Program>) =
        PROGRAMS.into_iter().partition(Program::is_installed);
    for program in lacking {
        findings.note(format!("{} was left out: it is not installed", program.name));
    }
    let seconds = context.total / (there.len() * TURNS.len()).max(1) as f64;
    for (index, program) in there.iter().enumerate() {
        let mut measured: [Vec<Measured>; 2] = [Vec::new(), Vec::new()];
        for (turn, rule) in TURNS.into_iter().enumerate() {
            let number = (index * TURNS.len() + turn) as u64;
            let done = turn_of(context, program, rule, seconds, number)?;
            measured[usize::from(rule == CpuRule::Default)].push(done);
        }
        findings.add_verdict(judge(program, &measured[0], &measured[1]));
    }
    let panels = vec![side_by_side("ratio of progress", &findings.comparisons, "ratio")];
    let plot = Plot::new("real-programs", context.about.title, panels);
    Ok(context.finish(findings, vec![plot]))
}

/// Runs a program as both users at once, for so long.
fn turn_of(
    context: &mut ExperimentContext,
    program: &Program,
    rule: CpuRule,
    seconds: f64,
    number: u64,
) -> Result<Measured, ExperimentError> {
    let settings = DaemonSettings::of(context.options);
    // Programs refuse to run as root, and as users without a name: both run as nobody, for two currencies.
    let users = [nix::unistd::geteuid().is_root().then_some(NOBODY); 2];
    let currency = |index: usize| TrialCurrency {
        uid: users[index],
        ..TrialCurrency::new(NAMES[index], TICKETS[index])
    };
    let mut slice = context.slice(rule, &settings, &[currency(0), currency(1)], number)?;
    let warm_s = (seconds * WARM).round().max(1.0) as u64;
    let script = program.script(warm_s, (seconds as u64).saturating_sub(warm_s).max(1));
    let mut folders = Vec::new();
    let mut processes = Vec::new();
    for index in 0..2 {
        let name = format!("{}-{}", NAMES[index], program.name.split(',').next().unwrap_or(""));
        let folder = directory(context.dir.path(), &name, users[index])
            .map_err(ExperimentError::system("make a directory for a user"))?;
        let work = Work::Script { script: script.clone(), folder: folder.clone() };
        let job = Job { uid: users[index], ..Job::new(NAMES[index], work) };
        processes.push(TrialProcess { currency: index, tickets: 100, job });
        folders.push(folder);
    }
    let limit = 2.0 * PATIENCE_S + seconds;
    let mut workers = slice.start(context, &processes, limit)?;
    let start_ns = workers.release();
    let wait = |slice: &mut TrialSlice,
                context: &mut ExperimentContext,
                workers: &mut Workers,
                file: &str| {
        let all = || folders.iter().all(|folder| folder.join(file).exists());
        let until_ns = start_ns + nanoseconds(limit);
        slice.pass(context, &mut [workers], until_ns, program.name, &mut || all())?;
        match all() && monotonic_ns() < until_ns {
            true => Ok(()),
            false => Err(failed(&folders, file)),
        }
    };
    wait(&mut slice, context, &mut workers, "ready")?;
    tell(&folders, "go")?;
    wait(&mut slice, context, &mut workers, "warm")?;
    let before = trees_ns(&workers);
    wait(&mut slice, context, &mut workers, "result")?;
    let after = trees_ns(&workers);
    tell(&folders, "end")?;
    context.elapsed += seconds;
    let read = |folder: &Path| {
        let text = std::fs::read_to_string(folder.join("result")).unwrap_or_default();
        text.trim().parse().map_err(|_| failed(&folders, "result"))
    };
    let side = |index: usize| -> Result<Side, ExperimentError> {
        let used_s = after[index].saturating_sub(before[index]) as f64 / 1e9;
        Ok(Side { progress: read(&folders[index])?, used_s })
    };
    let measured = [side(0)?, side(1)?];
    // A server ends by itself, so that its files are whole when it is started again.
    wait(&mut slice, context, &mut workers, "ended")?;
    Ok(measured)
}

fn tell(folders: &[PathBuf], file: &str) -> Result<(), ExperimentError> {
    let write = |folder: &PathBuf| std::fs::write(folder.join(file), "");
    folders.iter().try_for_each(write).map_err(ExperimentError::system("tell a program to go on"))
}

/// The error of a program that does not do what it should, with what it said.
fn failed(folders: &[PathBuf], file: &str) -> ExperimentError {
    let said = |folder: &PathBuf| std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    let said: Vec<String> = folders.iter().map(said).collect();
    let last = said.iter().filter_map(|text| text.lines().last()).collect::<Vec<_>>().join("; ");
    let cause = io::Error::other(format!("there is no `{file}`; it said: {last}"));
    ExperimentError::system("run a program")(cause)
}
