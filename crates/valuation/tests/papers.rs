//! The papers' own figures as examples of valuation.

use allot_valuation::{Backing, Graph, Pools, WHOLE};
use ledger::operation::{
    Adopt, CreateCurrency, DestroyCurrency, Exit, Fork, Fund, MakeExchange, Nice, Place, SetClass,
    SetMemory, TakeBack, Transfer,
};
use ledger::{
    Authority, BASE, Caller, Class, CurrencyId, Funding, Good, Intent, Ledger, Leg, NewClient,
    Placement, Placements, PolicyKey, ProcessIdentity, Resource, TicketKind, decide,
};

/// A ledger and its CPU graph, kept together.
struct Machine {
    ledger: Ledger,
    graph: Graph,
    next: u32,
}

impl Machine {
    fn new() -> Machine {
        Machine::of(Resource::CPU)
    }

    fn of(resource: Resource) -> Machine {
        let ledger = Ledger::new(0, 0);
        let graph = Graph::of(&ledger, resource);
        Machine { ledger, graph, next: 1 }
    }

    fn bytes(&mut self, id: CurrencyId) -> u64 {
        let value = self.graph.value(id);
        self.graph.memory_bytes(value)
    }

    fn perform(&mut self, authority: Authority, intent: Intent) {
        let authorised = decide(&self.ledger, authority, intent).expect("it is allowed");
        for change in self.ledger.apply(authorised) {
            self.graph.follow(&change);
        }
    }

    fn currency(&mut self, name: &str, backing: &[(CurrencyId, Funding)]) -> CurrencyId {
        let mode = "fci------".parse().expect("a mode");
        let intent =
            Intent::from(CreateCurrency { name: name.to_owned(), owner: 0, group: 0, mode });
        self.perform(root(), intent);
        let id = self.ledger.named(0, name).expect("it was made");
        for (issuer, funding) in backing {
            self.fund(id, *issuer, funding.clone());
        }
        id
    }

    /// A client that competes.
    fn task(&mut self, backing: &[(CurrencyId, Funding)]) -> CurrencyId {
        let process = ProcessIdentity { pid: self.next, start_time_ticks: 1 };
        self.next += 1;
        let client = NewClient::process(process, 0, 0);
        self.perform(root(), Intent::from(Adopt { client, issuer: BASE, funding: vec![] }));
        let id = self.ledger.client_of(process).expect("it was adopted");
        for (issuer, funding) in backing {
            self.fund(id, *issuer, funding.clone());
        }
        self.graph.set_active(id, true);
        id
    }

    fn fund(&mut self, holder: CurrencyId, issuer: CurrencyId, funding: Funding) {
        self.perform(root(), Intent::from(Fund { holder, issuer, funding }));
    }

    /// Values as parts of `whole`, to the nearest; they are below the exact ones by a few of
    /// 2⁴⁸ parts.
    fn values<const N: usize>(&mut self, whole: u64, of: [CurrencyId; N]) -> [u64; N] {
        of.map(|id| {
            let value = u128::from(self.graph.value(id)) * u128::from(whole);
            ((value + u128::from(WHOLE / 2)) / u128::from(WHOLE)) as u64
        })
    }
}

fn root() -> Authority {
    Authority::Caller(Caller { uid: 0, gid: 0, groups: vec![], process: None })
}

fn soft(amount: u64) -> Funding {
    Funding { resource: Resource::CPU, kind: TicketKind::Soft, amount }
}

fn hard(amount: u64) -> Funding {
    Funding { resource: Resource::CPU, kind: TicketKind::Hard, amount }
}

/// Paper 1, figure 1 and 2.1: bob has 100 of 400 base tickets; task2 and task3 hold 100 and 200
/// of bob's.
fn figure_1() -> (Machine, CurrencyId, [CurrencyId; 3]) {
    let mut machine = Machine::new();
    let alice = machine.currency("alice", &[(BASE, soft(300))]);
    let bob = machine.currency("bob", &[(BASE, soft(100))]);
    let task1 = machine.task(&[(alice, soft(100))]);
    let task2 = machine.task(&[(bob, soft(100))]);
    let task3 = machine.task(&[(bob, soft(200))]);
    (machine, bob, [task1, task2, task3])
}

