//! The arguments of `allot-exp`.

use allot_experiments::{EXPERIMENTS, Policy};
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use command_line::argument_parsing;
use std::ffi::OsString;
use std::path::PathBuf;

/// Run the papers' experiments, on real processes or in virtual time
#[derive(Parser)]
#[command(
    name = "allot-exp",
    bin_name = "allot exp",
    version,
    max_term_width = 100,
    after_help = "Example:\n  allot exp list\n  allot exp run cpu-hierarchy --live\n  \
        allot exp run disk-shares --simulate"
)]
pub struct Arguments {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Options that `allot` has for every command, as far as experiments use them.
#[derive(Args, Clone)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// The socket of a running allotd to use, instead of an allotd of the experiment's own
    #[arg(long, global = true, value_name = "PATH", conflicts_with = "user")]
    pub socket: Option<PathBuf>,
    /// Use your private allotd (`allotd --user`)
    #[arg(long, global = true)]
    pub user: bool,
    /// Show JSON, for programs; errors too
    #[arg(long, global = true)]
    pub json: bool,
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// List the experiments
    #[command(after_help = "Example:\n  allot exp list --json")]
    List,
    Run(Box<RunArgs>),
    /// One of an experiment's processes; started by experiments, not by people
    #[command(hide = true, disable_help_flag = true)]
    Workload {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
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
pub struct RunArgs {
    /// The experiment; `allot exp list` describes them
    #[arg(value_parser = PossibleValuesParser::new(EXPERIMENTS.map(|it| it.name)), hide_possible_values = true)]
    pub name: String,
    /// Length in all [default: what the experiment needs, 30 to 240]
    #[arg(long, value_name = "N", value_parser = argument_parsing::seconds)]
    pub seconds: Option<f64>,
    /// Seed of the policy's random numbers; with --simulate, of all that is left to chance
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Run it in virtual time, in a simulated machine: --seconds are of that, and equal seeds give
    /// equal reports
    #[arg(long, conflicts_with_all = [
        "policy", "enforcer", "set", "quantum_ms", "cpus", "graph", "live", "allotd",
    ])]
    pub simulate: bool,
    /// Scheduling policy: lottery, stride or mtr-ls
    #[arg(long, default_value = "lottery")]
    pub policy: Policy,
    /// Enforcer of the tickets: user-level; as root also sched-ext, cgroup or weights, which
    /// share the whole machine while it runs [default: user-level]
    #[arg(long)]
    pub enforcer: Option<String>,
    /// A setting of an enforcer, as allotd's --set
    #[arg(long, value_name = "KIND.NAME=VALUE")]
    pub set: Vec<String>,
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
    /// Directory of plots, table and report [default: ./report/NAME, or ./report/NAME-simulated]
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
