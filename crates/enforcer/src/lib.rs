//! The interface of every enforcer: it makes the machine give what a plan says, and decides no share.
//!
//! This is paper 2's scheduler interface (2.2) by other names. A resource is registered with its kind
//! ([`Registration`]: the paper's *init*), an enforcer is started with what it serves (*create*, *start*), is given
//! plans ([`Enforcer::apply`]: *set*), says what it does ([`Enforcer::status`], [`Enforcer::sample`]: *get*) and gives
//! everything back ([`Enforcer::revert`]: *delete*).
//!
//! - [`Enforcer`] is the trait; what only some can do is an optional method of it.
//! - [`Plan`], [`Status`] and [`Sample`] are plain data, so that an enforcer may run in a process of its own.
//! - [`Registration`] names an enforcer, what it serves, whether it can work here, and how it is started.
//! - [`Actor`] and [`Order`] are for enforcers that work on a thread of their own, [`periodic`] for those of them that
//!   look once in a period; [`clock`] and [`DriftLog`] for all.
//! - [`frame`] carries messages and descriptors to processes of an enforcer's own.
//! - [`Presence`] and its rule ([`Looks`]) are for enforcers of the CPU that find out themselves who competes.

pub mod clock;
pub mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod periodic;

mod actor;
mod drift;
mod enforcer;
mod error;
mod followed;
mod hold_method;
mod plan;
mod presence;
mod registration;
mod sample;
mod settings;
mod status;
mod trace;

pub use actor::{Actor, GaveUp, Order};
pub use drift::{Drift, DriftLog};
pub use enforcer::Enforcer;
pub use error::EnforceError;
pub use followed::{Consequence, Followed};
pub use hold_method::{HoldMethod, UnknownHoldMethod};
pub use periodic::Periodic;
pub use plan::{Plan, PlannedClient, PlannedLimit};
pub use presence::{CpuAccount, Look, Looks, Presence, PresenceTracker};
pub use registration::{Check, Helper, Needs, Registration, Start, Survey};
pub use sample::{CpuClientSample, CpuSample, ResourceSample, ResourceUse, Sample};
pub use settings::{CpuSettings, MemorySettings, Settings};
pub use status::{ClientState, ClientStatus, CpuStatus, HoldState, ResourceStatus, Status};
pub use trace::{KEPT_BATCHES, Trace, TraceEvent, TraceEventKind, trace_channel};

pub use rustix::thread::CapabilitySet;