/// "task3's 200 bob tickets have a base value of approximately 67 (two thirds of 100)".
#[test]
fn figure_1_task3_is_worth_67() {
    let (mut machine, bob, tasks) = figure_1();
    assert_eq!(machine.values(400, tasks), [300, 33, 67]);
    assert_eq!(machine.values(400, [bob]), [100]);
}

/// Paper 1, 2.2.1: with 200 bob tickets task2 goes from a third to a half of bob's share.
#[test]
fn a_currency_is_an_upper_limit() {
    let (mut machine, bob, tasks) = figure_1();
    machine.fund(tasks[1], bob, soft(200));
    assert_eq!(machine.values(400, tasks), [300, 50, 50]);
    // And more processes of bob's are no loss to alice (2.1).
    let more = machine.task(&[(bob, soft(400))]);
    assert_eq!(machine.values(400, [tasks[0], tasks[1], tasks[2], more]), [300, 25, 25, 50]);
}

/// Paper 1, figure 2, top: with 10 tickets hog still gets all of bob's when task2 is idle;
/// bottom: not when it is funded from base.
#[test]
fn figure_2_a_currency_is_a_lower_limit_and_base_funding_is_not() {
    for (from_base, with_task2, alone) in
        [(false, [300, 91, 9], [300, 100]), (true, [300, 90, 10], [387, 13])]
    {
        let mut machine = Machine::new();
        let alice = machine.currency("alice", &[(BASE, soft(300))]);
        let bob = machine.currency("bob", &[(BASE, soft(if from_base { 90 } else { 100 }))]);
        let other = machine.task(&[(alice, soft(1))]);
        let task2 = machine.task(&[(bob, soft(100))]);
        let issuer = if from_base { BASE } else { bob };
        let hog = machine.task(&[(issuer, soft(10))]);
        assert_eq!(machine.values(400, [other, task2, hog]), with_task2);
        machine.graph.set_active(task2, false);
        assert_eq!(machine.values(400, [other, hog]), alone);
    }
}

/// Paper 1, figure 4: D's hard ticket is 20 % (200/1000) of bob's, however many soft tickets
/// bob issues; soft_tix holds the other 800.
#[test]
fn figure_4_a_hard_ticket_is_a_fixed_share() {
    let mut machine = Machine::new();
    let bob = machine.currency("bob", &[(BASE, soft(1))]);
    let c = machine.task(&[(bob, soft(100))]);
    let d = machine.task(&[(bob, hard(200))]);
    assert_eq!(machine.values(1000, [c, d]), [800, 200]);
    let e = machine.task(&[(bob, soft(300))]);
    assert_eq!(machine.values(1000, [c, d, e]), [200, 200, 600]);
    // One that does not compete leaves its share to those who do.
    machine.graph.set_active(d, false);
    assert_eq!(machine.values(1000, [c, d, e]), [250, 0, 750]);
    machine.graph.set_active(d, true);
    machine.graph.set_active(c, false);
    machine.graph.set_active(e, false);
    assert_eq!(machine.values(1000, [c, d, e]), [0, 1000, 0]);
}

/// Paper 1, 3.3: "the path from the root currency to the client must involve only hard
/// tickets": half of base, of that 30 %.
#[test]
fn a_path_of_hard_tickets_reserves_whatever_else_is_issued() {
    let mut machine = Machine::new();
    let video = machine.currency("video", &[(BASE, hard(500))]);
    let player = machine.task(&[(video, hard(300))]);
    for round in 1..40 {
        let crowd = machine.currency(&format!("crowd-{round}"), &[(BASE, soft(1000))]);
        machine.task(&[(crowd, soft(1)), (video, soft(50))]);
        assert_eq!(machine.values(1000, [player, video]), [150, 500]);
        let sure = machine.graph.guaranteed(player);
        assert!(machine.graph.value(player) >= sure && WHOLE * 15 / 100 - sure < 3);
    }
}

