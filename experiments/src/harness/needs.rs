//! The conditions of experiments on the machine.

use crate::harness::test_disk::{DISK, DISK_DIR, offers};
use crate::workloads::database;
use std::fmt;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// A condition of an experiment on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The user root.
    Root,
    /// A controller of cgroup v2.
    Controller(&'static str),
    /// The scheduler class sched_ext.
    SchedExt,
    /// A number of CPUs.
    Cpus(usize),
    /// Available memory, in MiB.
    MemoryMib(u64),
    /// A directory on a disk.
    DiskDirectory,
    /// A disk that may be used up.
    SpareDisk,
    /// A scheduler that this disk offers.
    DiskScheduler(&'static str),
    /// A program, in `$PATH` or beside this one.
    Program(&'static str),
    /// The embedded database of the look-up servers.
    Database,
}

/// The facts about a machine on which needs depend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Whether we are root.
    pub is_root: bool,
    /// The controllers of cgroup v2; none without it.
    pub controllers: Vec<String>,
    /// Whether the kernel has sched_ext.
    pub has_sched_ext: bool,
    /// Number of CPUs that we may use.
    pub cpus: usize,
    /// Available memory, in MiB.
    pub memory_mib: u64,
    /// The directory on a disk that the environment names.
    pub disk_dir: Option<PathBuf>,
    /// The disk that the environment names.
    pub disk: Option<String>,
    /// The schedulers that this disk offers, as its file lists them.
    pub disk_schedulers: String,
    /// The directories of programs: this program's, and those in `$PATH`.
    pub path: Vec<PathBuf>,
    /// Whether this program has the embedded database.
    pub has_database: bool,
}

impl Machine {
    /// Reads the facts about this machine. A fact that cannot be read counts as lacking.
    pub fn look() -> Machine {
        let controllers = read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
        let disk = std::env::var(DISK).ok();
        let schedulers = |name: &String| {
            read_to_string(Path::new("/sys/block").join(name).join("queue/scheduler")).ok()
        };
        let own = std::env::current_exe().ok();
        let own = own.and_then(|program| Some(program.parent()?.to_owned()));
        let path = std::env::var_os("PATH").unwrap_or_default();
        Machine {
            is_root: nix::unistd::geteuid().is_root(),
            controllers: controllers.split_whitespace().map(str::to_owned).collect(),
            has_sched_ext: Path::new("/sys/kernel/sched_ext/state").exists(),
            cpus: super::cpus::allowed_cpus().map_or(0, |cpus| cpus.len()),
            memory_mib: available_mib(&read_to_string("/proc/meminfo").unwrap_or_default()),
            disk_dir: std::env::var_os(DISK_DIR).map(PathBuf::from),
            disk_schedulers: disk.as_ref().and_then(schedulers).unwrap_or_default(),
            disk,
            path: own.into_iter().chain(std::env::split_paths(&path)).collect(),
            has_database: database::IS_BUILT_IN,
        }
    }
}

/// Returns the available memory by /proc/meminfo.
fn available_mib(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

impl Need {
    /// Returns the needs of an enforcer.
    pub fn of_enforcer(name: Option<&str>) -> &'static [Need] {
        match name {
            Some("sched-ext") => &[Need::Root, Need::SchedExt],
            Some("cgroup") => &[Need::Root, Need::Controller("cpu")],
            Some("weights") => &[Need::Root],
            _ => &[],
        }
    }

    /// Returns what the machine lacks, and what to do; none where it has what is needed.
    pub fn lacking(&self, machine: &Machine) -> Option<String> {
        let (has, lack) = match *self {
            Need::Root => (machine.is_root, "it needs root: run it with sudo".to_owned()),
            Need::Controller(name) => (
                machine.controllers.iter().any(|there| there == name),
                format!(
                    "it needs cgroup v2 with the {name} controller, which /sys/fs/cgroup does not \
                     offer"
                ),
            ),
            Need::SchedExt => (
                machine.has_sched_ext,
                "it needs a kernel with sched_ext (Linux 6.12 or later); lab/run has one"
                    .to_owned(),
            ),
            Need::Cpus(count) => (
                machine.cpus >= count,
                format!("it needs {count} CPUs, and may use {}", machine.cpus),
            ),
            Need::MemoryMib(mib) => (
                machine.memory_mib >= mib,
                format!("it needs {mib} MiB of memory, and {} are available", machine.memory_mib),
            ),
            Need::DiskDirectory => (
                machine.disk_dir.is_some(),
                format!(
                    "it reads files from a disk: name a directory there in {DISK_DIR}, or run it \
                     under lab/with-disk"
                ),
            ),
            Need::SpareDisk => (
                machine.disk.is_some() && machine.disk_dir.is_some(),
                format!(
                    "it needs a disk that may be used up: its kernel name in {DISK} and a directory \
                     on it in {DISK_DIR}, as lab/with-disk gives them"
                ),
            ),
            // Without a disk, that is what lacks.
            Need::DiskScheduler(name) => (
                machine.disk.is_none() || offers(&machine.disk_schedulers, name),
                format!("its disk must offer the scheduler {name}: `modprobe {name}`"),
            ),
            Need::Program(name) => (
                machine.path.iter().any(|dir| dir.join(name).is_file()),
                format!("it needs {name}, which is not in $PATH"),
            ),
            Need::Database => (
                machine.has_database,
                "this allot-exp was built without LMDB: `make build` builds it with LMDB"
                    .to_owned(),
            ),
        };
        (!has).then_some(lack)
    }
}

/// Writes the need in a word or two.
impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Need::Root => write!(f, "root"),
            Need::Controller(name) => write!(f, "cgroup {name}"),
            Need::SchedExt => write!(f, "sched_ext"),
            Need::Cpus(count) => write!(f, "{count} CPUs"),
            Need::MemoryMib(mib) => write!(f, "{mib} MiB"),
            Need::DiskDirectory => write!(f, "disk directory"),
            Need::SpareDisk => write!(f, "spare disk"),
            Need::DiskScheduler(name) | Need::Program(name) => write!(f, "{name}"),
            Need::Database => write!(f, "LMDB"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Need; 10] = [
        Need::Root,
        Need::Controller("memory"),
        Need::SchedExt,
        Need::Cpus(2),
        Need::MemoryMib(256),
        Need::DiskDirectory,
        Need::SpareDisk,
        Need::DiskScheduler("bfq"),
        Need::Program("sh"),
        Need::Database,
    ];

    #[test]
    fn a_machine_without_anything_lacks_all() {
        let nothing = Machine { disk: Some("vda".to_owned()), ..Machine::default() };
        for need in ALL {
            let lacking = need.lacking(&nothing).expect("it lacks that");
            assert!(lacking.contains(|letter: char| letter.is_alphabetic()), "{need}: {lacking}");
        }
        assert_eq!(Need::DiskScheduler("bfq").lacking(&Machine::default()), None, "no disk");
    }

    #[test]
    fn a_machine_with_everything_lacks_nothing() {
        let machine = Machine {
            is_root: true,
            controllers: vec!["cpu".to_owned(), "memory".to_owned()],
            has_sched_ext: true,
            cpus: 2,
            memory_mib: 256,
            disk_dir: Some("/mnt".into()),
            disk: Some("vda".to_owned()),
            disk_schedulers: "[none] bfq".to_owned(),
            path: vec!["/bin".into()],
            has_database: true,
        };
        for need in ALL.iter().chain(Need::of_enforcer(Some("sched-ext"))) {
            assert_eq!(need.lacking(&machine), None, "{need}");
        }
    }

    #[test]
    fn memory_by_the_kernels_file() {
        assert_eq!(available_mib("MemTotal: 9 kB\nMemAvailable:  524288 kB\n"), 512);
        assert_eq!(available_mib(""), 0);
    }
}
