//! The broker's part in exchanges: may this be offered, exchanged, cleared, ended?

use crate::broker::Broker;
use crate::cover::{Covers, Extra};
use crate::exchange::bad_legs;
use crate::{CurrencyId, EXCHANGES_MAX, Exchange, Good, LOANS_MAX, Leg, Offer, Part, Refusal};
use std::collections::BTreeMap;

impl Broker<'_> {
    /// Count one more exchange, where its legs make sense and its parties may have another.
    pub(crate) fn add(&self, batch: &mut Batch, legs: &[Leg]) -> Result<(), Refusal> {
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
            if self.ledger.is_superuser(owner) {
                continue;
            }
            let person = batch.of_person.entry(self.ledger.persons().of(owner));
            let count = person.or_insert_with(|| self.ledger.owned_by(owner, Part::Exchange));
            *count += 1;
            self.within_quota(Part::Exchange, owner, *count)?;
            batch.more_in_all += 1;
        }
        let in_all = self.ledger.owned_in_all(Part::Exchange) + batch.more_in_all;
        self.within_quota_in_all(Part::Exchange, in_all)?;
        for leg in legs {
            let given = batch.given.entry((leg.giver, leg.good.clone())).or_default();
            *given = given.saturating_add(leg.amount);
        }
        Ok(())
    }

    pub(crate) fn check_covers(&self, batch: &Batch) -> Result<(), Refusal> {
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
}

/// What a batch of exchanges adds to what there is.
#[derive(Default)]
pub(crate) struct Batch {
    given: Extra,
    // How many exchanges a currency has, loans to it apart.
    counts: BTreeMap<(CurrencyId, bool), usize>,
    // In how many a person's currencies give.
    of_person: BTreeMap<u32, usize>,
    // In how many more ordinary persons' currencies give.
    more_in_all: usize,
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
