//! A market where offers, the dealer and negotiators meet, without a ledger's rights: who holds how
//! much of its own is told by the caller, exchanges are what changes it.
//!
//! 1. An exchange changes what its parties hold by its legs, and nothing of anybody else.
//! 2. It is undone as a whole when any party ends it.
//! 3. A party can give what is its own, less what it gives already. What it gets it cannot give.

pub mod bazaar;
pub mod economy;
pub mod needs;
pub mod rivals;

use ledger::{CurrencyId, Good, Offer, OfferId};
use market::negotiator::{Action, Event};
use market::{PriceHistory, clear};
use std::collections::BTreeMap;

/// Tickets that have changed hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Who gave.
    pub giver: CurrencyId,
    /// Who got.
    pub receiver: CurrencyId,
    /// What.
    pub good: Good,
    /// How much.
    pub amount: u64,
}

/// A trading session. See the [module](self).
#[derive(Debug, Default)]
pub struct TradingSession {
    book: BTreeMap<OfferId, Offer>,
    tags: BTreeMap<OfferId, u64>,
    offers: BTreeMap<(CurrencyId, u64), OfferId>,
    next_offer: u64,
    next_exchange: u64,
    exchanges: BTreeMap<u64, Vec<Leg>>,
    events: BTreeMap<CurrencyId, Vec<Event>>,
    gained: BTreeMap<(CurrencyId, Good), u64>,
    given: BTreeMap<(CurrencyId, Good), u64>,
    /// What clearings paid.
    pub prices: PriceHistory,
    /// Exchanges that were made, ever.
    pub made: u64,
    /// Exchanges that were ended, ever.
    pub ended: u64,
}

impl TradingSession {
    /// What a party wants done is done.
    pub fn act(&mut self, party: CurrencyId, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Offer { tag, terms } => {
                    let id = OfferId(self.next_offer);
                    self.next_offer += 1;
                    self.book.insert(id, Offer { party, terms, until_s: None, lease: None });
                    self.tags.insert(id, tag);
                    self.offers.insert((party, tag), id);
                }
                Action::Cancel { tag } => {
                    if let Some(id) = self.offers.remove(&(party, tag)) {
                        self.book.remove(&id);
                        self.tags.remove(&id);
                    }
                }
                Action::End { exchange } => self.end(party, exchange),
            }
        }
    }

    /// Makes an exchange that nobody offered.
    pub fn exchange(&mut self, legs: Vec<Leg>) -> u64 {
        for leg in &legs {
            *self.gained.entry((leg.receiver, leg.good.clone())).or_default() += leg.amount;
            *self.given.entry((leg.giver, leg.good.clone())).or_default() += leg.amount;
        }
        let exchange = self.next_exchange;
        self.next_exchange += 1;
        self.made += 1;
        self.exchanges.insert(exchange, legs);
        exchange
    }

    /// A party ends an exchange (rule 2); the others are told.
    pub fn end(&mut self, party: CurrencyId, exchange: u64) {
        let Some(legs) = self.exchanges.remove(&exchange) else { return };
        self.ended += 1;
        for leg in &legs {
            *self.gained.get_mut(&(leg.receiver, leg.good.clone())).expect("it got") -= leg.amount;
            *self.given.get_mut(&(leg.giver, leg.good.clone())).expect("it gave") -= leg.amount;
            if leg.giver != party {
                self.events.entry(leg.giver).or_default().push(Event::Ended { exchange });
            }
        }
    }

    /// The dealer's turn. `own` is what a party has of its own. True where something was exchanged.
    pub fn clear(&mut self, now_s: u64, own: impl Fn(CurrencyId, &Good) -> u64) -> bool {
        let clearing = clear(&self.book, |party, good| self.free(party, good, own(party, good)));
        for found in &clearing.exchanges {
            let legs = found.legs.iter().map(|leg| Leg {
                giver: self.book[&leg.giver].party,
                receiver: self.book[&leg.receiver].party,
                good: leg.good.clone(),
                amount: leg.amount,
            });
            let exchange = self.exchange(legs.collect());
            for (place, leg) in found.legs.iter().enumerate() {
                let got = found.legs[(place + 1) % found.legs.len()].amount;
                self.fill(leg.giver, exchange, leg.amount, got);
            }
        }
        self.prices.record(now_s, &clearing.prices);
        !clearing.exchanges.is_empty()
    }

    fn fill(&mut self, id: OfferId, exchange: u64, gave: u64, got: u64) {
        let offer = self.book.get(&id).expect("a filled offer is in the book").clone();
        let tag = self.tags[&id];
        let event = Event::Filled { tag, exchange, gave, got };
        self.events.entry(offer.party).or_default().push(event);
        match offer.terms.after(gave, got) {
            Some(terms) => {
                self.book.insert(id, Offer { terms, ..offer });
            }
            None => {
                self.book.remove(&id);
                self.tags.remove(&id);
                self.offers.remove(&(offer.party, tag));
            }
        }
    }

    /// What happened to a party since it was asked last.
    pub fn events(&mut self, party: CurrencyId) -> Vec<Event> {
        self.events.remove(&party).unwrap_or_default()
    }

    fn sum(sums: &BTreeMap<(CurrencyId, Good), u64>, party: CurrencyId, good: &Good) -> u64 {
        sums.get(&(party, good.clone())).copied().unwrap_or(0)
    }

    /// What a party has the use of, `own` of its own.
    pub fn held(&self, party: CurrencyId, good: &Good, own: u64) -> u64 {
        let gained = TradingSession::sum(&self.gained, party, good);
        own + gained - TradingSession::sum(&self.given, party, good)
    }

    /// What it can still give (rule 3).
    pub fn free(&self, party: CurrencyId, good: &Good, own: u64) -> u64 {
        own - TradingSession::sum(&self.given, party, good)
    }

    /// Exchanges that there are.
    pub fn exchanges(&self) -> &BTreeMap<u64, Vec<Leg>> {
        &self.exchanges
    }

    /// Offers that are open.
    pub fn open(&self) -> usize {
        self.book.len()
    }
}
