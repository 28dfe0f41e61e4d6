//! What was changed on which process: the record that outlives us.
//!
//! A table in a file that this process and its guardian map. Every change of a process is
//! written here **before** it is made, with plain stores: they outlive the writer however it
//! dies, cost no system call, and cannot block or be lost in a queue. Where the file has a path,
//! it outlives the guardian too, and [`crate::restore_leftovers`] works from it.
//!
//! Layout: one header, then records of [`RECORD_BYTES`], one a process, and one for each
//! thread whose own policy differs from its process's. A record that was released stays readable
//! until its slot is used again, as late as possible: the children that a process made while it
//! was held may be found after it is gone.

use crate::scheduling::SchedulingPolicy;
use ledger::ProcessIdentity;
use nix::sys::mman::{MapFlags, ProtFlags, mlock, mmap, munmap};
use rustix::fs::{FallocateFlags, FlockOperation};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// "allot" and the version of this layout.
const MAGIC: u64 = u64::from_le_bytes(*b"allotR\0\x01");
const HEADER_BYTES: usize = 64;
/// Size of a record.
pub(crate) const RECORD_BYTES: usize = 64;
/// Most records: 4 MiB.
pub(crate) const CAPACITY: usize = 65_535;
const FILE_BYTES: usize = HEADER_BYTES + CAPACITY * RECORD_BYTES;

const FREE: u32 = 0;
const LIVE: u32 = 1;
const RELEASED: u32 = 2;

/// The process was put in SCHED_IDLE by us at least once.
pub(crate) const IDLED: u32 = 1;
/// The process may be stopped because of us.
pub(crate) const STOPPED: u32 = 2;

#[repr(C, align(64))]
struct Header {
    magic: AtomicU64,
    boot: [AtomicU64; 2],
    /// When the table was made, in clock ticks since boot: what is older never inherited from
    /// a process that we held.
    made_ticks: AtomicU64,
    /// Counts changes of who is in the table.
    epoch: AtomicU64,
    /// Records from here on were never used.
    high_water: AtomicU32,
}

#[repr(C, align(64))]
struct Record {
    state: AtomicU32,
    pid: AtomicU32,
    start_time_ticks: AtomicU64,
    /// 0 for a process.
    tid: AtomicU32,
    policy: AtomicI32,
    nice: AtomicI32,
    flags: AtomicU32,
    session: AtomicU32,
    process_group: AtomicU32,
    uid: AtomicU32,
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES && size_of::<Record>() == RECORD_BYTES);

/// Where a process or thread stands in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

/// A process before we touch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Before {
    pub process: ProcessIdentity,
    pub policy: SchedulingPolicy,
    pub nice: i32,
    pub session: u32,
    pub process_group: u32,
    pub uid: u32,
}

/// A record, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub before: Before,
    /// For a thread with a policy of its own: its id.
    pub tid: Option<u32>,
    pub flags: u32,
    pub live: bool,
}

/// The table. Written by one thread of one process; read by the guardian.
pub(crate) struct Registry {
    file: File,
    map: NonNull<c_void>,
    /// Released slots, the longest released first.
    released: VecDeque<u32>,
}

// SAFETY: the mapping belongs to the value, and all access to it is atomic.
unsafe impl Send for Registry {}

/// Slots that were released are used again only when there are more than this many of them.
const KEPT_RELEASED: usize = 8192;

impl Registry {
    /// A new, empty table: in this file, which must not be in use, or in memory without a name.
    pub fn create(path: Option<&Path>) -> io::Result<Registry> {
        let file = match path {
            Some(path) => {
                let file = open(path)?;
                lock(&file)?;
                file.set_len(0)?;
                file
            }
            None => {
                let flags = rustix::fs::MemfdFlags::CLOEXEC;
                File::from(rustix::fs::memfd_create("allot-registry", flags)?)
            }
        };
        // Really there, so that no store can fail for want of space.
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, FILE_BYTES as u64)?;
        let registry = Self::map(file)?;
        // Best effort: a page fault of the lottery could wait for a disk.
        // SAFETY: the range is the mapping.
        let _ = unsafe { mlock(registry.map, FILE_BYTES) };
        let header = registry.header();
        let boot = boot_id()?;
        header.boot[0].store(boot[0], Ordering::Relaxed);
        header.boot[1].store(boot[1], Ordering::Relaxed);
        header.made_ticks.store(now_ticks(), Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Ok(registry)
    }

    /// The table in an open file; `None` when that holds no table, or one of another boot (its
    /// processes are gone).
    pub fn of(file: File) -> io::Result<Option<Registry>> {
        if file.metadata()?.len() < FILE_BYTES as u64 {
            return Ok(None);
        }
        let registry = Self::map(file)?;
        let header = registry.header();
        let boot = header.boot.each_ref().map(|half| half.load(Ordering::Relaxed));
        let ours = header.magic.load(Ordering::Acquire) == MAGIC && boot == boot_id()?;
        Ok(ours.then_some(registry))
    }

