//! Shared files in memory through which workloads tell their progress without a system call.

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Each counter has a cache line of its own, so that workloads do not slow each other.
const LINE_BYTES: usize = 64;

/// One line for the start time and a futex, then one for each workload: iterations, whether it is
/// ready, and how often it took or let go a lock.
pub struct Page {
    start: NonNull<AtomicU64>,
    slots: usize,
}

// SAFETY: the memory is only reached through atomics, and is unmapped by the owner alone.
unsafe impl Send for Page {}

impl Page {
    /// A new page for so many workloads, all zero.
    pub fn create(path: &Path, slots: usize) -> io::Result<Page> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        file.set_len(Self::bytes(slots) as u64)?;
        Self::map(&file, slots)
    }

    /// A page that another process created.
    pub fn open(path: &Path, slots: usize) -> io::Result<Page> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() < Self::bytes(slots) as u64 {
            return Err(io::Error::other("the page is shorter than its slots"));
        }
        Self::map(&file, slots)
    }

    fn bytes(slots: usize) -> usize {
        (slots + 1) * LINE_BYTES
    }

    fn map(file: &File, slots: usize) -> io::Result<Page> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice, of a file that is as long.
        let address = unsafe {
            mmap(std::ptr::null_mut(), Self::bytes(slots), protection, MapFlags::SHARED, file, 0)?
        };
        let start = NonNull::new(address.cast()).expect("a mapping is not at 0");
        Ok(Page { start, slots })
    }

    /// A futex for all workloads of the page.
    pub fn futex(&self) -> &AtomicU32 {
        let word: *const AtomicU64 = self.word(0, 1);
        // SAFETY: half of an aligned word of the mapping, which nobody reaches as a whole.
        unsafe { &*word.cast::<AtomicU32>() }
    }

    /// Grows by one when a workload is about to take its lock, and when it has let it go: odd
    /// while it has it.
    pub fn holds(&self, slot: usize) -> &AtomicU64 {
        self.word(slot + 1, 2)
    }

    fn word(&self, line: usize, word: usize) -> &AtomicU64 {
        assert!(line <= self.slots, "line {line} is outside the page");
        let offset = line * (LINE_BYTES / size_of::<AtomicU64>()) + word;
        // SAFETY: inside the mapping, aligned since mappings and lines are, and shared memory is
        // only reached as atomics.
        unsafe { self.start.add(offset).as_ref() }
    }

    /// The common start, CLOCK_MONOTONIC in ns; 0 before it is set.
    pub fn start_ns(&self) -> &AtomicU64 {
        self.word(0, 0)
    }

    /// How many iterations a workload has done.
    pub fn iterations(&self, slot: usize) -> &AtomicU64 {
        self.word(slot + 1, 0)
    }

    /// Whether a workload waits for the start.
    pub fn is_ready(&self, slot: usize) -> bool {
        self.word(slot + 1, 1).load(Ordering::Acquire) != 0
    }

    /// A workload waits for the start.
    pub fn set_ready(&self, slot: usize) {
        self.word(slot + 1, 1).store(1, Ordering::Release);
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of that length, and no reference outlives `self`.
        // A failure would leave a few bytes mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), Self::bytes(self.slots)) };
    }
}

/// Something that a workload noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// When it was due, or began: CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// How long it took, ns; [`Note::UNFINISHED`] while it goes on.
    pub took_ns: u64,
    /// What else there is to say.
    pub more: u64,
}

impl Note {
    /// It goes on.
    pub const UNFINISHED: u64 = u64::MAX;
}

/// The most notes of one workload; what is more is not kept.
const NOTES_MAX: usize = 1 << 16;
const NOTE_WORDS: usize = 3;

/// What one workload noted: how many notes, then the notes.
pub struct Notes {
    start: NonNull<AtomicU64>,
}

impl Notes {
    const BYTES: usize = (NOTES_MAX * NOTE_WORDS + 1) * size_of::<AtomicU64>();

    /// None yet, in a new file.
    pub fn create(path: &Path) -> io::Result<Notes> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        file.set_len(Self::BYTES as u64)?;
        Self::map(&file)
    }

    /// Those that another process created.
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

    /// One more; only the workload does this.
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

    /// How long what was noted last took, once that is known.
    pub fn last_took(&self, took_ns: u64) {
        let count = self.word(0).load(Ordering::Relaxed) as usize;
        if let Some(last) = count.checked_sub(1) {
            self.word(1 + last * NOTE_WORDS + 1).store(took_ns, Ordering::Relaxed);
        }
    }

    /// All so far.
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

    #[test]
    fn two_mappings_see_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page");
        let here = Page::create(&path, 70).unwrap();
        let there = Page::open(&path, 70).unwrap();
        there.iterations(69).store(7, Ordering::Relaxed);
        there.set_ready(3);
        here.start_ns().store(9, Ordering::Relaxed);
        assert_eq!(here.iterations(69).load(Ordering::Relaxed), 7);
        assert_eq!(there.start_ns().load(Ordering::Relaxed), 9);
        assert!(here.is_ready(3) && !here.is_ready(2));
        assert!(Page::open(&path, 71).is_err(), "longer than the file");
        assert!(Page::create(&path, 1).is_err(), "never over another's file");
    }
}