/// All 1000 issued: soft tickets are worth nothing while a hard one competes, and everything
/// while none does, as no resource may idle.
#[test]
fn when_hard_tickets_have_run_out_soft_ones_get_what_is_left_over() {
    let mut machine = Machine::new();
    let reserved = machine.task(&[(BASE, hard(1000))]);
    let leftover = machine.task(&[(BASE, soft(5))]);
    assert_eq!(machine.values(1000, [reserved, leftover]), [1000, 0]);
    machine.graph.set_active(reserved, false);
    assert_eq!(machine.values(1000, [leftover]), [1000]);
    assert_eq!(machine.graph.guaranteed(leftover), 0);
}

/// Paper 1, figures 7 and 8: A and B equal; A1:A2 = 1:2, B1:B2:B3 = 1:2:3; when B3 awakens, A's
/// tasks are unaffected.
#[test]
fn figure_7_a_sleeper_wakes() {
    let mut machine = Machine::new();
    let a = machine.currency("a", &[(BASE, soft(1000))]);
    let b = machine.currency("b", &[(BASE, soft(1000))]);
    let [a1, a2] = [100, 200].map(|amount| machine.task(&[(a, soft(amount))]));
    let [b1, b2, b3] = [100, 200, 300].map(|amount| machine.task(&[(b, soft(amount))]));
    machine.graph.set_active(b3, false);
    assert_eq!(machine.values(12, [a1, a2, b1, b2, b3]), [2, 4, 2, 4, 0]);
    let before = [a1, a2].map(|id| machine.graph.value(id));
    machine.graph.set_active(b3, true);
    assert_eq!(machine.values(12, [a1, a2, b1, b2, b3]), [2, 4, 1, 2, 3]);
    assert_eq!([a1, a2].map(|id| machine.graph.value(id)), before, "to the last part");
}

/// Enforcers that value tickets elsewhere see the whole graph, issuers before holders.
#[test]
fn nodes_come_issuers_first() {
    let mut machine = Machine::new();
    let task = machine.task(&[]);
    let below = machine.currency("below", &[]);
    let above = machine.currency("above", &[(BASE, hard(200))]);
    machine.fund(below, above, soft(7));
    machine.fund(task, below, soft(3));
    machine.fund(task, above, soft(0));
    let gone = machine.currency("gone", &[]);
    machine.perform(root(), Intent::from(DestroyCurrency { currency: gone }));
    let nodes: Vec<_> = machine.graph.nodes().collect();
    let ids: Vec<_> = nodes.iter().map(|node| node.id).collect();
    assert_eq!(ids, [BASE, above, below, task]);
    let clients: Vec<_> = nodes.iter().map(|node| node.is_client).collect();
    assert_eq!(clients, [false, false, false, true]);
    assert_eq!(nodes[0].issued, Pools { hard: 200, ..Pools::default() });
    assert_eq!(nodes[1].issued, Pools { soft: 7, ..Pools::default() });
    let backing = |issuer, kind, amount| Backing { issuer, kind, amount };
    let held: Vec<_> = nodes[3].backing().collect();
    assert_eq!(held, [backing(below, TicketKind::Soft, 3), backing(above, TicketKind::Soft, 0)]);
}

/// Paper 1, 2.1: "two or more users could pool their resources to support a single application".
#[test]
fn several_currencies_fund_one_client() {
    let mut machine = Machine::new();
    let alice = machine.currency("alice", &[(BASE, soft(300))]);
    let bob = machine.currency("bob", &[(BASE, soft(100))]);
    let own = machine.task(&[(alice, soft(2))]);
    let pooled = machine.task(&[(alice, soft(1)), (bob, soft(1))]);
    assert_eq!(machine.values(400, [own, pooled]), [200, 200]);
}

