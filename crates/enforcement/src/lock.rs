//! The lock by which there is one enforcing process for the records of an allotd.

use rustix::fs::FlockOperation;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Timeout of the wait for the enforcing process of an allotd that was killed: it gives everything back first.
const WAIT: Duration = Duration::from_secs(20);
/// Interval between two tries.
const RETRY: Duration = Duration::from_millis(20);

/// The lock. Its file is gone when it is dropped.
pub struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Takes the lock beside the records; waits for who has it.
    ///
    /// # Errors
    /// When the file is not ours alone, or somebody keeps it.
    pub fn take(records: &Path) -> io::Result<Lock> {
        let mut path = OsString::from(records);
        path.push(".lock");
        let path = PathBuf::from(path);
        let deadline = Instant::now() + WAIT;
        loop {
            let file = open(&path)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Who had it before has removed the file that we have locked.
                Ok(()) if !is_at(&file, &path) => {}
                Ok(()) => return Ok(Lock { path, _file: file }),
                Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                    std::thread::sleep(RETRY);
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let what = "the enforcing process of another allotd still uses it";
                    return Err(io::Error::new(io::ErrorKind::ResourceBusy, what));
                }
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn number_at(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|found| (found.dev(), found.ino())).ok()
}

fn open(path: &Path) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
    let found = file.metadata()?;
    if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o077 != 0 {
        let what = "it is not ours alone (another owner or mode); remove it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    Ok(file)
}

fn is_at(file: &File, path: &Path) -> bool {
    let own = file.metadata().map(|found| (found.dev(), found.ino())).ok();
    own.is_some() && own == number_at(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_waits_for_the_one_before_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().expect("a directory");
        let records = dir.path().join("held");
        let first = Lock::take(&records).expect("nobody has it");
        let successor = std::thread::spawn({
            let records = records.clone();
            move || Lock::take(&records).map(drop)
        });
        drop(first);
        successor.join().expect("no panic").expect("it is free now");
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
    }
}
