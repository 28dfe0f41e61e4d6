//! The cgroup v2 enforcer: the CPU, memory and disks shared out by settings of cgroups, from valuation.
//!
//! Where nobody else owns the cgroup tree, every client gets a cgroup of its own, nested as the funding is where that is
//! a tree. Where systemd owns it, nobody is moved: its units get weights. See docs/cgroup.md for what that can and cannot
//! do.

mod answers;
mod cgroups;
mod controllers;
mod handle;
mod options;
mod placement;
mod record;
mod registration;
mod root;
mod state;
mod systemd;
mod tree;

pub use controllers::{DiskOptions, MemoryOptions};
pub use handle::Cgroup;
pub use options::{CGROUP_PERIOD_NS, CgroupOptions, DEFAULT_CGROUP_PERIOD_NS, PeriodOutOfRange};
pub use record::{CGROUPS_REMOVED, CgroupRestorer, PROCESSES_MOVED, SETTINGS_RESTORED};
pub use registration::REGISTRATION;
pub use root::{CgroupOwner, CgroupRoot, NoCgroup, available, available_for, available_to_user};
