//! The processes that an experiment starts: their specification, their main function, and every
//! kind of work that they do.

pub(crate) mod arithmetic;
mod background;
pub(crate) mod c_project;
pub(crate) mod clock;
pub(crate) mod database;
pub(crate) mod disk;
pub(crate) mod interactive;
#[cfg(feature = "lmdb")]
mod lmdb;
pub(crate) mod locks;
pub(crate) mod memory;
pub(crate) mod notes;
pub(crate) mod page;
pub(crate) mod process;
pub(crate) mod spec;
pub(crate) mod work;
