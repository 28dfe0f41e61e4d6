//! What exchanges add to and take from values (paper 1, 4.3), continuing the rules of
//! [`Graph`](crate::Graph).
//!
//! 8. What is exchanged are base's tickets of a kind, of constant base value: a *unit* is what one
//!    active ticket of that kind is worth. What counts as active of base's tickets are those that
//!    active currencies hold, and what active ones have received, less what is charged.
//! 9. A currency's value is that of the tickets that it holds, and a unit for every base ticket
//!    that it has received, less one for every one that it is *charged*.
//! 10. A currency is charged what it gives while it is active. While it is not, the charge *sinks*
//!     to who issued its [main ticket](ledger::Ledger::cover), if need be on to the first one that
//!     is active: siblings of an idle giver share its part of their currency's value, and would
//!     else have twice what the receiver has already. It sinks from a soft ticket to the issuer's
//!     soft-ticket subcurrency, where that is active and the issuer has hard tickets too, and else
//!     to all that the issuer has. Where all are idle up to base, nothing is charged: the tickets
//!     from base that cover the gift are idle, and the receiver's compete in their place.
//!
//! **Why nobody else pays.** Let *c* be what a currency covers, *g* what it gives, and `N = c − g`.
//! An active currency's main ticket is worth at least `c` units; for it holds of a ticket from
//! base, and if it holds of the issuer, which is worth `N` units and more, then the charges that
//! sank there are from idle siblings and at most their parts of `N`: so the active ones divide at
//! least `N · active / issued` by `active`, each has its part of all `N`. As gifts are covered,
//! no value is negative; and more than that part is never taken from those who gave nothing, so
//! whoever is active is worth no less than it is sure of. Units do not shrink: what is received
//! from an idle chain is less than what the chain's idle ticket from base would count. So active
//! values are at least the guaranteed ones; these are reckoned with every ticket active, all is
//! charged where it was given, base's tickets are as many as it has issued: nothing in them
//! depends on exchanges but the values of the parties and of those whom they fund.
//!
//! **Rounding**: gains are rounded down, charges up, each by less than 17 parts of
//! [`WHOLE`](crate::WHOLE) for each kind: values never sum to more than the whole. (Base's
//! subcurrency is divided by at least a sixteenth of the tickets that one of its holders has.)

use crate::graph::{Graph, Pools};
use crate::{Sum, WHOLE};
use ledger::{
    Class, CurrencyId, Exchange, Issued, TicketKind, cover_by_base, cover_of, cover_through,
};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// The kinds of tickets that are exchanged.
const KINDS: [TicketKind; 2] = [TicketKind::Soft, TicketKind::Hard];

/// Base tickets, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goods {
    /// Soft ones.
    pub soft: u64,
    /// Hard ones; of memory an amount, in KiB.
    pub hard: u64,
}

impl Goods {
    fn of(&self, kind: TicketKind) -> u64 {
        match kind {
            TicketKind::Soft => self.soft,
            TicketKind::Hard => self.hard,
            TicketKind::Transfer => unreachable!("transfers are not exchanged"),
        }
    }

    fn change(&mut self, kind: TicketKind, amount: u64, more: bool) {
        let sum = match kind {
            TicketKind::Soft => &mut self.soft,
            TicketKind::Hard => &mut self.hard,
            TicketKind::Transfer => unreachable!("transfers are not exchanged"),
        };
        *sum = if more { *sum + amount } else { *sum - amount };
    }

    fn change_all(&mut self, other: Goods, more: bool) {
        KINDS.into_iter().for_each(|kind| self.change(kind, other.of(kind), more));
    }

    fn plus(mut self, other: Goods) -> Goods {
        self.change_all(other, true);
        self
    }

    fn is_none(self) -> bool {
        self == Goods::default()
    }
}

/// What an active currency has received in exchanges, and is charged (rules 9 and 10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charges {
    /// What it has received.
    pub received: Goods,
    /// What it is charged on all that it has.
    pub charged: Goods,
    /// What its soft-ticket subcurrency is charged besides.
    pub charged_soft: Goods,
}

/// A currency's part in exchanges: its own, and what sinks to it.
#[derive(Clone, Debug, Default)]
struct Part {
    given: Goods,
    received: Goods,
    // What idle holders of its tickets are charged: on all that it has, or on its soft-ticket
    // subcurrency.
    sunk: Goods,
    sunk_soft: Goods,
    // Where its own charge sinks: soft and hard base tickets apart.
    main: [Option<Main>; 2],
}

