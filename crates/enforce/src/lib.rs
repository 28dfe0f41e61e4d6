//! Enforcers: they make the machine give what a plan says, and decide no share.
//!
//! - [`Enforcer`]: what every one of them can do.
//! - [`UserLevel`]: a lottery over real processes, for any Linux machine.
//! - [`Cgroup`]: weights of cgroups, where the kernel takes no scheduler of ours.
//! - [`disk`]: what brings a disk to serve cgroups by their weights.
//! - [`memory`]: who loses memory when there is too little.
//! - [`Guardian`]: gives every process back what it had when the one who touched it dies.

pub mod cgroup;
pub mod disk;
mod enforcer;
mod error;
mod guardian;
mod hold;
pub mod memory;
mod plan;
mod registry;
mod restore;
mod scheduling;
pub mod scx;
mod user_level;

pub use cgroup::{Cgroup, CgroupOptions};
pub use enforcer::{
    Applied, AppliedClient, ClientSample, ClientState, Drift, Enforcer, Held, Sample,
};
pub use error::EnforceError;
pub use guardian::{Guardian, GuardianError, guardian_main};
pub use hold::{Hold, UnknownHold, hold_available};
pub use plan::{Plan, PlannedClient, PlannedLimit};
pub use restore::{Restored, restore_leftovers};
pub use user_level::{
    DEFAULT_QUANTUM_NS, QUANTUM_NS, UserLevel, UserLevelOptions, scheduling_groups,
};
