//! Room in the `-wal` that is reserved in advance: a disk that others fill leaves allotd what it needs to go on for a
//! while, and the last of it to what happens to processes and to the superuser.
//!
//! Blocks are allocated beyond the end of the `-wal` (`fallocate`), and it is written from its beginning again and never
//! cut while the journal is open, so nobody else can have them. SQLite's `SQLITE_FCNTL_CHUNK_SIZE` does the like for the
//! database alone, to which nothing is written before it is folded in; a ballast file that is deleted when the disk is
//! full leaves its blocks to whoever is first.

use crate::store;
use rusqlite::{Connection, ErrorCode};
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use std::fs::OpenOptions;
use std::path::Path;
use std::time::{Duration, Instant};

/// From a `-wal` that could not be folded in to the next try.
const RETRY: Duration = Duration::from_secs(1);

/// The `-wal`'s use of its room.
#[derive(Debug)]
pub(crate) struct Room {
    /// Above this it is folded into the database.
    fold_bytes: u64,
    /// Blocks that it has in any case.
    reserve_bytes: u64,
    /// When it could not be folded in for want of room in the database, last.
    lacking: Option<Instant>,
}

impl Room {
    pub(crate) fn new(fold_bytes: u64, reserve_bytes: u64) -> Room {
        Room { fold_bytes, reserve_bytes, lacking: None }
    }

    /// Allocates the reserve, where the disk has as much again to spare. Without it a full disk refuses everything at once.
    pub(crate) fn reserve(&self, wal: &Path) -> Result<(), String> {
        let allocate = || {
            let file = OpenOptions::new().write(true).open(wal)?;
            let disk = fstatvfs(&file)?;
            let has = std::os::unix::fs::MetadataExt::blocks(&file.metadata()?) * 512;
            if has < self.reserve_bytes {
                if disk.f_bavail * disk.f_frsize < 2 * (self.reserve_bytes - has) {
                    return Err(std::io::ErrorKind::StorageFull.into());
                }
                fallocate(&file, FallocateFlags::KEEP_SIZE, 0, self.reserve_bytes)?;
            }
            Ok(())
        };
        let done: std::io::Result<()> = allocate();
        done.map_err(|error| format!("{}: {} bytes: {error}", wal.display(), self.reserve_bytes))
    }

    /// Whether all but the reserve is used up.
    pub(crate) fn is_lacking(&self) -> bool {
        self.lacking.is_some()
    }

    /// Folds the `-wal` into the database where it is large, unless that failed a moment ago.
    ///
    /// # Errors
    /// Any failure but a want of room, which is remembered.
    pub(crate) fn fold(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let now = Instant::now();
        if self.lacking.is_some_and(|since| now.duration_since(since) < RETRY) {
            return Ok(());
        }
        if store::wal_bytes(connection)? <= self.fold_bytes {
            return Ok(());
        }
        self.lacking = match store::restart(connection) {
            Ok(()) => None,
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => Some(now),
            Err(error) => return Err(error),
        };
        Ok(())
    }
}
