//! A client of the reclaimer, as its thread and those who ask for samples share it.

use crate::error::MemoryError;
use crate::group::{Group, Taken, is_gone};
use crate::memory_client::{MemoryClient, MemorySource};
use crate::processes::Processes;
use crate::sample::MemorySample;
use crate::size::{Average, Backoff};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A client. What it has lost is counted as long as some list names its key.
#[derive(Debug)]
pub(crate) struct Client {
    pub planned: Planned,
    holding: Holding,
    gone: AtomicBool,
    pub account: Arc<Account>,
}

/// What was said of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    pub id: ledger::CurrencyId,
    pub key: u64,
    pub tickets: u64,
    pub guaranteed_bytes: u64,
    pub guest: bool,
}

/// What it has lost, and why nothing could be taken.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub taken_bytes: AtomicU64,
    pub draws: AtomicU64,
    /// Refaults a second, in 1/1024.
    rate: AtomicU64,
    trouble: Mutex<Option<String>>,
}

impl Account {
    pub fn set_trouble(&self, what: Option<String>) {
        *lock(&self.trouble) = what;
    }
}

/// Where its memory is.
#[derive(Debug)]
enum Holding {
    Group(Group),
    Processes(Processes),
    /// It was gone before it could be opened.
    Nowhere,
}

/// What is known of a client between rounds, by the reclaimer's thread alone.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub held_bytes: u64,
    pub idle_bytes: u64,
    pub stat_at_ns: Option<u64>,
    pub refaults: Average,
    pub backoff: Backoff,
}

impl Client {
    /// `account`: from the list before, if that named its key.
    ///
    /// # Errors
    /// When its folder is a folder of something else.
    pub fn new(
        client: MemoryClient,
        account: Option<Arc<Account>>,
        page_bytes: u64,
    ) -> Result<Client, MemoryError> {
        let MemoryClient { id, key, tickets, guaranteed_bytes, guest, source } = client;
        let account = account.unwrap_or_default();
        let holding = match source {
            MemorySource::Processes(handles) => {
                Holding::Processes(Processes::new(handles, page_bytes))
            }
            MemorySource::Group(path) => match Group::open(&path) {
                Ok(group) if group.can_reclaim() => Holding::Group(group),
                // It may go at any time, so also before this.
                _ if !path.exists() => Holding::Nowhere,
                Ok(_) => return Err(MemoryError::NoReclaim(path)),
                Err(why) => return Err(why),
            },
        };
        let planned = Planned { id, key, tickets, guaranteed_bytes, guest };
        Ok(Client { planned, holding, gone: AtomicBool::new(false), account })
    }

    /// Whether it is a cgroup.
    pub fn is_group(&self) -> bool {
        matches!(self.holding, Holding::Group(_))
    }

    /// What it holds, in bytes; `None` when it is gone or cannot be read.
    pub fn held_bytes(&self) -> Option<u64> {
        self.ask(Group::held_bytes, |processes| match processes.are_gone() {
            true => Err(rustix::io::Errno::NODEV.into()),
            false => processes.held_bytes().map_err(io::Error::other),
        })
    }

    /// Its inactive bytes, and refaults so far; `None` when it is gone or cannot be read. Of processes nothing is
    /// known to be inactive.
    pub fn stat(&self) -> Option<(u64, u64)> {
        let of_group = |group: &Group| group.stat().map(|it| (it.inactive_bytes, it.refaults));
        self.ask(of_group, |processes| Ok((0, processes.faults())))
    }

    /// Takes so many bytes. Answers how many it lost, at least; 0 also when it is gone or the kernel refused.
    pub fn take(&self, bytes: u64) -> u64 {
        let taken =
            self.ask(|group| take_from_group(group, bytes), |processes| processes.take(bytes));
        let Some(taken) = taken else { return 0 };
        self.account.draws.fetch_add(1, Ordering::Relaxed);
        self.account.taken_bytes.fetch_add(taken, Ordering::Relaxed);
        if taken > 0 {
            self.account.set_trouble(None);
        }
        taken
    }

    /// What its refaults come to.
    pub fn set_rate(&self, rate: u64) {
        self.account.rate.store(rate, Ordering::Relaxed);
    }

    pub fn sample(&self) -> MemorySample {
        let Planned { id, key, guaranteed_bytes, .. } = self.planned;
        let held_bytes = self.held_bytes();
        let refaults = self.stat().map(|(_, refaults)| refaults);
        let stalled_ns = match &self.holding {
            Holding::Group(group) => group.stalled_ns(),
            Holding::Processes(_) | Holding::Nowhere => None,
        };
        MemorySample {
            id,
            key,
            held_bytes,
            guaranteed_bytes,
            taken_bytes: self.account.taken_bytes.load(Ordering::Relaxed),
            draws: self.account.draws.load(Ordering::Relaxed),
            refaults,
            refault_rate: self.account.rate.load(Ordering::Relaxed),
            stalled_ns,
            trouble: lock(&self.account.trouble).clone(),
        }
    }

    /// What could not be had is told; who is gone is asked no more.
    fn ask<T>(
        &self,
        group: impl FnOnce(&Group) -> io::Result<T>,
        processes: impl FnOnce(&Processes) -> io::Result<T>,
    ) -> Option<T> {
        if self.gone.load(Ordering::Relaxed) {
            return None;
        }
        let result = match &self.holding {
            Holding::Group(it) => group(it),
            Holding::Processes(it) => processes(it),
            Holding::Nowhere => return None,
        };
        match result {
            Ok(value) => Some(value),
            Err(error) if is_gone(&error) => {
                self.gone.store(true, Ordering::Relaxed);
                self.account.set_trouble(None);
                None
            }
            Err(error) => {
                self.account.set_trouble(Some(error.to_string()));
                None
            }
        }
    }
}

/// The kernel says only whether it took as much as it was asked for. What is held meanwhile grows too, so of less
/// than that the difference is a lower bound.
fn take_from_group(group: &Group, bytes: u64) -> io::Result<u64> {
    let before = group.held_bytes()?;
    let taken = group.reclaim(bytes)?;
    let less = before.saturating_sub(group.held_bytes()?);
    Ok(match taken {
        Taken::All => less.max(bytes),
        Taken::Less => less,
    })
}

/// Nobody leaves these in a state that others could not go on from.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
