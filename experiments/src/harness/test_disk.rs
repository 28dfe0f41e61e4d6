//! The disk of an experiment. It may be used up: its kernel name is in `ALLOT_DISK`, and a
//! directory on it in `ALLOT_DISK_DIR`, as `lab/with-disk` gives them. The kernel's default is the
//! disk as it was found, with the promised shares as weights in every file that the kernel has for
//! them then.

use crate::error::ExperimentError;
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::find_allotd;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Size of the file on which the disk's speed is measured, in MiB.
const CALIBRATION_MIB: u64 = 32;
/// Number of requests at a time from which allotd takes iocost for a disk.
const DEEP: usize = 8;
/// Name of the environment variable with the disk's kernel name.
pub(crate) const DISK: &str = "ALLOT_DISK";
/// Name of the environment variable with a directory on the disk.
pub(crate) const DISK_DIR: &str = "ALLOT_DISK_DIR";

/// The rule that shares a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskRule {
    /// allot, through BFQ.
    Bfq,
    /// allot, through iocost.
    Iocost,
    /// The kernel's default, as it was found.
    Default,
}

impl DiskRule {
    /// Returns its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            DiskRule::Bfq => "BFQ",
            DiskRule::Iocost => "iocost",
            DiskRule::Default => "the kernel's default",
        }
    }

    /// Returns the name of its enforcer in allotd.
    pub fn enforcer(self) -> Option<&'static str> {
        match self {
            DiskRule::Bfq => Some("bfq"),
            DiskRule::Iocost => Some("iocost"),
            DiskRule::Default => None,
        }
    }
}

/// A disk that may be used up.
#[derive(Clone, Debug)]
pub(crate) struct TestDisk {
    /// Its kernel name.
    pub name: String,
    /// A directory on it.
    pub dir: PathBuf,
    /// Number of requests that it takes at a time.
    pub depth: usize,
    /// Its scheduler, as it was found.
    pub scheduler: String,
    /// Whether BFQ can be chosen.
    pub has_bfq: bool,
}

impl TestDisk {
    /// Finds the disk that the environment names.
    pub fn find() -> Result<TestDisk, ExperimentError> {
        let bad = |what: String| ExperimentError::BadOption(what);
        let (Some(name), Some(dir)) = (std::env::var_os(DISK), std::env::var_os(DISK_DIR)) else {
            return Err(bad(format!("{DISK} and {DISK_DIR} name no disk")));
        };
        let name = name.to_string_lossy().into_owned();
        let block = Path::new("/sys/block").join(&name);
        let read = |file: &str| fs::read_to_string(block.join(file));
        let schedulers = read("queue/scheduler")
            .map_err(|_| bad(format!("{DISK}: there is no disk `{name}` in /sys/block")))?;
        let chosen = schedulers.split_whitespace().find_map(|word| word.strip_prefix('['));
        let depth = read("mq/0/nr_tags").ok().and_then(|text| text.trim().parse().ok());
        Ok(TestDisk {
            dir: dir.into(),
            depth: depth.unwrap_or(1),
            has_bfq: offers(&schedulers, "bfq"),
            scheduler: chosen.unwrap_or(schedulers.trim()).trim_end_matches(']').to_owned(),
            name,
        })
    }

    /// Returns the reason why a rule cannot be tried on it. `measured` says whether its speed is
    /// known.
    pub fn lacks<T>(&self, rule: DiskRule, measured: &Result<T, String>) -> Option<String> {
        match (rule, measured) {
            (DiskRule::Bfq, _) if !self.has_bfq => {
                Some("BFQ was left out: it is not offered (`modprobe bfq`)".to_owned())
            }
            (DiskRule::Iocost, Err(why)) => {
                Some(format!("iocost was left out, for the disk was not measured: {why}"))
            }
            (DiskRule::Iocost, Ok(_)) if self.depth < DEEP && self.has_bfq => Some(format!(
                "iocost was left out: on a disk that takes {} requests at a time allot takes BFQ",
                self.depth
            )),
            _ => None,
        }
    }

    /// Returns the resource of its tickets.
    pub fn resource(&self) -> String {
        format!("disk:{}", self.name)
    }

    /// Measures its speed for iocost, into a file. Returns the reason where it cannot be measured.
    pub fn measure(
        &self,
        context: &ExperimentContext,
        seconds: f64,
    ) -> Result<Result<PathBuf, String>, ExperimentError> {
        let file = context.dir.path().join("disks.toml");
        let output = Command::new(find_allotd(context.options)?)
            .args(["calibrate", &self.name, "--dir"])
            .arg(&self.dir)
            .args(["--seconds", &format!("{:.0}", seconds.clamp(16.0, 60.0))])
            .args(["--size", &CALIBRATION_MIB.to_string(), "--disks"])
            .arg(&file)
            .stdin(Stdio::null())
            .output()
            .map_err(ExperimentError::system("measure the disk"))?;
        let words = String::from_utf8_lossy(&output.stderr);
        Ok(match output.status.success() {
            true => Ok(file),
            false => Err(words.lines().last().unwrap_or("it ended by itself").to_owned()),
        })
    }
}

/// Returns the directory on a disk that the environment names.
pub(crate) fn disk_dir() -> Result<PathBuf, ExperimentError> {
    let named = std::env::var_os(DISK_DIR).map(PathBuf::from);
    named.ok_or_else(|| ExperimentError::BadOption(format!("{DISK_DIR} names no directory")))
}

/// Returns whether a list of schedulers, of which one is in brackets, has a name.
pub(crate) fn offers(schedulers: &str, name: &str) -> bool {
    schedulers.split_whitespace().any(|word| word.trim_matches(['[', ']']) == name)
}
