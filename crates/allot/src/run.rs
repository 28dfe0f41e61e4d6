//! `allot run`: a command as a client.

use crate::graph::Graph;
use crate::job;
use clap::Args;
use command_line::error::{self, CliError};
use command_line::{GlobalOptions, argument_parsing, connection, output, users};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use wire::{Amount, Class, Client, ClientError, CurrencyRef, ErrorCode, Operation, TicketKind};

/// What a client gets where nothing else is said.
pub const DEFAULT_TICKETS: u64 = 1000;

/// Run a command with tickets of its own
///
/// allot makes its own process a client and becomes the command: exit status and signals are the
/// command's. Where allotd does not take it, the command is not run (exit status 125). In a
/// process that is a client already (under a system-wide allotd every process is one), the new
/// funding replaces the old.
#[derive(Args)]
#[command(after_help = "Example:\n  allot run --from build --tickets 500 -- make -j8")]
pub struct RunArgs {
    #[command(flatten)]
    pub funding: FundingArgs,
    /// As a guest: it gets only what no other client wants (`allot guest`)
    #[arg(long)]
    pub guest: bool,
    /// Run it even where allotd does not take it
    #[arg(long)]
    pub anyway: bool,
    /// The command and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}

/// Who is to fund a client, and by how much.
#[derive(Args)]
pub struct FundingArgs {
    /// Who funds it; without this, what the funding policy says, or base in a private allotd
    #[arg(long, value_name = "CURRENCY")]
    pub from: Option<String>,
    /// How many soft tickets; 1000 where neither --tickets nor --hard is given, 0 freezes it
    #[arg(long, short = 't', value_name = "N", value_parser = argument_parsing::amount, allow_negative_numbers = true)]
    pub tickets: Option<u64>,
    /// A fixed share, in thousandths of what the issuer has
    #[arg(long, value_name = "N", value_parser = argument_parsing::amount, allow_negative_numbers = true)]
    pub hard: Option<u64>,
    /// Of what: cpu, memory, disk:DEVICE or net:INTERFACE
    #[arg(long, default_value = "cpu")]
    pub resource: String,
}

impl FundingArgs {
    /// The amounts that are asked for; nothing where the options are silent.
    pub fn amounts(&self) -> Option<Vec<Amount>> {
        let amount = |kind, amount| Amount { resource: self.resource.clone(), kind, amount };
        let mut amounts = Vec::new();
        amounts.extend(self.tickets.map(|tickets| amount(TicketKind::Soft, tickets)));
        amounts.extend(self.hard.map(|hard| amount(TicketKind::Hard, hard)));
        if amounts.is_empty() && self.resource != "cpu" {
            amounts.push(amount(TicketKind::Soft, DEFAULT_TICKETS));
        }
        (!amounts.is_empty()).then_some(amounts)
    }
}

pub fn run(global: &GlobalOptions, args: &RunArgs) -> Result<ExitCode, CliError> {
    if let Some(ended) = job::stay_between(global)? {
        return Ok(ended);
    }
    let taken = connection::connect(global).and_then(|client| {
        take_self(&client, args.funding.from.as_deref(), args.funding.amounts())?;
        if args.guest {
            let guest = Operation::SetClass { client: None, class: Class::Guest };
            client.operate(guest).map_err(CliError::from)?;
        }
        Ok(())
    });
    become_command(taken, &args.command, args.anyway.into())
}

/// Makes this process a client; where it is one, sets what funds it.
pub fn take_self(
    client: &Client,
    from: Option<&str>,
    funding: Option<Vec<Amount>>,
) -> Result<(), CliError> {
    let adopt = Operation::Adopt {
        pid: None,
        start_time_ticks: None,
        from: from.map(CurrencyRef::from),
        funding: funding.clone(),
    };
    match client.operate(adopt) {
        Ok(done) => {
            output::warn_of_no_effect(&done);
            Ok(())
        }
        Err(ClientError::Refused(error)) if error.code == ErrorCode::Conflict => {
            match refund_self(client, from, funding)? {
                true => Ok(()),
                false => Err(ClientError::Refused(error).into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Gives this process, a client already, the funding asked for: from `from` and nobody else, or
/// from whoever funds it first. False where it is no client.
fn refund_self(
    client: &Client,
    from: Option<&str>,
    funding: Option<Vec<Amount>>,
) -> Result<bool, CliError> {
    let view = client.ledger()?;
    let graph = Graph::new(&view);
    let Some(me) = graph.client(std::process::id()) else { return Ok(false) };
    if from.is_none() && funding.is_none() {
        return Ok(true);
    }
    let issuer = match from {
        Some(from) => graph.find(from, users::own_uid())?.id,
        None => match graph.held(me.id).first() {
            Some(ticket) => ticket.issuer,
            None => return Ok(false),
        },
    };
    let funding = funding.unwrap_or_else(|| {
        vec![Amount { resource: "cpu".to_owned(), kind: TicketKind::Soft, amount: DEFAULT_TICKETS }]
    });
    let currency = || CurrencyRef(format!("#{}", me.id));
    let mut operations: Vec<Operation> = funding
        .iter()
        .map(|amount| Operation::Fund {
            currency: currency(),
            from: CurrencyRef(format!("#{issuer}")),
            amount: amount.clone(),
        })
        .collect();
    // What else funds it goes, of the resources that were asked about, so that it has what was
    // asked and no more.
    let replaced = graph.held(me.id).iter().filter(|ticket| {
        let same_resource = funding.iter().any(|amount| amount.resource == ticket.resource);
        let kept = ticket.issuer == issuer
            && funding
                .iter()
                .any(|amount| amount.resource == ticket.resource && amount.kind == ticket.kind);
        same_resource && !kept && (from.is_some() || ticket.issuer == issuer)
    });
    operations.extend(replaced.map(|ticket| Operation::Unfund {
        currency: currency(),
        from: CurrencyRef(format!("#{}", ticket.issuer)),
        resource: ticket.resource.clone(),
        kind: ticket.kind,
    }));
    output::warn_of_no_effect(&client.operate_all(operations)?);
    Ok(true)
}

/// Whether a command runs even where allotd does not take its process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Anyway {
    /// There is no such choice.
    No,
    /// It could have been chosen.
    Offered,
    /// It was chosen.
    Chosen,
}

impl From<bool> for Anyway {
    fn from(chosen: bool) -> Self {
        if chosen { Anyway::Chosen } else { Anyway::Offered }
    }
}

/// Becomes the command, if its process was taken or that does not matter. Returns only when it
/// cannot; allotd sees this process end and forgets its client.
pub fn become_command(
    taken: Result<(), CliError>,
    command: &[OsString],
    anyway: Anyway,
) -> Result<ExitCode, CliError> {
    let [program, arguments @ ..] = command else {
        return Err(CliError::Usage("a command is missing".to_owned()));
    };
    let name = || program.to_string_lossy().into_owned();
    match taken {
        Ok(()) => {}
        Err(cause) if anyway == Anyway::Chosen => {
            error::warn(&format!("running `{}` without allot: {cause}", name()))
        }
        Err(cause) => {
            let hint = match anyway {
                Anyway::No => "",
                _ => ". `--anyway` runs it without allot",
            };
            return Err(CliError::NotTaken { command: name(), cause: Box::new(cause), hint });
        }
    }
    let cause = Command::new(program).args(arguments).exec();
    Err(CliError::Exec { command: name(), cause })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(tickets: Option<u64>, hard: Option<u64>, resource: &str) -> Option<Vec<Amount>> {
        FundingArgs { from: None, tickets, hard, resource: resource.to_owned() }.amounts()
    }

    #[test]
    fn silence_leaves_the_funding_to_allotd() {
        assert_eq!(amounts(None, None, "cpu"), None);
    }

    #[test]
    fn amounts_of_both_kinds() {
        let both = amounts(Some(5), Some(200), "memory").unwrap();
        assert_eq!(both.len(), 2);
        assert_eq!((both[0].kind, both[0].amount), (TicketKind::Soft, 5));
        assert_eq!((both[1].kind, both[1].amount), (TicketKind::Hard, 200));
        assert!(both.iter().all(|amount| amount.resource == "memory"));
        assert_eq!(amounts(None, None, "memory").unwrap()[0].amount, DEFAULT_TICKETS);
        assert_eq!(amounts(Some(0), None, "cpu").unwrap()[0].amount, 0, "0 freezes");
    }
}
