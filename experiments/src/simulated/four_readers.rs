//! The machine and the load of paper 1, 6.3 (figure 9): four readers of random pages and about 4.2 MB.

use super::scene::{client, cpu, hard_memory, soft_disk};
use ledger::{BASE, CurrencyId};
use sim::machine::workload::RandomPageReader;
use sim::machine::{Machine, MemorySettings};

/// What the first two readers are guaranteed, in pages, and as thousandths of what can be had.
pub(super) const GUARANTEED: [(u64, u64); 2] = [(500, 477), (350, 334)];
/// Pages that can be had: the paper's 4.2 MB.
pub(super) const RESERVABLE: u64 = 1050;
/// Pages that are kept free.
pub(super) const FREE: u64 = 64;

/// So much memory, and all else as usual.
pub(super) fn memory() -> MemorySettings {
    MemorySettings {
        pages: RESERVABLE + FREE,
        free_low_pages: FREE / 2,
        free_high_pages: FREE,
        ..MemorySettings::default()
    }
}

/// Starts the readers: two with guarantees, if there are to be any, and two with none.
pub(super) fn start(machine: &mut Machine, guaranteed: bool) -> Vec<CurrencyId> {
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
