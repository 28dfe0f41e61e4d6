//! Offers to exchange base tickets.

use super::Operation;
use crate::broker::Broker;
use crate::writer::Writer;
use crate::{Change, Offer, OfferId, Part, Refusal, Rights};
use serde::{Deserialize, Serialize};

family! {
    /// Offers, as they come and go.
    OfferOperation as Offer {
        "offer" => MakeOffer,
        "cancel_offer" => CancelOffer,
    }
}

/// Offers an exchange. Owner of the party, or `c` on it; the party must cover all that it offers
/// now. When it no longer does, the offer stays and waits until it does again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakeOffer {
    pub offer: Offer,
}

impl Operation for MakeOffer {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        let Offer { party, terms, .. } = &self.offer;
        let trader = broker.trader(*party)?;
        broker.owner_or(trader, Rights::CHANGE)?;
        terms.check()?;
        broker.quota(trader.record.owner, Part::Offer, 1)?;
        let (giver, asked) = (*party, terms.give_most());
        let spare = broker.ledger.spare(giver, &terms.gives);
        if asked > spare {
            return Err(Refusal::Uncovered { giver, good: terms.gives.clone(), spare, asked });
        }
        Ok(())
    }

    fn apply(self, writer: &mut Writer<'_>) {
        let id = writer.ledger.fresh_offer();
        writer.write(Change::Offer { id, before: None, after: Some(Box::new(self.offer)) });
    }

    fn describe(&self) -> String {
        let Offer { party, terms, .. } = &self.offer;
        let points = terms.points.iter().map(|it| format!("{}:{}", it.give, it.want));
        let points = points.collect::<Vec<String>>().join(" ");
        format!("{party} offers {} for {}, {points}", terms.gives, terms.wants)
    }
}

/// Withdraws an offer; the exchanges that came of it stay. Owner of its party, or `c` on that; the
/// system when its time is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelOffer {
    pub offer: OfferId,
}

impl Operation for CancelOffer {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        let offer = broker.ledger.offer(self.offer).ok_or(Refusal::UnknownOffer(self.offer))?;
        broker.owner_or(broker.currency(offer.party)?, Rights::CHANGE)
    }

    fn apply(self, writer: &mut Writer<'_>) {
        writer.cancel_offer(self.offer);
    }

    fn describe(&self) -> String {
        format!("{} withdrawn", self.offer)
    }
}
