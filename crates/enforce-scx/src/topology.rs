//! The CPUs that are there, and which of them share a last-level cache.

use crate::abi::{CPUS_MAX, DOMAINS_MAX};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// The CPUs that are online.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Topology {
    /// Every one with its domain, ascending.
    pub cpu_domain: Vec<(u32, u8)>,
    /// How many domains there are, at least one.
    pub domains: u32,
}

impl Topology {
    /// As the kernel shows it now.
    pub fn here() -> io::Result<Topology> {
        Self::below(Path::new("/sys/devices/system/cpu"))
    }

    fn below(directory: &Path) -> io::Result<Topology> {
        let online = parse_list(&std::fs::read_to_string(directory.join("online"))?);
        if online.is_empty() || online.iter().any(|cpu| *cpu as usize >= CPUS_MAX) {
            let what = format!("of the online CPUs, all must have numbers below {CPUS_MAX}");
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        let mut numbers = BTreeMap::new();
        let cpu_domain = online.into_iter().map(|cpu| {
            let cache = last_level_cache(&directory.join(format!("cpu{cpu}/cache")));
            let next = numbers.len() % DOMAINS_MAX;
            (cpu, *numbers.entry(cache).or_insert(next as u8))
        });
        let cpu_domain: Vec<(u32, u8)> = cpu_domain.collect();
        let domains = cpu_domain.iter().map(|(_, domain)| u32::from(*domain) + 1).max();
        Ok(Topology { domains: domains.unwrap_or(1), cpu_domain })
    }

    /// One more than the greatest number of a CPU.
    pub fn cpus_end(&self) -> u32 {
        self.cpu_domain.last().map_or(1, |(cpu, _)| cpu + 1)
    }

    /// How many there are.
    pub fn cpus(&self) -> usize {
        self.cpu_domain.len()
    }
}

/// Which CPUs share the greatest cache of this one; `None` where the kernel does not say.
fn last_level_cache(directory: &Path) -> Option<String> {
    let entries = std::fs::read_dir(directory).ok()?;
    let caches = entries.filter_map(|entry| {
        let cache = entry.ok()?.path();
        let read = |file| std::fs::read_to_string(cache.join(file)).ok();
        let level: u32 = read("level")?.trim().parse().ok()?;
        Some((level, read("shared_cpu_list")?))
    });
    caches.max().map(|(_, shared)| shared)
}

/// Numbers as in `0-3,8`; of a list that is too long, what shows it.
pub(crate) fn parse_list(text: &str) -> Vec<u32> {
    let parts = text.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse().ok()?)
    });
    parts.flatten().take(CPUS_MAX + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn machine(online: &str, caches: &[(u32, u32, &str)]) -> Topology {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("online"), online).unwrap();
        for (cpu, level, shared) in caches {
            let cache = directory.path().join(format!("cpu{cpu}/cache/index{level}"));
            fs::create_dir_all(&cache).unwrap();
            fs::write(cache.join("level"), format!("{level}\n")).unwrap();
            fs::write(cache.join("shared_cpu_list"), shared).unwrap();
        }
        Topology::below(directory.path()).unwrap()
    }

    #[test]
    fn more_cpus_than_there_can_be_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("online"), "0-4294967295").unwrap();
        assert!(Topology::below(directory.path()).is_err());
    }

    #[test]
    fn cpus_without_known_caches_are_one_domain() {
        let topology = machine("0-3\n", &[]);
        assert_eq!(topology.cpu_domain, [(0, 0), (1, 0), (2, 0), (3, 0)]);
        assert_eq!((topology.domains, topology.cpus_end(), topology.cpus()), (1, 4, 4));
    }

    #[test]
    fn the_last_level_counts_and_numbers_may_have_gaps() {
        let caches = [
            (0, 1, "0"),
            (0, 3, "0-1"),
            (1, 1, "1"),
            (1, 3, "0-1"),
            (4, 1, "4"),
            (4, 3, "4-5"),
            (5, 3, "4-5"),
        ];
        let topology = machine("0-1,4-5", &caches);
        assert_eq!(topology.cpu_domain, [(0, 0), (1, 0), (4, 1), (5, 1)]);
        assert_eq!((topology.domains, topology.cpus_end(), topology.cpus()), (2, 6, 4));
    }
}
