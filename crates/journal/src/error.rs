//! What can go wrong, where, and what to do about it.

use std::fmt;
use std::path::PathBuf;

/// Why the journal did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The state directory is missing.
    #[error("{}: no such directory; create it, mode 0700", dir.display())]
    NoDirectory {
        /// Which.
        dir: PathBuf,
    },
    /// The state directory or a file in it cannot be written to.
    #[error("{}: cannot be written to: {cause}; check its owner, its mode and its mount", file.display())]
    NotWritable {
        /// Which.
        file: PathBuf,
        /// Why.
        cause: String,
    },
    /// Another process, or this one, has the journal open.
    #[error(
        "{}: in use; another allotd keeps this journal: stop it or choose another state directory",
        file.display()
    )]
    InUse {
        /// Which.
        file: PathBuf,
    },
    /// A SQLite database of some other program.
    #[error("{}: not an allot journal ({cause}); move it away or choose another directory", file.display())]
    Foreign {
        /// Which.
        file: PathBuf,
        /// What shows it.
        cause: String,
    },
    /// Written by a later allot.
    #[error(
        "{}: its format is {found}, this allotd knows {known}; use the allotd that wrote it",
        file.display()
    )]
    Newer {
        /// Which.
        file: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format that is known here.
        known: i64,
    },
    /// Damaged. Nothing was changed.
    #[error("{}: damaged{}: {cause}; {forecast}", file.display(), at_entry(*entry))]
    Corrupt {
        /// Which file.
        file: PathBuf,
        /// The first bad entry, where the damage is at one.
        entry: Option<u64>,
        /// What is wrong.
        cause: String,
        /// What a recovery would do.
        forecast: Forecast,
    },
    /// Sound, but acknowledged entries at its end are gone: its `-wal` was cut, damaged or
    /// deleted, or an old copy was put back. Nothing was changed.
    #[error(
        "{}: cut short: it ends at entry {has}, but {missing} more were acknowledged; put back \
         the missing files (see its -wal), or {forecast}",
        file.display()
    )]
    CutShort {
        /// Which file.
        file: PathBuf,
        /// The last entry it has.
        has: u64,
        /// How many are known to be missing; more may be.
        missing: u64,
        /// What a recovery would do.
        forecast: Forecast,
    },
    /// A recovery was begun and not finished.
    #[error("{}: a recovery was interrupted; run `allotd --recover` again", file.display())]
    Interrupted {
        /// What marks it.
        file: PathBuf,
    },
    /// No room. What was to be written is rolled back, nothing before it is lost, and appending
    /// works again once there is room.
    #[error("{}: no room ({cause}); nothing was written: free some space and try again", file.display())]
    Full {
        /// Which file.
        file: PathBuf,
        /// What SQLite said.
        cause: String,
    },
    /// A commit failed so that it is not known whether it will be there after a restart.
    /// [`Journal::reopen`](crate::Journal::reopen) finds out.
    #[error(
        "{}: entries {first} to {last}: not known whether they were written ({cause}); the \
         journal must be read again",
        file.display()
    )]
    Unknown {
        /// Which file.
        file: PathBuf,
        /// The first entry in doubt.
        first: u64,
        /// The last entry in doubt.
        last: u64,
        /// What SQLite said.
        cause: String,
    },
    /// An earlier failure must be settled first by [`Journal::reopen`](crate::Journal::reopen).
    #[error("{}: stopped by an earlier failure ({cause}); it must be read again", file.display())]
    Stopped {
        /// Which file.
        file: PathBuf,
        /// That failure.
        cause: String,
    },
    /// Anything else; what was to be written is rolled back.
    #[error("{}: {cause}", file.display())]
    Io {
        /// Which file.
        file: PathBuf,
        /// What the system or SQLite said.
        cause: String,
    },
}

fn at_entry(entry: Option<u64>) -> String {
    entry.map_or(String::new(), |entry| format!(" at entry {entry}"))
}

/// What `allotd --recover` would do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Where the damaged files would go.
    pub moved_to: PathBuf,
    /// The last entry that would be kept; `None`: no ledger can be read.
    pub keeps: Option<u64>,
    /// How many acknowledged entries would be lost at least, as far as can be told.
    pub loses: u64,
}

impl fmt::Display for Forecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`allotd --recover` moves the files to {}", self.moved_to.display())?;
        match self.keeps {
            Some(last) => write!(
                f,
                ", keeps the ledger as of entry {last} and loses {} entries after it",
                self.loses
            ),
            None => f.write_str(", finds no ledger in them and lets the next start begin anew"),
        }
    }
}
