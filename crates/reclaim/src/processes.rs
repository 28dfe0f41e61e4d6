//! Processes' memory, where there is no cgroup: what they hold, and how some of it is paged out
//! (process_madvise(2) with MADV_PAGEOUT).
//!
//! 1. **Whose**: a process is its pidfd. Files of its /proc folder are opened after the folder has been seen to be
//!    its own ([`ProcessHandle::proc_file`]).
//! 2. **Held**: the sum of Pss (a page that several map counts for each in part).
//! 3. **Which pages**: a hand goes round the mappings of each process, and goes on where it stopped. Those that are
//!    present are advised, until as many are gone as were asked for, or the hand has been all round. What was taken
//!    is counted in /proc/PID/pagemap, before and after: the advice succeeds where it does nothing.
//! 4. **What stays**: locked and device memory (the kernel refuses), pages that others map too (it skips them),
//!    anonymous memory where there is no free swap (we skip it). The cache of files that are only read(2) belongs to
//!    no process, so none of that can be taken.

use observe::{ProcessError, ProcessHandle};
use rustix::io::IoSliceMut;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// Pages that are looked at and advised at a time.
const CHUNK_PAGES: usize = 512;
/// The bit of a word of pagemap that says that the page is in memory.
const PRESENT: u64 = 1 << 63;

/// A client's processes.
#[derive(Debug)]
pub(crate) struct Processes {
    handles: Vec<ProcessHandle>,
    page_bytes: u64,
    hands: Mutex<Hands>,
}

/// Where the hand of each process stopped, and who is asked first the next time.
#[derive(Debug)]
struct Hands {
    addresses: Vec<u64>,
    turn: usize,
}

/// A mapping: addresses, and whether it is of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    of_file: bool,
}

impl Processes {
    pub fn new(handles: Vec<ProcessHandle>, page_bytes: u64) -> Processes {
        let hands = Mutex::new(Hands { addresses: vec![0; handles.len()], turn: 0 });
        Processes { handles, page_bytes, hands }
    }

    /// Whether all of them have exited.
    pub fn are_gone(&self) -> bool {
        !self.handles.iter().any(ProcessHandle::is_alive)
    }

    /// What they hold, in bytes (rule 2). Who is gone holds nothing.
    ///
    /// # Errors
    /// When a process cannot be read though it lives.
    pub fn held_bytes(&self) -> Result<u64, ProcessError> {
        let each = self.handles.iter().map(|handle| match read(handle, "smaps_rollup") {
            Ok(text) => Ok(parse_pss(&text)),
            Err(error) if error.is_gone() => Ok(0),
            Err(error) => Err(error),
        });
        each.sum()
    }

    /// Their major page faults so far: the only ones that there are without a cgroup, first uses of a file
    /// included.
    pub fn faults(&self) -> u64 {
        let each = self.handles.iter().filter_map(|handle| {
            let text = read(handle, "stat").ok()?;
            // After the name, which may have blanks: the tenth field from there.
            text[text.rfind(')')? + 1..].split_ascii_whitespace().nth(9)?.parse::<u64>().ok()
        });
        each.sum()
    }

    /// Pages out so many bytes (rule 3). Answers how many it took.
    ///
    /// # Errors
    /// When nothing was taken, and the kernel refused.
    pub fn take(&self, bytes: u64) -> io::Result<u64> {
        let has_swap = has_free_swap();
        let mut hands = self.hands.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wanted = bytes / self.page_bytes;
        let (mut taken, mut refused) = (0, None);
        let count = self.handles.len();
        for step in 0..count {
            if wanted == 0 {
                break;
            }
            let place = (hands.turn + step) % count;
            let (handle, hand) = (&self.handles[place], &mut hands.addresses[place]);
            match page_out(handle, hand, wanted, self.page_bytes, has_swap) {
                Ok(pages) => {
                    taken += pages;
                    wanted = wanted.saturating_sub(pages);
                }
                Err(error) => refused = Some(error),
            }
        }
        hands.turn = if count == 0 { 0 } else { (hands.turn + 1) % count };
        match refused {
            Some(error) if taken == 0 => Err(error),
            _ => Ok(taken * self.page_bytes),
        }
    }
}

