//! Signals that end an experiment early, and cleanly.

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Catches SIGINT, SIGTERM and SIGHUP until it is dropped.
pub(crate) struct Interrupts {
    came: Arc<AtomicBool>,
    registered: Vec<SigId>,
}

impl Interrupts {
    /// Starts to catch signals. `came` is set when one comes; others may set it too.
    pub fn catch(came: Arc<AtomicBool>) -> io::Result<Interrupts> {
        let mut interrupts = Interrupts { came, registered: Vec::new() };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let id = signal_hook::flag::register(signal, interrupts.came.clone())?;
            interrupts.registered.push(id);
        }
        Ok(interrupts)
    }

    /// Returns whether a signal came.
    pub fn came(&self) -> bool {
        self.came.load(Ordering::Relaxed)
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.registered.drain(..).for_each(|id| {
            signal_hook::low_level::unregister(id);
        });
    }
}
