//! The changes of offers and exchanges between two looks at the market.
//!
//! 1. An exchange that is new and names an offer of ours filled it, also when that was withdrawn
//!    meanwhile.
//! 2. An offer of ours that is no longer there was filled, or else it is gone.
//! 3. An exchange of ours that is no longer there was ended by somebody else.
//! 4. What has a lease of our client's and is not ours was left by a negotiator before us, or by an
//!    answer that never came: such offers are withdrawn, such exchanges taken over.
//! 5. All else, such as a loan, is none of our business.

use market::negotiator::{Event, Good};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::{ExchangeView, TraderView};

/// Offers that were withdrawn and are remembered: news that one was filled may come late.
const WITHDRAWN_KEPT: usize = 32;

/// An exchange as one of its parties sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub exchange: u64,
    /// The good that the party gives, and the number of tickets.
    pub gives: (Good, u64),
    /// The good that it gets, and the number of tickets.
    pub gets: (Good, u64),
}

/// The news that a look shows.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Events for the negotiator.
    pub events: Vec<Event>,
    /// Exchanges to be taken over (rule 4).
    pub left: Vec<Part>,
    /// Offers to be withdrawn (rule 4).
    pub stray: Vec<u64>,
}

/// A negotiator's offers and exchanges on the market.
#[derive(Debug, Default)]
pub struct Standing {
    /// Its offers that stand, by id, with their tags.
    open: BTreeMap<u64, u64>,
    withdrawn: VecDeque<(u64, u64)>,
    refused: Vec<u64>,
    held: BTreeSet<u64>,
    /// Others' exchanges, and those that we have ended: looked at once.
    others: BTreeSet<u64>,
}

impl Standing {
    /// Notes that an offer was made.
    pub fn offered(&mut self, tag: u64, offer: u64) {
        self.open.insert(offer, tag);
    }

    /// Notes that an offer was refused.
    pub fn refused(&mut self, tag: u64) {
        self.refused.push(tag);
    }

    /// Notes that an offer is to be withdrawn. Returns its id; `None` where it is gone already.
    pub fn withdraw(&mut self, tag: u64) -> Option<u64> {
        self.refused.retain(|refused| *refused != tag);
        let offer = self.open.iter().find_map(|(offer, own)| (*own == tag).then_some(*offer))?;
        self.open.remove(&offer);
        if self.withdrawn.len() == WITHDRAWN_KEPT {
            self.withdrawn.pop_front();
        }
        self.withdrawn.push_back((offer, tag));
        Some(offer)
    }

    /// Notes that this negotiator ends an exchange.
    pub fn end(&mut self, exchange: u64) {
        self.held.remove(&exchange);
        self.others.insert(exchange);
    }

    /// Offers that stand.
    pub fn offers(&self) -> impl Iterator<Item = u64> {
        self.open.keys().copied()
    }

    fn tag(&self, offer: u64) -> Option<u64> {
        let withdrawn = || self.withdrawn.iter().find(|(id, _)| *id == offer).map(|(_, tag)| *tag);
        self.open.get(&offer).copied().or_else(withdrawn)
    }

    /// Takes a look (rules 1 to 5).
    pub fn look(&mut self, view: &TraderView) -> Look {
        let mut look = Look::default();
        let there: BTreeSet<u64> = view.exchanges.iter().map(|exchange| exchange.id).collect();
        self.others.retain(|id| there.contains(id));
        let mut filled = BTreeSet::new();
        for exchange in &view.exchanges {
            if self.held.contains(&exchange.id) || self.others.contains(&exchange.id) {
                continue;
            }
            let tag = exchange.offers.iter().find_map(|offer| Some((*offer, self.tag(*offer)?)));
            let leased = exchange.leases.iter().any(|lease| lease.party == view.id);
            match (part(view.id, exchange), tag) {
                (Some(part), Some((offer, tag))) => {
                    filled.insert(offer);
                    let (gave, got) = (part.gives.1, part.gets.1);
                    let exchange = exchange.id;
                    self.held.insert(exchange);
                    look.events.push(Event::Filled { tag, exchange, gave, got });
                }
                (Some(part), None) if leased => {
                    self.held.insert(exchange.id);
                    look.left.push(part);
                }
                _ => {
                    self.others.insert(exchange.id);
                }
            }
        }
        let standing: BTreeSet<u64> = view.offers.iter().map(|offer| offer.id).collect();
        let over: Vec<u64> =
            self.open.keys().filter(|id| !standing.contains(id)).copied().collect();
        for offer in over {
            let tag = self.open.remove(&offer).expect("it is open");
            if !filled.contains(&offer) {
                look.events.push(Event::Gone { tag });
            }
        }
        look.events.extend(self.refused.drain(..).map(|tag| Event::Gone { tag }));
        for exchange in std::mem::take(&mut self.held) {
            if there.contains(&exchange) {
                self.held.insert(exchange);
            } else {
                look.events.push(Event::Ended { exchange });
            }
        }
        let leased = view.offers.iter().filter(|offer| offer.lease.is_some()).map(|offer| offer.id);
        look.stray = leased.filter(|offer| !self.open.contains_key(offer)).collect();
        look
    }
}

/// A good of the interface as one of the negotiator's; `None` where it cannot trade it.
pub fn good(good: &wire::Good) -> Option<Good> {
    if good.kind == wire::TicketKind::Transfer {
        return None;
    }
    Some(Good { resource: good.resource.parse().ok()?, kind: good.kind.into() })
}