/// Paper 3, future work: with 0 tickets a client is frozen until it gets some, anywhere on its
/// way to base.
#[test]
fn zero_tickets_freeze() {
    let mut machine = Machine::new();
    let bob = machine.currency("bob", &[(BASE, soft(5))]);
    let frozen = machine.task(&[(bob, soft(0))]);
    let other = machine.task(&[(BASE, soft(5))]);
    assert!(!machine.graph.is_funded(frozen) && machine.graph.is_funded(other));
    assert_eq!(machine.values(10, [frozen, other]), [0, 10]);
    machine.fund(frozen, bob, soft(1));
    assert!(machine.graph.is_funded(frozen));
    assert_eq!(machine.values(10, [frozen, other]), [5, 5]);
    machine.fund(bob, BASE, soft(0));
    assert!(!machine.graph.is_funded(frozen));
    assert_eq!(machine.values(10, [frozen, other]), [0, 10]);
}

/// Root and system services keep a floor that users' tickets cannot take: 20 % hard.
#[test]
fn the_floor_holds_against_any_number_of_users() {
    let mut machine = Machine::new();
    let system = machine.currency("system", &[(BASE, hard(200))]);
    let service = machine.task(&[(system, soft(1))]);
    for number in 0..200 {
        let user = machine.currency(&format!("user-{number}"), &[(BASE, soft(1_000_000))]);
        machine.task(&[(user, soft(1000))]);
    }
    assert_eq!(machine.values(1000, [service]), [200]);
}

/// Paper 1, 4.4 and 5.6: the job's and the lender's values add up to what the user had, nobody
/// else's value changes by a single part, children share the job's, and at its end all is back.
#[test]
fn nice_changes_nobody_elses_value() {
    let mut machine = Machine::new();
    let placements = |uid: u32| Placements {
        levels: vec![Placement {
            key: PolicyKey::User(uid),
            name: format!("user-{uid}"),
            owner: uid,
            group: uid,
            mode: "fci--i---".parse().expect("a mode"),
            funding: vec![soft(100 + u64::from(uid))],
            limits: Default::default(),
        }],
        process: vec![soft(10)],
    };
    let process = |pid| ProcessIdentity { pid, start_time_ticks: 1 };
    let client = |pid, uid| NewClient::process(process(pid), uid, uid);
    for (pid, uid) in [(1, 1), (2, 1), (3, 2), (4, 3), (5, 3)] {
        let (client, placements) = (client(pid, uid), placements(uid));
        machine.perform(Authority::System, Intent::from(Place { client, placements }));
        let id = machine.ledger.client_of(process(pid)).expect("placed");
        machine.graph.set_active(id, true);
    }
    let of = |machine: &mut Machine, pid| {
        let id = machine.ledger.client_of(process(pid)).expect("a client");
        machine.graph.value(id)
    };
    let home = machine.ledger.home(&PolicyKey::User(1)).expect("a home").currency;
    let before = [1, 2, 3, 4, 5].map(|pid| of(&mut machine, pid));
    let whole = machine.graph.value(home);
    let caller = Caller { uid: 1, gid: 1, groups: vec![], process: None };
    let nice = Intent::from(Nice { client: client(2, 1), resource: Resource::CPU, amount: 7 });
    machine.perform(Authority::Caller(caller), nice);
    let (rest, job) = (machine.graph.value(home), of(&mut machine, 2));
    assert!(whole - (rest + job) <= 1, "{rest} + {job} is what {whole} was, but for rounding");
    let part = |value: u64| (u128::from(value) * 306 + u128::from(WHOLE / 2)) / u128::from(WHOLE);
    assert_eq!((part(rest), part(job)), (94, 7));
    assert_eq!([3, 4, 5].map(|pid| of(&mut machine, pid)), [before[2], before[3], before[4]]);
    // It forks: the two share the seven.
    let fork = Intent::from(Fork { parent: process(2), child: client(6, 1) });
    machine.perform(Authority::System, fork);
    let child = machine.ledger.client_of(process(6)).expect("a client");
    machine.graph.set_active(child, true);
    assert_eq!(of(&mut machine, 2), of(&mut machine, 6));
    assert!(job - 2 * of(&mut machine, 2) <= 1);
    assert_eq!([3, 4, 5].map(|pid| of(&mut machine, pid)), [before[2], before[3], before[4]]);
    // What was lent is back when the last of the job has ended.
    machine.perform(Authority::System, Intent::from(Exit { member: process(2).into() }));
    machine.perform(Authority::System, Intent::from(Exit { member: process(6).into() }));
    assert_eq!(machine.graph.value(home), whole);
    assert_eq!([3, 4, 5].map(|pid| of(&mut machine, pid)), [before[2], before[3], before[4]]);
}

