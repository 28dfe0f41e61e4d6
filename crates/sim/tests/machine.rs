//! The machine in virtual time: what it shares is shared by tickets, nothing is lost, and runs repeat.

mod common;

use allot_sim::machine::books::{disk, link, root};
use allot_sim::machine::workload::{
    Access, Burn, Iohog, Order, RandomPageReader, Sender, Sleeper, Transfer, WorkingSet,
};
use allot_sim::machine::{
    Costs, Discipline, DiskSettings, Machine, MemorySettings, Service, Settings, TicketsCount,
};
use common::{SECOND_NS, client, cpu, currency, four_readers, hard, soft};
use ledger::operation::{self, Fund};
use ledger::{BASE, CurrencyId, Intent, Resource};
use policy::PolicyName;
use proptest::prelude::*;

#[test]
fn cpu_time_is_in_proportion_to_tickets() {
    // Paper 1, figure 7: currencies A and B have the same, A1:A2 = 1:2, B1:B2:B3 = 1:2:3.
    for policy in [PolicyName::Stride, PolicyName::Lottery] {
        let mut machine = Machine::new(Settings { cpu_policy: policy, ..Settings::default() });
        let a = currency(&mut machine, "A", &[cpu(1000)]);
        let b = currency(&mut machine, "B", &[cpu(1000)]);
        let mut clients = Vec::new();
        for (issuer, amount) in [(a, 1), (a, 2), (b, 1), (b, 2), (b, 3)] {
            let id = client(&mut machine, issuer, &[cpu(amount)]);
            // B3 sleeps for the first half.
            machine.start(id, if amount == 3 { 100 * SECOND_NS } else { 0 }, Burn);
            clients.push(id);
        }
        machine.run_until(100 * SECOND_NS);
        let half: Vec<u64> = clients.iter().map(|id| machine.usage(*id).cpu_ns).collect();
        machine.run_until(200 * SECOND_NS);
        let ends: Vec<u64> = clients.iter().map(|id| machine.usage(*id).cpu_ns).collect();
        // 25 000 quanta in each half: six standard deviations of a binomial share are 0.019; the lottery's
        // exponential prices have half as much again.
        let allowed = if policy == PolicyName::Stride { 0.002 } else { 0.028 };
        for (place, due) in [1. / 6., 1. / 3., 1. / 6., 1. / 3., 0.].iter().enumerate() {
            let got = half[place] as f64 / (100 * SECOND_NS) as f64;
            assert!(
                (got - due).abs() < allowed,
                "{policy}, first half: {place} got {got}, not {due}"
            );
        }
        for (place, due) in [1. / 6., 1. / 3., 1. / 12., 1. / 6., 1. / 4.].iter().enumerate() {
            let got = (ends[place] - half[place]) as f64 / (100 * SECOND_NS) as f64;
            assert!(
                (got - due).abs() < allowed,
                "{policy}, second half: {place} got {got}, not {due}"
            );
        }
    }
}

fn five_hogs(settings: Settings) -> (Machine, Vec<CurrencyId>) {
    let mut machine = Machine::new(settings);
    let user = currency(&mut machine, "user", &[cpu(1000), soft(disk(), 1000)]);
    let mut clients = vec![client(&mut machine, BASE, &[cpu(1000), hard(disk(), 500)])];
    for _ in 0..4 {
        clients.push(client(&mut machine, user, &[cpu(1000), soft(disk(), 1000)]));
    }
    for id in &clients {
        let file = (machine.add_file(4096), 4096);
        machine.start(*id, 0, Iohog::new(file));
    }
    (machine, clients)
}

#[test]
fn half_of_the_disk_is_four_times_an_eighth() {
    for service in [Service::OF_PAPER_1, Service::Constant { service_ns: 4_000_000 }] {
        let disk = DiskSettings { service, ..DiskSettings::default() };
        let (mut machine, clients) = five_hogs(Settings { disk, ..Settings::default() });
        machine.run_until(15 * SECOND_NS);
        let done: Vec<u64> = clients.iter().map(|id| machine.usage(*id).iterations).collect();
        for other in &done[1..] {
            let ratio = done[0] as f64 / *other as f64;
            assert!((3.9..=4.1).contains(&ratio), "{service:?}: {done:?}");
        }
        assert!(machine.disk_busy_ns() > 149 * SECOND_NS / 10, "the disk does not rest");
    }
}

