//! The database file: its form, how a whole one is made, and how one is read and verified.

use crate::error::JournalError;
use crate::mark;
use crate::record::{Chain, Entry, Row, Stored};
use ledger::Ledger;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags, OptionalExtension, ffi};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// "allt", in the file's header.
const APPLICATION_ID: i64 = 0x616c_6c74;
/// The format that is written here.
pub(crate) const FORMAT: i64 = 1;

/// The shortest beginning of a database: its header.
const HEADER_BYTES: u64 = 100;

const ENTRIES: &str = "CREATE TABLE entries (sequence INTEGER PRIMARY KEY, boot TEXT NOT NULL, \
    prior BLOB NOT NULL, chain BLOB NOT NULL, body BLOB NOT NULL) STRICT";
const SNAPSHOTS: &str = "CREATE TABLE snapshots (sequence INTEGER PRIMARY KEY, \
    boot TEXT NOT NULL, chain BLOB NOT NULL, seal BLOB NOT NULL, body BLOB NOT NULL) STRICT";

pub(crate) const INSERT_ENTRY: &str =
    "INSERT INTO entries (sequence, boot, prior, chain, body) VALUES (?1, ?2, ?3, ?4, ?5)";
pub(crate) const INSERT_SNAPSHOT: &str =
    "INSERT INTO snapshots (sequence, boot, chain, seal, body) VALUES (?1, ?2, ?3, ?4, ?5)";

/// The files of a journal, all in one directory.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub dir: PathBuf,
    pub database: PathBuf,
    pub mark: PathBuf,
    pub lock: PathBuf,
    /// A database that is being made; nothing of worth.
    pub unfinished: PathBuf,
    /// There while a recovery is under way; holds the number of its `damaged-N`.
    pub recovering: PathBuf,
}

impl Files {
    pub(crate) fn of(dir: &Path) -> Result<Files, JournalError> {
        if !dir.is_dir() {
            return Err(JournalError::NoDirectory { dir: dir.to_owned() });
        }
        Ok(Files {
            dir: dir.to_owned(),
            database: dir.join("journal.sqlite"),
            mark: dir.join("journal.mark"),
            lock: dir.join("journal.lock"),
            unfinished: dir.join("journal.unfinished"),
            recovering: dir.join("journal.recovering"),
        })
    }

    /// Where the next recovery moves what is damaged.
    pub(crate) fn next_damaged(&self) -> (u64, PathBuf) {
        let fresh = (1..).find(|number| !self.damaged(*number).exists());
        let number = fresh.expect("some number is free");
        (number, self.damaged(number))
    }

    pub(crate) fn damaged(&self, number: u64) -> PathBuf {
        self.dir.join(format!("damaged-{number}"))
    }

    /// Make renames and new files in the directory durable.
    pub(crate) fn sync_dir(&self) -> Result<(), JournalError> {
        sync(&self.dir)
    }
}

pub(crate) fn sync(path: &Path) -> Result<(), JournalError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|error| io_trouble(path, &error))
}

/// A file beside another, by what is appended to its name.
pub(crate) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Take the lock on a directory. It ends with the process, however it ends, and is not
/// inherited by children: SQLite uses POSIX record locks and keeps its own account within one
/// process. The file stays empty, since the transaction never commits.
pub(crate) fn lock(files: &Files) -> Result<Connection, JournalError> {
    let file = &files.lock;
    let trouble = |error| trouble(file, &error);
    let lock = Connection::open_with_flags(
        file,
        OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .map_err(trouble)?;
    // SQLite opens what it may not write to for reading.
    if lock.is_readonly(MAIN_DB).map_err(trouble)? {
        let cause = "it is read-only".to_owned();
        return Err(JournalError::NotWritable { file: file.clone(), cause });
    }
    lock.busy_timeout(std::time::Duration::ZERO).map_err(trouble)?;
    lock.pragma_update(None, "journal_mode", "MEMORY").map_err(trouble)?;
    match lock.execute_batch("BEGIN EXCLUSIVE") {
        Ok(()) => Ok(lock),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
            Err(JournalError::InUse { file: file.clone() })
        }
        Err(error) => Err(trouble(error)),
    }
}

