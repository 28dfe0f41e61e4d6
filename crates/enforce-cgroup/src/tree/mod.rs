//! Settings of cgroups, and notes on them where their processes were found. Keeps no state.

mod files;
mod origins;

pub(crate) use files::{and_around, controls_children, is_as_made, usage_ns, weight};
pub(crate) use observe::{cgroup_of, cgroups_in, cgroups_inner_first, processes_in};
pub(crate) use origins::{bring_home, dissolve, origin, refuge, set_origin};
pub(crate) use undo::cgroup::{Moved, create, move_process, read, write};
