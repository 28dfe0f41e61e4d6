//! All exchanges and offers of a ledger, and their indexes.

use crate::{
    CurrencyId, EXCHANGES_MAX, Exchange, ExchangeId, Good, Ledger, Offer, OfferId, Part, Resource,
    TicketId, TicketKind,
};
use std::collections::{BTreeMap, BTreeSet};

/// What is exchanged, what is offered, and who leads to whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trades {
    pub(crate) exchanges: BTreeMap<ExchangeId, Exchange>,
    pub(crate) offers: BTreeMap<OfferId, Offer>,
    // Indexes, derived from the above.
    by_party: BTreeSet<(CurrencyId, ExchangeId)>,
    given: BTreeMap<(CurrencyId, Good), u64>,
    received: BTreeMap<(CurrencyId, Good), u64>,
    offers_by_party: BTreeSet<(CurrencyId, OfferId)>,
    // Of a currency that is not base, the tickets that it issued whose holders give tickets of
    // the resource, or lead to one that does.
    leads: BTreeMap<(CurrencyId, Resource), BTreeSet<TicketId>>,
}

impl Trades {
    pub(crate) fn set_exchange(&mut self, id: ExchangeId, after: Option<Exchange>) {
        if let Some(before) = self.exchanges.remove(&id) {
            for party in before.parties() {
                self.by_party.remove(&(party, id));
            }
            for leg in &before.legs {
                subtract(&mut self.given, (leg.giver, leg.good.clone()), leg.amount);
                subtract(&mut self.received, (leg.receiver, leg.good.clone()), leg.amount);
            }
        }
        if let Some(after) = after {
            for party in after.parties() {
                self.by_party.insert((party, id));
            }
            for leg in &after.legs {
                *self.given.entry((leg.giver, leg.good.clone())).or_default() += leg.amount;
                *self.received.entry((leg.receiver, leg.good.clone())).or_default() += leg.amount;
            }
            self.exchanges.insert(id, after);
        }
    }

    pub(crate) fn set_offer(&mut self, id: OfferId, after: Option<Offer>) {
        if let Some(before) = self.offers.remove(&id) {
            self.offers_by_party.remove(&(before.party, id));
        }
        if let Some(after) = after {
            self.offers_by_party.insert((after.party, id));
            self.offers.insert(id, after);
        }
    }

    pub(crate) fn exchanges_of(
        &self,
        id: CurrencyId,
    ) -> impl DoubleEndedIterator<Item = ExchangeId> {
        let all = (id, ExchangeId(0))..=(id, ExchangeId(u64::MAX));
        self.by_party.range(all).map(|(_, exchange)| *exchange)
    }

    pub(crate) fn offers_of(&self, id: CurrencyId) -> impl Iterator<Item = OfferId> {
        let all = (id, OfferId(0))..=(id, OfferId(u64::MAX));
        self.offers_by_party.range(all).map(|(_, offer)| *offer)
    }

    /// Whether a currency has any part in an exchange or an offer.
    pub(crate) fn concern(&self, id: CurrencyId) -> bool {
        self.exchanges_of(id).next().is_some() || self.offers_of(id).next().is_some()
    }

    /// What a currency gives.
    pub(crate) fn goods_of(&self, id: CurrencyId) -> impl Iterator<Item = Good> {
        let least = Good { resource: Resource::CPU, kind: TicketKind::Soft };
        let from = self.given.range((id, least)..);
        from.take_while(move |((giver, _), _)| *giver == id).map(|((_, good), _)| good.clone())
    }

    pub(crate) fn gives(&self, id: CurrencyId, resource: &Resource) -> bool {
        self.goods_of(id).any(|good| good.resource == *resource)
    }

    /// Whether a currency gives, or funds one that does, over any number of tickets.
    pub(crate) fn is_lead(&self, key: &(CurrencyId, Resource)) -> bool {
        self.leads.contains_key(key) || (!self.given.is_empty() && self.gives(key.0, &key.1))
    }

