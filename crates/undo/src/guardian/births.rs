//! Births of descendants of processes that were held.

use crate::record::{IDLED, ProcessTable};
use crate::restore::Lineage;
use crate::scheduling::SchedulingPolicy;
use observe::{LifeEvent, LifeSource, ProcConnector};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Room for some thousand events; what is lost is made up for by looking at all processes.
const EVENT_BUFFER_BYTES: usize = 4 << 20;

/// The births of processes whose ancestors were held, as the kernel tells them.
pub(super) struct Births {
    source: Option<ProcConnector>,
    lineage: Lineage,
    /// Processes in the table when it was last read, and the time before.
    held: BTreeMap<u32, SchedulingPolicy>,
    held_before: BTreeMap<u32, SchedulingPolicy>,
    epoch: u64,
}

impl Births {
    /// Begins to listen, where the table can hold anybody.
    pub fn of(table: &ProcessTable) -> Births {
        let can_hold = table.capacity() > 0;
        let source = can_hold.then(|| ProcConnector::with_receive_buffer(EVENT_BUFFER_BYTES));
        let source = source.and_then(Result::ok);
        let lineage = Lineage { complete: source.is_some(), ..Lineage::default() };
        let (held, held_before) = (BTreeMap::new(), BTreeMap::new());
        Births { source, lineage, held, held_before, epoch: 0 }
    }

    /// Readable when there is something to [`take`](Self::take).
    pub fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.source.as_ref().and_then(|source| source.poll_fd())
    }

    /// The descendants that live now.
    pub fn lineage(&mut self, table: &ProcessTable) -> Lineage {
        self.take(table);
        self.lineage.clone()
    }

    /// Takes what the kernel has told. The order matters: a child that inherited something was
    /// born after its parent was noted in the table, so the table is read after the
    /// events.
    pub fn take(&mut self, table: &ProcessTable) {
        let Some(source) = &mut self.source else { return };
        loop {
            match source.next(Duration::ZERO) {
                Ok(events) if events.is_empty() => return,
                Ok(events) => {
                    if table.epoch() != self.epoch {
                        self.epoch = table.epoch();
                        let held = table
                            .entries()
                            .filter(|entry| entry.tid.is_none() && entry.flags & IDLED != 0)
                            .map(|entry| (entry.original.process.pid, entry.original.policy))
                            .collect();
                        self.held_before = std::mem::replace(&mut self.held, held);
                    }
                    for event in events {
                        follow(&mut self.lineage, &self.held, &self.held_before, &event);
                    }
                }
                Err(_) => {
                    self.source = None;
                    self.lineage.complete = false;
                    return;
                }
            }
        }
    }
}

fn follow(
    lineage: &mut Lineage,
    held: &BTreeMap<u32, SchedulingPolicy>,
    held_before: &BTreeMap<u32, SchedulingPolicy>,
    event: &LifeEvent,
) {
    match event {
        LifeEvent::Fork { parent, child } => {
            let policy = held
                .get(&parent.pid)
                .or_else(|| held_before.get(&parent.pid))
                .copied()
                .or_else(|| lineage.born.get(&parent.pid).map(|(_, policy)| *policy));
            match policy {
                Some(policy) => {
                    let start = child.identity.map(|identity| identity.start_time_ticks);
                    lineage.born.insert(child.pid, (start, policy));
                }
                None => {
                    lineage.born.remove(&child.pid);
                }
            }
        }
        LifeEvent::Exit { process } => {
            lineage.born.remove(&process.pid);
        }
        LifeEvent::Lost { .. } => lineage.complete = false,
        LifeEvent::Exec { .. } | LifeEvent::UidChanged { .. } | LifeEvent::GidChanged { .. } => {}
    }
}
