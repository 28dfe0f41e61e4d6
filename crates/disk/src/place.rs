//! Where the kernel shows what we look at: arguments, so that a test can show something else.

use std::io;
use std::path::{Path, PathBuf};

/// Where the kernel shows what we look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// sysfs.
    pub sys: PathBuf,
    /// The cgroup v2 tree; `None` where there is none.
    pub cgroups: Option<PathBuf>,
    /// What is mounted, as in proc_pid_mountinfo(5).
    pub mounts: PathBuf,
    /// The running kernel's modules.
    pub modules: PathBuf,
}

impl Places {
    /// This machine's.
    pub fn of_this_machine() -> Places {
        use observe::CgroupLayout;
        let machine = observe::machine();
        let cgroups = match machine.cgroup {
            CgroupLayout::V2 { mount, .. } | CgroupLayout::Hybrid { mount, .. } => {
                Some(PathBuf::from(mount))
            }
            CgroupLayout::V1 { .. } | CgroupLayout::None => None,
        };
        Places {
            sys: PathBuf::from("/sys"),
            cgroups,
            mounts: PathBuf::from("/proc/self/mountinfo"),
            modules: Path::new("/lib/modules").join(machine.kernel_release),
        }
    }

    /// A file at the root of the cgroup tree.
    pub(crate) fn cgroup_file(&self, file: &str) -> Option<PathBuf> {
        self.cgroups.as_ref().map(|mount| mount.join(file))
    }
}

/// What a small file says, without the end of its line.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path).map(|text| text.trim_end().to_owned())
}

/// What a file that may be missing says, as a number.
pub(crate) fn read_number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    read(path).ok()?.parse().ok()
}

/// Writes with one call, and never creates: what is not there is not offered.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = std::fs::File::options().write(true).open(path)?;
    io::Write::write_all(&mut file, text.as_bytes())
}

/// Whether an error says that a device, or its file, is there no more.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO))
}