/// Open an existing database for reading and writing, so that nothing in it changes until
/// something is written: not even a `-wal` is folded in at close.
pub(crate) fn connect(file: &Path) -> rusqlite::Result<Connection> {
    // SQLite takes a file of no byte, or of one, for a new database, and deletes a `-wal` beside it: by then the only
    // place where entries are.
    if std::fs::metadata(file).is_ok_and(|found| found.len() < HEADER_BYTES) {
        let failure = ffi::Error::new(ffi::SQLITE_CORRUPT);
        let cause = "there is nothing in it".to_owned();
        return Err(rusqlite::Error::SqliteFailure(failure, Some(cause)));
    }
    let connection = Connection::open_with_flags(
        file,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    if connection.is_readonly(MAIN_DB)? {
        let failure = ffi::Error::new(ffi::SQLITE_READONLY);
        return Err(rusqlite::Error::SqliteFailure(failure, None));
    }
    connection.busy_timeout(std::time::Duration::ZERO)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // Exclusive from the first access: no shared memory file, and the lock is kept.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

/// Prepare a verified database for writing.
pub(crate) fn make_writable(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Checkpoints are made by the journal, which looks at their outcome; SQLite's own are not.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // Nothing reaches the files before a commit, so an append can fail for want of room only
    // there.
    connection.pragma_update(None, "cache_spill", false)?;
    Ok(())
}

/// Make a whole database and put it in place of `files.database` in one step.
pub(crate) fn build(
    files: &Files,
    snapshots: &[Stored],
    entries: &[Row],
) -> Result<(), JournalError> {
    let file = &files.unfinished;
    for stale in ["", "-wal", "-journal", "-shm"] {
        remove(&beside(file, stale))?;
    }
    let write = || -> rusqlite::Result<()> {
        let mut connection = Connection::open(file)?;
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        make_writable(&connection)?;
        let transaction = connection.transaction()?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", FORMAT)?;
        transaction.execute_batch(&format!("{ENTRIES}; {SNAPSHOTS};"))?;
        snapshots.iter().try_for_each(|stored| insert_snapshot(&transaction, stored))?;
        entries.iter().try_for_each(|row| insert_entry(&transaction, row))?;
        transaction.commit()?;
        checkpoint(&connection)?;
        connection.close().map_err(|(_, error)| error)
    };
    write().map_err(|error| trouble(file, &error))?;
    remove(&beside(file, "-wal"))?;
    sync(file)?;
    std::fs::rename(file, &files.database).map_err(|error| io_trouble(&files.database, &error))?;
    files.sync_dir()
}

/// Fold the `-wal` into the database, synced, and empty it.
pub(crate) fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    wal_checkpoint(connection, "TRUNCATE").map(drop)
}

/// Fold the `-wal` into the database, synced. It keeps its blocks, and the next commit begins it anew.
pub(crate) fn restart(connection: &Connection) -> rusqlite::Result<()> {
    wal_checkpoint(connection, "RESTART").map(drop)
}

/// The size of what is in the `-wal` now; the file may be larger.
pub(crate) fn wal_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let frames = wal_checkpoint(connection, "NOOP")?;
    let page: u64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    // Each with a header of 24 bytes, and the file's of 32.
    Ok(32 + frames * (24 + page))
}

/// Answers how many frames the `-wal` has.
fn wal_checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<u64> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        let busy: i64 = row.get(0)?;
        assert_eq!(busy, 0, "nobody else has the database open");
        row.get(1)
    })
}

fn remove(file: &Path) -> Result<(), JournalError> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_trouble(file, &error)),
        _ => Ok(()),
    }
}

pub(crate) fn insert_entry(connection: &Connection, row: &Row) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(INSERT_ENTRY)?;
    insert.execute((row.sequence, &row.boot, &row.prior, &row.chain, &row.body))?;
    Ok(())
}

pub(crate) fn insert_snapshot(connection: &Connection, stored: &Stored) -> rusqlite::Result<()> {
    let Stored { sequence, boot, chain, seal, body } = stored;
    connection.execute(INSERT_SNAPSHOT, (sequence, boot, chain, seal, body))?;
    Ok(())
}

/// A row of `SELECT sequence, boot, prior, chain, body FROM entries`.
pub(crate) fn entry_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    Ok(Row {
        sequence: row.get(0)?,
        boot: row.get(1)?,
        prior: row.get(2)?,
        chain: row.get(3)?,
        body: row.get(4)?,
    })
}

/// A row of `SELECT sequence, boot, chain, seal, body FROM snapshots`.
pub(crate) fn snapshot_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Stored> {
    Ok(Stored {
        sequence: row.get(0)?,
        boot: row.get(1)?,
        chain: row.get(2)?,
        seal: row.get(3)?,
        body: row.get(4)?,
    })
}

