//! The ledger: tickets, currencies and their brokers. One state, changed only by
//! [`Ledger::apply`](crate::Ledger::apply) of an operation that a broker authorised.
//!
//! Pure: no clock, no randomness, no files, no threads.

mod identity;

pub use identity::ProcessIdentity;
