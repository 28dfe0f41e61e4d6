//! A machine in virtual time: CPUs, memory, a disk and a link, shared by tickets.
//!
//! It runs workloads under the ledger, the valuation and the policies that allot itself consists of:
//!
//! 1. Tickets are in a [`ledger::Ledger`], made by intents that the broker allowed. Each resource has its own
//!    [`valuation::Graph`], in which a client is active while it wants the resource: runnable, a request for the
//!    disk or the link that is not done, memory tickets as [`TicketsCount`] says.
//! 2. CPUs are [`policy::keyed::Machine`], the twin of the scheduler in the kernel; what clients are due is counted
//!    by [`ticket_clocks`].
//! 3. Memory is LRU by page ([`memory`]). Pages are taken when few frames are free, by age with guarantees or by a
//!    rule of [`policy::reclaim`].
//! 4. The disk ([`disk`]) and the link ([`link`](mod@link)) serve whom YFQ names.
//! 5. A thread is a [`Workload`]: a state machine that is asked for one [`Step`] after the other.
//!
//! Nothing is left to the host: no clock, no threads, no addresses, no order of hash tables. All chance is from the
//! seed, and [`Machine::digest`] covers every event, so equal runs can be told.
//!
//! What is not modelled stands in `docs/simulator.md`.

pub mod books;
pub mod chance;
pub mod clock;
pub mod disk;
pub mod fair_queue;
pub mod link;
pub mod memory;
mod paging;
mod settings;
mod threads;
pub mod ticket_clocks;
pub mod usage;
pub mod workload;

use std::collections::{BTreeMap, VecDeque};

use ledger::{CurrencyId, Ledger, Resource};
use policy::idle::Idle;
use policy::keyed;
use policy::keyed::machine::Happening;
use policy::reclaim::Reclaim;
use policy::yfq::RequestKey;
use valuation::Graph;

pub use disk::{DiskSettings, Service};
pub use fair_queue::Discipline;
pub use link::LinkSettings;
pub use memory::{Backing, ObjectId, PAGE_BYTES};
pub use settings::{Costs, MemorySettings, Settings, TicketsCount};
pub use usage::{Digest, Usage};
pub use workload::{Step, Workload};

use chance::Chance;
use clock::Clock;
use disk::Disk;
use link::Link;
use memory::{FrameId, Memory, OwnerId};
use ticket_clocks::TicketClocks;

/// The machine's disk, in the ledger `disk:sim0`.
pub const DISK: &str = "sim0";
/// The machine's link, in the ledger `net:sim0`.
pub const LINK: &str = "sim0";

/// How far ahead of virtual time a CPU's key may be (the kernel's scheduler has the same).
const HORIZON_NS: u64 = 2_000_000_000;
/// How often it is looked who is busy, what is active, and how often pages came back.
const LOOK_NS: u64 = 1_000_000_000;

/// Names a thread.
pub type ThreadId = usize;

/// What is to happen besides the CPUs' turns.
#[derive(Clone, Copy, Debug)]
enum Event {
    Wakes(ThreadId),
    DiskDone(RequestKey),
    DiskLook,
    LinkDone(RequestKey),
    Look,
}

/// What the digest calls things.
#[derive(Clone, Copy)]
enum Noted {
    Chosen = 1,
    BurstDone,
    Woke,
    DiskDone,
    LinkDone,
    Taken,
}

/// Why the disk works.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// Pages of an object arrive.
    Arrive { object: ObjectId, page: u64 },
    /// A thread waits for it.
    Direct { thread: ThreadId },
    /// A taken page is written.
    Written { frame: FrameId },
    /// A page of a file is written back.
    Cleaned { frame: FrameId, client: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadState {
    /// Has a CPU, or waits for one.
    Runnable,
    /// Waits for something else.
    Waiting,
    Exited,
}

struct Thread {
    client: usize,
    on_cpu: keyed::machine::ThreadKey,
    workload: Box<dyn Workload>,
    chance: Chance,
    state: ThreadState,
    /// What it does when it goes on.
    pending: Option<Step>,
    /// CPU time that it has to spend before.
    burst_ns: u64,
    /// What it waits for, while it waits, and up to when that is counted.
    waits_for: WaitsFor,
    counted_ns: u64,
}

/// For what a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitsFor {
    /// A CPU, time, the link.
    Other,
    Disk,
    Memory,
}

struct Client {
    id: CurrencyId,
    owner: OwnerId,
    runnable: usize,
    usage: Usage,
    /// Pages of it that are written back, and who waits until there are fewer changed ones.
    writing_back: u64,
    waiting_to_change: VecDeque<ThreadId>,
    /// What policies are told: [`LOOK_NS`].
    active_pages: u64,
    refaults_seen: u64,
    refault_rate: u64,
    /// Whether its memory tickets count, where that depends on how busy it is.
    idle: Option<Idle>,
}

