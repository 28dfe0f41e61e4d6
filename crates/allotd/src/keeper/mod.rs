//! The keeper: the one thread that owns the ledger and its journal.
//!
//! Requests queue up, each person's in a line of its own; each round takes some work of them in fair turns, decides and
//! applies it one after the other, and makes it durable together, with one sync. Only then is it acknowledged, shown
//! and enforced. If it cannot be made durable, the whole round is undone and refused.

mod commit;
mod enforce;
mod looked_at;
mod operate;
mod processes;
mod read;
mod request;
mod serve;
mod snapshot;
mod state;
mod trade;
mod written;

pub use request::Request;
pub use snapshot::Snapshot;
pub use state::Keeper;
