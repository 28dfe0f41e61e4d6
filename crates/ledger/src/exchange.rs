//! Exchanges of base tickets (paper 1, 4.1 and 4.3), and loans of them.
//!
//! 1. A *leg* is two tickets that base issues: `+amount` to the receiver, `−amount` to the giver.
//!    Their base value is constant, whatever happens inside the currencies of the two; and as
//!    they cancel out, what base has issued is what it was.
//! 2. An exchange is all its legs, linked: they come into being together and end together, when
//!    one of the parties is gone, its user has changed, somebody concerned ends it, its time is
//!    over, or a giver no longer [covers](crate::Ledger::cover) what it gives. Here the linked
//!    tickets are one object, so none of them can be left over. Its time is over, too, when a
//!    party whose offer had a [`Lease`](crate::Lease) has not renewed it: what a program traded
//!    shall not outlive it for long.
//! 3. One leg is a loan, two are the paper's exchange with its four tickets, three and four are
//!    cycles over as many goods.

use crate::{CurrencyId, Good, MEMORY_KIB_MAX, OfferId, TicketKind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The most legs of one exchange.
pub const LEGS_MAX: usize = 4;
/// The most exchanges in which one currency gives. They do not count as backers.
pub const EXCHANGES_MAX: usize = 1024;
/// The most exchanges in which one currency receives and gives nothing, so that those who
/// may fund it cannot keep it from trading by what they lend.
pub const LOANS_MAX: usize = 256;

/// Identifies an exchange. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExchangeId(pub u64);

impl fmt::Display for ExchangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exchange {}", self.0)
    }
}

/// Two linked tickets from base: `+amount` to the receiver and `−amount` to the giver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leg {
    /// Who has fewer.
    pub giver: CurrencyId,
    /// Who has more.
    pub receiver: CurrencyId,
    /// Of what.
    #[serde(flatten)]
    pub good: Good,
    /// How many base tickets, 1 to [`MEMORY_KIB_MAX`]; hard ones of memory are KiB.
    pub amount: u64,
}

/// Linked tickets that end as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// 1 to [`LEGS_MAX`].
    pub legs: Vec<Leg>,
    /// When it ends: seconds since 1970. The ledger reads no clock; who keeps the time ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_s: Option<u64>,
    /// The offers that it fills; none where the givers' owners made it themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<OfferId>,
    /// Parties that have to renew it, and until when they have: seconds since 1970.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "leases::deserialize"
    )]
    pub leases: BTreeMap<CurrencyId, u64>,
}

/// Reads leases. Keys of JSON objects are text, and within a tagged enum (a
/// [`Change`](crate::Change)) serde hands them over as text even where a number is asked for.
mod leases {
    use crate::CurrencyId;
    use serde::{Deserialize, Deserializer, de::Error};
    use std::collections::BTreeMap;

    pub fn deserialize<'de, D>(from: D) -> Result<BTreeMap<CurrencyId, u64>, D::Error>
    where
        D: Deserializer<'de>,
    {
        let leases = BTreeMap::<String, u64>::deserialize(from)?;
        let read = |(party, until_s): (String, u64)| {
            let party = party.parse().map_err(D::Error::custom)?;
            Ok((CurrencyId(party), until_s))
        };
        leases.into_iter().map(read).collect()
    }
}

/// An exchange as a dealer found it: each party by one offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clearing {
    /// What it fills, wholly or in part: one offer of every party.
    pub offers: Vec<OfferId>,
    /// Who gives what to whom.
    pub legs: Vec<Leg>,
}

impl Exchange {
    /// An exchange without an end, and not of offers.
    pub fn of(legs: Vec<Leg>) -> Exchange {
        Exchange { legs, until_s: None, offers: Vec::new(), leases: BTreeMap::new() }
    }

    /// When it ends, as things are: seconds since 1970.
    pub fn ends_s(&self) -> Option<u64> {
        self.until_s.into_iter().chain(self.leases.values().copied()).min()
    }

    /// Everybody who gives or receives.
    pub fn parties(&self) -> BTreeSet<CurrencyId> {
        self.legs.iter().flat_map(|leg| [leg.giver, leg.receiver]).collect()
    }

    /// Everybody who gives.
    pub fn givers(&self) -> BTreeSet<CurrencyId> {
        self.legs.iter().map(|leg| leg.giver).collect()
    }

    /// Whether a currency receives and gives nothing.
    pub fn is_loan_to(&self, id: CurrencyId) -> bool {
        let receives = self.legs.iter().any(|leg| leg.receiver == id);
        receives && self.legs.iter().all(|leg| leg.giver != id)
    }
}

/// Why legs make no exchange, whoever asks; `None` where they do.
pub(crate) fn bad_legs(legs: &[Leg]) -> Option<&'static str> {
    if legs.is_empty() || legs.len() > LEGS_MAX {
        return Some("it has 1 to 4 legs");
    }
    legs.iter().find_map(|leg| {
        if leg.giver == leg.receiver {
            return Some("nobody gives tickets to itself");
        }
        if leg.good.kind == TicketKind::Transfer {
            return Some("soft or hard tickets are exchanged; transfers are made as a whole");
        }
        let in_range = (1..=MEMORY_KIB_MAX).contains(&leg.amount);
        (!in_range).then_some("a leg has at least 1 ticket, and no more than there can be")
    })
}
