//! The table of processes that are held: the part of a record that is mapped.
//!
//! Every change of a process is noted here **before** it is made, with plain stores: they outlive
//! the writer however it dies, cost no system call, and cannot block or be lost in a queue. A slot
//! that was released stays readable until it is used again, as late as possible: the children that
//! a process made while it was held may be found after it is gone.

use super::format::{
    EPOCH_WORD, HEADER_WORDS, HIGH_WATER_WORD, Header, IDENTITY_WORDS, IDLED, OriginalState,
    ProcessEntry, SLOT_BYTES, SLOT_WORDS, STATE_WORD, SlotContent, SlotState, Use, identity_words,
    slot_content,
};
use crate::scheduling::SchedulingPolicy;
use nix::sys::mman::{MapFlags, ProtFlags, mlock, mmap, munmap};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// The index of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

/// Processes that are held, and those that were. Written by one thread of one process; read by the guardian.
pub struct ProcessTable {
    map: NonNull<c_void>,
    capacity: u32,
    made_ticks: u64,
    /// Released slots, the longest released first.
    released: VecDeque<u32>,
}

// SAFETY: the mapping belongs to the value, and all access to it is atomic.
unsafe impl Send for ProcessTable {}

/// Released slots are used again only when there are more than this many of them.
const KEPT_RELEASED: usize = 8192;

