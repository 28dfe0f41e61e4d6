//! Notes of a workload in a shared file in memory, which its experiment reads.

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// One note of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// The time when it was due, or began: CLOCK_MONOTONIC, in ns.
    pub at_ns: u64,
    /// Its duration in ns; [`Note::UNFINISHED`] while it goes on.
    pub took_ns: u64,
    /// A value of the workload's own.
    pub more: u64,
}

impl Note {
    /// The duration of what goes on.
    pub const UNFINISHED: u64 = u64::MAX;
}

/// The most notes of one workload; later ones are dropped.
const NOTES_MAX: usize = 1 << 16;
const NOTE_WORDS: usize = 3;

/// The notes of one workload: their number, then the notes.
pub struct Notes {
    start: NonNull<AtomicU64>,
}

impl Notes {
    const BYTES: usize = (NOTES_MAX * NOTE_WORDS + 1) * size_of::<AtomicU64>();

    /// Creates a file without notes.
    pub fn create(path: &Path) -> io::Result<Notes> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        file.set_len(Self::BYTES as u64)?;
        Self::map(&file)
    }

    /// Opens a file that another process created.
    pub fn open(path: &Path) -> io::Result<Notes> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() < Self::BYTES as u64 {
            return Err(io::Error::other("the file is too short for notes"));
        }
        Self::map(&file)
    }

    fn map(file: &File) -> io::Result<Notes> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice, of a file that is as long.
        let address = unsafe {
            mmap(std::ptr::null_mut(), Self::BYTES, protection, MapFlags::SHARED, file, 0)?
        };
        Ok(Notes { start: NonNull::new(address.cast()).expect("a mapping is not at 0") })
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index <= NOTES_MAX * NOTE_WORDS, "word {index} is outside the notes");
        // SAFETY: inside the mapping, aligned, and only reached as atomics.
        unsafe { self.start.add(index).as_ref() }
    }

    /// Adds a note. Invariant: only the workload adds.
    pub fn add(&self, note: Note) {
        let count = self.word(0).load(Ordering::Relaxed) as usize;
        if count >= NOTES_MAX {
            return;
        }
        for (index, value) in [note.at_ns, note.took_ns, note.more].into_iter().enumerate() {
            self.word(1 + count * NOTE_WORDS + index).store(value, Ordering::Relaxed);
        }
        self.word(0).store(count as u64 + 1, Ordering::Release);
    }

    /// Sets the duration of the last note.
    pub fn last_took(&self, took_ns: u64) {
        let count = self.word(0).load(Ordering::Relaxed) as usize;
        if let Some(last) = count.checked_sub(1) {
            self.word(1 + last * NOTE_WORDS + 1).store(took_ns, Ordering::Relaxed);
        }
    }

    /// Returns all notes so far.
    pub fn all(&self) -> Vec<Note> {
        let count = self.word(0).load(Ordering::Acquire) as usize;
        let value = |index: usize| self.word(index).load(Ordering::Relaxed);
        (0..count.min(NOTES_MAX))
            .map(|note| 1 + note * NOTE_WORDS)
            .map(|at| Note { at_ns: value(at), took_ns: value(at + 1), more: value(at + 2) })
            .collect()
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of that length, and no reference outlives `self`.
        // A failure would leave some memory mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), Self::BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes");
        let here = Notes::create(&path).unwrap();
        let there = Notes::open(&path).unwrap();
        let note = |at_ns| Note { at_ns, took_ns: 2, more: 3 };
        there.add(note(1));
        there.add(note(7));
        assert_eq!(here.all(), [note(1), note(7)]);
        there.last_took(5);
        assert_eq!(here.all()[1], Note { took_ns: 5, ..note(7) });
        for _ in 0..NOTES_MAX {
            there.add(note(9));
        }
        assert_eq!(here.all().len(), NOTES_MAX);
    }
}
