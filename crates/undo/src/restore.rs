//! Giving back what a record tells.
//!
//! Processes first: they wait. Then each [`Restorer`] gives back its own entries of the log. An enforcer that changes
//! something else than processes brings a restorer of its own; nothing here knows what its entries say.

mod forks;
mod lineage;
mod processes;
mod restored;
#[cfg(test)]
mod tests;
mod threads;

pub use forks::until_settled;
pub use lineage::{Lineage, free_inheritors};
pub use restored::{CONTINUED, FREED, Restored};

use crate::record::{Contents, Leftover, LogEntry, Record, RecordFile, boot_id};
use processes::restore_processes;
use std::io;
use std::path::Path;

/// A part of an enforcer that gives back what the enforcer noted in the log of its record.
///
/// It works in the enforcer's process, in the guardian's, and in that of the next allotd: it may rely on the entries
/// alone. Giving back twice must do no harm, since it may be interrupted at any moment and done again.
pub trait Restorer: Sync {
    /// The [`undo`](LogEntry::undo) of its entries.
    fn name(&self) -> &'static str;

    /// Gives back these entries, the newest first: what was noted first is as it was found, so it is written last.
    fn restore(&self, entries: &[LogEntry], restored: &mut Restored);
}

/// The restorers that a program has.
pub type Restorers<'a> = &'a [&'a dyn Restorer];

/// Restores what a record tells whose allotd and guardian are both gone, and removes it if all went well. Nothing to
/// do where there is no such file, or one of an earlier boot.
///
/// # Errors
/// When the file cannot be read, an allotd still uses it, or another version wrote it.
pub fn restore_leftovers(path: &Path, restorers: Restorers<'_>) -> io::Result<Restored> {
    let Some(leftover) = Leftover::at(path)? else { return Ok(Restored::default()) };
    let contents = match &leftover.found {
        RecordFile::Record(record) => Some(record.contents()),
        RecordFile::Legacy(contents) => Some(contents.clone()),
        RecordFile::Unknown => None,
        RecordFile::OtherVersion(version) => {
            let what = format!(
                "it was written by another version of allot (format {version}): run that version once, which gives \
                 everything back, or restart the machine"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
    };
    let boot = boot_id()?;
    let restored = match contents.filter(|contents| contents.header.boot == boot) {
        Some(contents) => restore(&contents, restorers, Lineage::default),
        None => Restored::default(),
    };
    if restored.failed.is_empty() {
        std::fs::remove_file(path)?;
    }
    Ok(restored)
}

impl Record {
    /// Gives everything back, and forgets it if all went well. The caller holds no process then.
    pub fn restore(&mut self, restorers: Restorers<'_>) -> Restored {
        let mut restored = restore(&self.contents(), restorers, Lineage::default);
        if restored.failed.is_empty()
            && let Err(error) = self.forget()
        {
            restored.failed.push(format!("the record cannot be emptied: {error}"));
        }
        restored
    }
}

/// Gives back all that a record of this boot tells. `lineage` is asked anew for each look at who inherited what.
pub(crate) fn restore(
    contents: &Contents,
    restorers: Restorers<'_>,
    lineage: impl FnMut() -> Lineage,
) -> Restored {
    let mut restored = Restored::default();
    let made_ticks = contents.header.made_ticks;
    restore_processes(made_ticks, &contents.processes, lineage, &mut restored);
    let of = |name: &str| -> Vec<LogEntry> {
        contents.log.entries.iter().filter(|entry| entry.undo == name).cloned().collect()
    };
    for restorer in restorers {
        let entries = of(restorer.name());
        if !entries.is_empty() {
            restorer.restore(&entries, &mut restored);
        }
    }
    let is_known = |entry: &&LogEntry| restorers.iter().any(|it| it.name() == entry.undo);
    for entry in contents.log.entries.iter().filter(|entry| !is_known(entry)) {
        let LogEntry { undo, key, .. } = entry;
        restored.failed.push(format!("{key} stays changed: nobody here gives back for `{undo}`"));
    }
    let writer = &contents.header.writer;
    restored
        .failed
        .extend(contents.trouble.iter().map(|why| format!("the record of {writer}: {why}")));
    let unreadable = contents.unreadable + contents.log.unreadable;
    if unreadable > 0 {
        // No second try would read them, so they are no reason to keep the record.
        restored.left.push(format!(
            "{unreadable} damaged entries in the record of {writer}: what they tell of stays as it is"
        ));
    }
    restored
}
