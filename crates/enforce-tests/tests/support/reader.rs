//! Reads a disk past the page cache, anywhere, for ever.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

const PAGE_BYTES: u64 = 4096;

/// So many requests at a time, of the first `bytes` of a file or device.
pub fn read_for_ever(path: &str, bytes: u64, depth: u64) {
    let pages = bytes / PAGE_BYTES;
    std::thread::scope(|scope| {
        for reader in 0..depth {
            scope.spawn(move || {
                let mut options = OpenOptions::new();
                let file = options.read(true).custom_flags(libc::O_DIRECT).open(path);
                let file = file.unwrap_or_else(|error| panic!("{path}: {error}"));
                let mut buffer = vec![0_u8; 2 * PAGE_BYTES as usize];
                let start = buffer.as_ptr().align_offset(PAGE_BYTES as usize);
                let buffer = &mut buffer[start..][..PAGE_BYTES as usize];
                let mut state = 0x9e37_79b9_7f4a_7c15 ^ (reader + 1);
                loop {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    let at = state % pages * PAGE_BYTES;
                    file.read_exact_at(buffer, at)
                        .unwrap_or_else(|error| panic!("{path}: {error}"));
                }
            });
        }
    });
}