    /// The table at a path that nobody uses (waits a while for a guardian that is at work);
    /// `None` when there is none.
    pub fn leftover(path: &Path) -> io::Result<Option<Registry>> {
        if !path.exists() {
            return Ok(None);
        }
        let file = open(path)?;
        lock(&file)?;
        Self::of(file)
    }

    fn map(file: File) -> io::Result<Registry> {
        let length = NonZeroUsize::new(FILE_BYTES).expect("not zero");
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping of a file that is as long; it is only read and written as atomic
        // integers, for which every bit pattern is valid.
        let map = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, file.as_fd(), 0)? };
        Ok(Registry { file, map, released: VecDeque::new() })
    }

    /// The file, for the guardian to inherit.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping begins with a header, is aligned to a page and lives as long.
        unsafe { self.map.cast::<Header>().as_ref() }
    }

    fn record(&self, slot: u32) -> &Record {
        assert!((slot as usize) < CAPACITY, "a slot of the table");
        // SAFETY: within the mapping by the assertion, aligned since both sizes are.
        unsafe {
            self.map.byte_add(HEADER_BYTES + slot as usize * RECORD_BYTES).cast::<Record>().as_ref()
        }
    }

    /// When the table was made, in clock ticks since boot.
    pub fn made_ticks(&self) -> u64 {
        self.header().made_ticks.load(Ordering::Relaxed)
    }

    /// Grows whenever somebody was put in, idled for the first time, or released.
    pub fn epoch(&self) -> u64 {
        self.header().epoch.load(Ordering::Acquire)
    }

    /// Notes how a process is before it is touched. `None` when the table is full.
    pub fn register(&mut self, before: &Before) -> Option<Slot> {
        self.put(before, 0)
    }

    /// Notes that a thread has a policy of its own; `before.process` names the thread.
    pub fn register_thread(
        &mut self,
        process: &Before,
        tid: u32,
        policy: SchedulingPolicy,
    ) -> Option<Slot> {
        self.put(&Before { policy, ..*process }, tid)
    }

    fn put(&mut self, before: &Before, tid: u32) -> Option<Slot> {
        let header = self.header();
        let high_water = header.high_water.load(Ordering::Relaxed);
        let fresh = (high_water as usize) < CAPACITY;
        let slot = if self.released.len() > KEPT_RELEASED || !fresh {
            self.released.pop_front()?
        } else {
            high_water
        };
        let record = self.record(slot);
        record.state.store(FREE, Ordering::Release);
        record.pid.store(before.process.pid, Ordering::Relaxed);
        record.start_time_ticks.store(before.process.start_time_ticks, Ordering::Relaxed);
        record.tid.store(tid, Ordering::Relaxed);
        record.policy.store(before.policy.0, Ordering::Relaxed);
        record.nice.store(before.nice, Ordering::Relaxed);
        record.flags.store(0, Ordering::Relaxed);
        record.session.store(before.session, Ordering::Relaxed);
        record.process_group.store(before.process_group, Ordering::Relaxed);
        record.uid.store(before.uid, Ordering::Relaxed);
        record.state.store(LIVE, Ordering::Release);
        let header = self.header();
        if slot == high_water {
            header.high_water.store(high_water + 1, Ordering::Release);
        }
        header.epoch.fetch_add(1, Ordering::Release);
        Some(Slot(slot))
    }

    /// Notes what the process's own policy is now.
    pub fn set_policy(&self, slot: Slot, policy: SchedulingPolicy) {
        self.record(slot.0).policy.store(policy.0, Ordering::Release);
    }

    /// Notes that we are about to do this to the process.
    pub fn set_flag(&self, slot: Slot, flag: u32) {
        let before = self.record(slot.0).flags.fetch_or(flag, Ordering::SeqCst);
        if before & flag & IDLED != flag & IDLED {
            self.header().epoch.fetch_add(1, Ordering::Release);
        }
    }

    /// Notes that this has been undone.
    pub fn clear_flag(&self, slot: Slot, flag: u32) {
        self.record(slot.0).flags.fetch_and(!flag, Ordering::SeqCst);
    }

    /// The process has back what it had, or is gone.
    pub fn release(&mut self, slot: Slot) {
        self.record(slot.0).state.store(RELEASED, Ordering::Release);
        self.header().epoch.fetch_add(1, Ordering::Release);
        self.released.push_back(slot.0);
    }

    /// Every record that was not used again, live or released.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        // Not trusted: the file may be anybody's work.
        let high_water = self.header().high_water.load(Ordering::Acquire).min(CAPACITY as u32);
        (0..high_water).filter_map(|slot| {
            let record = self.record(slot);
            let state = record.state.load(Ordering::Acquire);
            let tid = record.tid.load(Ordering::Relaxed);
            (state == LIVE || state == RELEASED).then(|| Entry {
                before: Before {
                    process: ProcessIdentity {
                        pid: record.pid.load(Ordering::Relaxed),
                        start_time_ticks: record.start_time_ticks.load(Ordering::Relaxed),
                    },
                    policy: SchedulingPolicy(record.policy.load(Ordering::Acquire)),
                    nice: record.nice.load(Ordering::Relaxed),
                    session: record.session.load(Ordering::Relaxed),
                    process_group: record.process_group.load(Ordering::Relaxed),
                    uid: record.uid.load(Ordering::Relaxed),
                },
                tid: (tid != 0).then_some(tid),
                flags: record.flags.load(Ordering::SeqCst),
                live: state == LIVE,
            })
        })
    }

    /// Forgets everybody: all was restored.
    pub fn clear(&mut self) {
        for slot in 0..self.header().high_water.load(Ordering::Acquire).min(CAPACITY as u32) {
            self.record(slot).state.store(FREE, Ordering::Release);
        }
        self.released.clear();
        self.header().high_water.store(0, Ordering::Release);
        self.header().epoch.fetch_add(1, Ordering::Release);
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more: references do not outlive the value.
        let _ = unsafe { munmap(self.map, FILE_BYTES) };
    }
}

