//! The two loads of paper 1's exchanges (6.5 and 6.6), and trade in them.

use crate::simulation::tickets::{client, soft_disk};
use ledger::operation::{Fund, MakeExchange};
use ledger::{BASE, CurrencyId, Funding, Good, Intent, Leg, Resource, TicketKind};
use policy::PolicyName;
use sim::machine::books::{disk, funding, root};
use sim::machine::chance::Chance;
use sim::machine::workload::{Iohog, Step, WorkingSet, Workload};
use sim::machine::{Machine, MemorySettings, Settings, Usage};

/// Pages of a file that does not fit.
const FILE_PAGES: u64 = 4096;
/// CPU tickets, and disk tickets, of every client.
pub(crate) const EQUAL: u64 = 1000;
/// 6.6: pages that can be reserved (11.1 MB), and those that are kept free.
const RESERVABLE_PAGES: u64 = 2842;
const FREE_PAGES: u64 = 64;
/// 6.6: pages that each server reserves.
const RESERVED_PAGES: u64 = 1375;
/// `small`'s 4 MB, and their copy in its own cache.
const SMALL_PAGES: u64 = 2048;
/// `big`'s 64 MB.
const BIG_PAGES: u64 = 16_384;
/// CPU time of a look-up.
const LOOK_UP_NS: u64 = 2_000_000;

/// Converts pages to thousandths of what can be reserved, the unit of memory tickets in the
/// simulator.
pub(crate) fn thousandths(pages: u64) -> u64 {
    (pages * 1000 + RESERVABLE_PAGES / 2) / RESERVABLE_PAGES
}

/// A load: two clients that exchange, and bystanders.
pub(crate) struct Load {
    pub machine: Machine,
    /// The first two exchange.
    pub clients: Vec<CurrencyId>,
    pub names: [&'static str; 2],
    /// The good that the first gives and the good that the second gives, each with the tickets that
    /// both have of it.
    pub goods: [(Good, u64); 2],
}

fn soft(resource: Resource) -> Good {
    Good { resource, kind: TicketKind::Soft }
}

pub(crate) fn cpu_good() -> Good {
    soft(Resource::CPU)
}

pub(crate) fn disk_good() -> Good {
    soft(disk())
}

pub(crate) fn memory_good() -> Good {
    Good { resource: Resource::MEMORY, kind: TicketKind::Hard }
}

/// Returns a workload that counts hundredths of a second of computing.
fn dhrystone() -> impl FnMut(u64, &mut Chance) -> Step + Send {
    let mut done = false;
    move |_, _| {
        done = !done;
        if done { Step::Compute(Some(10_000_000)) } else { Step::Iterated }
    }
}

/// Returns a machine for 6.5, without clients.
fn cpu_disk_machine(seed: u64) -> Load {
    let settings = Settings {
        seed,
        quantum_ns: 10_000_000,
        cpu_policy: PolicyName::Lottery,
        memory: MemorySettings { pages: 1024, ..MemorySettings::default() },
        ..Settings::default()
    };
    let goods = [(disk_good(), EQUAL), (cpu_good(), EQUAL)];
    let names = ["dhrystone", "iohog"];
    Load { machine: Machine::new(settings), clients: Vec::new(), names, goods }
}

/// Adds a client with equal tickets for the CPU and the disk.
fn add(load: &mut Load) -> CurrencyId {
    let tickets = [funding(Resource::CPU, TicketKind::Soft, EQUAL), soft_disk(EQUAL)];
    let id = client(&mut load.machine, BASE, &tickets);
    load.clients.push(id);
    id
}

fn add_dhrystone(load: &mut Load) {
    let id = add(load);
    load.machine.start(id, 0, dhrystone());
}

fn add_iohog(load: &mut Load) {
    let id = add(load);
    let file = (load.machine.add_file(FILE_PAGES), FILE_PAGES);
    load.machine.start(id, 0, Iohog::new(file));
}

/// Adds the bystanders of 6.5: a `dhrystone` and four `iohog`s.
fn add_bystanders(load: &mut Load) {
    add_dhrystone(load);
    (0..4).for_each(|_| add_iohog(load));
}

/// Returns the load of 6.5: a `dhrystone` and an `iohog` that exchange, and the bystanders.
pub(crate) fn cpu_disk(seed: u64) -> Load {
    let mut load = cpu_disk_machine(seed);
    add_dhrystone(&mut load);
    add_iohog(&mut load);
    add_bystanders(&mut load);
    load
}

/// Returns the load of 6.6: the look-up servers `small` and `big`, and four `iohog`s, in 11.1 MB. A
/// query touches one page of those that the server uses, each with the same chance.
pub(crate) fn database(seed: u64) -> Load {
    let memory = MemorySettings {
        pages: RESERVABLE_PAGES + FREE_PAGES,
        free_low_pages: FREE_PAGES / 2,
        free_high_pages: FREE_PAGES,
        ..MemorySettings::default()
    };
    let machine = Machine::new(Settings { seed, memory, ..Settings::default() });
    let reserved = thousandths(RESERVED_PAGES);
    let goods = [(disk_good(), EQUAL), (memory_good(), reserved)];
    let names = ["small", "big"];
    let mut load = Load { machine, clients: Vec::new(), names, goods };
    for (place, pages) in [SMALL_PAGES, BIG_PAGES].into_iter().enumerate() {
        let id = add(&mut load);
        load.set(place, &memory_good(), reserved);
        let database = (load.machine.add_file(pages), pages);
        load.machine.start(id, 0, WorkingSet::new(database, false, LOOK_UP_NS));
    }
    (0..4).for_each(|_| add_iohog(&mut load));
    load
}

/// Returns the load of [`cpu_disk`], in which the two change places at `at_ns`.
pub(crate) fn turning(seed: u64, at_ns: u64) -> Load {
    let mut load = cpu_disk_machine(seed);
    for computes in [true, false] {
        let id = add(&mut load);
        let file = load.machine.add_file(FILE_PAGES);
        let (mut compute, mut read) = (dhrystone(), Iohog::new((file, FILE_PAGES)));
        load.machine.start(id, 0, move |now_ns, chance: &mut Chance| {
            match computes == (now_ns < at_ns) {
                true => compute(now_ns, chance),
                false => read.next(now_ns, chance),
            }
        });
    }
    add_bystanders(&mut load);
    load
}

/// Returns the load of [`cpu_disk`] with two alike: each computes 10 ms, reads a page, and so on.
pub(crate) fn alike(seed: u64) -> Load {
    let mut load = cpu_disk_machine(seed);
    for _ in 0..2 {
        let id = add(&mut load);
        let file = load.machine.add_file(FILE_PAGES);
        let mut step = 0;
        load.machine.start(id, 0, move |_, chance: &mut Chance| {
            step = (step + 1) % 3;
            match step {
                1 => Step::Compute(Some(10_000_000)),
                2 => Step::Touch { object: file, page: chance.below(FILE_PAGES), change: false },
                _ => Step::Iterated,
            }
        });
    }
    add_bystanders(&mut load);
    load.names = ["one", "the other"];
    load
}

impl Load {
    /// Exchanges: the first gives `amounts.0` of its good, the second `amounts.1` of its own. Does
    /// nothing for no amounts.
    pub(crate) fn exchange(&mut self, amounts: (u64, u64)) {
        if amounts == (0, 0) {
            return;
        }
        let leg = |giver: usize, amount: u64| Leg {
            giver: self.clients[giver],
            receiver: self.clients[1 - giver],
            good: self.goods[giver].0.clone(),
            amount,
        };
        let legs = vec![leg(0, amounts.0), leg(1, amounts.1)];
        let exchange = Intent::from(MakeExchange { legs, until_s: None });
        self.machine.ask(root(), exchange).expect("both have what they give");
    }