    pub(crate) fn leads(&self, key: &(CurrencyId, Resource)) -> Vec<TicketId> {
        self.leads.get(key).into_iter().flatten().copied().collect()
    }

    /// A ticket's holder leads to a giver now, or no longer. Answers whether its issuer has begun
    /// or ceased to.
    pub(crate) fn lead(
        &mut self,
        issuer: CurrencyId,
        resource: &Resource,
        ticket: TicketId,
        leads: bool,
    ) -> bool {
        let key = (issuer, resource.clone());
        let before = self.is_lead(&key);
        if leads {
            self.leads.entry(key.clone()).or_default().insert(ticket);
        } else if let Some(tickets) = self.leads.get_mut(&key) {
            tickets.remove(&ticket);
            if tickets.is_empty() {
                self.leads.remove(&key);
            }
        }
        self.is_lead(&key) != before
    }
}

/// Takes from a sum, and the sum away where nothing is left of it.
pub(crate) fn subtract<K: Ord>(sums: &mut BTreeMap<K, u64>, key: K, amount: u64) {
    let left = sums.get_mut(&key).expect("what was added is there");
    *left -= amount;
    if *left == 0 {
        sums.remove(&key);
    }
}

impl Ledger {
    /// An exchange.
    pub fn exchange(&self, id: ExchangeId) -> Option<&Exchange> {
        self.trades.exchanges.get(&id)
    }

    /// Every exchange, oldest first.
    pub fn exchanges(&self) -> impl Iterator<Item = (ExchangeId, &Exchange)> {
        self.trades.exchanges.iter().map(|(id, exchange)| (*id, exchange))
    }

    /// The exchanges in which a currency gives or receives, oldest first.
    pub fn exchanges_of(&self, id: CurrencyId) -> impl Iterator<Item = (ExchangeId, &Exchange)> {
        self.trades.exchanges_of(id).map(|id| (id, &self.trades.exchanges[&id]))
    }

    /// An offer.
    pub fn offer(&self, id: OfferId) -> Option<&Offer> {
        self.trades.offers.get(&id)
    }

    /// All offers, as a dealer clears them.
    pub fn offer_book(&self) -> &BTreeMap<OfferId, Offer> {
        &self.trades.offers
    }

    /// Every offer, oldest first.
    pub fn offers(&self) -> impl Iterator<Item = (OfferId, &Offer)> {
        self.trades.offers.iter().map(|(id, offer)| (*id, offer))
    }

    /// The offers of a party, oldest first.
    pub fn offers_of(&self, party: CurrencyId) -> impl Iterator<Item = (OfferId, &Offer)> {
        self.trades.offers_of(party).map(|id| (id, &self.trades.offers[&id]))
    }

    /// Whether a currency may give in one more exchange: neither it, its owner nor all have too many.
    pub fn may_exchange(&self, id: CurrencyId) -> bool {
        let gives = self.exchanges_of(id).filter(|(_, exchange)| !exchange.is_loan_to(id)).count();
        let owner = self.currency(id).map_or(0, |currency| currency.record.owner);
        let quota = self.quota(Part::Exchange);
        gives < EXCHANGES_MAX
            && (self.is_superuser(owner)
                || self.owned_by(owner, Part::Exchange) < quota.per_person
                    && self.owned_in_all(Part::Exchange) < quota.in_all)
    }

    /// How many base tickets of a good a currency has given away.
    pub fn given(&self, id: CurrencyId, good: &Good) -> u64 {
        self.trades.given.get(&(id, good.clone())).copied().unwrap_or(0)
    }

    /// How many base tickets of a good a currency has received.
    pub fn received(&self, id: CurrencyId, good: &Good) -> u64 {
        self.trades.received.get(&(id, good.clone())).copied().unwrap_or(0)
    }
}
