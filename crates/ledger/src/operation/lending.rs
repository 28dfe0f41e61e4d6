//! Transfers: a client that waits lends its tickets (paper 1, 5.3).

use super::Operation;
use crate::broker::Broker;
use crate::ledger::Lift;
use crate::writer::Writer;
use crate::{
    CurrencyId, Part, Refusal, Resource, Rights, TRANSFER_AMOUNT, TRANSFERS_MAX, Ticket, TicketKind,
};
use serde::{Deserialize, Serialize};

family! {
    /// Tickets lent as a whole.
    LendingOperation as Lending {
        "transfer" => Transfer,
        "take_back" => TakeBack,
    }
}

/// Lends all tickets of a resource of a client that waits to the client that it waits for. Owner,
/// or `c` on the lender; and owner of the holder, or `f` on it: whoever is lent to can lend on less deep. Ends with
/// [`TakeBack`], with either client, or with the lender's user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    pub lender: CurrencyId,
    pub holder: CurrencyId,
    pub resource: Resource,
}

impl Operation for Transfer {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        let Transfer { lender, holder, resource } = self;
        let (lender, holder) = (*lender, *holder);
        let from = broker.client(lender)?;
        let to = broker.client(holder)?;
        broker.owner_or(from, Rights::CHANGE)?;
        broker.consents(to)?;
        if let Some((_, ticket)) = broker.ledger.transfer_of(lender, resource) {
            let (holder, resource) = (ticket.holder, resource.clone());
            return Err(Refusal::AlreadyLent { lender, holder, resource });
        }
        let lift = broker.ledger.lift(lender, Some(holder));
        if lift == Lift::Cycle {
            return Err(Refusal::Cycle { holder, issuer: lender });
        }
        let held = broker.ledger.backing(holder);
        if held.filter(|(_, ticket)| ticket.kind == TicketKind::Transfer).count() >= TRANSFERS_MAX {
            return Err(Refusal::TooManyTransfers(holder));
        }
        broker.quota(to.record.owner, Part::Ticket, 1)?;
        if lift == Lift::TooDeep {
            return Err(Refusal::TooDeep(holder));
        }
        Ok(())
    }

    fn apply(self, writer: &mut Writer<'_>) {
        let Transfer { lender, holder, resource } = self;
        let (kind, amount) = (TicketKind::Transfer, TRANSFER_AMOUNT);
        writer.issue(Ticket { issuer: lender, holder, resource, kind, amount });
    }

    fn describe(&self) -> String {
        let Transfer { lender, holder, resource } = self;
        format!("client {lender} lent its {resource} tickets to {holder}")
    }
}

/// Undoes [`Transfer`]. Owner, or `c` on the lender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeBack {
    pub lender: CurrencyId,
    pub resource: Resource,
}

impl Operation for TakeBack {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        broker.owner_or(broker.client(self.lender)?, Rights::CHANGE)?;
        match broker.ledger.transfer_of(self.lender, &self.resource) {
            Some(_) => Ok(()),
            None => Err(Refusal::NotLent { lender: self.lender, resource: self.resource.clone() }),
        }
    }

    fn apply(self, writer: &mut Writer<'_>) {
        let lent = writer.ledger.transfer_of(self.lender, &self.resource);
        let (ticket, _) = lent.expect("the broker found it");
        writer.revoke(ticket);
    }

    fn describe(&self) -> String {
        format!("client {} took its {} tickets back", self.lender, self.resource)
    }
}
