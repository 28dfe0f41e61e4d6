//! `allot transfer` and `allot guest`: how a client competes besides its own tickets.

use crate::process::client_ref;
use clap::Args;
use command_line::{CliError, GlobalOptions, connection, output};
use std::process::ExitCode;
use wire::{Class, CurrencyRef, Operation};

/// Lend all tickets of a client that waits to the client that works for it
///
/// As who waits for a lock lends to who holds it, by hand: for a server that works for others.
/// While it lasts, the lender has only what nobody else wants. It ends with --back, or with
/// either client.
#[derive(Args)]
#[command(after_help = "Example:\n  allot transfer --from pid:4711 --to pid:900\n  \
        allot transfer --back --from pid:4711")]
pub struct TransferArgs {
    /// Who waits and lends: a client of yours
    #[arg(long, value_name = "CLIENT")]
    pub from: String,
    /// Who works for it
    #[arg(long, value_name = "CLIENT", required_unless_present = "back")]
    pub to: Option<String>,
    /// Take back what was lent
    #[arg(long, conflicts_with = "to")]
    pub back: bool,
    /// Of what: cpu, memory, disk:DEVICE or net:INTERFACE
    #[arg(long, default_value = "cpu")]
    pub resource: String,
}

/// Let a client run only when no other wants the CPU, or no longer so
///
/// A guest gets what no host wants, whatever its tickets; what it starts is a guest too.
#[derive(Args)]
#[command(after_help = "Example:\n  allot guest 4711\n  allot guest '#12' --off")]
pub struct GuestArgs {
    /// The process, or its client (`#ID`, `pid:PID`)
    #[arg(value_name = "PID|CLIENT")]
    pub client: String,
    /// Let it compete by its tickets again
    #[arg(long)]
    pub off: bool,
}

/// Lends, or takes back.
pub fn transfer(global: &GlobalOptions, args: &TransferArgs) -> Result<ExitCode, CliError> {
    let from = Some(client_ref(&args.from));
    let resource = Some(args.resource.clone());
    let operation = match &args.to {
        Some(to) => Operation::Transfer { from, to: client_ref(to), resource },
        None => Operation::TakeBack { from, resource },
    };
    done(global, operation)
}

/// Makes a guest, or a host again.
pub fn guest(global: &GlobalOptions, args: &GuestArgs) -> Result<ExitCode, CliError> {
    let class = if args.off { Class::Host } else { Class::Guest };
    let client: Option<CurrencyRef> = Some(client_ref(&args.client));
    done(global, Operation::SetClass { client, class })
}

fn done(global: &GlobalOptions, operation: Operation) -> Result<ExitCode, CliError> {
    let done = connection::connect(global)?.operate(operation)?;
    output::done(global, &done, None)?;
    Ok(ExitCode::SUCCESS)
}
