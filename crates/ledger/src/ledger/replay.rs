//! A ledger from what was written down: changes done again, and snapshots. Whatever is read may be
//! damaged, so everything is looked at before it is taken.

use super::Ledger;
use crate::cover::{Touched, touched_by};
use crate::exchange::bad_legs;
use crate::{
    AMOUNT_MAX, BASE, Change, Currency, CurrencyId, CurrencyKind, CurrencyRecord, Exchange,
    ExchangeId, HARD_TOTAL, Home, ID_MAX, ISSUED_MAX, Loan, MEMORY_KIB_MAX, Member, Offer, OfferId,
    PolicyKey, Resource, TRANSFER_AMOUNT, Ticket, TicketId, TicketKind,
};
use serde::{Deserialize, Serialize};

/// A whole ledger, as it is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Every currency, base included.
    pub currencies: Vec<(CurrencyId, CurrencyRecord)>,
    /// Every ticket.
    pub tickets: Vec<(TicketId, Ticket)>,
    /// Every currency that the policy keeps.
    pub homes: Vec<(PolicyKey, Home)>,
    /// Everybody who has joined a client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<(Member, CurrencyId)>,
    /// Every exchange.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exchanges: Vec<(ExchangeId, Exchange)>,
    /// Every offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<(OfferId, Offer)>,
    /// How much memory base has to promise, in KiB; 0 while it was never told.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub memory_kib: u64,
    /// The next unused cid.
    pub next_currency: u64,
    /// The next unused ticket id.
    pub next_ticket: u64,
    /// The next unused id of an exchange.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next_exchange: u64,
    /// The next unused id of an offer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next_offer: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A change that does not fit the ledger that it was to be replayed on: the record that it came
/// from is damaged or belongs to another ledger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("change {index} does not fit: {why}")]
pub struct Misfit {
    /// Which of the changes.
    pub index: usize,
    /// What does not fit.
    pub why: String,
}
impl Ledger {
    /// Do again what was done, from the changes that were written down.
    ///
    /// # Errors
    /// [`Misfit`] where a change does not fit; the ledger is then half changed and of no use.
    pub fn replay(&mut self, changes: Vec<Change>) -> Result<(), Misfit> {
        let last = changes.len().saturating_sub(1);
        let mut touched = Touched::new();
        for (index, change) in changes.into_iter().enumerate() {
            self.fits(&change).map_err(|why| Misfit { index, why })?;
            let change = std::slice::from_ref(&change);
            touched.append(&mut touched_by(self, change));
            self.write(change[0].clone());
            touched.append(&mut touched_by(self, change));
        }
        // Not before the end: what an operation uncovers it undoes itself.
        match self.first_uncovered(&touched) {
            None => Ok(()),
            Some((id, good)) => {
                let why = format!("currency {id} gives more {} than it covers", good.resource);
                Err(Misfit { index: last, why })
            }
        }
    }

