//! What a currency can give away (paper 1, 4.3: an exchange is undone when a client's total base
//! value would become negative), in base tickets.
//!
//! 1. What a currency *covers* of a good is what its *main ticket* is sure to be worth in base's
//!    tickets of that kind: of the tickets that it holds of the resource, transfers excepted, the
//!    one that covers most; of several the one of the lowest issuer, soft before hard.
//! 2. A ticket from base covers fifteen sixteenths of its amount of its own kind, and nothing of
//!    the other: were soft tickets given away against hard ones, bystanders would pay while the
//!    giver is idle. The last sixteenth cannot be given away, by nobody whom the ticket funds: so
//!    whoever competes is worth more than nothing, and base's active tickets less the charges,
//!    by which values are divided, are never less than a sixteenth of the active ones. (Nice
//!    keeps one ticket for the same reason.)
//! 3. A ticket from another currency covers its guaranteed part of what that one covers less
//!    what it gives itself: soft `amount / issued · (1000 − hard) / 1000`, hard `amount / 1000`.
//! 4. What is received covers nothing. So the end of one exchange uncovers no other.
//! 5. A guest covers nothing: it is worth nothing.
//! 6. All that a currency gives of a good is at most what it covers.
//!
//! **Rounding down**: covers are counted in parts of [`COVER_ONE`] to one base ticket, and each
//! currency on the way drops its remainder, so a cover is never above what the ticket is worth.

use crate::{
    BASE, Change, Class, CurrencyId, Good, HARD_TOTAL, Issued, Ledger, Resource, TicketId,
    TicketKind,
};
use std::collections::{BTreeMap, BTreeSet};

/// A cover of one base ticket.
pub const COVER_ONE: u128 = 1 << 32;

/// What a ticket of a currency other than base covers (rule 3), given what its issuer covers and
/// does not give, in parts of [`COVER_ONE`], and what it has issued of the resource.
pub fn cover_through(rest: u128, kind: TicketKind, amount: u64, issued: Issued) -> u128 {
    let (amount, total) = (u128::from(amount), u128::from(HARD_TOTAL));
    match kind {
        // No issuer but base has hard tickets that are amounts, so all have 1000.
        TicketKind::Hard => rest * amount / total,
        TicketKind::Soft if amount > 0 => {
            let sub = u128::from(HARD_TOTAL.saturating_sub(issued.hard));
            // 2³⁴ base tickets of 2³² parts, 1000 and 10⁹ stay below 2¹⁰⁸.
            rest * sub * amount / (total * u128::from(issued.soft))
        }
        TicketKind::Soft | TicketKind::Transfer => 0,
    }
}

/// What a ticket from base covers of its own kind (rule 2), in parts of [`COVER_ONE`].
pub fn cover_by_base(amount: u64) -> u128 {
    u128::from(amount) * (COVER_ONE / 16 * 15)
}

/// The cover that gifts of `given` base tickets use up, in parts of [`COVER_ONE`].
pub fn cover_of(given: u64) -> u128 {
    u128::from(given) * COVER_ONE
}

/// What a currency has of a good, in base tickets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Of what.
    pub good: Good,
    /// What it has the use of when all compete: what its tickets are sure to be worth, and received,
    /// less given.
    pub held: u64,
    /// What it can give away besides what it gives.
    pub spare: u64,
}

/// More that is given than the ledger has written down: what a batch will give.
pub(crate) type Extra = BTreeMap<(CurrencyId, Good), u64>;

/// Covers that were computed, good while no ticket changes.
pub(crate) struct Covers<'a> {
    ledger: &'a Ledger,
    extra: &'a Extra,
    known: BTreeMap<(CurrencyId, Good), u128>,
}

