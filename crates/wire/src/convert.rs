//! From the words of the interface to the ledger's, and back. For programs
//! that know the ledger: who only asks need not.

use crate::{
    ApiError, Class, CurrencyKind, DiskLimit, ErrorCode, Good, Lease, OfferPoint, TicketKind,
    TicketView,
};
use ledger::{Refusal, RefusalKind};

impl From<RefusalKind> for ErrorCode {
    fn from(kind: RefusalKind) -> Self {
        match kind {
            RefusalKind::Invalid => ErrorCode::Invalid,
            RefusalKind::Forbidden => ErrorCode::Forbidden,
            RefusalKind::Unknown => ErrorCode::Unknown,
            RefusalKind::Conflict => ErrorCode::Conflict,
            RefusalKind::Cycle => ErrorCode::Cycle,
            RefusalKind::Limit => ErrorCode::Limit,
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        ApiError::new(refusal.kind().into(), refusal.to_string())
    }
}

impl From<TicketKind> for ledger::TicketKind {
    fn from(kind: TicketKind) -> Self {
        match kind {
            TicketKind::Soft => ledger::TicketKind::Soft,
            TicketKind::Hard => ledger::TicketKind::Hard,
            TicketKind::Transfer => ledger::TicketKind::Transfer,
        }
    }
}

impl From<ledger::TicketKind> for TicketKind {
    fn from(kind: ledger::TicketKind) -> Self {
        match kind {
            ledger::TicketKind::Soft => TicketKind::Soft,
            ledger::TicketKind::Hard => TicketKind::Hard,
            ledger::TicketKind::Transfer => TicketKind::Transfer,
        }
    }
}

impl From<Class> for ledger::Class {
    fn from(class: Class) -> Self {
        match class {
            Class::Host => ledger::Class::Host,
            Class::Guest => ledger::Class::Guest,
        }
    }
}

impl From<ledger::Class> for Class {
    fn from(class: ledger::Class) -> Self {
        match class {
            ledger::Class::Host => Class::Host,
            ledger::Class::Guest => Class::Guest,
        }
    }
}

impl From<DiskLimit> for ledger::DiskLimit {
    fn from(limit: DiskLimit) -> Self {
        let DiskLimit { read_bytes, written_bytes, reads, writes } = limit;
        ledger::DiskLimit { read_bytes, written_bytes, reads, writes }
    }
}

impl From<ledger::DiskLimit> for DiskLimit {
    fn from(limit: ledger::DiskLimit) -> Self {
        let ledger::DiskLimit { read_bytes, written_bytes, reads, writes } = limit;
        DiskLimit { read_bytes, written_bytes, reads, writes }
    }
}

impl From<OfferPoint> for ledger::Point {
    fn from(point: OfferPoint) -> Self {
        ledger::Point { give: point.give, want: point.want }
    }
}

impl From<ledger::Point> for OfferPoint {
    fn from(point: ledger::Point) -> Self {
        OfferPoint { give: point.give, want: point.want }
    }
}

impl From<Lease> for ledger::Lease {
    fn from(lease: Lease) -> Self {
        let Lease { offer_until_s, exchange_until_s } = lease;
        ledger::Lease { offer_until_s, exchange_until_s }
    }
}

impl From<ledger::Lease> for Lease {
    fn from(lease: ledger::Lease) -> Self {
        let ledger::Lease { offer_until_s, exchange_until_s } = lease;
        Lease { offer_until_s, exchange_until_s }
    }
}

impl From<&ledger::Good> for Good {
    fn from(good: &ledger::Good) -> Self {
        Good { resource: good.resource.to_string(), kind: good.kind.into() }
    }
}

impl From<(ledger::TicketId, &ledger::Ticket)> for TicketView {
    fn from((id, ticket): (ledger::TicketId, &ledger::Ticket)) -> Self {
        TicketView {
            id: id.0,
            issuer: ticket.issuer.0,
            holder: ticket.holder.0,
            resource: ticket.resource.to_string(),
            kind: ticket.kind.into(),
            amount: ticket.amount,
        }
    }
}

impl From<&ledger::CurrencyKind> for CurrencyKind {
    fn from(kind: &ledger::CurrencyKind) -> Self {
        match kind {
            ledger::CurrencyKind::Base => CurrencyKind::Base,
            ledger::CurrencyKind::Pure => CurrencyKind::Pure,
            ledger::CurrencyKind::Job { .. } => CurrencyKind::Job,
            ledger::CurrencyKind::Client { .. } => CurrencyKind::Client,
        }
    }
}