    fn fits(&self, change: &Change) -> Result<(), String> {
        id_fits(match change {
            Change::Currency { id, .. } => id.0,
            Change::Ticket { id, .. } => id.0,
            Change::Exchange { id, .. } => id.0,
            Change::Offer { id, .. } => id.0,
            Change::Home { .. } | Change::Member { .. } | Change::Memory { .. } => 0,
        })?;
        let known = |id: &CurrencyId| self.currencies.contains_key(id);
        match change {
            Change::Currency { id, before, after } => {
                let now = self.currencies.get(id);
                if now.map(|currency| &currency.record) != before.as_deref() {
                    return Err(format!("currency {id} is not what it was"));
                }
                let bare = |currency: &Currency| {
                    currency.backing.is_empty()
                        && currency.issued.is_empty()
                        && self.members(*id).next().is_none()
                        && !self.trades.concern(*id)
                };
                match after {
                    None if !now.is_some_and(bare) => {
                        return Err(format!("currency {id} is removed with tickets or members"));
                    }
                    None => {}
                    Some(record) => {
                        let leaf = matches!(record.kind, CurrencyKind::Client { .. });
                        if now.is_some_and(|currency| currency.is_client() != leaf) {
                            return Err(format!("currency {id} becomes or ceases to be a client"));
                        }
                        self.record_fits(*id, record)?;
                    }
                }
            }
            Change::Memory { before, after } => {
                let issued =
                    self.currencies.get(&BASE).map(|base| base.issued_of(&Resource::MEMORY));
                let issued = issued.map_or(0, |issued| issued.hard);
                if *before != self.memory_kib {
                    return Err("the memory of base is not what it was".to_owned());
                }
                let never_told = if *after == 0 { HARD_TOTAL } else { *after };
                if *after > MEMORY_KIB_MAX || issued > never_told {
                    return Err(format!("base cannot have {after} KiB of memory"));
                }
            }
            Change::Ticket { id, before, after } => {
                if self.tickets.get(id) != before.as_ref() {
                    return Err(format!("ticket {} is not what it was", id.0));
                }
                if let Some(ticket) = after {
                    self.ticket_fits(*id, before.as_ref(), ticket)?;
                }
            }
            Change::Exchange { id, before, after } => {
                if self.exchange(*id) != before.as_ref() {
                    return Err(format!("{id} is not what it was"));
                }
                if let Some(exchange) = after {
                    self.exchange_fits(*id, exchange)?;
                }
            }
            Change::Offer { id, before, after } => {
                if self.offer(*id) != before.as_deref() {
                    return Err(format!("{id} is not what it was"));
                }
                let same = |offer: &Offer| before.as_ref().is_none_or(|it| it.party == offer.party);
                let party = |id: &CurrencyId| *id != BASE && known(id);
                if let Some(offer) = after.as_deref()
                    && !(offer.terms.check().is_ok() && party(&offer.party) && same(offer))
                {
                    return Err(format!("{id} is none that can be made"));
                }
            }
            Change::Home { key, before, after } => {
                if self.homes.get(key) != before.as_ref() {
                    return Err(format!("the policy's currency for {key} is not what it was"));
                }
                if after.as_ref().is_some_and(|home| !known(&home.currency)) {
                    return Err(format!("the policy's currency for {key} is unknown"));
                }
            }
            Change::Member { member, before, after } => {
                if self.joined_by(member) != *before {
                    return Err(format!("{member} is not in the client that it was in"));
                }
                let client = |id| self.currencies.get(id).is_some_and(Currency::is_client);
                if after.as_ref().is_some_and(|id| !client(id)) {
                    return Err(format!("{member} joins what is no client"));
                }
                if after.is_some() && *after == self.founded_by(member) {
                    return Err(format!("{member} joins the client that it founded"));
                }
            }
        }
        Ok(())
    }

    fn record_fits(&self, id: CurrencyId, record: &CurrencyRecord) -> Result<(), String> {
        let taken = match &record.kind {
            CurrencyKind::Client { founder, .. } => self.founded_by(founder),
            CurrencyKind::Base | CurrencyKind::Pure => self.named(record.owner, &record.name),
            CurrencyKind::Job { .. } => None,
        };
        if let Some(other) = taken.filter(|other| *other != id) {
            return Err(format!("currency {id} has the name or founder of {other}"));
        }
        if (id == BASE) != (record.kind == CurrencyKind::Base) {
            return Err(format!("currency {id} is not the one base"));
        }
        let too_much = |loan: &Loan| {
            let lent = self.lent(loan.lender, &loan.resource);
            lent.checked_add(loan.amount).is_none_or(|lent| lent > ISSUED_MAX)
        };
        if let CurrencyKind::Job { loans } = &record.kind
            && loans.iter().any(too_much)
        {
            return Err(format!("job {id} is lent more than anybody has"));
        }
        Ok(())
    }

    fn exchange_fits(&self, id: ExchangeId, exchange: &Exchange) -> Result<(), String> {
        if let Some(why) = bad_legs(&exchange.legs) {
            return Err(format!("{id} cannot be: {why}"));
        }
        let known = |party: &CurrencyId| *party != BASE && self.currencies.contains_key(party);
        let parties = exchange.parties();
        if !parties.iter().all(known) {
            return Err(format!("{id} is between currencies that cannot exchange"));
        }
        match exchange.leases.keys().all(|party| parties.contains(party)) {
            true => Ok(()),
            false => Err(format!("{id} has a lease of somebody who takes no part in it")),
        }
    }

