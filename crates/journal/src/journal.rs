//! The open journal.

use crate::error::JournalError;
use crate::mark::{Mark, MarkFile, ReadMark};
use crate::record::{BodyRef, Chain, Entry, Row, Stored, first_chain};
use crate::room::Room;
use crate::salvage::forecast;
use crate::store::{self, Contents, Files, Unreadable, read_mark};
use ledger::{Authority, Change, Intent, Ledger};
use rusqlite::{Connection, ErrorCode};
use std::path::{Path, PathBuf};

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// How many of the newest entries, at least, remain readable by [`Journal::entries`].
    pub entries: u64,
    /// After how many entries, at least, a snapshot is due. It is due no sooner than the
    /// entries since the last one are as large as that one, so its cost per entry is bounded.
    pub snapshot_after: u64,
    /// Above this many bytes the `-wal` is folded into the database.
    pub fold_bytes: u64,
    /// How many bytes of disk the `-wal` has in advance. What is above `fold_bytes` when the disk is full is for what
    /// happens to processes, and for the superuser.
    pub reserve_bytes: u64,
}

impl Keep {
    /// What a daemon keeps.
    pub const DEFAULT: Keep =
        Keep { entries: 10_000, snapshot_after: 5000, fold_bytes: 4 << 20, reserve_bytes: 8 << 20 };
}

/// What was read when the journal was opened.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The ledger after the last durable operation.
    pub ledger: Ledger,
    /// That operation's number; 0 if there was none.
    pub sequence: u64,
    /// Whether the newest entry was written during this boot. If not, every client in the
    /// ledger names a process of an earlier boot, and the first batch must remove them all: it
    /// is from then on that the journal belongs to this boot.
    pub same_boot: bool,
    /// How many entries after the newest snapshot were replayed.
    pub replayed: u64,
}

/// The journal of one state directory, open for writing by this process alone.
#[derive(Debug)]
pub struct Journal {
    files: Files,
    keep: Keep,
    boot: String,
    /// During which boot the newest entry was written.
    last_boot: String,
    sequence: u64,
    chain: Chain,
    snapshot_sequence: u64,
    snapshot_bytes: u64,
    bytes_since: u64,
    oldest: u64,
    /// Why nothing can be written until it is read again.
    stopped: Option<String>,
    room: Room,
    mark: MarkFile,
    /// `None` only while it is read again and after that failed.
    connection: Option<Connection>,
    // Last, so that it is dropped last.
    lock: Option<Connection>,
}

impl Journal {
    /// Open the journal in `dir`, or begin one whose ledger belongs to `owner` and `group`.
    /// `boot_id` is the kernel's name for this boot.
    ///
    /// # Errors
    /// See [`JournalError`]. A damaged journal is left as it was found.
    pub fn open(
        dir: &Path,
        boot_id: &str,
        owner: u32,
        group: u32,
    ) -> Result<(Journal, Recovered), JournalError> {
        Journal::open_keeping(dir, boot_id, owner, group, Keep::DEFAULT)
    }

    /// As [`open`](Journal::open), with other limits on what is kept.
    ///
    /// # Errors
    /// As [`open`](Journal::open).
    pub fn open_keeping(
        dir: &Path,
        boot_id: &str,
        owner: u32,
        group: u32,
        keep: Keep,
    ) -> Result<(Journal, Recovered), JournalError> {
        let files = Files::of(dir)?;
        let lock = store::lock(&files)?;
        if files.recovering.exists() {
            return Err(JournalError::Interrupted { file: files.recovering });
        }
        if is_new(&files)? {
            begin_ledger(&files, boot_id, owner, group)?;
        }
        let (connection, contents) = open_database(&files)?;
        let mark = open_mark(&files, &contents)?;
        let mut journal = Journal {
            files,
            keep,
            boot: boot_id.to_owned(),
            last_boot: contents.boot.clone(),
            sequence: 0,
            chain: [0; 32],
            snapshot_sequence: 0,
            snapshot_bytes: 0,
            bytes_since: 0,
            oldest: 0,
            stopped: None,
            room: Room::new(keep.fold_bytes, keep.reserve_bytes),
            mark,
            connection: Some(connection),
            lock: Some(lock),
        };
        let recovered = journal.take_over(contents);
        Ok((journal, recovered))
    }

