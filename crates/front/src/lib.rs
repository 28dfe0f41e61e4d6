//! The front: the process that speaks HTTP with allotd's callers and has no rights but to answer them.
//!
//! The keeper's process accepts connections, asks the kernel who calls, and passes each connection with a number. The front
//! parses what comes in and sends typed requests under that number; the keeper looks up who the number is. Nothing that
//! the front says decides who calls, so whoever takes it over can do what its callers can, and no more.
//!
//! This crate sees the interface's types alone: the compiler keeps the ledger, the journal and the enforcers away from
//! the code that reads what anybody may send.

mod allowance;
mod answers;
mod codec;
mod connection;
mod door;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod link;
mod message;
mod meter;
mod process;
mod sandbox;
mod server;
mod tally;

pub use allowance::Allowances;
pub use codec::{CodecError, Frames, frame, frames, message, write_frames};
pub use door::{NewConnection, pass, take};
pub use message::{AnswerHead, BodyKind, FromFront, PIECE_BYTES, Request, ToFront, WINDOW_BYTES};
pub use meter::{A_SECOND, AT_ONCE, Meter, thread_time};
pub use process::front_main;
pub use tally::{Counted, Tally};
