//! The broker's part in exchanges: may this be offered, exchanged, cleared, ended?

use crate::broker::Broker;
use crate::cover::{Covers, Extra};
use crate::exchange::bad_legs;
use crate::{
    BASE, Clearing, CurrencyId, EXCHANGES_MAX, EXCHANGES_PER_OWNER_MAX, Exchange, ExchangeId, Good,
    LOANS_MAX, Leg, OFFERS_PER_OWNER_MAX, Offer, OfferId, Refusal, Rights,
};
use std::collections::{BTreeMap, BTreeSet};

impl Broker<'_> {
    pub(crate) fn check_offer(&self, offer: &Offer) -> Result<(), Refusal> {
        let party = self.trader(offer.party)?;
        self.owner_or(party, Rights::CHANGE)?;
        offer.terms.check()?;
        let owner = party.record.owner;
        if !self.is_superuser() && self.ledger.trades.offers_of_owner(owner) >= OFFERS_PER_OWNER_MAX
        {
            return Err(Refusal::TooManyOffers(owner));
        }
        let (good, asked) = (&offer.terms.gives, offer.terms.give_most());
        let spare = self.ledger.spare(offer.party, good);
        if asked > spare {
            return Err(uncovered(offer.party, good, spare, asked));
        }
        Ok(())
    }

    pub(crate) fn check_cancel(&self, id: OfferId) -> Result<(), Refusal> {
        let offer = self.ledger.offer(id).ok_or(Refusal::UnknownOffer(id))?;
        self.owner_or(self.currency(offer.party)?, Rights::CHANGE)
    }

    pub(crate) fn check_exchange(&self, legs: &[Leg]) -> Result<(), Refusal> {
        let mut batch = Batch::default();
        self.add(&mut batch, legs)?;
        for giver in legs.iter().map(|leg| leg.giver) {
            self.owner_or(self.currency(giver)?, Rights::CHANGE)?;
        }
        self.check_covers(&batch)
    }

    /// The one way of a dealer: every exchange is as the offers that it fills will have it, and
    /// all of them hold together.
    pub(crate) fn check_clear(&self, exchanges: &[Clearing]) -> Result<(), Refusal> {
        self.system("clear exchanges")?;
        let mut batch = Batch::default();
        // What is left of the offers that were filled before in this batch.
        let mut left: BTreeMap<OfferId, Option<Offer>> = BTreeMap::new();
        for (index, clearing) in exchanges.iter().enumerate() {
            let bad = |why: &'static str| Err(Refusal::BadClearing { index, why });
            self.add(&mut batch, &clearing.legs)?;
            let mut parties = BTreeSet::new();
            for id in &clearing.offers {
                let now = match left.get(id) {
                    Some(rest) => rest.as_ref(),
                    None => self.ledger.offer(*id),
                };
                let Some(offer) = now else { return Err(Refusal::UnknownOffer(*id)) };
                if !parties.insert(offer.party) {
                    return bad("a party takes part by two offers");
                }
                let Some((give, get)) = fill_of(offer, &clearing.legs) else {
                    return bad("a party gives or gets what it did not offer");
                };
                if !offer.terms.accept(give, get) {
                    return bad("an offer does not accept what its party gets for what it gives");
                }
                let rest = offer.after(give, get);
                left.insert(*id, rest);
            }
            let all = |leg: &Leg| parties.contains(&leg.giver) && parties.contains(&leg.receiver);
            if !clearing.legs.iter().all(all) {
                return bad("a leg is of somebody without an offer");
            }
        }
        self.check_covers(&batch)
    }

    pub(crate) fn check_end(&self, id: ExchangeId) -> Result<(), Refusal> {
        let exchange = self.ledger.exchange(id).ok_or(Refusal::UnknownExchange(id))?;
        let mut why = Err(Refusal::UnknownExchange(id));
        for party in exchange.parties() {
            why = self.owner_or(self.currency(party)?, Rights::CHANGE);
            if why.is_ok() {
                return Ok(());
            }
        }
        why
    }

    pub(crate) fn check_renew(&self, id: ExchangeId, party: CurrencyId) -> Result<(), Refusal> {
        let exchange = self.ledger.exchange(id).ok_or(Refusal::UnknownExchange(id))?;
        if !exchange.leases.contains_key(&party) {
            return Err(Refusal::NoLease { exchange: id, party });
        }
        self.owner_or(self.currency(party)?, Rights::CHANGE)
    }

    /// Count one more exchange, where its legs make sense and its parties may have another.
    fn add(&self, batch: &mut Batch, legs: &[Leg]) -> Result<(), Refusal> {
        if let Some(why) = bad_legs(legs) {
            return Err(Refusal::BadExchange(why));
        }
        let exchange = Exchange::of(legs.to_vec());
        for party in exchange.parties() {
            self.trader(party)?;
            let loan = exchange.is_loan_to(party);
            let most = if loan { LOANS_MAX } else { EXCHANGES_MAX };
            let count = batch.counts.entry((party, loan)).or_insert_with(|| {
                let own = self.ledger.exchanges_of(party);
                own.filter(|(_, exchange)| exchange.is_loan_to(party) == loan).count()
            });
            *count += 1;
            if *count > most {
                return Err(Refusal::TooManyExchanges { currency: party, most });
            }
        }
        for giver in exchange.givers() {
            let owner = self.currency(giver)?.record.owner;
            let count = batch
                .of_owner
                .entry(owner)
                .or_insert_with(|| self.ledger.trades.exchanges_of_owner(owner));
            *count += 1;
            if *count > EXCHANGES_PER_OWNER_MAX && !self.ledger.is_superuser(owner) {
                return Err(Refusal::OwnerTrades(owner));
            }
        }
        for leg in legs {
            let given = batch.given.entry((leg.giver, leg.good.clone())).or_default();
            *given = given.saturating_add(leg.amount);
        }
        Ok(())
    }

    fn check_covers(&self, batch: &Batch) -> Result<(), Refusal> {
        let none = Extra::new();
        let mut covers = Covers::of(self.ledger, &batch.given);
        for ((giver, good), asked) in &batch.given {
            if !covers.is_covered(*giver, good) {
                let spare = Covers::of(self.ledger, &none).spare(*giver, good);
                return Err(uncovered(*giver, good, spare, *asked));
            }
        }
        Ok(())
    }

    fn trader(&self, id: CurrencyId) -> Result<&crate::Currency, Refusal> {
        if id == BASE { Err(Refusal::BaseTrades) } else { self.currency(id) }
    }
}

/// What a batch of exchanges adds to what there is.
#[derive(Default)]
struct Batch {
    given: Extra,
    // How many exchanges a currency has, loans to it apart.
    counts: BTreeMap<(CurrencyId, bool), usize>,
    // In how many its owner's currencies give.
    of_owner: BTreeMap<u32, usize>,
}

/// What an offer's party gives and gets by some legs; `None` where that is something else than
/// what it offered and wants.
pub(crate) fn fill_of(offer: &Offer, legs: &[Leg]) -> Option<(u64, u64)> {
    let (mut give, mut get) = (0_u64, 0_u64);
    for leg in legs {
        if leg.giver == offer.party {
            give = (leg.good == offer.terms.gives).then(|| give.checked_add(leg.amount))??;
        }
        if leg.receiver == offer.party {
            get = (leg.good == offer.terms.wants).then(|| get.checked_add(leg.amount))??;
        }
    }
    Some((give, get))
}

fn uncovered(giver: CurrencyId, good: &Good, spare: u64, asked: u64) -> Refusal {
    Refusal::Uncovered { giver, good: good.clone(), spare, asked }
}
