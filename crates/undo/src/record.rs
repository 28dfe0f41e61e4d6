//! The record of everything that was changed: one file that outlives its writer.
//!
//! A fixed table of processes first ([`ProcessTable`], for changes that are made thousands of times a second),
//! then a log of everything else. Both are written **before** the change that they are about. Where the file has a
//! path, it outlives the guardian too, and [`restore_leftovers`](crate::restore_leftovers) works from it.

mod file;
pub(crate) mod format;
mod legacy;
pub(crate) mod table;
#[cfg(test)]
mod tests;

pub use file::open_private;
pub use format::{
    Contents, Header, IDLED, Log, LogEntry, MOST_PROCESSES, OriginalState, ProcessEntry, STOPPED,
};
pub use table::{ProcessTable, Slot};

use file::lock;
use format::{Beginning, HEADER_BYTES, Line, MOST_LOG_BYTES, SlotContent};
use observe::ticks_since_boot;
use rustix::fs::FallocateFlags;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(crate) use file::boot_id;

/// Options of a new record.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The enforcer that writes it, in at most 16 bytes.
    pub writer: &'static str,
    /// The most processes and threads that can be held at once, up to [`MOST_PROCESSES`]; 0 where none are.
    pub processes: u32,
    /// Entries that hold from the beginning and as long as the record does.
    pub standing: Vec<LogEntry>,
}

/// A record. Written by one thread of one process.
pub struct Record {
    /// Processes that are held.
    pub processes: ProcessTable,
    file: File,
    header: Header,
    /// Where the standing entries end.
    standing_end: u64,
    /// Where the log ends: what a failed write left behind this counts for nothing.
    log_end: u64,
    /// Number of entries that were not given back, by key.
    known: BTreeMap<String, usize>,
}

/// The kind of a file that was opened.
pub(crate) enum RecordFile {
    Record(Record),
    /// A record that a former version left.
    Legacy(Contents),
    /// A record in a layout of another version.
    OtherVersion(u8),
    Unknown,
}

/// A file at a path, which nobody else uses as long as this lives.
pub(crate) struct Leftover {
    pub found: RecordFile,
    /// Has the lock.
    _file: File,
}

