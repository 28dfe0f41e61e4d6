//! Base values in integers (paper 1, 2.1, 3.3 and 5.3).
//!
//! 1. Base's own value is [`WHOLE`], whatever it has issued: values are parts of the machine.
//! 2. A client is active while it competes; any other currency while a ticket of a positive
//!    amount that it issued backs an active currency (paper 1, note 2: the tickets of who has
//!    left the competition are deactivated).
//! 3. A currency's hard tickets total [`HARD_TOTAL`]; what it has not issued of them funds its
//!    *soft-ticket subcurrency* (paper 1, figure 4), which every graph keeps implicitly: it is
//!    active while a soft ticket is. The currency's value is divided among its active hard
//!    tickets, the subcurrency's included, in proportion to their amounts.
//!    Base's hard tickets of **memory** are an amount (paper 1, 5.4): they total what base has to
//!    promise ([`Ledger::hard_total`]), and that is what they are divided by whoever is active. A
//!    share of memory is what a client is sure to keep; what others leave idle is nobody's share.
//! 4. Soft tickets divide the value of the soft-ticket subcurrency in proportion to the active
//!    amounts. Where it has no hard tickets left and no hard ticket is active, it has all.
//! 5. A currency's value is the sum of the values of the tickets that it holds.
//! 6. A client that has lent its tickets (a *transfer*, paper 1, 5.3) is, for these rules, a
//!    currency with one ticket: all that it would be worth is the holder's, and its tickets are
//!    active while the holder is. The client itself is worth 0, whether it competes or not.
//! 7. A guest (paper 4) competes with no host: it is never active and worth 0, and so is all that
//!    others have lent it.
//!
//! Rules 8 to 10, of exchanges, stand in `exchanged.rs`.
//!
//! **Rounding down**: each division drops its remainder, less than one part of `WHOLE`. So the
//! values of what a currency issues never exceed its own, and over the whole graph the active
//! clients' values fall short of `WHOLE` by less than the number of active tickets plus the
//! number of currencies that issue them.
//!
//! An activation climbs only as far as currencies turn active or inactive; values are computed
//! when asked for, along the path to base, and remembered until something changes.

use crate::exchanged::Exchanges;
use ledger::{
    BASE, Change, Class, CurrencyId, CurrencyKind, CurrencyRecord, HARD_TOTAL, Ledger, Resource,
    Ticket, TicketKind,
};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Base's own value. 2⁴⁸ parts leave a millionth client 28 bits of precision.
pub const WHOLE: u64 = 1 << 48;

/// One resource's funding graph with who is active in it. It is written and read as
/// [facts](crate::GraphFacts), which are checked.
#[derive(Clone, Debug)]
pub struct Graph {
    resource: Resource,
    nodes: Vec<Node>,
    // Looked up, never iterated: its order does not matter.
    places: FxHashMap<CurrencyId, u32>,
    free: Vec<u32>,
    base: u32,
    /// Of memory: what base has to promise, in KiB (rule 3); 0 where that was not told.
    memory_kib: u64,
    // Remembered values are good for one stamp. Activity does not change what is guaranteed.
    stamp_now: u64,
    stamp_funding: u64,
    pub(crate) exchanges: Exchanges,
}

#[derive(Clone, Debug)]
struct Node {
    id: CurrencyId,
    client: bool,
    class: Class,
    // A client that was said to compete.
    competes: bool,
    active: bool,
    backing: Vec<Edge>,
    issued: Pools,
    active_issued: Pools,
    // Active tickets of a positive amount that it issued.
    active_tickets: u64,
    value: Remembered,
    guaranteed: Remembered,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) issuer: u32,
    pub(crate) kind: TicketKind,
    pub(crate) amount: u64,
}

/// What a currency has issued, or what of that is active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pools {
    /// Sum of the soft tickets.
    pub soft: u64,
    /// Sum of the hard tickets.
    pub hard: u64,
    /// The one transfer ticket of a client that has lent all the others.
    pub transfer: u64,
}

