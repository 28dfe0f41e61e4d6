//! What a currency is due against a user: the quantity of theorem 2.
//!
//! **Theorem 2 (isolation).** For an ordinary user *U*, a resource and a currency *x* that is
//! no job and that *U* does not own, no operation by *U* lowers what *x* is due against *U*;
//! so no sequence of them does. Operations by *U* are those that *U* asks for, and those that
//! the system makes for *U*'s processes: it places them, they fork, exit, are niced, end a
//! niced job, change among *U*'s own groups.
//!
//! Base is due the whole, a guest nothing. What *x* is due against *U* is the sum over the tickets that it
//! holds, all of them active, of
//!
//! - nothing, where *U* may take the ticket away (`c` on *x* or `i` on its issuer; an owner can
//!   set the mode and thus may do everything);
//! - hard: `amount / 1000` of what the issuer is due;
//! - soft: nothing where *U*'s own processes come in for shares by the policy's will (the
//!   issuer is the last level of a path on which the policy places them, or the family of one
//!   of them); else `amount / soft` of what the issuer's soft-ticket subcurrency is due, which
//!   is `(1000 - hard) / 1000` of what the issuer is due,
//! - transfer: all that the issuer is due, a client that lends: it is due nothing itself, while
//!   all its tickets, and the holder's, count as active here;
//!
//! where `soft` and `hard` are the totals that the issuer has issued, and in addition what *U*
//! has not taken up of what the policy gives: for each level of *U*'s paths that the issuer
//! funds, the amount that the policy gives above what the level has and has lent. So a user's
//! first login, a nice and its end, and lowering one's own base tickets and raising them again
//! within the default are no loss to anybody.

use crate::fraction::Fraction;
use ledger::{
    BASE, Class, Currency, CurrencyId, CurrencyKind, Funding, Ledger, Placements, PolicyKey,
    ProcessIdentity, Resource, Rights, Subject, Ticket, TicketKind,
};
use std::collections::{BTreeMap, BTreeSet};

/// Who may have acted: one user with all that is theirs.
#[derive(Clone, Debug)]
pub struct Party {
    /// User id.
    pub uid: u32,
    /// All their groups.
    pub groups: BTreeSet<u32>,
    /// Their processes.
    pub processes: BTreeSet<ProcessIdentity>,
    /// Where the policy puts those, or would: one path for each of their groups.
    pub paths: Vec<Placements>,
}

/// What everybody is due against a user.
pub type Dues = BTreeMap<(CurrencyId, Resource), Fraction>;

/// What every currency that is no job and not the party's own is due against the party.
pub fn dues(ledger: &Ledger, party: &Party) -> Dues {
    let reckoning = Reckoning::new(ledger, party);
    let resources: BTreeSet<&Resource> =
        ledger.tickets().map(|(_, ticket)| &ticket.resource).collect();
    let mut dues = Dues::new();
    for resource in resources {
        let mut known = BTreeMap::from([(BASE, Fraction::one())]);
        for currency in ledger.currencies() {
            let id = currency.id;
            let other = id == BASE || currency.is_job() || currency.record.owner == party.uid;
            if other || lends(ledger, id, resource) {
                continue;
            }
            let due = reckoning.due(id, resource, &mut known);
            if !due.is_zero() {
                dues.insert((id, resource.clone()), due);
            }
        }
    }
    dues
}

/// What a client has lent is the holder's due, not its own.
fn lends(ledger: &Ledger, id: CurrencyId, resource: &Resource) -> bool {
    let transfer = |ticket: &Ticket| ticket.kind == TicketKind::Transfer;
    ledger.issued(id).any(|(_, ticket)| transfer(ticket) && ticket.resource == *resource)
}

/// The first that is due less than it was.
pub fn loss(before: &Dues, after: &Dues) -> Option<String> {
    before.iter().find_map(|(who, was)| {
        let now = after.get(who).cloned().unwrap_or_else(Fraction::zero);
        let (id, resource) = who;
        (now < *was).then(|| format!("{id} was due {was} of {resource}, is due {now}"))
    })
}

struct Reckoning<'a> {
    ledger: &'a Ledger,
    powers: BTreeMap<CurrencyId, Rights>,
    joined: BTreeSet<CurrencyId>,
    // By issuer, resource and kind.
    untaken: BTreeMap<(CurrencyId, Resource, TicketKind), u64>,
}

