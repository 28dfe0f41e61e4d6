//! `allot adopt` and `allot release`: processes that run already.

use crate::cli::Global;
use crate::error::CliError;
use crate::run::funding;
use crate::{numbers, output, session};
use clap::Args;
use std::process::ExitCode;
use wire::{CurrencyRef, Operation};

/// Make a running process a client
///
/// Its forks become clients too, funded by whoever funds it.
#[derive(Args)]
#[command(after_help = "Example:\n  allot adopt 4711 --from build --tickets 500")]
pub struct AdoptArgs {
    /// The process
    #[arg(value_parser = numbers::pid)]
    pub pid: u32,
    /// Who funds it; without this, what the funding policy says, or base in a private allotd
    #[arg(long, value_name = "CURRENCY")]
    pub from: Option<String>,
    /// How many soft tickets; 1000 where neither --tickets nor --hard is given, 0 freezes it
    #[arg(long, short = 't', value_name = "N", value_parser = numbers::amount, allow_negative_numbers = true)]
    pub tickets: Option<u64>,
    /// A fixed share, in thousandths of what the issuer has
    #[arg(long, value_name = "N", value_parser = numbers::amount, allow_negative_numbers = true)]
    pub hard: Option<u64>,
    /// Of what: cpu, memory, disk:DEVICE or net:INTERFACE
    #[arg(long, default_value = "cpu")]
    pub resource: String,
}

/// Manage a process no longer
///
/// It goes on under the kernel's own policy.
#[derive(Args)]
#[command(after_help = "Example:\n  allot release 4711\n  allot release '#12'")]
pub struct ReleaseArgs {
    /// The process, or its client (`#ID`, `pid:PID`)
    #[arg(value_name = "PID|CLIENT")]
    pub client: String,
}

pub fn adopt(global: &Global, args: &AdoptArgs) -> Result<ExitCode, CliError> {
    let done = session::connect(global)?.operate(Operation::Adopt {
        pid: Some(args.pid),
        start_time_ticks: None,
        from: args.from.as_deref().map(CurrencyRef::from),
        funding: funding(args.tickets, args.hard, &args.resource),
    })?;
    let created = done.results.first().and_then(|result| result.created);
    let news = created.map(|id| format!("process {} is client #{id}", args.pid));
    output::done(global, &done, news.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

pub fn release(global: &Global, args: &ReleaseArgs) -> Result<ExitCode, CliError> {
    let client = match numbers::pid(&args.client) {
        Ok(pid) => format!("pid:{pid}"),
        Err(_) => args.client.clone(),
    };
    let done =
        session::connect(global)?.operate(Operation::Release { client: CurrencyRef(client) })?;
    output::done(global, &done, None)?;
    Ok(ExitCode::SUCCESS)
}