#[test]
fn in_order_of_arrival_all_have_the_same() {
    let disk = DiskSettings { discipline: Discipline::Fifo, ..DiskSettings::default() };
    let (mut machine, clients) = five_hogs(Settings { disk, ..Settings::default() });
    machine.run_until(30 * SECOND_NS);
    let done: Vec<u64> = clients.iter().map(|id| machine.usage(*id).iterations).collect();
    assert!(done.iter().all(|it| it.abs_diff(done[0]) <= 1), "{done:?}");
}

/// Two clients that read one block after the other, 4:1.
fn two_readers(anticipate_ns: u64) -> f64 {
    let disk_settings = DiskSettings { anticipate_ns, ..DiskSettings::default() };
    let mut machine = Machine::new(Settings { disk: disk_settings, ..Settings::default() });
    let done: Vec<CurrencyId> = [4000, 1000]
        .map(|amount| {
            let id = client(&mut machine, BASE, &[cpu(1000), soft(disk(), amount)]);
            let file = (machine.add_file(4096), 4096);
            let access = Access::Direct { pages: 1, write: false };
            machine.start(id, 0, Transfer::new(file, access, Order::Random, 0));
            id
        })
        .into();
    machine.run_until(100 * SECOND_NS);
    let pages = |id: CurrencyId| machine.usage(id).iterations as f64;
    pages(done[0]) / pages(done[1])
}

#[test]
fn two_readers_need_a_disk_that_waits_for_them() {
    // Whoever has just been served has nothing waiting: turns, whatever the tickets say.
    let greedy = two_readers(0);
    assert!((0.99..=1.01).contains(&greedy), "{greedy}");
    let patient = two_readers(8_000_000);
    assert!((3.9..=4.1).contains(&patient), "{patient}");
}

#[test]
fn a_lone_client_is_not_held_back() {
    let run = |others: usize, anticipate_ns| {
        let disk_settings = DiskSettings { anticipate_ns, ..DiskSettings::default() };
        let mut machine = Machine::new(Settings { disk: disk_settings, ..Settings::default() });
        // Others hold most tickets, and want nothing.
        for _ in 0..others {
            client(&mut machine, BASE, &[cpu(1000), soft(disk(), 1_000_000)]);
        }
        let id = client(&mut machine, BASE, &[cpu(1000), soft(disk(), 1)]);
        let file = (machine.add_file(4096), 4096);
        machine.start(id, 0, Iohog::new(file));
        machine.run_until(20 * SECOND_NS);
        machine.usage(id).iterations
    };
    assert_eq!(run(0, 0), run(50, 0));
    assert_eq!(run(0, 0), run(50, 8_000_000));
}

#[test]
fn a_link_is_shared_by_bytes() {
    let costs = Costs { request_ns: 1_000, ..Costs::default() };
    let mut machine = Machine::new(Settings { costs, ..Settings::default() });
    // Small packets and large ones; twenty threads each, so that somebody always waits.
    let clients = [(3000, 300), (1000, 1500)].map(|(amount, bytes)| {
        let id = client(&mut machine, BASE, &[cpu(1000), soft(link(), amount)]);
        (0..20).for_each(|_| machine.start(id, 0, Sender::new(bytes)));
        id
    });
    machine.run_until(10 * SECOND_NS);
    let sent = clients.map(|id| machine.usage(id).sent_bytes as f64);
    let ratio = sent[0] / sent[1];
    assert!((2.9..=3.1).contains(&ratio), "{sent:?}");
    assert!(sent[0] + sent[1] > 0.99 * 12_500_000.0 * 10.0, "the link does not rest: {sent:?}");
}

#[test]
fn equal_seeds_give_equal_runs() {
    let run = |seed| {
        let (mut machine, clients) = four_readers(TicketsCount::Always, seed);
        machine.run_until(30 * SECOND_NS);
        let usages: Vec<_> = clients.iter().map(|id| machine.usage(*id)).collect();
        (machine.digest(), usages)
    };
    let (first, again, other) = (run(7), run(7), run(8));
    assert!(first.0.events() > 5_000, "{:?}", first.0);
    assert_eq!(first, again);
    assert_ne!(first.0.value(), other.0.value());
}

#[test]
fn one_long_run_is_many_short_ones() {
    let (mut whole, _) = four_readers(TicketsCount::Always, 3);
    whole.run_until(20 * SECOND_NS);
    let (mut parts, _) = four_readers(TicketsCount::Always, 3);
    (1..=2000).for_each(|step| parts.run_until(step * 10_000_000));
    assert_eq!(whole.digest(), parts.digest());
}