    /// After [`JournalError::Unknown`]: drop what was being written, read the files again and
    /// say what is there. Whatever is there is durable afterwards.
    ///
    /// # Errors
    /// As [`open`](Journal::open); the journal then stays stopped and can be tried again.
    pub fn reopen(&mut self) -> Result<Recovered, JournalError> {
        self.stopped.get_or_insert_with(|| "it is being read again".to_owned());
        if let Some(connection) = self.connection.take() {
            // Let the close change nothing: what is in the files is the question.
            let config = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            let kept = connection.set_db_config(config, true);
            kept.map_err(|error| self.trouble(&error))?;
            drop(connection);
        }
        let (connection, contents) = open_database(&self.files)?;
        // A failed sync may have left pages of the `-wal` that no later sync writes. Folding
        // them into the database writes and syncs them anew.
        store::checkpoint(&connection).map_err(|error| self.trouble(&error))?;
        self.mark = open_mark(&self.files, &contents)?;
        self.connection = Some(connection);
        self.stopped = None;
        Ok(self.take_over(contents))
    }

    fn take_over(&mut self, contents: Contents) -> Recovered {
        self.sequence = contents.sequence;
        self.chain = contents.chain;
        self.snapshot_sequence = contents.snapshot_sequence;
        self.snapshot_bytes = contents.snapshot_bytes;
        self.bytes_since = contents.bytes_since;
        self.oldest = contents.oldest;
        self.last_boot = contents.boot;
        Recovered {
            ledger: contents.ledger,
            sequence: contents.sequence,
            same_boot: self.last_boot == self.boot,
            replayed: contents.replayed,
        }
    }

    /// The number of the last durable entry; 0 before the first.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The number of the oldest entry that is kept; one more than [`sequence`](Self::sequence)
    /// if there is none.
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Allocates the room that a full disk is to leave ([`Keep::reserve_bytes`]), where that is not done yet and the disk
    /// has enough.
    ///
    /// # Errors
    /// Why there is none, in words. The journal works without.
    pub fn reserve(&self) -> Result<(), String> {
        self.room.reserve(&store::beside(&self.files.database, "-wal"))
    }

    /// Whether the disk is full, so that only what happens to processes and what the superuser asks for can be written.
    pub fn lacks_room(&self) -> bool {
        self.room.is_lacking()
    }

    /// The database file.
    pub fn file(&self) -> PathBuf {
        self.files.database.clone()
    }

