//! Tickets of one currency for another.

use super::Operation;
use crate::broker::Broker;
use crate::ledger::Lift;
use crate::writer::Writer;
use crate::{
    BACKERS_MAX, BASE, Change, CurrencyId, Funding, MEMORY_KIB_MAX, Part, Refusal, Resource,
    Rights, TicketKind,
};
use serde::{Deserialize, Serialize};

family! {
    /// Tickets between currencies, and how many base has.
    FundingOperation as Funding {
        "fund" => Fund,
        "unfund" => Unfund,
        "set_memory" => SetMemory,
    }
}

/// Makes the holder's ticket from the issuer worth an amount. More: needs `f` on the holder and
/// `i` on the issuer; less: `c` on the holder or `i` on the issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fund {
    pub holder: CurrencyId,
    pub issuer: CurrencyId,
    #[serde(flatten)]
    pub funding: Funding,
}

impl Operation for Fund {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        let Fund { holder, issuer, funding } = self;
        let (holder, issuer) = (*holder, *issuer);
        if holder == BASE {
            return Err(Refusal::BaseHolds);
        }
        if funding.kind == TicketKind::Transfer {
            return Err(Refusal::TransferKind);
        }
        let (to, from) = (broker.currency(holder)?, broker.issuer(issuer)?);
        let held = broker.ledger.held(holder, issuer, &funding.resource, funding.kind);
        let before = held.map_or(0, |(_, ticket)| ticket.amount);
        broker.unless_lent(to, issuer)?;
        if held.is_some() && funding.amount < before {
            return broker.may_take(to, from);
        }
        broker.must_have(to, Rights::FUND)?;
        broker.must_have(from, Rights::ISSUE)?;
        broker.room(from, funding, before)?;
        if held.is_none() {
            let lift = broker.ledger.lift(issuer, Some(holder));
            if lift == Lift::Cycle {
                return Err(Refusal::Cycle { holder, issuer });
            }
            if broker.held_besides_transfers(holder).count() >= BACKERS_MAX {
                return Err(Refusal::TooManyBackers(holder));
            }
            broker.quota(to.record.owner, Part::Ticket, 1)?;
            if lift == Lift::TooDeep {
                return Err(Refusal::TooDeep(holder));
            }
        }
        Ok(())
    }

    fn apply(self, writer: &mut Writer<'_>) {
        writer.fund(self.holder, self.issuer, &self.funding);
    }

    fn describe(&self) -> String {
        format!("{} funded by {} with {}", self.holder, self.issuer, self.funding)
    }
}

/// Revokes the holder's ticket from the issuer. Needs `c` on the holder or `i` on the issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfund {
    pub holder: CurrencyId,
    pub issuer: CurrencyId,
    pub resource: Resource,
    pub kind: TicketKind,
}

impl Operation for Unfund {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        let Unfund { holder, issuer, resource, kind } = self;
        let (holder, issuer) = (*holder, *issuer);
        if *kind == TicketKind::Transfer {
            return Err(Refusal::TransferKind);
        }
        let (to, from) = (broker.currency(holder)?, broker.currency(issuer)?);
        if broker.ledger.held(holder, issuer, resource, *kind).is_none() {
            let resource = resource.clone();
            return Err(Refusal::UnknownTicket { holder, issuer, resource });
        }
        broker.unless_lent(to, issuer)?;
        broker.may_take(to, from)
    }

    fn apply(self, writer: &mut Writer<'_>) {
        let Unfund { holder, issuer, resource, kind } = self;
        if let Some((ticket, _)) = writer.ledger.held(holder, issuer, &resource, kind) {
            writer.revoke(ticket);
        }
    }

    fn describe(&self) -> String {
        let Unfund { holder, issuer, resource, .. } = self;
        format!("{holder} no longer funded by {issuer} for {resource}")
    }
}

/// Says how much memory base has to promise, never less than its hard tickets amount to. The
/// system, or the superuser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetMemory {
    /// 1 to [`MEMORY_KIB_MAX`].
    pub kib: u64,
}

impl Operation for SetMemory {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        broker.superuser("say how much memory there is to promise")?;
        let issued = broker.currency(BASE)?.issued_of(&Resource::MEMORY).hard;
        match self.kib {
            0 => Err(Refusal::BadMemory(0)),
            kib if kib > MEMORY_KIB_MAX => Err(Refusal::BadMemory(kib)),
            kib if kib < issued => Err(Refusal::MemoryPromised { issued, kib }),
            _ => Ok(()),
        }
    }

    fn apply(self, writer: &mut Writer<'_>) {
        let before = writer.ledger.memory_kib();
        if before != self.kib {
            writer.write(Change::Memory { before, after: self.kib });
        }
    }

    fn describe(&self) -> String {
        format!("{} KiB of memory can be promised", self.kib)
    }
}
