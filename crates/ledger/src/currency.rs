//! Currencies, and the access rights that their brokers guard.

use crate::ledger::Below;
use crate::{Class, Member, ProcessIdentity, Resource, SetLimit, TicketId, TicketKind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// Identifies a currency: the paper's *cid* (paper 1, 5.1). Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CurrencyId(pub u64);

/// The root of every funding graph.
pub const BASE: CurrencyId = CurrencyId(0);

impl fmt::Display for CurrencyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// What a broker may allow (paper 1, table 1): a set of `f`, `c` and `i`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rights(u8);

impl Rights {
    /// No right.
    pub const NONE: Rights = Rights(0);
    /// `f`: fund the currency.
    pub const FUND: Rights = Rights(0b100);
    /// `c`: change it, by removing some of its funding or destroying it.
    pub const CHANGE: Rights = Rights(0b010);
    /// `i`: issue or revoke its tickets.
    pub const ISSUE: Rights = Rights(0b001);
    /// All three.
    pub const ALL: Rights = Rights(0b111);

    /// Whether every right of `other` is among these.
    pub const fn contain(self, other: Rights) -> bool {
        self.0 & other.0 == other.0
    }

    /// These and those.
    pub const fn union(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }

    const fn from_bits(bits: u16) -> Rights {
        Rights((bits & 0b111) as u8)
    }
}

/// A text that is no set of rights.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no set of rights; write letters of fci, `-` where one is missing, as in f-i")]
pub struct BadRights(pub String);

impl FromStr for Rights {
    type Err = BadRights;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut rights = Rights::NONE;
        for letter in text.chars() {
            rights = rights.union(match letter {
                'f' => Rights::FUND,
                'c' => Rights::CHANGE,
                'i' => Rights::ISSUE,
                '-' => Rights::NONE,
                _ => return Err(BadRights(text.to_owned())),
            });
        }
        Ok(rights)
    }
}

impl TryFrom<String> for Rights {
    type Error = BadRights;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Rights> for String {
    fn from(rights: Rights) -> Self {
        rights.to_string()
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (right, letter) in [(Rights::FUND, 'f'), (Rights::CHANGE, 'c'), (Rights::ISSUE, 'i')] {
            write!(f, "{}", if self.contain(right) { letter } else { '-' })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A currency's mode: rights of its owner, of its group and of all others, written as nine
/// letters, `fci--i---` (paper 1, 3.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mode(u16);

impl Mode {
    /// The owner may do everything, nobody else anything.
    pub const PRIVATE: Mode = Mode(0o700);

    /// From the rights of owner, group and others.
    pub const fn new(owner: Rights, group: Rights, others: Rights) -> Mode {
        Mode(((owner.0 as u16) << 6) | ((group.0 as u16) << 3) | others.0 as u16)
    }

    /// What the owner may do.
    pub const fn owner(self) -> Rights {
        Rights::from_bits(self.0 >> 6)
    }

    /// What a member of the group may do who is not the owner.
    pub const fn group(self) -> Rights {
        Rights::from_bits(self.0 >> 3)
    }

    /// What everybody else may do.
    pub const fn others(self) -> Rights {
        Rights::from_bits(self.0)
    }
}

/// A text that is no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no mode; write nine letters for owner, group and others, as in fci--i---, \
     or three octal digits, as in 710"
)]
pub struct BadMode(pub String);

impl FromStr for Mode {
    type Err = BadMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || BadMode(text.to_owned());
        if text.len() == 3 && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit)) {
            return u16::from_str_radix(text, 8).map(Mode).map_err(|_| bad());
        }
        if text.len() != 9 || !text.is_ascii() {
            return Err(bad());
        }
        let mut bits = 0;
        for (letter, place) in text.chars().zip("fcifcifci".chars()) {
            bits = bits << 1
                | match letter {
                    '-' => 0,
                    letter if letter == place => 1,
                    _ => return Err(bad()),
                };
        }
        Ok(Mode(bits))
    }
}

impl TryFrom<String> for Mode {
    type Error = BadMode;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Mode> for String {
    fn from(mode: Mode) -> Self {
        mode.to_string()
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.owner(), self.group(), self.others())
    }
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// To whom rights are granted besides the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// Every process of this user.
    Uid(u32),
    /// Every process of this group.
    Gid(u32),
    /// This process alone.
    Process(ProcessIdentity),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Uid(uid) => write!(f, "uid:{uid}"),
            Subject::Gid(gid) => write!(f, "gid:{gid}"),
            Subject::Process(process) => write!(f, "pid:{}", process.pid),
        }
    }
}

/// How much a currency has issued of one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issued {
    /// Sum of its soft tickets, at most [`ISSUED_MAX`](crate::ISSUED_MAX).
    pub soft: u64,
    /// Sum of its hard tickets, at most [`HARD_TOTAL`](crate::HARD_TOTAL). What is missing to
    /// that total funds the soft-ticket subcurrency (paper 1, figure 4).
    pub hard: u64,
    /// How many tickets it has issued, of any kind.
    pub tickets: u64,
}

impl Issued {
    /// Counts a ticket that comes or goes.
    pub(crate) fn count(&mut self, kind: TicketKind, amount: u64, comes: bool) {
        let sum = match kind {
            TicketKind::Soft => Some(&mut self.soft),
            TicketKind::Hard => Some(&mut self.hard),
            TicketKind::Transfer => None,
        };
        if let Some(sum) = sum {
            *sum = if comes { *sum + amount } else { *sum - amount };
        }
        self.tickets = if comes { self.tickets + 1 } else { self.tickets - 1 };
    }
}

