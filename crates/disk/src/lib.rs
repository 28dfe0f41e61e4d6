//! Disks: what carries a device's requests, and how it is brought to serve cgroups by their weights.
//!
//! - [`look`] says what a device is and what the kernel offers for it ([`DiskFacts`]).
//! - [`IoController::choose`] picks what enforces its weights, or says why nothing can ([`NoIoController`]).
//! - [`report`] puts both in words, with what no share can hold.
//! - [`prepare`] sets it up so that the ratio of weights is the ratio served. Everything that it
//!   changes is noted before ([`FoundDisk`], through [`Notes`]) and given back from that note.
//! - [`IoController::weigh`] and its like return the write for a cgroup; the owner of the cgroups does it.
//! - [`read_usage`] reads what a cgroup did.
//! - [`calibrate()`] measures a device for iocost; [`KeptDisks`] keeps what was measured.
//!
//! See docs/disk.md.

mod calibrate;
mod filesystem;
mod found;
mod io_controller;
mod iocost;
mod kept;
mod look;
mod needs;
mod place;
mod prepare;
mod report;
mod speed;
mod usage;
mod weight;

pub use calibrate::{
    CalibrateError, CalibrateOptions, LEAST_FILE_BYTES, calibrate, calibration_depth,
    calibration_folder, disk_of_folder,
};
pub use filesystem::{CgroupWriteback, FileSystem};
pub use found::{FoundDisk, GivenBack, Notes};
pub use io_controller::{IoController, NoIoController, NoIocost};
pub use iocost::{DeviceNumber, Model, NoDeviceNumber, Quality, Speed, line_of};
pub use kept::{DEFAULT_DISKS_FILE, KeptDisk, KeptDisks, KeptError};
pub use look::{BfqOffer, DiskFacts, NoDisk, Scheduler, look, look_in, names};
pub use place::Places;
pub use prepare::{PrepareError, PreparedDisk, prepare};
pub use report::{DiskReport, report};
pub use speed::{Load, NoSpeed, Rate, Run, STEADY_THOUSANDTHS, Window, speed};
pub use usage::{DiskUsage, read_usage, usage};
pub use weight::FileWrite;