/// A main ticket.
#[derive(Clone, Copy, Debug)]
struct Main {
    issuer: u32,
    soft: bool,
}

/// The exchanges of one resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exchanges {
    // Looked up by place, and walked in its order.
    parts: std::collections::BTreeMap<u32, Part>,
    received_active: Goods,
    given: Goods,
    /// Of what is given: whose chain of main tickets is idle up to base.
    uncharged: Goods,
    /// Whether the charges were not reckoned since some ticket changed.
    stale: bool,
}

impl Exchanges {
    /// Tickets have changed, and with them main tickets and covers.
    pub(crate) fn spoil(&mut self) {
        self.stale = !self.parts.is_empty();
    }

    pub(crate) fn remove(&mut self, place: u32) {
        if let Some(part) = self.parts.remove(&place) {
            assert!(part.given.is_none() && part.received.is_none(), "removed without exchanges");
        }
    }

    /// Whether somebody active has received any.
    pub(crate) fn any_active(&self) -> bool {
        !self.received_active.is_none()
    }
}

impl Graph {
    /// What a currency gives and has received in exchanges. For enforcers that value tickets
    /// elsewhere.
    pub fn exchanged(&self, id: CurrencyId) -> (Goods, Goods) {
        let part = self.place_of(id).and_then(|place| self.exchanges.parts.get(&place));
        part.map_or_else(Default::default, |part| (part.given, part.received))
    }

    /// What counts for a currency's value while it is active. For those who count what tickets were
    /// due over time.
    pub fn charges(&mut self, id: CurrencyId) -> Charges {
        self.reckon();
        let Some(place) = self.place_of(id) else { return Charges::default() };
        let Some(part) = self.exchanges.parts.get(&place) else { return Charges::default() };
        let (received, own) = (part.received, part.given.plus(part.sunk));
        match self.soft_is_apart(place) {
            true => Charges { received, charged: own, charged_soft: part.sunk_soft },
            false => Charges {
                received,
                charged: own.plus(part.sunk_soft),
                charged_soft: Goods::default(),
            },
        }
    }

    /// Where the charge of what a currency gives of a kind comes to (rule 10): the currency itself,
    /// then who issued its main ticket, and so on up to base, which is left out. With each issuer,
    /// whether the ticket that leads there is soft. Empty for who gives none. For enforcers that
    /// value tickets elsewhere.
    pub fn charge_way(&self, giver: CurrencyId, kind: TicketKind) -> Vec<(CurrencyId, bool)> {
        if self.exchanged(giver).0.of(kind) == 0 {
            return Vec::new();
        }
        let mut way = vec![(giver, false)];
        let mut covers = Covers::default();
        let mut place = self.place_of(giver).expect("it gives");
        while let (_, Some(main)) = self.cover(place, kind, &mut covers) {
            if main.issuer == self.base() {
                break;
            }
            way.push((self.node_id(main.issuer), main.soft));
            place = main.issuer;
        }
        way
    }

    /// Whether anything of this resource is exchanged.
    pub fn has_exchanges(&self) -> bool {
        !self.exchanges.given.is_none()
    }

    /// An exchange is made or ends.
    pub(crate) fn exchange(&mut self, exchange: &Exchange, made: bool) {
        for leg in &exchange.legs {
            if leg.good.resource != *self.resource() {
                continue;
            }
            let (kind, amount) = (leg.good.kind, leg.amount);
            let place = |id| self.place_of(id).expect("a party exists");
            let (giver, receiver) = (place(leg.giver), place(leg.receiver));
            let active = self.node_is_active(receiver);
            let all = &mut self.exchanges;
            all.parts.entry(giver).or_default().given.change(kind, amount, made);
            all.parts.entry(receiver).or_default().received.change(kind, amount, made);
            all.given.change(kind, amount, made);
            if active {
                all.received_active.change(kind, amount, made);
            }
            all.stale = true;
            self.forget();
        }
    }

    /// Sets what a currency, not active yet, gives and receives. Totals must have been checked.
    pub(crate) fn restore_exchanged(&mut self, id: CurrencyId, given: Goods, received: Goods) {
        if given.is_none() && received.is_none() {
            return;
        }
        let place = self.place_of(id).expect("the currency was added");
        let part = self.exchanges.parts.entry(place).or_default();
        (part.given, part.received) = (given, received);
        self.exchanges.given.change_all(given, true);
    }

