//! Clients of a simulated machine, and tickets for them.

use ledger::{CurrencyId, Funding, Resource, TicketKind};
use sim::machine::Machine;
use sim::machine::books::{disk, funding};

/// Returns soft tickets for a CPU, as many as every client has.
pub(crate) fn cpu() -> Funding {
    funding(Resource::CPU, TicketKind::Soft, 1000)
}

/// Returns soft tickets for the disk.
pub(crate) fn soft_disk(amount: u64) -> Funding {
    funding(disk(), TicketKind::Soft, amount)
}

/// Returns hard tickets for thousandths of the disk.
pub(crate) fn hard_disk(amount: u64) -> Funding {
    funding(disk(), TicketKind::Hard, amount)
}

/// Returns hard tickets for thousandths of the memory that can be had.
pub(crate) fn hard_memory(amount: u64) -> Funding {
    funding(Resource::MEMORY, TicketKind::Hard, amount)
}

/// Returns soft tickets for memory.
pub(crate) fn soft_memory(amount: u64) -> Funding {
    funding(Resource::MEMORY, TicketKind::Soft, amount)
}

/// Adds a client. The broker does not refuse it: its tickets are the experiment's own.
pub(crate) fn client(machine: &mut Machine, issuer: CurrencyId, tickets: &[Funding]) -> CurrencyId {
    machine.add_client(issuer, tickets).expect("root may fund a client")
}
