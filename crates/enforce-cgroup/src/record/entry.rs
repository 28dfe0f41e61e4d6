//! Entries of the record: cgroups, units, disks and settings before they are changed.

use disk::{DeviceNumber, FoundDisk};
use ledger::ProcessIdentity;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use undo::LogEntry;

/// The name of the restorer of these entries.
pub(super) const UNDO: &str = "cgroup";

/// Something as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UndoEntry {
    /// The tree in which everything below is, and our own cgroups, which say themselves where their processes were
    /// found. Stands in the record from the beginning.
    Tree {
        mount: PathBuf,
        /// Paths below the mount.
        ours: Vec<String>,
        systemd: bool,
    },
    /// The `cpu.weight` of a cgroup.
    Weight {
        /// Its path, from `/`.
        cgroup: String,
        weight: u32,
    },
    /// A setting of a unit of systemd.
    Unit {
        unit: String,
        /// As systemd calls it.
        property: String,
        /// The greatest number for none.
        value: u64,
    },
    /// The weights of a unit of systemd on single devices.
    UnitDisks {
        unit: String,
        /// Devices, as they were named, with their weights.
        weights: Vec<(String, u64)>,
    },
    /// A disk's scheduler and settings.
    Disk(Box<FoundDisk>),
    /// The content of a file of the kernel.
    Setting {
        path: PathBuf,
        /// What to write so that it is as it was.
        text: String,
    },
    /// The limit of a cgroup on a disk.
    Limit {
        /// Its `io.max`.
        path: PathBuf,
        number: DeviceNumber,
        /// What to write so that it is as it was.
        text: String,
    },
    /// A process that was not found where the others of its cgroup were.
    Process {
        process: ProcessIdentity,
        /// Where it was, from `/`.
        cgroup: String,
    },
    /// The children of a cgroup were without a controller.
    NoController {
        /// Its path, from `/`.
        cgroup: String,
        controller: String,
    },
}

impl UndoEntry {
    /// The entry as it is kept.
    pub(super) fn to_log(&self) -> serde_json::Result<LogEntry> {
        let was = serde_json::to_value(self)?;
        Ok(LogEntry { undo: UNDO.to_owned(), key: self.key(), was })
    }

    fn key(&self) -> String {
        match self {
            UndoEntry::Tree { .. } => "tree".to_owned(),
            UndoEntry::Weight { cgroup, .. } => UndoEntry::weight_key(cgroup),
            UndoEntry::Unit { unit, property, .. } => UndoEntry::unit_key(unit, property),
            UndoEntry::UnitDisks { unit, .. } => UndoEntry::unit_disks_key(unit),
            UndoEntry::Disk(disk) => UndoEntry::disk_key(&disk.name),
            UndoEntry::Setting { path, .. } => UndoEntry::setting_key(path),
            UndoEntry::Limit { path, number, .. } => UndoEntry::limit_key(path, *number),
            UndoEntry::NoController { cgroup, controller } => {
                format!("controller {controller} {cgroup}")
            }
            UndoEntry::Process { process, .. } => format!("process {process}"),
        }
    }

    pub fn weight_key(cgroup: &str) -> String {
        format!("weight {cgroup}")
    }

    pub fn unit_key(unit: &str, property: &str) -> String {
        format!("unit {unit} {property}")
    }

    pub fn unit_disks_key(unit: &str) -> String {
        format!("unit disks {unit}")
    }

    pub(super) fn disk_key(name: &str) -> String {
        format!("disk {name}")
    }

    pub(super) fn limit_key(path: &Path, number: DeviceNumber) -> String {
        format!("limit {number} {}", path.display())
    }

    pub fn setting_key(path: &Path) -> String {
        format!("setting {}", path.display())
    }
}
