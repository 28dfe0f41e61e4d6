//! Everything that was changed, on record before it is changed, and given back when who changed it dies.
//!
//! - [`record`]: one file: a table of processes that are held, and a log of everything else.
//! - [`Guardian`]: a small process that gives everything back the moment that the one it watches dies.
//! - [`restore_leftovers`]: does the same later, where the guardian was killed too.
//! - [`Restorer`]: how an enforcer says how its entries of the log are given back.
//! - [`cgroup`]: moves of processes between cgroups, and back.
//! - [`scheduling`]: the kernel's scheduling policies, one system call a function.

pub mod cgroup;
pub mod guardian;
pub mod record;
pub mod restore;
pub mod scheduling;

pub use guardian::{Guard, Guardian, GuardianError, Watch, guardian_main};
pub use record::{LogEntry, Record, RecordOptions};
pub use restore::{Restored, Restorer, Restorers, restore_leftovers};