fn lend(machine: &mut Machine, lender: CurrencyId, holder: CurrencyId) {
    machine.perform(root(), Intent::from(Transfer { lender, holder, resource: Resource::CPU }));
}

fn take_back(machine: &mut Machine, lender: CurrencyId) {
    machine.perform(root(), Intent::from(TakeBack { lender, resource: Resource::CPU }));
}

/// Paper 1, 5.3: a client that waits for a server lends it its tickets; they go on to whom the
/// server waits for, and who is not concerned keeps what they have to the last part.
#[test]
fn a_server_works_on_its_clients_tickets() {
    let mut machine = Machine::new();
    let users = ["a", "b"].map(|name| machine.currency(name, &[(BASE, soft(100))]));
    let client = machine.task(&[(users[0], soft(3))]);
    let other = machine.task(&[(users[0], soft(1))]);
    let bystander = machine.task(&[(users[1], soft(1))]);
    let server = machine.task(&[]);
    assert_eq!(machine.values(8, [client, other, bystander, server]), [3, 1, 4, 0]);
    let before = machine.graph.value(client);
    // It lends, and then sleeps until it is answered.
    lend(&mut machine, client, server);
    assert_eq!(machine.values(8, [client, other, bystander, server]), [0, 1, 4, 3]);
    machine.graph.set_active(client, false);
    assert_eq!(machine.values(8, [client, other, bystander, server]), [0, 1, 4, 3]);
    assert_eq!(machine.graph.value(server), before);
    assert_eq!(machine.graph.guaranteed(server), before);
    assert!(machine.graph.has_lent(client) && machine.graph.guaranteed(client) == 0);
    // The server waits for another in turn, with tickets of its own.
    machine.fund(server, users[1], soft(1));
    let disk = machine.task(&[]);
    lend(&mut machine, server, disk);
    machine.graph.set_active(server, false);
    assert_eq!(machine.values(8, [client, other, bystander, server, disk]), [0, 1, 2, 0, 5]);
    // Nobody along the way competes: nobody's tickets count.
    machine.graph.set_active(disk, false);
    assert_eq!(machine.values(8, [client, other, bystander, server, disk]), [0, 4, 4, 0, 0]);
    // Each takes its own back.
    take_back(&mut machine, server);
    take_back(&mut machine, client);
    machine.graph.set_active(client, true);
    machine.graph.set_active(server, true);
    assert_eq!(machine.values(8, [client, other, bystander, server, disk]), [3, 1, 2, 2, 0]);
}

/// Whoever lends may go on competing: it gets nothing for it until it takes back.
#[test]
fn a_lender_that_runs_is_worth_nothing() {
    let mut machine = Machine::new();
    let lender = machine.task(&[(BASE, soft(1))]);
    let holder = machine.task(&[(BASE, soft(1))]);
    let other = machine.task(&[(BASE, soft(1))]);
    lend(&mut machine, lender, holder);
    assert_eq!(machine.values(6, [lender, holder, other]), [0, 4, 2]);
    machine.graph.set_active(holder, false);
    assert_eq!(machine.values(6, [lender, holder, other]), [0, 0, 6]);
    take_back(&mut machine, lender);
    assert_eq!(machine.values(6, [lender, holder, other]), [3, 0, 3]);
}

