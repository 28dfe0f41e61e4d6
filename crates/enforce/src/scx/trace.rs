//! What the scheduler did, event by event (paper 3, table 4).

use super::abi::{Plain, RawEvent};
use super::session::Session;
use ledger::CurrencyId;
use libbpf_rs::{RingBuffer, RingBufferBuilder};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, on the monotonic clock, in ns.
    pub at_ns: u64,
    /// What happened.
    pub kind: EventKind,
    /// To which client; base's number where the slot had no owner.
    pub client: CurrencyId,
    /// To which thread; 0 where it was not one thread's.
    pub tid: u32,
    /// On which CPU.
    pub cpu: u16,
    /// The thread's place in the queue: virtual time, or a place in the list of MTR-LS.
    pub key: u64,
    /// What the client's tickets are worth, in parts of [`valuation::WHOLE`].
    pub value: u64,
    /// What it was due on average lately, by which its key was computed.
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

/// The trace, as it comes: an iterator that waits for the next event. Dropping it ends it.
#[derive(Debug)]
pub struct Trace {
    pub(super) batches: Receiver<Vec<Event>>,
    pub(super) batch: std::vec::IntoIter<Event>,
}

impl Trace {
    /// The events that are there, without waiting.
    pub fn ready(&mut self) -> Vec<Event> {
        let mut events: Vec<Event> = self.batch.by_ref().collect();
        events.extend(self.batches.try_iter().flatten());
        events
    }
}

impl Iterator for Trace {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.batch.next() {
                return Some(event);
            }
            self.batch = self.batches.recv().ok()?.into_iter();
        }
    }
}

/// Most batches that wait for the reader; later ones are lost.
pub(super) const KEPT_BATCHES: usize = 1024;

/// The writing end of a [`Trace`].
pub(super) struct Feed {
    reader: SyncSender<Vec<Event>>,
    buffer: Option<(RingBuffer<'static>, Rc<RefCell<Vec<RawEvent>>>)>,
    pumps: u32,
}

/// Once in so many times a reader is asked whether it is there, although there is nothing new.
const ASK_EVERY: u32 = 50;

impl Feed {
    /// For this reader; hears nothing yet.
    pub fn new(reader: SyncSender<Vec<Event>>) -> Feed {
        Feed { reader, buffer: None, pumps: 0 }
    }

    /// Begins to listen to a scheduler.
    pub fn open(&mut self, session: &Session) -> io::Result<()> {
        let heard = Rc::new(RefCell::new(Vec::new()));
        let into = Rc::clone(&heard);
        let mut builder = RingBufferBuilder::new();
        let hear = move |bytes: &[u8]| {
            let mut event = RawEvent::default();
            if bytes.len() >= event.bytes().len() {
                let length = event.bytes().len();
                event.bytes_mut().copy_from_slice(&bytes[..length]);
                into.borrow_mut().push(event);
            }
            0
        };
        builder.add(&session.skeleton.maps.events, hear).map_err(io::Error::other)?;
        self.buffer = Some((builder.build().map_err(io::Error::other)?, heard));
        Ok(())
    }

    /// The scheduler is gone, and its buffer with it.
    pub fn without_buffer(mut self) -> Feed {
        self.buffer = None;
        self
    }

    /// Hands on what there is. Answers whether anybody still reads.
    pub fn pump(&mut self, session: &Session) -> bool {
        let Some((buffer, heard)) = &self.buffer else { return true };
        // An error means that nothing could be read now.
        let _ = buffer.consume();
        let raw = std::mem::take(&mut *heard.borrow_mut());
        let batch: Vec<Event> = raw
            .into_iter()
            .filter_map(|raw| Event::of(raw, CurrencyId(session.client(raw.slot).id)))
            .collect();
        self.pumps = self.pumps.wrapping_add(1);
        if batch.is_empty() && !self.pumps.is_multiple_of(ASK_EVERY) {
            return true;
        }
        !matches!(self.reader.try_send(batch), Err(TrySendError::Disconnected(_)))
    }
}

impl Event {
    fn of(raw: RawEvent, client: CurrencyId) -> Option<Event> {
        let kind = match raw.kind {
            0 => EventKind::Join,
            1 => EventKind::Queue,
            2 => EventKind::Win,
            3 => EventKind::Charge,
            4 => EventKind::Leave,
            _ => return None,
        };
        Some(Event {
            at_ns: raw.at_ns,
            kind,
            client,
            tid: raw.tid,
            cpu: raw.cpu,
            key: raw.key,
            value: raw.value,
            rate: raw.rate,
            used_ns: raw.used_ns,
            due_ns: raw.due_ns,
            charged_ns: raw.charged_ns,
            drawn: raw.drawn,
            now: raw.now,
            seq: raw.seq,
        })
    }
}
