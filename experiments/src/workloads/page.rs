//! The shared page through which workloads report their progress without a system call.

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Length of a cache line. Each counter has one of its own, so that workloads do not slow each
/// other.
const LINE_BYTES: usize = 64;

/// A shared page of counters: one line for the start time and a futex, then one for each workload,
/// with its iterations, whether it is ready, and how often it took or released a lock.
pub struct CounterPage {
    start: NonNull<AtomicU64>,
    slots: usize,
}

// SAFETY: the memory is only reached through atomics, and is unmapped by the owner alone.
unsafe impl Send for CounterPage {}

impl CounterPage {
    /// Creates a page for so many workloads, all zero.
    pub fn create(path: &Path, slots: usize) -> io::Result<CounterPage> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        file.set_len(Self::bytes(slots) as u64)?;
        Self::map(&file, slots)
    }

    /// Opens a page that another process created.
    pub fn open(path: &Path, slots: usize) -> io::Result<CounterPage> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() < Self::bytes(slots) as u64 {
            return Err(io::Error::other("the page is shorter than its slots"));
        }
        Self::map(&file, slots)
    }

    fn bytes(slots: usize) -> usize {
        (slots + 1) * LINE_BYTES
    }

    fn map(file: &File, slots: usize) -> io::Result<CounterPage> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice, of a file that is as long.
        let address = unsafe {
            mmap(std::ptr::null_mut(), Self::bytes(slots), protection, MapFlags::SHARED, file, 0)?
        };
        let start = NonNull::new(address.cast()).expect("a mapping is not at 0");
        Ok(CounterPage { start, slots })
    }

    /// Returns a futex for all workloads of the page.
    pub fn futex(&self) -> &AtomicU32 {
        let word: *const AtomicU64 = self.word(0, 1);
        // SAFETY: half of an aligned word of the mapping, which is never accessed as a whole.
        unsafe { &*word.cast::<AtomicU32>() }
    }

    /// Returns the counter that grows by one when a workload is about to take its lock, and when it
    /// has released it: it is odd while the workload has the lock.
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

    /// Returns the common start, CLOCK_MONOTONIC in ns; 0 before it is set.
    pub fn start_ns(&self) -> &AtomicU64 {
        self.word(0, 0)
    }

    /// Returns the number of iterations that a workload has done.
    pub fn iterations(&self, slot: usize) -> &AtomicU64 {
        self.word(slot + 1, 0)
    }

    /// Returns whether a workload waits for the start.
    pub fn is_ready(&self, slot: usize) -> bool {
        self.word(slot + 1, 1).load(Ordering::Acquire) != 0
    }

    /// Says that a workload waits for the start.
    pub fn set_ready(&self, slot: usize) {
        self.word(slot + 1, 1).store(1, Ordering::Release);
    }
}

impl Drop for CounterPage {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of that length, and no reference outlives `self`.
        // A failure would leave a few bytes mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), Self::bytes(self.slots)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_see_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page");
        let here = CounterPage::create(&path, 70).unwrap();
        let there = CounterPage::open(&path, 70).unwrap();
        there.iterations(69).store(7, Ordering::Relaxed);
        there.set_ready(3);
        here.start_ns().store(9, Ordering::Relaxed);
        assert_eq!(here.iterations(69).load(Ordering::Relaxed), 7);
        assert_eq!(there.start_ns().load(Ordering::Relaxed), 9);
        assert!(here.is_ready(3) && !here.is_ready(2));
        assert!(CounterPage::open(&path, 71).is_err(), "longer than the file");
        assert!(CounterPage::create(&path, 1).is_err(), "never over another's file");
    }
}
