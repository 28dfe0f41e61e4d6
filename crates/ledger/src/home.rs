//! What the funding policy keeps in the ledger (paper 1, 5.2: `cid_for_client`).

use crate::{CurrencyId, DiskLimit, Mode, Resource, TicketKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// For whom the funding policy keeps a currency.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum PolicyKey {
    /// One user.
    User(u32),
    /// One group.
    Group(u32),
    /// Everybody whom a named rule matches.
    Rule(String),
}

impl fmt::Display for PolicyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyKey::User(uid) => write!(f, "user:{uid}"),
            PolicyKey::Group(gid) => write!(f, "group:{gid}"),
            PolicyKey::Rule(name) => write!(f, "rule:{name}"),
        }
    }
}

/// A text that is no policy key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no policy key; write user:UID, group:GID or rule:NAME")]
pub struct BadPolicyKey(pub String);

impl FromStr for PolicyKey {
    type Err = BadPolicyKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || BadPolicyKey(text.to_owned());
        match text.split_once(':').ok_or_else(bad)? {
            ("user", uid) => uid.parse().map(PolicyKey::User).map_err(|_| bad()),
            ("group", gid) => gid.parse().map(PolicyKey::Group).map_err(|_| bad()),
            ("rule", name) if !name.is_empty() => Ok(PolicyKey::Rule(name.to_owned())),
            _ => Err(bad()),
        }
    }
}

impl TryFrom<String> for PolicyKey {
    type Error = BadPolicyKey;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<PolicyKey> for String {
    fn from(key: PolicyKey) -> Self {
        key.to_string()
    }
}

/// An amount of tickets, without who issues and who holds them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Funding {
    /// Of what.
    pub resource: Resource,
    /// Relative or fixed.
    pub kind: TicketKind,
    /// How many.
    pub amount: u64,
}

impl Funding {
    /// Soft tickets.
    pub(crate) fn soft(resource: &Resource, amount: u64) -> Funding {
        Funding { resource: resource.clone(), kind: TicketKind::Soft, amount }
    }
}

impl fmt::Display for Funding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            TicketKind::Soft => "soft",
            TicketKind::Hard => "hard",
            TicketKind::Transfer => "lent",
        };
        write!(f, "{} {kind} {} tickets", self.amount, self.resource)
    }
}

/// A currency that the funding policy keeps, and what it last gave it. Kept when its users log
/// out, so that what their base tickets were set to is not lost (paper 3, 3.1.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Home {
    /// Which currency.
    pub currency: CurrencyId,
    /// What the policy gave it; a ticket that still has this amount follows the policy when
    /// the policy changes, one that was set by hand does not.
    pub given: Vec<Funding>,
    /// Hard caps that the policy set, which follow it in the same way.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<Resource, DiskLimit>,
}

/// Where the policy puts a process: a level of the path from base to it. The first level is
/// funded by base, each further one by the level before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Whose home.
    pub key: PolicyKey,
    /// The name of its currency.
    pub name: String,
    /// Owner's uid of a new one.
    pub owner: u32,
    /// Group's gid of a new one.
    pub group: u32,
    /// Mode of a new one.
    pub mode: Mode,
    /// Its tickets from the level above.
    pub funding: Vec<Funding>,
    /// Its hard caps.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<Resource, DiskLimit>,
}

/// The levels from base down to the currency that funds a process, and what that process gets
/// from the last of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placements {
    /// At least one; the first is funded by base.
    pub levels: Vec<Placement>,
    /// What each new process gets.
    pub process: Vec<Funding>,
}
