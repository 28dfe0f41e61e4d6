//! Control groups with a limit of memory, and what cgroups say of memory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const MOUNT: &str = "/sys/fs/cgroup";

/// A control group with a limit, with one in it for each reader. Dropping it removes them.
pub(crate) struct LimitedGroup {
    base: PathBuf,
    top: PathBuf,
    disable: bool,
}

impl LimitedGroup {
    /// Makes the group with the limit.
    pub fn make(base: &Path, limit_bytes: u64) -> io::Result<LimitedGroup> {
        let enabled = fs::read_to_string(base.join("cgroup.subtree_control"))?;
        let disable = !enabled.split_whitespace().any(|name| name == "memory");
        fs::write(base.join("cgroup.subtree_control"), "+memory")?;
        let top = base.join(format!("allot-exp-{}-memory", std::process::id()));
        let fence = LimitedGroup { base: base.to_owned(), top, disable };
        fs::create_dir(&fence.top)?;
        fs::write(fence.top.join("cgroup.subtree_control"), "+memory")?;
        fs::write(fence.top.join("memory.max"), limit_bytes.to_string())?;
        Ok(fence)
    }

    /// Moves a process into a group of its own. Returns the group.
    pub fn put(&self, name: &str, pid: u32) -> io::Result<PathBuf> {
        let group = self.top.join(format!("of-{name}"));
        fs::create_dir(&group)?;
        fs::write(group.join("cgroup.procs"), pid.to_string())?;
        Ok(group)
    }
}

impl Drop for LimitedGroup {
    fn drop(&mut self) {
        // The processes have ended by now; failures leave empty groups.
        let groups = fs::read_dir(&self.top).into_iter().flatten().flatten();
        for group in groups.filter(|entry| entry.path().is_dir()) {
            let _ = fs::remove_dir(group.path());
        }
        let _ = fs::remove_dir(&self.top);
        if self.disable {
            let _ = fs::write(self.base.join("cgroup.subtree_control"), "-memory");
        }
    }
}

/// Returns the cgroup of a process.
pub(crate) fn group_of(pid: u32) -> Option<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(Path::new(MOUNT).join(path.trim_start_matches('/')))
}

/// Reads a number from a file of a cgroup.
pub(crate) fn number(group: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(group.join(file)).ok()?.trim_end().parse().ok()
}

/// Returns the memory that a cgroup holds, in bytes.
pub(crate) fn held(group: &Path) -> u64 {
    number(group, "memory.current").unwrap_or(0)
}

/// Returns the pages that a cgroup needed again.
pub(crate) fn refaults(group: &Path) -> u64 {
    let text = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let counts = text.lines().filter(|line| line.starts_with("workingset_refault_"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}
