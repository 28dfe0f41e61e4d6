//! What this machine is and offers, for `allot doctor` and for reports.

use crate::mountinfo::mounts;
use serde::Serialize;
use std::path::Path;

/// What this machine is and offers. Each part that cannot be read is `None` or empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MachineFacts {
    /// Release of the running kernel, as `uname -r` prints it.
    pub kernel_release: String,
    /// `PRETTY_NAME` of os-release(5).
    pub os_pretty_name: Option<String>,
    /// Identity of this boot: process identities are valid within one.
    pub boot_id: Option<String>,
    /// Processors that are online.
    pub cpus_online: usize,
    /// Processors that we may run on (affinity mask), ascending.
    pub cpus_allowed: Vec<usize>,
    /// Memory of the machine, in bytes.
    pub memory_total_bytes: Option<u64>,
    /// Clock ticks a second, the unit of process start times.
    pub clock_ticks_per_second: u64,
    /// True when the kernel can load a scheduler (`/sys/kernel/sched_ext` exists).
    pub has_sched_ext: bool,
    /// How the cgroup tree is laid out.
    pub cgroup: CgroupLayout,
    /// True when systemd is the init (see sd_booted(3)), and so owns the cgroup tree.
    pub is_systemd_running: bool,
}

/// How the cgroup tree is laid out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "version")]
pub enum CgroupLayout {
    /// Nothing is mounted.
    None,
    /// One tree for all controllers.
    V2 {
        /// Where the tree is mounted.
        mount: String,
        /// Controllers that it offers at its root.
        controllers: Vec<String>,
    },
    /// A tree for each controller.
    V1 {
        /// Controllers that have a tree.
        controllers: Vec<String>,
    },
    /// Trees of both kinds.
    Hybrid {
        /// Where the version 2 tree is mounted.
        mount: String,
        /// Controllers that the version 2 tree offers.
        controllers: Vec<String>,
        /// Controllers that have a version 1 tree.
        v1_controllers: Vec<String>,
    },
}

/// Looks at the machine now.
pub fn machine() -> MachineFacts {
    let uname = rustix::system::uname();
    MachineFacts {
        kernel_release: uname.release().to_string_lossy().into_owned(),
        os_pretty_name: os_pretty_name(),
        boot_id: first_line("/proc/sys/kernel/random/boot_id"),
        cpus_online: first_line("/sys/devices/system/cpu/online")
            .and_then(|ranges| count_of_ranges(&ranges))
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
        cpus_allowed: cpus_allowed(),
        memory_total_bytes: std::fs::read_to_string("/proc/meminfo")
            .ok()
            .and_then(|text| memory_total_bytes(&text)),
        clock_ticks_per_second: rustix::param::clock_ticks_per_second(),
        has_sched_ext: Path::new("/sys/kernel/sched_ext").exists(),
        cgroup: cgroup_layout(),
        is_systemd_running: Path::new("/run/systemd/system").is_dir(),
    }
}

pub(crate) fn memory_total_bytes(meminfo: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    total.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

fn first_line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

fn os_pretty_name() -> Option<String> {
    let text = ["/etc/os-release", "/usr/lib/os-release"]
        .into_iter()
        .find_map(|path| std::fs::read_to_string(path).ok())?;
    pretty_name(&text)
}

pub(crate) fn pretty_name(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?.trim();
    let unquoted = ['"', '\'']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(value);
    Some(unquoted.replace('\\', ""))
}

/// How many numbers a list such as `0-3,5` names.
pub(crate) fn count_of_ranges(ranges: &str) -> Option<usize> {
    let mut count = 0_usize;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

fn cpus_allowed() -> Vec<usize> {
    let Ok(mask) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| mask.is_set(*cpu)).collect()
}

fn cgroup_layout() -> CgroupLayout {
    let Ok(mounts) = mounts() else { return CgroupLayout::None };
    let mut v2_mount: Option<String> = None;
    let mut v1_controllers = Vec::new();
    for mount in mounts {
        match mount.kind.as_str() {
            "cgroup2" => {
                let path = mount.mount_point.to_string_lossy().into_owned();
                // The standard place before any other (a container's, a test's).
                if v2_mount.is_none() || path == "/sys/fs/cgroup" {
                    v2_mount = Some(path);
                }
            }
            "cgroup" => v1_controllers.extend(
                mount.options.into_iter().filter(|(_, value)| value.is_none()).map(|it| it.0),
            ),
            _ => {}
        }
    }
    // What is left of the options of a version 1 tree besides its controllers.
    const NOT_CONTROLLERS: [&str; 5] = ["rw", "ro", "xattr", "clone_children", "none"];
    v1_controllers.retain(|option| !NOT_CONTROLLERS.contains(&option.as_str()));
    v1_controllers.sort_unstable();
    v1_controllers.dedup();
    let controllers = v2_mount
        .as_ref()
        .and_then(|mount| first_line(&format!("{mount}/cgroup.controllers")))
        .map(|line| line.split_ascii_whitespace().map(str::to_owned).collect())
        .unwrap_or_default();
    match (v2_mount, v1_controllers.is_empty()) {
        (None, true) => CgroupLayout::None,
        (None, false) => CgroupLayout::V1 { controllers: v1_controllers },
        (Some(mount), true) => CgroupLayout::V2 { mount, controllers },
        (Some(mount), false) => CgroupLayout::Hybrid { mount, controllers, v1_controllers },
    }
}

/// Now, in the unit of processes' start times.
pub fn ticks_since_boot() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let ticks = rustix::param::clock_ticks_per_second();
    now.tv_sec as u64 * ticks + now.tv_nsec as u64 * ticks / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_counted() {
        assert_eq!(count_of_ranges("0"), Some(1));
        assert_eq!(count_of_ranges("0-3,5,8-9"), Some(7));
        assert_eq!(count_of_ranges("3-1"), None);
        assert_eq!(count_of_ranges(""), None);
        assert_eq!(count_of_ranges("0-18446744073709551615"), None);
        assert_eq!(count_of_ranges("0-18446744073709551614,5"), None);
    }

    #[test]
    fn memory_is_counted_in_bytes() {
        assert_eq!(memory_total_bytes("MemTotal:       16 kB\nMemFree: 1 kB\n"), Some(16_384));
        assert_eq!(memory_total_bytes("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn names_lose_their_quotes() {
        assert_eq!(
            pretty_name("ID=debian\nPRETTY_NAME=\"Debian \\\"x\\\" 12\"\n").as_deref(),
            Some("Debian \"x\" 12")
        );
        assert_eq!(pretty_name("PRETTY_NAME=Arch\n").as_deref(), Some("Arch"));
        assert_eq!(pretty_name("ID=x\n"), None);
    }
}
