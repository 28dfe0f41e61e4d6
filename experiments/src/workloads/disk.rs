//! Loads of a disk, each on a file of its own, that go on until they are ended.
//!
//! The file is made before the start. It is not in the page cache at the start, nor at the start of
//! each pass of loads that use the page cache: all that is counted comes from the disk.

use crate::workloads::arithmetic::{SEED, xorshift};
use crate::workloads::clock::monotonic_ns;
use crate::workloads::work::{PreparedWork, WorkContext};
use rustix::fs::{Advice, OFlags};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A load of a disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DiskWork {
    /// A file on the disk, made by the workload.
    pub file: PathBuf,
    /// Its size, at least 1.
    pub mib: u64,
    pub load: DiskLoad,
}

/// The way in which the file is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DiskLoad {
    /// Paper 1's benchmark (6.4): maps the file and touches the first byte of each page in order;
    /// an iteration is a page. Without the kernel's reading ahead, each is a request, one at a
    /// time.
    IoHog,
    /// Reads 4 KiB anywhere, past the page cache, so many at a time; an iteration is a read.
    ReadDirect(usize),
    /// Reads 64 KiB in order through the page cache, with the kernel's reading ahead; an iteration
    /// is such a piece.
    ReadBuffered,
    /// Writes 4 KiB anywhere, past the page cache, so many at a time; an iteration is a write.
    WriteDirect(usize),
    /// Writes 64 KiB in order through the page cache, with an fdatasync after each MiB; an
    /// iteration is such a piece.
    WriteBuffered,
}

impl DiskLoad {
    /// Returns the word that ps shows.
    pub fn word(self) -> &'static str {
        match self {
            DiskLoad::IoHog => "iohog",
            DiskLoad::ReadDirect(_) => "read-direct",
            DiskLoad::ReadBuffered => "read-buffered",
            DiskLoad::WriteDirect(_) => "write-direct",
            DiskLoad::WriteBuffered => "write-buffered",
        }
    }
}

const PAGE_BYTES: usize = 4096;
const PIECE_BYTES: usize = 64 << 10;
const MIB: usize = 1 << 20;

pub(crate) fn prepare(work: &DiskWork) -> io::Result<PreparedWork> {
    let DiskWork { file: path, mib, load } = work.clone();
    if mib == 0 {
        return Err(io::Error::other("a disk load needs a file of 1 MiB or more"));
    }
    make(&path, mib)?;
    Ok(match load {
        DiskLoad::IoHog => Box::new(move |context| io_hog(&path, mib, context)),
        DiskLoad::ReadDirect(depth) => Box::new(move |context| {
            direct(&path, mib, depth, context, |file, buffer, at| file.read_exact_at(buffer, at))
        }),
        DiskLoad::ReadBuffered => Box::new(move |context| read_buffered(&path, context)),
        DiskLoad::WriteDirect(depth) => Box::new(move |context| {
            direct(&path, mib, depth, context, |file, buffer, at| file.write_all_at(buffer, at))
        }),
        DiskLoad::WriteBuffered => Box::new(move |context| write_buffered(&path, mib, context)),
    })
}

/// Writes the file to the disk, and removes it from the page cache.
fn make(path: &Path, mib: u64) -> io::Result<()> {
    let file = File::create(path)?;
    let chunk = vec![1_u8; MIB];
    for at in 0..mib {
        file.write_all_at(&chunk, at * MIB as u64)?;
    }
    file.sync_all()?;
    forget(&file)
}

/// Removes the file from the page cache. Dirty and mapped pages stay.
fn forget(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
}

fn io_hog(path: &Path, mib: u64, context: &WorkContext) -> io::Result<()> {
    use rustix::mm;
    let file = File::open(path)?;
    let bytes = mib as usize * MIB;
    while !context.over() {
        // SAFETY: a new mapping at an address of the kernel's choice, of a file that is as long.
        let start = unsafe {
            mm::mmap(
                std::ptr::null_mut(),
                bytes,
                mm::ProtFlags::READ,
                mm::MapFlags::SHARED,
                &file,
                0,
            )?
        };
        // SAFETY: our own mapping, of that length; advice changes no content.
        unsafe { mm::madvise(start, bytes, mm::Advice::Random) }?;
        for at in (0..bytes).step_by(PAGE_BYTES) {
            // SAFETY: inside the mapping. The file is ours alone and is not made shorter.
            let byte = unsafe { start.cast::<u8>().add(at).read_volatile() };
            std::hint::black_box(byte);
            context.count();
            if context.over() {
                break;
            }
        }
        // Mapped pages would stay in the page cache.
        // SAFETY: our own mapping, of that length, which nothing refers to any more.
        unsafe { mm::munmap(start, bytes) }?;
        forget(&file)?;
    }
    Ok(())
}