    /// Marks charges as not computed.
    pub(crate) fn spoil_exchanged(&mut self) {
        self.exchanges.spoil();
        self.forget();
    }

    /// The first currency that gives more than it covers.
    pub(crate) fn first_uncovered(&self) -> Option<CurrencyId> {
        let mut covers = Covers::default();
        let mut covered = |place: u32, kind, given| {
            given == 0 || self.cover(place, kind, &mut covers).0 >= cover_of(given)
        };
        let mut parts = self.exchanges.parts.iter();
        let uncovered = parts.find(|(place, part)| {
            !KINDS.into_iter().all(|kind| covered(**place, kind, part.given.of(kind)))
        });
        uncovered.map(|(place, _)| self.node_id(*place))
    }

    /// A currency has become active or idle, and is marked so.
    pub(crate) fn sink(&mut self, place: u32, active: bool) {
        let Some(part) = self.exchanges.parts.get(&place) else { return };
        let received = part.received;
        self.exchanges.received_active.change_all(received, active);
        if self.exchanges.stale {
            return;
        }
        let part = &self.exchanges.parts[&place];
        let carried = part.given.plus(part.sunk).plus(part.sunk_soft);
        for kind in KINDS {
            self.carry(place, kind, carried.of(kind), !active);
        }
    }

    /// A charge of an idle currency comes to, or leaves, all up to the first that is active.
    fn carry(&mut self, mut place: u32, kind: TicketKind, amount: u64, comes: bool) {
        if amount == 0 {
            return;
        }
        loop {
            let main = self.exchanges.parts[&place].main[index_of(kind)];
            let Some(Main { issuer, soft }) = main.filter(|main| main.issuer != self.base()) else {
                self.exchanges.uncharged.change(kind, amount, comes);
                return;
            };
            let part = self.exchanges.parts.get_mut(&issuer).expect("the way was reckoned");
            let sunk = if soft { &mut part.sunk_soft } else { &mut part.sunk };
            sunk.change(kind, amount, comes);
            if self.node_is_active(issuer) {
                return;
            }
            place = issuer;
        }
    }

    /// Reckon main tickets and charges anew, where tickets have changed.
    pub(crate) fn reckon(&mut self) {
        if !std::mem::take(&mut self.exchanges.stale) {
            return;
        }
        let all = &mut self.exchanges;
        all.uncharged = Goods::default();
        all.parts.retain(|_, part| {
            (part.sunk, part.sunk_soft, part.main) = Default::default();
            !(part.given.is_none() && part.received.is_none())
        });
        let givers: Vec<u32> = all.parts.keys().copied().collect();
        let mut covers = Covers::default();
        for giver in givers {
            let given = self.exchanges.parts[&giver].given;
            for kind in KINDS.into_iter().filter(|kind| given.of(*kind) > 0) {
                self.reckon_way(giver, kind, &mut covers);
                if !self.node_is_active(giver) {
                    self.carry(giver, kind, given.of(kind), true);
                }
            }
        }
    }

    /// The main tickets from a giver up to base.
    fn reckon_way(&mut self, giver: u32, kind: TicketKind, covers: &mut Covers) {
        let mut place = giver;
        while place != self.base() {
            let (_, main) = self.cover(place, kind, covers);
            let part = self.exchanges.parts.entry(place).or_default();
            part.main[index_of(kind)] = main;
            let Some(main) = main else { return };
            place = main.issuer;
        }
    }

    /// By the rules of [`ledger::Ledger::cover`].
    fn cover(&self, place: u32, kind: TicketKind, known: &mut Covers) -> (u128, Option<Main>) {
        if let Some(found) = known.get(&(place, kind)) {
            return *found;
        }
        let mut best = (0, None);
        let mut rank = None;
        if self.node_class(place) == Class::Host {
            for edge in self.edges(place).filter(|edge| edge.kind != TicketKind::Transfer) {
                let cover = if edge.issuer == self.base() {
                    if edge.kind == kind { cover_by_base(edge.amount) } else { 0 }
                } else {
                    let (cover, _) = self.cover(edge.issuer, kind, known);
                    let given = self.exchanges.parts.get(&edge.issuer);
                    let given = given.map_or(0, |part| part.given.of(kind));
                    let Pools { soft, hard, .. } = self.node_issued(edge.issuer);
                    let issued = Issued { soft, hard, tickets: 0 };
                    let rest = cover.saturating_sub(cover_of(given));
                    cover_through(rest, edge.kind, edge.amount, issued)
                };
                let this = Some((self.node_id(edge.issuer), edge.kind));
                if cover > best.0 || (cover > 0 && cover == best.0 && this < rank) {
                    let soft = edge.kind == TicketKind::Soft;
                    best = (cover, Some(Main { issuer: edge.issuer, soft }));
                    rank = this;
                }
            }
        }
        known.insert((place, kind), best);
        best
    }

