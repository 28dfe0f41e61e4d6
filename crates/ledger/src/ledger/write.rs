//! The one place that writes to a ledger, and keeps its indexes.

use super::Ledger;
use crate::quota::parts_of;
use crate::trades::subtract;
use crate::{
    BASE, Change, Currency, CurrencyId, CurrencyKind, CurrencyRecord, Exchange, Loan, Member, Part,
    Ticket, TicketId, TicketKind,
};
use std::collections::{BTreeMap, BTreeSet};

impl Ledger {
    /// Undo what [`apply`](Ledger::apply) did, given its changes in their order.
    pub fn undo(&mut self, changes: Vec<Change>) {
        for change in changes.into_iter().rev() {
            self.write(change.inverse());
        }
    }

    /// The one place where the ledger changes.
    pub(crate) fn write(&mut self, change: Change) {
        self.version += 1;
        match change {
            Change::Currency { id, before, after } => {
                if let Some(record) = before.as_deref() {
                    self.unindex(id, record);
                }
                match after {
                    Some(record) => {
                        self.index(id, &record);
                        self.next_currency = self.next_currency.max(id.0 + 1);
                        if let Some(before) = &before {
                            self.recount(id, before.owner, record.owner);
                        }
                        match self.currencies.get_mut(&id) {
                            Some(currency) => currency.record = *record,
                            None => {
                                let currency = Currency {
                                    id,
                                    record: *record,
                                    backing: BTreeSet::new(),
                                    issued: BTreeSet::new(),
                                    totals: BTreeMap::new(),
                                    below: Default::default(),
                                };
                                self.currencies.insert(id, currency);
                            }
                        }
                    }
                    None => {
                        let gone = self.currencies.remove(&id).expect("a removed currency exists");
                        assert!(gone.backing.is_empty() && gone.issued.is_empty());
                        assert!(!self.trades.concern(id), "gone without its exchanges");
                    }
                }
            }
            Change::Ticket { id, before, after } => {
                let ends = |it: &Option<Ticket>| it.as_ref().map(|it| (it.issuer, it.holder));
                let moved = ends(&before) != ends(&after);
                if let Some(ticket) = &before {
                    self.detach(id, ticket);
                    if moved {
                        self.count_height(ticket, false);
                    }
                }
                match after {
                    Some(ticket) => {
                        self.attach(id, &ticket);
                        self.next_ticket = self.next_ticket.max(id.0 + 1);
                        self.tickets.insert(id, ticket.clone());
                        if moved {
                            self.count_height(&ticket, true);
                        }
                    }
                    None => {
                        self.tickets.remove(&id);
                    }
                }
            }
            Change::Home { key, after, .. } => match after {
                Some(home) => {
                    self.homes.insert(key, home);
                }
                None => {
                    self.homes.remove(&key);
                }
            },
            Change::Member { member, before, after } => {
                if let Some(client) = before {
                    self.by_client.remove(&(client, member));
                    self.joined.remove(&member);
                    self.quotas.remove(self.owner_of(client), Part::Member, counted(member));
                }
                if let Some(client) = after {
                    self.by_client.insert((client, member));
                    self.joined.insert(member, client);
                    self.quotas.add(self.owner_of(client), Part::Member, counted(member));
                }
            }
            Change::Exchange { id, before, after } => {
                self.next_exchange = self.next_exchange.max(id.0 + 1);
                let legs = before.iter().chain(&after).flat_map(|exchange| &exchange.legs);
                let givers: BTreeSet<_> =
                    legs.map(|leg| (leg.giver, leg.good.resource.clone())).collect();
                let led: Vec<bool> = givers.iter().map(|key| self.trades.is_lead(key)).collect();
                for giver in before.iter().flat_map(Exchange::givers) {
                    self.quotas.remove(self.owner_of(giver), Part::Exchange, 1);
                }
                for giver in after.iter().flat_map(Exchange::givers) {
                    self.quotas.add(self.owner_of(giver), Part::Exchange, 1);
                }
                self.trades.set_exchange(id, after);
                for (key, led) in givers.iter().zip(led) {
                    let leads = self.trades.is_lead(key);
                    if leads != led {
                        self.relead(key.0, &key.1, leads);
                    }
                }
            }
            Change::Offer { id, before, after } => {
                self.next_offer = self.next_offer.max(id.0 + 1);
                if let Some(offer) = &before {
                    self.quotas.remove(self.owner_of(offer.party), Part::Offer, 1);
                }
                if let Some(offer) = &after {
                    self.quotas.add(self.owner_of(offer.party), Part::Offer, 1);
                }
                self.trades.set_offer(id, after.map(|offer| *offer));
            }
            Change::Memory { after, .. } => self.memory_kib = after,
        }
    }

