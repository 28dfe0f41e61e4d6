//! Processes that want memory.

use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

const PAGE_BYTES: usize = 4096;
/// The buffer of paper 1, section 6.3.
const BUFFER_BYTES: usize = 4 << 20;

/// Reads random 4 KiB parts of a file into random places of a buffer, for ever (paper 1, section 6.3).
pub fn read_at_random(path: &str, seed: u64) {
    let file = File::open(path).expect("the file");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).expect("advice");
    let pages = file.metadata().expect("its length").len() / PAGE_BYTES as u64;
    let buffer = anonymous(BUFFER_BYTES);
    let mut dice = dice(seed);
    loop {
        let place = dice((BUFFER_BYTES / PAGE_BYTES) as u64) as usize * PAGE_BYTES;
        let from = dice(pages) * PAGE_BYTES as u64;
        file.read_exact_at(&mut buffer[place..place + PAGE_BYTES], from).expect("a page");
    }
}

/// Looks at random pages of a mapped file, for ever.
pub fn map_at_random(path: &str, seed: u64) {
    let file = File::open(path).expect("the file");
    let length = file.metadata().expect("its length").len() as usize;
    // SAFETY: a new mapping of a file that nobody cuts short while the test runs.
    let mapped = unsafe {
        let at = rustix::mm::mmap(
            std::ptr::null_mut(),
            length,
            ProtFlags::READ,
            MapFlags::SHARED,
            file.as_fd(),
            0,
        )
        .expect("a mapping");
        rustix::mm::madvise(at, length, Advice::Random).expect("advice");
        std::slice::from_raw_parts(at.cast::<u8>(), length)
    };
    let mut dice = dice(seed);
    loop {
        let page = dice((length / PAGE_BYTES) as u64) as usize;
        std::hint::black_box(mapped[page * PAGE_BYTES]);
    }
}

/// Writes to so many bytes once, and sleeps.
pub fn hold(bytes: u64) {
    let held = anonymous(bytes as usize);
    held.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
    std::hint::black_box(&held);
    loop {
        std::thread::sleep(std::time::Duration::from_secs(60));
    }
}

/// Memory in small pages: a huge one would be a quarter of what there is in a test.
fn anonymous(bytes: usize) -> &'static mut [u8] {
    // SAFETY: a new mapping that is never unmapped, and that nobody else has.
    unsafe {
        let at = rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
        .expect("a mapping");
        let _ = rustix::mm::madvise(at, bytes, Advice::LinuxNoHugepage);
        std::slice::from_raw_parts_mut(at.cast::<u8>(), bytes)
    }
}

/// The next number of a sequence that a seed gives.
fn dice(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |sides| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % sides
    }
}
