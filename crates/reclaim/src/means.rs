//! The means by which memory can be taken here.

use crate::error::MemoryError;
use crate::group::Group;
use crate::processes::advice_works;
use std::path::Path;

/// The means by which memory can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryMeans {
    /// From cgroups, by `memory.reclaim`.
    Groups,
    /// From processes, by process_madvise(2).
    Processes,
}

impl std::fmt::Display for MemoryMeans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            MemoryMeans::Groups => "memory is taken from cgroups (memory.reclaim)",
            MemoryMeans::Processes => "memory is paged out of processes (process_madvise)",
        })
    }
}

/// Returns the means by which memory can be taken from clients under a cgroup; failing that (or without one), from
/// processes.
///
/// # Errors
/// When neither works: why not the latter. (It needs CAP_SYS_NICE.)
pub fn memory_means(top: Option<&Path>) -> Result<MemoryMeans, MemoryError> {
    let group = top.and_then(|top| Group::open(top).ok());
    if group.is_some_and(|group| group.can_reclaim()) {
        return Ok(MemoryMeans::Groups);
    }
    advice_works().map_err(MemoryError::NoAdvice)?;
    Ok(MemoryMeans::Processes)
}
