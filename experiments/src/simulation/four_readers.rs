//! The machine and the load of paper 1, 6.3 (figure 9): four readers of random pages and about 4.2
//! MB.

use crate::simulation::tickets::{client, cpu, hard_memory, soft_disk};
use ledger::{BASE, CurrencyId};
use sim::machine::workload::RandomPageReader;
use sim::machine::{Machine, MemorySettings};

/// Guarantees of the first two readers, in pages, and in thousandths of what can be had.
pub(crate) const GUARANTEED: [(u64, u64); 2] = [(500, 477), (350, 334)];
/// Pages that can be had: the paper's 4.2 MB.
pub(crate) const RESERVABLE: u64 = 1050;
/// Pages that are kept free.
pub(crate) const FREE: u64 = 64;

/// Returns the machine's memory.
pub(crate) fn memory() -> MemorySettings {
    MemorySettings {
        pages: RESERVABLE + FREE,
        free_low_pages: FREE / 2,
        free_high_pages: FREE,
        ..MemorySettings::default()
    }
}

/// Starts the readers: two with guarantees, if there are to be any, and two without.
pub(crate) fn start(machine: &mut Machine, guaranteed: bool) -> Vec<CurrencyId> {
    let mut reader = |place| {
        let mut tickets = vec![cpu(), soft_disk(1000)];
        let guarantee = GUARANTEED.get(place).filter(|_| guaranteed);
        tickets.extend(guarantee.map(|(_, amount)| hard_memory(*amount)));
        let id = client(machine, BASE, &tickets);
        // 16 MB, and a buffer of 4 MB.
        let file = (machine.add_file(4096), 4096);
        let buffer = (machine.add_anonymous(1024), 1024);
        machine.start(id, 0, RandomPageReader::new(file, buffer));
        id
    };
    (0..4).map(&mut reader).collect()
}
