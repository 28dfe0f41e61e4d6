//! What clients of the CPU are due, from a currency graph: exactly, whoever comes and goes (as `bpf/sched/currency.h`
//! counts it in the kernel).
//!
//! 1. Each currency keeps a clock for each kind of ticket that it issues: the CPU time that one such ticket was
//!    due. It moves by the currency's gain, divided among what competes (the rules of [`valuation`]).
//! 2. A currency's gain is what the tickets that it holds were due meanwhile, if it was active; base gains all
//!    that was given.
//! 3. Clocks are brought up to date when somebody asks, and before anything changes above or at them. So a change
//!    costs as many steps as there are currencies above it, however many clients there are.
//! 4. A change of tickets counts from the last charge on: at most a quantum early.

use ledger::{BASE, Change, CurrencyId, HARD_TOTAL, Ledger, Resource, TicketKind};
use policy::ClientKey;
use policy::keyed::machine::Funding;
use valuation::{Backing, Graph};

/// Binary places of a clock, below a nanosecond.
const SHIFT: u32 = 64;

#[derive(Clone, Debug, Default)]
struct Node {
    known: bool,
    /// For one ticket of each kind, in 2⁻⁶⁴ ns.
    soft: u128,
    hard: u128,
    transfer: u128,
    /// The tickets that it holds, and how their clocks stood when it last looked.
    backing: Vec<(Backing, u128)>,
    /// What a client was due and has not been told, in 2⁻⁶⁴ ns.
    due: u128,
}

/// The funding of a machine's CPUs.
#[derive(Debug)]
pub struct TicketClocks {
    graph: Graph,
    /// By number of currency.
    nodes: Vec<Node>,
    /// How much had been given to all when base's clock was last brought up to date.
    service_ns: Option<u64>,
}

impl TicketClocks {
    /// Of a ledger, nobody active.
    pub fn of(ledger: &Ledger) -> TicketClocks {
        let graph = Graph::of(ledger, Resource::Cpu);
        let mut clocks = TicketClocks { graph, nodes: Vec::new(), service_ns: None };
        for currency in ledger.currencies() {
            clocks.meet(currency.id);
        }
        clocks
    }

    /// The graph, for questions about values.
    pub fn graph(&mut self) -> &mut Graph {
        &mut self.graph
    }

    /// Follows a change of the ledger.
    pub fn follow(&mut self, change: &Change) {
        let Change::Ticket { before, after, .. } = change else {
            self.graph.follow(change);
            if let Change::Currency { id, after: Some(_), .. } = change {
                self.meet(*id);
            }
            return;
        };
        let ends: Vec<CurrencyId> =
            before.iter().chain(after).flat_map(|ticket| [ticket.issuer, ticket.holder]).collect();
        for end in &ends {
            self.advance(*end);
        }
        self.graph.follow(change);
        for end in &ends {
            self.meet(*end);
        }
    }

    /// Looks anew at the tickets that a currency holds. Its clocks are up to date, or it is new.
    fn meet(&mut self, id: CurrencyId) {
        let place = id.0 as usize;
        if self.nodes.len() <= place {
            self.nodes.resize_with(place + 1, Node::default);
        }
        let backing: Vec<Backing> = self.graph.backing(id).collect();
        for ticket in &backing {
            self.advance(ticket.issuer);
        }
        let seen = |ticket: Backing| (ticket, self.clock(ticket.issuer, ticket.kind));
        let backing = backing.into_iter().map(seen).collect();
        let node = &mut self.nodes[place];
        (node.known, node.backing) = (true, backing);
    }

    fn clock(&self, issuer: CurrencyId, kind: TicketKind) -> u128 {
        let node = &self.nodes[issuer.0 as usize];
        match kind {
            TicketKind::Soft => node.soft,
            TicketKind::Hard => node.hard,
            TicketKind::Transfer => node.transfer,
        }
    }

    /// Base has gained all that was given since.
    fn give(&mut self, service_ns: u64) {
        let since_ns = self.service_ns.replace(service_ns).unwrap_or(service_ns);
        self.gain(BASE, u128::from(service_ns - since_ns) << SHIFT);
    }

    /// Rules 1 and 2, issuers first. Nobody is more than a few dozen currencies below base.
    fn advance(&mut self, id: CurrencyId) {
        let place = id.0 as usize;
        if id == BASE || !self.nodes.get(place).is_some_and(|node| node.known) {
            return;
        }
        let mut gained = 0;
        for index in 0..self.nodes[place].backing.len() {
            let (ticket, seen) = self.nodes[place].backing[index];
            self.advance(ticket.issuer);
            let now = self.clock(ticket.issuer, ticket.kind);
            gained += (now - seen) * u128::from(ticket.amount);
            self.nodes[place].backing[index].1 = now;
        }
        if gained > 0 && self.graph.is_active(id) {
            self.gain(id, gained);
        }
    }

    fn gain(&mut self, id: CurrencyId, gained: u128) {
        let (issued, active) = self.graph.issued(id);
        let node = &mut self.nodes[id.0 as usize];
        if issued.transfer > 0 {
            node.transfer += gained;
            return;
        }
        let subcurrency = HARD_TOTAL - issued.hard;
        let competing = active.hard + if active.soft > 0 { subcurrency } else { 0 };
        if active.hard > 0 {
            node.hard += gained / u128::from(competing);
        }
        if active.soft > 0 {
            let soft = match competing {
                0 => gained,
                _ => gained * u128::from(subcurrency) / u128::from(competing),
            };
            node.soft += soft / u128::from(active.soft);
        }
        if active.hard == 0 && active.soft == 0 {
            node.due += gained;
        }
    }
}

impl Funding for TicketClocks {
    fn set_active(&mut self, client: ClientKey, active: bool, service_ns: u64) {
        self.give(service_ns);
        self.advance(CurrencyId(client));
        self.graph.set_active(CurrencyId(client), active);
        if active {
            self.nodes[client as usize].due = 0;
        }
    }

    fn value(&mut self, client: ClientKey) -> u64 {
        self.graph.value(CurrencyId(client))
    }

    fn due_ns(&mut self, client: ClientKey, service_ns: u64) -> u64 {
        self.give(service_ns);
        self.advance(CurrencyId(client));
        let node = &mut self.nodes[client as usize];
        let whole = node.due >> SHIFT;
        node.due -= whole << SHIFT;
        whole as u64
    }
}
