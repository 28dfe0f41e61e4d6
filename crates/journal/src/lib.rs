//! The durable ledger: every operation is written to a SQLite database before it is
//! acknowledged, and read back after any end of the daemon or the machine.
//!
//! What is promised, the files and what to do when they are damaged: `docs/journal.md`.

mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod journal;
mod mark;
mod record;
mod recover;
mod room;
mod salvage;
mod store;

pub use error::{Forecast, JournalError};
pub use journal::{Batch, Journal, Keep, Recovered};
pub use record::Entry;
pub use recover::{CheckReport, RecoveryReport};
