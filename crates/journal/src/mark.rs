//! The high-water mark: a small file that names the last acknowledged entry.
//!
//! SQLite takes a cut or damaged `-wal` for one whose end was never committed, and no checksum
//! in the database can show what is gone from its end. The mark can. It is written after each
//! commit and not synced until the next snapshot or close, so it costs no sync: it survives the
//! death of the process at once and that of the machine when the kernel wrote it back. It may
//! lag behind, never run ahead.

use crate::record::Chain;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What the mark says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub sequence: u64,
    pub chain: Chain,
}

/// What was found.
pub(crate) enum ReadMark {
    Missing,
    Damaged,
    Mark(Mark),
}

impl Mark {
    // Every mark has the same length: it is overwritten in place, so a full disk cannot stop it.
    fn line(&self) -> String {
        let chain = blake3::Hash::from_bytes(self.chain).to_hex();
        let text = format!("allot journal, last entry {:020} {chain}", self.sequence);
        let check = blake3::hash(text.as_bytes()).to_hex();
        format!("{text} {check}\n")
    }

    fn parse(line: &str) -> Option<Mark> {
        let mut words = line.strip_prefix("allot journal, last entry ")?.split(' ');
        let sequence = words.next()?.parse().ok()?;
        let chain = *blake3::Hash::from_hex(words.next()?).ok()?.as_bytes();
        let mark = Mark { sequence, chain };
        (mark.line() == line).then_some(mark)
    }
}

/// Read a mark.
pub(crate) fn read(file: &Path) -> io::Result<ReadMark> {
    match std::fs::read(file) {
        Ok(bytes) => {
            let text = std::str::from_utf8(&bytes).ok();
            Ok(text.and_then(Mark::parse).map_or(ReadMark::Damaged, ReadMark::Mark))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ReadMark::Missing),
        Err(error) => Err(error),
    }
}

/// A mark that is kept up to date.
#[derive(Debug)]
pub(crate) struct MarkFile(File);

impl MarkFile {
    pub(crate) fn open(file: &Path) -> io::Result<MarkFile> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        Ok(MarkFile(options.open(file)?))
    }

    pub(crate) fn write(&self, mark: &Mark) -> io::Result<()> {
        self.0.write_all_at(mark.line().as_bytes(), 0)
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
