//! One negotiator for a client: two would undo and double each other's trades.
//!
//! It is a lock on a file of the caller's own, so it ends with its process. It keeps a user from
//! mistakes, not from others: a user with the right to trade for a client can do so in many ways.

use command_line::users::own_uid;
use rustix::fs::OFlags;
use std::fs::{DirBuilder, File, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The lock, held until it is dropped.
#[derive(Debug)]
pub struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a child that has not reached its exec yet holds the file too.
        let _ = self.0.unlock();
    }
}

/// Takes the lock on a client of the allotd at a socket.
///
/// # Errors
/// When another negotiator holds it, or there is no place for its file.
pub fn take(socket: &Path, client: u64) -> Result<Lock, String> {
    let own = wire::private_socket();
    let directory = own.parent().ok_or("there is no directory for a lock")?;
    take_in(directory, socket, client)
}

fn take_in(directory: &Path, socket: &Path, client: u64) -> Result<Lock, String> {
    let failed = |error: std::io::Error| format!("no lock in {}: {error}", directory.display());
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    let found = std::fs::symlink_metadata(directory).map_err(failed)?;
    if !found.is_dir() || found.uid() != own_uid() {
        return Err(format!("no lock: {} is not a directory of your own", directory.display()));
    }
    let mut hash = DefaultHasher::new();
    socket.hash(&mut hash);
    let path = directory.join(format!("negotiate-{:016x}-{client}", hash.finish()));
    let nofollow = OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = File::options();
    let options = options.create(true).truncate(false).write(true);
    let file = options.mode(0o600).custom_flags(nofollow).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => {
            Err("another of your negotiators trades for it".to_owned())
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_for_a_client() {
        let dir = tempfile::tempdir().expect("a directory");
        let directory = dir.path().join("allot");
        let take = |socket: &str, client| take_in(&directory, Path::new(socket), client);
        let first = take("/a", 1).expect("free");
        assert!(take("/a", 1).expect_err("taken").contains("another"));
        take("/a", 2).expect("another client");
        take("/b", 1).expect("another allotd");
        drop(first);
        take("/a", 1).expect("free again");
    }
}