/// What competes for a currency's value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum {
    /// Soft tickets.
    pub(crate) soft: u64,
    /// Hard tickets, the soft-ticket subcurrency's included; of amounts, all that there are.
    pub(crate) competing: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Remembered {
    stamp: u64,
    value: u64,
}

/// A currency of a [`Graph`] with the tickets that it holds.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    /// Which.
    pub id: CurrencyId,
    /// Whether it consumes. A client that has lent its tickets is still one, worth 0 itself.
    pub is_client: bool,
    /// How it competes: a guest is never active, so nothing that it holds ever counts.
    pub class: Class,
    /// What it has issued, active or not.
    pub issued: Pools,
    graph: &'a Graph,
    node: &'a Node,
}

impl<'a> NodeView<'a> {
    /// The tickets that it holds, those of amount 0 included.
    pub fn backing(&self) -> impl Iterator<Item = Backing> + use<'a> {
        let graph = self.graph;
        self.node.backing.iter().map(move |edge| Backing {
            issuer: graph.nodes[edge.issuer as usize].id,
            kind: edge.kind,
            amount: edge.amount,
        })
    }
}

/// A ticket, from its holder's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backing {
    /// Who issued it.
    pub issuer: CurrencyId,
    /// How its amount becomes a share.
    pub kind: TicketKind,
    /// How many.
    pub amount: u64,
}

impl Pools {
    fn of(&mut self, kind: TicketKind) -> &mut u64 {
        match kind {
            TicketKind::Soft => &mut self.soft,
            TicketKind::Hard => &mut self.hard,
            TicketKind::Transfer => &mut self.transfer,
        }
    }
}

impl Node {
    fn has_lent(&self) -> bool {
        self.issued.transfer > 0
    }

    /// Whether the rules say that it is active.
    fn should_be_active(&self) -> bool {
        match self.class {
            Class::Guest => false,
            Class::Host if self.client && !self.has_lent() => self.competes,
            Class::Host => self.active_tickets > 0,
        }
    }
}

/// `value · part / whole`, rounding down.
pub(crate) fn share(value: u64, part: u64, whole: u64) -> u64 {
    (u128::from(value) * u128::from(part) / u128::from(whole)) as u64
}

impl Graph {
    /// The graph of one resource of a ledger, nobody active.
    pub fn of(ledger: &Ledger, resource: Resource) -> Graph {
        let mut graph = Graph::empty(resource, ledger.memory_kib());
        graph.nodes.reserve(ledger.currency_count());
        for currency in ledger.currencies() {
            graph.add(currency.id, &currency.record);
        }
        graph.find_base();
        for (_, ticket) in ledger.tickets() {
            graph.attach(ticket);
        }
        for (_, exchange) in ledger.exchanges() {
            graph.exchange(exchange, true);
        }
        graph
    }

    /// A graph without currencies.
    pub(crate) fn empty(resource: Resource, memory_kib: u64) -> Graph {
        Graph {
            resource,
            nodes: Vec::new(),
            places: FxHashMap::default(),
            free: Vec::new(),
            base: 0,
            memory_kib,
            stamp_now: 1,
            stamp_funding: 1,
            exchanges: Exchanges::default(),
        }
    }

    /// Notes where base is, once all currencies were added.
    pub(crate) fn find_base(&mut self) {
        self.base = self.places[&BASE];
    }

