//! Identities of processes and threads that a reused number never mistakes for another.

mod process;
mod thread;

pub use process::ProcessIdentity;
pub use thread::ThreadIdentity;
