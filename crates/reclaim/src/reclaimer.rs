//! The reclaimer: when it looks, and what it does.
//!
//! 1. **It sleeps** until pressure wakes it ([`pressure`](super::pressure)); once a second it looks at the cgroups'
//!    room besides, since losses can be many and cost too little time to be pressure. Where the kernel has no PSI, ten
//!    times a second.
//! 2. **Rounds**: while something is lacking ([`room`](super::room)), and until nothing was for a while, a round a
//!    period. In a round the policy chooses who loses, that one is asked for a draw's worth
//!    ([`size`](super::size)), and so on until what was lacking is made up for, or the period is over.
//! 3. **The machine's** memory counts as lacking only while there is pressure: for the same while after it woke us.
//! 4. **Who is asked**: those that hold more than they are guaranteed and the margin. Left out are those that are gone
//!    and those that back off. Where nobody is left, the next round waits as those do.
//! 5. **What is known**: before a round what each holds is read, at most 256 clients in turn, and the slower rest
//!    (what is inactive, refaults) every 200 ms, at most 16 in turn; after a draw what the loser holds.

use crate::client::{Client, lock};
use crate::error::MemoryError;
use crate::memory_client::MemoryClient;
use crate::options::ReclaimOptions;
use crate::pressure::Pressure;
use crate::room::Room;
use crate::sample::{MemorySample, ReclaimTotals};
use crate::shared::Shared;
use crate::size::margin_bytes;
use crate::worker::Worker;
use policy::MAX_WEIGHT;
use rustix::event::EventfdFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Has memory taken from who a policy chooses when there is too little. Dropping it ends that; nothing was set, so
/// nothing is given back.
pub struct Reclaimer {
    shared: Arc<Shared>,
    page_bytes: u64,
    pressure: Result<PathBuf, String>,
    thread: Option<JoinHandle<()>>,
}

impl Reclaimer {
    /// Starts the thread. It follows nobody yet.
    ///
    /// # Errors
    /// When the top is no cgroup with a memory controller, or the kernel refuses what the thread needs.
    ///
    /// # Panics
    /// When a period has no length: a broken invariant.
    pub fn start(options: ReclaimOptions) -> Result<Reclaimer, MemoryError> {
        assert!(options.period_ns > 0, "a period has a length");
        let page_bytes = rustix::param::page_size() as u64;
        let (top, together) = (options.top.as_deref(), options.together.clone());
        let room = Room::new(top, together, options.headroom_bytes, page_bytes)?;
        let pressure = Pressure::watch(room.top());
        let wakes = match &pressure {
            Ok(pressure) => Ok(pressure.path.clone()),
            Err(why) => Err(why.to_string()),
        };
        let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let margin = options.margin_bytes.unwrap_or_else(|| margin_bytes(cpus, page_bytes));
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(MemoryError::os("make an eventfd"))?;
        let shared = Arc::new(Shared {
            clients: Mutex::new(Arc::new(Vec::new())),
            totals: Mutex::new(ReclaimTotals::default()),
            quit: AtomicBool::new(false),
            wake,
        });
        let worker =
            Worker::new(options, room, pressure.ok(), margin, page_bytes, Arc::clone(&shared));
        let thread = std::thread::Builder::new()
            .name("allot-reclaim".to_owned())
            .spawn(move || worker.run())
            .map_err(MemoryError::os("start the reclaimer's thread"))?;
        Ok(Reclaimer { shared, page_bytes, pressure: wakes, thread: Some(thread) })
    }

    /// Follow these clients from now on, in place of those before. A cgroup that is gone already is no error.
    ///
    /// # Errors
    /// When two have the same key, one has too many tickets, a folder is something else than a cgroup that memory can
    /// be taken from, or the thread has ended. Then those before are followed on.
    pub fn follow(&self, clients: Vec<MemoryClient>) -> Result<(), MemoryError> {
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            return Err(MemoryError::Ended);
        }
        let mut keys = BTreeSet::new();
        for MemoryClient { key, tickets, .. } in &clients {
            if !keys.insert(*key) {
                return Err(MemoryError::SameKey(*key));
            }
            if *tickets > MAX_WEIGHT {
                let (key, tickets, most) = (*key, *tickets, MAX_WEIGHT);
                return Err(MemoryError::TooManyTickets { key, tickets, most });
            }
        }
        let before = Arc::clone(&lock(&self.shared.clients));
        let accounts: BTreeMap<u64, _> =
            before.iter().map(|it| (it.planned.key, Arc::clone(&it.account))).collect();
        let each = clients.into_iter().map(|client| {
            let account = accounts.get(&client.key).cloned();
            Client::new(client, account, self.page_bytes)
        });
        let clients = each.collect::<Result<Vec<_>, _>>()?;
        *lock(&self.shared.clients) = Arc::new(clients);
        Ok(())
    }

    /// Every client's memory now, in the order in which they were given. Read by the caller's thread, so it waits for
    /// nobody.
    pub fn sample(&self) -> Vec<MemorySample> {
        let clients = Arc::clone(&lock(&self.shared.clients));
        clients.iter().map(Client::sample).collect()
    }

    /// What was done so far.
    pub fn totals(&self) -> ReclaimTotals {
        *lock(&self.shared.totals)
    }

    /// Whose pressure wakes it.
    ///
    /// # Errors
    /// When the kernel has none to tell, in words: then it looks ten times a second.
    pub fn woken_by(&self) -> Result<&Path, &str> {
        self.pressure.as_deref().map_err(String::as_str)
    }
}

impl Drop for Reclaimer {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::Release);
        // Full at 2⁶⁴ unanswered calls only.
        let _ = rustix::io::write(&self.shared.wake, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the reclaimer's thread panicked");
        }
    }
}

impl std::fmt::Debug for Reclaimer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reclaimer").field("pressure", &self.pressure).finish_non_exhaustive()
    }
}
