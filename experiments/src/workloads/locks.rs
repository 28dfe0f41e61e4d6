//! Workloads that hold a lock for long, and workloads that wait for it. The kernel's locks cannot
//! be taken by themselves: a large read of an open file that several share takes the mutex of its
//! position, and a large write takes the file's inode lock (an rwsem). Both are held while the
//! kernel copies, on the CPU time of the reader or writer.

use crate::workloads::arithmetic::burn_ns;
use crate::workloads::clock::{monotonic_ns, sleep_until, thread_cpu_ns};
use crate::workloads::notes::{Note, Notes};
use crate::workloads::page::CounterPage;
use crate::workloads::work::{PreparedWork, WorkContext};
use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::thread::futex;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A lock that is held for long. Files are passed on as open descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Lock {
    /// The position of an open file that several share (a `mutex`), held while the kernel reads.
    Position(RawFd),
    /// A file's inode lock (an `rwsem`), held while the kernel writes.
    Inode(RawFd),
    /// A futex that passes on priorities, in the shared page; held for so many ns of CPU time.
    PiFutex(u64),
}

/// CPU time for which a lock should be held, in ns.
pub(crate) const HOLD_NS: u64 = 20_000_000;
/// The file's size: the most that is read or written at once.
const FILE_BYTES: usize = 64 << 20;
/// Bytes of the copy that is timed.
const SAMPLE_BYTES: usize = 4 << 20;
/// Pause between two holds: the waiter is seen to wait, and asks once in each hold.
const PAUSE: Duration = Duration::from_millis(4);
/// Interval at which the waiter looks whether the lock is held, in ns.
const LOOK_NS: u64 = 1_000_000;

/// Opens a file in memory, which processes that start while it is open inherit.
pub(crate) fn file() -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("allot-lock", MemfdFlags::CLOEXEC)?;
    // Opened again by its name: only files that were opened have a lock for their position.
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::open(name, OFlags::RDWR, Mode::empty())?)
}

/// Duplicates an inherited descriptor.
fn inherited(file: RawFd) -> io::Result<File> {
    // SAFETY: the experiment keeps it open until we are ready, and it is only borrowed to be
    // duplicated. The kernel refuses a number that is no descriptor.
    let file = unsafe { BorrowedFd::borrow_raw(file) };
    Ok(File::from(file.try_clone_to_owned()?))
}

fn lock_futex(page: &CounterPage) -> io::Result<()> {
    let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let word = page.futex();
    while word.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed).is_err() {
        match futex::lock_pi(word, futex::Flags::empty(), None) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn unlock_futex(page: &CounterPage) -> io::Result<()> {
    let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let word = page.futex();
    if word.compare_exchange(own, 0, Ordering::Release, Ordering::Relaxed).is_err() {
        futex::unlock_pi(word, futex::Flags::empty())?;
    }
    Ok(())
}

/// Returns the bytes whose copy takes about [`HOLD_NS`] here: it times one copy.
fn enough(mut copy: impl FnMut(usize) -> io::Result<()>) -> io::Result<usize> {
    copy(SAMPLE_BYTES)?;
    let before = thread_cpu_ns();
    copy(SAMPLE_BYTES)?;
    let took_ns = (thread_cpu_ns() - before).max(1);
    let bytes = SAMPLE_BYTES as u128 * u128::from(HOLD_NS) / u128::from(took_ns);
    Ok(usize::try_from(bytes).unwrap_or(FILE_BYTES).clamp(SAMPLE_BYTES, FILE_BYTES))
}

/// Does one hold, which is visible from just before the lock is taken until it is released.
fn hold(context: &WorkContext, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let holds = context.page.holds(context.slot);
    holds.fetch_add(1, Ordering::SeqCst);
    let done = work();
    holds.fetch_add(1, Ordering::SeqCst);
    context.count();
    std::thread::sleep(PAUSE);
    done
}

/// Prepares to take the lock over and over, and to work while it is held.
pub(crate) fn prepare_hold(lock: Lock) -> io::Result<PreparedWork> {
    let mut room = vec![1_u8; FILE_BYTES];
    Ok(match lock {
        Lock::Position(file) => {
            let mut file = inherited(file)?;
            file.write_all_at(&room, 0)?;
            let bytes = enough(|bytes| {
                file.rewind()?;
                file.read_exact(&mut room[..bytes])
            })?;
            Box::new(move |context| {
                while !context.over() {
                    file.rewind()?;
                    hold(context, || file.read_exact(&mut room[..bytes]))?;
                }
                Ok(())
            })
        }
        Lock::Inode(file) => {
            let file = inherited(file)?;
            // In full, so that the pages are there.
            file.write_all_at(&room, 0)?;
            let bytes = enough(|bytes| file.write_all_at(&room[..bytes], 0))?;
            Box::new(move |context| {
                while !context.over() {
                    hold(context, || file.write_all_at(&room[..bytes], 0))?;
                }
                Ok(())
            })
        }
        Lock::PiFutex(hold_ns) => Box::new(move |context| {
            while !context.over() {
                lock_futex(&context.page)?;
                hold(context, || {
                    burn_ns(hold_ns);
                    unlock_futex(&context.page)
                })?;
            }
            Ok(())
        }),
    })
}

/// A function that takes a lock once, and releases it.
type Ask = Box<dyn FnMut(&CounterPage) -> io::Result<()>>;

/// Prepares to ask for the lock once in each hold, and to note the time until it is granted.
pub(crate) fn prepare_wait(lock: Lock, holder: usize, notes: &Path) -> io::Result<PreparedWork> {
    let notes = Notes::open(notes)?;
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    let mut ask: Ask = match lock {
        Lock::Position(file) => {
            let mut file = inherited(file)?;
            Box::new(move |_| file.stream_position().map(drop))
        }
        Lock::Inode(file) => {
            let file = inherited(file)?;
            Box::new(move |_| file.write_all_at(&[1], 0))
        }
        Lock::PiFutex(_) => Box::new(|page| lock_futex(page).and_then(|()| unlock_futex(page))),
    };
    Ok(Box::new(move |context| {
        let mut last = 0;
        while !context.over() {
            let hold = context.page.holds(holder).load(Ordering::SeqCst);
            if hold % 2 == 0 || hold == last {
                sleep_until(monotonic_ns() + LOOK_NS);
                continue;
            }
            last = hold;
            let at_ns = monotonic_ns();
            notes.add(Note { at_ns, took_ns: Note::UNFINISHED, more: hold });
            ask(&context.page)?;
            notes.last_took(monotonic_ns() - at_ns);
            context.count();
        }
        Ok(())
    }))
}
