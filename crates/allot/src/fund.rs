//! `allot fund` and `allot unfund`: tickets between currencies.

use clap::{ArgGroup, Args};
use command_line::argument_parsing::Memory;
use command_line::{CliError, GlobalOptions, argument_parsing, connection, output};
use std::process::ExitCode;
use wire::{Amount, CurrencyRef, Operation, TicketKind};

/// Fund a currency or a client with tickets of another
///
/// Sets what the holder's ticket from that issuer is worth: funding twice does not add up.
#[derive(Args)]
#[command(
    after_help = "Example:\n  allot fund build --from alice --cpu 500 --memory 200\n  \
        allot fund alice --from base --memory 4G\n  \
        allot fund pid:4711 --from build --cpu 250 --hard",
    group(ArgGroup::new("amounts").required(true).multiple(true).args(["cpu", "memory", "disk", "net"]))
)]
pub struct FundArgs {
    /// Who gets the tickets: NAME, USER:NAME, `#ID`, or `pid:PID` for a process's client
    pub holder: String,
    /// Who issues them
    #[arg(long, value_name = "ISSUER")]
    pub from: String,
    /// CPU tickets; a client whose tickets are all 0 is frozen
    #[arg(long, value_name = "N", value_parser = argument_parsing::amount, allow_negative_numbers = true)]
    pub cpu: Option<u64>,
    /// Memory tickets; a size, as in 2M or 24G, is an amount to be sure of: hard tickets from base
    #[arg(long, value_name = "N|SIZE", value_parser = argument_parsing::memory, allow_negative_numbers = true)]
    pub memory: Option<Memory>,
    /// Disk tickets, of a device, as in sda=500
    #[arg(long, value_name = "DEVICE=N", value_parser = argument_parsing::named_amount)]
    pub disk: Vec<(String, u64)>,
    /// Network tickets, of an interface, as in eth0=500
    #[arg(long, value_name = "INTERFACE=N", value_parser = argument_parsing::named_amount)]
    pub net: Vec<(String, u64)>,
    /// Hard tickets: a fixed share, in thousandths of what the issuer has; of base's memory, KiB
    #[arg(long)]
    pub hard: bool,
}

/// Revoke tickets
#[derive(Args)]
#[command(after_help = "Example:\n  allot unfund build --from alice\n  \
        allot unfund build --from alice --resource memory --hard")]
pub struct UnfundArgs {
    /// Who has them
    pub holder: String,
    /// Who issued them
    #[arg(long, value_name = "ISSUER")]
    pub from: String,
    /// Of what: cpu, memory, disk:DEVICE or net:INTERFACE; may be given several times
    #[arg(long, default_value = "cpu")]
    pub resource: Vec<String>,
    /// The hard tickets instead of the soft ones
    #[arg(long)]
    pub hard: bool,
}

fn kind(hard: bool) -> TicketKind {
    if hard { TicketKind::Hard } else { TicketKind::Soft }
}

impl FundArgs {
    /// One operation for each resource.
    fn operations(&self) -> Vec<Operation> {
        let kind = kind(self.hard);
        let cpu = self.cpu.map(|amount| ("cpu".to_owned(), kind, amount));
        let memory = self.memory.map(|memory| match memory {
            Memory::Tickets(amount) => ("memory".to_owned(), kind, amount),
            Memory::Kib(kib) => ("memory".to_owned(), TicketKind::Hard, kib),
        });
        let disks = self.disk.iter().map(|(name, amount)| (format!("disk:{name}"), kind, *amount));
        let nets = self.net.iter().map(|(name, amount)| (format!("net:{name}"), kind, *amount));
        let plain = cpu.into_iter().chain(memory);
        plain
            .chain(disks)
            .chain(nets)
            .map(|(resource, kind, amount)| Operation::Fund {
                currency: CurrencyRef::from(self.holder.as_str()),
                from: CurrencyRef::from(self.from.as_str()),
                amount: Amount { resource, kind, amount },
            })
            .collect()
    }
}

pub fn fund(global: &GlobalOptions, args: &FundArgs) -> Result<ExitCode, CliError> {
    if let (Some(Memory::Kib(kib)), false) = (args.memory, args.from == "base") {
        return Err(CliError::Usage(format!(
            "--memory: only base has amounts to give ({kib} KiB here); tickets of {} are parts of \
             what it has, as in --memory 200",
            args.from
        )));
    }
    let done = connection::connect(global)?.operate_all(args.operations())?;
    output::done(global, &done, None)?;
    Ok(ExitCode::SUCCESS)
}

pub fn unfund(global: &GlobalOptions, args: &UnfundArgs) -> Result<ExitCode, CliError> {
    let operations = args
        .resource
        .iter()
        .map(|resource| Operation::Unfund {
            currency: CurrencyRef::from(args.holder.as_str()),
            from: CurrencyRef::from(args.from.as_str()),
            resource: resource.clone(),
            kind: kind(args.hard),
        })
        .collect();
    let done = connection::connect(global)?.operate_all(operations)?;
    output::done(global, &done, None)?;
    Ok(ExitCode::SUCCESS)
}
