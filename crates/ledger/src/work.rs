//! What the ledger does for those who ask, counted in tickets that it looks at: one operation may concern one ticket
//! or thousands, and whoever asks for thousands waits for its turn accordingly.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// A count that those who only look may add to. It is no part of what a ledger is: two that are the same may have been
/// looked at differently, and shows nothing of it.
#[derive(Default)]
pub(crate) struct Work(AtomicU64);

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}

impl Work {
    pub(crate) fn note(&self, tickets: u64) {
        self.0.fetch_add(tickets, Ordering::Relaxed);
    }

    pub(crate) fn so_far(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Clone for Work {
    fn clone(&self) -> Work {
        Work(AtomicU64::new(self.so_far()))
    }
}
