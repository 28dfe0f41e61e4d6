//! Workloads that hold a lock for long, and that wait for it. The kernel's locks cannot be taken
//! by themselves: a large read of an open file that several share takes the mutex of its position,
//! and a large write the file's inode lock (an rwsem); both are kept while the kernel copies, on
//! the CPU time of who reads or writes.

use crate::orders::Lock;
use crate::page::{Note, Notes, Page};
use crate::workload::{Begin, Workplace, burn_ns, monotonic_ns, sleep_until, thread_cpu_ns};
use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::thread::futex;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a lock should be held for, in CPU time, ns.
pub(crate) const HOLD_NS: u64 = 20_000_000;
/// The most that is read or written at once; the file's size.
const FILE_BYTES: usize = 64 << 20;
/// So much is copied to see how fast that is.
const SAMPLE_BYTES: usize = 4 << 20;
/// Between two holds, so that who waits can be seen to wait, and asks for each hold once.
const PAUSE: Duration = Duration::from_millis(4);
/// How often who waits looks whether the lock is held.
const LOOK_NS: u64 = 1_000_000;

/// A file in memory that processes started while it is open inherit.
pub(crate) fn file() -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("allot-lock", MemfdFlags::CLOEXEC)?;
    // Opened again by its name: only files that were opened have a lock for their position.
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::open(name, OFlags::RDWR, Mode::empty())?)
}

/// What we were passed on, under a descriptor of our own.
fn inherited(file: RawFd) -> io::Result<File> {
    // SAFETY: the experiment keeps it open until we are ready, and it is only borrowed to be
    // duplicated. An order that names a wrong one is refused by the kernel.
    let file = unsafe { BorrowedFd::borrow_raw(file) };
    Ok(File::from(file.try_clone_to_owned()?))
}

fn lock_futex(page: &Page) -> io::Result<()> {
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

fn unlock_futex(page: &Page) -> io::Result<()> {
    let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let word = page.futex();
    if word.compare_exchange(own, 0, Ordering::Release, Ordering::Relaxed).is_err() {
        futex::unlock_pi(word, futex::Flags::empty())?;
    }
    Ok(())
}

/// How many bytes take about [`HOLD_NS`] to copy here: one copy is timed.
fn enough(mut copy: impl FnMut(usize) -> io::Result<()>) -> io::Result<usize> {
    copy(SAMPLE_BYTES)?;
    let before = thread_cpu_ns();
    copy(SAMPLE_BYTES)?;
    let took_ns = (thread_cpu_ns() - before).max(1);
    let bytes = SAMPLE_BYTES as u128 * u128::from(HOLD_NS) / u128::from(took_ns);
    Ok(usize::try_from(bytes).unwrap_or(FILE_BYTES).clamp(SAMPLE_BYTES, FILE_BYTES))
}

/// One hold: it can be seen from just before the lock is taken until it is let go.
fn hold(place: &Workplace, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let holds = place.page.holds(place.slot);
    holds.fetch_add(1, Ordering::SeqCst);
    let done = work();
    holds.fetch_add(1, Ordering::SeqCst);
    place.count();
    std::thread::sleep(PAUSE);
    done
}

/// Takes the lock over and over, and works while it has it.
pub(crate) fn prepare_hold(lock: Lock) -> io::Result<Begin> {
    let mut room = vec![1_u8; FILE_BYTES];
    Ok(match lock {
        Lock::Position(file) => {
            let mut file = inherited(file)?;
            file.write_all_at(&room, 0)?;
            let bytes = enough(|bytes| {
                file.rewind()?;
                file.read_exact(&mut room[..bytes])
            })?;
            Box::new(move |place| {
                while !place.over() {
                    file.rewind()?;
                    hold(place, || file.read_exact(&mut room[..bytes]))?;
                }
                Ok(())
            })
        }
        Lock::Inode(file) => {
            let file = inherited(file)?;
            // In full, so that the pages are there.
            file.write_all_at(&room, 0)?;
            let bytes = enough(|bytes| file.write_all_at(&room[..bytes], 0))?;
            Box::new(move |place| {
                while !place.over() {
                    hold(place, || file.write_all_at(&room[..bytes], 0))?;
                }
                Ok(())
            })
        }
        Lock::PiFutex(hold_ns) => Box::new(move |place| {
            while !place.over() {
                lock_futex(&place.page)?;
                hold(place, || {
                    burn_ns(hold_ns);
                    unlock_futex(&place.page)
                })?;
            }
            Ok(())
        }),
    })
}

/// Takes a lock once, and lets it go.
type Ask = Box<dyn FnMut(&Page) -> io::Result<()>>;

/// Asks for the lock once in each hold, and notes how long it took to get it.
pub(crate) fn prepare_wait(lock: Lock, holder: usize, notes: &Path) -> io::Result<Begin> {
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
    Ok(Box::new(move |place| {
        let mut last = 0;
        while !place.over() {
            let hold = place.page.holds(holder).load(Ordering::SeqCst);
            if hold % 2 == 0 || hold == last {
                sleep_until(monotonic_ns() + LOOK_NS);
                continue;
            }
            last = hold;
            let at_ns = monotonic_ns();
            notes.add(Note { at_ns, took_ns: Note::UNFINISHED, more: hold });
            ask(&place.page)?;
            notes.last_took(monotonic_ns() - at_ns);
            place.count();
        }
        Ok(())
    }))
}
