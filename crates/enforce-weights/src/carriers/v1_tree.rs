//! The tree of cgroup v1's CPU controller: which cgroups are ours, and what must not be left. Keeps no state.

use observe::{CgroupVersion, Hierarchy, ProcessHandle};
use rustix::thread::CapabilitySet;
use std::io;
use std::path::{Path, PathBuf};
use undo::cgroup::{Dissolved, Moved, read};
use undo::scheduling::count_calls;

/// System calls to open, use and close a file.
const CALLS_A_FILE: u64 = 4;
/// The `cpu.shares` of a cgroup of which nobody has said anything.
pub(crate) const SHARES_AS_MADE: u64 = 1024;
/// The names of our cgroups at the root of the tree begin so.
pub(crate) const PREFIX: &str = "allot-";
/// Most passes to remove a cgroup whose processes fork, at the end.
pub(crate) const PASSES: u32 = 200;

const VERSION: CgroupVersion = CgroupVersion::V1("cpu");

/// Returns the tree that is mounted, if any is.
pub(crate) fn mounted() -> Option<Hierarchy> {
    Hierarchy::among(&observe::mounts().unwrap_or_default(), VERSION)
}

/// Returns the tree that is mounted here.
pub(crate) fn at(mount: &Path) -> Hierarchy {
    Hierarchy::new(mount.to_owned(), VERSION)
}

/// Checks whether the tree can be used.
///
/// # Errors
/// Why not, in words.
pub(crate) fn available() -> Result<Hierarchy, String> {
    let Some(tree) = mounted() else {
        return Err("no cgroup v1 tree with the CPU controller is mounted".to_owned());
    };
    let mount = tree.mount();
    let may = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::DAC_OVERRIDE));
    let writable = rustix::fs::access(mount, rustix::fs::Access::WRITE_OK).is_ok();
    if observe::machine().is_systemd_running {
        return Err(format!("systemd owns the cgroup tree in {}", mount.display()));
    }
    match may && writable {
        true => Ok(tree),
        false => Err(format!("only root may use the cgroup tree in {}", mount.display())),
    }
}

/// Returns the cgroup of a process, from `/`; `None` when it is gone or out of sight.
pub(crate) fn cgroup_of(pid: u32) -> Option<String> {
    count_calls(CALLS_A_FILE);
    VERSION.cgroup_of(pid)
}

/// Returns whether a thread of a process is in another cgroup than this.
pub(crate) fn is_elsewhere(pid: u32, tid: u32, path: &str) -> bool {
    count_calls(CALLS_A_FILE);
    VERSION.cgroup_of_thread(pid, tid).is_some_and(|other| other != path)
}

/// Returns whether a cgroup path is one of ours, or below one.
pub(crate) fn is_ours(path: &str) -> bool {
    path.trim_start_matches('/').starts_with(PREFIX)
}

/// Returns whether a folder at the root of a tree is one of ours.
pub(crate) fn is_ours_at(folder: &Path) -> bool {
    folder.file_name().and_then(|name| name.to_str()).is_some_and(is_ours)
}

/// Lists the cgroups at the root of a tree whose names begin so.
pub(crate) fn named(tree: &Hierarchy, beginning: &str) -> Vec<PathBuf> {
    let has_name = |folder: &PathBuf| {
        let name = folder.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(beginning))
    };
    observe::cgroups_in(tree.mount()).into_iter().filter(has_name).collect()
}

/// Returns whether a process can leave a cgroup without leaving behind a setting that somebody made.
pub(crate) fn is_as_made(tree: &Hierarchy, path: &str) -> bool {
    let around = Path::new(path).ancestors().filter(|path| *path != Path::new("/"));
    around.filter_map(Path::to_str).all(|path| {
        let group = tree.folder(path);
        let is = |file: &str, value: &str| match read(&group, file) {
            Ok(text) => text == value,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        is("cpu.shares", &SHARES_AS_MADE.to_string())
            && is("cpu.cfs_quota_us", "-1")
            && is("cpu.idle", "0")
    })
}

/// Moves a process to where it was found, if it is still in a cgroup of ours; if that cgroup is gone, to the nearest
/// one around it. Returns whether it was moved.
pub(crate) fn move_back(
    process: &ProcessHandle,
    tree: &Hierarchy,
    origin: &str,
) -> io::Result<bool> {
    if !cgroup_of(process.identity().pid).is_some_and(|path| is_ours(&path)) {
        return Ok(false);
    }
    undo::cgroup::move_back(process, tree, origin).map(|moved| moved == Moved::There)
}

/// Takes the processes of a cgroup and of those below it back, and removes the cgroups. `origin` tells where those of a
/// cgroup were found; `passes` is how often it is tried while they fork.
///
/// # Errors
/// What stays, in words.
pub(crate) fn dissolve(
    tree: &Hierarchy,
    group: &Path,
    passes: u32,
    origin: impl Fn(&Path) -> String,
) -> Result<Dissolved, String> {
    undo::cgroup::dissolve(tree, group, passes, |process, group| {
        undo::cgroup::move_back(process, tree, &origin(group))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_cgroups_are_known_by_their_names() {
        assert!(is_ours("/allot-c3/c4") && !is_ours("/") && !is_ours("/docker/allot-c3"));
    }
}
