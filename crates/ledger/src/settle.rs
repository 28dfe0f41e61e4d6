//! What exchanges change: they are made, filled from offers, and undone as one (paper 1, 4.3).

use crate::cover::{cover_of, touched_by};
use crate::writer::Writer;
use crate::{Change, CurrencyId, Exchange, ExchangeId, Good, Leg, OfferId, TicketKind};

impl Writer<'_> {
    pub(crate) fn cancel_offer(&mut self, id: OfferId) {
        let before = self.ledger.offer(id).expect("the broker found it").clone();
        self.write(Change::Offer { id, before: Some(Box::new(before)), after: None });
    }

    pub(crate) fn exchange(&mut self, exchange: Exchange) {
        let id = self.ledger.fresh_exchange();
        self.write(Change::Exchange { id, before: None, after: Some(exchange) });
    }

    pub(crate) fn end_exchange(&mut self, id: ExchangeId) {
        let before = self.ledger.exchange(id).expect("it exists").clone();
        self.write(Change::Exchange { id, before: Some(before), after: None });
    }

    /// A currency is gone, or its user is: what it had exchanged and offered ends.
    pub(crate) fn end_trades_of(&mut self, id: CurrencyId) {
        let exchanges: Vec<ExchangeId> =
            self.ledger.exchanges_of(id).map(|(exchange, _)| exchange).collect();
        exchanges.into_iter().for_each(|exchange| self.end_exchange(exchange));
        let offers: Vec<OfferId> = self.ledger.offers_of(id).map(|(offer, _)| offer).collect();
        offers.into_iter().for_each(|offer| self.cancel_offer(offer));
    }

    /// Undo the exchanges whose givers no longer cover them, of each giver the newest first; those
    /// of issuers before those of their holders, who cover more when their issuers give less.
    pub(crate) fn undo_uncovered(&mut self) {
        let touched = touched_by(self.ledger, &self.changes);
        if touched.is_empty() {
            return;
        }
        for (giver, resource) in self.ledger.givers_below(&touched) {
            for kind in [TicketKind::Soft, TicketKind::Hard] {
                let good = Good { resource: resource.clone(), kind };
                let mut given = self.ledger.given(giver, &good);
                if given == 0 {
                    continue;
                }
                // What it gives itself is no part of it.
                let cover = self.ledger.cover(giver, &good);
                while given > 0 && cover_of(given) > cover {
                    let gives = |leg: &Leg| leg.giver == giver && leg.good == good;
                    let own = self.ledger.exchanges_of(giver);
                    let newest = own.filter(|(_, it)| it.legs.iter().any(gives)).last();
                    let (newest, _) = newest.expect("what is given is given in an exchange");
                    self.end_exchange(newest);
                    given = self.ledger.given(giver, &good);
                }
            }
        }
    }
}
