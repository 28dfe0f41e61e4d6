//! The primitive changes of which every operation consists. Each knows its inverse, so a
//! batch can be undone whole and a journal can be replayed without deciding again.

use crate::{
    CurrencyId, CurrencyRecord, Exchange, ExchangeId, Home, Member, Offer, OfferId, PolicyKey,
    Ticket, TicketId,
};
use serde::{Deserialize, Serialize};

/// One thing in the ledger that became another: `None` before is a creation, `None` after a
/// removal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "lowercase")]
pub enum Change {
    /// A currency, without its tickets.
    Currency {
        /// Which.
        id: CurrencyId,
        /// What it was.
        before: Option<Box<CurrencyRecord>>,
        /// What it is.
        after: Option<Box<CurrencyRecord>>,
    },
    /// A ticket.
    Ticket {
        /// Which.
        id: TicketId,
        /// What it was.
        before: Option<Ticket>,
        /// What it is.
        after: Option<Ticket>,
    },
    /// The currency that the funding policy keeps for a key.
    Home {
        /// User, group or rule.
        key: PolicyKey,
        /// What it was.
        before: Option<Home>,
        /// What it is.
        after: Option<Home>,
    },
    /// Which client somebody has joined; `None` for who is where they belong.
    Member {
        /// Who.
        member: Member,
        /// Where it was.
        before: Option<CurrencyId>,
        /// Where it is.
        after: Option<CurrencyId>,
    },
    /// An exchange: all its linked tickets at once.
    Exchange {
        /// Which.
        id: ExchangeId,
        /// What it was.
        before: Option<Exchange>,
        /// What it is.
        after: Option<Exchange>,
    },
    /// An offer.
    Offer {
        /// Which.
        id: OfferId,
        /// What it was.
        before: Option<Box<Offer>>,
        /// What it is.
        after: Option<Box<Offer>>,
    },
    /// How much memory base has to promise, in KiB.
    Memory {
        /// What it was; 0 while it was never told.
        before: u64,
        /// What it is.
        after: u64,
    },
}

impl Change {
    /// The change that undoes this one.
    pub fn inverse(self) -> Change {
        match self {
            Change::Currency { id, before, after } => {
                Change::Currency { id, before: after, after: before }
            }
            Change::Ticket { id, before, after } => {
                Change::Ticket { id, before: after, after: before }
            }
            Change::Home { key, before, after } => {
                Change::Home { key, before: after, after: before }
            }
            Change::Member { member, before, after } => {
                Change::Member { member, before: after, after: before }
            }
            Change::Exchange { id, before, after } => {
                Change::Exchange { id, before: after, after: before }
            }
            Change::Offer { id, before, after } => {
                Change::Offer { id, before: after, after: before }
            }
            Change::Memory { before, after } => Change::Memory { before: after, after: before },
        }
    }
}

#[cfg(kani)]
mod proofs {
    use super::*;
    use crate::{Resource, TicketKind};

    fn any_ticket() -> Option<Ticket> {
        let kind = if kani::any() { TicketKind::Soft } else { TicketKind::Hard };
        let (issuer, holder) = (CurrencyId(kani::any()), CurrencyId(kani::any()));
        let amount = kani::any();
        kani::any::<bool>().then_some(Ticket {
            issuer,
            holder,
            resource: Resource::CPU,
            kind,
            amount,
        })
    }

    /// The inverse of any change of a ticket leads from what it is to what it was, and the inverse
    /// of that is the change.
    #[kani::proof]
    #[kani::unwind(18)]
    fn the_inverse_of_a_ticket_s_change_is_its_undoing() {
        let (id, before, after) = (TicketId(kani::any()), any_ticket(), any_ticket());
        let change = Change::Ticket { id, before: before.clone(), after: after.clone() };
        let Change::Ticket { id: same, before: from, after: to } = change.inverse() else {
            panic!("it is a ticket's too")
        };
        assert!(same == id && from == after && to == before);
    }

    #[kani::proof]
    fn the_inverse_of_memory_s_change_is_its_undoing() {
        let (before, after) = (kani::any(), kani::any());
        let Change::Memory { before: from, after: to } =
            (Change::Memory { before, after }).inverse()
        else {
            panic!("it is memory's too")
        };
        assert!(from == after && to == before);
    }
}