/// Paper 4: guests are not chosen if any host exists, whatever their tickets; what they would be
/// worth is the hosts'. As a host again it is worth what it was.
#[test]
fn a_guest_competes_with_no_host() {
    let mut machine = Machine::new();
    let user = machine.currency("user", &[(BASE, soft(1))]);
    let guest = machine.task(&[(user, soft(100))]);
    let sibling = machine.task(&[(user, soft(1))]);
    let other = machine.task(&[(BASE, soft(1))]);
    let set = |class| Intent::from(SetClass { client: guest, class });
    machine.perform(root(), set(Class::Guest));
    assert_eq!(machine.values(2, [guest, sibling, other]), [0, 1, 1]);
    assert!(!machine.graph.is_active(guest) && machine.graph.is_funded(guest));
    machine.graph.set_active(sibling, false);
    assert_eq!(machine.values(2, [guest, sibling, other]), [0, 0, 2], "nor with its user");
    // What a guest lends, or is lent, is worth nothing meanwhile.
    lend(&mut machine, guest, other);
    assert_eq!(machine.values(2, [guest, sibling, other]), [0, 0, 2]);
    take_back(&mut machine, guest);
    lend(&mut machine, other, guest);
    assert_eq!(machine.values(2, [guest, sibling, other]), [0, 0, 0]);
    machine.perform(root(), set(Class::Host));
    assert_eq!(machine.values(2, [guest, sibling, other]), [2, 0, 0]);
}

/// Paper 1, 6.3 (figure 9): 2 MB and 1.4 MB of 4.2 MB; sections 5.4: subshares of an amount.
#[test]
fn figure_9_hard_tickets_of_memory_are_amounts() {
    const KIB: u64 = 1024;
    let mut machine = Machine::of(Resource::MEMORY);
    machine.perform(root(), Intent::from(SetMemory { kib: 4200 }));
    let of = |kind, amount| Funding { resource: Resource::MEMORY, kind, amount };
    let (soft, hard) =
        (|amount| of(TicketKind::Soft, amount), |amount| of(TicketKind::Hard, amount));
    let user = machine.currency("user", &[(BASE, hard(2000))]);
    let [large, first, second] = [
        machine.task(&[(user, hard(500))]),
        machine.task(&[(user, soft(3))]),
        machine.task(&[(user, soft(1))]),
    ];
    let other = machine.task(&[(BASE, hard(1400))]);
    let [left, also_left] = [machine.task(&[(BASE, soft(1))]), machine.task(&[(BASE, soft(3))])];
    assert_eq!(machine.bytes(other), 1400 * KIB);
    assert_eq!(machine.bytes(large), 1000 * KIB);
    assert_eq!((machine.bytes(first), machine.bytes(second)), (750 * KIB, 250 * KIB));
    // What base has not promised is its soft tickets'.
    assert_eq!((machine.bytes(left), machine.bytes(also_left)), (200 * KIB, 600 * KIB));
    // Who is idle for long leaves its part to those beside it; an amount stays an amount, and
    // what base promised to the idle is nobody's.
    for idle in [first, other, also_left] {
        machine.graph.set_active(idle, false);
    }
    assert_eq!((machine.bytes(large), machine.bytes(second)), (1000 * KIB, 1000 * KIB));
    assert_eq!((machine.bytes(other), machine.bytes(left)), (0, 800 * KIB));
    machine.graph.set_active(large, false);
    machine.graph.set_active(second, false);
    assert_eq!(machine.bytes(left), 800 * KIB);
    // More memory: amounts stay, what is left over grows.
    machine.graph.set_active(other, true);
    machine.perform(root(), Intent::from(SetMemory { kib: 8400 }));
    assert_eq!((machine.bytes(other), machine.bytes(left)), (1400 * KIB, 5000 * KIB));
}

impl Machine {
    fn lend(&mut self, giver: CurrencyId, receiver: CurrencyId, kind: TicketKind, amount: u64) {
        let good = Good { resource: self.graph.resource().clone(), kind };
        let legs = vec![Leg { giver, receiver, good, amount }];
        self.perform(root(), Intent::from(MakeExchange { legs, until_s: None }));
    }
}

