//! The four utilities of paper 3, 3.2, with its arguments and ranges: views over the same
//! ledger. What they are allowed to do is allotd's to say (paper 3, 3.1): a process's tickets
//! its owner or root may set; a user's base tickets root, or the user, within the default;
//! everybody may ask.

use crate::graph::Graph;
use crate::job;
use crate::run::{Anyway, DEFAULT_TICKETS, become_command, take_self};
use clap::{ArgGroup, Args};
use command_line::{CliError, GlobalOptions, argument_parsing, connection, output, users};
use std::ffi::{OsStr, OsString};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::ExitCode;
use wire::{Amount, Operation, TicketKind};

/// The names that this program may be called by instead.
const UTILITIES: [&str; 4] = ["lnice", "lrenice", "lsetbase", "ltix"];
/// Paper 3, 3.2.1 and 3.2.2.
const PROCESS_TICKETS: RangeInclusive<u64> = 10..=10_000;
/// Paper 3, 3.2.3.
const BASE_TICKETS: RangeInclusive<u64> = 100..=10_000;

/// Arguments as `allot UTILITY ...`, when the program was called by a utility's name.
pub fn by_program_name(arguments: Vec<OsString>) -> Vec<OsString> {
    let name = arguments.first().and_then(|name| Path::new(name).file_name());
    match UTILITIES.iter().find(|utility| name == Some(OsStr::new(utility))) {
        Some(utility) => ["allot", utility]
            .into_iter()
            .map(OsString::from)
            .chain(arguments.into_iter().skip(1))
            .collect(),
        None => arguments,
    }
}

/// Run a command at another process ticket count (paper 3)
#[derive(Args)]
#[command(
    override_usage = "lnice [-p TICKET_COUNT] COMMAND [ARGS]...",
    after_help = "Example:\n  lnice -p 500 ps\n  lnice ps\n\n\
        Also called as `allot lnice`. allotd's refusal ends it with status 125."
)]
pub struct LniceArgs {
    /// Process tickets, 10 (lowest) to 10000 (highest); the default where it is left out
    #[arg(short = 'p', value_name = "TICKET_COUNT", value_parser = process_tickets, allow_negative_numbers = true)]
    pub tickets: Option<u64>,
    /// The command and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}

/// Change the process ticket count of a running process (paper 3)
#[derive(Args)]
#[command(
    override_usage = "lrenice PID TICKET_COUNT",
    after_help = "Example:\n  lrenice 515 1000\n\nAlso called as `allot lrenice`."
)]
pub struct LreniceArgs {
    /// The process
    #[arg(value_parser = argument_parsing::pid)]
    pub pid: u32,
    /// Process tickets, 10 (lowest) to 10000 (highest)
    #[arg(value_name = "TICKET_COUNT", value_parser = process_tickets, allow_negative_numbers = true)]
    pub tickets: u64,
}

/// Change the base ticket count of a user (paper 3)
///
/// It stays as it was set when the user logs out, and when the machine restarts.
#[derive(Args)]
#[command(
    override_usage = "lsetbase -u USER TICKET_COUNT",
    after_help = "Example:\n  lsetbase -u paul 500\n\nAlso called as `allot lsetbase`."
)]
pub struct LsetbaseArgs {
    /// The user
    #[arg(short = 'u', value_name = "USER", required = true)]
    pub of: String,
    /// Base tickets, 100 (lowest) to 10000 (highest)
    #[arg(value_name = "TICKET_COUNT", value_parser = base_tickets, allow_negative_numbers = true)]
    pub tickets: u64,
}

/// Report a user's base tickets or a process's tickets (paper 3)
#[derive(Args)]
#[command(
    override_usage = "ltix -u USER | -p PID",
    after_help = "Example:\n  ltix -u paul\n  ltix -p 1235\n\nAlso called as `allot ltix`.",
    group(ArgGroup::new("whose").required(true).args(["of", "pid"]))
)]
pub struct LtixArgs {
    /// Base tickets of this user
    #[arg(short = 'u', value_name = "USER")]
    pub of: Option<String>,
    /// Process tickets of this process
    #[arg(short = 'p', value_name = "PID", value_parser = argument_parsing::pid)]
    pub pid: Option<u32>,
}

fn within(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let tickets = argument_parsing::amount(text)?;
    if range.contains(&tickets) {
        Ok(tickets)
    } else {
        Err(format!(
            "valid ticket values are {} (lowest) to {} (highest)",
            range.start(),
            range.end()
        ))
    }
}

fn process_tickets(text: &str) -> Result<u64, String> {
    within(text, PROCESS_TICKETS)
}

fn base_tickets(text: &str) -> Result<u64, String> {
    within(text, BASE_TICKETS)
}

pub fn lnice(global: &GlobalOptions, args: &LniceArgs) -> Result<ExitCode, CliError> {
    if let Some(ended) = job::stay_between(global)? {
        return Ok(ended);
    }
    let amount = args.tickets.unwrap_or(DEFAULT_TICKETS);
    let funding = vec![Amount { resource: "cpu".to_owned(), kind: TicketKind::Soft, amount }];
    let taken =
        connection::connect(global).and_then(|client| take_self(&client, None, Some(funding)));
    become_command(taken, &args.command, Anyway::No)
}

pub fn lrenice(global: &GlobalOptions, args: &LreniceArgs) -> Result<ExitCode, CliError> {
    let done = connection::connect(global)?
        .operate(Operation::SetTickets { pid: args.pid, amount: args.tickets })?;
    output::done(global, &done, None)?;
    Ok(ExitCode::SUCCESS)
}

pub fn lsetbase(global: &GlobalOptions, args: &LsetbaseArgs) -> Result<ExitCode, CliError> {
    let uid = users::uid(&args.of)?;
    let done =
        connection::connect(global)?.operate(Operation::SetBase { uid, amount: args.tickets })?;
    output::done(global, &done, None)?;
    Ok(ExitCode::SUCCESS)
}

pub fn ltix(global: &GlobalOptions, args: &LtixArgs) -> Result<ExitCode, CliError> {
    let uid = args.of.as_deref().map(users::uid).transpose()?;
    let view = connection::connect(global)?.ledger()?;
    let graph = Graph::new(&view);
    let tickets = match (uid, args.pid) {
        (Some(uid), _) => graph.base_tickets(uid).ok_or_else(|| {
            CliError::Unknown(format!(
                "user {} has no currency with base tickets here; it gets one with its first \
                 process, or from `lsetbase`",
                users::user_name(uid)
            ))
        })?,
        (None, Some(pid)) => {
            let client = graph.find(&format!("pid:{pid}"), 0)?;
            graph.process_tickets(client.id).map_or(0, |ticket| ticket.amount)
        }
        (None, None) => return Err(CliError::Usage("name a user or a process".to_owned())),
    };
    if global.json {
        output::json(&serde_json::json!({ "tickets": tickets }))?;
    } else {
        output::text(&tickets.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}
