//! Measures a device's speed, on a file of its own on a file system of that device.
//!
//! 1. **The file has no name** (`O_TMPFILE`), so it is gone when we are, however we end. Where a file
//!    system has no such files, it is made and its name removed at once.
//! 2. **Past the page cache** (`O_DIRECT`), with as many requests in flight as threads, a few where they
//!    are large, written with
//!    what no device can compress. What is read was written before.
//! 3. **Only a device that nobody holds back** is measured: not while iocost is on for it, or BFQ,
//!    which would measure themselves. Nothing is changed to that end.
//! 4. **In order is every second page**: pages side by side, asked for at once, become one larger request
//!    in the scheduler, and the model counts requests.

use crate::filesystem::mounts;
use crate::look::{DiskFacts, carrier_of_mount};
use crate::place::Places;
use crate::speed::{Load, Run, Window};
use rustix::fs::{Advice, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How to measure.
#[derive(Clone, Debug)]
pub struct CalibrateOptions {
    /// Where the file is made; on the device.
    pub folder: PathBuf,
    /// How large it is, in bytes: rounded down to MiB, at least [`LEAST_FILE_BYTES`]. On a disk with a
    /// head, requests anywhere are only as far apart as this.
    pub file_bytes: u64,
    /// How long each kind of load is measured.
    pub each: Duration,
    /// Requests in flight.
    pub depth: usize,
}

/// The smallest file to measure on.
pub const LEAST_FILE_BYTES: u64 = 16 << 20;
/// Parts of a run, of which the first does not count.
const WINDOWS: u32 = 11;
/// Buffers are aligned to this, which satisfies every device's `O_DIRECT`.
const ALIGNMENT: usize = 4096;
/// A small request.
const PAGE_BYTES: u64 = 4096;

/// Why a device could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// There is nowhere to put a file.
    #[error("no file system on {0} is mounted where a file can be written; name one with --dir")]
    NoFolder(String),
    /// The folder is somewhere else.
    #[error("{} is on {}, not on {disk}", folder.display(), on.as_deref().unwrap_or("no disk"))]
    Elsewhere {
        /// The folder.
        folder: PathBuf,
        /// What it is on.
        on: Option<String>,
        /// What is to be measured.
        disk: String,
    },
    /// It would measure who holds it back.
    #[error("{disk} is held back by {by}, which would be measured instead: {advice}")]
    HeldBack {
        /// The disk.
        disk: String,
        /// By what.
        by: &'static str,
        /// What to do.
        advice: String,
    },
    /// There is no room for the file.
    #[error("{} has room for {} MiB, and half of it is to stay free; {} MiB are needed",
        folder.display(), free_bytes >> 20, LEAST_FILE_BYTES >> 20)]
    NoRoom {
        /// The folder.
        folder: PathBuf,
        /// What is free there.
        free_bytes: u64,
    },
    /// A call failed.
    #[error("cannot {what} in {}", folder.display())]
    Os {
        /// What was to be done.
        what: &'static str,
        /// Where.
        folder: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// A folder on the disk where a file can be made: the first mount point of it that can be written.
///
/// # Errors
/// When there is none.
pub fn calibration_folder(facts: &DiskFacts) -> Result<PathBuf, CalibrateError> {
    let may_write =
        |folder: &Path| rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok();
    let writable = facts.file_systems.iter().filter(|it| it.is_writable);
    let mut folders = writable.map(|it| it.mount_point.clone()).filter(|it| may_write(it));
    folders.next().ok_or_else(|| CalibrateError::NoFolder(facts.name.clone()))
}

/// Requests in flight that keep a device busy: twice what it takes at a time.
pub fn calibration_depth(facts: &DiskFacts) -> usize {
    const MOST: u32 = 64;
    let depth = facts.hardware_depth.unwrap_or(MOST).saturating_mul(2).clamp(2, MOST);
    depth as usize
}

/// Measures one kind of load after the other; `begins` hears of each before it is.
///
/// # Errors
/// When the folder is on another device, the device is held back, or there is no room.
pub fn calibrate(
    places: &Places,
    facts: &DiskFacts,
    options: &CalibrateOptions,
    begins: &mut dyn FnMut(Load),
) -> Result<Vec<Run>, CalibrateError> {
    is_free(facts)?;
    let folder = &options.folder;
    let os = |what| {
        let folder = folder.clone();
        move |source| CalibrateError::Os { what, folder, source }
    };
    let on = disk_of_folder(places, folder).map_err(os("look for the mount point"))?;
    if on.as_deref() != Some(facts.name.as_str()) {
        let (folder, disk) = (folder.clone(), facts.name.clone());
        return Err(CalibrateError::Elsewhere { folder, on, disk });
    }
    let bytes = file_bytes(folder, options.file_bytes)?;
    let file = nameless_file(folder).map_err(os("make a file"))?;
    fill(&file, bytes).map_err(os("write the file"))?;
    let mut runs = Vec::new();
    for load in Load::ALL {
        begins(load);
        let depth = in_flight(load, options.depth);
        let windows = measure(&file, bytes, load, depth, options.each).map_err(os("measure"))?;
        runs.push(Run { load, windows });
    }
    Ok(runs)
}

/// The kernel cuts a large piece into several requests: with as many pieces as requests, they would come
/// in bursts, and a window would see none or all of one.
fn in_flight(load: Load, depth: usize) -> usize {
    match load {
        _ if load.is_alone() => 1,
        Load::WriteLarge | Load::ReadLarge => (depth / 8).max(2),
        _ => depth.max(1),
    }
}

/// Rule 3.
fn is_free(facts: &DiskFacts) -> Result<(), CalibrateError> {
    let held = |by, advice| Err(CalibrateError::HeldBack { disk: facts.name.clone(), by, advice });
    let is_on = facts.cost.0.as_ref().is_some_and(|line| line.contains(" enable=1"));
    if is_on {
        let number = facts.number;
        let advice = format!("stop allotd, or write `{number} enable=0` to io.cost.qos");
        return held("iocost", advice);
    }
    if facts.scheduler.as_ref().is_some_and(|scheduler| scheduler.current == "bfq") {
        let file = format!("/sys/block/{}/queue/scheduler", facts.name);
        return held("BFQ", format!("stop allotd, or write `none` to {file} for that time"));
    }
    Ok(())
}

/// The disk that carries the file system of a folder; `None` where that is on none (or on several).
///
/// # Errors
/// When the folder, or the list of mounts, cannot be read.
pub fn disk_of_folder(places: &Places, folder: &Path) -> io::Result<Option<String>> {
    let folder = std::fs::canonicalize(folder)?;
    let text = std::fs::read_to_string(&places.mounts)?;
    // The longest way to it; of several mounts at one place, the last hides the others.
    let mount = mounts(&text)
        .into_iter()
        .filter(|mount| folder.starts_with(&mount.file_system.mount_point))
        .max_by_key(|mount| mount.file_system.mount_point.as_os_str().len());
    Ok(mount.and_then(|mount| carrier_of_mount(places, &mount)))
}

/// What was asked, or half of what is free.
fn file_bytes(folder: &Path, asked: u64) -> Result<u64, CalibrateError> {
    let facts = rustix::fs::statvfs(folder).map_err(|error| CalibrateError::Os {
        what: "see how much is free",
        folder: folder.to_owned(),
        source: error.into(),
    })?;
    let free_bytes = facts.f_bavail.saturating_mul(facts.f_frsize);
    let bytes = asked.min(free_bytes / 2) >> 20 << 20;
    match bytes >= LEAST_FILE_BYTES {
        true => Ok(bytes),
        false => Err(CalibrateError::NoRoom { folder: folder.to_owned(), free_bytes }),
    }
}

/// Rule 1.
fn nameless_file(folder: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let file = match rustix::fs::open(folder, flags | OFlags::TMPFILE, mode) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
            let path = folder.join(format!(".allot-calibrate-{}", std::process::id()));
            let file = rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
            std::fs::remove_file(&path)?;
            File::from(file)
        }
        Err(error) => return Err(error.into()),
    };
    // Where the file system copies on write, each write would be somewhere else. Only such file
    // systems know of it, so a refusal says nothing.
    if let Ok(flags) = rustix::fs::ioctl_getflags(&file) {
        let _ = rustix::fs::ioctl_setflags(&file, flags | rustix::fs::IFlags::NOCOW);
    }
    Ok(file)
}

