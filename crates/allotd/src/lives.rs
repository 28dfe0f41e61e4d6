//! The lives of processes. A thread reads of them as the kernel tells it, so that nothing is lost while the keeper is busy;
//! the keeper catches up before it lets anybody operate.

use crate::fair_queue::FairQueue;
use crate::keeper::Request;
use observe::{LifeEvent, LifeSource, ticks_since_boot};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// How long to wait for an event of a process before looking whether allotd ends.
const LIFE_POLL: Duration = Duration::from_millis(500);

/// The source of events, and what it has told that the keeper has not taken.
pub struct Lives {
    state: Mutex<State>,
}

struct State {
    source: Box<dyn LifeSource>,
    told: Told,
}

/// Events in the lives of processes.
#[derive(Default)]
pub struct Told {
    /// In their order.
    pub events: Vec<LifeEvent>,
    /// All that was born before, in ticks since boot, has been told; `None` where the source was not asked.
    pub whole_until_ticks: Option<u64>,
}

impl State {
    /// Asks the source. Where it fails `/proc` is scanned from then on.
    fn ask(
        &mut self,
        how: impl FnOnce(&mut dyn LifeSource) -> Result<Vec<LifeEvent>, observe::LifeError>,
    ) {
        let asked_ticks = ticks_since_boot();
        match how(&mut *self.source) {
            Ok(events) => {
                self.told.events.extend(events);
                self.told.whole_until_ticks = Some(asked_ticks);
            }
            Err(error) => {
                tracing::error!("{} fails, scanning instead: {error}", self.source.name());
                match observe::Scanner::new(LIFE_POLL) {
                    Ok(scanner) => self.source = Box::new(scanner),
                    Err(error) => tracing::error!("processes cannot be watched: {error}"),
                }
                let reason = "the source of events changed".to_owned();
                self.told.events.push(LifeEvent::Lost { reason });
            }
        }
    }
}

impl Lives {
    /// Of a source.
    pub fn new(source: Box<dyn LifeSource>) -> Lives {
        Lives { state: Mutex::new(State { source, told: Told::default() }) }
    }

    /// Takes the events that were told and not yet taken.
    pub fn take(&self) -> Told {
        std::mem::take(&mut self.lock().told)
    }

    /// All that happened until now and was not yet taken.
    pub fn catch_up(&self) -> Told {
        let mut state = self.lock();
        state.ask(|source| source.catch_up());
        std::mem::take(&mut state.told)
    }

    /// Reads what the kernel tells, and knocks at the keeper's, until allotd ends.
    pub fn watch(&self, requests: &FairQueue<Request>, ending: &watch::Receiver<bool>) {
        while !*ending.borrow() {
            wait(self.descriptor());
            let mut state = self.lock();
            state.ask(|source| source.next(Duration::ZERO));
            drop(state);
            if requests.push_urgent(Request::Life).is_err() {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn descriptor(&self) -> Option<OwnedFd> {
        self.lock().source.poll_fd().and_then(|fd| fd.try_clone_to_owned().ok())
    }
}

/// Waits for events, for at most [`LIFE_POLL`].
fn wait(descriptor: Option<OwnedFd>) {
    let Some(descriptor) = descriptor else { return std::thread::sleep(LIFE_POLL) };
    let most = Timespec::try_from(LIFE_POLL).expect("half a second");
    // Interrupted: asked too early, which does no harm.
    let _ = rustix::event::poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&most));
}
