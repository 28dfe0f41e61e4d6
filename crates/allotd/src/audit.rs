//! The audit: who changed what, apart from what merely happens to processes.
//!
//! A directory of files, one a day, with one event a line as JSON: they can be copied, searched and
//! kept elsewhere while allotd runs. They are written after the journal, which has everything
//! before it is acknowledged; what an end of allotd kept out of the files is taken from the journal.

use crate::event::event;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use journal::{Entry, Journal};
use ledger::Authority;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use wire::Event;

/// How long a file is kept after its last line: a year, and a leap day.
const KEPT: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// The most bytes of all files; the oldest go first.
const BYTES_MAX: u64 = 256 << 20;
/// The most journal entries that are looked at at once.
const PAGE: usize = 1000;

/// The files, written to.
pub struct Audit {
    dir: PathBuf,
    /// The newest, by its name.
    file: Option<(String, File)>,
    /// The journal's number of the last line.
    last: u64,
    /// Something could not be written yet.
    is_behind: bool,
    is_unsynced: bool,
}

impl Audit {
    /// The directory of the files below a state directory.
    pub fn directory(state_dir: &Path) -> PathBuf {
        state_dir.join("audit")
    }

    /// Opens the files, and writes what the journal has and they lack.
    pub fn open(dir: PathBuf, journal: &Journal) -> Audit {
        let (file, last) = (None, 0);
        let mut audit = Audit { dir, file, last, is_behind: true, is_unsynced: false };
        audit.keep_up(journal);
        audit
    }

    /// Adds what people asked for, of entries that are durable.
    pub fn note(&mut self, entries: &[Entry]) {
        if self.is_behind {
            return;
        }
        let mut asked = entries.iter().filter(|entry| is_asked(entry)).map(event);
        let noted = asked.try_for_each(|event| self.write(&event));
        self.must_keep_up(noted);
    }

    /// Adds what somebody asked for that is not in the journal.
    pub fn note_besides(&mut self, event: &Event) {
        let noted = self.write(event);
        self.must_keep_up(noted);
    }

    /// Makes up for what could not be written, and makes all of it durable. Cheap where there is
    /// nothing to do.
    pub fn keep_up(&mut self, journal: &Journal) {
        if self.is_behind {
            self.is_behind = false;
            let caught_up = self.catch_up(journal);
            self.must_keep_up(caught_up);
        }
        if std::mem::take(&mut self.is_unsynced)
            && let Some((_, file)) = &self.file
            && let Err(error) = file.sync_data()
        {
            tracing::error!("the audit may not be on disk: {error}");
        }
    }

    fn must_keep_up(&mut self, noted: io::Result<()>) {
        if let Err(error) = noted {
            tracing::error!("the audit in {} cannot be written: {error}", self.dir.display());
            self.is_behind = true;
        }
    }

    fn catch_up(&mut self, journal: &Journal) -> io::Result<()> {
        if !self.dir.is_dir() {
            DirBuilder::new().mode(0o700).recursive(true).create(&self.dir)?;
        }
        self.file = None;
        // After a recovery the journal's numbers begin anew below those written.
        self.last = self.last_line()?.min(journal.sequence());
        loop {
            let page = journal.entries(self.last, PAGE).map_err(io::Error::other)?;
            let Some(end) = page.last().map(|entry| entry.sequence) else { return Ok(()) };
            for entry in page.iter().filter(|entry| is_asked(entry)) {
                self.write(&event(entry))?;
            }
            self.last = end;
        }
    }

    /// The number of the last line that has one; a line that was cut short goes.
    fn last_line(&self) -> io::Result<u64> {
        let files = files(&self.dir)?;
        if let Some(newest) = files.last() {
            let text = fs::read(newest)?;
            let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            if whole < text.len() {
                OpenOptions::new().write(true).open(newest)?.set_len(whole as u64)?;
            }
        }
        for file in files.iter().rev() {
            let lines = fs::read_to_string(file)?;
            let number = |line: &str| serde_json::from_str::<Event>(line).ok()?.sequence;
            if let Some(last) = lines.lines().rev().find_map(number) {
                return Ok(last);
            }
        }
        Ok(0)
    }

