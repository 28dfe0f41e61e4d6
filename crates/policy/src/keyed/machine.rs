//! CPUs in virtual time: the scheduler in the kernel (bpf/sched/main.bpf.c) around a keyed policy.
//!
//! 1. One queue for all CPUs, in order of keys. A free CPU takes the head, or goes on with who ran
//!    on it when that one's key is less.
//! 2. A thread that wakes takes an idle CPU. Where there is none it is queued, and preempts the
//!    running thread that is furthest beyond its key, which then does not come first once more.
//! 3. Values, and what clients were due, come from a [`Funding`]; use is charged when a turn ends.
//! 4. A thread whose client owes at most [`WAKERS_DEBT_QUANTA`] runs at once when it wakes, before all who
//!    wait; those that wake take turns. Who sleeps before its share has paid for what it used
//!    *lingers*: its tickets count until then. What it was due beyond that is due to all; of what it
//!    had not used before, it keeps [`SLEEPERS_CREDIT_QUANTA`] (the lottery: all).
//! 5. No client's key is more than the horizon ahead of those that are served now. Who is served
//!    from there owes no more than what it had to wait for; the rest is forgiven. Threads of one
//!    client wait for each other, for at most [`CROWD_HORIZONS`] such times.
//! 6. Turns are shorter when many wait.
//! 7. What all clients owe adds up to nothing: a debt that is forgiven is made up for by what is
//!    given next. That long virtual time stands still.
//!
//! Not modelled: domains of CPUs, affinity, guests, transfers, the cost of a switch.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    Client, KeyedPolicy, SLICE_MIN_NS, Settings, WHOLE, before, build, later, stride, virtual_ns,
};
use crate::{ClientKey, PolicyName};

/// A woken thread must be this much ahead of a running one, in ns of that one, to preempt it.
const PREEMPT_MIN_NS: u64 = 20_000;
/// How many running threads a wake-up compares itself to.
const PREEMPT_LOOKS: usize = 16;
/// More than this many waiting on a CPU, and slices shrink.
const CROWD: u64 = 8;
/// A client's due is brought up to date when so much was given since.
const ADVANCE_NS: u64 = 50_000;
/// A client's rate is what it was due on average while so much was given by every CPU, or more. Until
/// that is known it is its value, and it waits at most for as long as it takes to know it.
pub const RATE_NS: u64 = 200_000_000;
/// Who was away for so many such times has no rate.
const RATE_STALE: u64 = 4;
/// Rule 5.
const CROWD_HORIZONS: u64 = 5;
/// Rule 4.
const SLEEPERS_CREDIT_QUANTA: u64 = 4;
/// Rule 4: so much may a client owe, and be ahead by a [`WAKERS_HORIZONS`]-th of the horizon.
const WAKERS_DEBT_QUANTA: u64 = 8;
/// Rule 4.
const WAKERS_HORIZONS: u64 = 32;
/// Clients that linger on one CPU.
const LINGERING_MAX: usize = 64;
/// Keys are never so far behind virtual time.
const SERVICE_FIRST: u64 = 1 << 60;

/// Who is due what: a currency graph, or fixed weights.
pub trait Funding {
    /// `client`'s tickets begin, or cease, to count, when so much was given to all
    /// (`service_ns`).
    fn set_active(&mut self, client: ClientKey, active: bool, service_ns: u64);

    /// What `client`, which is active, is due now, in parts of [`WHOLE`](super::WHOLE).
    fn value(&mut self, client: ClientKey) -> u64;

    /// What `client`, which is active, was due since it was asked the last time or became active,
    /// in nanoseconds: its value's part of all that was given between, whoever joined and left
    /// meanwhile.
    fn due_ns(&mut self, client: ClientKey, service_ns: u64) -> u64;
}

/// Names a thread of a [`Machine`].
pub type ThreadKey = usize;

/// What [`Machine::advance`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A CPU chose this thread for its next turn; it may be the one that ran.
    Chosen {
        /// Which CPU.
        cpu: usize,
        /// Whom.
        thread: ThreadKey,
    },
    /// The thread has done its work, and sleeps until it is [woken](Machine::wake_at).
    Slept(ThreadKey),
}

