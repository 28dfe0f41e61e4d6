//! What clients of the CPU are due, from a currency graph: exactly, whoever comes and goes (as `bpf/sched/currency.h`
//! counts it in the kernel).
//!
//! 1. Each currency keeps a clock for each kind of ticket that it issues: the CPU time that one such ticket was
//!    due. It moves by the currency's gain, divided among what competes (the rules of [`valuation`]).
//! 2. A currency's gain is what the tickets that it holds were due meanwhile, if it was active; base gains all
//!    that was given.
//!    What it has received in exchanges counts like base's tickets, what it is charged is taken off.
//! 3. Clocks are brought up to date when somebody asks, and before anything changes above or at them. So a change
//!    costs as many steps as there are currencies above it, however many clients there are.
//! 4. A change of tickets counts from the last charge on: at most a quantum early.

use ledger::{BASE, Change, CurrencyId, Exchange, HARD_TOTAL, Ledger, Resource, TicketKind};
use policy::ClientKey;
use policy::keyed::machine::Funding;
use valuation::{Backing, Charges, Goods, Graph};

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
    /// How base's clocks stood then, soft and hard.
    base: (u128, u128),
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
        let graph = Graph::of(ledger, Resource::CPU);
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
        let ends: Vec<CurrencyId> = match change {
            Change::Ticket { before, after, .. } => {
                let tickets = before.iter().chain(after);
                tickets.flat_map(|ticket| [ticket.issuer, ticket.holder]).collect()
            }
            Change::Exchange { before, after, .. } => {
                before.iter().chain(after).flat_map(Exchange::parties).collect()
            }
            Change::Currency { id, after: Some(_), .. } => {
                self.graph.follow(change);
                self.meet(*id);
                return;
            }
            _ => Vec::new(),
        };
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
        let base = self.base_clocks();
        let node = &mut self.nodes[place];
        (node.known, node.backing, node.base) = (true, backing, base);
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
        let gained = u128::from(service_ns - since_ns) << SHIFT;
        self.gain(BASE, gained, 0);
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
        let base = self.base_clocks();
        let seen = std::mem::replace(&mut self.nodes[place].base, base);
        let Charges { received, charged, charged_soft } = self.graph.charges(id);
        let worth = |of: Goods| {
            (base.0 - seen.0) * u128::from(of.soft) + (base.1 - seen.1) * u128::from(of.hard)
        };
        // Never below nothing but for rounding.
        let gained = (gained + worth(received)).saturating_sub(worth(charged));
        if gained > 0 && self.graph.is_active(id) {
            self.gain(id, gained, worth(charged_soft));
        }
    }

    /// Base's clocks of a soft and a hard ticket.
    fn base_clocks(&self) -> (u128, u128) {
        self.nodes.get(BASE.0 as usize).map_or((0, 0), |base| (base.soft, base.hard))
    }

    fn gain(&mut self, id: CurrencyId, gained: u128, charged_soft: u128) {
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
            node.soft += soft.saturating_sub(charged_soft) / u128::from(active.soft);
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

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::operation::{Adopt, CreateCurrency, Fund, MakeExchange};
    use ledger::{Authority, Caller, Good, Intent, Leg, Mode, NewClient, ProcessIdentity, decide};
    use rand_core::{RngCore, SeedableRng};
    use rand_pcg::Pcg64Mcg;
    use valuation::WHOLE;

    struct Funds {
        ledger: Ledger,
        next: u32,
    }

    impl Funds {
        fn act(&mut self, intent: Intent) -> Vec<Change> {
            let caller = Caller { uid: 0, gid: 0, groups: Vec::new(), process: None };
            let authorised = decide(&self.ledger, Authority::Caller(caller), intent);
            self.ledger.apply(authorised.expect("allowed"))
        }

        fn fund(&mut self, holder: CurrencyId, issuer: CurrencyId, kind: TicketKind, amount: u64) {
            let funding = ledger::Funding { resource: Resource::CPU, kind, amount };
            self.act(Intent::from(Fund { holder, issuer, funding }));
        }

        fn client(&mut self, issuer: CurrencyId, kind: TicketKind, amount: u64) -> CurrencyId {
            let process = ProcessIdentity { pid: self.next, start_time_ticks: 1 };
            self.next += 1;
            let client = NewClient::process(process, 0, 0);
            self.act(Intent::from(Adopt { client, issuer: BASE, funding: vec![] }));
            let id = self.ledger.client_of(process).expect("just made");
            self.fund(id, issuer, kind, amount);
            id
        }
    }

    /// What everybody is due is the integral of its value, whoever comes and goes, and whatever is
    /// exchanged meanwhile.
    #[test]
    fn exchanges_are_due_as_they_are_valued() {
        use TicketKind::{Hard, Soft};
        let mut funds = Funds { ledger: Ledger::new(0, 0), next: 1 };
        let make = |name: &str| {
            Intent::from(CreateCurrency {
                name: name.to_owned(),
                owner: 0,
                group: 0,
                mode: Mode::PRIVATE,
            })
        };
        let [user, team] = ["user", "team"].map(|name| {
            funds.act(make(name));
            funds.ledger.named(0, name).expect("just made")
        });
        funds.fund(user, BASE, Soft, 160);
        funds.fund(team, BASE, Soft, 320);
        funds.fund(team, BASE, Hard, 100);
        let clients = [
            funds.client(user, Soft, 1),
            funds.client(user, Soft, 2),
            funds.client(user, Hard, 500),
            funds.client(team, Soft, 1),
            funds.client(BASE, Soft, 100),
            funds.client(BASE, Hard, 200),
        ];
        let mut clocks = TicketClocks::of(&funds.ledger);
        let mut rng = Pcg64Mcg::seed_from_u64(11);
        let (mut now, mut due, mut told) = (0_u64, [0_f64; 6], [0_u64; 6]);
        let mut active = [false; 6];
        for step in 0..2000 {
            if step % 100 == 50 {
                let all = [user, team].into_iter().chain(clients);
                let all: Vec<CurrencyId> = all.collect();
                let pick = |rng: &mut Pcg64Mcg| all[rng.next_u32() as usize % all.len()];
                let (giver, receiver) = (pick(&mut rng), pick(&mut rng));
                let kind = if rng.next_u32().is_multiple_of(4) { Hard } else { Soft };
                let good = Good { resource: Resource::CPU, kind };
                let amount = funds.ledger.spare(giver, &good) / 2;
                if giver != receiver && amount > 0 {
                    let legs = vec![Leg { giver, receiver, good, amount }];
                    let changes = funds.act(Intent::from(MakeExchange { legs, until_s: None }));
                    changes.iter().for_each(|change| clocks.follow(change));
                }
            }
            let index = rng.next_u32() as usize % clients.len();
            active[index] = !active[index];
            clocks.set_active(clients[index].0, active[index], now);
            let passed = 1000 + u64::from(rng.next_u32() % 1_000_000);
            now += passed;
            for (index, client) in clients.iter().enumerate().filter(|(index, _)| active[*index]) {
                due[index] += clocks.value(client.0) as f64 / WHOLE as f64 * passed as f64;
                told[index] += clocks.due_ns(client.0, now);
            }
        }
        assert!(funds.ledger.exchanges().count() > 5, "things were exchanged");
        for (due, told) in due.iter().zip(told) {
            // Each of the 2000 answers drops less than a nanosecond when its client leaves.
            assert!((due - told as f64).abs() < 2000.0, "{told} ns, by value {due}");
            assert!(told > 1_000_000, "{told} ns");
        }
    }
}