    /// Sets the tickets that a client holds of a good.
    pub(crate) fn set(&mut self, place: usize, good: &Good, amount: u64) {
        let funding = Funding { resource: good.resource.clone(), kind: good.kind, amount };
        let fund = Intent::from(Fund { holder: self.clients[place], issuer: BASE, funding });
        self.machine.ask(root(), fund).expect("root may change base's tickets");
    }

    pub(crate) fn usages(&self) -> Vec<Usage> {
        self.clients.iter().map(|id| self.machine.usage(*id)).collect()
    }

    /// Returns the work of all clients from one second to another.
    pub(crate) fn between(&mut self, from_s: f64, to_s: f64) -> Vec<Done> {
        self.machine.run_until((from_s * 1e9) as u64);
        let before = self.usages();
        self.machine.run_until((to_s * 1e9) as u64);
        let after = self.usages();
        let seconds = to_s - from_s;
        let done = |(before, after): (&Usage, &Usage)| Done {
            iterations: (after.iterations - before.iterations) as f64 / seconds,
            cpu: (after.cpu_ns - before.cpu_ns) as f64 / 1e9 / seconds,
            cpu_wait: (waited_ns(after) - waited_ns(before)) as f64 / 1e9 / seconds,
            disk_requests: (after.disk_requests - before.disk_requests) as f64,
        };
        before.iter().zip(&after).map(done).collect()
    }
}

/// Returns the time for which a client of one thread was runnable and did not run.
fn waited_ns(usage: &Usage) -> u64 {
    usage.runnable_ns.saturating_sub(usage.cpu_ns)
}

/// The work of a client in an interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    /// Iterations a second.
    pub iterations: f64,
    /// Part of a CPU.
    pub cpu: f64,
    /// Part of the time for which it waited for a CPU.
    pub cpu_wait: f64,
    pub disk_requests: f64,
}