struct Entry {
    client: Client,
    runnable: u64,
    active: bool,
    lingers: bool,
    /// What it is due at most until it is runnable again.
    due_limit_ns: u64,
    /// The activity for which its value is right.
    stamp: u64,
    /// The service at which its due was brought up to date.
    advanced: u64,
    /// Whether the client's rate is known, and not only its value.
    rated: bool,
    /// The service from which on the rate is counted next, and what the client was due then.
    rate_since: u64,
    rate_due_ns: u64,
    /// The service at which it became inactive.
    left_service: u64,
    used_ns: u64,
}

impl Entry {
    /// What it was due on average since this was asked last.
    fn follow_rate(&mut self, service: u64) {
        let given_ns = service - self.rate_since;
        let gained_ns = self.client.due_ns.wrapping_sub(self.rate_due_ns);
        let rate = (u128::from(WHOLE) * u128::from(gained_ns) / u128::from(given_ns)) as u64;
        self.rated = true;
        (self.rate_since, self.rate_due_ns) = (service, self.client.due_ns);
        self.client.set_rate(rate.min(WHOLE));
    }
}

struct Thread {
    client: ClientKey,
    runnable: bool,
    /// Of its work; `None` never ends.
    left_ns: Option<u64>,
    key: u64,
    /// Where its client was held to the horizon: that key (rule 5).
    latest: Option<u64>,
    drawn: u64,
    used_ns: u64,
}

#[derive(Default)]
struct Cpu {
    running: Option<ThreadKey>,
    since_ns: u64,
    key: u64,
    inverse: u64,
    /// Counts turns, so that the end of one that was cut short is known to be void.
    turn: u64,
    lingering: Vec<ClientKey>,
    look: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    TurnEnds { cpu: usize, turn: u64 },
    Wakes { thread: ThreadKey, work_ns: Option<u64> },
}

/// By how much, in virtual time, a client's thread that wakes may be ahead and yet run at once (rule 4).
/// `horizon` is in virtual time too.
pub fn tolerated(client: &Client, quantum_ns: u64, horizon: u64) -> u64 {
    virtual_ns(WAKERS_DEBT_QUANTA * quantum_ns, client.inverse).min(horizon / WAKERS_HORIZONS)
}

/// The key of a thread that wakes and need not wait, whatever its client was due; `front` is that of who was
/// served last, `now` virtual time (rule 4).
pub fn key_of_waker(front: u64, now: u64) -> u64 {
    if before(front, now) { front } else { now }
}

/// The client owes at most this from now on; answers what was forgiven.
fn forgive(client: &mut Client, most_ns: u64) -> u64 {
    let more_ns = (client.owed_ns() - most_ns as i64).max(0) as u64;
    client.charged_ns -= more_ns;
    more_ns
}

/// CPUs, threads and a keyed policy. See the [module](self).
pub struct Machine<F> {
    policy: Box<dyn KeyedPolicy>,
    settings: Settings,
    sleepers_credit_ns: u64,
    horizon_ns: u64,
    /// Who is due what.
    pub funding: F,
    now_ns: u64,
    /// CPU time that was given to all: virtual time. It begins at [`SERVICE_FIRST`], and no run is
    /// so long that keys leave 64 bits, so that they can be ordered as numbers.
    service: u64,
    /// Debts that were forgiven, as far as they have not been made up for (rule 7).
    forgiven: u64,
    /// The key of who was served last.
    front: u64,
    /// About the greatest key that was served lately of those that waited.
    reached: u64,
    activity: u64,
    clients: BTreeMap<ClientKey, Entry>,
    threads: Vec<Thread>,
    cpus: Vec<Cpu>,
    queue: BTreeSet<(u64, u64, ThreadKey)>,
    events: BTreeSet<(u64, u64, Event)>,
    /// Orders what is equal otherwise.
    sequence: u64,
    happened: VecDeque<Happening>,
}

