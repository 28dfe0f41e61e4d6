//! The encoded plan, evaluated as the kernel does it, gives what the pure graph gives.

use super::*;
use crate::abi::SLOTS_MAX;
use ledger::operation::{Adopt, CreateCurrency, Fund, Transfer};
use ledger::{
    Authority, Caller, Funding, HARD_TOTAL, Intent, Ledger, NewClient, ProcessIdentity, Resource,
};
use valuation::{Graph, WHOLE};

struct Book {
    ledger: Ledger,
    names: u32,
}

fn funding(kind: TicketKind, amount: u64) -> Funding {
    Funding { resource: Resource::CPU, kind, amount }
}

fn process(pid: u32) -> ProcessIdentity {
    ProcessIdentity { pid, start_time_ticks: 7 }
}

impl Book {
    fn new() -> Book {
        Book { ledger: Ledger::new(0, 0), names: 0 }
    }

    fn act(&mut self, intent: Intent) {
        let caller = Caller { uid: 0, gid: 0, groups: Vec::new(), process: None };
        let authorised = ledger::decide(&self.ledger, Authority::Caller(caller), intent)
            .expect("the superuser may");
        self.ledger.apply(authorised);
    }

    fn currency(&mut self, issuers: &[(CurrencyId, TicketKind, u64)]) -> CurrencyId {
        self.names += 1;
        let name = format!("c{}", self.names);
        let (owner, group, mode) = (0, 0, Mode::PRIVATE);
        self.act(Intent::from(CreateCurrency { name: name.clone(), owner, group, mode }));
        let holder = self.ledger.named(0, &name).unwrap();
        for (issuer, kind, amount) in issuers {
            let funding = funding(*kind, *amount);
            self.act(Intent::from(Fund { holder, issuer: *issuer, funding }));
        }
        holder
    }

    fn client(&mut self, issuers: &[(CurrencyId, TicketKind, u64)]) -> CurrencyId {
        self.names += 1;
        let process = process(self.names);
        let (first, rest) = issuers.split_first().unwrap();
        let client = NewClient::process(process, 0, 0);
        self.act(Intent::from(Adopt {
            client,
            issuer: first.0,
            funding: vec![funding(first.1, first.2)],
        }));
        let holder = self.ledger.client_of(process).unwrap();
        for (issuer, kind, amount) in rest {
            let funding = funding(*kind, *amount);
            self.act(Intent::from(Fund { holder, issuer: *issuer, funding }));
        }
        holder
    }

    fn plan(&self) -> Plan {
        let clients = self.ledger.clients().map(|(founder, id)| PlannedClient::of(id, founder));
        let mut clients: Vec<_> = clients.collect();
        clients.sort_by_key(|client| client.id);
        Plan {
            generation: 1,
            graphs: [(Resource::CPU, Graph::of(&self.ledger, Resource::CPU))].into(),
            clients,
            limits: vec![],
        }
    }
}

fn with_slots(plan: &Plan) -> Slots {
    let mut slots = Slots::new(SLOTS_MAX);
    for view in plan.cpu().nodes().filter(|view| view.id != BASE) {
        slots.give(view.id, 0, |_| true).unwrap();
    }
    slots
}

/// What the scheduler does with a bank (bpf/sched/currency.h), in the plainest way.
struct Machine {
    bank: Bank,
}

impl Machine {
    fn activate(&mut self, slot: u32) {
        let mut open = vec![slot];
        while let Some(slot) = open.pop() {
            for edge in self.bank.backing(slot).to_vec() {
                let issuer = &mut self.bank.nodes[edge.issuer as usize];
                match edge.kind {
                    kinds::SOFT => issuer.active_soft += edge.amount,
                    kinds::HARD => issuer.active_hard += edge.amount,
                    _ => {}
                }
                issuer.active_tickets += 1;
                if issuer.active_tickets == 1 {
                    open.push(edge.issuer);
                }
            }
        }
    }

    fn value(&self, slot: u32) -> u64 {
        let mut values = BTreeMap::from([(0, WHOLE)]);
        let part = |value: u64, part: u64, whole: u64| {
            (u128::from(value) * u128::from(part) / u128::from(whole)) as u64
        };
        let client = &self.bank.nodes[slot as usize];
        let path = &self.bank.paths[client.first_step as usize..][..client.steps as usize];
        for slot in path {
            let mut sum = 0;
            for edge in self.bank.backing(*slot) {
                let issuer = &self.bank.nodes[edge.issuer as usize];
                let mut value = values[&edge.issuer];
                let subcurrency = HARD_TOTAL - issuer.issued_hard;
                let competing =
                    issuer.active_hard + if issuer.active_soft > 0 { subcurrency } else { 0 };
                match edge.kind {
                    kinds::HARD => value = part(value, edge.amount, competing),
                    kinds::SOFT => {
                        if competing > 0 {
                            value = part(value, subcurrency, competing);
                        }
                        value = part(value, edge.amount, issuer.active_soft);
                    }
                    _ => {}
                }
                sum += value;
            }
            values.insert(*slot, sum);
        }
        path.last().map_or(0, |slot| values[slot])
    }
}

/// Both ways to value must agree on every client, with every third one asleep.
fn agree(plan: Plan) {
    let mut plan = completed(plan);
    let slots = with_slots(&plan);
    let mut machine = Machine { bank: encode(&plan, &slots) };
    assert!(machine.bank.notes.is_empty(), "{:?}", machine.bank.notes);
    let awake: Vec<CurrencyId> = plan.clients.iter().map(|client| client.id).collect();
    let awake: Vec<_> = awake.into_iter().filter(|id| id.0 % 3 != 0).collect();
    for id in &awake {
        plan.cpu_mut().set_active(*id, true);
        let slot = slots.of(*id).unwrap();
        if machine.bank.nodes[slot as usize].flags == flags::LIVE {
            machine.activate(slot);
        }
    }
    let mut total = 0;
    for id in awake {
        let value = plan.cpu_mut().value(id);
        assert_eq!(machine.value(slots.of(id).unwrap()), value, "of {id}");
        total += value;
    }
    assert!(total > WHOLE - 1000, "somebody has the machine: {total}");
}

