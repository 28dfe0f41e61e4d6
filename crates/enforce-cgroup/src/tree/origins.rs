//! Notes on cgroups of ours where the processes in them were found, and how they get back there.

use observe::{Hierarchy, ProcessHandle};
use std::io;
use std::path::{Path, PathBuf};
use undo::cgroup::{Dissolved, Moved, create, move_back, move_process};

/// Attribute of a cgroup of ours: where the processes in it were found, to be moved back. On the cgroup itself, so that
/// it exists as long as the cgroup does, whoever dies, and holds for children that are forked in it.
const ORIGIN: &str = "trusted.allot.origin";
/// The attribute of a cgroup that is a user's own.
const ORIGIN_OF_USER: &str = "user.allot.origin";
/// The cgroup for processes that cannot go back to where they were found, beside ours.
const REFUGE: &str = "rest";
/// Most passes to remove a cgroup whose processes fork.
const PASSES: u32 = 100;

/// Notes on a cgroup where the processes in it were found.
pub(crate) fn set_origin(group: &Path, origin: &str) -> io::Result<()> {
    let set = |name: &str| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(group, name, origin.as_bytes(), flags)
    };
    match set(ORIGIN) {
        Err(rustix::io::Errno::PERM) => Ok(set(ORIGIN_OF_USER)?),
        done => Ok(done?),
    }
}

/// Reads where the processes in a cgroup were found.
pub(crate) fn origin(group: &Path) -> Option<String> {
    let mut buffer = vec![0; 4096];
    let mut get = |name: &str| rustix::fs::getxattr(group, name, &mut buffer[..]).ok();
    let length = get(ORIGIN).or_else(|| get(ORIGIN_OF_USER))?;
    buffer.truncate(length);
    String::from_utf8(buffer).ok()
}

/// Returns the refuge beside a cgroup of ours; `None` at the root of the tree, from where everybody can go back.
pub(crate) fn refuge(tree: &Hierarchy, ours: &Path) -> Option<PathBuf> {
    let around = ours.parent().filter(|around| *around != tree.mount())?;
    Some(around.join(REFUGE))
}

/// Moves a process to where it was found; where that is refused, as for a user's process that was found in a session, to
/// the refuge.
///
/// # Errors
/// When the kernel refuses both.
pub(crate) fn bring_home(
    process: &ProcessHandle,
    tree: &Hierarchy,
    origin: &str,
    refuge: Option<&Path>,
) -> io::Result<Moved> {
    match (move_back(process, tree, origin), refuge) {
        (Err(_), Some(refuge)) => {
            create(refuge)?;
            move_process(process, tree, refuge)
        }
        (moved, _) => moved,
    }
}

/// Takes the processes of a cgroup and of those below it back to where they were found, and removes the cgroups.
///
/// # Errors
/// What stays, in words.
pub(crate) fn dissolve(
    tree: &Hierarchy,
    group: &Path,
    refuge: Option<&Path>,
) -> Result<Dissolved, String> {
    undo::cgroup::dissolve(tree, group, PASSES, |process, group| {
        let origin = origin(group).unwrap_or_else(|| "/".to_owned());
        bring_home(process, tree, &origin, refuge)
    })
}
