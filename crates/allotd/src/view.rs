//! The ledger as people see it.

use crate::bourse;
use crate::members::{Cgroups, member_name, member_view, process_view};
use crate::names::Names;
use ledger::{
    Authority, Class, Currency, CurrencyId, Good, Intent, Ledger, Member, Nature, ProcessIdentity,
    Resource, SetLimit, Subject, Ticket, TicketId, TicketKind,
};
use std::collections::BTreeMap;
use valuation::{Graph, WHOLE};
use wire::{
    CurrencyView, DiskLimitView, Event, EventKind, Grant, LedgerView, ResourceValue, TicketView,
};

/// The names of commands, which the ledger does not know.
pub type Commands = BTreeMap<ProcessIdentity, String>;

/// A value as a part of the whole, 0 to 1.
pub fn part(value: u64) -> f64 {
    value as f64 / WHOLE as f64
}

/// The whole ledger, with who is active in the graphs.
pub fn ledger_view(
    ledger: &Ledger,
    cpu: &mut Graph,
    mut others: Vec<Graph>,
    sequence: u64,
    names: &mut Names,
    commands: &Commands,
    cgroups: &Cgroups,
) -> LedgerView {
    let currencies = ledger
        .currencies()
        .map(|currency| {
            let mut graphs: Vec<&mut Graph> = Vec::with_capacity(1 + others.len());
            graphs.push(cpu);
            graphs.extend(others.iter_mut());
            currency_view(ledger, currency, graphs, names, commands, cgroups)
        })
        .collect();
    let tickets = ledger.tickets().map(|(id, ticket)| ticket_view(id, ticket)).collect();
    LedgerView { sequence, currencies, tickets }
}

/// A ticket, as it is shown.
pub fn ticket_view(id: TicketId, ticket: &Ticket) -> TicketView {
    TicketView {
        id: id.0,
        issuer: ticket.issuer.0,
        holder: ticket.holder.0,
        resource: ticket.resource.to_string(),
        kind: kind_view(ticket.kind),
        amount: ticket.amount,
    }
}

/// A ticket's kind, as it is shown.
pub fn kind_view(kind: TicketKind) -> wire::TicketKind {
    match kind {
        TicketKind::Soft => wire::TicketKind::Soft,
        TicketKind::Hard => wire::TicketKind::Hard,
        TicketKind::Transfer => wire::TicketKind::Transfer,
    }
}

fn currency_view(
    ledger: &Ledger,
    currency: &Currency,
    graphs: Vec<&mut Graph>,
    names: &mut Names,
    commands: &Commands,
    cgroups: &Cgroups,
) -> CurrencyView {
    let (id, record) = (currency.id, &currency.record);
    let mut funded = true;
    let mut resources = Vec::new();
    for graph in graphs {
        if *graph.resource() == Resource::Cpu {
            funded = graph.is_funded(id);
        }
        let resource = graph.resource().clone();
        let issued = currency.issued_of(&resource);
        let exchanged = |kind| exchanged(ledger, id, &resource, kind);
        let (exchanged_soft, exchanged_hard) =
            (exchanged(TicketKind::Soft), exchanged(TicketKind::Hard));
        let holds = ledger.backing(id).any(|(_, ticket)| ticket.resource == resource)
            || (exchanged_soft, exchanged_hard) != (0, 0);
        if holds || issued.tickets > 0 {
            resources.push(ResourceValue {
                active: graph.is_active(id),
                value: part(graph.value(id)),
                guaranteed: part(graph.guaranteed(id)),
                lent: ledger.lent(id, &resource),
                exchanged_soft,
                exchanged_hard,
                issued_soft: issued.soft,
                issued_hard: issued.hard,
                hard_total: ledger.hard_total(id, &resource),
                resource: resource.to_string(),
            });
        }
    }
    let founder = match &record.nature {
        Nature::Client { founder, .. } => Some(*founder),
        _ => None,
    };
    let (nature, placed) = match &record.nature {
        Nature::Base => (wire::Nature::Base, false),
        Nature::Pure => (wire::Nature::Pure, false),
        Nature::Job { .. } => (wire::Nature::Job, false),
        Nature::Client { placed, .. } => (wire::Nature::Client, *placed),
    };
    let process = founder.and_then(|founder| founder.process());
    CurrencyView {
        id: id.0,
        name: currency_name(ledger, id, commands, cgroups),
        nature,
        owner: record.owner,
        owner_name: names.user(record.owner).unwrap_or_else(|| record.owner.to_string()),
        group: record.group,
        mode: record.mode.to_string(),
        grants: record
            .grants
            .iter()
            .map(|(subject, rights)| Grant {
                to: subject_text(subject),
                rights: rights.to_string(),
            })
            .collect(),
        process: process.map(|process| process_view(&process, commands)),
        founder: founder
            .filter(|_| process.is_none())
            .map(|founder| member_view(&founder, commands, cgroups)),
        joined: founder.and_then(|founder| ledger.joined_by(&founder)).map(|client| client.0),
        members: match founder {
            Some(_) => ledger.members(id).map(|it| member_view(&it, commands, cgroups)).collect(),
            None => Vec::new(),
        },
        class: match currency.class() {
            Class::Host => wire::Class::Host,
            Class::Guest => wire::Class::Guest,
        },
        limits: record.limits.iter().map(limit_view).collect(),
        placed,
        frozen: currency.is_client() && !funded,
        resources,
    }
}

