//! Enforcement: the table *resource → enforcer*, in a privileged process of its own.
//!
//! The keeper has an [`Enforcement`], the near end of a socket; [`enforce_main`] is the far end, which holds the
//! [`Table`] and with it all rights over others' processes. Between them go typed [messages](message) in frames of
//! bounded length. Nothing here reads text that users wrote.

pub mod message;

mod admission;
mod drift;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod handle;
mod kinds;
mod link;
mod lock;
mod process;
mod reach;
mod standing;
mod survey;
mod table;
mod tracing_stream;
mod walls;

pub use enforcer::frame::{FRAME_MAX, FrameError};
pub use handle::{Enforcement, EnforcementError, EnforcingProcess};

pub use kinds::{resource_kinds, why_not_shared};
pub use link::Question;
pub use message::{Choice, CpuSeen, Measured, Seen, Task};
pub use process::enforce_main;
pub use reach::Reach;
pub use survey::{Prospect, Surveyed};
pub use table::{restorers, with_causes};
pub use walls::{Wall, restrict_guardian, wall};
