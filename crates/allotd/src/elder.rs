//! The machine's allotd, as a private one sees it. Where both hold processes one by one, they undo each
//! other's work: then the private one defers.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wire::Client;

/// Interval between looks.
const LOOK: Duration = Duration::from_secs(1);

/// The state of the machine's allotd, as far as it is known.
#[derive(Clone, Default)]
pub struct Elder(Arc<Mutex<Option<String>>>);

impl Elder {
    /// Looks from now on, in a thread of its own: an allotd that does not answer holds up nobody.
    pub fn watch(socket: PathBuf) -> Elder {
        let elder = Elder::default();
        let seen = Arc::downgrade(&elder.0);
        std::thread::spawn(move || {
            while let Some(seen) = seen.upgrade() {
                *seen.lock().unwrap_or_else(PoisonError::into_inner) = why_defer(&socket);
                drop(seen);
                std::thread::sleep(LOOK);
            }
        });
        elder
    }

    /// Why this one defers now, if it does.
    pub fn why_defer(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn why_defer(socket: &Path) -> Option<String> {
    // Whoever else may listen there is not the machine's.
    let is_roots = std::fs::symlink_metadata(socket).is_ok_and(|found| found.uid() == 0);
    let status = Client::new(socket.to_owned()).status().ok().filter(|_| is_roots)?;
    let holds = !status.private && status.uid == 0 && status.cpu.name == "user-level";
    (holds && status.pid != std::process::id()).then(|| {
        format!(
            "deferred to the machine's allotd (process {}), which holds processes one by one as this one would: use \
             that one, without --user",
            status.pid
        )
    })
}