    /// Begin a batch: its entries become durable together, at one sync, or not at all.
    ///
    /// # Errors
    /// [`JournalError::Stopped`] until an unknown outcome is settled; otherwise what SQLite
    /// says.
    pub fn begin(&mut self) -> Result<Batch<'_>, JournalError> {
        if self.room.is_lacking() {
            self.fold();
        }
        self.connection()?
            .execute_batch("BEGIN IMMEDIATE")
            .map_err(|error| self.trouble(&error))?;
        let (sequence, chain) = (self.sequence, self.chain);
        let bytes = 0;
        Ok(Batch { journal: self, sequence, chain, bytes, asked: false, failed: None, open: true })
    }

    /// Up to `limit` durable entries after number `after`, in order, of those that are kept.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn entries(&self, after: u64, limit: usize) -> Result<Vec<Entry>, JournalError> {
        let read = || -> rusqlite::Result<Vec<Row>> {
            let select = "SELECT sequence, boot, prior, chain, body FROM entries \
                          WHERE sequence > ?1 ORDER BY sequence LIMIT ?2";
            let connection = self.connection.as_ref().expect("checked below");
            let mut select = connection.prepare_cached(select)?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let after = i64::try_from(after).unwrap_or(i64::MAX);
            select.query_map((after, limit), store::entry_row)?.collect()
        };
        self.connection()?;
        let rows = read().map_err(|error| self.trouble(&error))?;
        rows.iter().map(|row| store::decode(&self.files.database, row)).collect()
    }

    /// Write a snapshot, and drop what it makes superfluous, if enough was written since the
    /// last one. `ledger` must be the ledger after the last durable entry. Answers whether one
    /// was written.
    ///
    /// # Errors
    /// The journal is as it was, and can be used unless it says [`JournalError::Stopped`]. No
    /// entry is in doubt.
    pub fn snapshot_if_due(&mut self, ledger: &Ledger) -> Result<bool, JournalError> {
        let due = self.sequence - self.snapshot_sequence >= self.keep.snapshot_after
            && self.bytes_since >= self.snapshot_bytes;
        if due {
            self.snapshot(ledger)?;
        }
        Ok(due)
    }

    /// Write a snapshot now, so that the next start replays nothing.
    ///
    /// # Errors
    /// As [`snapshot_if_due`](Self::snapshot_if_due).
    pub fn snapshot(&mut self, ledger: &Ledger) -> Result<(), JournalError> {
        if self.sequence == self.snapshot_sequence {
            return Ok(());
        }
        let body = serde_json::to_vec(&ledger.snapshot()).expect("a ledger can be written");
        let bytes = body.len() as u64;
        let stored = Stored::new(self.sequence, &self.last_boot, self.chain, body);
        // The snapshot before stays, and the entries since, for the day this one is damaged.
        let spare = self.snapshot_sequence;
        let last_dropped = spare.min(self.sequence.saturating_sub(self.keep.entries));
        let connection = self.connection()?;
        let write = || {
            connection.execute_batch("BEGIN IMMEDIATE")?;
            store::insert_snapshot(connection, &stored)?;
            connection.execute("DELETE FROM snapshots WHERE sequence < ?1", [spare])?;
            connection.execute("DELETE FROM entries WHERE sequence <= ?1", [last_dropped])
        };
        let written = write();
        match written {
            Ok(_) => self.commit(self.sequence)?,
            Err(error) => {
                let trouble = self.trouble(&error);
                self.roll_back();
                return Err(trouble);
            }
        }
        self.oldest = self.oldest.max(last_dropped + 1);
        self.snapshot_sequence = self.sequence;
        self.snapshot_bytes = bytes;
        self.bytes_since = 0;
        // The mark is a lower bound: late is well.
        let _ = self.mark.sync();
        Ok(())
    }

    fn connection(&self) -> Result<&Connection, JournalError> {
        match (&self.stopped, &self.connection) {
            (None, Some(connection)) => Ok(connection),
            (cause, _) => Err(JournalError::Stopped {
                file: self.file(),
                cause: cause.clone().unwrap_or_else(|| "it is closed".to_owned()),
            }),
        }
    }

    /// Commit the transaction, which holds the entries up to `last`, if any.
    fn commit(&mut self, last: u64) -> Result<(), JournalError> {
        let Err(error) = self.connection()?.execute_batch("COMMIT") else {
            return Ok(());
        };
        self.roll_back();
        let (file, cause) = (self.file(), error.to_string());
        // A write that found no room did not complete the frame that makes the transaction
        // valid, so it can never come back. After any other failure (of a sync, above all) that
        // frame may be whole on disk although SQLite does not count it.
        if error.sqlite_error_code() == Some(ErrorCode::DiskFull) {
            return Err(JournalError::Full { file, cause });
        }
        self.stopped = Some(cause.clone());
        let first = self.sequence + 1;
        Err(match last >= first {
            true => JournalError::Unknown { file, first, last, cause },
            false => JournalError::Stopped { file, cause },
        })
    }

    fn roll_back(&mut self) {
        let Some(connection) = &self.connection else { return };
        // SQLite has rolled back by itself after some failures.
        if !connection.is_autocommit()
            && let Err(error) = connection.execute_batch("ROLLBACK")
        {
            self.stopped = Some(format!("rolling back: {error}"));
        }
    }

    /// After a durable commit: note it in the mark and keep the `-wal` small. Nothing here
    /// takes back what was committed.
    fn after_commit(&mut self) {
        let _ = self.mark.write(&Mark { sequence: self.sequence, chain: self.chain });
        self.fold();
    }

    fn fold(&mut self) {
        if let Some(connection) = &self.connection
            && let Err(error) = self.room.fold(connection)
        {
            self.stopped = Some(format!("folding in the -wal: {error}"));
        }
    }

    fn trouble(&self, error: &rusqlite::Error) -> JournalError {
        store::trouble(&self.files.database, error)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let _ = self.mark.sync();
        // The database is closed while the directory is still locked.
        drop(self.connection.take());
        drop(self.lock.take());
    }
}