/// What a currency is called.
pub fn currency_name(
    ledger: &Ledger,
    id: CurrencyId,
    commands: &Commands,
    cgroups: &Cgroups,
) -> String {
    match ledger.currency(id).map(|currency| &currency.record) {
        Some(record) => match &record.nature {
            Nature::Base | Nature::Pure => record.name.clone(),
            Nature::Job { .. } => "job".to_owned(),
            Nature::Client { founder, .. } => member_name(founder, commands, cgroups),
        },
        None => id.to_string(),
    }
}

/// What a currency has received of a good, less what it gives.
fn exchanged(ledger: &Ledger, id: CurrencyId, resource: &Resource, kind: TicketKind) -> i64 {
    let good = Good { resource: resource.clone(), kind };
    let sum = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
    sum(ledger.received(id, &good)) - sum(ledger.given(id, &good))
}

fn limit_view((resource, set): (&Resource, &SetLimit)) -> DiskLimitView {
    let ledger::DiskLimit { read_bytes, written_bytes, reads, writes } = set.limit;
    DiskLimitView {
        disk: disk_name(resource),
        limit: wire::DiskLimit { read_bytes, written_bytes, reads, writes },
        by_superuser: set.by_superuser,
    }
}

/// Limits are on disks alone.
fn disk_name(resource: &Resource) -> String {
    match resource {
        Resource::Disk(name) => name.clone(),
        other => other.to_string(),
    }
}

fn subject_text(subject: &Subject) -> String {
    match subject {
        Subject::Uid(uid) => format!("uid:{uid}"),
        Subject::Gid(gid) => format!("gid:{gid}"),
        Subject::Process(process) => format!("pid:{}", process.pid),
    }
}

/// A journal entry as an event.
pub fn event(entry: &journal::Entry) -> Event {
    let uid = match &entry.authority {
        Authority::System => None,
        Authority::Caller(caller) => Some(caller.uid),
    };
    let (offers, exchanges, ended) = bourse::touched(&entry.changes);
    let mut text = describe(&entry.intent);
    if !ended.is_empty() && !matches!(entry.intent, Intent::EndExchange { .. }) {
        let list: Vec<String> = ended.iter().map(|id| id.0.to_string()).collect();
        text.push_str(&format!("; that ended exchange {}", list.join(", ")));
    }
    Event {
        sequence: Some(entry.sequence),
        at_unix_ms: entry.at_unix_ms,
        kind: if uid.is_some() { EventKind::Operation } else { EventKind::Process },
        uid,
        text,
        offers: offers.iter().map(|id| id.0).collect(),
        exchanges: exchanges.iter().map(|id| id.0).collect(),
    }
}

