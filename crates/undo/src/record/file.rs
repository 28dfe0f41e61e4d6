//! Files that are ours alone, and the boot that they belong to.

use rustix::fs::FlockOperation;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// Opens or makes a file that is ours alone.
///
/// # Errors
/// When it is a link, or others own or can reach it.
pub fn open_private(path: &Path) -> io::Result<File> {
    loop {
        // Not through a link that somebody else put there, and not readable by others.
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        // Nor one that somebody else made, or can reach: they could steer what is restored.
        let found = file.metadata()?;
        let ours = found.uid() == rustix::process::geteuid().as_raw();
        if !ours || found.nlink() > 1 || found.mode() & 0o077 != 0 {
            let what = "it is not ours alone (another owner, mode or link); remove it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        // Its last user removed it since it was opened: there is another now, or none.
        if found.nlink() == 1 {
            return Ok(file);
        }
    }
}

/// Waits for a file that a guardian at work still uses. The lock belongs to the open file, so a
/// guardian that inherited it keeps it.
pub(super) fn lock(file: &File) -> io::Result<()> {
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(100)),
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "in use by another allotd or its guardian"))
}

/// The id of this boot.
pub(crate) fn boot_id() -> io::Result<[u64; 2]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "no boot id"))?;
    Ok([(number >> 64) as u64, number as u64])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_others_can_reach_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("held");
        drop(open_private(&path).expect("a file of our own"));
        std::fs::hard_link(&path, dir.path().join("other")).expect("a link");
        assert!(open_private(&path).is_err(), "somebody else may have made the link");
        std::fs::remove_file(dir.path().join("other")).expect("removed");
        assert!(open_private(&path).is_ok());
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o660)).expect("a mode");
        assert!(open_private(&path).is_err(), "a group can write to it");
    }
}