/// What a sound database holds.
#[derive(Debug)]
pub(crate) struct Contents {
    pub ledger: Ledger,
    pub sequence: u64,
    pub chain: Chain,
    /// During which boot the newest entry was written.
    pub boot: String,
    pub replayed: u64,
    /// The newest snapshot's entry and size, and the size of the entries after it.
    pub snapshot_sequence: u64,
    pub snapshot_bytes: u64,
    pub bytes_since: u64,
    /// The oldest entry kept; above `sequence` if there is none.
    pub oldest: u64,
}

/// Why a database could not be read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    Foreign(String),
    Newer(i64),
    Damaged { entry: Option<u64>, cause: String },
    Failed(JournalError),
}

impl Unreadable {
    fn damaged(entry: Option<u64>, cause: impl Into<String>) -> Unreadable {
        Unreadable::Damaged { entry, cause: cause.into() }
    }

    pub(crate) fn of(file: &Path, entry: Option<u64>, error: &rusqlite::Error) -> Unreadable {
        match is_damage(error) {
            true => Unreadable::damaged(entry, error.to_string()),
            false => Unreadable::Failed(trouble(file, error)),
        }
    }
}

/// Whether a failed read means that the file is not what was written, rather than that it
/// could not be read.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    let rusqlite::Error::SqliteFailure(failure, _) = error else {
        return true;
    };
    match failure.code {
        ErrorCode::SystemIoFailure => {
            [ffi::SQLITE_IOERR_SHORT_READ, ffi::SQLITE_IOERR_DATA].contains(&failure.extended_code)
        }
        ErrorCode::DatabaseCorrupt
        | ErrorCode::NotADatabase
        | ErrorCode::TypeMismatch
        | ErrorCode::TooBig
        | ErrorCode::SchemaChanged
        | ErrorCode::Unknown => true,
        _ => false,
    }
}

/// Read and verify a whole database: its form, every snapshot, every entry and the chain that
/// joins them, and SQLite's own structures.
pub(crate) fn read(connection: &Connection, file: &Path) -> Result<Contents, Unreadable> {
    let broken = |entry: Option<u64>| move |error| Unreadable::of(file, entry, &error);
    check_form(connection, file)?;
    let snapshots = connection
        .prepare("SELECT sequence, boot, chain, seal, body FROM snapshots ORDER BY sequence")
        .and_then(|mut select| select.query_map([], snapshot_row)?.collect::<Result<Vec<_>, _>>())
        .map_err(broken(None))?;
    if let Some(bad) = snapshots.iter().find(|stored| !stored.is_whole()) {
        let cause = "the snapshot of the ledger after it fails its checksum";
        return Err(Unreadable::damaged(Some(bad.sequence), cause));
    }
    let Some(newest) = snapshots.last() else {
        return Err(Unreadable::damaged(None, "there is no snapshot"));
    };
    let unfit = |cause| Unreadable::damaged(Some(newest.sequence), cause);
    let mut contents = Contents {
        ledger: newest.ledger().map_err(unfit)?,
        sequence: newest.sequence,
        chain: newest.chain,
        boot: newest.boot.clone(),
        replayed: 0,
        snapshot_sequence: newest.sequence,
        snapshot_bytes: newest.body.len() as u64,
        bytes_since: 0,
        oldest: newest.sequence + 1,
    };
    let mut last: Option<(u64, Chain)> = None;
    let mut select = connection
        .prepare("SELECT sequence, boot, prior, chain, body FROM entries ORDER BY sequence")
        .map_err(broken(None))?;
    let mut rows = select.query([]).map_err(broken(None))?;
    loop {
        let expected = last.map(|(sequence, _)| sequence + 1);
        let Some(row) = rows.next().map_err(broken(expected))? else {
            break;
        };
        let row = entry_row(row).map_err(broken(expected))?;
        let entry = Some(expected.unwrap_or(row.sequence));
        if entry != Some(row.sequence) {
            return Err(Unreadable::damaged(entry, "it is missing"));
        }
        if !row.is_whole() {
            return Err(Unreadable::damaged(entry, "it fails its checksum"));
        }
        let before = snapshots.iter().find(|stored| stored.sequence + 1 == row.sequence);
        let prior = last.map(|(_, chain)| chain).or(before.map(|stored| stored.chain));
        let at = snapshots.iter().find(|stored| stored.sequence == row.sequence);
        if prior.is_some_and(|prior| prior != row.prior)
            || at.is_some_and(|stored| stored.chain != row.chain)
        {
            return Err(Unreadable::damaged(entry, "it does not follow the one before"));
        }
        if last.is_none() {
            if row.sequence > newest.sequence + 1 {
                let missing = Some(newest.sequence + 1);
                return Err(Unreadable::damaged(missing, "it is missing"));
            }
            contents.oldest = row.sequence;
        }
        if row.sequence > newest.sequence {
            let changes = row.entry().map_err(|e| Unreadable::damaged(entry, e.to_string()))?;
            let replayed = contents.ledger.replay(changes.changes);
            replayed.map_err(|misfit| Unreadable::damaged(entry, misfit.to_string()))?;
            contents.sequence = row.sequence;
            contents.chain = row.chain;
            contents.boot.clone_from(&row.boot);
            contents.replayed += 1;
            contents.bytes_since += row.body.len() as u64;
        }
        last = Some((row.sequence, row.chain));
    }
    if last.is_some_and(|(sequence, _)| sequence < newest.sequence) {
        let missing = last.map(|(sequence, _)| sequence + 1);
        return Err(Unreadable::damaged(missing, "it is missing"));
    }
    let verdict: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(broken(None))?;
    match verdict.as_str() {
        "ok" => Ok(contents),
        _ => Err(Unreadable::damaged(None, verdict)),
    }
}