impl<'a> Covers<'a> {
    pub(crate) fn of(ledger: &'a Ledger, extra: &'a Extra) -> Covers<'a> {
        Covers { ledger, extra, known: BTreeMap::new() }
    }

    // Recursion is bounded: no path is longer than DEPTH_MAX and a few job currencies.
    pub(crate) fn cover(&mut self, id: CurrencyId, good: &Good) -> u128 {
        let key = (id, good.clone());
        if let Some(cover) = self.known.get(&key) {
            return *cover;
        }
        let guest = self.ledger.currency(id).is_none_or(|it| it.class() == Class::Guest);
        let mut most = 0;
        if !guest {
            for (_, ticket) in self.ledger.backing(id) {
                self.ledger.work.note(1);
                if ticket.resource == good.resource {
                    most = most.max(self.by(ticket, good));
                }
            }
        }
        self.known.insert(key, most);
        most
    }

    fn by(&mut self, ticket: &crate::Ticket, good: &Good) -> u128 {
        if ticket.kind == TicketKind::Transfer {
            return 0;
        }
        if ticket.issuer == BASE {
            return if ticket.kind == good.kind { cover_by_base(ticket.amount) } else { 0 };
        }
        let given = cover_of(self.given(ticket.issuer, good));
        let rest = self.cover(ticket.issuer, good).saturating_sub(given);
        let issuer = self.ledger.currency(ticket.issuer).expect("an issuer exists");
        cover_through(rest, ticket.kind, ticket.amount, issuer.issued_of(&good.resource))
    }

    fn given(&self, id: CurrencyId, good: &Good) -> u64 {
        let extra = self.extra.get(&(id, good.clone())).copied().unwrap_or(0);
        self.ledger.given(id, good).saturating_add(extra)
    }

    /// Whether a currency covers all that it gives (rule 6).
    pub(crate) fn is_covered(&mut self, id: CurrencyId, good: &Good) -> bool {
        let given = self.given(id, good);
        given == 0 || cover_of(given) <= self.cover(id, good)
    }

    /// How many more base tickets a currency could give.
    pub(crate) fn spare(&mut self, id: CurrencyId, good: &Good) -> u64 {
        let most = self.cover(id, good) / COVER_ONE;
        u64::try_from(most).unwrap_or(u64::MAX).saturating_sub(self.given(id, good))
    }
}

impl Ledger {
    /// What a currency covers of a good, in parts of [`COVER_ONE`] to a base ticket; what it
    /// gives is not taken off.
    pub fn cover(&self, id: CurrencyId, good: &Good) -> u128 {
        Covers::of(self, &Extra::new()).cover(id, good)
    }

    /// How many base tickets of a good a currency could give away besides what it gives.
    pub fn spare(&self, id: CurrencyId, good: &Good) -> u64 {
        Covers::of(self, &Extra::new()).spare(id, good)
    }

    /// What a currency has of each good of which it has anything, in order of goods.
    pub fn holdings(&self, id: CurrencyId) -> Vec<Holding> {
        let extra = Extra::new();
        let mut covers = Covers::of(self, &extra);
        let funded = self.backing(id).map(|(_, ticket)| ticket.resource.clone());
        let legs = self.exchanges_of(id).flat_map(|(_, exchange)| &exchange.legs);
        let traded = legs.filter(|leg| leg.giver == id || leg.receiver == id);
        let resources: BTreeSet<Resource> =
            funded.chain(traded.map(|leg| leg.good.resource.clone())).collect();
        let kinds = [TicketKind::Soft, TicketKind::Hard];
        let goods = resources
            .into_iter()
            .flat_map(|resource| kinds.map(|kind| Good { resource: resource.clone(), kind }));
        let holding = |good: Good| {
            // What can be given, and the sixteenth that cannot.
            let own = covers.cover(id, &good) / 15 * 16 / COVER_ONE;
            let own = u64::try_from(own).unwrap_or(u64::MAX);
            let received = own.saturating_add(self.received(id, &good));
            let held = received.saturating_sub(self.given(id, &good));
            let spare = covers.spare(id, &good);
            (held > 0).then_some(Holding { good, held, spare })
        };
        goods.filter_map(holding).collect()
    }