#[test]
fn a_hundred_thousand_clients() {
    const CLIENTS: u64 = 100_000;
    let memory = MemorySettings { pages: 20_000, ..MemorySettings::default() };
    let mut machine = Machine::new(Settings { cpus: 4, memory, ..Settings::default() });
    let users: Vec<CurrencyId> = (0..100)
        .map(|user| {
            let tickets = [cpu(1000), soft(disk(), 1000), soft(Resource::MEMORY, 1000)];
            currency(&mut machine, &format!("user{user}"), &tickets)
        })
        .collect();
    let file = (machine.add_file(40_000), 40_000);
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let user = users[(number % 100) as usize];
        let tickets = [cpu(1000), soft(disk(), 1000), soft(Resource::MEMORY, 1000)];
        let id = client(&mut machine, user, &tickets);
        clients.push(id);
        match number % 10 {
            0 => machine.start(id, number * 1000, Burn),
            1 => {
                let reader = Transfer::new(file, Access::Mapped, Order::Random, 0);
                machine.start(id, number * 1000, reader);
            }
            _ => machine.start(id, number * 1000, Sleeper::new(50_000, 10 * SECOND_NS)),
        }
    }
    machine.run_until(10 * SECOND_NS);
    // What happens: turns of at least half a millisecond on four CPUs, a wake and an end for each burst, two
    // events a page; not what grows with the number of clients for each of them.
    let events = machine.digest().events();
    let turns = 4 * 10 * 2000;
    assert!(events < turns + 20 * CLIENTS, "{events} events");
    let busy: u64 = clients.iter().map(|id| machine.usage(*id).cpu_ns).sum();
    assert!(busy > 39 * SECOND_NS, "{busy}");
    machine.audit();
}

#[test]
fn a_writer_waits_for_what_it_changed() {
    let memory = MemorySettings {
        dirty_background_pages: 64,
        dirty_limit_pages: 128,
        ..MemorySettings::default()
    };
    let mut machine = Machine::new(Settings { memory, ..Settings::default() });
    let id = client(&mut machine, BASE, &[cpu(1000), soft(disk(), 1000)]);
    let file = (machine.add_file(4096), 4096);
    machine.start(id, 0, Transfer::new(file, Access::BufferedWrite, Order::Random, 0));
    machine.run_until(100 * SECOND_NS);
    let usage = machine.usage(id);
    let written = usage.disk_written_bytes / 4096;
    assert!(written > 1000, "{usage:?}");
    // It wrote as much as the disk did, but for the pages that may wait. One page may be changed twice meanwhile.
    assert!(usage.iterations >= written && usage.iterations < written * 5 / 4 + 128, "{usage:?}");
    machine.audit();
}

