//! Sandboxes: what a process gives up once it has begun, each by itself and without systemd.
//!
//! A process gives up its user ([`User`]), capabilities ([`capabilities`]), system calls ([`SystemCalls`]) and files
//! ([`Files`]), in this order: the later ones rest on what the earlier ones leave.

pub mod capabilities;

mod files;
mod system_calls;
mod user;

pub use files::{Files, Restriction};
pub use landlock::RulesetError;
pub use rustix::thread::CapabilitySet;
pub use system_calls::{Part, SystemCalls, SystemCallsError};
pub use user::{User, UserError, hand_over};

use std::io;

/// Keeps others of the same user from looking into this process, and its memory out of core files.
///
/// # Errors
/// When the kernel refuses.
pub fn make_undumpable() -> io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Gives up that a program which this process runs has more rights than it.
///
/// # Errors
/// When the kernel refuses.
pub fn forgo_new_privileges() -> io::Result<()> {
    Ok(rustix::thread::set_no_new_privs(true)?)
}