/// Entries that become durable together. Dropped without a commit, none of them do.
#[derive(Debug)]
pub struct Batch<'a> {
    journal: &'a mut Journal,
    sequence: u64,
    chain: Chain,
    bytes: u64,
    /// Whether somebody but the superuser asked for any of it.
    asked: bool,
    failed: Option<String>,
    open: bool,
}

impl Batch<'_> {
    /// Append what was done; answers its number, which is good once the batch is committed.
    ///
    /// # Errors
    /// What SQLite says; the batch can then only be dropped.
    pub fn append(
        &mut self,
        at_unix_ms: u64,
        authority: &Authority,
        intent: &Intent,
        changes: &[Change],
    ) -> Result<u64, JournalError> {
        self.asked |= matches!(authority, Authority::Caller(caller) if caller.uid != 0);
        let body = BodyRef { at_unix_ms, authority, intent, changes };
        let body = serde_json::to_vec(&body).expect("an operation can be written");
        let row = Row::new(self.sequence + 1, &self.journal.boot, self.chain, body);
        let inserted = store::insert_entry(self.journal.connection()?, &row);
        inserted.map_err(|error| {
            self.failed = Some(error.to_string());
            self.journal.trouble(&error)
        })?;
        self.sequence = row.sequence;
        self.chain = row.chain;
        self.bytes += row.body.len() as u64;
        Ok(row.sequence)
    }

    /// Make the batch durable; answers the number of its last entry.
    ///
    /// # Errors
    /// [`JournalError::Unknown`] if the outcome is unknown; after any other error none of the
    /// batch was written.
    pub fn commit(mut self) -> Result<u64, JournalError> {
        if let Some(cause) = self.failed.take() {
            return Err(JournalError::Io { file: self.journal.file(), cause });
        }
        if self.asked && self.journal.room.is_lacking() {
            let cause = "what is left is kept for what happens to processes".to_owned();
            return Err(JournalError::Full { file: self.journal.file(), cause });
        }
        self.open = false;
        self.journal.commit(self.sequence)?;
        if self.sequence > self.journal.sequence {
            self.journal.sequence = self.sequence;
            self.journal.chain = self.chain;
            self.journal.bytes_since += self.bytes;
            self.journal.last_boot.clone_from(&self.journal.boot);
            self.journal.after_commit();
        }
        Ok(self.sequence)
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if self.open {
            self.journal.roll_back();
        }
    }
}

/// Whether the directory has no journal yet.
fn is_new(files: &Files) -> Result<bool, JournalError> {
    if files.database.exists() {
        return Ok(false);
    }
    let missing = match read_mark(files)? {
        ReadMark::Missing => return Ok(true),
        ReadMark::Damaged => 0,
        ReadMark::Mark(mark) => mark.sequence,
    };
    Err(JournalError::CutShort {
        file: files.database.clone(),
        has: 0,
        missing,
        forecast: forecast(files, None),
    })
}