/// What kind of node a currency is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CurrencyKind {
    /// The root.
    Base,
    /// A name: a user, a group, a project.
    Pure,
    /// A currency that exists for one job, so that what the job spawns shares its funding
    /// (paper 1, 5.6). Collected when it funds nobody any more.
    Job {
        /// Base tickets taken out of the owner's currencies for it, given back when it ends.
        loans: Vec<Loan>,
    },
    /// A leaf that consumes.
    Client {
        /// Its first member, with which it ends. Others [join](crate::operation::Join) and leave.
        #[serde(flatten)]
        founder: Member,
        /// Whether the funding policy put it here: then only the superuser can take it out.
        placed: bool,
        /// How it competes.
        #[serde(default, skip_serializing_if = "Class::is_host")]
        class: Class,
    },
}

impl CurrencyKind {
    /// A client that competes by its tickets and was not placed by the policy.
    pub fn client(founder: impl Into<Member>) -> CurrencyKind {
        CurrencyKind::Client { founder: founder.into(), placed: false, class: Class::Host }
    }
}

/// Soft base tickets lent to a job by a currency (paper 1, 5.6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loan {
    /// The ticket that was reduced.
    pub lender: CurrencyId,
    /// Of which resource.
    pub resource: Resource,
    /// By how much.
    pub amount: u64,
}

/// What a currency is, without the tickets around it: the part that is journaled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrencyRecord {
    /// Its name, unique among its owner's pure currencies; empty for jobs and clients.
    pub name: String,
    /// Owner's uid.
    pub owner: u32,
    /// Group's gid.
    pub group: u32,
    /// Rights of owner, group and others.
    pub mode: Mode,
    /// Rights granted besides the mode, in order of subject, at most
    /// [`GRANTS_MAX`](crate::GRANTS_MAX).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<(Subject, Rights)>,
    /// Hard caps on disks, at most [`LIMITS_MAX`](crate::LIMITS_MAX).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<Resource, SetLimit>,
    /// Base, pure, job or client.
    #[serde(rename = "nature")]
    pub kind: CurrencyKind,
}

impl CurrencyRecord {
    /// How it competes; who is no client is no guest.
    pub fn class(&self) -> Class {
        match self.kind {
            CurrencyKind::Client { class, .. } => class,
            _ => Class::Host,
        }
    }
}

/// A node of the funding graph: backed by tickets of other currencies, issuing its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Currency {
    /// Its *cid*.
    pub id: CurrencyId,
    /// What it is.
    pub record: CurrencyRecord,
    /// The tickets that it holds, oldest first.
    pub backing: BTreeSet<TicketId>,
    /// The tickets that it has issued, oldest first.
    pub issued: BTreeSet<TicketId>,
    /// Their totals.
    pub(crate) totals: BTreeMap<Resource, Issued>,
    /// Their holders, by how far these are from the leaves.
    pub(crate) below: Below,
}

impl Currency {
    /// With whom a client began and will end.
    pub fn founder(&self) -> Option<Member> {
        match self.record.kind {
            CurrencyKind::Client { founder, .. } => Some(founder),
            _ => None,
        }
    }

    /// The process that founded a client.
    pub fn process(&self) -> Option<ProcessIdentity> {
        self.founder().and_then(|founder| founder.process())
    }

    /// How it competes; who is no client is no guest.
    pub fn class(&self) -> Class {
        self.record.class()
    }

    /// Whether it is a leaf that consumes.
    pub fn is_client(&self) -> bool {
        matches!(self.record.kind, CurrencyKind::Client { .. })
    }

    /// Whether it exists for one job only.
    pub fn is_job(&self) -> bool {
        matches!(self.record.kind, CurrencyKind::Job { .. })
    }

    /// How much it has issued of one resource.
    pub fn issued_of(&self, resource: &Resource) -> Issued {
        self.totals.get(resource).copied().unwrap_or_default()
    }
}

#[cfg(kani)]
mod proofs {
    use super::*;
    use crate::{AMOUNT_MAX, ISSUED_MAX, MEMORY_KIB_MAX};

    fn any_kind() -> TicketKind {
        match kani::any() {
            0_u8 => TicketKind::Soft,
            1 => TicketKind::Hard,
            _ => TicketKind::Transfer,
        }
    }

    /// For all totals and amounts that a ledger can have: a ticket that comes and goes, or goes and comes, leaves
    /// the totals as they were, and nothing overflows.
    #[kani::proof]
    fn a_counted_ticket_is_undone() {
        let before = Issued { soft: kani::any(), hard: kani::any(), tickets: kani::any() };
        let (kind, amount, comes): (_, u64, bool) = (any_kind(), kani::any(), kani::any());
        kani::assume(before.soft <= ISSUED_MAX && before.hard <= MEMORY_KIB_MAX);
        kani::assume(before.tickets < u64::MAX && amount <= AMOUNT_MAX.max(MEMORY_KIB_MAX));
        let counted = match kind {
            TicketKind::Soft => before.soft,
            TicketKind::Hard => before.hard,
            TicketKind::Transfer => amount,
        };
        kani::assume(comes || (before.tickets > 0 && amount <= counted));
        let mut issued = before;
        issued.count(kind, amount, comes);
        issued.count(kind, amount, !comes);
        assert!(issued == before);
    }
}
