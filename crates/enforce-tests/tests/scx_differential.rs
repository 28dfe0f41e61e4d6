//! The scheduler in the kernel against the pure crates, bit for bit: its policies against
//! `policy::keyed`, its values against `valuation::Graph`, and a live trace against what the keyed
//! policy makes of the same events. Runs in the lab (`tests/scx.sh`), on a clock that counts instructions.

use enforce_scx::{PolicyOperation, PolicyStep, Scx, ScxOptions, available};
use enforcer::{Enforcer, Plan, PlannedClient, TraceEvent, TraceEventKind};
use ledger::operation::{Adopt, CreateCurrency, Fund, MakeExchange, Transfer};
use ledger::{
    Authority, BASE, Caller, CurrencyId, Funding, Good, Intent, Ledger, Leg, Mode, NewClient,
    ProcessIdentity, Resource, TicketKind,
};
use policy::PolicyName;
use policy::keyed::{self, KeyedPolicy, Settings, lottery::mixed};
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use valuation::{Graph, WHOLE};

/// Whether the kernel can run the scheduler; says so aloud where it cannot.
fn can_load(test: &str) -> bool {
    available().inspect_err(|why| eprintln!("SKIP {test}: {why}")).is_ok()
}

/// The seed of random steps: `ALLOT_TEST_SEED`, or 1; printed, so that a failure can be repeated.
fn test_seed() -> u64 {
    let seed = std::env::var("ALLOT_TEST_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or(1);
    eprintln!("ALLOT_TEST_SEED={seed}");
    seed
}

fn dice(seed: u64) -> impl FnMut() -> u64 {
    let mut number = 0u64;
    move || {
        number += 1;
        mixed(mixed(seed).wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }
}

/// A ledger, changed by its superuser; what it refuses is left out.
struct Book {
    ledger: Ledger,
    made: u32,
}

impl Book {
    fn new() -> Book {
        Book { ledger: Ledger::new(0, 0), made: 0 }
    }

    fn act(&mut self, intent: Intent) -> bool {
        let caller = Caller { uid: 0, gid: 0, groups: Vec::new(), process: None };
        match ledger::decide(&self.ledger, Authority::Caller(caller), intent) {
            Ok(authorised) => {
                self.ledger.apply(authorised);
                true
            }
            Err(_) => false,
        }
    }

    fn fund(&mut self, holder: CurrencyId, issuer: CurrencyId, kind: TicketKind, amount: u64) {
        let funding = Funding { resource: Resource::CPU, kind, amount };
        self.act(Intent::from(Fund { holder, issuer, funding }));
    }

    fn currency(&mut self) -> CurrencyId {
        self.made += 1;
        let name = format!("c{}", self.made);
        let (owner, group, mode) = (0, 0, Mode::PRIVATE);
        assert!(self.act(Intent::from(CreateCurrency { name: name.clone(), owner, group, mode })));
        self.ledger.named(0, &name).expect("just made")
    }

    fn client(&mut self, process: ProcessIdentity, issuer: CurrencyId, amount: u64) -> CurrencyId {
        let client = NewClient::process(process, 0, 0);
        let funding = Funding { resource: Resource::CPU, kind: TicketKind::Soft, amount };
        assert!(self.act(Intent::from(Adopt { client, issuer, funding: vec![funding] })));
        self.ledger.client_of(process).expect("just made")
    }

    /// A client of a process that there is not: nothing will ever run as it.
    fn nobody(&mut self, issuer: CurrencyId, amount: u64) -> CurrencyId {
        self.made += 1;
        let process = ProcessIdentity { pid: self.made, start_time_ticks: 7 };
        self.client(process, issuer, amount)
    }

    fn plan(&self, generation: u64) -> Plan {
        let graph = Graph::of(&self.ledger, Resource::CPU);
        let planned = |(founder, id)| PlannedClient {
            lent: graph.has_lent(id),
            ..PlannedClient::of(id, founder)
        };
        let mut clients: Vec<_> = self.ledger.clients().map(planned).collect();
        clients.sort_by_key(|client| client.id);
        let graphs = [(Resource::CPU, graph)].into();
        Plan { generation, graphs, clients, limits: vec![] }
    }
}

fn start(options: ScxOptions) -> Scx {
    let program = env!("CARGO_BIN_EXE_enforce-actor").into();
    Scx::start(ScxOptions { program, ..options }).unwrap_or_else(|error| panic!("{error}"))
}

/// A scheduler that nothing runs by.
fn detached(seed: u64) -> Scx {
    start(ScxOptions { seed, attach: false, transfers: false, ..ScxOptions::default() })
}

#[test]
#[ignore = "lab"]
fn a_policy_in_the_kernel_gives_the_same_numbers() {
    if !can_load("a_policy_in_the_kernel_gives_the_same_numbers") {
        return;
    }
    // An emulated machine makes a thousand in a second.
    const STEPS: u64 = 20_000;
    let seed = test_seed();
    let mut dice = dice(seed);
    let mut scx = detached(seed);
    let mut book = Book::new();
    let ids: Vec<CurrencyId> = (0..16).map(|_| book.nobody(BASE, 10)).collect();
    scx.apply(&book.plan(1).into()).unwrap();
    let cpus = scx_cpus();
    let ScxOptions { quantum_ns, round_ns, .. } = ScxOptions::default();
    let settings = Settings { cpus, quantum_ns, round_ns, seed };
    let mut clients: Vec<keyed::Client> =
        ids.iter().map(|id| keyed::Client::new(id.0, 0)).collect();
    // The kernel counts what clients lost; nothing is given, for nobody runs.
    let mut service = 0u64;
    for name in PolicyName::ALL {
        scx.set_algorithm(name).unwrap();
        let mut twin = keyed::build(name, settings);
        for step in 0..STEPS {
            let number = (dice() % ids.len() as u64) as usize;
            let client = &mut clients[number];
            let operation = match dice() % 5 {
                0 => PolicyOperation::Join,
                1 => PolicyOperation::Key,
                2 => PolicyOperation::Charge,
                3 => PolicyOperation::Slice,
                _ => PolicyOperation::Settled,
            };
            let argument = match operation {
                PolicyOperation::Key => (dice() % 2_000) >> (dice() % 11),
                _ => (dice() >> 30) >> (dice() % 34),
            };
            let value = (dice() % (WHOLE + 1)) >> (dice() % 49);
            let owed_ns = ((dice() >> 20) >> (dice() % 44)) as i64;
            let owed_ns = if dice().is_multiple_of(2) { owed_ns } else { -owed_ns };
            let due_ns = client.charged_ns.wrapping_sub(owed_ns as u64);
            let now = dice() >> (dice() % 64);
            client.set_value(value);
            client.due_ns = due_ns;
            let expected = match operation {
                PolicyOperation::Join => {
                    twin.join(client, service);
                    client.position
                }
                PolicyOperation::Key => {
                    let answer = twin.key(client, argument, 0, now);
                    service = service.wrapping_add(answer.lost_ns);
                    answer.key
                }
                PolicyOperation::Charge => {
                    let drawn = twin.draw(client);
                    twin.charge(client, argument, drawn, service);
                    if name == PolicyName::MtrLs { client.left } else { client.charged_ns }
                }
                PolicyOperation::Slice => twin.slice(client, argument),
                PolicyOperation::Settled => u64::from(twin.is_settled(client, argument)),
            };
            let asked = PolicyStep { operation, client: ids[number], argument, value, due_ns, now };
            let answer = scx.probe_policy(asked).unwrap().expect("it knows the client");
            assert_eq!(answer, expected, "{name}, seed {seed}, step {step}: {asked:?}, {client:?}");
        }
    }
}

/// How many CPUs the scheduler counts: one more than the greatest number.
fn scx_cpus() -> u32 {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").expect("it is there");
    let last = online.trim().rsplit([',', '-']).next().expect("there is a CPU");
    last.parse::<u32>().expect("a number") + 1
}

/// Currencies above a client, at most, base not counted.
const DEEPEST: usize = 4;

/// A random graph: currencies in each other, clients with one to three backers, loans. Answers the
/// clients, and how deep the deepest of them is.
fn random_book(dice: &mut impl FnMut() -> u64) -> (Book, Vec<CurrencyId>, usize) {
    fn pick<T: Copy>(dice: &mut impl FnMut() -> u64, of: &[T]) -> T {
        of[(dice() % of.len() as u64) as usize]
    }
    let mut book = Book::new();
    let mut issuers = vec![(BASE, 0)];
    for _ in 0..1 + dice() % 16 {
        let holder = book.currency();
        let mut depth = 0;
        for _ in 0..1 + dice() % 3 {
            let (issuer, above) = pick(dice, &issuers);
            let (kind, amount) = match dice() % 4 {
                0 => (TicketKind::Hard, 1 + dice() % 400),
                _ => (TicketKind::Soft, 1 + (dice() >> (35 + dice() % 29))),
            };
            book.fund(holder, issuer, kind, amount);
            depth = depth.max(above + 1);
        }
        if depth < DEEPEST || dice().is_multiple_of(2) {
            issuers.push((holder, depth));
        }
        issuers.retain(|(_, depth)| *depth <= DEEPEST);
    }
    let mut clients = Vec::new();
    let mut deepest = 0;
    for _ in 0..1 + dice() % 24 {
        let (issuer, above) = pick(dice, &issuers);
        let client = book.nobody(issuer, 1 + (dice() >> (35 + dice() % 29)));
        deepest = deepest.max(above + 1);
        for _ in 0..dice() % 3 {
            let (issuer, above) = pick(dice, &issuers);
            match dice() % 3 {
                0 => book.fund(client, issuer, TicketKind::Hard, 1 + dice() % 300),
                _ => book.fund(client, issuer, TicketKind::Soft, 1 + dice() % 1_000_000),
            }
            deepest = deepest.max(above + 1);
        }
        clients.push(client);
    }
    for _ in 0..dice() % 4 {
        let (lender, holder) = (pick(dice, &clients), pick(dice, &clients));
        book.act(Intent::from(Transfer { lender, holder, resource: Resource::CPU }));
    }
    // Gifts of whatever the giver can: of currencies too, whose idle members' charges sink.
    let parties: Vec<CurrencyId> = book.ledger.currencies().map(|it| it.id).skip(1).collect();
    for _ in 0..dice() % 12 {
        let (giver, receiver) = (pick(dice, &parties), pick(dice, &parties));
        let kind = if dice().is_multiple_of(3) { TicketKind::Hard } else { TicketKind::Soft };
        let good = Good { resource: Resource::CPU, kind };
        let spare = book.ledger.spare(giver, &good);
        if spare > 0 {
            let amount = 1 + dice() % spare;
            let legs = vec![Leg { giver, receiver, good, amount }];
            book.act(Intent::from(MakeExchange { legs, until_s: None }));
        }
    }
    (book, clients, deepest)
}

#[test]
#[ignore = "lab"]
fn values_in_the_kernel_are_those_of_the_graph() {
    if !can_load("values_in_the_kernel_are_those_of_the_graph") {
        return;
    }
    let seed = test_seed();
    let mut dice = dice(seed);
    let mut scx = detached(seed);
    let (mut compared, mut lent, mut deepest, mut exchanged) = (0, 0, 0, 0);
    for generation in 1..=60 {
        let (book, clients, depth) = random_book(&mut dice);
        deepest = deepest.max(depth);
        let plan = book.plan(generation);
        let mut graph = plan.cpu().clone();
        scx.apply(&plan.into()).unwrap();
        exchanged += usize::from(graph.has_exchanges());
        let own: Vec<_> = clients.iter().copied().filter(|id| !graph.has_lent(*id)).collect();
        lent += clients.len() - own.len();
        if own.is_empty() {
            continue;
        }
        for step in 0..20 {
            let id = own[(dice() % own.len() as u64) as usize];
            let active = !dice().is_multiple_of(3);
            graph.set_active(id, active);
            scx.probe_value(id, Some(active)).unwrap();
            for id in &own {
                if !graph.is_active(*id) {
                    continue;
                }
                let value = scx.probe_value(*id, None).unwrap().expect("it knows the client");
                let expected = graph.value(*id);
                assert_eq!(value, expected, "seed {seed}, graph {generation}, step {step}, {id:?}");
                compared += 1;
            }
        }
    }
    eprintln!(
        "{compared} values, {lent} clients that have lent, {exchanged} graphs with exchanges, \
         depth up to {deepest}"
    );
    assert!(compared > 3_000 && lent > 0 && exchanged > 20 && deepest == DEEPEST + 1);
}

/// A process that does what it is told, until it is dropped.
struct Actor(Child);

impl Actor {
    fn start(words: &[&str]) -> Actor {
        let mut command = Command::new(env!("CARGO_BIN_EXE_enforce-actor"));
        Actor(command.args(words).stdin(Stdio::null()).spawn().expect("the actor starts"))
    }

    fn identity(&self) -> ProcessIdentity {
        observe::ProcessHandle::open(self.0.id()).expect("it lives").identity()
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All CPUs but the first are off, until this is dropped.
struct OneCpu(Vec<PathBuf>);

impl OneCpu {
    fn only() -> std::io::Result<OneCpu> {
        let mut off = OneCpu(Vec::new());
        for entry in fs::read_dir("/sys/devices/system/cpu")? {
            let path = entry?.path();
            let online = path.join("online");
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let number = name.strip_prefix("cpu").and_then(|number| number.parse::<u32>().ok());
            if number.is_some_and(|number| number > 0) && online.exists() {
                fs::write(&online, "0")?;
                off.0.push(online);
            }
        }
        Ok(off)
    }
}

impl Drop for OneCpu {
    fn drop(&mut self) {
        for online in &self.0 {
            let _ = fs::write(online, "1");
        }
    }
}

/// What processes did by the lottery in the kernel: every event, in order, and whose clients they
/// were. Each client has one thread. Some sleep now and then.
fn live_trace(seed: u64, seconds: u64) -> (Vec<CurrencyId>, Vec<TraceEvent>, ScxOptions) {
    let mut book = Book::new();
    let (user, other) = (book.currency(), book.currency());
    book.fund(user, BASE, TicketKind::Soft, 60_000);
    book.fund(other, BASE, TicketKind::Soft, 40_000);
    let job = book.currency();
    book.fund(job, user, TicketKind::Hard, 300);
    let acts: [(&[&str], CurrencyId, u64); 6] = [
        (&["doze", "2", "9"], job, 10),
        (&["doze", "6", "5"], other, 10),
        (&["burn", "1"], user, 30),
        (&["burn", "1"], user, 20),
        (&["burn", "1"], job, 10),
        (&["burn", "1"], other, 10),
    ];
    let seed = (seed..).find(|seed| differ(*seed)).expect("one is");
    let policy = PolicyName::Lottery;
    let options = ScxOptions { policy, seed, transfers: false, ..ScxOptions::default() };
    // Loading is much work: nobody shall compete with it.
    let mut scx = start(options.clone());
    let actors: Vec<Actor> = acts.iter().map(|(words, _, _)| Actor::start(words)).collect();
    let clients: Vec<CurrencyId> = actors
        .iter()
        .zip(&acts)
        .map(|(actor, (_, issuer, amount))| book.client(actor.identity(), *issuer, *amount))
        .collect();
    // Who reads the trace must not wait for them.
    let own = observe::ProcessHandle::open(std::process::id()).expect("it lives").identity();
    book.client(own, BASE, 50_000);
    // From before the first thread runs by it.
    let mut trace = scx.tracer().expect("it has one").unwrap();
    scx.apply(&book.plan(1).into()).unwrap();
    let mut events = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(100));
        events.extend(trace.ready());
    }
    let drift = scx.status().unwrap().drift;
    assert!(drift.is_empty(), "{drift:?}");
    let mut next = BTreeMap::new();
    for event in &events {
        let seq = next.entry(event.cpu).or_insert(event.seq);
        assert_eq!(event.seq, *seq, "events of CPU {} were lost", event.cpu);
        *seq = seq.wrapping_add(1);
    }
    (clients, events, options)
}

/// More than a client draws in a test.
const DRAWS: usize = 5_000;

fn lottery(seed: u64) -> Box<dyn KeyedPolicy> {
    let ScxOptions { quantum_ns, round_ns, .. } = ScxOptions::default();
    keyed::build(PolicyName::Lottery, Settings { cpus: 1, quantum_ns, round_ns, seed })
}

/// Whether no two numbers that a client draws one after the other are the same: then an event's
/// number tells which of its draws it belongs to. For all the numbers that a client may have here.
fn differ(seed: u64) -> bool {
    (1..20).all(|id| {
        let (mut policy, mut client) = (lottery(seed), keyed::Client::new(id, 0));
        let drawn: Vec<u64> = (0..DRAWS).map(|_| policy.draw(&mut client)).collect();
        drawn.windows(2).all(|pair| pair[0] != pair[1])
    })
}

/// A client of the trace, as the pure policy has it.
struct Twin {
    client: keyed::Client,
    used_ns: u64,
    drawn: Option<u64>,
    /// Of the last draw; `None` where the events do not say what it was computed from.
    key: Option<u64>,
    /// The least to which that may have been held: its rate was not known then (main.bpf.c, rule 6).
    held_to: Option<u64>,
    queued: bool,
    /// Its first member became runnable and has no key yet.
    woken: bool,
    /// It was chosen without having waited.
    kept: bool,
    /// The key with which it was served last.
    won: u64,
    /// The number of the event that queued it when it woke; 0 when it was queued otherwise.
    woke_at: u64,
}

/// What was compared.
#[derive(Debug, Default)]
struct Compared {
    draws: u64,
    charges: u64,
    keys: u64,
    /// Of keys: those of who woke and owed little, and was put before all who waited.
    hurried: u64,
    /// And those of who was asked to stop for one that woke, and would come first nevertheless.
    overtaken: u64,
    /// And those of who owed much while its rate was not known.
    held: u64,
    winners: u64,
    /// Keys whose client lagged so far that how many waited matters.
    lagging: u64,
}

/// Feeds the events to the pure policy, and compares what that makes of them.
///
/// Each event carries what its key was computed from, once one knows what happened just before on
/// the same CPU; with several CPUs virtual time moves meanwhile, so keys are compared only where
/// `keys` says so. What was *due* is taken from the events: it depends on the activity of everybody
/// on the machine, and not all of that is in the trace.
struct Replay {
    policy: Box<dyn KeyedPolicy>,
    twins: BTreeMap<CurrencyId, Twin>,
    keys: bool,
    lag_ns: i64,
    horizon_ns: u64,
    quantum_ns: u64,
    /// Virtual time at the last event.
    now: u64,
    /// The key of who was served last.
    front: u64,
    /// Counts events; which of them ended the last turn.
    number: u64,
    turn_ended_at: u64,
    /// The last few, for who must find out why something differs.
    recent: VecDeque<TraceEvent>,
    compared: Compared,
}

const RECENT: usize = 12;

impl Replay {
    fn new(clients: &[CurrencyId], options: &ScxOptions, keys: bool) -> Replay {
        let twin = |id: &CurrencyId| Twin {
            client: keyed::Client::new(id.0, 0),
            used_ns: 0,
            drawn: None,
            key: None,
            held_to: None,
            queued: false,
            woken: false,
            kept: false,
            won: 0,
            woke_at: 0,
        };
        Replay {
            policy: lottery(options.seed),
            twins: clients.iter().map(|id| (*id, twin(id))).collect(),
            keys,
            lag_ns: (keyed::stride::LAG_QUANTA * options.quantum_ns) as i64,
            horizon_ns: options.horizon_ns,
            quantum_ns: options.quantum_ns,
            now: 0,
            front: 0,
            number: 0,
            turn_ended_at: 0,
            recent: VecDeque::new(),
            compared: Compared::default(),
        }
    }

    fn hear(&mut self, event: &TraceEvent) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(*event);
        self.number += 1;
        if event.kind == TraceEventKind::Charge {
            self.turn_ended_at = self.number;
        }
        if let Some(mut twin) = self.twins.remove(&event.client) {
            self.hear_twin(&mut twin, event);
            self.twins.insert(event.client, twin);
        }
        self.now = event.now;
        if event.kind == TraceEventKind::Win {
            self.front = event.key;
        }
    }

    fn hear_twin(&mut self, twin: &mut Twin, event: &TraceEvent) {
        match event.kind {
            TraceEventKind::Join => {
                twin.woken = true;
                // Whoever ceased to compete with a debt was forgiven it.
                if twin.client.charged_ns != event.charged_ns {
                    assert_eq!(event.charged_ns, event.due_ns, "{event:?}");
                    twin.client.charged_ns = event.charged_ns;
                }
            }
            TraceEventKind::Leave => twin.queued = false,
            TraceEventKind::Queue | TraceEventKind::Win | TraceEventKind::Charge => {
                twin.kept = false;
                let woken = twin.woken;
                if twin.drawn != Some(event.drawn) {
                    self.draw(twin, event);
                }
                match event.kind {
                    TraceEventKind::Charge => self.charge(twin, event),
                    TraceEventKind::Queue => {
                        self.compare_key(twin, event, woken);
                        twin.queued = true;
                        twin.woke_at = if woken { self.number } else { 0 };
                    }
                    _ => {
                        self.compare_key(twin, event, woken);
                        twin.won = event.key;
                        // Who was only interrupted goes on without a choice, and so does who was
                        // put on a CPU that nobody wanted.
                        if self.keys && (twin.queued || twin.kept) {
                            self.compare_winner(event);
                        }
                        twin.queued = false;
                    }
                }
            }
        }
    }

    /// The thread got a key for its next quantum, and a number with it.
    fn draw(&mut self, twin: &mut Twin, event: &TraceEvent) {
        let drawn = self.policy.draw(&mut twin.client);
        assert_eq!(drawn, event.drawn, "draw {} of {event:?}", twin.client.draws - 1);
        self.compared.draws += 1;
        twin.drawn = Some(drawn);
        // Who loses is charged for the moment that the choice took, after it has got its key.
        let now = if event.kind == TraceEventKind::Charge { self.now } else { event.now };
        twin.client.value = event.value;
        twin.client.set_rate(event.rate);
        twin.client.due_ns = event.due_ns;
        let woken = std::mem::take(&mut twin.woken);
        twin.kept = !woken && event.kind == TraceEventKind::Win;
        if twin.client.owed_ns() < -self.lag_ns {
            twin.key = None;
            self.compared.lagging += 1;
            return;
        }
        let answer = self.policy.key(&mut twin.client, 0, 0, now);
        assert_eq!(answer.lost_ns, 0);
        let mut key = answer.key;
        let tolerated = keyed::machine::tolerated(&twin.client, self.quantum_ns, self.horizon_ns);
        if woken && !keyed::before(now + tolerated, key) {
            key = keyed::machine::key_of_waker(self.front, now);
            self.compared.hurried += 1;
        }
        // With tickets as these nobody reaches it.
        assert!(!self.keys || keyed::before(key, now + self.horizon_ns), "{event:?}");
        twin.key = Some(key);
        twin.held_to = (event.rate == event.value).then_some(now + keyed::machine::RATE_NS);
    }

    fn compare_key(&mut self, twin: &mut Twin, event: &TraceEvent, woken: bool) {
        if let (true, Some(key)) = (self.keys, &mut twin.key) {
            // That a CPU was asked to choose again is no event.
            let overtaken = !woken && event.key == twin.won && keyed::before(*key, twin.won);
            if overtaken {
                *key = twin.won;
                self.compared.overtaken += 1;
            }
            // By the keys that were served lately, which no event tells.
            let is_held =
                |least| keyed::before(event.key, *key) && !keyed::before(event.key, least);
            if twin.held_to.is_some_and(is_held) {
                *key = event.key;
                self.compared.held += 1;
            }
            let key = *key;
            assert_eq!(event.key, key, "{event:?}, front {}, {:?}", self.front, twin.client);
            self.compared.keys += 1;
        }
    }

    /// Nobody who waited had a lesser key. Who woke when the last turn had ended may have come too
    /// late: a real-time thread can run between a choice and its winner's turn.
    fn compare_winner(&mut self, event: &TraceEvent) {
        let waited = |twin: &Twin| twin.queued && twin.woke_at <= self.turn_ended_at;
        for (id, other) in self.twins.iter().filter(|(_, twin)| waited(twin)) {
            let Some(key) = other.key else { continue };
            let recent = &self.recent;
            assert!(!keyed::before(key, event.key), "{id:?} had {key}: {recent:#?}");
            self.compared.winners += 1;
        }
    }

    fn charge(&mut self, twin: &mut Twin, event: &TraceEvent) {
        let used_ns = event.used_ns - twin.used_ns;
        twin.used_ns = event.used_ns;
        let cost_ns = self.policy.charge(&mut twin.client, used_ns, event.drawn, event.now);
        // A charge's event has what it cost in the place of a key.
        assert_eq!(cost_ns, event.key, "{used_ns} ns, {event:?}");
        assert_eq!(twin.client.charged_ns, event.charged_ns, "{event:?}");
        self.compared.charges += 1;
    }
}

fn replayed(keys: bool) -> Compared {
    let (clients, events, options) = live_trace(test_seed(), 6);
    let mut replay = Replay::new(&clients, &options, keys);
    for event in &events {
        replay.hear(event);
    }
    let kinds = |kind| events.iter().filter(|event| event.kind == kind).count();
    eprintln!(
        "{} events, {} of them wins, {} joins: {:?}",
        events.len(),
        kinds(TraceEventKind::Win),
        kinds(TraceEventKind::Join),
        replay.compared
    );
    replay.compared
}

#[test]
#[ignore = "lab"]
fn a_lottery_on_one_cpu_goes_as_the_pure_policy_says() {
    let name = "a_lottery_on_one_cpu_goes_as_the_pure_policy_says";
    if !can_load(name) {
        return;
    }
    let _one = match OneCpu::only() {
        Ok(one) => one,
        Err(error) => {
            eprintln!("SKIP {name}: CPUs cannot be switched off: {error}");
            return;
        }
    };
    let compared = replayed(true);
    assert!(compared.draws > 300 && compared.charges > 300, "{compared:?}");
    assert!(compared.keys > compared.draws / 2 && compared.winners > 100, "{compared:?}");
}

#[test]
#[ignore = "lab"]
fn a_lottery_on_all_cpus_draws_and_charges_as_the_pure_policy_says() {
    let name = "a_lottery_on_all_cpus_draws_and_charges_as_the_pure_policy_says";
    if !can_load(name) {
        return;
    }
    let compared = replayed(false);
    assert!(compared.draws > 300 && compared.charges > 300, "{compared:?}");
}