fn begin_ledger(files: &Files, boot: &str, owner: u32, group: u32) -> Result<(), JournalError> {
    let snapshot = Ledger::new(owner, group).snapshot();
    let body = serde_json::to_vec(&snapshot).expect("a ledger can be written");
    let stored = Stored::new(0, boot, first_chain(&body), body);
    store::build(files, &[stored], &[])
}

/// Open the database and verify all of it before anything is written.
fn open_database(files: &Files) -> Result<(Connection, Contents), JournalError> {
    let (connection, contents) = verify(files)?;
    let writable = store::make_writable(&connection);
    writable.map_err(|error| store::trouble(&files.database, &error))?;
    Ok((connection, contents))
}

/// Open the database and verify all of it, and that it ends where the mark says. Writes nothing.
pub(crate) fn verify(files: &Files) -> Result<(Connection, Contents), JournalError> {
    let file = &files.database;
    let connect = || {
        let connection =
            store::connect(file).map_err(|error| Unreadable::of(file, None, &error))?;
        let contents = store::read(&connection, file)?;
        Ok((connection, contents))
    };
    let (connection, contents) = connect().map_err(|why| explain(files, why))?;
    match read_mark(files)? {
        ReadMark::Mark(mark) if mark.sequence > contents.sequence => {
            let forecast = forecast(files, Some(&connection));
            return Err(JournalError::CutShort {
                file: file.clone(),
                has: contents.sequence,
                missing: mark.sequence - contents.sequence,
                forecast,
            });
        }
        ReadMark::Mark(mark) => {
            let chain = store::chain_of(&connection, mark.sequence);
            let chain = chain.map_err(|error| store::trouble(file, &error))?;
            if chain.is_some_and(|chain| chain != mark.chain) {
                let cause = "journal.mark is of another journal".to_owned();
                return Err(corrupt(files, Some(&connection), Some(mark.sequence), cause));
            }
        }
        // It is made right after the database, before the first entry.
        ReadMark::Missing if contents.sequence == 0 => (),
        ReadMark::Missing => {
            let cause = "journal.mark is missing: entries may be missing from the end".to_owned();
            return Err(corrupt(files, Some(&connection), None, cause));
        }
        ReadMark::Damaged => {
            let cause = "journal.mark is damaged: entries may be missing from the end".to_owned();
            return Err(corrupt(files, Some(&connection), None, cause));
        }
    }
    Ok((connection, contents))
}

fn open_mark(files: &Files, contents: &Contents) -> Result<MarkFile, JournalError> {
    let open = || {
        let mark = MarkFile::open(&files.mark)?;
        mark.write(&Mark { sequence: contents.sequence, chain: contents.chain })?;
        mark.sync()?;
        Ok(mark)
    };
    let mark = open().map_err(|error| store::io_trouble(&files.mark, &error))?;
    files.sync_dir()?;
    Ok(mark)
}

/// Say what is wrong with the database and what a recovery would do.
pub(crate) fn explain(files: &Files, why: Unreadable) -> JournalError {
    let file = files.database.clone();
    match why {
        Unreadable::Foreign(cause) => JournalError::Foreign { file, cause },
        Unreadable::Newer(found) => JournalError::Newer { file, found, known: store::FORMAT },
        Unreadable::Damaged { entry, cause } => corrupt(files, None, entry, cause),
        Unreadable::Failed(error) => error,
    }
}

fn corrupt(
    files: &Files,
    connection: Option<&Connection>,
    entry: Option<u64>,
    cause: String,
) -> JournalError {
    let forecast = forecast(files, connection);
    JournalError::Corrupt { file: files.database.clone(), entry, cause, forecast }
}