#[test]
fn values_agree_on_a_graph_with_soft_and_hard_tickets_and_several_issuers() {
    use TicketKind::{Hard, Soft};
    let mut book = Book::new();
    let a = book.currency(&[(BASE, Soft, 2000), (BASE, Hard, 100)]);
    let b = book.currency(&[(BASE, Soft, 1000)]);
    let c = book.currency(&[(a, Soft, 7), (b, Hard, 250)]);
    let d = book.currency(&[(c, Soft, 1), (a, Soft, 3), (BASE, Hard, 10)]);
    for issuer in [a, b, c, d, d, c, b, a] {
        book.client(&[(issuer, Soft, 5)]);
        book.client(&[(issuer, Soft, 11), (b, Hard, 20)]);
    }
    agree(book.plan());
}

#[test]
fn who_is_not_funded_is_worth_nothing_and_spoils_nothing() {
    use TicketKind::Soft;
    let mut book = Book::new();
    let rich = book.currency(&[(BASE, Soft, 1000)]);
    let poor = book.currency(&[]);
    let poorer = book.currency(&[(poor, Soft, 10)]);
    let both = book.client(&[(poorer, Soft, 10), (rich, Soft, 10)]);
    let none = book.client(&[(poorer, Soft, 10)]);
    let plan = completed(book.plan());
    let slots = with_slots(&plan);
    let bank = encode(&plan, &slots);
    let node = |id| bank.nodes[slots.of(id).unwrap() as usize];
    assert_eq!((node(none).steps, node(none).edges), (3, 1));
    assert_eq!((node(both).steps, node(both).edges), (4, 2));
    agree(book.plan());
}

#[test]
fn guests_hold_nothing_and_lenders_pass_everything_on() {
    use TicketKind::Soft;
    let mut book = Book::new();
    let user = book.currency(&[(BASE, Soft, 1000)]);
    let server = book.client(&[(user, Soft, 10)]);
    let waiter = book.client(&[(BASE, Soft, 500)]);
    book.act(Intent::from(Transfer { lender: waiter, holder: server, resource: Resource::CPU }));
    let mut plan = book.plan();
    plan.clients.iter_mut().find(|client| client.id == waiter).unwrap().lent = true;
    let complete = completed(plan.clone());
    let slots = with_slots(&complete);
    let bank = encode(&complete, &slots);
    let node = bank.nodes[slots.of(waiter).unwrap() as usize];
    assert_eq!((node.flags, node.steps, node.edges), (flags::LIVE | flags::LENT, 0, 1));
    agree(plan);
}

#[test]
fn a_path_that_does_not_fit_makes_a_guest() {
    use TicketKind::Soft;
    for (currencies, fits) in [(63, true), (64, false)] {
        let mut book = Book::new();
        let above: Vec<_> =
            (0..currencies).map(|_| (book.currency(&[(BASE, Soft, 1)]), Soft, 1)).collect();
        let client = book.client(&above);
        let plan = completed(book.plan());
        let slots = with_slots(&plan);
        let bank = encode(&plan, &slots);
        let node = bank.nodes[slots.of(client).unwrap() as usize];
        let flag = if fits { flags::LIVE } else { flags::LIVE | flags::GUEST };
        assert_eq!(node.flags, flag, "below {currencies} currencies");
        assert_eq!(node.steps, if fits { 64 } else { 0 });
        assert_eq!(bank.notes.contains_key(&client), !fits);
    }
}

#[test]
fn clocks_have_fine_units_where_tickets_are_many() {
    let scales = [0, 1000, 1 << 23, (1 << 24) - 1, 1 << 24, 1 << 38, 1 << 50].map(scale);
    assert_eq!(scales, [16, 16, 16, 16, 17, 31, 31]);
}

#[test]
fn a_plan_is_completed_once() {
    let mut book = Book::new();
    let user = book.currency(&[(BASE, TicketKind::Soft, 1000)]);
    book.client(&[(user, TicketKind::Soft, 10)]);
    let once = completed(book.plan());
    assert_eq!(once.clients.len(), 3);
    assert_eq!(completed(once.clone()).clients, once.clients);
    let slots = with_slots(&once);
    let members = Members::of(&once, &slots);
    assert_eq!(Some(members.kernel), slots.of(OWN_KERNEL));
    assert_eq!(Some(members.rest), slots.of(OWN_REST));
    assert_eq!(members.processes.len(), 1);
}

#[test]
fn joining_goes_before_founding() {
    let mut book = Book::new();
    let user = book.currency(&[(BASE, TicketKind::Soft, 1000)]);
    let one = book.client(&[(user, TicketKind::Soft, 10)]);
    let two = book.client(&[(user, TicketKind::Soft, 10)]);
    let mut plan = book.plan();
    let founder = plan.clients.iter().find(|client| client.id == two).unwrap().founder;
    plan.clients.iter_mut().find(|client| client.id == one).unwrap().members.push(founder);
    let slots = with_slots(&plan);
    let members = Members::of(&plan, &slots);
    let pid = founder.process().unwrap().pid;
    assert_eq!(members.processes[&pid], (7, slots.of(one).unwrap()));
}