    fn owner_of(&self, id: CurrencyId) -> u32 {
        self.currencies.get(&id).map_or(0, |currency| currency.record.owner)
    }

    fn index(&mut self, id: CurrencyId, record: &CurrencyRecord) {
        match &record.kind {
            CurrencyKind::Client { founder, .. } => {
                self.by_founder.insert(*founder, id);
            }
            CurrencyKind::Base | CurrencyKind::Pure => {
                self.by_name.insert((record.owner, record.name.clone()), id);
            }
            CurrencyKind::Job { loans } => {
                for Loan { lender, resource, amount } in loans {
                    *self.lent.entry((*lender, resource.clone())).or_default() += amount;
                }
            }
        }
        for (part, count) in parts_of(record) {
            self.quotas.add(record.owner, part, count);
        }
    }

    fn unindex(&mut self, id: CurrencyId, record: &CurrencyRecord) {
        match &record.kind {
            CurrencyKind::Client { founder, .. } => {
                self.by_founder.remove(founder);
            }
            CurrencyKind::Base | CurrencyKind::Pure => {
                let gone = self.by_name.remove(&(record.owner, record.name.clone()));
                debug_assert_eq!(gone, Some(id));
            }
            CurrencyKind::Job { loans } => {
                for Loan { lender, resource, amount } in loans {
                    subtract(&mut self.lent, (*lender, resource.clone()), *amount);
                }
            }
        }
        for (part, count) in parts_of(record) {
            self.quotas.remove(record.owner, part, count);
        }
    }

    fn attach(&mut self, id: TicketId, ticket: &Ticket) {
        let holder = self.currencies.get_mut(&ticket.holder).expect("the holder exists");
        holder.backing.insert(id);
        self.quotas.add(holder.record.owner, Part::Ticket, 1);
        let issuer = self.currencies.get_mut(&ticket.issuer).expect("the issuer exists");
        issuer.issued.insert(id);
        let totals = issuer.totals.entry(ticket.resource.clone()).or_default();
        totals.count(ticket.kind, ticket.amount, true);
        self.lead(id, ticket, true);
    }

    /// A ticket has come or gone that may lead to a giver.
    fn lead(&mut self, id: TicketId, ticket: &Ticket, comes: bool) {
        let Ticket { issuer, holder, resource, kind, .. } = ticket;
        let leads = *issuer != BASE
            && *kind != TicketKind::Transfer
            && self.trades.is_lead(&(*holder, resource.clone()));
        if leads && self.trades.lead(*issuer, resource, id, comes) {
            self.relead(*issuer, resource, comes);
        }
    }

    fn detach(&mut self, id: TicketId, ticket: &Ticket) {
        self.lead(id, ticket, false);
        let holder = self.currencies.get_mut(&ticket.holder).expect("the holder exists");
        holder.backing.remove(&id);
        self.quotas.remove(holder.record.owner, Part::Ticket, 1);
        let issuer = self.currencies.get_mut(&ticket.issuer).expect("the issuer exists");
        issuer.issued.remove(&id);
        let totals = issuer.totals.get_mut(&ticket.resource).expect("what was issued was counted");
        totals.count(ticket.kind, ticket.amount, false);
        if totals.tickets == 0 {
            issuer.totals.remove(&ticket.resource);
        }
    }
}

/// Whether a member is counted where it joins: a process is none that somebody makes for the asking.
fn counted(member: Member) -> usize {
    usize::from(member.process().is_none())
}