fn fill(file: &File, bytes: u64) -> io::Result<()> {
    // A file system that cannot says so when it is written.
    let _ = rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes);
    let piece = Load::WriteLarge.request_bytes();
    let mut buffer = Buffer::new(piece as usize, 1);
    for at in (0..bytes).step_by(piece as usize) {
        buffer.refill();
        file.write_all_at(buffer.bytes(), at)?;
    }
    file.sync_all()?;
    rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?;
    Ok(())
}

/// Runs a load for a time, and counts what is done in each part of it.
fn measure(
    file: &File,
    bytes: u64,
    load: Load,
    depth: usize,
    time: Duration,
) -> io::Result<Vec<Window>> {
    let places = bytes / load.request_bytes();
    let (stop, done, next) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let one = |seed: u64| {
            let (stop, done, next) = (&stop, &done, &next);
            move || -> io::Result<()> {
                let mut buffer = Buffer::new(load.request_bytes() as usize, seed);
                while !stop.load(Ordering::Relaxed) {
                    // Rule 4. Pieces of a MiB are more than most queues merge.
                    let stride = if load.request_bytes() == PAGE_BYTES { 2 } else { 1 };
                    let place = match load.is_in_order() {
                        true => next.fetch_add(stride, Ordering::Relaxed),
                        false => buffer.random(),
                    };
                    let at = place % places * load.request_bytes();
                    match load.writes() {
                        true => file.write_all_at(buffer.bytes(), at)?,
                        false => file.read_exact_at(buffer.bytes_mut(), at)?,
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }
        };
        let mut threads = Vec::new();
        let mut failed = None;
        for seed in 0..depth as u64 {
            let thread = std::thread::Builder::new().name("calibrate".to_owned());
            match thread.spawn_scoped(scope, one(seed + 2)) {
                Ok(thread) => threads.push(thread),
                Err(error) => failed = Some(error),
            }
        }
        let mut windows = Vec::new();
        let (mut at, mut count) = (Instant::now(), 0);
        while failed.is_none() && windows.len() < WINDOWS as usize {
            std::thread::sleep(time / WINDOWS);
            let (now, total) = (Instant::now(), done.load(Ordering::Relaxed));
            let elapsed_ns = u64::try_from((now - at).as_nanos()).unwrap_or(u64::MAX);
            windows.push(Window { requests: total - count, elapsed_ns });
            (at, count) = (now, total);
            if threads.iter().any(|thread| thread.is_finished()) {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            failed = ended.err().or(failed);
        }
        failed.map_or(Ok(windows), Err)
    })
}

/// Aligned memory, and random numbers to fill it with (xorshift64*; Marsaglia 2003, Vigna 2016).
struct Buffer {
    memory: Vec<u8>,
    start: usize,
    state: u64,
}

impl Buffer {
    fn new(bytes: usize, seed: u64) -> Buffer {
        let memory = vec![0; bytes + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut buffer = Buffer { memory, start, state };
        buffer.refill();
        buffer
    }

    fn random(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn refill(&mut self) {
        for at in (0..self.bytes().len()).step_by(8) {
            let word = self.random().to_ne_bytes();
            self.bytes_mut()[at..at + 8].copy_from_slice(&word);
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..][..self.memory.len() - ALIGNMENT]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.memory.len() - ALIGNMENT;
        &mut self.memory[self.start..][..bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_full() {
        let mut buffer = Buffer::new(8192, 7);
        assert_eq!(buffer.bytes().len(), 8192);
        assert_eq!(buffer.bytes().as_ptr() as usize % ALIGNMENT, 0);
        // A chance of 8192/256 zeros: 32, and 5 standard deviations of 5.7 more.
        let zeros = |buffer: &Buffer| buffer.bytes().iter().filter(|byte| **byte == 0).count();
        assert!(zeros(&buffer) < 61, "{}", zeros(&buffer));
        let before = buffer.bytes().to_vec();
        buffer.refill();
        assert_ne!(buffer.bytes(), before);
    }

    #[test]
    fn every_load_is_measured_on_a_file_without_a_name() {
        // Wherever tests keep their files; what has no O_DIRECT is no disk.
        let folder = tempfile::tempdir().expect("a folder");
        let Ok(file) = nameless_file(folder.path()) else {
            eprintln!("SKIP every_load_is_measured_on_a_file_without_a_name: no O_DIRECT here");
            return;
        };
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
        let bytes = 4 << 20;
        fill(&file, bytes).expect("it is written");
        for load in Load::ALL {
            let time = Duration::from_millis(110);
            let windows = measure(&file, bytes, load, 3, time).expect("it is measured");
            assert_eq!(windows.len(), WINDOWS as usize);
            assert!(windows.iter().map(|window| window.requests).sum::<u64>() > 0, "{load:?}");
        }
        assert_eq!(file.metadata().expect("its size").len(), bytes, "no load makes it longer");
        // Beyond its end nothing can be read: the error of a thread is the run's.
        assert!(measure(&file, 2 * bytes, Load::ReadLarge, 3, Duration::from_secs(1)).is_err());
    }

    #[test]
    fn large_pieces_are_fewer() {
        assert_eq!(Load::ALL.map(|load| in_flight(load, 64)), [8, 64, 64, 1, 8, 64, 64, 1]);
        assert_eq!(Load::ALL.map(|load| in_flight(load, 2)), [2, 2, 2, 1, 2, 2, 2, 1]);
    }

    #[test]
    fn a_file_needs_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let refused = file_bytes(folder.path(), LEAST_FILE_BYTES - 1);
        assert!(matches!(refused, Err(CalibrateError::NoRoom { .. })), "{refused:?}");
        let bytes = file_bytes(folder.path(), LEAST_FILE_BYTES + 5).expect("there is room");
        assert_eq!(bytes, LEAST_FILE_BYTES);
    }
}