    /// Which resource's.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Follow a change of the ledger. Changes must come in their order, none left out.
    pub fn follow(&mut self, change: &Change) {
        match change {
            Change::Currency { id, before: None, after: Some(record) } => {
                self.add(*id, record);
            }
            Change::Currency { id, before: Some(_), after: None } => self.remove(*id),
            Change::Currency { id, before: Some(before), after: Some(after) } => {
                if before.class() != after.class() {
                    let place = self.places[id];
                    self.nodes[place as usize].class = after.class();
                    self.exchanges.spoil();
                    self.forget();
                    self.settle(place);
                }
            }
            Change::Ticket { before, after, .. } => {
                if let Some(ticket) = before {
                    self.detach(ticket);
                }
                if let Some(ticket) = after {
                    self.attach(ticket);
                }
            }
            Change::Memory { after, .. } => {
                self.memory_kib = *after;
                self.forget();
            }
            Change::Exchange { before, after, .. } => {
                if let Some(exchange) = before {
                    self.exchange(exchange, false);
                }
                if let Some(exchange) = after {
                    self.exchange(exchange, true);
                }
            }
            Change::Currency { before: None, after: None, .. }
            | Change::Offer { .. }
            | Change::Home { .. }
            | Change::Member { .. } => {}
        }
    }

    /// Let a client join or leave the competition. Answers whether that changed anything.
    /// Currencies that are no client of this graph are left alone. Of a guest, or one that has
    /// lent its tickets, it is remembered until it is neither.
    pub fn set_active(&mut self, client: CurrencyId, active: bool) -> bool {
        let Some(&place) = self.places.get(&client) else { return false };
        let node = &mut self.nodes[place as usize];
        if !node.client || node.competes == active {
            return false;
        }
        node.competes = active;
        self.stamp_now += 1;
        self.settle(place);
        true
    }

    /// Whether the tickets that a currency holds are active. Those of a client that has lent them
    /// are while the holder's are; a guest's never.
    pub fn is_active(&self, id: CurrencyId) -> bool {
        self.places.get(&id).is_some_and(|place| self.node_is_active(*place))
    }

    /// What a currency is due now, in parts of [`WHOLE`]; 0 for one that is not active, or has
    /// lent its tickets.
    pub fn value(&mut self, id: CurrencyId) -> u64 {
        self.reckon();
        self.own_place(id).map_or(0, |place| self.value_at(place))
    }

    /// What a currency is sure of, in parts of [`WHOLE`]: its value when every ticket is active
    /// and, once hard tickets were issued, all of them; 0 for one that has lent its tickets, and
    /// for a guest.
    pub fn guaranteed(&mut self, id: CurrencyId) -> u64 {
        self.own_place(id).map_or(0, |place| self.guaranteed_at(place))
    }

    /// How much memory a value is, in bytes, rounded up; 0 where it was not told how much there is.
    pub fn memory_bytes(&self, value: u64) -> u64 {
        let bytes = u128::from(value) * u128::from(self.memory_kib) * 1024;
        u64::try_from(bytes.div_ceil(u128::from(WHOLE))).expect("at most what base has")
    }

    /// Whether a client has lent its tickets of this resource.
    pub fn has_lent(&self, id: CurrencyId) -> bool {
        self.places.get(&id).is_some_and(|place| self.nodes[*place as usize].has_lent())
    }

    /// The place of a currency that keeps what it is worth.
    fn own_place(&self, id: CurrencyId) -> Option<u32> {
        let place = *self.places.get(&id)?;
        (!self.nodes[place as usize].has_lent()).then_some(place)
    }

    /// What a currency has issued, and what of that is active, of base's what counts as active
    /// (rule 8); nothing for an unknown one. For those who count what tickets were due over time,
    /// by the same rules.
    pub fn issued(&mut self, id: CurrencyId) -> (Pools, Pools) {
        self.reckon();
        let Some(&place) = self.places.get(&id) else { return Default::default() };
        let Node { issued, active_issued: active, .. } = self.nodes[place as usize];
        (issued, if place == self.base { self.base_active(active) } else { active })
    }

    /// The tickets that a currency holds, those of amount 0 included.
    pub fn backing(&self, id: CurrencyId) -> impl Iterator<Item = Backing> {
        let node = self.places.get(&id).map(|place| &self.nodes[*place as usize]);
        node.into_iter().flat_map(|node| &node.backing).map(|edge| Backing {
            issuer: self.nodes[edge.issuer as usize].id,
            kind: edge.kind,
            amount: edge.amount,
        })
    }

