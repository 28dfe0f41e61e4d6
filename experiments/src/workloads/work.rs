//! The context in which a workload does its work.

use crate::workloads::clock::monotonic_ns;
use crate::workloads::page::CounterPage;
use std::io;
use std::sync::atomic::Ordering;

/// The place of a running workload: its counters and its time.
pub(crate) struct WorkContext {
    /// The shared page of counters.
    pub page: CounterPage,
    /// Its slot on the page.
    pub slot: usize,
    /// CLOCK_MONOTONIC at the start, in ns; 0 before the start.
    pub start_ns: u64,
    /// The time at which it ends by itself, on the same clock.
    pub last_ns: u64,
}

impl WorkContext {
    /// Counts one iteration. Invariant: only this process writes its counter.
    pub fn count(&self) {
        let counter = self.page.iterations(self.slot);
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Returns whether its time is over.
    pub fn over(&self) -> bool {
        monotonic_ns() >= self.last_ns
    }
}

/// Work that is prepared. It begins when it is called.
pub(crate) type PreparedWork = Box<dyn FnOnce(&WorkContext) -> io::Result<()>>;
