//! A cgroup's memory: what it holds, and how some of it is taken. Nothing is set.

use crate::error::MemoryError;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The magic number of cgroup v2 in statfs(2).
const CGROUP2_SUPER_MAGIC: u64 = 0x6367_7270;

/// A cgroup, held open: what is read is its own or nobody's, also when another takes its name.
#[derive(Debug)]
pub(crate) struct Group {
    folder: OwnedFd,
    current: OwnedFd,
    path: PathBuf,
}

/// What memory.stat says, in bytes and pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupStat {
    pub inactive_bytes: u64,
    pub refaults: u64,
}

/// What came of asking for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// All that was asked for, or more.
    All,
    /// Less, perhaps nothing.
    Less,
}

impl Group {
    /// # Errors
    /// When the folder is no cgroup v2, or has no memory controller.
    pub fn open(path: &Path) -> Result<Group, MemoryError> {
        let not_one = |_| MemoryError::NotACgroup(path.to_owned());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty()).map_err(not_one)?;
        let facts = rustix::fs::fstatfs(&folder).map_err(not_one)?;
        if u64::try_from(facts.f_type).ok() != Some(CGROUP2_SUPER_MAGIC) {
            return Err(MemoryError::NotACgroup(path.to_owned()));
        }
        let current = open_in(&folder, "memory.current", OFlags::RDONLY)
            .map_err(|_| MemoryError::NoController(path.to_owned()))?;
        Ok(Group { folder, current, path: path.to_owned() })
    }

    /// Where it was found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it holds, in bytes.
    ///
    /// # Errors
    /// ENODEV when it is gone.
    pub fn held_bytes(&self) -> io::Result<u64> {
        read_number(&self.current)
    }

    /// A limit (`memory.max`, `memory.high`), in bytes; none where there is no such file, as in the root.
    pub fn limit_bytes(&self, file: &'static str) -> Option<u64> {
        self.read(file).ok()?.trim_end().parse().ok()
    }

    /// # Errors
    /// ENODEV when it is gone.
    pub fn stat(&self) -> io::Result<GroupStat> {
        Ok(parse_stat(&self.read("memory.stat")?))
    }

    /// For how long at least one of its threads has waited for memory, in ns; none without PSI.
    pub fn stalled_ns(&self) -> Option<u64> {
        observe::stalled_ns(&self.read("memory.pressure").ok()?)
    }

    /// Whether the kernel can be asked to take memory from it.
    pub fn can_reclaim(&self) -> bool {
        open_in(&self.folder, "memory.reclaim", OFlags::WRONLY).is_ok()
    }

    /// A file of it, to read and write.
    pub fn open_trigger(&self, file: &'static str) -> io::Result<OwnedFd> {
        open_in(&self.folder, file, OFlags::RDWR | OFlags::NONBLOCK)
    }

    /// Takes so many bytes from it and those below, the kernel choosing which. That can take long where pages must
    /// be written first.
    ///
    /// # Errors
    /// ENODEV or ENOENT when it is gone; what else the kernel says.
    pub fn reclaim(&self, bytes: u64) -> io::Result<Taken> {
        let mut file = File::from(open_in(&self.folder, "memory.reclaim", OFlags::WRONLY)?);
        match file.write(bytes.to_string().as_bytes()) {
            Ok(_) => Ok(Taken::All),
            // A signal ends it early, and what was taken is taken.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Taken::Less),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Taken::Less),
            Err(error) => Err(error),
        }
    }

    fn read(&self, file: &'static str) -> io::Result<String> {
        let mut text = String::new();
        File::from(open_in(&self.folder, file, OFlags::RDONLY)?).read_to_string(&mut text)?;
        Ok(text)
    }
}

/// Whether an error says that the cgroup is gone.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NODEV | Errno::NOENT))
}

fn open_in(folder: &OwnedFd, file: &str, flags: OFlags) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(folder, file, flags | OFlags::CLOEXEC, Mode::empty())?)
}

fn read_number(file: impl AsFd) -> io::Result<u64> {
    let mut buffer = [0; 24];
    let count = rustix::io::retry_on_intr(|| rustix::io::pread(&file, &mut buffer, 0))?;
    let text = std::str::from_utf8(&buffer[..count]).ok();
    let number = text.and_then(|text| text.trim_end().parse().ok());
    number.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a number"))
}

fn parse_stat(text: &str) -> GroupStat {
    let mut stat = GroupStat::default();
    for line in text.lines() {
        let Some((name, number)) = line.split_once(' ') else { continue };
        let number = || number.trim().parse().unwrap_or(0);
        match name {
            "inactive_anon" | "inactive_file" => stat.inactive_bytes += number(),
            "workingset_refault_anon" | "workingset_refault_file" => stat.refaults += number(),
            // Before Linux 5.9, of files alone.
            "workingset_refault" => stat.refaults += number(),
            _ => {}
        }
    }
    stat
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_is_read() {
        let text = "anon 8192\nfile 4096\ninactive_anon 10\nactive_anon 5\ninactive_file 300\n\
                    workingset_refault_anon 2\nworkingset_refault_file 70\npgfault 9\n";
        assert_eq!(parse_stat(text), GroupStat { inactive_bytes: 310, refaults: 72 });
        assert_eq!(parse_stat("workingset_refault 5\n").refaults, 5);
        assert_eq!(parse_stat(""), GroupStat::default());
    }

    #[test]
    fn a_folder_is_not_a_cgroup() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("memory.current"), "4096").expect("a file");
        for path in [folder.path(), &folder.path().join("none")] {
            let refused = Group::open(path).expect_err("not on a cgroup file system");
            assert!(matches!(refused, MemoryError::NotACgroup(_)), "{refused}");
        }
    }
}