/// An intent in words.
fn describe(intent: &Intent) -> String {
    match intent {
        Intent::CreateCurrency { name, owner, mode, .. } => {
            format!("currency {name} made for uid {owner}, mode {mode}")
        }
        Intent::DestroyCurrency { currency } => format!("currency {currency} destroyed"),
        Intent::ChangeMode { currency, mode } => format!("currency {currency} has mode {mode}"),
        Intent::ChangeOwner { currency, owner, group } => {
            let to = |what: &str, id: &Option<u32>| {
                id.map_or(String::new(), |id| format!(" {what} {id}"))
            };
            format!("currency {currency} given to{}{}", to("uid", owner), to("gid", group))
        }
        Intent::Grant { currency, subject, rights } => {
            format!("{} granted {rights} on {currency}", subject_text(subject))
        }
        Intent::Fund { holder, issuer, funding } => {
            format!("{holder} funded by {issuer} with {}", amount(funding))
        }
        Intent::Unfund { holder, issuer, resource, .. } => {
            format!("{holder} no longer funded by {issuer} for {resource}")
        }
        Intent::Adopt { client, issuer, funding } => {
            let list: Vec<String> = funding.iter().map(amount).collect();
            format!("{} adopted by {issuer} with {}", who(&client.member), list.join(", "))
        }
        Intent::Join { member, client } => {
            format!("{} joined client {client}", who(&member.member))
        }
        Intent::Leave { member } => format!("{} is its own again", who(&member.member)),
        Intent::SetClass { client, class } => match class {
            Class::Host => format!("client {client} competes"),
            Class::Guest => format!("client {client} is a guest"),
        },
        Intent::LimitDisk { currency, resource, limit } => match limit.is_none() {
            true => format!("{currency} is no longer limited on {}", disk_name(resource)),
            false => format!("{currency} limited on {}", disk_name(resource)),
        },
        Intent::Transfer { lender, holder, resource } => {
            format!("client {lender} lent its {resource} tickets to {holder}")
        }
        Intent::TakeBack { lender, resource } => {
            format!("client {lender} took its {resource} tickets back")
        }
        Intent::Offer { offer } => {
            let terms = &offer.terms;
            let points: Vec<String> =
                terms.points.iter().map(|it| format!("{}:{}", it.give, it.want)).collect();
            let (party, points) = (offer.party, points.join(" "));
            format!("{party} offers {} for {}, {points}", terms.gives, terms.wants)
        }
        Intent::CancelOffer { offer } => format!("{offer} withdrawn"),
        Intent::Exchange { legs, .. } => format!("exchanged: {}", legs_text(legs)),
        // A line for people, and there may be a hundred thousand of them.
        Intent::Clear { exchanges } if exchanges.len() > 8 => {
            format!("the dealer made {} exchanges", exchanges.len())
        }
        Intent::Clear { exchanges } => {
            let all: Vec<String> = exchanges.iter().map(|it| legs_text(&it.legs)).collect();
            format!("the dealer exchanged: {}", all.join("; "))
        }
        Intent::EndExchange { exchange } => format!("{exchange} ended"),
        Intent::Renew { exchange, party, .. } => format!("{party} renewed {exchange}"),
        Intent::SetMemory { kib } => format!("{kib} KiB of memory can be promised"),
        Intent::Ensure { member, .. } => format!("{} funded from base", who(member)),
        Intent::Release { client } => format!("client {client} released"),
        Intent::Nice { client, resource, amount } => {
            format!("{} niced to {amount} {resource} base tickets", who(&client.member))
        }
        Intent::SetBase { uid, amount, .. } => format!("uid {uid} has {amount} base tickets"),
        Intent::Place { client, placements } => {
            let to = placements.levels.last().map_or("base", |level| level.name.as_str());
            format!("{} of uid {} funded by {to}", who(&client.member), client.uid)
        }
        Intent::Fork { parent, child } => {
            format!("pid {} forked {}", parent.pid, who(&child.member))
        }
        Intent::Exit { member } => format!("{} exited", who(member)),
        Intent::UserChanged { client, .. } => {
            format!("{} now belongs to uid {}", who(&client.member), client.uid)
        }
    }
}

fn legs_text(legs: &[ledger::Leg]) -> String {
    let leg = |it: &ledger::Leg| {
        format!("{} {} from {} to {}", it.amount, it.good, it.giver, it.receiver)
    };
    legs.iter().map(leg).collect::<Vec<_>>().join(", ")
}

fn who(member: &Member) -> String {
    match member {
        Member::Process(process) => format!("pid {}", process.pid),
        Member::Thread(thread) => format!("thread {} of pid {}", thread.tid, thread.process.pid),
        other => other.to_string(),
    }
}

fn amount(funding: &ledger::Funding) -> String {
    let kind = match funding.kind {
        ledger::TicketKind::Soft => "soft",
        ledger::TicketKind::Hard => "hard",
        ledger::TicketKind::Transfer => "lent",
    };
    format!("{} {kind} {} tickets", funding.amount, funding.resource)
}
