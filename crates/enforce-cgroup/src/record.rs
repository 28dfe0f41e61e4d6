//! The record of what was changed on cgroups that are not ours, and the guardian that gives it back.
//!
//! Our own cgroups are no part of it: they say themselves where their processes were found.

mod entry;
mod restorer;
#[cfg(test)]
mod tests;

pub(crate) use entry::UndoEntry;
pub use restorer::{CGROUPS_REMOVED, CgroupRestorer, PROCESSES_MOVED, SETTINGS_RESTORED};

use crate::root::{CgroupOwner, CgroupRoot};
use disk::{DeviceNumber, FoundDisk};
use std::io;
use std::path::Path;
use undo::{Guardian, GuardianError, RecordOptions, Restored};

/// The record of a cgroup enforcer, with its guardian.
pub(crate) struct Record {
    guardian: Guardian,
}

impl Record {
    /// Restores what an earlier enforcer left in this file, begins a new record in it, and starts a guardian.
    pub fn create(
        program: &Path,
        path: &Path,
        root: &CgroupRoot,
        ours: &[String],
    ) -> Result<Record, GuardianError> {
        let failed =
            |error: io::Error| GuardianError::Record(format!(" in {}", path.display()), error);
        let tree = UndoEntry::Tree {
            mount: root.mount.clone(),
            ours: ours.to_vec(),
            systemd: root.owner == CgroupOwner::Systemd,
        };
        let standing = vec![tree.to_log().map_err(|error| failed(error.into()))?];
        let options = RecordOptions { writer: "cgroup", processes: 0, standing };
        let guardian = Guardian::start(program, Some(path), &options, &[&CgroupRestorer])?;
        let leftovers = guardian.leftovers();
        for what in leftovers.failed.iter().chain(&leftovers.left) {
            tracing::warn!("from an earlier run: {what}");
        }
        Ok(Record { guardian })
    }

    /// The leftovers of an earlier enforcer that were given back at the start.
    pub fn leftovers(&self) -> &Restored {
        self.guardian.leftovers()
    }

    /// The guardian, to look after.
    pub fn guardian(&mut self) -> &mut Guardian {
        &mut self.guardian
    }

    /// The guardian's process; `None` while there is none on watch.
    pub fn guardian_pid(&self) -> Option<u32> {
        self.guardian.pid()
    }

    /// Whether something was noted, by its key.
    pub fn knows(&self, key: &str) -> bool {
        self.guardian.record.knows(key)
    }

    /// Notes how something is before it is changed for the first time.
    pub fn note(&mut self, entry: &UndoEntry) -> io::Result<()> {
        self.guardian.record.note(entry.to_log()?)
    }

    /// Notes that a disk is as it was found, and is somebody else's to change from now on.
    pub fn note_given_back(&mut self, name: &str) -> io::Result<()> {
        self.guardian.record.note_given_back(&UndoEntry::disk_key(name))
    }

    /// Notes that a limit is as it was found; what is found when it is set again is noted anew.
    pub fn note_limit_given_back(&mut self, path: &Path, number: DeviceNumber) -> io::Result<()> {
        self.guardian.record.note_given_back(&UndoEntry::limit_key(path, number))
    }

    /// Gives back everything, and forgets it if that went well.
    pub fn restore(&mut self) -> Restored {
        let restored = self.guardian.restore();
        for what in &restored.left {
            tracing::warn!("{what}");
        }
        restored
    }
}

impl disk::Notes for Record {
    fn note_disk(&mut self, found: &FoundDisk) -> io::Result<()> {
        // Each time that it is prepared it is found anew: it was given back in between.
        self.guardian.record.note_again(UndoEntry::Disk(Box::new(found.clone())).to_log()?)
    }
}