    /// Whether a chain of tickets of positive amounts leads from base to the currency. A client
    /// without one is frozen.
    pub fn is_funded(&self, id: CurrencyId) -> bool {
        let Some(&start) = self.places.get(&id) else { return false };
        let mut seen = vec![start];
        let mut next = 0;
        while let Some(&place) = seen.get(next) {
            if place == self.base {
                return true;
            }
            for edge in &self.nodes[place as usize].backing {
                if edge.amount > 0 && !seen.contains(&edge.issuer) {
                    seen.push(edge.issuer);
                }
            }
            next += 1;
        }
        false
    }

    /// Every currency in topological order: base first, each issuer before its holders. For
    /// enforcers that value tickets elsewhere, by the same rules.
    pub fn nodes(&self) -> impl Iterator<Item = NodeView<'_>> {
        self.issuers_first().into_iter().map(|place| {
            let node = &self.nodes[place as usize];
            let Node { id, client: is_client, class, issued, .. } = *node;
            NodeView { id, is_client, class, issued, graph: self, node }
        })
    }

    /// The places of all currencies.
    pub(crate) fn places(&self) -> impl Iterator<Item = u32> {
        let is_taken =
            |place: &u32| self.places.get(&self.nodes[*place as usize].id) == Some(place);
        (0..self.nodes.len() as u32).filter(is_taken)
    }

    fn issuers_first(&self) -> Vec<u32> {
        let mut order = Vec::with_capacity(self.places.len());
        let mut entered = vec![false; self.nodes.len()];
        // Depth first: a place is left when all its issuers are.
        let mut open: Vec<(u32, usize)> = Vec::new();
        for start in std::iter::once(self.base).chain(self.places()) {
            if !std::mem::replace(&mut entered[start as usize], true) {
                open.push((start, 0));
            }
            while let Some((place, next)) = open.last_mut() {
                match self.nodes[*place as usize].backing.get(*next) {
                    Some(edge) => {
                        *next += 1;
                        let issuer = edge.issuer;
                        if !std::mem::replace(&mut entered[issuer as usize], true) {
                            open.push((issuer, 0));
                        }
                    }
                    None => {
                        order.push(*place);
                        open.pop();
                    }
                }
            }
        }
        order
    }

    /// Every client that was said to compete.
    pub fn active_clients(&self) -> impl Iterator<Item = CurrencyId> {
        self.nodes.iter().filter(|node| node.competes).map(|node| node.id)
    }

    /// Whether a currency's hard tickets are amounts (rule 3).
    fn is_amount(&self, issuer: u32) -> bool {
        issuer == self.base && self.memory_kib > 0 && self.resource.is_amount()
    }

    /// What a currency's hard tickets total.
    fn hard_total(&self, issuer: u32) -> u64 {
        if self.is_amount(issuer) { self.memory_kib } else { HARD_TOTAL }
    }

    /// What competes for a currency's value now (rules 3 and 8).
    fn sum(&self, issuer: u32) -> Sum {
        let Node { issued, active_issued: active, .. } = self.nodes[issuer as usize];
        let active = if issuer == self.base { self.base_active(active) } else { active };
        let total = self.hard_total(issuer);
        let competing = match self.is_amount(issuer) {
            true => total,
            false => active.hard + if active.soft > 0 { total - issued.hard } else { 0 },
        };
        Sum { soft: active.soft, competing }
    }

    pub(crate) fn base_sum(&self) -> Sum {
        self.sum(self.base)
    }

    /// What base's hard tickets total.
    pub(crate) fn base_total(&self) -> u64 {
        self.hard_total(self.base)
    }

    /// Base's hard tickets that fund its soft-ticket subcurrency.
    pub(crate) fn base_sub(&self) -> u64 {
        self.base_total() - self.node_issued(self.base).hard
    }

    pub(crate) fn base(&self) -> u32 {
        self.base
    }

    pub(crate) fn place_of(&self, id: CurrencyId) -> Option<u32> {
        self.places.get(&id).copied()
    }

    /// Whether a currency is active; base also while nothing but exchanged tickets is.
    pub(crate) fn node_is_active(&self, place: u32) -> bool {
        let received = place == self.base && self.exchanges.any_active();
        self.nodes[place as usize].active || received
    }

    pub(crate) fn node_id(&self, place: u32) -> CurrencyId {
        self.nodes[place as usize].id
    }

    pub(crate) fn node_class(&self, place: u32) -> Class {
        self.nodes[place as usize].class
    }

    /// Whether a currency is a client, and was said to compete.
    pub(crate) fn node_competes(&self, place: u32) -> (bool, bool) {
        let Node { client, competes, .. } = self.nodes[place as usize];
        (client, competes)
    }

    pub(crate) fn memory_kib(&self) -> u64 {
        self.memory_kib
    }

    pub(crate) fn node_issued(&self, place: u32) -> Pools {
        self.nodes[place as usize].issued
    }

    pub(crate) fn node_active_issued(&self, place: u32) -> Pools {
        self.nodes[place as usize].active_issued
    }

    pub(crate) fn edges(&self, place: u32) -> impl Iterator<Item = Edge> {
        self.nodes[place as usize].backing.iter().copied()
    }

    fn value_at(&mut self, place: u32) -> u64 {
        let node = &self.nodes[place as usize];
        if place == self.base {
            return WHOLE;
        }
        if !node.active {
            return 0;
        }
        if node.value.stamp == self.stamp_now {
            return node.value.value;
        }
        let mut value = 0;
        for index in 0..self.nodes[place as usize].backing.len() {
            let Edge { issuer, kind, amount } = self.nodes[place as usize].backing[index];
            if amount == 0 {
                continue;
            }
            let whole = self.value_at(issuer);
            let Sum { soft, competing } = self.sum(issuer);
            value += match kind {
                TicketKind::Transfer => whole,
                TicketKind::Hard => share(whole, amount, competing),
                TicketKind::Soft if competing == 0 => {
                    share(self.net_soft(issuer, whole), amount, soft)
                }
                TicketKind::Soft => {
                    let subcurrency = self.hard_total(issuer) - self.node_issued(issuer).hard;
                    let subcurrency = share(whole, subcurrency, competing);
                    share(self.net_soft(issuer, subcurrency), amount, soft)
                }
            };
        }
        let value = self.net_value(place, value);
        self.nodes[place as usize].value = Remembered { stamp: self.stamp_now, value };
        value
    }

    fn guaranteed_at(&mut self, place: u32) -> u64 {
        let node = &self.nodes[place as usize];
        if place == self.base {
            return WHOLE;
        }
        if node.class == Class::Guest {
            return 0;
        }
        if node.guaranteed.stamp == self.stamp_funding {
            return node.guaranteed.value;
        }
        let mut value = 0;
        for index in 0..self.nodes[place as usize].backing.len() {
            let Edge { issuer, kind, amount } = self.nodes[place as usize].backing[index];
            if amount == 0 {
                continue;
            }
            let whole = self.guaranteed_at(issuer);
            let issued = self.nodes[issuer as usize].issued;
            value += match kind {
                TicketKind::Transfer => whole,
                TicketKind::Hard => share(whole, amount, self.hard_total(issuer)),
                TicketKind::Soft => {
                    let total = self.hard_total(issuer);
                    let soft = share(whole, total - issued.hard, total);
                    share(soft, amount, issued.soft)
                }
            };
        }
        let value = self.net_guaranteed(place, value);
        self.nodes[place as usize].guaranteed = Remembered { stamp: self.stamp_funding, value };
        value
    }

    fn add(&mut self, id: CurrencyId, record: &CurrencyRecord) {
        self.add_node(id, matches!(record.kind, CurrencyKind::Client { .. }), record.class());
    }

    pub(crate) fn add_node(&mut self, id: CurrencyId, client: bool, class: Class) {
        let node = Node {
            id,
            client,
            class,
            competes: false,
            active: false,
            backing: Vec::new(),
            issued: Pools::default(),
            active_issued: Pools::default(),
            active_tickets: 0,
            value: Remembered::default(),
            guaranteed: Remembered::default(),
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.nodes[place as usize] = node;
                place
            }
            None => {
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).expect("fewer than 2³² currencies")
            }
        };
        let known = self.places.insert(id, place);
        assert!(known.is_none(), "a currency is made once");
    }

    fn remove(&mut self, id: CurrencyId) {
        let place = self.places.remove(&id).expect("a removed currency was there");
        let node = &mut self.nodes[place as usize];
        assert!(node.backing.is_empty() && node.active_tickets == 0, "removed without tickets");
        self.exchanges.remove(place);
        let node = &mut self.nodes[place as usize];
        node.active = false;
        node.client = false;
        node.competes = false;
        self.free.push(place);
    }

    fn attach(&mut self, ticket: &Ticket) {
        if ticket.resource != self.resource {
            return;
        }
        let Ticket { issuer, kind, amount, .. } = *ticket;
        self.attach_edge(ticket.holder, Backing { issuer, kind, amount });
    }

    pub(crate) fn attach_edge(&mut self, holder: CurrencyId, ticket: Backing) {
        let (issuer, holder) = (self.places[&ticket.issuer], self.places[&holder]);
        let edge = Edge { issuer, kind: ticket.kind, amount: ticket.amount };
        self.exchanges.spoil();
        self.nodes[holder as usize].backing.push(edge);
        *self.nodes[issuer as usize].issued.of(edge.kind) += edge.amount;
        self.forget();
        if self.nodes[holder as usize].active {
            self.flip(vec![edge], true);
        }
        self.settle(issuer);
    }

    fn detach(&mut self, ticket: &Ticket) {
        if ticket.resource != self.resource {
            return;
        }
        let (issuer, holder) = (self.places[&ticket.issuer], self.places[&ticket.holder]);
        self.exchanges.spoil();
        let backing = &mut self.nodes[holder as usize].backing;
        let same = |edge: &Edge| {
            edge.issuer == issuer && edge.kind == ticket.kind && edge.amount == ticket.amount
        };
        let index = backing.iter().position(same).expect("a revoked ticket was there");
        let edge = backing.remove(index);
        *self.nodes[issuer as usize].issued.of(edge.kind) -= edge.amount;
        self.forget();
        if self.nodes[holder as usize].active {
            self.flip(vec![edge], false);
        }
        self.settle(issuer);
    }

    pub(crate) fn forget(&mut self) {
        self.stamp_now += 1;
        self.stamp_funding += 1;
    }

    /// See that a currency is active if and only if it should be: then so are the tickets that
    /// it holds.
    fn settle(&mut self, place: u32) {
        let node = &mut self.nodes[place as usize];
        let active = node.should_be_active();
        if node.active != active {
            node.active = active;
            let edges = node.backing.clone();
            self.sink(place, active);
            self.flip(edges, active);
        }
    }

    /// Tickets have become active or inactive; climb where their issuers do too.
    fn flip(&mut self, mut edges: Vec<Edge>, active: bool) {
        while let Some(Edge { issuer, kind, amount }) = edges.pop() {
            if amount == 0 {
                continue;
            }
            let node = &mut self.nodes[issuer as usize];
            let pool = node.active_issued.of(kind);
            if active {
                *pool += amount;
                node.active_tickets += 1;
            } else {
                *pool -= amount;
                node.active_tickets -= 1;
            }
            let now = node.should_be_active();
            if node.active != now {
                node.active = now;
                edges.extend_from_slice(&node.backing);
                self.sink(issuer, now);
            }
        }
    }
}