/// An exchange as one of its parties sees it; `None` unless that gives one good and gets one.
fn part(party: u64, exchange: &ExchangeView) -> Option<Part> {
    let sum = |of: fn(&wire::LegView) -> u64| {
        let mut legs = exchange.legs.iter().filter(|leg| of(leg) == party).peekable();
        let first = good(&legs.peek()?.good)?;
        let amounts =
            legs.map(|leg| (good(&leg.good).as_ref() == Some(&first)).then_some(leg.amount));
        let amount = amounts.sum::<Option<u64>>()?;
        Some((first, amount))
    };
    Some(Part {
        exchange: exchange.id,
        gives: sum(|leg| leg.giver)?,
        gets: sum(|leg| leg.receiver)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{self, soft};
    use wire::{Lease, OfferView};

    fn offer(id: u64, leased: bool) -> OfferView {
        let lease = leased.then_some(Lease { offer_until_s: 1, exchange_until_s: 2 });
        let (gives, wants) = (soft("cpu"), soft("disk:sda"));
        let (party, owner, least, most, spare) = (7, 0, 0, 9, 9);
        let party_name = "a".to_owned();
        let (points, partial, until_s) = (Vec::new(), true, None);
        OfferView {
            id,
            party,
            party_name,
            owner,
            gives,
            wants,
            points,
            partial,
            least,
            most,
            until_s,
            lease,
            spare,
        }
    }

    fn exchange(id: u64, offers: &[u64], leased: bool) -> ExchangeView {
        let (gives, gets) = (("cpu", 30), ("disk:sda", 20));
        let exchange = fixtures::exchange(id, gives, gets, leased.then_some(9));
        ExchangeView { offers: offers.to_vec(), ..exchange }
    }

    fn view(offers: &[(u64, bool)], exchanges: Vec<ExchangeView>) -> TraderView {
        TraderView {
            id: 7,
            name: "a".to_owned(),
            owner: 0,
            members: Vec::new(),
            members_left_out: 0,
            cpu_value: 0.0,
            cpu_guaranteed: 0.0,
            cpu_tickets: Vec::new(),
            holdings: Vec::new(),
            offers: offers.iter().map(|(id, leased)| offer(*id, *leased)).collect(),
            exchanges,
        }
    }

    #[test]
    fn an_offer_is_filled_in_parts_and_then_wholly() {
        let mut standing = Standing::default();
        standing.offered(1, 10);
        assert_eq!(standing.look(&view(&[(10, true)], vec![])), Look::default());
        let first = || exchange(3, &[10, 11], true);
        let look = standing.look(&view(&[(10, true)], vec![first()]));
        assert_eq!(look.events, [Event::Filled { tag: 1, exchange: 3, gave: 30, got: 20 }]);
        assert_eq!(look.stray, [0; 0], "the rest is ours");
        let look = standing.look(&view(&[], vec![first(), exchange(4, &[12, 10], true)]));
        assert_eq!(look.events, [Event::Filled { tag: 1, exchange: 4, gave: 30, got: 20 }]);
        assert_eq!(
            standing.look(&view(&[], vec![first(), exchange(4, &[10], true)])),
            Look::default()
        );
    }

    #[test]
    fn what_was_withdrawn_may_have_been_filled_before() {
        let mut standing = Standing::default();
        standing.offered(1, 10);
        assert_eq!((standing.withdraw(1), standing.withdraw(1)), (Some(10), None));
        let look = standing.look(&view(&[], vec![exchange(3, &[10], true)]));
        assert_eq!(look.events, [Event::Filled { tag: 1, exchange: 3, gave: 30, got: 20 }]);
    }

    #[test]
    fn what_others_took_away_is_told_and_what_we_did_is_not() {
        let mut standing = Standing::default();
        standing.offered(1, 10);
        standing.offered(2, 11);
        standing.refused(3);
        let look = standing.look(&view(&[(11, true)], vec![exchange(5, &[11], true)]));
        let filled = Event::Filled { tag: 2, exchange: 5, gave: 30, got: 20 };
        assert_eq!(look.events, [filled, Event::Gone { tag: 1 }, Event::Gone { tag: 3 }]);
        assert_eq!(
            standing.look(&view(&[(11, true)], vec![])).events,
            [Event::Ended { exchange: 5 }]
        );
        let look = standing.look(&view(&[(11, true)], vec![exchange(6, &[11], true)]));
        assert_eq!(look.events.len(), 1);
        standing.end(6);
        // Not yet ended when it was looked, then it is.
        assert_eq!(
            standing.look(&view(&[(11, true)], vec![exchange(6, &[11], true)])),
            Look::default()
        );
        assert_eq!(standing.look(&view(&[(11, true)], vec![])), Look::default());
    }

    #[test]
    fn what_a_negotiator_before_left_is_found_and_others_things_are_let_be() {
        let mut standing = Standing::default();
        let there = || vec![exchange(3, &[1], true), exchange(4, &[2], false)];
        let look = standing.look(&view(&[(10, true), (11, false)], there()));
        let cpu = good(&soft("cpu")).expect("a good");
        let disk = good(&soft("disk:sda")).expect("a good");
        assert_eq!(look.left, [Part { exchange: 3, gives: (cpu, 30), gets: (disk, 20) }]);
        assert_eq!((look.stray, look.events), (vec![10], vec![]));
        let look = standing.look(&view(&[], vec![exchange(4, &[2], false)]));
        assert_eq!(look.events, [Event::Ended { exchange: 3 }]);
    }
}
