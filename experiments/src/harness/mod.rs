//! Runs on real processes: allotd, workers, control groups, disks, and what is measured of them.

pub(crate) mod cgroups;
pub(crate) mod context;
pub(crate) mod cpus;
pub(crate) mod daemon;
pub(crate) mod disk_client;
pub(crate) mod disk_rules;
pub(crate) mod disk_run;
mod disk_weights;
mod graph_ledger;
pub(crate) mod graph_part;
pub(crate) mod interrupt;
mod log_file;
mod machine;
pub(crate) mod memory_cgroup;
pub(crate) mod memory_trace;
pub(crate) mod memory_trial;
pub(crate) mod needs;
pub(crate) mod negotiators;
pub(crate) mod options;
mod process_tree;
pub(crate) mod progress;
pub(crate) mod slices;
pub(crate) mod test_disk;
pub(crate) mod trading_session;
pub(crate) mod trial_slice;
pub(crate) mod workers;
