//! What cgroups (v2) have used and waited for.
//!
//! 1. Time waited is the kernel's pressure stall information (Weiner 2018): for how long *some* task in
//!    the group, or below it, was stalled.
//! 2. What the kernel does not tell (`psi=0`, a controller that is off) is `None`, and no error.

use std::path::Path;

/// What a cgroup and all below it have used and waited for since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupAccount {
    /// CPU time used, in ns.
    pub run_ns: Option<u64>,
    /// Faults for which something was read.
    pub major_faults: Option<u64>,
    /// Time for which some task was ready and did not run, in ns.
    pub cpu_stalled_ns: Option<u64>,
    /// Time for which some task waited for disks, for memory's sake or not, in ns.
    pub io_stalled_ns: Option<u64>,
    /// Time for which some task waited for memory: reclaim, swap, files that were dropped too soon; in ns.
    pub memory_stalled_ns: Option<u64>,
    /// What was read of disks, in whole pages.
    pub read_pages: Option<u64>,
    /// Pages that were read of which the kernel remembers that it had taken them.
    pub refaulted_pages: Option<u64>,
    /// What it holds now of files and of its own, in pages.
    pub held_pages: Option<u64>,
}

impl CgroupAccount {
    /// Reads a cgroup by its directory; of one that is gone, nothing is known.
    pub fn read(directory: &Path) -> CgroupAccount {
        let read = |file: &str| std::fs::read_to_string(directory.join(file)).ok();
        let stalled = |file: &str| stalled_ns(&read(file)?);
        let page_bytes = rustix::param::page_size() as u64;
        let memory = read("memory.stat");
        let of_memory = |key: &str| number_of(memory.as_deref()?, key);
        let sum = |one: &str, other: &str| of_memory(one)?.checked_add(of_memory(other)?);
        CgroupAccount {
            run_ns: number_of(&read("cpu.stat").unwrap_or_default(), "usage_usec")
                .and_then(|us| us.checked_mul(1000)),
            major_faults: of_memory("pgmajfault"),
            cpu_stalled_ns: stalled("cpu.pressure"),
            io_stalled_ns: stalled("io.pressure"),
            memory_stalled_ns: stalled("memory.pressure"),
            read_pages: read("io.stat").map(|text| read_of(&text) / page_bytes),
            refaulted_pages: sum("workingset_refault_anon", "workingset_refault_file"),
            held_pages: sum("anon", "file").map(|bytes| bytes / page_bytes),
        }
    }
}

/// Of `io.stat`, a line a device: what was read of all, in bytes.
pub(crate) fn read_of(text: &str) -> u64 {
    let words = text.split_ascii_whitespace().filter_map(|word| word.strip_prefix("rbytes="));
    words.filter_map(|number| number.parse().ok()).fold(0, u64::saturating_add)
}

/// Of a pressure file: the time for which some task was stalled, in ns.
pub fn stalled_ns(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?;
    total.parse::<u64>().ok()?.checked_mul(1000)
}

/// Of a file with a key and a number on each line, such as `memory.stat`.
pub(crate) fn number_of(text: &str, key: &str) -> Option<u64> {
    let mut values =
        text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok());
    values.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_read() {
        let text = "some avg10=0.12 avg60=0.00 avg300=0.00 total=1234\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=999";
        assert_eq!(stalled_ns(text), Some(1_234_000));
        for wrong in
            ["", "full total=3", "some avg10=0.00", "some total=x", "some total=99999999999999999"]
        {
            assert_eq!(stalled_ns(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_there_is_is_read_and_the_rest_is_not_known() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(CgroupAccount::read(folder.path()), CgroupAccount::default());
        let put = |file: &str, text: &str| {
            std::fs::write(folder.path().join(file), text).expect("it is written");
        };
        put("cpu.stat", "usage_usec 12\nuser_usec 5\n");
        let page = rustix::param::page_size();
        put("memory.stat", &format!("anon {page}\nfile {page}\npgmajfault_x 9\npgmajfault 3\n"));
        put("io.stat", &format!("8:0 rbytes={page} rios=1\n8:16 \n254:0 rbytes={}\n", 2 * page));
        put("io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=6\n");
        let account = CgroupAccount::read(folder.path());
        assert_eq!((account.run_ns, account.major_faults), (Some(12_000), Some(3)));
        assert_eq!((account.io_stalled_ns, account.cpu_stalled_ns), (Some(6_000), None));
        assert_eq!((account.read_pages, account.held_pages), (Some(3), Some(2)));
        assert_eq!(account.refaulted_pages, None, "an older kernel");
        put("io.stat", "8:0 rbytes=18446744073709551615\n8:16 rbytes=1\n");
        let most = u64::MAX / page as u64;
        assert_eq!(CgroupAccount::read(folder.path()).read_pages, Some(most));
    }
}
