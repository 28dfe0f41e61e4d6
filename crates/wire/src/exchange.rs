//! Offers and exchanges, as they are asked for and shown.

use crate::{CurrencyRef, MemberView, TicketKind, TicketView};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is exchanged: base tickets of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Good {
    /// `cpu`, `memory`, `disk:DEVICE` or `net:INTERFACE`.
    pub resource: String,
    /// Relative or fixed; hard ones of memory are KiB.
    #[serde(default)]
    pub kind: TicketKind,
}

/// A point of an offer's curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OfferPoint {
    /// Base tickets that it gives, at least 1.
    pub give: u64,
    /// Base tickets that it wants at least for these, at least 1.
    pub want: u64,
}

/// Until when holds what a program offers, unless it says again that it is there: an offer by making
/// another, an exchange by `renew_exchange`. Seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// The offer.
    pub offer_until_s: u64,
    /// Every exchange that comes of it.
    pub exchange_until_s: u64,
}

/// Base tickets that somebody gives to somebody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LegRef {
    /// Who gives: a currency or client of the caller's.
    pub from: CurrencyRef,
    /// Who receives.
    pub to: CurrencyRef,
    /// Of what.
    pub good: Good,
    /// How many.
    pub amount: u64,
}

/// An offer that conflicts with another on the rate alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConflictView {
    /// The offer.
    pub offer: OfferView,
    /// By how much the two ask for too much, together, in millionths: 500000 if one of them would
    /// have to give half as much again.
    pub gap_millionths: u64,
}

/// An offer that stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OfferView {
    /// Its id.
    pub id: u64,
    /// Whose: a currency or client.
    pub party: u64,
    /// Its name.
    pub party_name: String,
    /// The owner's uid.
    pub owner: u32,
    /// What it gives.
    pub gives: Good,
    /// What it wants.
    pub wants: Good,
    /// From little to much.
    pub points: Vec<OfferPoint>,
    /// Whether parts are welcome.
    pub partial: bool,
    /// The least that it will get in one exchange.
    pub least: u64,
    /// The most that it has use for.
    pub most: u64,
    /// When it and what came of it end: seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_s: Option<u64>,
    /// What ends earlier, unless who offers says again that it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// How many base tickets its party could give now; where that is too little, it waits.
    pub spare: u64,
}

/// Two linked tickets from base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LegView {
    /// Who gives.
    pub giver: u64,
    /// Its name.
    pub giver_name: String,
    /// Who receives.
    pub receiver: u64,
    /// Its name.
    pub receiver_name: String,
    /// Of what.
    pub good: Good,
    /// How many base tickets.
    pub amount: u64,
}

/// An exchange: its tickets end as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExchangeView {
    /// Its id.
    pub id: u64,
    /// Who gives what to whom; one is a loan.
    pub legs: Vec<LegView>,
    /// When it ends, unless a lease is renewed: seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_s: Option<u64>,
    /// The offers that it filled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<u64>,
    /// Parties that have to renew it, and until when they have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leases: Vec<LeaseView>,
}

/// A party that has to renew an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeaseView {
    /// Which.
    pub party: u64,
    /// Until when it has: seconds since 1970.
    pub until_s: u64,
}

/// What a clearing paid for a pair of goods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PriceView {
    /// When: seconds since 1970.
    pub at_s: u64,
    /// One good.
    pub good: Good,
    /// The other.
    pub other: Good,
    /// How much of each changed hands.
    pub amounts: (u64, u64),
    /// The exchange in which the first good was cheapest.
    pub lowest: (u64, u64),
    /// The exchange in which it was dearest.
    pub highest: (u64, u64),
    /// How often.
    pub trades: u64,
}

/// What somebody has of a good, in base tickets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HoldingView {
    /// Of what.
    pub good: Good,
    /// What it has the use of when all compete: its own, and received, less given.
    pub held: u64,
    /// What it can give away besides what it gives.
    pub spare: u64,
}

/// Somebody who can trade, with all that who trades for it must know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TraderView {
    /// Its id.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// The owner's uid.
    pub owner: u32,
    /// What consumes as it, or as a client that it funds.
    pub members: Vec<MemberView>,
    /// How many more there are: no more than 1000 are shown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub members_left_out: u64,
    /// Its base value of the CPU now, as a part of the whole, 0 to 1.
    pub cpu_value: f64,
    /// What it is sure of of the CPU when all compete, likewise.
    pub cpu_guaranteed: f64,
    /// Who funds it with CPU tickets.
    pub cpu_tickets: Vec<TicketView>,
    /// Of each good of which it has anything.
    pub holdings: Vec<HoldingView>,
    /// Its offers, oldest first.
    pub offers: Vec<OfferView>,
    /// The exchanges in which it takes part, oldest first.
    pub exchanges: Vec<ExchangeView>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Some of those who can trade.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TradersView {
    /// The journal's last number.
    pub sequence: u64,
    /// In the order in which they were named; those named by an id that are gone are left out.
    pub traders: Vec<TraderView>,
}

/// All that is offered, exchanged, and was paid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MarketView {
    /// The journal's last number.
    pub sequence: u64,
    /// The offers that stand, oldest first.
    pub offers: Vec<OfferView>,
    /// The exchanges, oldest first.
    pub exchanges: Vec<ExchangeView>,
    /// Of the last clearings since allotd began, by pair of goods, oldest first.
    pub prices: Vec<PriceView>,
}