/// Paper 1, figure 5: processes A and B exchange tickets; C still has one third of each type.
#[test]
fn exchanges_insulate_those_who_take_no_part() {
    let mut machine = Machine::new();
    let [a, b, c] = [(); 3].map(|()| machine.task(&[(BASE, soft(100))]));
    machine.lend(a, b, TicketKind::Soft, 40);
    assert_eq!(machine.values(300, [a, b, c]), [60, 140, 100]);
    assert_eq!([a, b, c].map(|id| machine.graph.guaranteed(id) * 300 / WHOLE), [59, 139, 99]);
    // The giver sleeps: the receiver has what the giver would have had, and C no less than a third.
    machine.graph.set_active(a, false);
    assert_eq!(machine.values(240, [a, b, c]), [0, 140, 100]);
    // The receiver sleeps: nobody has it, so all share it.
    machine.graph.set_active(a, true);
    machine.graph.set_active(b, false);
    assert_eq!(machine.values(160, [a, b, c]), [60, 0, 100]);
}

/// An idle giver's siblings would have its part of their currency, and the receiver as well: a
/// bystander would pay. The charge sinks to the currency.
#[test]
fn the_charge_of_an_idle_giver_sinks() {
    let mut machine = Machine::new();
    let user = machine.currency("user", &[(BASE, soft(160))]);
    let giver = machine.task(&[(user, soft(1))]);
    let sibling = machine.task(&[(user, soft(1))]);
    let receiver = machine.task(&[(BASE, soft(160))]);
    let bystander = machine.task(&[(BASE, soft(160))]);
    machine.lend(giver, receiver, TicketKind::Soft, 60);
    let all = [giver, sibling, receiver, bystander];
    assert_eq!(machine.values(480, all), [20, 80, 220, 160]);
    machine.graph.set_active(giver, false);
    assert_eq!(machine.values(480, all), [0, 100, 220, 160]);
    // With the whole user idle the receiver's tickets compete in place of the user's.
    machine.graph.set_active(sibling, false);
    assert_eq!(machine.values(380, all), [0, 0, 220, 160]);
    machine.graph.set_active(giver, true);
    assert_eq!(machine.values(480, all), [100, 0, 220, 160]);
}

/// The charge of an idle holder of soft tickets is the other soft tickets' holders' affair, not
/// that of who holds hard ones (figure 4's soft_tix node).
#[test]
fn a_charge_sinks_to_the_soft_tickets_alone() {
    let mut machine = Machine::new();
    let user = machine.currency("user", &[(BASE, soft(160))]);
    let fixed = machine.task(&[(user, hard(500))]);
    let giver = machine.task(&[(user, soft(1))]);
    let sibling = machine.task(&[(user, soft(1))]);
    let receiver = machine.task(&[(BASE, soft(160))]);
    machine.lend(giver, receiver, TicketKind::Soft, 30);
    let all = [fixed, giver, sibling, receiver];
    assert_eq!(machine.values(320, all), [80, 10, 40, 190]);
    machine.graph.set_active(giver, false);
    assert_eq!(machine.values(320, all), [80, 0, 50, 190]);
    // With all soft tickets idle the fixed one has the rest, less what is charged.
    machine.graph.set_active(sibling, false);
    assert_eq!(machine.values(320, all), [130, 0, 0, 190]);
}

/// Hard tickets of memory are an amount, exchanged or not; what is idle is nobody's.
#[test]
fn amounts_of_memory_are_exchanged() {
    const KIB: u64 = 1 << 20;
    let mut machine = Machine::of(Resource::MEMORY);
    machine.perform(root(), Intent::from(SetMemory { kib: KIB }));
    let kind = TicketKind::Hard;
    let amount = |kib| Funding { resource: Resource::MEMORY, kind, amount: kib };
    let [a, b] = [(); 2].map(|()| machine.task(&[(BASE, amount(KIB / 4))]));
    machine.lend(a, b, kind, 1000);
    assert_eq!(
        [machine.bytes(a), machine.bytes(b)],
        [(KIB / 4 - 1000) << 10, (KIB / 4 + 1000) << 10]
    );
    machine.graph.set_active(a, false);
    assert_eq!(machine.bytes(b), (KIB / 4 + 1000) << 10);
}
