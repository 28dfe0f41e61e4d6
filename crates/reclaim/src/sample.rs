//! What a reclaimer tells of its clients and of itself.

use ledger::CurrencyId;

/// One client's memory, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySample {
    /// Its currency.
    pub id: CurrencyId,
    /// Its key.
    pub key: u64,
    /// Memory that it holds, in bytes; `None` when it is gone or cannot be read.
    pub held_bytes: Option<u64>,
    /// Guaranteed memory, in bytes.
    pub guaranteed_bytes: u64,
    /// Memory taken from it since its key was first followed, in bytes: a lower bound.
    pub taken_bytes: u64,
    /// Draws in which it was chosen and asked.
    pub draws: u64,
    /// Pages that it needed again after anybody had taken them; of processes their major faults. `None` when it is gone
    /// or cannot be read.
    pub refaults: Option<u64>,
    /// Refaults a second, averaged over 2 s, in 1/1024, as the policy was told last.
    pub refault_rate: u64,
    /// Time for which at least one of its threads has waited for memory, in ns; `None` if that is not known.
    pub stalled_ns: Option<u64>,
    /// Why it could not be read, or nothing could be taken, at the last try.
    pub trouble: Option<String>,
}

/// What the reclaimer did since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReclaimTotals {
    /// Times that pressure woke it.
    pub woken: u64,
    /// Rounds, those in which nothing was lacking included.
    pub rounds: u64,
    /// Draws: a client was chosen and asked.
    pub draws: u64,
    /// Memory taken, in bytes: a lower bound.
    pub taken_bytes: u64,
    /// Memory that was lacking at the beginning of the last round, in bytes.
    pub shortfall_bytes: u64,
    /// CPU time used by its thread, in ns: the kernel takes pages in the name of who asks.
    pub own_cpu_ns: u64,
}