/// From one process, from where its hand is, once round. Answers pages.
fn page_out(
    handle: &ProcessHandle,
    hand: &mut u64,
    wanted: u64,
    page_bytes: u64,
    has_swap: bool,
) -> io::Result<u64> {
    let opened = read(handle, "maps").and_then(|maps| Ok((maps, handle.proc_file("pagemap")?)));
    let (maps, pagemap) = match opened {
        Ok(opened) => opened,
        Err(error) if error.is_gone() => return Ok(0),
        Err(error) => return Err(io::Error::other(error)),
    };
    let mappings: Vec<Mapping> =
        parse_maps(&maps).filter(|mapping| mapping.of_file || has_swap).collect();
    let mut taken = 0;
    let mut refused = None;
    for (start, end) in round(&mappings, *hand) {
        let mut at = start;
        while at < end {
            let pages = ((end - at) / page_bytes).min(CHUNK_PAGES as u64);
            let before = present(pagemap.as_fd(), at / page_bytes, pages)?;
            // No further than to the last page that is wanted.
            let (length, count) = first_present(&before, wanted - taken);
            let advised_end = at + length as u64 * page_bytes;
            if count > 0 {
                match advise(handle.pidfd(), at, advised_end - at) {
                    Ok(()) => {
                        let after = present(pagemap.as_fd(), at / page_bytes, length as u64)?;
                        let left = after.iter().filter(|is| **is).count() as u64;
                        taken += count.saturating_sub(left);
                    }
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(taken),
                    // Locked or of a device; the next may not be.
                    Err(error) => refused = Some(error),
                }
            }
            at = advised_end;
            *hand = at;
            if taken >= wanted {
                return Ok(taken);
            }
        }
    }
    match refused {
        Some(error) if taken == 0 => Err(error),
        _ => Ok(taken),
    }
}

/// All of the mappings once, from an address on.
fn round(mappings: &[Mapping], from: u64) -> impl Iterator<Item = (u64, u64)> {
    let after =
        mappings.iter().filter(move |it| it.end > from).map(move |it| (it.start.max(from), it.end));
    let before = mappings
        .iter()
        .filter(move |it| it.start < from)
        .map(move |it| (it.start, it.end.min(from)));
    after.chain(before)
}

/// The shortest beginning that has `wanted` pages that are present, or else all: its length, and how many it has.
fn first_present(present: &[bool], wanted: u64) -> (usize, u64) {
    let mut count = 0;
    for (place, is) in present.iter().enumerate() {
        count += u64::from(*is);
        if count == wanted {
            return (place + 1, count);
        }
    }
    (present.len(), count)
}

/// Which of so many pages from this one on are in memory.
fn present(pagemap: BorrowedFd<'_>, first: u64, pages: u64) -> io::Result<Vec<bool>> {
    let mut words = vec![0_u8; pages as usize * 8];
    let mut filled = 0;
    while filled < words.len() {
        let count = rustix::io::preadv(
            pagemap,
            &mut [IoSliceMut::new(&mut words[filled..])],
            first * 8 + filled as u64,
        )?;
        if count == 0 {
            break;
        }
        filled += count;
    }
    let (words, _) = words.as_chunks::<8>();
    Ok(words.iter().map(|word| u64::from_ne_bytes(*word) & PRESENT != 0).collect())
}

/// MADV_PAGEOUT for a range of a process's addresses.
fn advise(pidfd: BorrowedFd<'_>, start: u64, length: u64) -> io::Result<()> {
    let range = libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(start as usize),
        iov_len: length as usize,
    };
    // SAFETY: the call reads one iovec, which outlives it. The addresses are another process's, and the advice
    // changes no contents: what is paged out comes back when it is used.
    let result = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            pidfd.as_raw_fd(),
            &raw const range,
            1_usize,
            libc::MADV_PAGEOUT,
            0_u32,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether the kernel has the call (tried, for no page of our own) and lets us use it for others (CAP_SYS_NICE).
