//! Woken by pressure: the kernel's pressure stall information (PSI).
//!
//! A trigger is a line written to a pressure file; the file is then ready (POLLPRI) at most once in its window,
//! when threads have waited for memory for longer than its threshold in that window. It ends when the file is closed,
//! so it is no setting that anybody would have to take back. Without CAP_SYS_RESOURCE windows are multiples of 2 s.

use super::group::Group;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A hundredth of half a second; and where that is refused, of two.
const TRIGGERS: [&str; 2] = ["some 5000 500000", "some 20000 2000000"];
const MACHINE: &str = "/proc/pressure/memory";

/// What wakes the reclaimer.
#[derive(Debug)]
pub(super) struct Pressure {
    pub file: OwnedFd,
    /// Whose pressure.
    pub path: PathBuf,
}

impl Pressure {
    /// Of the cgroup at the top, else of the machine.
    ///
    /// # Errors
    /// When the kernel has no PSI, or refuses us.
    pub fn watch(top: Option<&Group>) -> io::Result<Pressure> {
        match top.map(|top| (top.path().join("memory.pressure"), top)) {
            Some((path, top)) => arm(&path, || top.open_trigger("memory.pressure")),
            None => Err(io::ErrorKind::NotFound.into()),
        }
        .or_else(|_| {
            let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
            arm(Path::new(MACHINE), || Ok(rustix::fs::open(MACHINE, flags, Mode::empty())?))
        })
    }
}

fn arm(path: &Path, open: impl Fn() -> io::Result<OwnedFd>) -> io::Result<Pressure> {
    let mut refused = io::Error::from(io::ErrorKind::Unsupported);
    for trigger in TRIGGERS {
        let mut file = File::from(open()?);
        // With the zero byte at its end, as the kernel's documentation has it.
        match file.write_all(format!("{trigger}\0").as_bytes()) {
            Ok(()) => return Ok(Pressure { file: file.into(), path: path.to_owned() }),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}