/// Who loses pages.
enum Rule {
    ByAge,
    Policy { policy: Box<dyn Reclaim>, draw_pages: u64 },
}

/// A machine. See the [module](self).
pub struct Machine {
    settings: Settings,
    ledger: Ledger,
    clock: Clock<Event>,
    cpus: keyed::Machine<TicketClocks>,
    memory: Memory,
    memory_graph: Graph,
    /// Whether memory tickets have changed and guarantees have not followed.
    guarantees_stale: bool,
    rule: Rule,
    disk: Disk<Purpose>,
    link: Link<ThreadId>,
    /// Where each object begins on the disk, and where the next will.
    places: Vec<u64>,
    next_place: u64,
    clients: Vec<Client>,
    client_places: BTreeMap<CurrencyId, usize>,
    threads: Vec<Thread>,
    by_cpu_thread: Vec<ThreadId>,
    /// Threads that go on now.
    ready: VecDeque<ThreadId>,
    waiting_for_frame: VecDeque<ThreadId>,
    waiting_for_page: BTreeMap<FrameId, Vec<ThreadId>>,
    digest: Digest,
}

impl Machine {
    /// A machine with nothing but base in its ledger, at time 0. Pages are taken by age with guarantees.
    ///
    /// # Panics
    /// Without CPUs, memory or depth, where memory has no page beyond those that are kept free, or a writer would
    /// wait before anything is written back: broken invariants.
    pub fn new(settings: Settings) -> Machine {
        let MemorySettings { pages, free_low_pages, free_high_pages, .. } = settings.memory;
        assert!(
            0 < free_low_pages && free_low_pages <= free_high_pages && free_high_pages < pages,
            "0 < {free_low_pages} ≤ {free_high_pages} < {pages} pages"
        );
        let MemorySettings { dirty_background_pages, dirty_limit_pages, .. } = settings.memory;
        assert!(
            dirty_background_pages < dirty_limit_pages && settings.memory.write_back_depth > 0,
            "changed pages are written back from {dirty_background_pages} on, and wait at {dirty_limit_pages}"
        );
        let ledger = Ledger::new(0, 0);
        let keyed_settings = keyed::Settings {
            cpus: settings.cpus,
            quantum_ns: settings.quantum_ns,
            seed: settings.seed,
            ..keyed::Settings::default()
        };
        let disk = Resource::disk(DISK);
        let chance = Chance::new(settings.seed, u64::MAX);
        let mut clock = Clock::default();
        clock.schedule(LOOK_NS, Event::Look);
        Machine {
            settings,
            clock,
            cpus: keyed::Machine::new(
                settings.cpu_policy,
                keyed_settings,
                HORIZON_NS,
                TicketClocks::of(&ledger),
            ),
            memory: Memory::new(pages),
            memory_graph: Graph::of(&ledger, Resource::MEMORY),
            guarantees_stale: false,
            rule: Rule::ByAge,
            disk: Disk::new(&ledger, disk, settings.disk, chance),
            link: Link::new(&ledger, Resource::net(LINK), settings.link),
            places: Vec::new(),
            next_place: 0,
            clients: Vec::new(),
            client_places: BTreeMap::new(),
            threads: Vec::new(),
            by_cpu_thread: Vec::new(),
            ready: VecDeque::new(),
            waiting_for_frame: VecDeque::new(),
            waiting_for_page: BTreeMap::new(),
            digest: Digest::default(),
            ledger,
        }
    }

    /// Pages are taken by this policy from now on, at most so many for each time that it chooses.
    ///
    /// # Panics
    /// When `draw_pages` is 0, or there is a policy already: broken invariants.
    pub fn reclaim_by(&mut self, policy: Box<dyn Reclaim>, draw_pages: u64) {
        assert!(draw_pages > 0, "a draw takes something");
        assert!(matches!(self.rule, Rule::ByAge), "a policy was set before");
        self.rule = Rule::Policy { policy, draw_pages };
    }

    /// A file of so many pages, all on the disk.
    pub fn add_file(&mut self, pages: u64) -> ObjectId {
        self.add_object(Backing::File, pages)
    }

    /// Anonymous memory of so many pages, not yet used. Taken pages go to a place of their own on the disk.
    pub fn add_anonymous(&mut self, pages: u64) -> ObjectId {
        self.add_object(Backing::Anonymous, pages)
    }

    fn add_object(&mut self, backing: Backing, pages: u64) -> ObjectId {
        self.places.push(self.next_place);
        self.next_place += pages + self.settings.disk.gap_pages;
        self.memory.add_object(backing, pages)
    }

