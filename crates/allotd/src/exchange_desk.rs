//! The exchange desk: the dealer at work on the ledger's offers, the ends of offers and exchanges,
//! and how all of it is shown.

use crate::view::part;
use ledger::operation::{CancelOffer, EndExchange};
use ledger::{
    Change, Clearing, Currency, CurrencyId, Exchange, ExchangeId, Good, Holding, Intent, Ledger,
    Leg, Offer, OfferId, Resource,
};
use market::{Match, PriceHistory};
use std::time::{Duration, Instant};
use valuation::Graph;
use wire::{
    ConflictView, ExchangeView, HoldingView, LeaseView, LegView, MarketView, OfferPoint, OfferView,
    PriceView, TicketView, TraderView,
};

/// The least time between two clearings, so that offers wait for each other, and a flood of them
/// does not keep the keeper from all else.
const CLEARING_PAUSE: Duration = Duration::from_secs(1);

/// The most conflicting offers of one answer.
const CONFLICTS_MAX: usize = 16;

/// The state of the market besides the ledger.
pub struct ExchangeDesk {
    prices: PriceHistory,
    // Whether anything has changed on which a clearing depends.
    must_clear: bool,
    cleared: Option<Instant>,
}

impl ExchangeDesk {
    /// Nothing was cleared yet.
    pub fn new() -> ExchangeDesk {
        ExchangeDesk { prices: PriceHistory::default(), must_clear: true, cleared: None }
    }

    /// Something was done, or could not be: see whether the dealer has work.
    pub fn note(&mut self, changes: &[Change]) {
        self.must_clear |= changes.iter().any(|change| match change {
            Change::Offer { after, .. } => after.is_some(),
            // Renewed: nobody has more or less than before.
            Change::Exchange { before: Some(_), after: Some(_), .. } => false,
            Change::Ticket { .. } | Change::Exchange { .. } | Change::Currency { .. } => true,
            Change::Home { .. } | Change::Member { .. } | Change::Memory { .. } => false,
        });
    }

    /// Asks the dealer, where it is due, and returns what it finds; nothing most of the time.
    pub fn clear_if_due(&mut self, ledger: &Ledger) -> Vec<Match> {
        let waits = self.cleared.is_some_and(|cleared| cleared.elapsed() < CLEARING_PAUSE);
        if !self.must_clear || waits {
            return Vec::new();
        }
        self.must_clear = false;
        let book = ledger.offer_book();
        if book.len() < 2 {
            return Vec::new();
        }
        self.cleared = Some(Instant::now());
        let spare = |party, good: &Good| match ledger.may_exchange(party) {
            true => ledger.spare(party, good),
            false => 0,
        };
        market::clear(book, spare).exchanges
    }

    /// These were made at `at_s`, seconds since 1970.
    pub fn record(&mut self, at_s: u64, made: &[Match]) {
        self.prices.record(at_s, &market::price_all(made));
    }

    /// The prices of the last clearings.
    pub fn prices(&self) -> &PriceHistory {
        &self.prices
    }
}

/// All that is offered, exchanged, and was paid.
pub fn view(
    prices: &PriceHistory,
    ledger: &Ledger,
    sequence: u64,
    name: impl Fn(CurrencyId) -> String,
) -> MarketView {
    let offers = ledger.offers().map(|(id, offer)| offer_view(ledger, id, offer, &name)).collect();
    let exchanges =
        ledger.exchanges().map(|(id, exchange)| exchange_view(id, exchange, &name)).collect();
    let paid = prices.pairs().iter();
    let prices = paid
        .flat_map(|(one, other)| prices.of(one, other))
        .map(|(at_s, price)| PriceView {
            at_s: *at_s,
            good: wire::Good::from(&price.goods.0),
            other: wire::Good::from(&price.goods.1),
            amounts: price.amounts,
            lowest: price.lowest,
            highest: price.highest,
            trades: price.trades,
        })
        .collect();
    MarketView { sequence, offers, exchanges, prices }
}

/// As the broker takes it: the dealer speaks of offers, the ledger of their parties.
pub fn clearing(ledger: &Ledger, found: &Match) -> Option<Clearing> {
    let party = |id: OfferId| ledger.offer(id).map(|offer| offer.party);
    let legs = found.legs.iter().map(|leg| {
        let (giver, receiver) = (party(leg.giver)?, party(leg.receiver)?);
        Some(Leg { giver, receiver, good: leg.good.clone(), amount: leg.amount })
    });
    let legs = legs.collect::<Option<Vec<Leg>>>()?;
    Some(Clearing { offers: found.legs.iter().map(|leg| leg.giver).collect(), legs })
}

