//! Units of systemd, where it owns the cgroup tree: nobody is moved, units get weights and shares instead. A user's manager
//! gives a scope away, in which cgroups are ours.

mod units;
mod user_scope;

#[cfg(feature = "systemd")]
mod bus;
#[cfg(not(feature = "systemd"))]
#[path = "no_bus.rs"]
mod bus;

pub(crate) use bus::{BusError, Manager};
pub(crate) use units::{UNIT_EVERY_NS, UNSET, unit_name, units_of};
pub(crate) use user_scope::{UserScope, connect_user};