pub(crate) fn open(path: &Path) -> io::Result<File> {
    // Not through a link that somebody else put there, and not readable by others.
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
    // Nor one that somebody else made, or can reach: they could steer what is restored.
    let found = file.metadata()?;
    let ours = found.uid() == rustix::process::geteuid().as_raw();
    if !ours || found.nlink() != 1 || found.mode() & 0o077 != 0 {
        let what = "it is not ours alone (another owner, mode or link); remove it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    Ok(file)
}

/// The lock belongs to the open file, so a guardian that inherited it keeps it.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "in use by another allotd or its guardian"))
}

pub(crate) fn boot_id() -> io::Result<[u64; 2]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "no boot id"))?;
    Ok([(number >> 64) as u64, number as u64])
}

/// Now, as process start times are told: clock ticks since boot.
pub(crate) fn now_ticks() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let ns = now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs();
    ns / (1_000_000_000 / rustix::param::clock_ticks_per_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_others_can_reach_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("held");
        drop(open(&path).expect("a file of our own"));
        std::fs::hard_link(&path, dir.path().join("other")).expect("a link");
        assert!(open(&path).is_err(), "somebody else may have made the link");
        std::fs::remove_file(dir.path().join("other")).expect("removed");
        assert!(open(&path).is_ok());
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o660)).expect("a mode");
        assert!(open(&path).is_err(), "a group can write to it");
    }

    fn before(pid: u32) -> Before {
        Before {
            process: ProcessIdentity { pid, start_time_ticks: 7 },
            policy: SchedulingPolicy(libc::SCHED_BATCH),
            nice: 3,
            session: 1,
            process_group: 2,
            uid: 4,
        }
    }

    #[test]
    fn what_is_written_is_read_through_another_mapping() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("registry");
        let mut table = Registry::create(Some(&path)).expect("a table");
        let kept = table.register(&before(10)).expect("room");
        let gone = table.register(&before(11)).expect("room");
        table.register_thread(&before(10), 12, SchedulingPolicy::OTHER).expect("room");
        table.set_flag(kept, STOPPED | IDLED);
        table.clear_flag(kept, STOPPED);
        table.set_policy(kept, SchedulingPolicy::OTHER);
        table.release(gone);

        let other = Registry::of(table.file().expect("a file")).expect("maps").expect("a table");
        let seen: Vec<Entry> = other.entries().collect();
        assert_eq!(seen.len(), 3);
        assert_eq!(seen[0].before, Before { policy: SchedulingPolicy::OTHER, ..before(10) });
        assert_eq!((seen[0].flags, seen[0].live, seen[0].tid), (IDLED, true, None));
        assert_eq!((seen[1].before, seen[1].live), (before(11), false));
        assert_eq!((seen[2].tid, seen[2].live), (Some(12), true));
        assert!(other.epoch() >= 4);

        drop((table, other));
        let mut later = Registry::leftover(&path).expect("maps").expect("a table");
        assert_eq!(later.entries().count(), 3);
        later.clear();
        assert_eq!(later.entries().count(), 0);
    }

    #[test]
    fn a_file_that_is_no_table_is_not_believed() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("registry");
        assert!(Registry::leftover(&path).expect("no file").is_none());
        for bytes in [vec![], vec![1; 100], vec![0xff; FILE_BYTES]] {
            drop(open(&path).expect("a file of our own"));
            std::fs::write(&path, bytes).expect("a file");
            assert!(Registry::leftover(&path).expect("a file").is_none());
        }
    }

    #[test]
    fn slots_of_the_released_are_used_again_when_the_table_is_full() {
        let mut table = Registry::create(None).expect("a table");
        let slots: Vec<Slot> =
            (0..CAPACITY as u32).map(|pid| table.register(&before(pid)).expect("room")).collect();
        assert_eq!(table.register(&before(1)), None);
        table.release(slots[5]);
        assert_eq!(table.register(&before(1)), Some(slots[5]));
        assert_eq!(table.register(&before(2)), None);
    }

    #[test]
    fn a_process_that_began_just_now_did_so_after_the_clock_was_read() {
        let ours = observe::ProcessHandle::open(std::process::id()).expect("ourselves");
        assert!(ours.identity().start_time_ticks <= now_ticks());
    }
}
