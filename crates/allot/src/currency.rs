//! `allot currency`: currencies and their brokers (paper 1, 3.2).

use crate::graph::{Graph, label, member_label, value};
use clap::{Args, Subcommand};
use command_line::style::{Style, Table, Tone, clean, percent};
use command_line::users::{self, group_name};
use command_line::{CliError, GlobalOptions, connection, output};
use serde::Serialize;
use std::process::ExitCode;
use wire::{
    Class, CurrencyKind, CurrencyRef, CurrencyView, DiskLimit, DiskLimitView, Operation,
    TicketKind, TicketView,
};

/// Make, show, change and destroy currencies
#[derive(Args)]
#[command(after_help = "Example:\n  allot currency create build\n  allot currency show build")]
pub struct CurrencyArgs {
    #[command(subcommand)]
    pub command: CurrencyCommand,
}

/// What can be done with currencies.
#[derive(Clone, Subcommand)]
pub enum CurrencyCommand {
    /// Make a currency
    ///
    /// It is worth nothing until somebody funds it.
    #[command(after_help = "Example:\n  allot currency create build\n  \
            allot currency create shared --group staff --mode fci--i---")]
    Create {
        /// Its name, unique among its owner's
        name: String,
        /// Its owner; you, where it is left out
        #[arg(long, value_name = "USER")]
        owner: Option<String>,
        /// Its group; yours, where it is left out
        #[arg(long)]
        group: Option<String>,
        /// Rights of owner, group and others, as in fci--i--- (f fund, c change, i issue) or 710
        #[arg(long, allow_hyphen_values = true)]
        mode: Option<String>,
    },
    /// Destroy a currency that funds nothing
    #[command(after_help = "Example:\n  allot currency destroy build")]
    Destroy {
        /// Which: NAME, USER:NAME or `#ID`
        currency: String,
    },
    /// Show one currency, or list all that are no clients
    #[command(
        after_help = "Example:\n  allot currency show\n  allot currency show alice:build --json"
    )]
    Show {
        /// Which: NAME, USER:NAME, `#ID`, or `pid:PID` for a process's client
        currency: Option<String>,
    },
    /// Set a currency's mode
    #[command(
        after_help = "Example:\n  allot currency chmod build fci--i---\n  allot currency chmod build 710"
    )]
    Chmod {
        /// Which: NAME, USER:NAME or `#ID`
        currency: String,
        /// Rights of owner, group and others: f fund, c change, i issue
        #[arg(allow_hyphen_values = true)]
        mode: String,
    },
    /// Give a currency another owner or group
    #[command(
        after_help = "Example:\n  allot currency chown build bob\n  allot currency chown build :staff"
    )]
    Chown {
        /// Which: NAME, USER:NAME or `#ID`
        currency: String,
        /// The new owner, group, or both
        #[arg(value_name = "USER[:GROUP]")]
        to: String,
    },
    /// Grant rights besides the mode, in place of what was granted before; --- takes them back
    #[command(after_help = "Example:\n  allot currency grant build bob f-i\n  \
            allot currency grant build group:staff --i\n  allot currency grant build bob ---")]
    Grant {
        /// On which: NAME, USER:NAME or `#ID`
        currency: String,
        /// To whom: USER, user:USER, group:GROUP or pid:PID
        subject: String,
        /// Letters of fci, - where one is missing
        #[arg(allow_hyphen_values = true)]
        rights: String,
    },
}

pub fn currency(global: &GlobalOptions, args: &CurrencyArgs) -> Result<ExitCode, CliError> {
    let operation = match args.command.clone() {
        CurrencyCommand::Show { currency } => return show(global, currency.as_deref()),
        CurrencyCommand::Create { name, owner, group, mode } => Operation::CreateCurrency {
            name,
            owner: owner.as_deref().map(users::uid).transpose()?,
            group: group.as_deref().map(users::gid).transpose()?,
            mode,
        },
        CurrencyCommand::Destroy { currency } => {
            Operation::DestroyCurrency { currency: CurrencyRef(currency) }
        }
        CurrencyCommand::Chmod { currency, mode } => {
            Operation::ChangeMode { currency: CurrencyRef(currency), mode }
        }
        CurrencyCommand::Chown { currency, to } => {
            let (owner, group) = users::owner_and_group(&to)?;
            Operation::ChangeOwner { currency: CurrencyRef(currency), owner, group }
        }
        CurrencyCommand::Grant { currency, subject, rights } => Operation::Grant {
            currency: CurrencyRef(currency),
            to: users::subject(&subject)?,
            rights,
        },
    };
    let name = match &operation {
        Operation::CreateCurrency { name, .. } => clean(name),
        _ => String::new(),
    };
    let done = connection::connect(global)?.operate(operation)?;
    let created = done.results.first().and_then(|result| result.created);
    let news = created.map(|id| format!("currency {name} is #{id}"));
    output::done(global, &done, news.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

/// A currency and the tickets around it.
#[derive(Serialize)]
struct Shown<'a> {
    currency: &'a CurrencyView,
    held: &'a [&'a TicketView],
    issued: &'a [&'a TicketView],
}