fn read_buffered(path: &Path, context: &WorkContext) -> io::Result<()> {
    let file = File::open(path)?;
    let mut piece = vec![0_u8; PIECE_BYTES];
    let mut at = 0;
    while !context.over() {
        match file.read_at(&mut piece, at)? {
            0 => {
                at = 0;
                forget(&file)?;
            }
            bytes => {
                at += bytes as u64;
                context.count();
            }
        }
    }
    Ok(())
}

fn write_buffered(path: &Path, mib: u64, context: &WorkContext) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let piece = vec![1_u8; PIECE_BYTES];
    let mut at = 0;
    while !context.over() {
        file.write_all_at(&piece, at)?;
        context.count();
        at += PIECE_BYTES as u64;
        if at % MIB as u64 == 0 {
            file.sync_data()?;
        }
        at %= mib * MIB as u64;
    }
    Ok(())
}

/// A request of one page of a file, from or into a buffer, at an offset.
type Request = fn(&File, &mut [u8], u64) -> io::Result<()>;

/// Makes requests at random places, from as many threads as requests are to be in flight.
fn direct(
    path: &Path,
    mib: u64,
    depth: usize,
    context: &WorkContext,
    request: Request,
) -> io::Result<()> {
    let pages = mib * (MIB / PAGE_BYTES) as u64;
    let (counter, last_ns) = (context.page.iterations(context.slot), context.last_ns);
    let seed = AtomicU64::new(context.slot as u64);
    let work = || -> io::Result<()> {
        let flags = OFlags::DIRECT.bits() as i32;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
        let mut memory = vec![1_u8; 2 * PAGE_BYTES];
        let start = memory.as_ptr().align_offset(PAGE_BYTES);
        let buffer = &mut memory[start..][..PAGE_BYTES];
        // Each thread has places of its own.
        let mut state = SEED.wrapping_mul(seed.fetch_add(1 << 32, Ordering::Relaxed) + 1);
        while monotonic_ns() < last_ns {
            let page = xorshift(&mut state) % pages;
            request(&file, buffer, page * PAGE_BYTES as u64)?;
            counter.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for _ in 1..depth {
            threads.push(std::thread::Builder::new().spawn_scoped(scope, work)?);
        }
        let mut outcome = work();
        for thread in threads {
            let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            outcome = outcome.and(ended);
        }
        outcome
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::page::CounterPage;

    const ALL: [DiskLoad; 5] = [
        DiskLoad::IoHog,
        DiskLoad::ReadDirect(3),
        DiskLoad::ReadBuffered,
        DiskLoad::WriteDirect(3),
        DiskLoad::WriteBuffered,
    ];

    #[test]
    fn every_load_goes_on_until_its_time_is_over() {
        let dir = tempfile::tempdir().unwrap();
        for (number, load) in ALL.into_iter().enumerate() {
            let file = dir.path().join(format!("file-{number}"));
            let begin = prepare(&DiskWork { file: file.clone(), mib: 2, load }).unwrap();
            let page = CounterPage::create(&dir.path().join(format!("page-{number}")), 1).unwrap();
            let start_ns = monotonic_ns();
            let context = WorkContext { page, slot: 0, start_ns, last_ns: start_ns + 300_000_000 };
            match begin(&context) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    eprintln!("{}: no O_DIRECT in {}", load.word(), dir.path().display());
                    continue;
                }
                ended => ended.unwrap(),
            }
            assert!(context.over());
            let iterations = context.page.iterations(0).load(Ordering::Relaxed);
            // A pass of the hog is 512 pages, and of the buffered ones 32 pieces.
            assert!(iterations > 0, "{}", load.word());
            assert_eq!(std::fs::metadata(&file).unwrap().len(), 2 << 20, "{}", load.word());
        }
    }

    #[test]
    fn what_cannot_be_is_refused_before_the_start() {
        let file = PathBuf::from("/proc/no/file");
        assert!(prepare(&DiskWork { file, mib: 1, load: DiskLoad::IoHog }).is_err());
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        assert!(prepare(&DiskWork { file, mib: 0, load: DiskLoad::IoHog }).is_err());
    }

    #[test]
    fn orders_survive_the_command_line() {
        for load in ALL {
            let work = DiskWork { file: "/a b".into(), mib: 16, load };
            let json = serde_json::to_string(&work).unwrap();
            assert_eq!(serde_json::from_str::<DiskWork>(&json).unwrap(), work, "{json}");
        }
    }
}