impl ProcessTable {
    /// Maps the table that begins a file. The caller has seen that the file is as long as the header says.
    pub(super) fn map(file: &File, header: &Header) -> io::Result<ProcessTable> {
        let length = length_of(header.capacity);
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping of a file that is as long; it is only read and written as atomic
        // integers, for which every bit pattern is valid.
        let map = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, file.as_fd(), 0)? };
        let (capacity, made_ticks) = (header.capacity, header.made_ticks);
        Ok(ProcessTable { map, capacity, made_ticks, released: VecDeque::new() })
    }

    /// Writes the header of a new table and keeps the table in memory.
    pub(super) fn begin(&self, header: &Header) {
        // Best effort: a page fault of the lottery could wait for a disk.
        // SAFETY: the range is the mapping.
        let _ = unsafe { mlock(self.map, length_of(self.capacity).get()) };
        let words = header.words();
        for (index, word) in words.iter().enumerate().rev().take(HEADER_WORDS - 1) {
            self.word(index).store(*word, Ordering::Relaxed);
        }
        // The magic last.
        self.word(0).store(words[0], Ordering::Release);
    }

    /// A word of the header or, further on, of a slot.
    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < length_of(self.capacity).get() / 8, "a word of the mapping");
        // SAFETY: within the mapping by the assertion; the mapping is aligned to a page and lives
        // as long.
        unsafe { self.map.cast::<AtomicU64>().add(index).as_ref() }
    }

    fn slot_word(&self, slot: u32, index: usize) -> &AtomicU64 {
        assert!(slot < self.capacity, "a slot of the table");
        self.word(super::format::HEADER_BYTES / 8 + slot as usize * SLOT_WORDS + index)
    }

    /// When the table was made, in clock ticks since boot.
    pub fn made_ticks(&self) -> u64 {
        self.made_ticks
    }

    /// Number of slots.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Grows whenever somebody was put in, idled for the first time, or released.
    pub fn epoch(&self) -> u64 {
        self.word(EPOCH_WORD).load(Ordering::Acquire)
    }

    fn next_epoch(&self) {
        self.word(EPOCH_WORD).fetch_add(1, Ordering::Release);
    }

    /// The first slot that was never used. Not trusted: the file may be anybody's work.
    fn high_water(&self) -> u32 {
        let word = self.word(HIGH_WATER_WORD).load(Ordering::Acquire);
        u32::try_from(word).unwrap_or(u32::MAX).min(self.capacity)
    }

    /// Notes how a process is before it is touched. `None` when the table is full.
    pub fn register(&mut self, original: &OriginalState) -> Option<Slot> {
        self.put(original, 0)
    }

    /// Notes that a thread has a policy of its own; `process` is how its process was.
    pub fn register_thread(
        &mut self,
        process: &OriginalState,
        tid: u32,
        policy: SchedulingPolicy,
    ) -> Option<Slot> {
        self.put(&OriginalState { policy, ..*process }, tid)
    }

    fn put(&mut self, original: &OriginalState, tid: u32) -> Option<Slot> {
        let high_water = self.high_water();
        let is_full = high_water == self.capacity;
        let slot = if self.released.len() > KEPT_RELEASED || is_full {
            self.released.pop_front()?
        } else {
            high_water
        };
        // Invariant: who is in a slot changes only while the slot is free.
        self.slot_word(slot, STATE_WORD).store(0, Ordering::SeqCst);
        let identity = identity_words(original, tid);
        for (index, word) in identity.iter().enumerate() {
            self.slot_word(slot, index).store(*word, Ordering::Release);
        }
        let state = SlotState { usage: Use::Live, flags: 0, policy: original.policy };
        self.slot_word(slot, STATE_WORD).store(state.word(&identity), Ordering::SeqCst);
        if slot == high_water {
            self.word(HIGH_WATER_WORD).store(u64::from(high_water) + 1, Ordering::Release);
        }
        self.next_epoch();
        Some(Slot(slot))
    }

    /// Changes the state of a slot in one store. Answers how it was.
    fn change(&self, slot: Slot, change: impl FnOnce(&mut SlotState)) -> Option<SlotState> {
        let identity: [u64; IDENTITY_WORDS] =
            std::array::from_fn(|index| self.slot_word(slot.0, index).load(Ordering::Relaxed));
        let word = self.slot_word(slot.0, STATE_WORD);
        let before = SlotState::unpack(word.load(Ordering::Relaxed))?;
        let mut after = before;
        change(&mut after);
        word.store(after.word(&identity), Ordering::SeqCst);
        Some(before)
    }

    /// Notes what the process's own policy is now.
    pub fn set_policy(&self, slot: Slot, policy: SchedulingPolicy) {
        self.change(slot, |state| state.policy = policy);
    }

    /// Notes that we are about to do this to the process.
    pub fn set_flag(&self, slot: Slot, flag: u32) {
        let before = self.change(slot, |state| state.flags |= flag);
        if before.is_some_and(|before| before.flags & flag & IDLED != flag & IDLED) {
            self.next_epoch();
        }
    }

    /// Notes that this has been undone.
    pub fn clear_flag(&self, slot: Slot, flag: u32) {
        self.change(slot, |state| state.flags &= !flag);
    }

    /// Notes that the process has back what it had, or is gone.
    pub fn release(&mut self, slot: Slot) {
        self.change(slot, |state| state.usage = Use::Released);
        self.next_epoch();
        self.released.push_back(slot.0);
    }

    pub(super) fn contents(&self) -> impl Iterator<Item = SlotContent> + '_ {
        (0..self.high_water()).map(|slot| {
            // The state first: a slot that is used again meanwhile fails its check.
            let state = self.slot_word(slot, STATE_WORD).load(Ordering::SeqCst);
            let mut words = [0; SLOT_WORDS];
            for (index, word) in words.iter_mut().enumerate().take(IDENTITY_WORDS) {
                *word = self.slot_word(slot, index).load(Ordering::Acquire);
            }
            words[STATE_WORD] = state;
            slot_content(&words)
        })
    }

    /// Every entry that was not used again, live or released.
    pub fn entries(&self) -> impl Iterator<Item = ProcessEntry> + '_ {
        self.contents().filter_map(|content| match content {
            SlotContent::Entry(entry) => Some(entry),
            SlotContent::Free | SlotContent::Unreadable => None,
        })
    }

    /// Forgets everybody: all was restored.
    pub(super) fn clear(&mut self) {
        for slot in 0..self.high_water() {
            self.slot_word(slot, STATE_WORD).store(0, Ordering::SeqCst);
        }
        self.released.clear();
        self.word(HIGH_WATER_WORD).store(0, Ordering::Release);
        self.next_epoch();
    }
}

/// Bytes of a mapping.
fn length_of(capacity: u32) -> NonZeroUsize {
    NonZeroUsize::MIN
        .saturating_add(super::format::HEADER_BYTES - 1 + capacity as usize * SLOT_BYTES)
}

impl Drop for ProcessTable {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more: references do not outlive the value.
        let _ = unsafe { munmap(self.map, length_of(self.capacity).get()) };
    }
}
