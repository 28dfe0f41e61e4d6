//! Notes on cgroups of ours where the processes in them were found, and how they get back there.

use observe::Hierarchy;
use std::io;
use std::path::Path;
use undo::cgroup::{Dissolved, move_back};

/// Attribute of a cgroup of ours: where the processes in it were found, to be moved back. On the cgroup itself, so that
/// it exists as long as the cgroup does, whoever dies, and holds for children that are forked in it.
const ORIGIN: &str = "trusted.allot.origin";
/// Most passes to remove a cgroup whose processes fork.
const PASSES: u32 = 100;

/// Notes on a cgroup where the processes in it were found.
pub(crate) fn set_origin(group: &Path, origin: &str) -> io::Result<()> {
    let flags = rustix::fs::XattrFlags::empty();
    Ok(rustix::fs::setxattr(group, ORIGIN, origin.as_bytes(), flags)?)
}

/// Reads where the processes in a cgroup were found.
pub(crate) fn origin(group: &Path) -> Option<String> {
    let mut buffer = vec![0; 4096];
    let length = rustix::fs::getxattr(group, ORIGIN, &mut buffer[..]).ok()?;
    buffer.truncate(length);
    String::from_utf8(buffer).ok()
}

/// Takes the processes of a cgroup and of those below it back to where they were found, and removes the cgroups.
///
/// # Errors
/// What stays, in words.
pub(crate) fn dissolve(tree: &Hierarchy, group: &Path) -> Result<Dissolved, String> {
    undo::cgroup::dissolve(tree, group, PASSES, |process, group| {
        let origin = origin(group).unwrap_or_else(|| "/".to_owned());
        move_back(process, tree, &origin)
    })
}
