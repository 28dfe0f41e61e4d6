//! What the reclaimer's thread and its callers share.

use crate::client::Client;
use crate::sample::ReclaimTotals;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// What the thread and its callers share.
pub(crate) struct Shared {
    pub clients: Mutex<Arc<Vec<Client>>>,
    pub totals: Mutex<ReclaimTotals>,
    pub quit: AtomicBool,
    pub wake: OwnedFd,
}
