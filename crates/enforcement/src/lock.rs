//! The lock by which there is one enforcing process for the records of an allotd.

use rustix::fs::FlockOperation;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use undo::record::open_private;

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
            let file = open_private(&path)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Its last user has removed the file that we have locked.
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

fn is_at(file: &File, path: &Path) -> bool {
    let own = file.metadata().map(|found| (found.dev(), found.ino())).ok();
    own.is_some() && own == number_at(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_a_second_name_is_not_used() {
        let dir = tempfile::tempdir().expect("a directory");
        let records = dir.path().join("held");
        drop(open_private(&dir.path().join("other")).expect("a file of our own"));
        std::fs::hard_link(dir.path().join("other"), dir.path().join("held.lock")).expect("a link");
        assert!(Lock::take(&records).is_err(), "somebody else may have made the link");
    }

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
