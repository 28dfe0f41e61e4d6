//! CPU time of a process with all its descendants, including those that have ended: paper 3's
//! `/bin/cat` lives too short to be asked itself.

use std::collections::BTreeSet;
use std::fs::read_to_string;

/// Returns the CPU time of a process, of the children that it has waited for, and of its living
/// descendants with theirs, in ns, to a tick (10 ms) for each living one. None where it has ended.
pub(crate) fn tree_cpu_ns(pid: u32) -> Option<u64> {
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
    let mut ticks = ticks(pid)?;
    for child in descendants(pid) {
        ticks += self::ticks(child).unwrap_or(0);
    }
    Some(ticks * tick_ns)
}

/// Returns the sum of fields 14 to 17 of /proc/PID/stat: user and system time, its own and that of
/// children it has waited for.
fn ticks(pid: u32) -> Option<u64> {
    let stat = read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold spaces and parentheses: count from the last one. Field 3 comes first.
    let fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    Some(fields.skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum())
}

/// Returns its children, their children, and so on.
fn descendants(pid: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut open = vec![pid];
    while let Some(parent) = open.pop() {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{parent}/task")) else { continue };
        for thread in threads.flatten() {
            let children = read_to_string(thread.path().join("children")).unwrap_or_default();
            let children = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
            open.extend(children.filter(|child| found.insert(*child)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn children_that_have_ended_count() {
        let own = std::process::id();
        let before = tree_cpu_ns(own).unwrap();
        let burn = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
        assert!(Command::new("sh").args(["-c", burn]).status().unwrap().success());
        assert!(tree_cpu_ns(own).unwrap() > before);
        assert!(tree_cpu_ns(u32::MAX).is_none());
    }
}
