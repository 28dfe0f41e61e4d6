//! The processes that allotd consists of, which nobody may manage.

use std::sync::atomic::{AtomicU32, Ordering};

/// The number of the enforcing process; 0 before it was started. allotd ends when it does.
static ENFORCING: AtomicU32 = AtomicU32::new(0);

/// Notes which is the enforcing process.
pub fn tell_enforcing(pid: u32) {
    ENFORCING.store(pid, Ordering::Relaxed);
}

/// Returns the part of allotd that a process is, by its number and its parent's; `None` of others.
pub fn which(pid: u32, parent: u32) -> Option<&'static str> {
    let (own, enforcing) = (std::process::id(), ENFORCING.load(Ordering::Relaxed));
    match (pid, parent) {
        (pid, _) if pid == own => Some("allotd itself"),
        (_, parent) if parent == own => Some("a process of allotd"),
        (_, parent) if parent == enforcing && enforcing != 0 => {
            Some("the guardian of allotd, or its loader")
        }
        _ => None,
    }
}
