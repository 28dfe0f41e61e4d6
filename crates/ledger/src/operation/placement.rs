//! The funding policy at work: who is placed where, and a user's base tickets.

use super::Operation;
use super::currency::is_name;
use crate::broker::Broker;
use crate::writer::Writer;
use crate::{
    AMOUNT_MAX, BASE, Change, Class, CurrencyId, CurrencyKind, CurrencyRecord, DiskLimit, Funding,
    HARD_TOTAL, Home, LIMITS_MAX, MEMORY_KIB_MAX, NewClient, Placement, Placements, PolicyKey,
    Refusal, Resource, SetLimit, Ticket, TicketKind,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

family! {
    /// What follows the funding policy.
    PlacementOperation as Placement {
        "set_base" => SetBase,
        "place" => Place,
        "follow_policy" => FollowPolicy,
    }
}

/// Sets a user's base tickets (paper 3, 3.1.3). More than the policy's amount, or another user's:
/// superuser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetBase {
    pub uid: u32,
    /// The policy's path for that user; its first level is set.
    pub placements: Placements,
    /// Soft CPU tickets.
    pub amount: u64,
}

impl Operation for SetBase {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        let SetBase { uid, placements, amount } = self;
        let (uid, amount) = (*uid, *amount);
        check_placements(placements)?;
        let level = &placements.levels[0];
        let own = level.key == PolicyKey::User(uid);
        let given = level.funding.iter().find(|funding| {
            own && funding.resource == Resource::CPU && funding.kind == TicketKind::Soft
        });
        let given = given.ok_or(Refusal::NoOwnHome(uid))?.amount;
        if !broker.is_superuser() && (broker.uid() != Some(uid) || amount > given) {
            return Err(Refusal::AboveDefault { given });
        }
        if amount == 0 {
            // A user who did it to themselves could not undo it: their shell is frozen too.
            broker.superuser("freeze all processes of a user")?;
        }
        let home = broker.ledger.home(&level.key).map(|home| home.currency);
        if let Some(home) = home {
            broker.owner_of(broker.currency(home)?, "set the base tickets")?;
        }
        let lent = home.map_or(0, |home| broker.ledger.lent(home, &Resource::CPU));
        if lent > 0 && amount <= lent {
            return Err(Refusal::BelowLent { uid, lent });
        }
        let held =
            home.and_then(|home| broker.ledger.held(home, BASE, &Resource::CPU, TicketKind::Soft));
        let before = held.map_or(0, |(_, ticket)| ticket.amount);
        let funding = Funding::soft(&Resource::CPU, amount);
        broker.room(broker.currency(BASE)?, &funding, before)
    }

    fn apply(self, writer: &mut Writer<'_>) {
        let home = writer.ensure_level(BASE, &self.placements.levels[0]);
        let amount = self.amount - writer.ledger.lent(home, &Resource::CPU);
        writer.fund(home, BASE, &Funding::soft(&Resource::CPU, amount));
    }

    fn describe(&self) -> String {
        format!("uid {} has {} base tickets", self.uid, self.amount)
    }
}

/// Makes a process that the policy names a client. The system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub client: NewClient,
    pub placements: Placements,
}

impl Operation for Place {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        broker.system("place processes")?;
        broker.process(&self.client)?;
        broker.not_yet_client(&self.client)?;
        check_placements(&self.placements)
    }

    fn apply(self, writer: &mut Writer<'_>) {
        let id = writer.new_client(self.client, true, Class::Host);
        writer.place(id, &self.placements);
    }

    fn describe(&self) -> String {
        let Place { client, placements } = self;
        let to = placements.levels.last().map_or("base", |level| level.name.as_str());
        format!("{} of uid {} funded by {to}", client.member.short(), client.uid)
    }
}

/// Brings a currency that the policy keeps below base up to date with a policy that has changed. The system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowPolicy {
    pub level: Placement,
}

impl Operation for FollowPolicy {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        broker.system("bring what the funding policy gives up to date")?;
        let levels = vec![self.level.clone()];
        check_placements(&Placements { levels, process: Vec::new() })
    }

    fn apply(self, writer: &mut Writer<'_>) {
        if writer.ledger.home(&self.level.key).is_some() {
            writer.ensure_level(BASE, &self.level);
        }
    }

    fn describe(&self) -> String {
        format!("{} has what the funding policy gives now", self.level.name)
    }
}

