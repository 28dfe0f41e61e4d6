//! Loads on memory: the reader of paper 1, section 6.3, and one that only allocates.

use crate::workloads::arithmetic::SEED;
use crate::workloads::work::{PreparedWork, WorkContext};
use rustix::fs::{Advice as FileAdvice, fadvise};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;

const PAGE_BYTES: usize = 4096;
const MIB: usize = 1 << 20;
/// Iterations between two reads of the clock.
const BETWEEN_LOOKS: u32 = 64;

/// The way in which a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Access {
    /// With read(2): its pages are in the kernel's cache alone.
    Read,
    /// With mmap(2): its pages are the process's.
    Map,
}

/// Prepares a reader of random pages of a file into random pages of a buffer.
pub(crate) fn prepare_reader(
    file: &Path,
    mib: u64,
    buffer_mib: u64,
    by: Access,
) -> io::Result<PreparedWork> {
    let file = uncached(file, mib)?;
    let buffer = Mapping::of_nothing(buffer_mib as usize * MIB)?;
    Ok(match by {
        Access::Read => Box::new(move |context| read(&file, buffer, context)),
        Access::Map => {
            let mapped = Mapping::of(&file, mib as usize * MIB)?;
            Box::new(move |context| {
                copy(&mapped, buffer, context);
                Ok(())
            })
        }
    })
}

/// Prepares a writer to random pages of anonymous memory.
pub(crate) fn prepare_allocator(mib: u64) -> io::Result<PreparedWork> {
    let buffer = Mapping::of_nothing(mib as usize * MIB)?;
    Ok(Box::new(move |context| {
        allocate(buffer, context);
        Ok(())
    }))
}

/// Opens the file, with none of it in memory. Makes it if it is missing or has another length; its
/// maker then holds none of its pages.
fn uncached(path: &Path, mib: u64) -> io::Result<File> {
    let length = mib * MIB as u64;
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    if file.metadata()?.len() != length {
        file.set_len(0)?;
        // Not zeros: a disk of memory need not keep those, and swap compresses them to nothing.
        let mut state = SEED;
        let mut chunk = vec![0; MIB];
        for _ in 0..mib {
            for word in chunk.chunks_exact_mut(size_of::<u64>()) {
                word.copy_from_slice(&next(&mut state).to_ne_bytes());
            }
            file.write_all(&chunk)?;
        }
    }
    // What is not yet on the disk stays in memory.
    file.sync_all()?;
    fadvise(&file, 0, None, FileAdvice::DontNeed)?;
    // So that a read brings in what is read.
    fadvise(&file, 0, None, FileAdvice::Random)?;
    Ok(file)
}

/// Reads random pages of the file into random pages of the buffer; an iteration is one page.
fn read(file: &File, mut buffer: Mapping, context: &WorkContext) -> io::Result<()> {
    let pages = file.metadata()?.len() / PAGE_BYTES as u64;
    let mut state = seed_of(context);
    often(context, || {
        let from = next(&mut state) % pages * PAGE_BYTES as u64;
        file.read_exact_at(buffer.page_mut(next(&mut state)), from)
    })
}

/// Copies random pages of a mapped file; an iteration is one page.
fn copy(from: &Mapping, mut buffer: Mapping, context: &WorkContext) {
    let mut state = seed_of(context);
    let copied = often(context, || {
        let page = from.page(next(&mut state));
        buffer.page_mut(next(&mut state)).copy_from_slice(page);
        Ok(())
    });
    copied.expect("copying does not fail");
}

/// Writes a word to random pages of the buffer; an iteration is one page.
fn allocate(mut buffer: Mapping, context: &WorkContext) {
    let mut state = seed_of(context);
    let written = often(context, || {
        let word = next(&mut state);
        buffer.page_mut(next(&mut state))[..size_of::<u64>()].copy_from_slice(&word.to_ne_bytes());
        Ok(())
    });
    written.expect("writing does not fail");
}

