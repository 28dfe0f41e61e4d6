//! What everybody covers of a good, naively: by the ledger's rules (`ledger::Ledger::cover`) from
//! its bare lists of tickets and exchanges, for all currencies at once, until nothing changes.

use ledger::{BASE, Class, CurrencyId, Good, Ledger, Ticket, TicketKind};
use std::collections::BTreeMap;

/// What one currency covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cover {
    /// In 2⁻³² base tickets.
    pub parts: u128,
    /// By which of its tickets.
    pub main: Option<Ticket>,
}

/// What everybody covers but base. Ends only where funding has no cycle.
pub fn covers(ledger: &Ledger, good: &Good) -> BTreeMap<CurrencyId, Cover> {
    let mut given: BTreeMap<CurrencyId, u128> = BTreeMap::new();
    for leg in ledger.exchanges().flat_map(|(_, exchange)| &exchange.legs) {
        if leg.good == *good {
            *given.entry(leg.giver).or_default() += u128::from(leg.amount) << 32;
        }
    }
    let tickets: Vec<&Ticket> = ledger
        .tickets()
        .map(|(_, ticket)| ticket)
        .filter(|it| it.resource == good.resource && it.kind != TicketKind::Transfer)
        .collect();
    let mut issued: BTreeMap<(CurrencyId, TicketKind), u128> = BTreeMap::new();
    for ticket in &tickets {
        *issued.entry((ticket.issuer, ticket.kind)).or_default() += u128::from(ticket.amount);
    }
    let total = |id, kind| issued.get(&(id, kind)).copied().unwrap_or(0);
    let mut known: BTreeMap<CurrencyId, Cover> =
        ledger.currencies().map(|it| (it.id, Cover::default())).collect();
    loop {
        let mut next: BTreeMap<CurrencyId, Cover> =
            ledger.currencies().map(|it| (it.id, Cover::default())).collect();
        for ticket in &tickets {
            let amount = u128::from(ticket.amount);
            let rest = known[&ticket.issuer].parts;
            let rest = rest - given.get(&ticket.issuer).copied().unwrap_or(0).min(rest);
            let parts = match (ticket.issuer, ticket.kind) {
                (BASE, kind) => u128::from(kind == good.kind) * (amount << 28) * 15,
                (_, TicketKind::Hard) => rest * amount / 1000,
                (issuer, _) => {
                    let soft = total(issuer, TicketKind::Soft);
                    let sub = 1000 - total(issuer, TicketKind::Hard);
                    rest * sub * amount / (1000 * soft).max(1)
                }
            };
            let guest = ledger.currency(ticket.holder).is_none_or(|it| it.class() == Class::Guest);
            let best = next.get_mut(&ticket.holder).expect("a holder exists");
            let before = best.main.as_ref().map(|main| (main.issuer, main.kind));
            let first = before.is_none_or(|before| (ticket.issuer, ticket.kind) < before);
            let better = parts > best.parts || (parts == best.parts && first);
            if parts > 0 && !guest && better {
                *best = Cover { parts, main: Some((*ticket).clone()) };
            }
        }
        if next == known {
            return known;
        }
        known = next;
    }
}
