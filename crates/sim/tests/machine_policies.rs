//! Memory in virtual time: guarantees hold, under every policy, while tickets count.

mod common;

use allot_sim::machine::books::disk;
use allot_sim::machine::workload::WorkingSet;
use allot_sim::machine::{
    DiskSettings, Machine, MemorySettings, PAGE_BYTES, Service, Settings, TicketsCount,
};
use common::{SECOND_NS, client, cpu, four_readers, hard, soft};
use ledger::{BASE, CurrencyId, Resource};
use policy::GuestMemory;
use policy::idle::IdleOptions;
use policy::reclaim::ReclaimName;

#[test]
fn a_guarantee_is_never_broken() {
    let (mut machine, clients) = four_readers(TicketsCount::Always, 1);
    let mut reached = [false; 4];
    for second in 1..=300 {
        machine.run_until(second * SECOND_NS);
        for (place, id) in clients.iter().enumerate() {
            let usage = machine.usage(*id);
            reached[place] |= usage.held_pages >= usage.guaranteed_pages;
            let kept = !reached[place] || usage.held_pages >= usage.guaranteed_pages;
            assert!(kept, "second {second}: {place} has {usage:?}");
        }
    }
    assert_eq!(reached, [true; 4]);
    let usages: Vec<_> = clients.iter().map(|id| machine.usage(*id)).collect();
    assert_eq!((usages[0].guaranteed_pages, usages[1].guaranteed_pages), (500, 350));
    for usage in &usages {
        assert_eq!(usage.taken_within_guarantee, 0, "{usage:?}");
        assert!(usage.taken_pages > 1000, "memory was short: {usage:?}");
    }
    assert!(usages[2].held_pages + usages[3].held_pages < 350, "{usages:?}");
    let held: u64 = usages.iter().map(|usage| usage.held_pages).sum();
    assert!(held > 900, "memory is used: {usages:?}");
    machine.audit();
}

#[test]
fn tickets_that_are_deactivated_at_each_block_guarantee_nothing() {
    let (mut machine, clients) = four_readers(TicketsCount::WhileRunnable, 1);
    let mut below = [0; 2];
    for second in 1..=300 {
        machine.run_until(second * SECOND_NS);
        for (place, pages) in [500, 350].into_iter().enumerate() {
            let held = machine.usage(clients[place]).held_pages;
            below[place] += usize::from(second > 100 && held < pages);
        }
    }
    assert!(below[0] > 150, "figure 6: it is below its guarantee most of the time, {below:?}");
}

#[test]
fn no_policy_breaks_a_guarantee() {
    for name in ReclaimName::ALL {
        let (mut machine, clients) = four_readers(TicketsCount::Always, 2);
        machine.reclaim_by(policy::reclaim::build(name, 2), 32);
        let mut fewest = [u64::MAX; 4];
        for second in 1..=200 {
            machine.run_until(second * SECOND_NS);
            for (place, id) in clients.iter().enumerate().filter(|_| second > 100) {
                fewest[place] = fewest[place].min(machine.usage(*id).held_pages);
            }
        }
        assert!(fewest[0] >= 500 && fewest[1] >= 350, "{name}: {fewest:?}");
        let broken: u64 = clients.iter().map(|id| machine.usage(*id).taken_within_guarantee).sum();
        assert_eq!(broken, 0, "{name}");
        assert!(machine.spare_pages() < 100, "{name}: memory is used");
        machine.audit();
    }
}

/// Clients with so many memory tickets that guarantee nothing, each at random over 900 pages of its own.
fn working_sets(name: ReclaimName, tickets: &[u64]) -> (Machine, Vec<CurrencyId>) {
    let memory = MemorySettings {
        pages: 1064,
        free_low_pages: 32,
        free_high_pages: 64,
        guarantees: false,
        // All is active: there is no tax.
        active_ns: 1_000 * SECOND_NS,
        ..MemorySettings::default()
    };
    let mut machine = Machine::new(Settings { memory, ..Settings::default() });
    machine.reclaim_by(policy::reclaim::build(name, 1), 8);
    let start = |amount: &u64| {
        let tickets = [cpu(1000), soft(disk(), 1000), soft(Resource::MEMORY, *amount)];
        let id = client(&mut machine, BASE, &tickets);
        let file = (machine.add_file(900), 900);
        machine.start(id, 0, WorkingSet::new(file, false, 20_000));
        id
    };
    let clients = tickets.iter().map(start).collect();
    (machine, clients)
}