impl<F: Funding> Machine<F> {
    /// All CPUs idle, at time 0. `horizon_ns` is how far ahead of virtual time a key may be, in
    /// nanoseconds of the whole machine (the kernel has 2 s unless it is told otherwise).
    ///
    /// # Panics
    /// Without CPUs.
    pub fn new(policy: PolicyName, settings: Settings, horizon_ns: u64, funding: F) -> Self {
        assert!(settings.cpus > 0, "a machine has a CPU");
        Machine {
            policy: build(policy, settings),
            settings,
            sleepers_credit_ns: match policy {
                PolicyName::Stride => SLEEPERS_CREDIT_QUANTA * settings.quantum_ns,
                PolicyName::Lottery | PolicyName::MtrLs => u64::MAX,
            },
            horizon_ns,
            funding,
            now_ns: 0,
            service: SERVICE_FIRST,
            forgiven: 0,
            front: SERVICE_FIRST,
            reached: SERVICE_FIRST,
            activity: 1,
            clients: BTreeMap::new(),
            threads: Vec::new(),
            cpus: (0..settings.cpus).map(|_| Cpu::default()).collect(),
            queue: BTreeSet::new(),
            events: BTreeSet::new(),
            sequence: 0,
            happened: VecDeque::new(),
        }
    }

    /// A new client, without threads. A name that is in use is left alone.
    pub fn add_client(&mut self, id: ClientKey) {
        let client = Client::new(id, 0);
        self.clients.entry(id).or_insert(Entry {
            client,
            runnable: 0,
            active: false,
            lingers: false,
            due_limit_ns: 0,
            stamp: 0,
            advanced: 0,
            rated: false,
            rate_since: 0,
            rate_due_ns: 0,
            left_service: 0,
            used_ns: 0,
        });
    }

    /// A new thread of a client; it sleeps.
    ///
    /// # Panics
    /// When there is no such client.
    pub fn add_thread(&mut self, client: ClientKey) -> ThreadKey {
        assert!(self.clients.contains_key(&client), "no client {client}");
        self.threads.push(Thread {
            client,
            runnable: false,
            left_ns: None,
            key: 0,
            latest: None,
            drawn: 0,
            used_ns: 0,
        });
        self.threads.len() - 1
    }

    /// The thread wakes at `at_ns`, now if that has passed, to sleep again when it has run for
    /// `work_ns`; `None`: never.
    pub fn wake_at(&mut self, thread: ThreadKey, at_ns: u64, work_ns: Option<u64>) {
        self.schedule(at_ns.max(self.now_ns), Event::Wakes { thread, work_ns });
    }

    /// Goes on until something happens, or until `until_ns` when nothing does before; then `None`.
    pub fn advance(&mut self, until_ns: u64) -> Option<Happening> {
        loop {
            if let Some(happening) = self.happened.pop_front() {
                return Some(happening);
            }
            match self.events.first() {
                Some(&(at_ns, _, event)) if at_ns <= until_ns => {
                    self.events.pop_first();
                    self.now_ns = at_ns;
                    match event {
                        Event::TurnEnds { cpu, turn } if self.cpus[cpu].turn == turn => {
                            self.choose(cpu, false);
                        }
                        Event::TurnEnds { .. } => {}
                        Event::Wakes { thread, work_ns } => self.wake(thread, work_ns),
                    }
                }
                _ => {
                    self.now_ns = self.now_ns.max(until_ns);
                    return None;
                }
            }
        }
    }

    /// The time, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Whose a thread is.
    pub fn client_of(&self, thread: ThreadKey) -> ClientKey {
        self.threads[thread].client
    }

    /// CPU time that a client has been charged for; turns that have not ended are not in it. 0 for
    /// an unknown client.
    pub fn used_ns(&self, client: ClientKey) -> u64 {
        self.clients.get(&client).map_or(0, |entry| entry.used_ns)
    }

    /// CPU time of a thread, in the same way.
    pub fn thread_used_ns(&self, thread: ThreadKey) -> u64 {
        self.threads[thread].used_ns
    }

    /// What the policy knows of a client.
    pub fn client(&self, client: ClientKey) -> Option<&Client> {
        self.clients.get(&client).map(|entry| &entry.client)
    }

    /// Virtual time: what was given to all, and what was lost, in nanoseconds.
    pub fn service_ns(&self) -> u64 {
        self.service - SERVICE_FIRST
    }

    /// How many CPUs have nothing to do.
    pub fn idle_cpus(&self) -> usize {
        self.cpus.iter().filter(|cpu| cpu.running.is_none()).count()
    }

