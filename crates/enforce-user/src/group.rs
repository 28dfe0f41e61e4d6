//! Scheduling groups: within which SCHED_IDLE and nice mean anything.
//!
//! With the cgroup CPU controller, and with autogroups (one a session, in the root cgroup), the
//! kernel first divides a CPU among groups and then among the members of each. A loser in
//! SCHED_IDLE that is alone in its group on a CPU still gets what its *group* is due there: a
//! half, beside one winner of another group.

use observe::Hierarchy;
use std::path::Path;

/// How the kernel groups processes here.
#[derive(Clone, Debug)]
pub(crate) struct Grouping {
    /// Where the unified cgroup tree is mounted, if it is.
    unified: Option<Hierarchy>,
}

/// Whether sessions are scheduled as groups.
fn autogroups_are_on() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled")
        .is_ok_and(|text| text.trim() == "1")
}

/// Whether the kernel schedules all processes here as one group, so that SCHED_IDLE means what
/// it says between any two of them; and in words what that comes to, for `allot doctor`.
pub fn scheduling_groups() -> (bool, String) {
    let children = Grouping::here()
        .unified
        .and_then(|tree| std::fs::read_to_string(tree.folder("cgroup.subtree_control")).ok());
    let controlled = children.is_some_and(|list| list.split_whitespace().any(|name| name == "cpu"));
    if controlled {
        let says = "the cgroup CPU controller is on, so losers are stopped, and not held in \
                    SCHED_IDLE, while no winner is of their cgroup";
        return (false, says.to_owned());
    }
    if autogroups_are_on() {
        let says = "each session is a scheduling group of its own (autogroup), so losers are \
                    stopped, and not held in SCHED_IDLE, while no winner is of their session; \
                    `sysctl kernel.sched_autogroup_enabled=0` makes them one group";
        return (false, says.to_owned());
    }
    (true, "all processes are one scheduling group".to_owned())
}

impl Grouping {
    /// Looks where the cgroup trees are.
    pub fn here() -> Grouping {
        Grouping { unified: Hierarchy::unified() }
    }

    /// The name of the scheduling group of a process: of its cgroup where that has the CPU
    /// controller, else of its autogroup; empty for the root group, and where it cannot be read.
    pub fn of(&self, pid: u32) -> String {
        let cgroups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let autogroup = || match std::fs::read_to_string(format!("/proc/{pid}/autogroup")) {
            Ok(line) if autogroups_are_on() => {
                line.split_whitespace().next().unwrap_or_default().to_owned()
            }
            _ => String::new(),
        };
        group_from(&cgroups, |path| self.has_cpu_controller(path)).unwrap_or_else(autogroup)
    }

    fn has_cpu_controller(&self, path: &str) -> bool {
        let Some(tree) = &self.unified else { return false };
        // A path that leads out of our cgroup namespace cannot be looked at: assume the worst.
        path.contains("..") || tree.folder(path).join("cpu.weight").exists()
    }
}

/// The cgroup that schedules the process, from its `/proc/<pid>/cgroup`; `None` for the root.
fn group_from(cgroups: &str, has_cpu_controller: impl Fn(&str) -> bool) -> Option<String> {
    for line in cgroups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if controllers.split(',').any(|controller| controller == "cpu") {
            return (path != "/").then(|| path.to_owned());
        }
        if number == "0" {
            // The controller may be on for an ancestor only: then that is the group.
            let group = Path::new(path)
                .ancestors()
                .filter_map(Path::to_str)
                .find(|ancestor| *ancestor != "/" && has_cpu_controller(ancestor));
            if let Some(group) = group {
                return Some(group.to_owned());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_that_schedules_is_the_nearest_with_the_controller() {
        let v1 = "4:memory:/x\n2:cpu,cpuacct:/jobs/a\n0::/user.slice\n";
        assert_eq!(group_from(v1, |_| true).as_deref(), Some("/jobs/a"));
        let root_of_v1 = "3:cpuset:/\n2:cpuacct:/\n1:cpu:/\n0::/user.slice\n";
        assert_eq!(group_from(root_of_v1, |_| true), None);
        let v2 = "0::/user.slice/user-1000.slice/session-2.scope\n";
        let slice = |path: &str| path == "/user.slice" || path == "/user.slice/user-1000.slice";
        assert_eq!(group_from(v2, slice).as_deref(), Some("/user.slice/user-1000.slice"));
        assert_eq!(group_from(v2, |_| false), None);
        assert_eq!(group_from("0::/\n", |_| true), None);
        assert_eq!(group_from("", |_| true), None);
    }

    #[test]
    fn a_session_of_its_own_is_a_group_of_its_own_where_sessions_are_groups() {
        use std::os::unix::process::CommandExt;
        let grouping = Grouping::here();
        let ours = grouping.of(std::process::id());
        if !ours.starts_with("/autogroup") {
            eprintln!("SKIP a_session_of_its_own_is_a_group_of_its_own: sessions are no groups");
            return;
        }
        let mut command = std::process::Command::new("sleep");
        command.arg("60");
        // SAFETY: setsid is safe between fork and exec.
        unsafe { command.pre_exec(|| Ok(nix::unistd::setsid().map(drop)?)) };
        let mut child = command.spawn().expect("sleep runs");
        let theirs = grouping.of(child.id());
        child.kill().expect("it lives");
        child.wait().expect("it is ours");
        assert_ne!(ours, theirs);
        assert!(theirs.starts_with("/autogroup"), "{theirs}");
    }
}