impl Record {
    /// Makes a new record: in this file, which must not be in use and is emptied, or in memory without a name.
    ///
    /// # Errors
    /// When the file cannot be used, or there is no room for the table.
    pub fn create(path: Option<&Path>, options: &RecordOptions) -> io::Result<Record> {
        let file = match path {
            Some(path) => {
                let file = open_private(path)?;
                lock(&file)?;
                file.set_len(0)?;
                file
            }
            None => {
                let flags = rustix::fs::MemfdFlags::CLOEXEC;
                File::from(rustix::fs::memfd_create("allot-record", flags)?)
            }
        };
        let header = Header {
            boot: boot_id()?,
            made_ticks: ticks_since_boot(),
            capacity: options.processes.min(MOST_PROCESSES),
            writer: options.writer.to_owned(),
        };
        let start = header.log_start();
        // Really there, so that no store can fail for want of space.
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, start)?;
        let processes = ProcessTable::map(&file, &header)?;
        processes.begin(&header);
        let known = BTreeMap::new();
        let mut record =
            Record { processes, file, header, standing_end: start, log_end: start, known };
        for entry in &options.standing {
            record.append(&Line::Noted(entry.clone()))?;
        }
        record.standing_end = record.log_end;
        Ok(record)
    }

    /// The record in an open file; `None` when it holds none of this version.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn of(file: File) -> io::Result<Option<Record>> {
        match RecordFile::in_file(&file)? {
            RecordFile::Record(record) => Ok(Some(record)),
            _ => Ok(None),
        }
    }

    /// The file, for the guardian to inherit, with its lock.
    ///
    /// # Errors
    /// When there are no more descriptors.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Its beginning.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Whether something of this key was noted and not given back.
    pub fn knows(&self, key: &str) -> bool {
        self.known.contains_key(key)
    }

    /// Whether everything that the log tells was given back, but for standing entries.
    pub fn is_settled(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether the log has half of the room that it may have. Entries that were given back take room until everything is.
    pub fn is_half_full(&self) -> bool {
        self.log_end - self.header.log_start() > MOST_LOG_BYTES / 2
    }

    /// Notes how something is before it is changed for the first time. The first that is noted of a key is as it was
    /// found; nothing is noted for a key that is known.
    ///
    /// # Errors
    /// When it cannot be kept. Then nothing may be changed.
    pub fn note(&mut self, entry: LogEntry) -> io::Result<()> {
        if self.knows(&entry.key) { Ok(()) } else { self.note_again(entry) }
    }

    /// Notes how something is, also where its key is known: it is given back from both entries, the newer first.
    ///
    /// # Errors
    /// When it cannot be kept. Then nothing may be changed.
    pub fn note_again(&mut self, entry: LogEntry) -> io::Result<()> {
        let key = entry.key.clone();
        self.append(&Line::Noted(entry))?;
        *self.known.entry(key).or_default() += 1;
        Ok(())
    }

    /// Notes that what was last noted of a key is as it was found, and is somebody else's to change from now on.
    /// When it is changed again, it is noted anew.
    ///
    /// # Errors
    /// When it cannot be kept. Then it is given back again at the end.
    pub fn note_given_back(&mut self, key: &str) -> io::Result<()> {
        let Some(number) = self.known.get(key).copied() else { return Ok(()) };
        let is_last = number == 1 && self.known.len() == 1;
        if is_last {
            // Nothing is left that counts, so the log need not grow for ever.
            self.truncate(self.standing_end)?;
        } else {
            self.append(&Line::GivenBack { given_back: key.to_owned() })?;
        }
        match number {
            1 => drop(self.known.remove(key)),
            _ => drop(self.known.insert(key.to_owned(), number - 1)),
        }
        Ok(())
    }

    fn append(&mut self, line: &Line) -> io::Result<()> {
        let bytes = line.bytes()?;
        let end = self.log_end + bytes.len() as u64;
        if end - self.header.log_start() > MOST_LOG_BYTES {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the record is full"));
        }
        if let Err(error) = self.file.write_all_at(&bytes, self.log_end) {
            // Best effort: the next entry is written over the half of this one.
            let _ = self.file.set_len(self.log_end);
            return Err(error);
        }
        self.log_end = end;
        Ok(())
    }

    fn truncate(&mut self, end: u64) -> io::Result<()> {
        self.file.set_len(end)?;
        self.log_end = end;
        Ok(())
    }

    /// Forgets everything but standing entries: all was given back.
    ///
    /// # Errors
    /// When the log cannot be cut short.
    pub fn forget(&mut self) -> io::Result<()> {
        self.truncate(self.standing_end)?;
        self.known.clear();
        self.processes.clear();
        Ok(())
    }

    /// Reads all that it tells now.
    pub fn contents(&self) -> Contents {
        let mut processes = Vec::new();
        let mut unreadable = 0;
        for content in self.processes.contents() {
            match content {
                SlotContent::Free => {}
                SlotContent::Entry(entry) => processes.push(entry),
                SlotContent::Unreadable => unreadable += 1,
            }
        }
        let bytes = bytes_from(&self.file, self.header.log_start());
        let (log, trouble) = match bytes {
            Ok(bytes) => (Log::of(&bytes), None),
            Err(error) => (Log::default(), Some(format!("its log cannot be read: {error}"))),
        };
        Contents { header: self.header.clone(), processes, log, unreadable, trouble }
    }
}

impl RecordFile {
    fn in_file(file: &File) -> io::Result<RecordFile> {
        let mut beginning = Vec::with_capacity(HEADER_BYTES);
        At { file, offset: 0 }.take(HEADER_BYTES as u64).read_to_end(&mut beginning)?;
        let header = match Beginning::of(&beginning) {
            Beginning::Record(header) => header,
            Beginning::OtherVersion(version) => return Ok(RecordFile::OtherVersion(version)),
            Beginning::Unknown => {
                let legacy = legacy::read(&bytes_from(file, 0)?);
                return Ok(legacy.map_or(RecordFile::Unknown, RecordFile::Legacy));
            }
        };
        let start = header.log_start();
        if file.metadata()?.len() < start {
            return Ok(RecordFile::Unknown);
        }
        let bytes = bytes_from(file, start)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let mut known = BTreeMap::new();
        for entry in Log::of(&bytes).entries {
            *known.entry(entry.key).or_default() += 1;
        }
        let processes = ProcessTable::map(file, &header)?;
        let (file, log_end) = (file.try_clone()?, start + whole as u64);
        Ok(RecordFile::Record(Record {
            processes,
            file,
            header,
            standing_end: start,
            log_end,
            known,
        }))
    }
}

impl Leftover {
    /// The file at a path, once nobody uses it any more (a guardian may be at work); `None` when there is none.
    pub fn at(path: &Path) -> io::Result<Option<Leftover>> {
        if !path.exists() {
            return Ok(None);
        }
        let file = open_private(path)?;
        lock(&file)?;
        Ok(Some(Leftover { found: RecordFile::in_file(&file)?, _file: file }))
    }
}

/// Reads a file without moving its position, which belongs to its writer too.
struct At<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

fn bytes_from(file: &File, offset: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    At { file, offset }.take(MOST_LOG_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}
