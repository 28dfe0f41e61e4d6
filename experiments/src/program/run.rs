//! `allot exp run`.

use crate::arguments::{Global, RunArgs};
use crate::failure::Failure;
use crate::live::Live;
use allot_experiments::{ExperimentError, Outcome, RunOptions, SimulateOptions};
use command_line::output;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

/// The status where there is a report, and something in it is out of its bound.
const OUT_OF_BOUND: u8 = 1;

impl RunArgs {
    fn options(&self, global: &Global, out: &Path) -> Result<RunOptions, ExperimentError> {
        let defaults = RunOptions::default();
        let usual = allot_experiments::find(&self.name)?.seconds().usual;
        Ok(RunOptions {
            seconds: self.seconds.unwrap_or(usual),
            seed: self.seed,
            policy: self.policy,
            enforcer: self.enforcer.clone(),
            set: self.set.clone(),
            quantum_ms: self.quantum_ms,
            cpus: self.cpus.as_deref().map(allot_experiments::parse_cpus).transpose()?,
            graph: self.graph.clone(),
            out: Some(out.to_owned()),
            socket: match global.user {
                true => Some(wire::private_socket()),
                false => global.socket.clone(),
            },
            allotd: self.allotd.clone(),
            ..defaults
        })
    }
}

pub fn run(global: &Global, args: &RunArgs) -> Result<ExitCode, Failure> {
    let out = args.out.clone().unwrap_or_else(|| {
        let name =
            if args.simulate { format!("{}-simulated", args.name) } else { args.name.clone() };
        Path::new("report").join(name)
    });
    if args.simulate && (global.user || global.socket.is_some()) {
        let what = "--simulate asks no allotd; leave out --socket and --user";
        return Err(ExperimentError::BadOption(what.to_owned()).into());
    }
    let outcome = if args.simulate {
        let (seconds, seed) = (args.seconds, args.seed);
        let options = SimulateOptions { seconds, seed, out: Some(out.clone()) };
        allot_experiments::simulate(&args.name, &options)?
    } else {
        run_live(global, args, &out)?
    };
    outcome.write(&out)?;
    if global.json {
        output::json(&outcome.report)?;
    } else {
        output::text(&ending(&outcome, &out))?;
    }
    Ok(if outcome.report.ok { ExitCode::SUCCESS } else { ExitCode::from(OUT_OF_BOUND) })
}

fn run_live(global: &Global, args: &RunArgs, out: &Path) -> Result<Outcome, Failure> {
    // The report has standard output for itself.
    let watched = !global.json && std::io::stdout().is_terminal();
    let mut live = (args.live || watched).then(|| Live::new(&args.name, global.json));
    let mut unseen = None;
    let ended = args.options(global, out).and_then(|options| {
        allot_experiments::run(&args.name, &options, &mut |progress| {
            if let Some(live) = live.as_mut().filter(|_| unseen.is_none()) {
                // The reader has gone; the experiment goes on to its end.
                unseen = live.show(progress).err();
            }
        })
    });
    if let Some(live) = live.as_mut().filter(|_| unseen.is_none()) {
        live.clear()?;
    }
    Ok(ended?)
}

/// Returns the table, and the names of the files.
fn ending(outcome: &Outcome, out: &Path) -> String {
    let mut text = outcome.table.trim_end().to_owned();
    text.push_str("\n\n");
    let kind = |name: &str| if name.ends_with(".svg") { "plot" } else { "log" };
    let files = outcome.files.iter().map(|(name, _)| (kind(name), name.as_str()));
    for (what, file) in files.chain([("table", "table.txt"), ("report", "report.json")]) {
        text.push_str(&format!("{what:8} {}\n", out.join(file).display()));
    }
    text
}
