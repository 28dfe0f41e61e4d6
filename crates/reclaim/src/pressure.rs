//! Woken by pressure: the kernel's pressure stall information (PSI).
//!
//! A trigger is a line written to a pressure file; the file is then ready (POLLPRI) at most once in its window,
//! when threads have waited for memory for longer than its threshold in that window. It ends when the file is closed,
//! so it is no setting that anybody would have to take back. Without CAP_SYS_RESOURCE windows are multiples of 2 s.
//!
//! Where there is no PSI, pressure is what /proc/vmstat has of it: threads that had to take pages themselves
//! (`allocstall`) since it was looked last. That is known of the machine alone.

use crate::group::Group;
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
pub(crate) struct Pressure {
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

/// Pressure on the machine without PSI.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    before: Option<u64>,
}

impl Stalls {
    /// Whether there were any since this was asked last.
    pub fn rose(&mut self) -> bool {
        let now = std::fs::read_to_string("/proc/vmstat").map_or(0, |text| parse_stalls(&text));
        self.before.replace(now).is_some_and(|before| now > before)
    }
}

/// `allocstall`, in the kernels that count it for each zone the sum.
fn parse_stalls(text: &str) -> u64 {
    let counts =
        text.lines().filter_map(|line| line.strip_prefix("allocstall")?.rsplit(' ').next());
    counts.filter_map(|count| count.parse::<u64>().ok()).sum()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_of_all_zones_are_counted() {
        let text = "pgalloc_dma 7\nallocstall_dma 1\nallocstall_normal 20\nallocstall_movable 300\npgskip 5\n";
        assert_eq!(parse_stalls(text), 321);
        assert_eq!(parse_stalls("allocstall 4\n"), 4);
        assert_eq!(parse_stalls(""), 0);
    }

    #[test]
    fn what_was_before_is_no_pressure() {
        assert!(!Stalls::default().rose());
    }
}
