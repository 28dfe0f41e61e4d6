//! Units of systemd, where it owns the cgroup tree: nobody is moved, units get weights and shares instead.

mod units;

#[cfg(feature = "systemd")]
mod bus;
#[cfg(not(feature = "systemd"))]
#[path = "no_bus.rs"]
mod bus;

pub(crate) use bus::{BusError, Manager};
pub(crate) use units::{UNIT_EVERY_NS, UNSET, unit_name, units_of};