    fn schedule(&mut self, at_ns: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((at_ns, self.sequence, event));
    }

    fn entry(&mut self, client: ClientKey) -> &mut Entry {
        self.clients.get_mut(&client).expect("threads are of known clients")
    }

    fn set_active(&mut self, client: ClientKey, active: bool) {
        if self.entry(client).active == active {
            return;
        }
        self.advance_due(client);
        self.entry(client).active = active;
        self.funding.set_active(client, active, self.service);
        self.activity += 1;
        let (service, window_ns) = (self.service, self.rate_window_ns());
        let entry = self.entry(client);
        if active {
            let away_ns = service - entry.left_service;
            entry.rate_since += away_ns;
            if away_ns > RATE_STALE * window_ns {
                entry.rated = false;
                (entry.rate_since, entry.rate_due_ns) = (service, entry.client.due_ns);
            }
        } else {
            entry.left_service = service;
            if entry.runnable == 0 {
                self.give_back_beyond(client, self.clients[&client].due_limit_ns);
            }
            let charged_ns = self.clients[&client].client.charged_ns;
            self.give_back_beyond(client, charged_ns.saturating_add(self.sleepers_credit_ns));
            let forgiven_ns = forgive(&mut self.entry(client).client, 0);
            self.forgiven += forgiven_ns;
        }
    }

    /// What a client was due beyond this is due to all.
    fn give_back_beyond(&mut self, client: ClientKey, due_ns: u64) {
        if self.policy.keys_are_times() {
            let entry = self.entry(client);
            let more_ns = entry.client.due_ns.saturating_sub(due_ns);
            entry.rate_due_ns = entry.rate_due_ns.wrapping_sub(more_ns);
            let given_ns = entry.client.give_back(more_ns);
            self.service += given_ns;
        }
    }

    /// Brings up to date what a client was due.
    fn advance_due(&mut self, client: ClientKey) {
        let entry = self.clients.get_mut(&client).expect("threads are of known clients");
        entry.advanced = self.service;
        if entry.active {
            let due_ns = self.funding.due_ns(client, self.service);
            entry.client.due_ns += due_ns;
        }
    }

    /// The same, where it is worth while.
    fn refresh_due(&mut self, client: ClientKey) {
        if self.service - self.entry(client).advanced > ADVANCE_NS {
            self.advance_due(client);
        }
    }

    /// Rule 3's values.
    fn revalue(&mut self, client: ClientKey) {
        let activity = self.activity;
        let entry = self.clients.get_mut(&client).expect("threads are of known clients");
        if entry.stamp != activity {
            entry.client.value = self.funding.value(client);
            if !entry.rated {
                entry.client.set_rate(entry.client.value);
            }
            entry.stamp = activity;
        }
    }

    fn follow_rate(&mut self, client: ClientKey) {
        let (service, window_ns) = (self.service, self.rate_window_ns());
        let entry = self.entry(client);
        if service - entry.rate_since > window_ns {
            self.advance_due(client);
            self.entry(client).follow_rate(service);
        }
    }

    fn rate_window_ns(&self) -> u64 {
        RATE_NS * u64::from(self.settings.cpus)
    }

    fn wake(&mut self, thread: ThreadKey, work_ns: Option<u64>) {
        if self.threads[thread].runnable {
            return;
        }
        self.threads[thread].runnable = true;
        self.threads[thread].left_ns = work_ns;
        let client = self.threads[thread].client;
        self.entry(client).runnable += 1;
        if self.entry(client).runnable == 1 {
            if self.entry(client).active {
                self.advance_due(client);
                self.give_back_beyond(client, self.clients[&client].due_limit_ns);
            }
            self.set_active(client, true);
            self.revalue(client);
            let entry = self.clients.get_mut(&client).expect("it is there");
            self.policy.join(&mut entry.client, self.service);
        }
        self.next_key(thread, true);
        if let Some(idle) = self.cpus.iter().position(|cpu| cpu.running.is_none()) {
            self.run(idle, thread);
            return;
        }
        self.enqueue(thread);
        self.preempt(self.threads[thread].key);
    }

