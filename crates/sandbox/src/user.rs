//! The user that a process becomes, and the files that become that user's.

use nix::unistd::{Gid, Uid};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::thread::CapabilitySet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// A user that a process can become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// Its number.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// Why there is no such user.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// The system knows none of this name.
    #[error("there is no user `{0}`")]
    Unknown(String),
    /// The system could not be asked.
    #[error("the user `{0}` cannot be looked up")]
    Names(String, #[source] io::Error),
}

impl User {
    /// The user of a name, or of a number.
    ///
    /// # Errors
    /// When there is none.
    pub fn of(name: &str) -> Result<User, UserError> {
        let asked = |errno: nix::Error| UserError::Names(name.to_owned(), errno.into());
        let by_number = name.parse().ok().map(Uid::from_raw);
        let found = match by_number {
            Some(uid) => nix::unistd::User::from_uid(uid),
            None => nix::unistd::User::from_name(name),
        };
        match (found.map_err(asked)?, by_number) {
            (Some(user), _) => Ok(User { uid: user.uid.as_raw(), gid: user.gid.as_raw() }),
            (None, Some(uid)) => Ok(User { uid: uid.as_raw(), gid: uid.as_raw() }),
            (None, None) => Err(UserError::Unknown(name.to_owned())),
        }
    }

    /// Has the whole process become this user, in no other group, with these capabilities at most.
    ///
    /// # Errors
    /// When the kernel refuses: then the process may be half changed and must end.
    pub fn become_for_good(self, kept: CapabilitySet) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        rustix::thread::set_keep_capabilities(true)?;
        nix::unistd::setgroups(&[])?;
        nix::unistd::setresgid(gid, gid, gid)?;
        nix::unistd::setresuid(uid, uid, uid)?;
        rustix::thread::set_keep_capabilities(false)?;
        let permitted = rustix::thread::capabilities(None)?.permitted;
        // The change of user has emptied the effective set: some are needed to give up the others.
        let all = rustix::thread::CapabilitySets {
            effective: permitted,
            permitted,
            inheritable: CapabilitySet::empty(),
        };
        rustix::thread::set_capabilities(None, all)?;
        crate::capabilities::keep(kept)
    }
}

/// Makes a directory of ours, and all files and directories in it that are ours, a user's. Follows no link, and leaves
/// what others own, what has several names, and what is no plain file.
///
/// # Errors
/// When the directory cannot be read, or the kernel refuses.
pub fn hand_over(directory: &Path, to: User) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match rustix::fs::open(directory, flags, Mode::empty()) {
        // It is that user's already, and root without CAP_DAC_OVERRIDE may not look into it: nothing in it is ours.
        Err(rustix::io::Errno::ACCESS)
            if rustix::fs::lstat(directory).is_ok_and(|found| found.st_uid == to.uid) =>
        {
            return Ok(());
        }
        opened => opened?,
    };
    let ours = rustix::process::geteuid().as_raw();
    hand_over_opened(opened.as_fd(), ours, to, DEPTH_MAX)
}

/// Maximum depth of directories in a state directory.
const DEPTH_MAX: u32 = 4;

fn hand_over_opened(directory: BorrowedFd<'_>, ours: u32, to: User, depth: u32) -> io::Result<()> {
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(opened) = rustix::fs::openat(directory, name, flags, Mode::empty()) else {
            continue;
        };
        let found = rustix::fs::fstat(&opened)?;
        if found.st_uid != ours {
            continue;
        }
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile if found.st_nlink == 1 => give(&opened, to)?,
            FileType::Directory if depth > 0 => {
                let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let below = rustix::fs::openat(directory, name, flags, Mode::empty())?;
                hand_over_opened(below.as_fd(), ours, to, depth - 1)?;
            }
            _ => {}
        }
    }
    let found = rustix::fs::fstat(directory)?;
    if found.st_uid == ours {
        let (uid, gid) = ids(to);
        rustix::fs::fchown(directory, uid, gid)?;
    }
    Ok(())
}

fn ids(user: User) -> (Option<rustix::fs::Uid>, Option<rustix::fs::Gid>) {
    (Some(rustix::fs::Uid::from_raw(user.uid)), Some(rustix::fs::Gid::from_raw(user.gid)))
}

fn give(file: &OwnedFd, to: User) -> io::Result<()> {
    let (uid, gid) = ids(to);
    Ok(rustix::fs::chownat(file, c"", uid, gid, AtFlags::EMPTY_PATH)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn users_have_names_and_numbers() {
        let root = User::of("root").expect("every system has it");
        assert_eq!((root, User::of("0").expect("the same")), (User { uid: 0, gid: 0 }, root));
        let unknown = User::of("4000000000").expect("a number will do");
        assert_eq!((unknown.uid, unknown.gid), (4_000_000_000, 4_000_000_000));
        assert!(matches!(User::of("no such user"), Err(UserError::Unknown(_))));
    }

    #[test]
    fn only_what_is_ours_alone_is_handed_over() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIP only_what_is_ours_alone_is_handed_over: needs root");
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let (state, outside) = (dir.path().join("state"), dir.path().join("outside"));
        std::fs::create_dir_all(state.join("audit")).expect("made");
        for file in ["state/plain", "state/audit/plain", "outside", "state/others"] {
            std::fs::write(dir.path().join(file), "").expect("written");
        }
        std::os::unix::fs::chown(state.join("others"), Some(64_002), None).expect("root may");
        symlink(&outside, state.join("link")).expect("a link");
        std::fs::hard_link(&outside, state.join("second-name")).expect("a link");
        hand_over(&state, User { uid: 64_001, gid: 64_001 }).expect("handed over");
        let owner = |path: &Path| std::fs::symlink_metadata(path).expect("there").uid();
        for (path, uid) in [
            ("state", 64_001),
            ("state/plain", 64_001),
            ("state/audit", 64_001),
            ("state/audit/plain", 64_001),
            ("state/others", 64_002),
            ("state/link", 0),
            ("outside", 0),
        ] {
            assert_eq!(owner(&dir.path().join(path)), uid, "{path}");
        }
    }
}
