//! Where a process lives, besides whose it is: its login, its cgroup, its users.

use crate::error::ProcessError;
use crate::handle::ProcessHandle;
use std::fs;

/// The login, the cgroup and the user namespace of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The user who logged in, of the session that it descends from (audit(8) keeps it); `None`
    /// for what no login has started.
    pub login_uid: Option<u32>,
    /// Its cgroup of version 2; where that is the root, the longest path of version 1's hierarchies.
    pub cgroup: String,
    /// Whether it is in another user namespace than we are, where its uid can mean another user.
    pub has_own_users: bool,
}

impl ProcessHandle {
    /// Where it lives. What cannot be read is left out: a kernel without audit keeps no logins.
    ///
    /// # Errors
    /// [`ProcessError::Gone`] when it has exited.
    pub fn surroundings(&self) -> Result<Surroundings, ProcessError> {
        let pid = self.identity().pid;
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
        let login = read("loginuid").ok().and_then(|text| text.trim().parse().ok());
        // Which of our uids its uids are. Everybody may read that; a namespace that maps all of them to themselves has ours.
        let users = read("uid_map").ok();
        let own_users = fs::read_to_string("/proc/self/uid_map").ok();
        let surroundings = Surroundings {
            login_uid: login.filter(|uid| *uid != u32::MAX),
            cgroup: path_in_use(&read("cgroup").unwrap_or_default()),
            has_own_users: users.is_some() && own_users.is_some() && users != own_users,
        };
        // All that was read by number was its own if it lives now.
        if self.is_alive() { Ok(surroundings) } else { Err(ProcessError::Gone { pid }) }
    }
}

/// The path of cgroup v2 in /proc/PID/cgroup; where that is its root, the longest of version 1's.
pub(crate) fn path_in_use(text: &str) -> String {
    let paths = || text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let second = text.lines().find_map(|line| line.strip_prefix("0::"));
    let in_use = second.filter(|path| *path != "/").or_else(|| paths().max_by_key(|it| it.len()));
    in_use.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_that_is_in_use_says_where() {
        let hybrid = "12:cpu,cpuacct:/docker/12ab\n1:name=systemd:/docker/12ab\n0::/\n";
        assert_eq!(path_in_use(hybrid), "/docker/12ab");
        let beside = "4:memory:/a/longer/path/of/another\n0::/docker-12ab.scope\n";
        assert_eq!(path_in_use(beside), "/docker-12ab.scope");
        assert_eq!(path_in_use("0::/a:b/c\n"), "/a:b/c");
        assert_eq!(path_in_use(""), "");
    }

    #[test]
    fn a_process_of_ours_has_our_users() {
        let own = ProcessHandle::open(std::process::id()).expect("it is us");
        assert!(!own.surroundings().expect("it lives").has_own_users);
    }
}
