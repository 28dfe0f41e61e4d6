//! One directory `/proc/<pid>`, held open.
//!
//! An open directory of `/proc/<pid>` stays with the process that it was opened for: once that
//! process has been reaped every read fails with ESRCH, and never shows a later process with
//! the same number. So what is read through one [`ProcDir`] is all of one process.

use crate::error::ProcessError;
use crate::stat::Stat;
use identity::ProcessIdentity;
use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Longest `stat` line that is expected: 52 numbers of at most 20 digits and a name.
pub(crate) const STAT_BYTES: usize = 1200;
/// `status` is some 1500 bytes; the list of groups may hold 65536 numbers, which stand after
/// the ids, so more is never needed.
const STATUS_BYTES: usize = 4096;

pub(crate) struct ProcDir {
    pid: u32,
    directory: OwnedFd,
}

impl ProcDir {
    /// Opens the directory of whatever process has this pid now.
    pub fn open(pid: u32) -> Result<Self, ProcessError> {
        let directory = rustix::fs::open(
            format!("/proc/{pid}"),
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(|errno| ProcessError::from_errno(pid, "open /proc/<pid>", errno))?;
        Ok(Self { pid, directory })
    }

    /// Opens the directory of this very process.
    ///
    /// # Errors
    /// [`ProcessError::Reused`] when the pid belongs to another process now.
    pub fn open_identity(identity: ProcessIdentity) -> Result<Self, ProcessError> {
        let directory = Self::open(identity.pid)?;
        let found_start_time_ticks = directory.stat(|stat| stat.start_time_ticks)?;
        if found_start_time_ticks != identity.start_time_ticks {
            return Err(ProcessError::Reused { expected: identity, found_start_time_ticks });
        }
        Ok(directory)
    }

    /// Opens a file below the directory for reading.
    pub fn open_file(&self, file: &'static str) -> Result<OwnedFd, ProcessError> {
        self.open_path(file, file, OFlags::empty())
    }

    /// Opens a directory below the directory.
    pub fn open_directory(&self, file: &'static str) -> Result<OwnedFd, ProcessError> {
        self.open_path(file, file, OFlags::DIRECTORY)
    }

    fn open_path(
        &self,
        path: &str,
        what: &'static str,
        more: OFlags,
    ) -> Result<OwnedFd, ProcessError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | more;
        rustix::fs::openat(&self.directory, path, flags, Mode::empty())
            .map_err(|errno| ProcessError::from_errno(self.pid, what, errno))
    }

    /// Reads at most `limit` bytes of a file below the directory.
    pub fn read(&self, file: &'static str, limit: usize) -> Result<Vec<u8>, ProcessError> {
        let opened = self.open_file(file)?;
        let mut buffer = vec![0; limit];
        let mut filled = 0;
        while filled < limit {
            let count = read_at(opened.as_fd(), &mut buffer[filled..], filled as u64)
                .map_err(|errno| ProcessError::from_errno(self.pid, file, errno))?;
            if count == 0 {
                break;
            }
            filled += count;
        }
        buffer.truncate(filled);
        Ok(buffer)
    }

    /// Reads and parses `stat`.
    pub fn stat<T>(&self, take: impl FnOnce(Stat<'_>) -> T) -> Result<T, ProcessError> {
        let line = self.read("stat", STAT_BYTES)?;
        let stat =
            Stat::parse(&line).ok_or(ProcessError::Malformed { pid: self.pid, file: "stat" })?;
        Ok(take(stat))
    }

    /// Real and effective uid, then real and effective gid.
    pub fn ids(&self) -> Result<[u32; 4], ProcessError> {
        let status = self.read("status", STATUS_BYTES)?;
        ids_of(&status).ok_or(ProcessError::Malformed { pid: self.pid, file: "status" })
    }

    /// The process that a thread belongs to (a leader's: its own number).
    pub fn thread_group(&self) -> Result<u32, ProcessError> {
        let status = self.read("status", STATUS_BYTES)?;
        thread_group_of(&status).ok_or(ProcessError::Malformed { pid: self.pid, file: "status" })
    }

    /// Device and inode of the program that the process runs; `None` where there is none (a
    /// kernel thread, a zombie) or where we may not look.
    pub fn program(&self) -> Option<(u64, u64)> {
        let stat = rustix::fs::statat(&self.directory, "exe", rustix::fs::AtFlags::empty()).ok()?;
        Some((stat.st_dev, stat.st_ino))
    }
}

/// Of a `status`: real and effective uid, then real and effective gid.
pub(crate) fn ids_of(status: &[u8]) -> Option<[u32; 4]> {
    let pair = |key| -> Option<[u32; 2]> {
        let mut numbers = line_of(status, key)?.split_ascii_whitespace();
        Some([numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?])
    };
    let ([real_uid, effective_uid], [real_gid, effective_gid]) = (pair("Uid:")?, pair("Gid:")?);
    Some([real_uid, effective_uid, real_gid, effective_gid])
}

/// Of a `status`: the process that a thread belongs to.
pub(crate) fn thread_group_of(status: &[u8]) -> Option<u32> {
    line_of(status, "Tgid:")?.trim().parse().ok()
}

/// The rest of the line that begins with this key. A newline in the process name is written as `\n`, so no name can
/// forge a line.
fn line_of<'a>(status: &'a [u8], key: &str) -> Option<&'a str> {
    let mut lines = status.split(|byte| *byte == b'\n');
    std::str::from_utf8(lines.find_map(|line| line.strip_prefix(key.as_bytes()))?).ok()
}

/// `pread` that is repeated when a signal interrupts it.
pub(crate) fn read_at(
    file: BorrowedFd<'_>,
    buffer: &mut [u8],
    offset: u64,
) -> rustix::io::Result<usize> {
    rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *buffer, offset))
}
