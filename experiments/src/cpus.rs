//! CPUs: which there are, and lists of them as in `0-1,3`.

use crate::ExperimentError;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// The CPUs that this process may run on, ascending.
pub fn allowed_cpus() -> Result<Vec<u32>, ExperimentError> {
    let set = sched_getaffinity(None)
        .map_err(io::Error::from)
        .map_err(ExperimentError::system("ask which CPUs can be used"))?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect())
}

/// Reads a list of CPUs such as `0-1,3`.
pub fn parse_cpus(text: &str) -> Result<Vec<u32>, ExperimentError> {
    let bad = || {
        ExperimentError::BadOption(format!("`{text}` is no list of CPUs; write one as in 0-1,3"))
    };
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.trim().parse().map_err(|_| bad())?;
        let last: u32 = last.trim().parse().map_err(|_| bad())?;
        if first > last || last as usize >= CpuSet::MAX_CPU {
            return Err(bad());
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// A list of CPUs as [`parse_cpus`] reads it.
pub fn show_cpus(cpus: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let show = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.iter().map(show).collect::<Vec<_>>().join(",")
}

/// Keep the calling thread to these CPUs.
pub(crate) fn pin_to(cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu as usize));
    Ok(sched_setaffinity(None, &set)?)
}

/// Those asked for, where they can all be used.
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
    fn lists_round_trip() {
        for (text, cpus) in [("0", vec![0]), ("0-2,5", vec![0, 1, 2, 5]), ("7,9", vec![7, 9])] {
            assert_eq!(parse_cpus(text).unwrap(), cpus);
            assert_eq!(show_cpus(&cpus), text);
        }
        for text in ["", "x", "3-1", "1,,2", "99999", "-1"] {
            assert!(parse_cpus(text).is_err(), "{text}");
        }
    }

    #[test]
    fn cpus_that_are_not_there_are_refused() {
        let allowed = allowed_cpus().unwrap();
        assert_eq!(usable(&allowed).unwrap(), allowed);
        let missing = allowed.last().unwrap() + 1;
        let error = usable(&[missing]).unwrap_err();
        assert!(error.to_string().contains(&show_cpus(&allowed)), "{error}");
    }
}
