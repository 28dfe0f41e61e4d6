//! Tickets: rights to a resource, issued by one currency to fund another.

use crate::{CurrencyId, Resource};
use serde::{Deserialize, Serialize};

/// A currency's hard tickets always total this many, so 200 is 20 % (paper 1, figure 4).
pub const HARD_TOTAL: u64 = 1000;

/// The most memory that base can have, in KiB (16 TiB).
pub const MEMORY_KIB_MAX: u64 = 1 << 34;

/// The largest amount of one soft ticket.
pub const AMOUNT_MAX: u64 = 1_000_000_000;

/// The largest total of soft tickets that one currency issues for one resource. Keeps every
/// product of a value and an amount within 128 bits with room to spare.
pub const ISSUED_MAX: u64 = 1 << 50;

/// The amount of a transfer ticket, the only one that its issuer issues for a resource.
pub const TRANSFER_AMOUNT: u64 = 1;

/// Identifies a ticket. Never used again once its ticket is revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TicketId(pub u64);

/// How a ticket's amount becomes a share of its issuer's value (paper 1, 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TicketKind {
    /// A relative share: the amount over the issuer's active soft tickets.
    Soft,
    /// A fixed share: the amount over [`HARD_TOTAL`]. Base's hard tickets of memory are an amount,
    /// in KiB (paper 1, 5.4): see [`Ledger::hard_total`](crate::Ledger::hard_total).
    Hard,
    /// All that the issuer has, a client that waits for the holder and has lent it its tickets
    /// (Waldspurger and Weihl 1994; paper 1, 5.3). Meanwhile the issuer itself is worth nothing.
    Transfer,
}

/// A right to `resource`, issued by one currency and backing another. A holder has at most one
/// ticket of each issuer, resource and kind; a client issues at most one for each resource, a
/// transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Whose value it divides.
    pub issuer: CurrencyId,
    /// Whom it funds.
    pub holder: CurrencyId,
    /// What it is good for.
    pub resource: Resource,
    /// Relative or fixed.
    pub kind: TicketKind,
    /// Soft: 0 to [`AMOUNT_MAX`]; hard: 0 to [`HARD_TOTAL`], of base's memory to what base has, in
    /// KiB; transfer: [`TRANSFER_AMOUNT`]. 0
    /// funds nothing: a client with only such tickets is frozen (paper 3, future work).
    pub amount: u64,
}
