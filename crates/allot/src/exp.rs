//! `allot exp`: the papers' figures and tables as programs.

use crate::cli::Global;
use crate::error::{CliError, USAGE};
use crate::live::Live;
use crate::style::{Style, Table, Tone};
use crate::{numbers, output};
use clap::{Args, Subcommand};
use experiments::{ExperimentError, Listed, Outcome, Policy, RunOptions, SimulateOptions};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What a shell shows for a program that SIGINT ended.
const INTERRUPTED: u8 = 128 + 2;
/// The report is there, and something in it is out of its bound.
const OUT_OF_BOUND: u8 = 1;

/// Run the papers' experiments, on real processes or in virtual time
#[derive(Args)]
#[command(after_help = "Example:\n  allot exp list\n  allot exp run cpu-hierarchy --live\n  \
        allot exp run disk-shares --simulate")]
pub struct ExpArgs {
    #[command(subcommand)]
    pub command: ExpCommand,
}

/// What can be done with experiments.
#[derive(Subcommand)]
pub enum ExpCommand {
    /// List the experiments
    #[command(after_help = "Example:\n  allot exp list --json")]
    List,
    Run(Box<ExpRunArgs>),
}

/// Run an experiment; says what tickets promise beside what was measured
///
/// It starts an allotd of its own, unless --socket or --user name one, and leaves nothing running.
/// With --simulate it starts nothing at all.
/// Exit status: 0 when every share is within the bound that the report states, 1 when not, 2 when
/// the experiment could not be run, 130 when it was interrupted.
#[derive(Args)]
#[command(after_help = "Example:\n  allot exp run cpu-hierarchy --seconds 30 --live\n  \
        allot exp run rre --policy stride --seed 7 --json\n  \
        allot exp run cpu-hierarchy --graph my-graph.toml --out report/mine\n  \
        allot exp run memory-shares --simulate --seed 7")]
pub struct ExpRunArgs {
    /// Which; `allot exp list` names them
    pub name: String,
    /// How long, in all [default: what the experiment needs, 30 to 240]
    #[arg(long, value_name = "N", value_parser = numbers::seconds)]
    pub seconds: Option<f64>,
    /// Of the policy's random numbers; with --simulate, of all that is left to chance
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Run it in virtual time, in a simulated machine: --seconds are of that, and equal seeds give
    /// equal reports
    #[arg(long, conflicts_with_all = [
        "policy", "enforcer", "quantum_ms", "cpus", "graph", "live", "allotd",
    ])]
    pub simulate: bool,
    /// Who wins a quantum: lottery, stride or mtr-ls
    #[arg(long, default_value = "lottery")]
    pub policy: Policy,
    /// Who enforces the tickets: user-level; as root also sched-ext or cgroup, which share the
    /// whole machine while it runs [default: user-level]
    #[arg(long)]
    pub enforcer: Option<String>,
    /// Milliseconds between draws, 1 to 1000 [default: the enforcer's]
    #[arg(long)]
    pub quantum_ms: Option<u64>,
    /// The CPUs to use, as in 0-1,3 [default: all for cpu-hierarchy, one for the others]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Another funding graph, with clients that burn, sleep and wake at given times (for
    /// cpu-hierarchy)
    #[arg(long, value_name = "FILE")]
    pub graph: Option<PathBuf>,
    /// Where plot, table and report go [default: ./report/NAME, or ./report/NAME-simulated]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Show progress and each client's share while it runs, also where standard output is no
    /// terminal (then as a line every few seconds)
    #[arg(long)]
    pub live: bool,
    /// The allotd to start [default: $ALLOTD, the one beside allot, or the one in $PATH]
    #[arg(long, value_name = "PROGRAM")]
    pub allotd: Option<PathBuf>,
}

/// One of an experiment's processes; started by experiments, not by people
#[derive(Args)]
#[command(hide = true, disable_help_flag = true, after_help = "Example:\n  allot exp run rre")]
pub struct WorkloadArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

pub fn workload(args: &WorkloadArgs) -> Result<ExitCode, CliError> {
    Ok(ExitCode::from(experiments::workload_main(&args.arguments)))
}

pub fn exp(global: &Global, command: ExpCommand) -> Result<ExitCode, CliError> {
    match command {
        ExpCommand::List => list(global),
        ExpCommand::Run(args) => run(global, &args),
    }
}

