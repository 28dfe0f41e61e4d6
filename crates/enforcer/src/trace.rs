//! Traces: what an enforcer chose, event by event (paper 3, table 4).

use ledger::CurrencyId;
use serde::{Deserialize, Serialize};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceEventKind {
    /// A client's first member became runnable.
    Join,
    /// A thread was queued with a key.
    Queue,
    /// A thread was chosen to run.
    Win,
    /// A client was charged.
    Charge,
    /// A client's last member went to sleep.
    Leave,
}

/// One line of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceEvent {
    /// When, on the monotonic clock, in ns.
    pub at_ns: u64,
    /// What happened.
    pub kind: TraceEventKind,
    /// The client; base's number where the slot had no owner.
    pub client: CurrencyId,
    /// The thread; 0 where it was not one thread's.
    pub tid: u32,
    /// The CPU.
    pub cpu: u16,
    /// The thread's place in the queue: virtual time, or a place in the list of MTR-LS.
    pub key: u64,
    /// The value of the client's tickets, in parts of [`valuation::WHOLE`].
    pub value: u64,
    /// The client's average rate lately, by which its key was computed.
    pub rate: u64,
    /// CPU time used by the client so far, in ns.
    pub used_ns: u64,
    /// CPU time that the client's tickets were due so far, in ns.
    pub due_ns: u64,
    /// CPU time that it was charged so far, in ns.
    pub charged_ns: u64,
    /// The lottery's random number, in 2⁻¹⁶ of its mean.
    pub drawn: u64,
    /// Virtual time: CPU time that was given to all, in ns.
    pub now: u64,
    /// Counts the events of this CPU: a gap says that some were lost.
    pub seq: u32,
}

/// Maximum batches that wait for the reader; later ones are lost.
pub const KEPT_BATCHES: usize = 1024;

/// Makes a trace and its writing end.
pub fn trace_channel() -> (SyncSender<Vec<TraceEvent>>, Trace) {
    let (writer, batches) = sync_channel(KEPT_BATCHES);
    (writer, Trace { batches, batch: Vec::new().into_iter() })
}

/// The trace, as it comes: an iterator that waits for the next event. Dropping it ends it.
#[derive(Debug)]
pub struct Trace {
    batches: Receiver<Vec<TraceEvent>>,
    batch: std::vec::IntoIter<TraceEvent>,
}

impl Trace {
    /// Takes the events that are there, without waiting.
    pub fn ready(&mut self) -> Vec<TraceEvent> {
        let mut events: Vec<TraceEvent> = self.batch.by_ref().collect();
        events.extend(self.batches.try_iter().flatten());
        events
    }
}

impl Iterator for Trace {
    type Item = TraceEvent;

    fn next(&mut self) -> Option<TraceEvent> {
        loop {
            if let Some(event) = self.batch.next() {
                return Some(event);
            }
            self.batch = self.batches.recv().ok()?.into_iter();
        }
    }
}
