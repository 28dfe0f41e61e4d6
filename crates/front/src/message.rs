//! The messages between the keeper's process and the front.
//!
//! A request belongs to a connection, and a connection has one request at a time. An answer comes in pieces; at most
//! [`WINDOW_BYTES`] of it are on their way until its caller takes them, so an answer that nobody reads waits where it was
//! made, at no cost to others.

#![allow(missing_docs)] // The fields say what they are.

use bytes::Bytes;
use sandbox::Restriction;
use serde::{Deserialize, Serialize};
use wire::{CurrencyRef, Operation};

/// The most bytes of one answer that have been sent and not taken.
pub const WINDOW_BYTES: usize = 64 << 10;

/// The most bytes of one piece of an answer, so that answers take turns.
pub const PIECE_BYTES: usize = 32 << 10;

/// A message of the front.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromFront {
    /// The front has given up its rights and serves.
    Ready {
        /// How far landlock(7) keeps files from it, besides the filter of system calls.
        files: Restriction,
    },
    /// A caller asks for something.
    Ask {
        connection: u64,
        /// Number of the request; the answer's pieces have it.
        number: u64,
        request: Request,
    },
    /// The caller took a piece of an answer that is not its last.
    Taken { connection: u64, number: u64, bytes: u32 },
    /// Nobody waits for the rest of an answer.
    Left { connection: u64, number: u64 },
    /// A connection has ended.
    Closed { connection: u64 },
}

/// A message to the front.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToFront {
    /// A piece of an answer.
    Answer {
        /// Number of the request.
        number: u64,
        /// With the first piece.
        head: Option<AnswerHead>,
        bytes: Bytes,
        is_last: bool,
    },
    /// No connection comes any more: finish the answers that are on their way, and end.
    End,
}

/// The facts of an answer that come before its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerHead {
    /// HTTP status.
    pub status: u16,
    pub kind: BodyKind,
}

/// The form of an answer's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BodyKind {
    /// One JSON value.
    Json {
        /// Bytes of the whole.
        length: u64,
    },
    /// JSON values, one a line, as they come.
    Lines,
}

/// A request as it was parsed. Numbers and lengths are as they were sent: whoever answers checks them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// How allotd is set up.
    Status,
    /// The funding graph, or a page of it where a field is given.
    Ledger { after: Option<u64>, limit: Option<u64> },
    /// All that is offered, exchanged, and was paid.
    Market,
    /// Some of those who can trade.
    Traders { who: Vec<CurrencyRef> },
    /// The latest measurements.
    Sample,
    /// Measurements as they are taken.
    Samples { interval_ms: Option<u64> },
    /// Past events, and events as they happen.
    Events { after: Option<u64>, follow: Option<bool> },
    /// The record of who changed what.
    Audit { since_unix_ms: Option<u64> },
    /// Every choice of the scheduler in the kernel.
    Trace { client: Option<u64> },
    /// The report on this machine.
    Doctor,
    /// The scheduling policy.
    Policy,
    /// Another scheduling policy from now on.
    SetPolicy { policy: String },
    /// Things to do in one step.
    Operate { operations: Vec<Operation> },
}