pub(crate) fn advice_works() -> io::Result<()> {
    let capable = rustix::thread::capabilities(None)?;
    if !capable.effective.contains(rustix::thread::CapabilitySet::SYS_NICE) {
        return Err(rustix::io::Errno::PERM.into());
    }
    let pid = rustix::process::getpid();
    let own = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    advise(own.as_fd(), 0, 0)
}

/// Whether anonymous memory has anywhere to go.
fn has_free_swap() -> bool {
    std::fs::read_to_string("/proc/meminfo").is_ok_and(|text| parse_free_swap(&text) > 0)
}

fn read(handle: &ProcessHandle, file: &'static str) -> Result<String, ProcessError> {
    let opened: OwnedFd = handle.proc_file(file)?;
    let mut bytes = Vec::new();
    match File::from(opened).read_to_end(&mut bytes) {
        Ok(_) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
            Err(ProcessError::Gone { pid: handle.identity().pid })
        }
        Err(source) => Err(ProcessError::Os { pid: handle.identity().pid, call: file, source }),
    }
}

/// `Pss:` of smaps_rollup, in bytes; of a process without memory nothing.
fn parse_pss(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn parse_free_swap(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix("SwapFree:"));
    line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse().ok()).unwrap_or(0)
}

/// The mappings that can be paged out, in order of addresses: not those that the kernel keeps for itself.
fn parse_maps(text: &str) -> impl Iterator<Item = Mapping> {
    text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let inode = words.nth(3)?;
        if matches!(words.next(), Some("[vdso]" | "[vvar]" | "[vvar_vclock]" | "[vsyscall]")) {
            return None;
        }
        let address = |text| u64::from_str_radix(text, 16).ok();
        Some(Mapping { start: address(start)?, end: address(end)?, of_file: inode != "0" })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_is_read() {
        assert_eq!(
            parse_pss("55 - 7f [rollup]\nRss:  900 kB\nPss:   640 kB\nPss_Dirty: 1 kB\n"),
            640 << 10
        );
        assert_eq!(parse_pss(""), 0);
        assert_eq!(parse_free_swap("SwapTotal: 8 kB\nSwapFree:    4 kB\n"), 4);
        let maps = "1000-3000 r-xp 00000000 fe:00 77 /bin/a b\n\
                    5000-6000 rw-p 00000000 00:00 0 [heap]\n\
                    7000-8000 r-xp 00000000 00:00 0 [vdso]\n\
                    9000-a000 rw-p 00000000 00:00 0 \n";
        let found: Vec<Mapping> = parse_maps(maps).collect();
        let expected = [(0x1000, 0x3000, true), (0x5000, 0x6000, false), (0x9000, 0xa000, false)];
        let expected = expected.map(|(start, end, of_file)| Mapping { start, end, of_file });
        assert_eq!(found, expected);
    }

    #[test]
    fn the_hand_goes_once_round() {
        let mapping = |start, end| Mapping { start, end, of_file: true };
        let mappings = [mapping(10, 20), mapping(30, 50), mapping(60, 70)];
        let from = |hand| round(&mappings, hand).collect::<Vec<_>>();
        assert_eq!(from(0), [(10, 20), (30, 50), (60, 70)]);
        assert_eq!(from(40), [(40, 50), (60, 70), (10, 20), (30, 40)]);
        assert_eq!(from(25), [(30, 50), (60, 70), (10, 20)]);
        assert_eq!(from(99), [(10, 20), (30, 50), (60, 70)]);
    }

    #[test]
    fn no_more_is_advised_than_is_wanted() {
        let present = [false, true, false, true, true];
        assert_eq!(first_present(&present, 2), (4, 2));
        assert_eq!(first_present(&present, 9), (5, 3));
        assert_eq!(first_present(&[], 1), (0, 0));
    }
}