/// What a client does, by number.
fn start(machine: &mut Machine, id: CurrencyId, kind: u8, at_ns: u64) {
    let file = (machine.add_file(300), 300);
    let region = (machine.add_anonymous(120), 120);
    let transfer = |access, order| Transfer::new(file, access, order, 7);
    let direct = Access::Direct { pages: 4, write: true };
    match kind {
        0 => machine.start(id, at_ns, Burn),
        1 => machine.start(id, at_ns, Sleeper::new(3_000_000, 5_000_000)),
        2 => machine.start(id, at_ns, RandomPageReader::new(file, region)),
        3 => machine.start(id, at_ns, Iohog::new(file)),
        4 => machine.start(id, at_ns, WorkingSet::new(region, true, 10_000)),
        5 => machine.start(id, at_ns, transfer(direct, Order::Random)),
        6 => machine.start(id, at_ns, transfer(Access::Buffered { ahead: 8 }, Order::Sequential)),
        7 => machine.start(id, at_ns, transfer(Access::BufferedWrite, Order::Random)),
        _ => machine.start(id, at_ns, Sender::new(1500)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn time_and_pages_are_conserved(
        seed: u64,
        cpus in 1u32..4,
        depth in 1usize..6,
        pages in 40u64..400,
        kinds in proptest::collection::vec((0u8..9, 0u64..300_000_000, 0u64..120), 1..10),
    ) {
        let memory = MemorySettings {
            pages,
            free_low_pages: 4,
            free_high_pages: 8,
            dirty_background_pages: 8,
            dirty_limit_pages: 16,
            ..MemorySettings::default()
        };
        let disk_settings = DiskSettings { depth, anticipate_ns: 2_000_000, ..DiskSettings::default() };
        let mut machine =
            Machine::new(Settings { seed, cpus, memory, disk: disk_settings, ..Settings::default() });
        let mut burning = 0;
        let mut clients = Vec::new();
        for (kind, at_ns, amount) in &kinds {
            let mut tickets = vec![cpu(1000), soft(disk(), 1000), soft(link(), 1000)];
            // Nine clients' hard tickets are at most a thousand.
            if *amount > 20 {
                tickets.push(hard(Resource::MEMORY, (*amount).min(111)));
            }
            let id = client(&mut machine, BASE, &tickets);
            start(&mut machine, id, *kind, *at_ns);
            burning += u64::from(*kind == 0);
            clients.push(id);
        }
        let end_ns = 3 * SECOND_NS;
        for step in 1..=30 {
            machine.run_until(step * end_ns / 30);
            machine.audit();
        }
        let used: u64 = clients.iter().map(|id| machine.usage(*id).cpu_ns).sum();
        prop_assert!(used <= u64::from(cpus) * end_ns, "{used}");
        // Who burns begins within 0.3 s, and keeps a CPU busy but for its last turn.
        let busy = burning.min(u64::from(cpus)) * (end_ns - 300_000_000 - 4_000_000);
        prop_assert!(used >= busy, "{used} of {busy}");
        for id in &clients {
            prop_assert_eq!(machine.usage(*id).taken_within_guarantee, 0);
        }
    }
}

/// Clients that burn and read at four threads each, so that somebody of each always waits.
fn readers_and_burners(machine: &mut Machine, amounts: &[u64]) -> Vec<CurrencyId> {
    let mut clients = Vec::new();
    for amount in amounts {
        let id = client(machine, BASE, &[cpu(*amount), soft(disk(), *amount)]);
        machine.start(id, 0, Burn);
        for _ in 0..4 {
            let file = (machine.add_file(4096), 4096);
            let access = Access::Direct { pages: 1, write: false };
            machine.start(id, 0, Transfer::new(file, access, Order::Random, 0));
        }
        clients.push(id);
    }
    clients
}

fn used(machine: &Machine, clients: &[CurrencyId]) -> Vec<(f64, f64)> {
    let usages = clients.iter().map(|id| machine.usage(*id));
    usages.map(|usage| (usage.cpu_ns as f64, usage.iterations as f64)).collect()
}

/// What the first got for each that the second got, of CPU time and of pages, since `before`.
fn ratios(machine: &Machine, clients: &[CurrencyId], before: &[(f64, f64)]) -> (f64, f64) {
    let now = used(machine, clients);
    let grown = |place: usize| (now[place].0 - before[place].0, now[place].1 - before[place].1);
    let (first, second) = (grown(0), grown(1));
    (first.0 / second.0, first.1 / second.1)
}

#[test]
fn tickets_that_change_count_from_then_on() {
    let mut machine = Machine::new(Settings::default());
    let clients = readers_and_burners(&mut machine, &[1000, 1000]);
    machine.run_until(30 * SECOND_NS);
    let (of_cpu, of_disk) = ratios(&machine, &clients, &[(0., 0.); 2]);
    assert!(
        (0.97..1.03).contains(&of_cpu) && (0.97..1.03).contains(&of_disk),
        "{of_cpu} {of_disk}"
    );
    for tickets in [cpu(3000), soft(disk(), 3000)] {
        let fund = Intent::from(Fund { holder: clients[0], issuer: BASE, funding: tickets });
        machine.ask(root(), fund).expect("root may");
    }
    let before = used(&machine, &clients);
    machine.run_until(60 * SECOND_NS);
    let (of_cpu, of_disk) = ratios(&machine, &clients, &before);
    assert!((2.9..3.1).contains(&of_cpu) && (2.9..3.1).contains(&of_disk), "{of_cpu} {of_disk}");
}

#[test]
fn who_has_lent_its_tickets_is_skipped() {
    let mut machine = Machine::new(Settings::default());
    let clients = readers_and_burners(&mut machine, &[1000, 1000, 1000]);
    let lend = Intent::from(operation::Transfer {
        lender: clients[2],
        holder: clients[0],
        resource: disk(),
    });
    machine.ask(root(), lend).expect("root may");
    machine.run_until(30 * SECOND_NS);
    let (of_cpu, of_disk) = ratios(&machine, &clients, &[(0., 0.); 3]);
    assert!((0.97..1.03).contains(&of_cpu), "the CPU was not lent: {of_cpu}");
    assert!((1.9..2.1).contains(&of_disk), "{of_disk}");
    // What it asked for before others did, and no more.
    assert!(machine.usage(clients[2]).iterations <= 4, "{:?}", machine.usage(clients[2]));
}
