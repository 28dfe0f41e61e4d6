//! The record of what was changed, before it was changed, and how it is given back.

mod restorer;

pub use restorer::WeightsRestorer;

use ledger::ProcessIdentity;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;
use undo::{LogEntry, Record};

/// The name of the restorer of these entries.
const UNDO: &str = "weights";

/// Something as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UndoEntry {
    /// A cgroup of ours, which is about to be made.
    Group {
        /// Its folder.
        folder: PathBuf,
        /// Where the tree is mounted.
        mount: PathBuf,
        /// The cgroup in which its first process was found, from `/`.
        origin: String,
    },
    /// A process that was not found where the first of its cgroup was.
    Place {
        process: ProcessIdentity,
        mount: PathBuf,
        /// The cgroup in which it was found, from `/`.
        origin: String,
    },
    /// The nice value of an autogroup.
    Autogroup {
        /// As in `/autogroup-12`.
        name: String,
        nice: i32,
    },
    /// The nice value of a process.
    Nice {
        process: ProcessIdentity,
        session: u32,
        /// That of its threads.
        own: i32,
        /// Threads with another one.
        others: Vec<(u32, i32)>,
        /// The value that it is about to be given.
        given: i32,
        /// When, in clock ticks since boot: an older child did not inherit it.
        at_ticks: u64,
    },
    /// A process that is about to be stopped.
    Stop { process: ProcessIdentity },
}

impl UndoEntry {
    fn key(&self) -> String {
        match self {
            UndoEntry::Group { folder, .. } => UndoEntry::group_key(folder),
            UndoEntry::Place { process, .. } => UndoEntry::place_key(*process),
            UndoEntry::Autogroup { name, .. } => UndoEntry::autogroup_key(name),
            UndoEntry::Nice { process, given, .. } => UndoEntry::nice_key(*process, *given),
            UndoEntry::Stop { process } => UndoEntry::stop_key(*process),
        }
    }

    pub fn group_key(folder: &std::path::Path) -> String {
        format!("group {}", folder.display())
    }

    pub fn place_key(process: ProcessIdentity) -> String {
        format!("place {process}")
    }

    pub fn autogroup_key(name: &str) -> String {
        format!("autogroup {name}")
    }

    pub fn nice_key(process: ProcessIdentity, given: i32) -> String {
        format!("nice {process} {given}")
    }

    pub fn stop_key(process: ProcessIdentity) -> String {
        format!("stop {process}")
    }

    /// Notes it, unless it is known.
    pub fn note(&self, record: &mut Record) -> io::Result<()> {
        let was = serde_json::to_value(self)?;
        record.note(LogEntry { undo: UNDO.to_owned(), key: self.key(), was })
    }
}