    fn ticket_fits(
        &self,
        id: TicketId,
        before: Option<&Ticket>,
        ticket: &Ticket,
    ) -> Result<(), String> {
        let Ticket { issuer, holder, resource, kind, amount } = ticket;
        let joinable = |from: &Currency, to: &Currency| match kind {
            TicketKind::Transfer => from.is_client() && to.is_client(),
            TicketKind::Soft | TicketKind::Hard => !from.is_client() && to.id != BASE,
        };
        let (from, to) = match (self.currencies.get(issuer), self.currencies.get(holder)) {
            (Some(from), Some(to)) if joinable(from, to) => (from, to),
            _ => return Err(format!("ticket {} joins currencies that cannot be joined", id.0)),
        };
        let other = self.held(*holder, *issuer, resource, *kind);
        if other.is_some_and(|(other, _)| other != id) {
            return Err(format!("ticket {} is a second of its kind", id.0));
        }
        let same = before
            .filter(|old| (old.issuer, &old.resource, old.kind) == (*issuer, resource, *kind));
        let freed = same.map_or(0, |old| old.amount);
        let issued = from.issued_of(resource);
        let (most, left) = match kind {
            TicketKind::Soft => (AMOUNT_MAX, ISSUED_MAX - (issued.soft - freed)),
            TicketKind::Hard => {
                let total = self.hard_total(from.id, resource);
                (total, total.saturating_sub(issued.hard - freed))
            }
            TicketKind::Transfer => {
                let lent = self.transfer_of(from.id, resource);
                if *amount != TRANSFER_AMOUNT || lent.is_some_and(|(other, _)| other != id) {
                    return Err(format!("ticket {} lends what cannot be lent", id.0));
                }
                (TRANSFER_AMOUNT, TRANSFER_AMOUNT)
            }
        };
        if *amount > most.min(left) {
            return Err(format!("ticket {} has {amount}, more than its issuer may", id.0));
        }
        let moved = before.is_none_or(|old| (old.issuer, old.holder) != (*issuer, *holder));
        if moved && self.funds(to.id, *issuer) {
            return Err(format!("ticket {} closes a cycle", id.0));
        }
        Ok(())
    }

    /// The whole state.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            currencies: self.currencies.values().map(|c| (c.id, c.record.clone())).collect(),
            tickets: self.tickets.iter().map(|(id, ticket)| (*id, ticket.clone())).collect(),
            homes: self.homes.iter().map(|(key, home)| (key.clone(), home.clone())).collect(),
            joined: self.joined().collect(),
            exchanges: self.exchanges().map(|(id, exchange)| (id, exchange.clone())).collect(),
            offers: self.offers().map(|(id, offer)| (id, offer.clone())).collect(),
            memory_kib: self.memory_kib,
            next_currency: self.next_currency,
            next_ticket: self.next_ticket,
            next_exchange: self.next_exchange,
            next_offer: self.next_offer,
        }
    }

    /// The ledger that a snapshot was taken of.
    ///
    /// # Errors
    /// [`Misfit`] where the snapshot contradicts itself.
    pub fn restore(snapshot: Snapshot) -> Result<Ledger, Misfit> {
        let Snapshot { currencies, tickets, homes, joined, exchanges, offers, .. } = snapshot;
        let Snapshot { memory_kib, next_currency, next_ticket, .. } = snapshot;
        let Snapshot { next_exchange, next_offer, .. } = snapshot;
        let currencies = currencies.into_iter().map(|(id, record)| Change::Currency {
            id,
            before: None,
            after: Some(Box::new(record)),
        });
        let tickets = tickets.into_iter().map(|(id, ticket)| Change::Ticket {
            id,
            before: None,
            after: Some(ticket),
        });
        let homes = homes.into_iter().map(|(key, home)| Change::Home {
            key,
            before: None,
            after: Some(home),
        });
        let joined = joined.into_iter().map(|(member, id)| Change::Member {
            member,
            before: None,
            after: Some(id),
        });
        let exchanges = exchanges.into_iter().map(|(id, exchange)| Change::Exchange {
            id,
            before: None,
            after: Some(exchange),
        });
        let offers = offers.into_iter().map(|(id, offer)| Change::Offer {
            id,
            before: None,
            after: Some(Box::new(offer)),
        });
        for next in [next_currency, next_ticket, next_exchange, next_offer] {
            id_fits(next).map_err(|why| Misfit { index: 0, why })?;
        }
        let mut ledger = Ledger::empty();
        // Before the tickets that it bounds.
        ledger.replay(vec![Change::Memory { before: 0, after: memory_kib }])?;
        let trades = exchanges.chain(offers);
        ledger
            .replay(currencies.chain(tickets).chain(homes).chain(joined).chain(trades).collect())?;
        if !ledger.currencies.contains_key(&BASE) {
            return Err(Misfit { index: 0, why: "there is no base".to_owned() });
        }
        ledger.next_currency = ledger.next_currency.max(next_currency);
        ledger.next_ticket = ledger.next_ticket.max(next_ticket);
        ledger.next_exchange = ledger.next_exchange.max(next_exchange);
        ledger.next_offer = ledger.next_offer.max(next_offer);
        Ok(ledger)
    }
}

fn id_fits(id: u64) -> Result<(), String> {
    match id <= ID_MAX {
        true => Ok(()),
        false => Err(format!("{id} is an id that no ledger reaches")),
    }
}
