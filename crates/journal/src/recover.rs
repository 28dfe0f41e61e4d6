//! Verifying a closed journal, and saving what can be saved of a damaged one.

use crate::error::{Forecast, JournalError};
use crate::journal::{Journal, explain, read_mark, verify};
use crate::mark::{Found, Mark, MarkFile};
use crate::record::{Row, Stored};
use crate::store::{self, Files, Unreadable, io_trouble};
use rusqlite::{Connection, OptionalExtension};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What can be kept of a damaged journal.
#[derive(Debug, Default)]
struct Salvage {
    /// The snapshot to begin with, the older one besides if the entries between are whole.
    snapshots: Vec<Stored>,
    /// Entries without a gap, up to the last that is kept.
    entries: Vec<Row>,
    /// The last entry that is kept.
    keeps: Option<u64>,
    /// The highest number of a row that is whole.
    seen: u64,
}

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
        if !files.database.exists() && matches!(read_mark(&files)?, Found::Missing) {
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

/// What a recovery would do now, through a connection where one is open.
pub(crate) fn forecast(files: &Files, connection: Option<&Connection>) -> Forecast {
    let salvage = match connection {
        Some(connection) => salvage(connection),
        None => salvage_file(files),
    };
    let (_, moved_to) = files.next_damaged();
    Forecast { moved_to, keeps: salvage.keeps, loses: lost(files, &salvage) }
}

/// How many entries after the last kept one are known to have been.
fn lost(files: &Files, salvage: &Salvage) -> u64 {
    let marked = match read_mark(files) {
        Ok(Found::Mark(mark)) => mark.sequence,
        _ => 0,
    };
    marked.max(salvage.seen).saturating_sub(salvage.keeps.unwrap_or(0))
}

fn salvage_file(files: &Files) -> Salvage {
    if !files.database.exists() {
        return Salvage::default();
    }
    store::connect(&files.database).map_or_else(|_| Salvage::default(), |c| salvage(&c))
}

/// Collect every row that is whole, then find the snapshot from which they lead furthest.
fn salvage(connection: &Connection) -> Salvage {
    let entries = whole_rows(
        connection,
        "entries",
        "SELECT sequence, boot, prior, chain, body FROM entries",
        store::entry_row,
        |row| (row.sequence, row.is_whole()),
    );
    let snapshots = whole_rows(
        connection,
        "snapshots",
        "SELECT sequence, boot, chain, seal, body FROM snapshots",
        store::snapshot_row,
        |stored| (stored.sequence, stored.is_whole()),
    );
    let seen = entries.1.max(snapshots.1);
    let (mut entries, snapshots) = (entries.0, snapshots.0);
    let best = snapshots
        .values()
        .filter_map(|stored| Some((follow(stored, &entries)?, stored)))
        .max_by_key(|(last, stored)| (*last, stored.sequence));
    let Some((last, newest)) = best else {
        return Salvage { seen, ..Salvage::default() };
    };
    // Backwards from the last entry: what joins on without a gap is kept for the reader.
    let newest = newest.clone();
    entries.retain(|sequence, _| *sequence <= last);
    let mut kept: Vec<Row> = Vec::new();
    let mut next = last;
    while let Some(row) = entries.remove(&next) {
        let joins = match kept.last() {
            Some(after) => after.prior == row.chain,
            None => next > newest.sequence || row.chain == newest.chain,
        };
        if !joins {
            break;
        }
        kept.push(row);
        next = match next.checked_sub(1) {
            Some(next) => next,
            None => break,
        };
    }
    kept.reverse();
    let first = kept.first().map_or(last + 1, |row| row.sequence);
    // The spare snapshot is worth keeping where every entry after it is kept.
    let spare = snapshots.into_values().rev().find(|stored| {
        let chain = |row: &Row| match row.sequence == stored.sequence {
            true => row.chain == stored.chain,
            false => row.prior == stored.chain,
        };
        let joint = kept
            .iter()
            .find(|row| row.sequence == stored.sequence || row.sequence == stored.sequence + 1);
        stored.sequence < newest.sequence
            && stored.sequence + 1 >= first
            && joint.is_some_and(chain)
    });
    let snapshots = spare.into_iter().chain([newest]).collect();
    Salvage { snapshots, entries: kept, keeps: Some(last), seen }
}

/// How far the entries lead on from a snapshot; `None` if it is no ledger itself.
fn follow(stored: &Stored, entries: &BTreeMap<u64, Row>) -> Option<u64> {
    let mut ledger = stored.ledger().ok()?;
    let (mut last, mut chain) = (stored.sequence, stored.chain);
    while let Some(row) = entries.get(&(last + 1)) {
        let Ok(entry) = row.entry() else { break };
        if row.prior != chain || ledger.replay(entry.changes).is_err() {
            break;
        }
        (last, chain) = (row.sequence, row.chain);
    }
    Some(last)
}

/// Every row of a table that can be read and is whole, and the highest number of these: forwards
/// to the first trouble, backwards to the first trouble, and one by one between.
fn whole_rows<T>(
    connection: &Connection,
    table: &str,
    select: &str,
    read: impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    judge: impl Fn(&T) -> (u64, bool),
) -> (BTreeMap<u64, T>, u64) {
    let mut whole = BTreeMap::new();
    let mut seen = 0;
    let mut ends = Vec::new();
    for order in ["ASC", "DESC"] {
        let mut walk = || -> rusqlite::Result<()> {
            let mut select = connection.prepare(&format!("{select} ORDER BY sequence {order}"))?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                let Ok(number) = row.get::<_, u64>(0) else { continue };
                let item = read(row);
                if let Ok(item) = item
                    && let (sequence, true) = judge(&item)
                {
                    seen = seen.max(sequence);
                    ends.push(number);
                    whole.insert(sequence, item);
                }
            }
            Ok(())
        };
        if walk().is_ok() {
            return (whole, seen);
        }
    }
    let numbers = format!("SELECT sequence FROM {table} WHERE sequence > ?1 ORDER BY sequence");
    let mut between = || -> rusqlite::Result<()> {
        let mut one = connection.prepare(&format!("{select} WHERE sequence = ?1"))?;
        let mut numbers = connection.prepare(&numbers)?;
        // The numbers alone can often be read where the rows cannot.
        let mut known: Vec<u64> = Vec::new();
        let mut rows = numbers.query([-1])?;
        while let Ok(Some(row)) = rows.next() {
            known.extend(row.get::<_, u64>(0));
        }
        if let (Some(low), Some(high)) = (ends.iter().min(), ends.iter().max()) {
            known.extend((*low..=*high).take(1 << 20));
        }
        known.sort_unstable();
        known.dedup();
        for number in known {
            if whole.contains_key(&number) {
                continue;
            }
            if let Ok(Some(item)) = one.query_row([number], &read).optional()
                && let (sequence, true) = judge(&item)
            {
                seen = seen.max(sequence);
                whole.insert(sequence, item);
            }
        }
        Ok(())
    };
    // What cannot be read is what is lost.
    let _ = between();
    (whole, seen)
}
