//! `allot nice`: a job with a small funding from base, out of its user's own (paper 1, 4.4 and
//! 5.6).

use crate::job;
use crate::run::become_command;
use clap::Args;
use command_line::{CliError, GlobalOptions, argument_parsing, connection, output};
use std::ffi::OsString;
use std::process::ExitCode;
use wire::Operation;

/// Run a job with little, for the others' good
///
/// The job is funded from base, and what it gets is taken out of your own currencies for as long
/// as it lives: it yields to everybody, also when the rest of what you run is idle, and nobody
/// else's share changes. What the job starts shares its funding.
#[derive(Args)]
#[command(
    after_help = "Example:\n  allot nice --tickets 50 -- ./long-computation\n  allot nice --pid 4711"
)]
pub struct NiceArgs {
    /// How many base tickets the job gets
    #[arg(long, short = 't', value_name = "N", default_value = "100", value_parser = argument_parsing::amount, allow_negative_numbers = true)]
    pub tickets: u64,
    /// Of what: cpu, memory, disk:DEVICE or net:INTERFACE
    #[arg(long, default_value = "cpu")]
    pub resource: String,
    /// A process of yours that runs already
    #[arg(long, value_parser = argument_parsing::pid, conflicts_with_all = ["command", "anyway"])]
    pub pid: Option<u32>,
    /// Run it even where allotd does not take it
    #[arg(long)]
    pub anyway: bool,
    /// The command and its arguments
    #[arg(
        required_unless_present = "pid",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}

pub fn nice(global: &GlobalOptions, args: &NiceArgs) -> Result<ExitCode, CliError> {
    let operation = Operation::Nice {
        pid: args.pid,
        resource: Some(args.resource.clone()),
        amount: args.tickets,
    };
    let Some(pid) = args.pid else {
        if let Some(ended) = job::stay_between(global)? {
            return Ok(ended);
        }
        let taken = connection::connect(global)
            .and_then(|client| client.operate(operation).map_err(CliError::from))
            .map(|done| output::warn_of_no_effect(&done));
        return become_command(taken, &args.command, args.anyway.into());
    };
    let done = connection::connect(global)?.operate(operation)?;
    let created = done.results.first().and_then(|result| result.created);
    let news = created.map(|id| format!("process {pid} runs as job #{id}"));
    output::done(global, &done, news.as_deref())?;
    Ok(ExitCode::SUCCESS)
}
