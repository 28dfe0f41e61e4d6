//! One controller for each resource: each follows plans, watches who competes, and repairs what drifted.

mod controller;
mod cpu;
mod disk;
mod io_max;
mod limits;
mod memory;

pub(crate) use self::disk::DiskController;
pub(crate) use controller::{Check, Context, Controller};
pub(crate) use cpu::CpuController;
pub(crate) use limits::LimitsController;
pub(crate) use memory::MemoryController;

pub use self::disk::DiskOptions;
pub use memory::MemoryOptions;