    /// What counts as active of base's tickets (rule 8).
    pub(crate) fn base_active(&self, active: Pools) -> Pools {
        let all = &self.exchanges;
        if all.given.is_none() {
            return active;
        }
        let net = |kind, active: u64| {
            let idle = all.uncharged.of(kind);
            // Positive or 0 once the ledger has undone what is not covered; an operation's
            // changes come one at a time.
            (active + all.received_active.of(kind) + idle).saturating_sub(all.given.of(kind))
        };
        let soft = net(TicketKind::Soft, active.soft);
        let hard = net(TicketKind::Hard, active.hard);
        Pools { soft, hard, ..active }
    }

    /// A currency's value with what was received and what is charged (rule 9).
    pub(crate) fn net_value(&self, place: u32, value: u64) -> u64 {
        let Some(part) = self.exchanges.parts.get(&place) else { return value };
        let own = part.given.plus(part.sunk);
        let charge = if self.soft_is_apart(place) { own } else { own.plus(part.sunk_soft) };
        let worth = |goods: Goods, up: bool| self.units(goods, up);
        (value + worth(part.received, false)).saturating_sub(worth(charge, true))
    }

    /// What is left of the value of a currency's soft-ticket subcurrency when it is charged what
    /// sank there.
    pub(crate) fn net_soft(&self, place: u32, value: u64) -> u64 {
        match self.exchanges.parts.get(&place) {
            Some(part) if self.soft_is_apart(place) => {
                value.saturating_sub(self.units(part.sunk_soft, true))
            }
            _ => value,
        }
    }

    /// Whether a currency's soft tickets compete as one with its hard ones.
    fn soft_is_apart(&self, place: u32) -> bool {
        self.node_issued(place).hard > 0 && self.node_active_issued(place).soft > 0
    }

    /// What base tickets are worth now, rounded up or down.
    fn units(&self, goods: Goods, up: bool) -> u64 {
        let Sum { soft, competing } = self.base_sum();
        let mut value = 0;
        if goods.hard > 0 && competing > 0 {
            value += part(WHOLE, goods.hard, competing, up);
        }
        if goods.soft > 0 && soft > 0 {
            let pool = match competing {
                0 => WHOLE,
                _ => part(WHOLE, self.base_sub(), competing, up),
            };
            value += part(pool, goods.soft, soft, up);
        }
        value
    }

    /// A currency's guaranteed value with what it received and gave: of base's tickets all are
    /// active then, and all that was received was given.
    pub(crate) fn net_guaranteed(&self, place: u32, value: u64) -> u64 {
        let Some(part_of) = self.exchanges.parts.get(&place) else { return value };
        let total = self.base_total();
        let issued = self.node_issued(self.base());
        let worth = |goods: Goods, up: bool| {
            let mut value = part(WHOLE, goods.hard, total, up);
            if goods.soft > 0 && issued.soft > 0 {
                let pool = part(WHOLE, self.base_sub(), total, up);
                value += part(pool, goods.soft, issued.soft, up);
            }
            value
        };
        (value + worth(part_of.received, false)).saturating_sub(worth(part_of.given, true))
    }
}

type Covers = FxHashMap<(u32, TicketKind), (u128, Option<Main>)>;

fn index_of(kind: TicketKind) -> usize {
    usize::from(kind == TicketKind::Hard)
}

/// `value · part / whole`.
pub(crate) fn part(value: u64, part: u64, whole: u64, up: bool) -> u64 {
    let product = u128::from(value) * u128::from(part);
    let whole = u128::from(whole);
    let quotient = if up { product.div_ceil(whole) } else { product / whole };
    u64::try_from(quotient).unwrap_or(u64::MAX)
}