fn check_form(connection: &Connection, file: &Path) -> Result<(), Unreadable> {
    let broken = |error| Unreadable::of(file, None, &error);
    let pragma = |name: &str| {
        connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0))
    };
    let application = pragma("application_id").map_err(broken)?;
    let mut select = connection.prepare("SELECT sql FROM sqlite_schema").map_err(broken)?;
    let mut schema = select
        .query_map([], |row| row.get::<_, Option<String>>(0))
        .and_then(|rows| rows.collect::<Result<Vec<_>, _>>())
        .map_err(broken)?;
    schema.sort();
    let ours = schema.len() == 2
        && schema[0].as_deref() == Some(ENTRIES)
        && schema[1].as_deref() == Some(SNAPSHOTS);
    if application != APPLICATION_ID {
        // One flipped bit does not make another program's file of ours.
        return Err(match ours {
            true => Unreadable::damaged(None, "the header's application id is wrong"),
            false => Unreadable::Foreign(format!("application id {application}")),
        });
    }
    let format = pragma("user_version").map_err(broken)?;
    if format != FORMAT {
        return Err(match format > FORMAT {
            true => Unreadable::Newer(format),
            false => Unreadable::damaged(None, format!("the header says format {format}")),
        });
    }
    let mode: String =
        connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).map_err(broken)?;
    match ours && mode == "wal" {
        true => Ok(()),
        false => Err(Unreadable::damaged(None, "its tables or its mode are not those written")),
    }
}

/// The entry with a number, if the database has it.
pub(crate) fn chain_of(connection: &Connection, sequence: u64) -> rusqlite::Result<Option<Chain>> {
    let of = |table: &str| {
        let select = format!("SELECT chain FROM {table} WHERE sequence = ?1");
        connection.query_row(&select, [sequence], |row| row.get(0)).optional()
    };
    Ok(of("entries")?.or(of("snapshots")?))
}

/// Decode a verified row.
pub(crate) fn decode(file: &Path, row: &Row) -> Result<Entry, JournalError> {
    let bad = |cause: String| JournalError::Io {
        file: file.to_owned(),
        cause: format!("entry {}: {cause}", row.sequence),
    };
    if !row.is_whole() {
        return Err(bad("it fails its checksum".to_owned()));
    }
    row.entry().map_err(|error| bad(error.to_string()))
}

/// What SQLite said, about a file.
pub(crate) fn trouble(file: &Path, error: &rusqlite::Error) -> JournalError {
    let (file, cause) = (file.to_owned(), error.to_string());
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => JournalError::Full { file, cause },
        Some(ErrorCode::DatabaseBusy) => JournalError::InUse { file },
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            JournalError::NotWritable { file, cause }
        }
        _ => JournalError::Io { file, cause },
    }
}

/// What the system said, about a file.
pub(crate) fn io_trouble(file: &Path, error: &io::Error) -> JournalError {
    let (file, cause) = (file.to_owned(), error.to_string());
    match error.kind() {
        io::ErrorKind::StorageFull => JournalError::Full { file, cause },
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            JournalError::NotWritable { file, cause }
        }
        _ => JournalError::Io { file, cause },
    }
}

/// Reads the mark beside the database.
pub(crate) fn read_mark(files: &Files) -> Result<mark::ReadMark, JournalError> {
    mark::read(&files.mark).map_err(|error| io_trouble(&files.mark, &error))
}