/// Returns the intents that end what ends now.
pub fn expired(ledger: &Ledger, now_s: u64) -> Vec<Intent> {
    let over = |until_s: Option<u64>| until_s.is_some_and(|until_s| until_s <= now_s);
    let offers = ledger.offers().filter(|(_, offer)| over(offer.ends_s()));
    let offers = offers.map(|(offer, _)| Intent::from(CancelOffer { offer }));
    let exchanges = ledger.exchanges().filter(|(_, exchange)| over(exchange.ends_s()));
    offers.chain(exchanges.map(|(exchange, _)| Intent::from(EndExchange { exchange }))).collect()
}

/// The offers that would meet one but for the rate (paper 1, 4.2).
pub fn conflicts(
    ledger: &Ledger,
    offer: &Offer,
    name: impl Fn(CurrencyId) -> String,
) -> Vec<ConflictView> {
    let found = market::conflicts(offer, ledger.offer_book());
    found
        .into_iter()
        .take(CONFLICTS_MAX)
        .filter_map(|conflict| {
            let other = ledger.offer(conflict.offer)?;
            let offer = offer_view(ledger, conflict.offer, other, &name);
            Some(ConflictView { offer, gap_millionths: conflict.gap_millionths })
        })
        .collect()
}

fn offer_view(
    ledger: &Ledger,
    id: OfferId,
    offer: &Offer,
    name: impl Fn(CurrencyId) -> String,
) -> OfferView {
    let terms = &offer.terms;
    let owner = ledger.currency(offer.party).map_or(0, |currency| currency.record.owner);
    OfferView {
        id: id.0,
        party: offer.party.0,
        party_name: name(offer.party),
        owner,
        gives: wire::Good::from(&terms.gives),
        wants: wire::Good::from(&terms.wants),
        points: terms.points.iter().copied().map(OfferPoint::from).collect(),
        partial: terms.partial,
        least: terms.least,
        most: terms.most,
        until_s: offer.until_s,
        lease: offer.lease.map(wire::Lease::from),
        spare: ledger.spare(offer.party, &terms.gives),
    }
}

fn exchange_view(
    id: ExchangeId,
    exchange: &Exchange,
    name: impl Fn(CurrencyId) -> String,
) -> ExchangeView {
    let leases = exchange.leases.iter();
    ExchangeView {
        id: id.0,
        legs: exchange.legs.iter().map(|leg| leg_view(leg, &name)).collect(),
        until_s: exchange.ends_s(),
        offers: exchange.offers.iter().map(|offer| offer.0).collect(),
        leases: leases.map(|(party, &until_s)| LeaseView { party: party.0, until_s }).collect(),
    }
}

/// Returns a trader's offers, exchanges and holdings; what consumes as it is told by others.
pub fn trader_view(
    ledger: &Ledger,
    currency: &Currency,
    cpu: &mut Graph,
    name: impl Fn(CurrencyId) -> String,
) -> TraderView {
    let id = currency.id;
    let holding = |it: Holding| HoldingView {
        good: wire::Good::from(&it.good),
        held: it.held,
        spare: it.spare,
    };
    let cpu_tickets = ledger.backing(id).filter(|(_, ticket)| ticket.resource == Resource::CPU);
    TraderView {
        id: id.0,
        name: name(id),
        owner: currency.record.owner,
        members: Vec::new(),
        members_left_out: 0,
        cpu_value: part(cpu.value(id)),
        cpu_guaranteed: part(cpu.guaranteed(id)),
        cpu_tickets: cpu_tickets.map(TicketView::from).collect(),
        holdings: ledger.holdings(id).into_iter().map(holding).collect(),
        offers: ledger.offers_of(id).map(|(id, it)| offer_view(ledger, id, it, &name)).collect(),
        exchanges: ledger.exchanges_of(id).map(|(id, it)| exchange_view(id, it, &name)).collect(),
    }
}

fn leg_view(leg: &Leg, name: impl Fn(CurrencyId) -> String) -> LegView {
    LegView {
        giver: leg.giver.0,
        giver_name: name(leg.giver),
        receiver: leg.receiver.0,
        receiver_name: name(leg.receiver),
        good: wire::Good::from(&leg.good),
        amount: leg.amount,
    }
}
