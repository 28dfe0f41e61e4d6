//! What the scheduler did, event by event (paper 3, table 4).

use crate::abi::{Plain, RawEvent};
use crate::handles::Ring;
use crate::session::Session;
use enforcer::{TraceEvent, TraceEventKind};
use ledger::CurrencyId;
use std::io;
use std::sync::mpsc::{SyncSender, TrySendError};

/// The writing end of a [`Trace`](enforcer::Trace).
pub(crate) struct Feed {
    reader: SyncSender<Vec<TraceEvent>>,
    buffer: Option<Ring>,
    pumps: u32,
}

/// Once in so many times a reader is asked whether it is there, although there is nothing new.
const ASK_EVERY: u32 = 50;

impl Feed {
    /// For this reader; hears nothing yet.
    pub fn new(reader: SyncSender<Vec<TraceEvent>>) -> Feed {
        Feed { reader, buffer: None, pumps: 0 }
    }

    /// Begins to listen to a scheduler.
    pub fn open(&mut self, session: &Session) -> io::Result<()> {
        self.buffer = Some(session.events()?);
        Ok(())
    }

    /// The scheduler is gone, and its buffer with it.
    pub fn without_buffer(mut self) -> Feed {
        self.buffer = None;
        self
    }

    /// Hands on what there is. Answers whether anybody still reads.
    pub fn pump(&mut self, session: &Session) -> bool {
        let Some(buffer) = &mut self.buffer else { return true };
        let batch: Vec<TraceEvent> = buffer
            .take()
            .into_iter()
            .filter_map(|raw| event_of(raw, session.currency_in(raw.slot)?))
            .collect();
        self.pumps = self.pumps.wrapping_add(1);
        if batch.is_empty() && !self.pumps.is_multiple_of(ASK_EVERY) {
            return true;
        }
        !matches!(self.reader.try_send(batch), Err(TrySendError::Disconnected(_)))
    }
}

/// One record of the buffer.
pub(crate) fn raw_event(bytes: &[u8]) -> Option<RawEvent> {
    let mut event = RawEvent::default();
    let into = event.bytes_mut();
    into.copy_from_slice(bytes.get(..into.len())?);
    Some(event)
}

pub(crate) fn event_of(raw: RawEvent, client: CurrencyId) -> Option<TraceEvent> {
    let kind = match raw.kind {
        0 => TraceEventKind::Join,
        1 => TraceEventKind::Queue,
        2 => TraceEventKind::Win,
        3 => TraceEventKind::Charge,
        4 => TraceEventKind::Leave,
        _ => return None,
    };
    Some(TraceEvent {
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
