//! Exchanges and loans of base tickets: made, cleared, renewed and ended.

use super::Operation;
use super::batch::{Batch, fill_of};
use crate::broker::Broker;
use crate::writer::Writer;
use crate::{
    Change, Clearing, CurrencyId, Exchange, ExchangeId, Leg, Offer, OfferId, Refusal, Rights,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

family! {
    /// Exchanges, as they come and go.
    ExchangeOperation as Exchange {
        "exchange" => MakeExchange,
        "clear" => Clear,
        "renew" => Renew,
        "end_exchange" => EndExchange,
    }
}

/// Gives base tickets away: one leg is a loan, several are a *static* exchange (paper 1, 5.7).
/// Owner of every giver, or `c` on it; and of every party that only receives, or `f` on it, as with
/// [`Transfer`](super::Transfer): gifts take up its room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakeExchange {
    /// 1 to [`LEGS_MAX`](crate::LEGS_MAX).
    pub legs: Vec<Leg>,
    /// The end, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_s: Option<u64>,
}

impl Operation for MakeExchange {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        let mut batch = Batch::default();
        broker.add(&mut batch, &self.legs)?;
        for giver in self.legs.iter().map(|leg| leg.giver) {
            broker.owner_or(broker.currency(giver)?, Rights::CHANGE)?;
        }
        let gives = |id: CurrencyId| self.legs.iter().any(|leg| leg.giver == id);
        for receiver in self.legs.iter().map(|leg| leg.receiver).filter(|id| !gives(*id)) {
            broker.consents(broker.currency(receiver)?)?;
        }
        broker.check_covers(&batch)
    }

    fn apply(self, writer: &mut Writer<'_>) {
        writer.exchange(Exchange { until_s: self.until_s, ..Exchange::of(self.legs) });
    }

    fn describe(&self) -> String {
        format!("exchanged: {}", text_of(&self.legs))
    }
}

/// Makes the exchanges that a dealer found among the offers: all of them, or none. Every exchange
/// is as the offers that it fills will have it, and all of them hold together. The system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clear {
    /// In this order.
    pub exchanges: Vec<Clearing>,
}

impl Operation for Clear {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        broker.system("clear exchanges")?;
        let mut batch = Batch::default();
        // What is left of the offers that were filled before in this batch.
        let mut left: BTreeMap<OfferId, Option<Offer>> = BTreeMap::new();
        for (index, clearing) in self.exchanges.iter().enumerate() {
            let bad = |why: &'static str| Err(Refusal::BadClearing { index, why });
            broker.add(&mut batch, &clearing.legs)?;
            let mut parties = BTreeSet::new();
            for id in &clearing.offers {
                let now = match left.get(id) {
                    Some(rest) => rest.as_ref(),
                    None => broker.ledger.offer(*id),
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
        broker.check_covers(&batch)
    }

    fn apply(self, writer: &mut Writer<'_>) {
        for Clearing { offers, legs } in self.exchanges {
            let mut until_s: Option<u64> = None;
            let mut leases = BTreeMap::new();
            for &id in &offers {
                let before = writer.ledger.offer(id).expect("the broker found it").clone();
                let (give, get) = fill_of(&before, &legs).expect("the broker compared it");
                until_s = until_s.into_iter().chain(before.until_s).min();
                leases.extend(before.lease.map(|lease| (before.party, lease.exchange_until_s)));
                let after = before.after(give, get).map(Box::new);
                writer.write(Change::Offer { id, before: Some(Box::new(before)), after });
            }
            writer.exchange(Exchange { legs, until_s, offers, leases });
        }
    }

    fn describe(&self) -> String {
        // A line for people, and there may be a hundred thousand of them.
        if self.exchanges.len() > 8 {
            return format!("the dealer made {} exchanges", self.exchanges.len());
        }
        let all: Vec<String> = self.exchanges.iter().map(|it| text_of(&it.legs)).collect();
        format!("the dealer exchanged: {}", all.join("; "))
    }
}

/// Says that a party whose offer had a [`Lease`](crate::Lease) is still there, and until when it
/// takes part in an exchange now. Owner of that party, or `c` on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renew {
    pub exchange: ExchangeId,
    /// The party whose lease it is.
    pub party: CurrencyId,
    /// Seconds since 1970; `None`: without a lease from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_s: Option<u64>,
}

impl Operation for Renew {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        let (id, party) = (self.exchange, self.party);
        let exchange = broker.ledger.exchange(id).ok_or(Refusal::UnknownExchange(id))?;
        if !exchange.leases.contains_key(&party) {
            return Err(Refusal::NoLease { exchange: id, party });
        }
        broker.owner_or(broker.currency(party)?, Rights::CHANGE)
    }

    fn apply(self, writer: &mut Writer<'_>) {
        let before = writer.ledger.exchange(self.exchange).expect("the broker found it").clone();
        let mut after = before.clone();
        match self.until_s {
            Some(until_s) => after.leases.insert(self.party, until_s),
            None => after.leases.remove(&self.party),
        };
        let (before, after) = (Some(before), Some(after));
        writer.write(Change::Exchange { id: self.exchange, before, after });
    }

    fn describe(&self) -> String {
        format!("{} renewed {}", self.party, self.exchange)
    }
}

/// Ends an exchange, all its tickets at once. Owner of a party, or `c` on it; the system when its
/// time is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndExchange {
    pub exchange: ExchangeId,
}

impl Operation for EndExchange {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        let id = self.exchange;
        let exchange = broker.ledger.exchange(id).ok_or(Refusal::UnknownExchange(id))?;
        let mut why = Err(Refusal::UnknownExchange(id));
        for party in exchange.parties() {
            why = broker.owner_or(broker.currency(party)?, Rights::CHANGE);
            if why.is_ok() {
                return Ok(());
            }
        }
        why
    }

    fn apply(self, writer: &mut Writer<'_>) {
        writer.end_exchange(self.exchange);
    }

    fn describe(&self) -> String {
        format!("{} ended", self.exchange)
    }
}

fn text_of(legs: &[Leg]) -> String {
    let leg = |it: &Leg| format!("{} {} from {} to {}", it.amount, it.good, it.giver, it.receiver);
    legs.iter().map(leg).collect::<Vec<_>>().join(", ")
}
