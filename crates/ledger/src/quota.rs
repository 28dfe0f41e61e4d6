//! Quotas: how much of the ledger one person may have, and how much all ordinary persons may have together, so that
//! nobody fills it, alone or in company.
//!
//! What the kernel and the funding policy make (clients of processes, their tickets, families of forks) is counted and
//! never refused: a quota refuses what somebody asks for.

use crate::{Currency, CurrencyId, CurrencyKind, CurrencyRecord, Ledger, Persons};
use std::collections::BTreeMap;
use std::fmt;

/// A part of the ledger that is counted for each owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A pure currency or a job.
    Currency,
    /// A grant on a currency.
    Grant,
    /// A ticket, for the owner of its holder.
    Ticket,
    /// A thread or a cgroup that has founded or joined a client, for the owner of the client.
    Member,
    /// An offer to exchange tickets.
    Offer,
    /// An exchange, once for each of the owner's currencies that gives in it.
    Exchange,
}

/// How much there may be of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Of one ordinary person, the subordinate uids included.
    pub per_person: usize,
    /// Of all ordinary persons together.
    pub in_all: usize,
}

impl Part {
    /// Every part.
    pub const ALL: [Part; 6] =
        [Part::Currency, Part::Grant, Part::Ticket, Part::Member, Part::Offer, Part::Exchange];

    /// The quota where nothing else is set.
    pub const fn quota(self) -> Quota {
        let (per_person, in_all) = match self {
            Part::Currency => (4096, 1 << 17),
            Part::Grant => (4096, 1 << 17),
            Part::Ticket => (1 << 16, 1 << 20),
            Part::Member => (1 << 14, 1 << 17),
            Part::Offer => (256, 1 << 17),
            Part::Exchange => (4096, 1 << 18),
        };
        Quota { per_person, in_all }
    }

    /// What makes room again.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Part::Currency => "destroy some that fund nothing",
            Part::Grant => "take some back",
            Part::Ticket => "unfund something",
            Part::Member => "let some leave, or release their clients",
            Part::Offer => "cancel some",
            Part::Exchange => "end some",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Currency => "currencies",
            Part::Grant => "grants",
            Part::Ticket => "tickets",
            Part::Member => "threads and cgroups in clients",
            Part::Offer => "offers",
            Part::Exchange => "exchanges in which they give",
        })
    }
}

/// A count of each part.
type Counts = [usize; Part::ALL.len()];

/// What everybody has, and may have.
#[derive(Clone, Debug)]
pub(crate) struct Quotas {
    by_owner: BTreeMap<u32, Counts>,
    in_all: Counts,
    limits: [Quota; Part::ALL.len()],
}

impl Default for Quotas {
    fn default() -> Self {
        Quotas {
            by_owner: BTreeMap::new(),
            in_all: Counts::default(),
            limits: Part::ALL.map(Part::quota),
        }
    }
}

/// Two are equal when they have counted the same, whatever they allow.
impl PartialEq for Quotas {
    fn eq(&self, other: &Quotas) -> bool {
        self.by_owner == other.by_owner
    }
}

impl Quotas {
    pub(crate) fn add(&mut self, owner: u32, part: Part, count: usize) {
        if count > 0 {
            self.by_owner.entry(owner).or_default()[part as usize] += count;
            self.in_all[part as usize] += count;
        }
    }

    pub(crate) fn remove(&mut self, owner: u32, part: Part, count: usize) {
        if count == 0 {
            return;
        }
        let counts = self.by_owner.get_mut(&owner).expect("the owner was counted");
        counts[part as usize] -= count;
        self.in_all[part as usize] -= count;
        if *counts == Counts::default() {
            self.by_owner.remove(&owner);
        }
    }

    pub(crate) fn set_limit(&mut self, part: Part, quota: Quota) {
        self.limits[part as usize] = quota;
    }

    fn of(&self, owner: u32, part: Part) -> usize {
        self.by_owner.get(&owner).map_or(0, |counts| counts[part as usize])
    }

    fn of_person(&self, persons: &Persons, uid: u32, part: Part) -> usize {
        let counts = persons.uids_of(uid).flat_map(|uids| self.by_owner.range(uids));
        counts.map(|(_, counts)| counts[part as usize]).sum()
    }
}

/// The parts of a currency's record, and how many it has of each.
pub(crate) fn parts_of(record: &CurrencyRecord) -> [(Part, usize); 3] {
    let (currency, member) = match &record.kind {
        CurrencyKind::Client { founder, .. } => (0, usize::from(founder.process().is_none())),
        CurrencyKind::Base | CurrencyKind::Pure | CurrencyKind::Job { .. } => (1, 0),
    };
    [(Part::Currency, currency), (Part::Member, member), (Part::Grant, record.grants.len())]
}

impl Ledger {
    /// How much of a part the person of a uid has.
    pub fn owned_by(&self, uid: u32, part: Part) -> usize {
        self.quotas.of_person(self.persons(), uid, part)
    }

    /// How much of a part all ordinary persons have together.
    pub fn owned_in_all(&self, part: Part) -> usize {
        let own = self.currency(crate::BASE).map_or(0, |base| base.record.owner);
        let superusers = self.quotas.of(0, part);
        let superusers = superusers + if own == 0 { 0 } else { self.quotas.of(own, part) };
        self.quotas.in_all[part as usize] - superusers
    }

    /// How much there may be of a part.
    pub fn quota(&self, part: Part) -> Quota {
        self.quotas.limits[part as usize]
    }

    /// Sets how much there may be of a part from now on. No part of the state, as with
    /// [`set_persons`](Ledger::set_persons).
    pub fn set_quota(&mut self, part: Part, quota: Quota) {
        self.quotas.set_limit(part, quota);
    }

    /// Moves to another owner what is counted for a currency besides its record.
    pub(crate) fn recount(&mut self, id: CurrencyId, before: u32, after: u32) {
        if before == after {
            return;
        }
        let tickets = self.currency(id).map_or(0, |currency: &Currency| currency.backing.len());
        let members = self.members(id).filter(|member| member.process().is_none()).count();
        let offers = self.trades.offers_of(id).count();
        let gives = self.exchanges_of(id).filter(|(_, it)| it.givers().contains(&id)).count();
        for (part, count) in [
            (Part::Ticket, tickets),
            (Part::Member, members),
            (Part::Offer, offers),
            (Part::Exchange, gives),
        ] {
            self.quotas.remove(before, part, count);
            self.quotas.add(after, part, count);
        }
    }
}