    /// A thread of a client, which begins at `at_ns`.
    ///
    /// # Panics
    /// When there is no such client: a broken invariant.
    pub fn start(&mut self, client: CurrencyId, at_ns: u64, workload: impl Workload + 'static) {
        let place = self.client_places[&client];
        let on_cpu = self.cpus.add_thread(client.0);
        let thread = self.threads.len();
        debug_assert_eq!(on_cpu, self.by_cpu_thread.len(), "the CPUs number threads alike");
        self.by_cpu_thread.push(thread);
        self.threads.push(Thread {
            client: place,
            on_cpu,
            workload: Box::new(workload),
            chance: Chance::new(self.settings.seed, thread as u64),
            state: ThreadState::Waiting,
            pending: None,
            burst_ns: 0,
            waits_for: WaitsFor::Other,
            counted_ns: self.clock.now_ns(),
        });
        self.clock.schedule(at_ns, Event::Wakes(thread));
    }

    /// The time, in nanoseconds since the machine was made.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Goes on until this time.
    pub fn run_until(&mut self, end_ns: u64) {
        self.settle_guarantees();
        loop {
            let limit_ns = self.clock.next_at_ns().map_or(end_ns, |at_ns| at_ns.min(end_ns));
            if let Some(happening) = self.cpus.advance(limit_ns) {
                self.clock.pass_to(self.cpus.now_ns());
                self.turn(happening);
            } else if self.clock.next_at_ns().is_some_and(|at_ns| at_ns <= end_ns) {
                let event = self.clock.pop().expect("an event waits");
                self.happen(event);
            } else {
                self.clock.pass_to(end_ns);
                return;
            }
            self.go_on();
        }
    }

    fn turn(&mut self, happening: Happening) {
        match happening {
            Happening::Chosen { thread, .. } => self.note(Noted::Chosen, thread as u64),
            Happening::Slept(on_cpu) => {
                let thread = self.by_cpu_thread[on_cpu];
                self.note(Noted::BurstDone, thread as u64);
                self.ready.push_back(thread);
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wakes(thread) => {
                self.note(Noted::Woke, thread as u64);
                self.ready.push_back(thread);
            }
            Event::DiskDone(request) => {
                self.note(Noted::DiskDone, request);
                self.disk_done(request);
            }
            // To look again is all.
            Event::DiskLook => {}
            Event::LinkDone(packet) => {
                self.note(Noted::LinkDone, packet);
                let (client, bytes, thread) = self.link.complete(packet);
                let place = self.client_places[&client];
                self.clients[place].usage.sent_bytes += bytes;
                self.ready.push_back(thread);
            }
            Event::Look => self.look(),
        }
    }

    /// All that can happen without time passing.
    fn go_on(&mut self) {
        loop {
            if let Some(thread) = self.ready.pop_front() {
                self.proceed(thread);
            } else if self.memory.free_pages() > 0
                && let Some(thread) = self.waiting_for_frame.pop_front()
            {
                self.ready.push_back(thread);
            } else {
                break;
            }
        }
        let now_ns = self.now_ns();
        let starts = self.disk.start(now_ns);
        for (request, at_ns) in starts.done_at_ns {
            self.clock.schedule(at_ns, Event::DiskDone(request));
        }
        if let Some(at_ns) = starts.look_at_ns {
            self.clock.schedule(at_ns, Event::DiskLook);
        }
        if let Some((packet, at_ns)) = self.link.start(now_ns) {
            self.clock.schedule(at_ns, Event::LinkDone(packet));
        }
    }

    fn note(&mut self, what: Noted, whose: u64) {
        self.digest.note(what as u64, self.clock.now_ns(), whose);
    }

    /// A digest of all events so far.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// What a client used so far. Turns on a CPU that have not ended are not in it.
    ///
    /// # Panics
    /// When there is no such client: a broken invariant.
    pub fn usage(&self, client: CurrencyId) -> Usage {
        let it = &self.clients[self.client_places[&client]];
        let holdings = self.memory.holdings(it.owner);
        Usage {
            cpu_ns: self.cpus.used_ns(client.0),
            held_pages: holdings.held,
            guaranteed_pages: holdings.guaranteed,
            refaults: holdings.refaults,
            taken_pages: holdings.taken,
            taken_within_guarantee: holdings.taken_within_guarantee,
            ..it.usage
        }
    }

    /// How long requests were in the disk so far, each counted for itself.
    pub fn disk_busy_ns(&self) -> u64 {
        self.disk.busy_ns()
    }

    /// Pages that are free, or will be when they are written.
    pub fn spare_pages(&self) -> u64 {
        self.memory.free_pages() + self.memory.leaving_pages()
    }

    /// Counts all frames anew.
    ///
    /// # Panics
    /// When a count is wrong: a broken invariant.
    pub fn audit(&self) {
        self.memory.audit();
    }
}
