//! `allot limit`: hard caps on what a currency's clients do on a disk.

use clap::{ArgGroup, Args};
use command_line::{CliError, GlobalOptions, argument_parsing, connection, output};
use std::process::ExitCode;
use wire::{CurrencyRef, DiskLimit, Operation};

/// Limit what a currency or a client does on a disk, however idle that is
///
/// Shares (`allot fund --disk`) need no limit: who has few tickets is held back only while others want the
/// disk. A limit replaces the one that there was; what is not named is not limited. Yours to set on what
/// you own; what root has set only root changes.
#[derive(Args)]
#[command(
    after_help = "Example:\n  allot limit backup --disk sda --read 10M --write 5M\n  \
        allot limit pid:4711 --disk sda --reads 100\n  allot limit backup --disk sda --off",
    group(ArgGroup::new("limits").required(true).multiple(true)
        .args(["read", "write", "reads", "writes", "off"]))
)]
pub struct LimitArgs {
    /// Whose clients, all together: NAME, USER:NAME, `#ID`, or `pid:PID` for a process's client
    #[arg(value_name = "NAME")]
    pub currency: String,
    /// The disk, by its kernel name
    #[arg(long, value_name = "DEVICE")]
    pub disk: String,
    /// Bytes read a second, 64K at least; K, M, G and T are powers of 1024
    #[arg(long, value_name = "SIZE", value_parser = argument_parsing::size)]
    pub read: Option<u64>,
    /// Bytes written a second, 64K at least
    #[arg(long, value_name = "SIZE", value_parser = argument_parsing::size)]
    pub write: Option<u64>,
    /// Reads a second, 16 at least
    #[arg(long, value_name = "N")]
    pub reads: Option<u64>,
    /// Writes a second, 16 at least
    #[arg(long, value_name = "N")]
    pub writes: Option<u64>,
    /// No limit any more
    #[arg(long, conflicts_with_all = ["read", "write", "reads", "writes"])]
    pub off: bool,
}

/// Sets a limit, or takes it away.
pub fn limit(global: &GlobalOptions, args: &LimitArgs) -> Result<ExitCode, CliError> {
    let limit = DiskLimit {
        read_bytes: args.read,
        written_bytes: args.write,
        reads: args.reads,
        writes: args.writes,
    };
    let currency = CurrencyRef::from(args.currency.as_str());
    let operation = Operation::LimitDisk { currency, disk: args.disk.clone(), limit };
    let done = connection::connect(global)?.operate(operation)?;
    output::done(global, &done, None)?;
    Ok(ExitCode::SUCCESS)
}