/// `live`, `simulated`, or both.
fn ways(listed: &Listed) -> Vec<&'static str> {
    let ways = [("live", listed.live), ("simulated", listed.simulated.is_some())];
    ways.into_iter().filter(|(_, can)| *can).map(|(way, _)| way).collect()
}

fn list(global: &Global) -> Result<ExitCode, CliError> {
    let experiments = experiments::catalogue();
    if global.json {
        let json = |listed: &Listed| {
            let info = listed.info;
            serde_json::json!({
                "name": info.name,
                "title": info.title,
                "paper": info.paper,
                "what": info.what,
                "runs": ways(listed),
                "least_seconds": info.least_seconds,
                "usual_seconds": info.usual_seconds,
                "usual_seconds_simulated": listed.simulated.map(|info| info.usual_seconds),
            })
        };
        output::json(&experiments.iter().map(json).collect::<Vec<_>>())?;
    } else {
        let mut table =
            Table::new(&[("NAME", false), ("REPEATS", false), ("RUNS", false), ("WHAT", false)]);
        for listed in &experiments {
            table.row(vec![
                (Tone::Strong, listed.info.name.to_owned()),
                (Tone::Plain, listed.info.paper.to_owned()),
                (Tone::Plain, ways(listed).join(", ")),
                (Tone::Plain, listed.info.title.to_owned()),
            ]);
        }
        output::text(&table.render(Style::of_stdout()))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl ExpRunArgs {
    fn options(&self, global: &Global, out: &Path) -> Result<RunOptions, ExperimentError> {
        let defaults = RunOptions::default();
        let listed = experiments::catalogue().into_iter().find(|it| it.info.name == self.name);
        let usual = listed.map_or(defaults.seconds, |it| it.info.usual_seconds);
        Ok(RunOptions {
            seconds: self.seconds.unwrap_or(usual),
            seed: self.seed,
            policy: self.policy,
            enforcer: self.enforcer.clone(),
            quantum_ms: self.quantum_ms,
            cpus: self.cpus.as_deref().map(experiments::parse_cpus).transpose()?,
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

fn run(global: &Global, args: &ExpRunArgs) -> Result<ExitCode, CliError> {
    let out = args.out.clone().unwrap_or_else(|| {
        let name =
            if args.simulate { format!("{}-simulated", args.name) } else { args.name.clone() };
        Path::new("report").join(name)
    });
    if args.simulate && (global.user || global.socket.is_some()) {
        let what = "--simulate asks no allotd; leave out --socket and --user";
        return Err(failed(ExperimentError::BadOption(what.to_owned())));
    }
    let outcome = if args.simulate {
        let (seconds, seed) = (args.seconds, args.seed);
        let options = SimulateOptions { seconds, seed, out: Some(out.clone()) };
        experiments::simulate(&args.name, &options).map_err(failed)?
    } else {
        run_live(global, args, &out)?
    };
    outcome.write(&out).map_err(failed)?;
    if global.json {
        output::json(&outcome.report)?;
    } else {
        output::text(&ending(&outcome, &out))?;
    }
    Ok(if outcome.report.ok { ExitCode::SUCCESS } else { ExitCode::from(OUT_OF_BOUND) })
}

fn run_live(global: &Global, args: &ExpRunArgs, out: &Path) -> Result<Outcome, CliError> {
    // The report has standard output for itself.
    let watched = !global.json && std::io::stdout().is_terminal();
    let mut live = (args.live || watched).then(|| Live::new(&args.name, global.json));
    let mut unseen = None;
    let ended = args.options(global, out).and_then(|options| {
        experiments::run(&args.name, &options, &mut |progress| {
            if let Some(live) = live.as_mut().filter(|_| unseen.is_none()) {
                // Who looks on has gone; the experiment goes on to its end.
                unseen = live.show(progress).err();
            }
        })
    });
    if let Some(live) = live.as_mut().filter(|_| unseen.is_none()) {
        live.clear()?;
    }
    ended.map_err(failed)
}

fn failed(error: ExperimentError) -> CliError {
    let status = match error {
        ExperimentError::Interrupted => INTERRUPTED,
        _ => USAGE,
    };
    CliError::Experiment { message: error.to_string(), status }
}

/// The table, and where the rest is.
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