    /// The first good of which a giver, among all that some changes concern, gives more than it
    /// covers; those that fund others come first.
    pub(crate) fn first_uncovered(&self, touched: &Touched) -> Option<(CurrencyId, Good)> {
        let extra = Extra::new();
        let mut covers = Covers::of(self, &extra);
        let kinds = [TicketKind::Soft, TicketKind::Hard];
        self.givers_below(touched).into_iter().find_map(|(id, resource)| {
            kinds.into_iter().find_map(|kind| {
                let good = Good { resource: resource.clone(), kind };
                (!covers.is_covered(id, &good)).then_some((id, good))
            })
        })
    }

    /// The givers among some currencies and all that these fund, each after those that fund it.
    pub(crate) fn givers_below(&self, touched: &Touched) -> Vec<(CurrencyId, Resource)> {
        let mut order = Vec::new();
        let mut entered = BTreeSet::new();
        for (start, resource) in touched {
            self.enter(*start, resource, &mut entered, &mut order);
        }
        order.reverse();
        order.retain(|(id, resource)| self.trades.gives(*id, resource));
        order
    }

    /// Depth first over the tickets that lead to givers: a currency is left after all below it.
    fn enter(
        &self,
        id: CurrencyId,
        resource: &Resource,
        entered: &mut BTreeSet<(CurrencyId, Resource)>,
        order: &mut Vec<(CurrencyId, Resource)>,
    ) {
        let key = (id, resource.clone());
        if !self.trades.is_lead(&key) || !entered.insert(key.clone()) {
            return;
        }
        for ticket in self.trades.leads(&key) {
            self.work.note(1);
            self.enter(self.tickets[&ticket].holder, resource, entered, order);
        }
        order.push(key);
    }

    /// A currency has begun or ceased to give, or to fund somebody who does: so it is with all
    /// that fund it, over any number of tickets. Base is not told: what it issues to others
    /// changes nobody's cover.
    pub(crate) fn relead(&mut self, id: CurrencyId, resource: &Resource, leads: bool) {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            let tickets: Vec<(TicketId, CurrencyId)> = self
                .backing(id)
                .filter(|(_, it)| it.resource == *resource && it.kind != TicketKind::Transfer)
                .map(|(ticket, it)| (ticket, it.issuer))
                .collect();
            self.work.note(tickets.len() as u64);
            for (ticket, issuer) in tickets {
                if issuer != BASE && self.trades.lead(issuer, resource, ticket, leads) {
                    open.push(issuer);
                }
            }
        }
    }
}

/// Currencies whose cover, or whose holders' cover, may be another than before.
pub(crate) type Touched = BTreeSet<(CurrencyId, Resource)>;

/// What some changes concern; nothing where nobody gives anything.
pub(crate) fn touched_by(ledger: &Ledger, changes: &[Change]) -> Touched {
    let mut touched = Touched::new();
    if ledger.trades.exchanges.is_empty() {
        return touched;
    }
    for change in changes {
        match change {
            Change::Ticket { before, after, .. } => {
                for ticket in before.iter().chain(after) {
                    touched.insert((ticket.holder, ticket.resource.clone()));
                    if ticket.issuer != BASE {
                        touched.insert((ticket.issuer, ticket.resource.clone()));
                    }
                }
            }
            Change::Currency { id, before: Some(before), after: Some(after) } => {
                if before.class() != after.class() {
                    touched.extend(ledger.trades.goods_of(*id).map(|it| (*id, it.resource)));
                }
            }
            Change::Exchange { after: Some(exchange), .. } => {
                let given = exchange.legs.iter();
                touched.extend(given.map(|leg| (leg.giver, leg.good.resource.clone())));
            }
            Change::Currency { .. }
            | Change::Exchange { after: None, .. }
            | Change::Offer { .. }
            | Change::Home { .. }
            | Change::Member { .. }
            | Change::Memory { .. } => {}
        }
    }
    touched
}