impl Writer<'_> {
    /// Funds a client from the last level of a path, whose currencies are made where missing.
    pub(super) fn place(&mut self, client: CurrencyId, placements: &Placements) {
        let last =
            placements.levels.iter().fold(BASE, |issuer, level| self.ensure_level(issuer, level));
        for funding in &placements.process {
            let funding = self.fit(last, funding, 0);
            self.fund(client, last, &funding);
        }
    }

    /// The currency of one level of the policy's path, made where it is missing. Its tickets
    /// follow the policy where nobody has set them otherwise.
    fn ensure_level(&mut self, issuer: CurrencyId, level: &Placement) -> CurrencyId {
        let known = self.ledger.home(&level.key).cloned();
        let id = match &known {
            Some(home) => home.currency,
            None => self.create(CurrencyRecord {
                name: self.free_name(level.owner, &level.name),
                owner: level.owner,
                group: level.group,
                mode: level.mode,
                grants: Vec::new(),
                limits: BTreeMap::new(),
                kind: CurrencyKind::Pure,
            }),
        };
        let (given, limits) = (level.funding.clone(), level.limits.clone());
        let home = Home { currency: id, given, limits };
        if known.as_ref() == Some(&home) {
            return id;
        }
        let given = known.as_ref().map_or(&[][..], |home| &home.given);
        let amount_in = |list: &[Funding], wanted: &Funding| {
            let same =
                |other: &&Funding| other.resource == wanted.resource && other.kind == wanted.kind;
            list.iter().find(same).map(|funding| funding.amount)
        };
        for old in given.iter().filter(|old| amount_in(&level.funding, old).is_none()) {
            if let Some((ticket, held)) = self.ledger.held(id, issuer, &old.resource, old.kind)
                && held.amount == old.amount
            {
                self.revoke(ticket);
            }
        }
        let by_hand = self.funded_by_hand(id, issuer, given);
        for new in &level.funding {
            let held = self.ledger.held(id, issuer, &new.resource, new.kind);
            let lendable = issuer == BASE && new.kind == TicketKind::Soft;
            let lent = if lendable { self.ledger.lent(id, &new.resource) } else { 0 };
            let untouched = match (held, amount_in(given, new)) {
                (None, None) => !by_hand.contains(&new.resource),
                (Some((_, ticket)), Some(amount)) => ticket.amount + lent == amount,
                _ => false,
            };
            if untouched {
                let before = held.map_or(0, |(_, ticket)| ticket.amount);
                let amount = new.amount.saturating_sub(lent).max(lent.min(1));
                let wanted = Funding { amount, ..new.clone() };
                let fitted = self.fit(issuer, &wanted, before);
                self.fund(id, issuer, &fitted);
            }
        }
        self.follow_limits(id, known.as_ref(), level);
        self.write(Change::Home { key: level.key.clone(), before: known, after: Some(home) });
        id
    }

    /// The resources of which a currency has tickets from an issuer of a kind that the policy has not given.
    fn funded_by_hand(
        &self,
        id: CurrencyId,
        issuer: CurrencyId,
        given: &[Funding],
    ) -> BTreeSet<Resource> {
        let is_given = |ticket: &Ticket| {
            given.iter().any(|it| it.resource == ticket.resource && it.kind == ticket.kind)
        };
        let backing = self.ledger.backing(id).map(|(_, ticket)| ticket);
        let by_hand = backing.filter(|ticket| ticket.issuer == issuer && !is_given(ticket));
        by_hand.map(|ticket| ticket.resource.clone()).collect()
    }

    /// Sets the hard caps of a level, and takes away those that the policy had set and has no more. Those that were set
    /// by hand stay.
    fn follow_limits(&mut self, id: CurrencyId, known: Option<&Home>, level: &Placement) {
        let given = known.map(|home| home.limits.clone()).unwrap_or_default();
        if given == level.limits {
            return;
        }
        self.edit(id, |record| {
            let limits = &mut record.limits;
            limits.retain(|resource, set| {
                level.limits.contains_key(resource) || given.get(resource) != Some(&set.limit)
            });
            for (resource, limit) in &level.limits {
                let untouched = match limits.get(resource) {
                    Some(set) => given.get(resource) == Some(&set.limit),
                    None => !given.contains_key(resource) && limits.len() < LIMITS_MAX,
                };
                if untouched {
                    limits.insert(resource.clone(), SetLimit { limit: *limit, by_superuser: true });
                }
            }
        });
    }

    fn free_name(&self, owner: u32, name: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        std::iter::once(name.to_owned())
            .chain(numbered)
            .find(|name| self.ledger.named(owner, name).is_none())
            .expect("some number is free")
    }
}

fn in_range(funding: &Funding) -> bool {
    match funding.kind {
        TicketKind::Soft => funding.amount <= AMOUNT_MAX,
        TicketKind::Hard => funding.amount <= HARD_TOTAL,
        TicketKind::Transfer => false,
    }
}

/// The first level of a path is funded from base, whose hard tickets of memory are an amount.
pub(super) fn in_range_of_base(funding: &Funding) -> bool {
    let is_amount = funding.kind == TicketKind::Hard && funding.resource.is_amount();
    if is_amount { funding.amount <= MEMORY_KIB_MAX } else { in_range(funding) }
}

/// Refuses a path that no currencies can be made of.
pub(super) fn check_placements(placements: &Placements) -> Result<(), Refusal> {
    let bad = |name: &str, why: &str| {
        Err(Refusal::BadPlacement { name: name.to_owned(), why: why.to_owned() })
    };
    if placements.levels.is_empty() {
        return bad("", "the path from base has no level");
    }
    for (depth, level) in placements.levels.iter().enumerate() {
        if !is_name(&level.name) {
            return bad(&level.name, "that is no name for a currency");
        }
        let in_range = if depth == 0 { in_range_of_base } else { in_range };
        if !level.funding.iter().all(in_range) {
            return bad(&level.name, "its amounts are out of range");
        }
        if let Some(why) = level.limits.values().find_map(DiskLimit::wrong) {
            return bad(&level.name, &why);
        }
        if !level.limits.keys().all(Resource::has_limits) {
            return bad(&level.name, "only disks have limits");
        }
    }
    if !placements.process.iter().all(in_range) {
        return bad(&placements.levels[0].name, "the amounts of its processes are out of range");
    }
    Ok(())
}