impl<'a> Reckoning<'a> {
    fn new(ledger: &'a Ledger, party: &Party) -> Reckoning<'a> {
        let powers = ledger.currencies().map(|c| (c.id, power(c, party))).collect();
        let homes: BTreeMap<&PolicyKey, CurrencyId> =
            ledger.homes().map(|(key, home)| (key, home.currency)).collect();
        let mut joined = families(ledger, party);
        let mut untaken = BTreeMap::new();
        let mut counted = BTreeSet::new();
        for path in &party.paths {
            let mut issuer = Some(BASE);
            for level in &path.levels {
                let home = homes.get(&level.key).copied();
                if let Some(issuer) = issuer
                    && counted.insert((issuer, level.key.clone()))
                {
                    for given in &level.funding {
                        let rest = rest(ledger, issuer, home, given);
                        let which = (issuer, given.resource.clone(), given.kind);
                        *untaken.entry(which).or_default() += rest;
                    }
                }
                issuer = home;
            }
            joined.extend(issuer);
        }
        Reckoning { ledger, powers, joined, untaken }
    }

    fn due(
        &self,
        id: CurrencyId,
        resource: &Resource,
        known: &mut BTreeMap<CurrencyId, Fraction>,
    ) -> Fraction {
        if let Some(due) = known.get(&id) {
            return due.clone();
        }
        let mut sum = Fraction::zero();
        let guest = self.ledger.currency(id).is_some_and(|it| it.class() == Class::Guest);
        for (_, ticket) in self.ledger.backing(id).filter(|_| !guest) {
            let issuer = ticket.issuer;
            let takes = self.powers[&id].contain(Rights::CHANGE)
                || self.powers[&issuer].contain(Rights::ISSUE);
            let skip = ticket.resource != *resource || ticket.amount == 0 || takes;
            if skip || (ticket.kind == TicketKind::Soft && self.joined.contains(&issuer)) {
                continue;
            }
            let whole = self.due(issuer, resource, known);
            let part = match ticket.kind {
                // The lender's own due is its owner's doing, and nobody's who may take it back.
                TicketKind::Transfer => whole,
                TicketKind::Hard => {
                    whole.times(ticket.amount, self.ledger.hard_total(issuer, resource))
                }
                TicketKind::Soft => {
                    let total = self.ledger.hard_total(issuer, resource);
                    let hard = self.total(issuer, resource, TicketKind::Hard).min(total);
                    let soft = self.total(issuer, resource, TicketKind::Soft);
                    whole.times(total - hard, total).times(ticket.amount, soft)
                }
            };
            sum = sum.plus(&part);
        }
        known.insert(id, sum.clone());
        sum
    }

    fn total(&self, issuer: CurrencyId, resource: &Resource, kind: TicketKind) -> u64 {
        let tickets = self.ledger.issued(issuer).map(|(_, ticket)| ticket);
        let alike = tickets.filter(|t| t.resource == *resource && t.kind == kind);
        let issued: u64 = alike.map(|ticket| ticket.amount).sum();
        issued + self.untaken.get(&(issuer, resource.clone(), kind)).copied().unwrap_or(0)
    }
}

/// What the policy gives a level above what it has and has lent.
fn rest(ledger: &Ledger, issuer: CurrencyId, home: Option<CurrencyId>, given: &Funding) -> u64 {
    let Some(home) = home else { return given.amount };
    let held = ledger
        .backing(home)
        .map(|(_, ticket)| ticket)
        .filter(|t| t.issuer == issuer && t.resource == given.resource && t.kind == given.kind)
        .map(|ticket| ticket.amount)
        .sum::<u64>();
    let lendable = issuer == BASE && given.kind == TicketKind::Soft;
    let lent = if lendable { ledger.lent(home, &given.resource) } else { 0 };
    given.amount.saturating_sub(held + lent)
}

/// Families (jobs without a loan) that fund one of the party's processes.
fn families(ledger: &Ledger, party: &Party) -> BTreeSet<CurrencyId> {
    let own = |currency: &&Currency| currency.is_client() && currency.record.owner == party.uid;
    let family = |id: &CurrencyId| {
        let kind = ledger.currency(*id).map(|currency| &currency.record.kind);
        matches!(kind, Some(CurrencyKind::Job { loans }) if loans.is_empty())
    };
    let held = ledger.currencies().filter(own).flat_map(|currency| ledger.backing(currency.id));
    held.map(|(_, ticket)| ticket.issuer).filter(family).collect()
}

/// What the party can do to a currency, with any of its processes: table 1 of paper 1, and that
/// an owner can set the mode.
pub(crate) fn power(currency: &Currency, party: &Party) -> Rights {
    let record = &currency.record;
    if record.owner == party.uid {
        return Rights::ALL;
    }
    let by_mode = if party.groups.contains(&record.group) {
        record.mode.group()
    } else {
        record.mode.others()
    };
    let theirs = |subject: &Subject| match subject {
        Subject::Uid(uid) => *uid == party.uid,
        Subject::Gid(gid) => party.groups.contains(gid),
        Subject::Process(process) => party.processes.contains(process),
    };
    let granted = record.grants.iter().filter(|(subject, _)| theirs(subject));
    granted.fold(by_mode, |all, (_, rights)| all.union(*rights))
}