/// Repeats and counts an act until the workload's time is over.
fn often(context: &WorkContext, mut act: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    while !context.over() {
        for _ in 0..BETWEEN_LOOKS {
            act()?;
            context.count();
        }
    }
    Ok(())
}

/// Returns the seed of a workload: another for each slot, the same in every run.
fn seed_of(context: &WorkContext) -> u64 {
    SEED ^ (context.slot as u64 + 1).wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// xorshift64* (Marsaglia 2003, Vigna 2016); the state is never 0.
fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
}

/// Mapped memory, unmapped with its owner.
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory is reached through its owner alone.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps anonymous memory in small pages: a huge one is more than a small share of memory.
    fn of_nothing(length: usize) -> io::Result<Mapping> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::PRIVATE)? };
        let mapping = Mapping::owned(start, length);
        // SAFETY: all of our own mapping. A kernel without huge pages does not know the advice.
        let _ = unsafe { madvise(start, length, Advice::LinuxNoHugepage) };
        Ok(mapping)
    }

    /// Maps the first bytes of a file, to be read.
    fn of(file: &File, length: usize) -> io::Result<Mapping> {
        // SAFETY: a new mapping at an address of the kernel's choice, of a file that is as long and
        // that only workloads of one length use.
        let start = unsafe {
            mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, 0)?
        };
        let mapping = Mapping::owned(start, length);
        // SAFETY: all of our own mapping. A fault then brings in what is touched, as a read does.
        unsafe { madvise(start, length, Advice::Random)? };
        Ok(mapping)
    }

    fn owned(start: *mut std::ffi::c_void, length: usize) -> Mapping {
        assert!(length >= PAGE_BYTES, "a mapping has a page");
        Mapping { start: NonNull::new(start.cast()).expect("a mapping is not at 0"), length }
    }

    fn place(&self, number: u64) -> usize {
        (number % (self.length / PAGE_BYTES) as u64) as usize * PAGE_BYTES
    }

    fn page(&self, number: u64) -> &[u8] {
        // SAFETY: inside our mapping, which lives as long as `self`; nobody writes to it meanwhile.
        unsafe {
            std::slice::from_raw_parts(self.start.add(self.place(number)).as_ptr(), PAGE_BYTES)
        }
    }

    /// Returns a page of a mapping that can be written.
    fn page_mut(&mut self, number: u64) -> &mut [u8] {
        // SAFETY: inside our mapping, which lives as long as `self`, borrowed for writing.
        unsafe {
            std::slice::from_raw_parts_mut(self.start.add(self.place(number)).as_ptr(), PAGE_BYTES)
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of that length, and no reference outlives `self`.
        // A failure would leave it mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_made_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut first = vec![0; MIB];
        uncached(&path, 1).unwrap().read_exact_at(&mut first, 0).unwrap();
        assert!(first.chunks(8).any(|word| word != &first[..8]), "not all the same");
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().write_at(b"x", 7).unwrap();
        let mut byte = [0];
        uncached(&path, 1).unwrap().read_exact_at(&mut byte, 7).unwrap();
        assert_eq!(&byte, b"x", "it was there already");
        assert_eq!(uncached(&path, 2).unwrap().metadata().unwrap().len(), 2 * MIB as u64);
    }

    #[test]
    fn pages_lie_inside_their_mapping() {
        let mut mapping = Mapping::of_nothing(3 * PAGE_BYTES).unwrap();
        for number in 0..6 {
            mapping.page_mut(number).fill(number as u8 + 1);
        }
        let firsts: Vec<u8> = (0..3).map(|number| mapping.page(number)[PAGE_BYTES - 1]).collect();
        assert_eq!(firsts, [4, 5, 6]);
    }

    #[test]
    fn numbers_reach_every_page() {
        let mut state = SEED;
        let mut seen = [0; 64];
        (0..64 * 64).for_each(|_| seen[(next(&mut state) % 64) as usize] += 1);
        // 64 each on average, with a deviation of 8.
        assert!(seen.iter().all(|count| (24..104).contains(count)), "{seen:?}");
    }
}
