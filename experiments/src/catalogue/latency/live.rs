//! `latency` on real processes.

use crate::catalogue::latency::judge::{Cell, Pair, judge};
use crate::error::ExperimentError;
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::DaemonSettings;
use crate::harness::trial_slice::{
    CpuRule, TURNS, TrialCurrency, TrialProcess, TrialSlice, trees_ns,
};
use crate::harness::workers::{Job, Workers, nanoseconds};
use crate::report::comparison::Comparison;
use crate::report::findings::Findings;
use crate::report::outcome::{Outcome, Plot};
use crate::report::plot::side_by_side;
use crate::workloads::c_project;
use crate::workloads::clock::monotonic_ns;
use crate::workloads::interactive::{InteractiveProgram, outcome};
use crate::workloads::notes::Notes;
use crate::workloads::spec::Work;
use std::collections::BTreeMap;

const LOADS: [&str; 6] = ["none", "burn", "compile", "memory", "read", "write"];
/// Number of processes with which Interbench burns and compiles.
const PROCESSES: usize = 4;
/// Size of the files that are read and written.
const FILE_MIB: u64 = 64;
/// The part of each measurement that is left out, at its beginning.
const SETTLE_PART: f64 = 0.2;

/// The cells by load, program, and whether they are the default's.
type Cells = BTreeMap<(usize, usize, bool), Cell>;

pub(crate) fn run(context: &mut ExperimentContext) -> Result<Outcome, ExperimentError> {
    let missing = c_project::missing();
    let loads: Vec<&str> =
        LOADS.into_iter().filter(|load| *load != "compile" || missing.is_none()).collect();
    let cells = measure_all(context, &loads)?;
    let mut pairs = Vec::new();
    for (column, program) in InteractiveProgram::ALL.into_iter().enumerate() {
        for (row, load) in loads.iter().enumerate() {
            let get = |default: bool| cells[&(row, column, default)].clone();
            pairs.push(Pair { program, load, allot: get(false), default: get(true) });
        }
    }
    let mut findings = Findings::default();
    if let Some(missing) = missing {
        findings.note(format!("no load compiles: {missing}"));
    }
    findings.add_verdict(judge(&pairs));
    findings.note(
        "figures 39 to 42 have no numbers in the text; the paper's lottery was later than the \
         standard scheduler for X, video and audio beside every CPU-bound load",
    );
    let plots = plots(&findings.comparisons);
    Ok(context.finish(findings, plots))
}

/// Measures every program beside every load, under both rules in turns.
fn measure_all(context: &mut ExperimentContext, loads: &[&str]) -> Result<Cells, ExperimentError> {
    let settings = DaemonSettings::of(context.options);
    let currencies = [TrialCurrency::new("interactive", 1000), TrialCurrency::new("load", 1000)];
    let seconds = context.total / (loads.len() * TURNS.len()) as f64;
    let mut cells = Cells::new();
    for (turn, rule) in TURNS.into_iter().enumerate() {
        let mut slice = context.slice(rule, &settings, &currencies, turn as u64)?;
        for (row, load) in loads.iter().enumerate() {
            let processes = processes_of(load, context, turn * loads.len() + row)?;
            let mut burden = slice.start(context, &processes, seconds)?;
            burden.release();
            let part = seconds / InteractiveProgram::ALL.len() as f64;
            for (column, program) in InteractiveProgram::ALL.into_iter().enumerate() {
                let cell = cells.entry((row, column, rule == CpuRule::Default)).or_default();
                let label = format!("{}, load: {load}", program.name());
                measure(context, &mut slice, &mut burden, program, part, &label, cell)?;
            }
            drop(burden);
        }
    }
    Ok(cells)
}

fn plots(comparisons: &[Comparison]) -> Vec<Plot> {
    let figures = InteractiveProgram::ALL.into_iter().zip(39..);
    let plot = |(program, figure): (InteractiveProgram, u32)| {
        let name = program.name();
        let of_program = comparisons.iter().filter(|it| it.what.starts_with(&format!("{name}, ")));
        let own: Vec<Comparison> = of_program.cloned().collect();
        let panels = vec![
            side_by_side("average (ms)", &own, "average"),
            side_by_side("99th percentile (ms)", &own, "p99"),
        ];
        let title = format!("Wake-up latency of {name} (paper 3, figure {figure})");
        Plot::new(&format!("latency-{name}"), &title, panels)
    };
    figures.map(plot).collect()
}

/// Measures one program beside one load.
fn measure(
    context: &mut ExperimentContext,
    slice: &mut TrialSlice,
    burden: &mut Workers,
    program: InteractiveProgram,
    seconds: f64,
    label: &str,
    cell: &mut Cell,
) -> Result<(), ExperimentError> {
    let path = context.dir.path().join("notes");
    let notes = Notes::create(&path).map_err(ExperimentError::system("make room for notes"))?;
    let work = Work::Play { player: program, notes: path.clone() };
    let process = TrialProcess { currency: 0, tickets: 100, job: Job::new(program.name(), work) };
    let mut workers = slice.start(context, &[process], seconds)?;
    let start_ns = workers.release();
    let settled_ns = start_ns + nanoseconds(seconds * SETTLE_PART);
    let end_ns = start_ns + nanoseconds(seconds);
    let mut never = || false;
    slice.pass(context, &mut [burden, &mut workers], settled_ns, label, &mut never)?;
    let (own, load, at) = (workers.cpu_ns()?[0], trees_ns(burden), monotonic_ns());
    slice.pass(context, &mut [burden, &mut workers], end_ns, label, &mut never)?;
    cell.own_ns += workers.cpu_ns()?[0] - own;
    cell.load_ns += trees_ns(burden).iter().sum::<u64>() - load.iter().sum::<u64>();
    cell.seconds += (monotonic_ns() - at) as f64 / 1e9;
    drop(workers);
    for note in notes.all().iter().filter(|note| note.at_ns >= settled_ns) {
        let (met, left_out) = outcome(note);
        cell.late_ms.push(note.took_ns as f64 / 1e6);
        cell.met += u64::from(met);
        cell.due += 1 + left_out;
    }
    std::fs::remove_file(&path).map_err(ExperimentError::system("remove the notes"))?;
    context.elapsed += seconds;
    Ok(())
}

/// Returns the processes of a load.
fn processes_of(
    load: &str,
    context: &ExperimentContext,
    number: usize,
) -> Result<Vec<TrialProcess>, ExperimentError> {
    let dir = context.dir.path();
    let file = dir.join(format!("file-{number}"));
    let several = |work: &dyn Fn(usize) -> Work| (0..PROCESSES).map(work).collect();
    let works: Vec<Work> = match load {
        "burn" => several(&|_| Work::Burn(vec![(0, true)])),
        "compile" => {
            for process in 0..PROCESSES {
                c_project::write_file(&dir.join(format!("load-{process}.c")), process)
                    .map_err(ExperimentError::system("write sources"))?;
            }
            several(&|process| Work::Compile {
                source: dir.join(format!("load-{process}.c")),
                object: dir.join(format!("load-{process}.o")),
            })
        }
        "memory" => vec![Work::Memory],
        "read" => vec![Work::Read { file, mib: FILE_MIB }],
        "write" => vec![Work::Write { file, mib: FILE_MIB }],
        _ => Vec::new(),
    };
    let process = |work| TrialProcess { currency: 1, tickets: 100, job: Job::new(load, work) };
    Ok(works.into_iter().map(process).collect())
}
