//! The ledger as people see it.

use crate::keeper::Snapshot;
use crate::members::{Cgroups, Commands, member_name, member_view, process_view};
use crate::names::Names;
use ledger::{Currency, CurrencyId, CurrencyKind, Good, Ledger, Resource, SetLimit, TicketKind};
use valuation::{Graph, WHOLE};
use wire::{CurrencyView, DiskLimitView, Grant, LedgerView, ResourceValue, TicketView};

/// A value as a part of the whole, 0 to 1.
pub fn part(value: u64) -> f64 {
    value as f64 / WHOLE as f64
}

/// Some of the ledger.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// The id after which they begin; from the first where it is left out.
    pub after: Option<u64>,
    /// So many currencies, and the tickets that they hold.
    pub limit: usize,
}

/// The whole ledger, or a page of it, with who is active in the graphs.
pub fn ledger_view(copy: &mut Snapshot, page: Option<Page>, names: &mut Names) -> LedgerView {
    let Snapshot { ledger, cpu, others, commands, cgroups, sequence, .. } = copy;
    let after = page.and_then(|page| page.after);
    let limit = page.map_or(usize::MAX, |page| page.limit);
    let shown = || {
        let from = ledger.currencies().filter(move |it| after.is_none_or(|after| it.id.0 > after));
        from.take(limit)
    };
    let currencies = shown()
        .map(|currency| {
            let mut graphs: Vec<&mut Graph> = Vec::with_capacity(1 + others.len());
            graphs.push(cpu);
            graphs.extend(others.iter_mut());
            currency_view(ledger, currency, graphs, names, commands, cgroups)
        })
        .collect();
    let tickets = match page {
        None => ledger.tickets().map(TicketView::from).collect(),
        Some(_) => shown().flat_map(|it| ledger.backing(it.id)).map(TicketView::from).collect(),
    };
    LedgerView { sequence: *sequence, currencies, tickets }
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
        if *graph.resource() == Resource::CPU {
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
    let founder = match &record.kind {
        CurrencyKind::Client { founder, .. } => Some(*founder),
        _ => None,
    };
    let placed = matches!(record.kind, CurrencyKind::Client { placed: true, .. });
    let process = founder.and_then(|founder| founder.process());
    CurrencyView {
        id: id.0,
        name: currency_name(ledger, id, commands, cgroups),
        kind: (&record.kind).into(),
        owner: record.owner,
        owner_name: names.user(record.owner).unwrap_or_else(|| record.owner.to_string()),
        group: record.group,
        mode: record.mode.to_string(),
        grants: record
            .grants
            .iter()
            .map(|(subject, rights)| Grant { to: subject.to_string(), rights: rights.to_string() })
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
        class: currency.class().into(),
        limits: record.limits.iter().map(limit_view).collect(),
        placed,
        frozen: currency.is_client() && !funded,
        resources,
    }
}

/// Returns a currency's name.
pub fn currency_name(
    ledger: &Ledger,
    id: CurrencyId,
    commands: &Commands,
    cgroups: &Cgroups,
) -> String {
    match ledger.currency(id).map(|currency| &currency.record) {
        Some(record) => match &record.kind {
            CurrencyKind::Base | CurrencyKind::Pure => record.name.clone(),
            CurrencyKind::Job { .. } => "job".to_owned(),
            CurrencyKind::Client { founder, .. } => member_name(founder, commands, cgroups),
        },
        None => id.to_string(),
    }
}

/// Returns the amount of a good that a currency has received, less what it gives.
fn exchanged(ledger: &Ledger, id: CurrencyId, resource: &Resource, kind: TicketKind) -> i64 {
    let good = Good { resource: resource.clone(), kind };
    let sum = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
    sum(ledger.received(id, &good)) - sum(ledger.given(id, &good))
}

fn limit_view((resource, set): (&Resource, &SetLimit)) -> DiskLimitView {
    // Invariant: only disks have limits.
    let disk = resource.disk_name().unwrap_or_default().to_owned();
    DiskLimitView { disk, limit: set.limit.into(), by_superuser: set.by_superuser }
}