    /// The thread's key for its next turn.
    fn next_key(&mut self, thread: ThreadKey, woken: bool) {
        let id = self.threads[thread].client;
        self.revalue(id);
        self.refresh_due(id);
        self.follow_rate(id);
        let (now, waiting) = (self.service, self.queue.len() as u64);
        let entry = self.clients.get_mut(&id).expect("it is there");
        let (client, ahead) = (&mut entry.client, entry.runnable.saturating_sub(1));
        let due_ns = client.due_ns;
        let answer = self.policy.key(client, ahead, waiting, now);
        self.service += answer.lost_ns;
        let lost_ns = due_ns.wrapping_sub(client.due_ns);
        entry.rate_due_ns = entry.rate_due_ns.wrapping_sub(lost_ns);
        let mut key = answer.key;
        let thread = &mut self.threads[thread];
        thread.latest = None;
        if self.policy.keys_are_times() {
            thread.drawn = self.policy.draw(client);
            let cpus = u64::from(self.settings.cpus);
            let horizon_ns = self.horizon_ns * cpus;
            let latest =
                now.max(self.reached) + if entry.rated { horizon_ns } else { RATE_NS * cpus };
            let tolerated = tolerated(client, self.settings.quantum_ns, horizon_ns);
            if woken && !before(now + tolerated, key) {
                key = key_of_waker(self.front, now);
            } else if before(latest, key) {
                let span = stride::span(client, ahead, self.settings.quantum_ns);
                if before(latest, key - span) {
                    key = latest + span;
                    thread.latest = entry.rated.then_some(latest);
                }
                key = key.min(latest + (CROWD_HORIZONS - 1) * horizon_ns);
            }
        }
        thread.key = key;
    }

    fn enqueue(&mut self, thread: ThreadKey) {
        self.sequence += 1;
        self.queue.insert((self.threads[thread].key, self.sequence, thread));
    }

    /// Rule 2.
    fn preempt(&mut self, key: u64) {
        let (mut most, mut victim) = (0, None);
        for (number, cpu) in self.cpus.iter().enumerate().take(PREEMPT_LOOKS) {
            let ahead = if self.policy.keys_are_times() {
                let ran_ns = self.now_ns - cpu.since_ns;
                let reached = cpu.key + virtual_ns(ran_ns.min(1 << 30), cpu.inverse);
                let margin = virtual_ns(PREEMPT_MIN_NS, cpu.inverse);
                if before(key + margin, reached) { reached - key } else { 0 }
            } else {
                cpu.key.saturating_sub(key)
            };
            if ahead > most {
                (most, victim) = (ahead, Some(number));
            }
        }
        if let Some(cpu) = victim {
            self.choose(cpu, true);
        }
    }

    /// A CPU's turn is over: who is next (rule 1)? Who was overtaken does not come first once more.
    fn choose(&mut self, number: usize, overtaken: bool) {
        let cpu = &mut self.cpus[number];
        let had = cpu.key;
        cpu.turn += 1;
        if let Some(thread) = cpu.running.take() {
            let used_ns = self.now_ns - cpu.since_ns;
            self.charge(thread, used_ns);
            if self.threads[thread].left_ns == Some(0) {
                self.sleep(number, thread);
            } else {
                self.next_key(thread, false);
                if overtaken {
                    self.threads[thread].key = later(self.threads[thread].key, had);
                }
                let key = self.threads[thread].key;
                if self.queue.first().is_none_or(|&(head, ..)| before(key, head)) {
                    self.run(number, thread);
                    return;
                }
                let (_, _, next) = self.queue.pop_first().expect("it has a head");
                self.enqueue(thread);
                self.serve(number, next);
                return;
            }
        }
        if let Some((_, _, next)) = self.queue.pop_first() {
            self.serve(number, next);
        }
    }