fn show(global: &GlobalOptions, which: Option<&str>) -> Result<ExitCode, CliError> {
    let view = connection::connect(global)?.ledger()?;
    let graph = Graph::new(&view);
    let style = Style::of_stdout();
    match which {
        Some(which) => {
            let currency = graph.find(which, users::own_uid())?;
            let (held, issued) = (graph.held(currency.id), graph.issued(currency.id));
            if global.json {
                output::json(&Shown { currency, held, issued })?;
            } else {
                output::text(&render_one(&graph, currency, style))?;
            }
        }
        None => {
            let listed = || graph.currencies().filter(|one| one.kind != CurrencyKind::Client);
            if global.json {
                output::json(&listed().collect::<Vec<_>>())?;
            } else {
                output::text(&render_list(listed(), style))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn render_list<'a>(listed: impl Iterator<Item = &'a CurrencyView>, style: Style) -> String {
    let mut table = Table::new(&[
        ("ID", true),
        ("NAME", false),
        ("MODE", false),
        ("OWNER", false),
        ("GROUP", false),
        ("CPU NOW", true),
        ("CPU SURE", true),
    ]);
    for one in listed {
        let cpu = value(one, "cpu");
        let share = |share: Option<f64>| share.map(percent).unwrap_or_default();
        table.row(vec![
            (Tone::Faint, format!("#{}", one.id)),
            (Tone::Strong, label(one)),
            (Tone::Plain, one.mode.clone()),
            (Tone::Plain, clean(&one.owner_name)),
            (Tone::Plain, clean(&group_name(one.group))),
            (Tone::Plain, share(cpu.map(|cpu| cpu.value))),
            (Tone::Plain, share(cpu.map(|cpu| cpu.guaranteed))),
        ]);
    }
    table.render(style)
}

fn render_one(graph: &Graph<'_>, one: &CurrencyView, style: Style) -> String {
    let mut out = format!("{}\n", style.paint(Tone::Strong, &label(one)));
    let kind = match one.kind {
        CurrencyKind::Base => "base: what the machine has",
        CurrencyKind::Pure => "currency",
        CurrencyKind::Job => "job, run by nice",
        CurrencyKind::Client if one.placed => "client, placed by the funding policy",
        CurrencyKind::Client => "client",
    };
    let mut line = |name: &str, says: String| {
        out.push_str(&format!("  {name:9} {}\n", clean(&says)));
    };
    line("id", format!("#{}, {kind}{}", one.id, if one.frozen { ", frozen" } else { "" }));
    line("owner", format!("{}, group {}", one.owner_name, group_name(one.group)));
    line("mode", one.mode.clone());
    for grant in &one.grants {
        line("granted", format!("{} to {}", grant.rights, grant.to));
    }
    if let Some(client) = one.joined.and_then(|id| graph.get(id)) {
        line("joined", format!("#{}, {}", client.id, label(client)));
    }
    for member in &one.members {
        line("member", member_label(member));
    }
    if one.class == Class::Guest {
        line("class", "guest: gets only what no other client wants".to_owned());
    }
    for set in &one.limits {
        line("limit", limit_text(set));
    }
    for value in &one.resources {
        let active = if value.active { "" } else { ", does not compete now" };
        let mut says = format!(
            "{} now, {} when all compete{active}",
            percent(value.value),
            percent(value.guaranteed)
        );
        if value.issued_soft > 0 || value.issued_hard > 0 {
            says.push_str(&format!(
                "; issued {} soft, {} of {} hard",
                value.issued_soft, value.issued_hard, value.hard_total
            ));
        }
        if value.lent > 0 {
            says.push_str(&format!("; {} lent to jobs", value.lent));
        }
        line(&value.resource, says);
    }
    let mut ticket = |heading: &str, other: u64, ticket: &TicketView| {
        let other = graph.get(other).map_or_else(|| format!("#{other}"), label);
        let kind = if ticket.kind == TicketKind::Hard { " hard" } else { "" };
        line(heading, format!("{other}: {} {}{kind}", ticket.resource, ticket.amount));
    };
    for held in graph.held(one.id) {
        ticket("funded by", held.issuer, held);
    }
    for issued in graph.issued(one.id) {
        ticket("funds", issued.holder, issued);
    }
    out
}

/// A limit on a disk, as in `sda: at most 1048576 bytes read/s`.
fn limit_text(set: &DiskLimitView) -> String {
    let rate = |value: Option<u64>, what: &str| value.map(|value| format!("{value} {what}/s"));
    let DiskLimit { read_bytes, written_bytes, reads, writes } = set.limit;
    let rates = [
        rate(read_bytes, "bytes read"),
        rate(written_bytes, "bytes written"),
        rate(reads, "reads"),
        rate(writes, "writes"),
    ];
    let rates: Vec<String> = rates.into_iter().flatten().collect();
    let by = if set.by_superuser { ", set by the superuser" } else { "" };
    format!("{}: at most {}{by}", set.disk, rates.join(", "))
}