#[test]
fn min_funding_ends_with_memory_in_proportion_to_tickets() {
    let (mut machine, clients) = working_sets(ReclaimName::MinFunding, &[500, 300, 200]);
    machine.run_until(300 * SECOND_NS);
    let held: Vec<u64> = clients.iter().map(|id| machine.usage(*id).held_pages).collect();
    // Thirty-two pages may come before any is taken, whoever's they are.
    for (held, due) in held.iter().zip([500.0, 300.0, 200.0]) {
        assert!((*held as f64 / due - 1.0).abs() < 0.12, "{held} of {due}");
    }
}

#[test]
fn who_holds_fewer_tickets_faults_more() {
    for name in [ReclaimName::InverseLottery, ReclaimName::FaultShare] {
        let (mut machine, clients) = working_sets(name, &[800, 200]);
        machine.run_until(300 * SECOND_NS);
        let usages: Vec<_> = clients.iter().map(|id| machine.usage(*id)).collect();
        assert!(usages[0].held_pages > usages[1].held_pages, "{name}: {usages:?}");
        assert!(usages[0].iterations > usages[1].iterations, "{name}: {usages:?}");
    }
}

#[test]
fn tickets_of_who_is_idle_for_long_do_not_count() {
    let options = IdleOptions { idle_ns: 60 * SECOND_NS, ..IdleOptions::default() };
    let memory = MemorySettings {
        pages: 1064,
        free_low_pages: 32,
        free_high_pages: 64,
        tickets: TicketsCount::UnlessIdle(options),
        ..MemorySettings::default()
    };
    // A fast disk, so that who pages is busy on the CPU as well.
    let disk_settings = DiskSettings {
        service: Service::Constant { service_ns: 500_000 },
        ..DiskSettings::default()
    };
    let mut machine = Machine::new(Settings { memory, disk: disk_settings, ..Settings::default() });
    let tickets = [cpu(1000), soft(disk(), 1000), hard(Resource::MEMORY, 600)];
    let sleeper = client(&mut machine, BASE, &tickets);
    let file = (machine.add_file(700), 700);
    let (from_ns, to_ns) = (30 * SECOND_NS, 200 * SECOND_NS);
    machine.start(sleeper, 0, WorkingSet::new(file, false, 20_000).idle(from_ns, to_ns));
    let other = client(&mut machine, BASE, &[cpu(1000), soft(disk(), 1000)]);
    let file = (machine.add_file(4096), 4096);
    machine.start(other, 0, WorkingSet::new(file, false, 20_000));
    let held = |machine: &mut Machine, second| {
        machine.run_until(second * SECOND_NS);
        machine.usage(sleeper).held_pages
    };
    assert!(held(&mut machine, 29) >= 600);
    assert!(held(&mut machine, 80) >= 600, "not yet idle for long");
    assert!(held(&mut machine, 150) < 100, "its pages are others' by now");
    assert!(held(&mut machine, 290) >= 600, "it is busy again");
}

#[test]
fn guests_stay_between_their_thresholds() {
    let memory = MemorySettings {
        pages: 2112,
        free_low_pages: 32,
        free_high_pages: 64,
        ..MemorySettings::default()
    };
    let mut machine = Machine::new(Settings { memory, ..Settings::default() });
    let (low, high) = (102, 205);
    let inner = policy::reclaim::build(ReclaimName::MinFunding, 1);
    let thresholds = GuestMemory::new(inner, low * PAGE_BYTES, high * PAGE_BYTES);
    machine.reclaim_by(Box::new(thresholds), 8);
    let host = client(&mut machine, BASE, &[cpu(1000), soft(disk(), 1000)]);
    let guest = client(&mut machine, BASE, &[cpu(1000), soft(disk(), 1000)]);
    machine.make_guest(guest).expect("root may");
    for (id, pages) in [(host, 2400), (guest, 8192)] {
        let file = (machine.add_file(pages), pages);
        machine.start(id, 0, WorkingSet::new(file, false, 200_000));
    }
    for second in 300..=600 {
        machine.run_until(second * SECOND_NS);
        let held = machine.usage(guest).held_pages;
        // So many pages may come before any is taken, then a draw too many is.
        let (before, draw) = (64 - 32, 8);
        assert!((low - draw..=high + before + 1).contains(&held), "second {second}: {held}");
    }
}
