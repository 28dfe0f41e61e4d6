//! The CPUs that this process may use.

use crate::cpu_list::show_cpus;
use crate::error::ExperimentError;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::io;

/// Returns the CPUs that this process may run on, ascending.
pub fn allowed_cpus() -> Result<Vec<u32>, ExperimentError> {
    let set = sched_getaffinity(None)
        .map_err(io::Error::from)
        .map_err(ExperimentError::system("ask which CPUs can be used"))?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect())
}

/// Returns the CPUs asked for, or an error if one of them cannot be used.
pub(crate) fn usable(asked: &[u32]) -> Result<Vec<u32>, ExperimentError> {
    let allowed = allowed_cpus()?;
    if asked.is_empty() {
        return Err(ExperimentError::BadOption("--cpus names no CPU".to_owned()));
    }
    match asked.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(&cpu) => Err(ExperimentError::NoSuchCpu { cpu, allowed: show_cpus(&allowed) }),
        None => Ok(asked.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_are_not_there_are_refused() {
        let allowed = allowed_cpus().unwrap();
        assert_eq!(usable(&allowed).unwrap(), allowed);
        let missing = allowed.last().unwrap() + 1;
        let error = usable(&[missing]).unwrap_err();
        assert!(error.to_string().contains(&show_cpus(&allowed)), "{error}");
    }
}
