//! A few words in which machines are told.
#![allow(dead_code)]

use allot_sim::machine::books::{disk, funding};
use allot_sim::machine::workload::RandomPageReader;
use allot_sim::machine::{Machine, MemorySettings, Settings, TicketsCount};
use ledger::{BASE, CurrencyId, Funding, Resource, TicketKind};

pub const SECOND_NS: u64 = 1_000_000_000;

pub fn soft(resource: Resource, amount: u64) -> Funding {
    funding(resource, TicketKind::Soft, amount)
}

pub fn hard(resource: Resource, amount: u64) -> Funding {
    funding(resource, TicketKind::Hard, amount)
}

pub fn cpu(amount: u64) -> Funding {
    soft(Resource::CPU, amount)
}

pub fn client(machine: &mut Machine, issuer: CurrencyId, tickets: &[Funding]) -> CurrencyId {
    machine.add_client(issuer, tickets).expect("root may")
}

pub fn currency(machine: &mut Machine, name: &str, tickets: &[Funding]) -> CurrencyId {
    machine.add_currency(name, BASE, tickets).expect("root may")
}

/// Paper 1, 6.3: 1050 pages that can be reserved, four readers; the first two are guaranteed 500 and 350.
pub fn four_readers(tickets: TicketsCount, seed: u64) -> (Machine, Vec<CurrencyId>) {
    let memory = MemorySettings {
        pages: 1114,
        free_low_pages: 32,
        free_high_pages: 64,
        tickets,
        ..MemorySettings::default()
    };
    let mut machine = Machine::new(Settings { seed, memory, ..Settings::default() });
    let mut clients = Vec::new();
    for amount in [477, 334, 0, 0] {
        let mut tickets = vec![cpu(1000), soft(disk(), 1000)];
        if amount > 0 {
            tickets.push(hard(Resource::MEMORY, amount));
        }
        let reader = client(&mut machine, BASE, &tickets);
        let file = (machine.add_file(4096), 4096);
        let buffer = (machine.add_anonymous(1024), 1024);
        machine.start(reader, 0, RandomPageReader::new(file, buffer));
        clients.push(reader);
    }
    (machine, clients)
}
