//! A client's waits for disks and memory. Readers, with their parsers.
//!
//! 1. A cgroup's waits: the time for which some task in it was stalled (`io.pressure`, `memory.pressure`; Weiner 2018).
//!    Where the kernel measures none (`psi=0`), requests (`io.stat`) and major faults (`memory.stat`) instead.
//! 2. Waits of a process in a cgroup that is not its own: the time for which it waited for disks where the kernel counts
//!    that (`kernel.task_delayacct`), else its major faults.

use crate::tree;
use disk::read_usage;
use observe::{ProcessHandle, ProcessWaits, stalled_ns};
use std::path::Path;

/// Waits up to some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    pub waited_ns: u64,
    /// Requests and faults of unknown duration.
    pub requests: u64,
}

impl Waits {
    /// Reads the waits of a cgroup and all below it.
    pub fn of_group(folder: &Path) -> Waits {
        let stalled = |file: &str| stalled_ns(&tree::read(folder, file).ok()?);
        if let (Some(io), Some(memory)) = (stalled("io.pressure"), stalled("memory.pressure")) {
            return Waits { waited_ns: io.saturating_add(memory), requests: 0 };
        }
        let usage = read_usage(folder).unwrap_or_default();
        let requests: u64 = usage.values().map(|usage| usage.requests()).sum();
        let faults = tree::read(folder, "memory.stat").ok();
        let faults = faults.and_then(|text| major_faults(&text)).unwrap_or(0);
        Waits { waited_ns: 0, requests: requests.saturating_add(faults) }
    }

    /// Reads the waits of a process; none of one that is gone.
    pub fn of_process(process: &ProcessHandle) -> Waits {
        let ProcessWaits { disk_ns, major_faults } = process.waits().unwrap_or_default();
        let requests = if disk_ns > 0 { 0 } else { major_faults };
        Waits { waited_ns: disk_ns, requests }
    }

    /// Returns the growth since `before`. A counter that decreased was reset.
    pub fn since(self, before: Waits) -> Waits {
        Waits {
            waited_ns: self.waited_ns.saturating_sub(before.waited_ns),
            requests: self.requests.saturating_sub(before.requests),
        }
    }

    pub fn add(&mut self, other: Waits) {
        self.waited_ns = self.waited_ns.saturating_add(other.waited_ns);
        self.requests = self.requests.saturating_add(other.requests);
    }
}

/// Parses a `memory.stat`.
fn major_faults(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("pgmajfault "))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read() {
        assert_eq!(major_faults("anon 4096\npgfault 7\npgmajfault 3\n"), Some(3));
        assert_eq!(major_faults("pgfault 7"), None);
    }

    #[test]
    fn a_cgroup_without_pressure_is_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |file: &str, text: &str| {
            std::fs::write(folder.path().join(file), text).expect("it is written");
        };
        assert_eq!(Waits::of_group(folder.path()), Waits::default());
        put("io.stat", "8:0 rbytes=4096 wbytes=0 rios=5 wios=2 dbytes=0 dios=0\n");
        put("memory.stat", "pgmajfault 3\n");
        assert_eq!(Waits::of_group(folder.path()), Waits { waited_ns: 0, requests: 10 });
        put("io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n");
        put("memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=6\n");
        let waits = Waits::of_group(folder.path());
        assert_eq!(waits, Waits { waited_ns: 11_000, requests: 0 });
        let before = Waits { waited_ns: 5_000, requests: 9 };
        assert_eq!(waits.since(before), Waits { waited_ns: 6_000, requests: 0 });
    }
}