    fn charge(&mut self, thread: ThreadKey, used_ns: u64) {
        let thread = &mut self.threads[thread];
        thread.used_ns += used_ns;
        thread.left_ns = thread.left_ns.map(|left_ns| left_ns.saturating_sub(used_ns));
        if used_ns > 0 {
            let entry = self.clients.get_mut(&thread.client).expect("it is there");
            entry.used_ns += used_ns;
            let cost_ns =
                self.policy.charge(&mut entry.client, used_ns, thread.drawn, self.service);
            // Rule 7.
            // Not all at once: virtual time never stands still.
            let back = self.forgiven.min(cost_ns / 2);
            self.forgiven -= back;
            self.service += cost_ns - back;
            if let Some(latest) = thread.latest.take() {
                let id = thread.client;
                self.pardon(id, latest, cost_ns);
            }
        }
    }

    /// Rule 5.
    fn pardon(&mut self, id: ClientKey, latest: u64, cost_ns: u64) {
        self.advance_due(id);
        let ahead_ns = latest.saturating_sub(self.service);
        let client = &mut self.entry(id).client;
        let waited_for_ns = (ahead_ns * (client.rate >> 32)) >> 16;
        let forgiven_ns = forgive(client, waited_for_ns + cost_ns);
        self.forgiven += forgiven_ns;
    }

    fn sleep(&mut self, cpu: usize, thread: ThreadKey) {
        self.threads[thread].runnable = false;
        self.happened.push_back(Happening::Slept(thread));
        let (id, now_ns) = (self.threads[thread].client, self.now_ns);
        let entry = self.entry(id);
        entry.runnable -= 1;
        if entry.runnable > 0 {
            return;
        }
        entry.client.left_at_ns = now_ns;
        self.refresh_due(id);
        let entry = self.clients.get_mut(&id).expect("it is there");
        entry.due_limit_ns = entry.client.due_ns.max(entry.client.charged_ns);
        if self.policy.is_settled(&entry.client, now_ns) {
            self.set_active(id, false);
        } else if !entry.lingers {
            let lingering = &mut self.cpus[cpu].lingering;
            if lingering.len() < LINGERING_MAX {
                entry.lingers = true;
                lingering.push(id);
            } else {
                self.set_active(id, false);
            }
        }
    }

    /// Looks at one client that lingers here (rule 4).
    fn look_at_lingering(&mut self, number: usize) {
        let cpu = &mut self.cpus[number];
        if cpu.lingering.is_empty() {
            return;
        }
        cpu.look = if cpu.look + 1 < cpu.lingering.len() { cpu.look + 1 } else { 0 };
        let id = cpu.lingering[cpu.look];
        if self.entry(id).runnable == 0 {
            self.refresh_due(id);
            if !self.policy.is_settled(&self.clients[&id].client, self.now_ns) {
                return;
            }
        }
        let cpu = &mut self.cpus[number];
        cpu.lingering.swap_remove(cpu.look);
        let entry = self.entry(id);
        entry.lingers = false;
        if entry.runnable == 0 {
            self.set_active(id, false);
        }
    }

    /// A thread that has waited is served.
    fn serve(&mut self, number: usize, thread: ThreadKey) {
        let key = self.threads[thread].key;
        // Who wakes may have a key from long ago: one such does not take all back.
        self.reached = key.max(self.reached - self.settings.quantum_ns);
        self.run(number, thread);
    }

    /// The thread's turn begins.
    fn run(&mut self, number: usize, thread: ThreadKey) {
        let (id, key) = (self.threads[thread].client, self.threads[thread].key);
        self.front = key;
        let client = &self.clients[&id].client;
        let mut slice_ns = self.settings.quantum_ns;
        // Rule 6.
        let crowd = self.queue.len() as u64 / u64::from(self.settings.cpus);
        if crowd > CROWD {
            slice_ns = (slice_ns * CROWD / crowd).max(SLICE_MIN_NS);
        }
        slice_ns = self.policy.slice(client, slice_ns);
        let left_ns = self.threads[thread].left_ns.unwrap_or(u64::MAX);
        let cpu = &mut self.cpus[number];
        cpu.turn += 1;
        cpu.running = Some(thread);
        cpu.since_ns = self.now_ns;
        cpu.key = key;
        cpu.inverse = client.inverse;
        let event = Event::TurnEnds { cpu: number, turn: cpu.turn };
        self.schedule(self.now_ns + slice_ns.min(left_ns), event);
        self.happened.push_back(Happening::Chosen { cpu: number, thread });
        self.look_at_lingering(number);
        self.look_at_lingering(number);
    }
}