    fn write(&mut self, event: &Event) -> io::Result<()> {
        let name = file_name(event.at_unix_ms);
        if self.file.as_ref().is_none_or(|(open, _)| *open != name) {
            let mut options = OpenOptions::new();
            options.create(true).append(true).mode(0o600);
            let file = options.open(self.dir.join(&name))?;
            self.file = Some((name, file));
            prune(&self.dir, SystemTime::now(), BYTES_MAX)?;
        }
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        let (_, file) = self.file.as_mut().expect("just opened");
        file.write_all(&line)?;
        self.is_unsynced = true;
        self.last = event.sequence.unwrap_or(self.last);
        Ok(())
    }
}

/// Whether somebody asked for it.
fn is_asked(entry: &Entry) -> bool {
    matches!(entry.authority, Authority::Caller(_))
}

/// Gives every line since a time, oldest first, to `take`, while `is_wanted` and until that answers false.
///
/// # Errors
/// An audit that cannot be read.
pub fn read(
    dir: &Path,
    since_unix_ms: u64,
    is_wanted: impl Fn() -> bool,
    mut take: impl FnMut(String) -> bool,
) -> io::Result<()> {
    let first = file_name(since_unix_ms);
    for path in files(dir)? {
        // Names are in the order of days.
        if path.file_name().is_some_and(|name| name < first.as_str()) {
            continue;
        }
        for line in BufReader::new(File::open(path)?).lines() {
            let line = line?;
            if !is_wanted() {
                return Ok(());
            }
            let at = serde_json::from_str::<Event>(&line).map(|event| event.at_unix_ms);
            if at.is_ok_and(|at| at >= since_unix_ms) && !take(line) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The file of a day, in UTC.
fn file_name(at_unix_ms: u64) -> String {
    let at = i64::try_from(at_unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let day = at.unwrap_or(Timestamp::MAX).to_zoned(TimeZone::UTC).strftime("%F").to_string();
    format!("audit-{day}.jsonl")
}

/// The files, oldest first.
fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("audit-") && name.ends_with(".jsonl") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Removes files that are older than must be kept, and the oldest where all are too large; never the
/// newest.
fn prune(dir: &Path, now: SystemTime, bytes_max: u64) -> io::Result<()> {
    let mut files = files(dir)?;
    files.pop();
    let mut bytes = 0;
    for path in files.into_iter().rev() {
        let found = fs::metadata(&path)?;
        bytes += found.len();
        let age = now.duration_since(found.modified()?).unwrap_or_default();
        if age > KEPT || bytes > bytes_max {
            let name = path.display();
            if age <= KEPT {
                tracing::warn!(
                    "{name} goes before its year is over: the audit is larger than {bytes_max} bytes"
                );
            }
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_of_a_day_and_old_ones_go() {
        assert_eq!(file_name(0), "audit-1970-01-01.jsonl");
        assert_eq!(file_name(951_782_400_123), "audit-2000-02-29.jsonl");
        let dir = tempfile::tempdir().expect("a directory");
        let now = SystemTime::now();
        let day = Duration::from_secs(24 * 60 * 60);
        for (name, age) in [("1", 400), ("2", 365), ("3", 1), ("4", 0)] {
            let path = dir.path().join(format!("audit-200{name}-01-01.jsonl"));
            fs::write(&path, "0123456789").expect("written");
            let file = OpenOptions::new().write(true).open(path).expect("opened");
            file.set_modified(now - day * age).expect("it is ours");
        }
        let left = || files(dir.path()).expect("listed").len();
        prune(dir.path(), now, 100).expect("pruned");
        assert_eq!(left(), 3, "older than a year");
        prune(dir.path(), now, 10).expect("pruned");
        assert_eq!(left(), 2, "10 bytes besides the newest");
        prune(dir.path(), now, 0).expect("pruned");
        assert_eq!(left(), 1, "the newest stays");
    }
}
