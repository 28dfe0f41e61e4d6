//! Verifying a closed journal, and saving what can be saved of a damaged one.

use crate::error::JournalError;
use crate::journal::{Journal, explain, verify};
use crate::mark::{Mark, MarkFile, ReadMark};
use crate::salvage::{lost, salvage_file};
use crate::store::{self, Files, Unreadable, io_trouble, read_mark};
use std::path::{Path, PathBuf};

/// What a check found in a sound journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// The last entry.
    pub sequence: u64,
    /// How many entries are kept.
    pub entries: u64,
    /// The entry after which the newest snapshot was taken.
    pub snapshot: u64,
}

/// What a recovery did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Where the files are that were there before.
    pub moved_to: PathBuf,
    /// The ledger is as of this entry; `None`: nothing could be read, and the next start begins
    /// a new ledger.
    pub sequence: Option<u64>,
    /// How many acknowledged entries after it are lost, as far as can be told.
    pub lost: u64,
    /// How many entries up to it remain for `allot events`.
    pub entries: u64,
}

impl Journal {
    /// Verify the journal in `dir`, which no allotd may have open. Changes nothing in it.
    ///
    /// # Errors
    /// What [`Journal::open`] would say.
    pub fn check(dir: &Path) -> Result<CheckReport, JournalError> {
        let files = Files::of(dir)?;
        if !files.database.exists() && matches!(read_mark(&files)?, ReadMark::Missing) {
            let cause = "there is no journal here".to_owned();
            return Err(JournalError::Io { file: files.database, cause });
        }
        let lock = store::lock(&files)?;
        if files.recovering.exists() {
            return Err(JournalError::Interrupted { file: files.recovering });
        }
        let (connection, contents) = verify(&files)?;
        drop(connection);
        drop(lock);
        Ok(CheckReport {
            sequence: contents.sequence,
            entries: contents.sequence + 1 - contents.oldest,
            snapshot: contents.snapshot_sequence,
        })
    }

    /// Save what can be saved of the journal in `dir`: move its files to a new directory
    /// `damaged-N` beside them (nothing is ever deleted) and write a new journal with the
    /// ledger as of the last entry up to which everything is whole. May be interrupted and run
    /// again. A sound journal is rewritten with nothing lost.
    ///
    /// # Errors
    /// [`JournalError::InUse`], [`Foreign`](JournalError::Foreign) and
    /// [`Newer`](JournalError::Newer) as for [`Journal::open`], or what the system says.
    pub fn recover(dir: &Path) -> Result<RecoveryReport, JournalError> {
        let files = Files::of(dir)?;
        let lock = store::lock(&files)?;
        let damaged = match std::fs::read_to_string(&files.recovering) {
            Ok(number) => files.damaged(number.parse().map_err(|_| JournalError::Io {
                file: files.recovering.clone(),
                cause: format!("names no directory: `{number}`"),
            })?),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(io_trouble(&files.recovering, &error));
            }
            Err(_) => {
                if !files.database.exists() && !files.mark.exists() {
                    let cause = "there is no journal here".to_owned();
                    return Err(JournalError::Io { file: files.database, cause });
                }
                refuse_what_is_not_ours(&files)?;
                let (number, damaged) = files.next_damaged();
                std::fs::create_dir(&damaged).map_err(|error| io_trouble(&damaged, &error))?;
                let note = store::beside(&files.recovering, ".new");
                std::fs::write(&note, number.to_string())
                    .map_err(|error| io_trouble(&note, &error))?;
                store::sync(&note)?;
                std::fs::rename(&note, &files.recovering)
                    .map_err(|error| io_trouble(&files.recovering, &error))?;
                files.sync_dir()?;
                damaged
            }
        };
        let source = Files::of(&damaged)?;
        move_aside(&files, &source)?;
        let salvage = salvage_file(&source);
        let report = RecoveryReport {
            moved_to: damaged,
            sequence: salvage.keeps,
            lost: lost(&source, &salvage),
            entries: salvage.entries.len() as u64,
        };
        if let Some(sequence) = salvage.keeps {
            store::build(&files, &salvage.snapshots, &salvage.entries)?;
            let last = salvage.entries.last().map(|row| row.chain);
            let chain = last.or(salvage.snapshots.last().map(|stored| stored.chain));
            let chain = chain.expect("what is kept has a snapshot");
            let write = || {
                let mark = MarkFile::open(&files.mark)?;
                mark.write(&Mark { sequence, chain })?;
                mark.sync()
            };
            write().map_err(|error| io_trouble(&files.mark, &error))?;
        }
        files.sync_dir()?;
        let ended = std::fs::remove_file(&files.recovering);
        ended.map_err(|error| io_trouble(&files.recovering, &error))?;
        files.sync_dir()?;
        drop(lock);
        Ok(report)
    }
}

/// A recovery is for damaged journals, not for other programs' files.
fn refuse_what_is_not_ours(files: &Files) -> Result<(), JournalError> {
    if !files.database.exists() {
        return Ok(());
    }
    let file = &files.database;
    let Ok(connection) = store::connect(file) else {
        return Ok(());
    };
    match store::read(&connection, file) {
        Err(why @ (Unreadable::Foreign(_) | Unreadable::Newer(_))) => Err(explain(files, why)),
        _ => Ok(()),
    }
}

/// Move the files of a journal into another directory; the database last, so that its being
/// there shows that all are.
fn move_aside(files: &Files, to: &Files) -> Result<(), JournalError> {
    if to.database.exists() {
        return Ok(());
    }
    let wal = |files: &Files| store::beside(&files.database, "-wal");
    let shm = |files: &Files| store::beside(&files.database, "-shm");
    let moves = [
        (wal(files), wal(to)),
        (shm(files), shm(to)),
        (files.mark.clone(), to.mark.clone()),
        (files.database.clone(), to.database.clone()),
    ];
    for (from, to) in moves {
        match std::fs::rename(&from, &to) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(io_trouble(&from, &error));
            }
            _ => (),
        }
    }
    to.sync_dir()?;
    files.sync_dir()
}
