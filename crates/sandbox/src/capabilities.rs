//! Capabilities, given up for good: from all sets, the bounding set among them.

use rustix::thread::{CapabilitySet, CapabilitySets};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The rounds in which threads are asked that have more than they may keep, each a millisecond long.
const ROUNDS: u32 = 2000;

/// The capabilities that all threads keep, for the handler of the signal.
static KEPT: AtomicU64 = AtomicU64::new(0);

/// Keeps of this thread's capabilities only these. Threads that it makes later have no others.
///
/// # Errors
/// When the kernel refuses.
pub fn keep(kept: CapabilitySet) -> io::Result<()> {
    let now = rustix::thread::capabilities(None)?;
    if rustix::thread::clear_ambient_capability_set().is_err() {
        // Older than ambient capabilities: there are none.
    }
    if now.effective.contains(CapabilitySet::SETPCAP) {
        for one in CapabilitySet::all().iter().filter(|one| !kept.contains(*one)) {
            // Beyond the kernel's last capability there is nothing to give up.
            match rustix::thread::remove_capability_from_bounding_set(one) {
                Ok(()) | Err(rustix::io::Errno::INVAL) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
    let left = now.permitted & kept;
    let sets =
        CapabilitySets { effective: left, permitted: left, inheritable: CapabilitySet::empty() };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// Keeps of all threads' capabilities only these. The kernel has them for each thread, so each is interrupted and
/// gives up its own.
///
/// # Errors
/// When the kernel refuses, or a thread has kept more.
pub fn keep_in_all_threads(kept: CapabilitySet) -> io::Result<()> {
    KEPT.store(kept.bits(), Ordering::SeqCst);
    let signal = libc::SIGRTMAX() - 1;
    // SAFETY: an all-zero sigaction is valid; its fields are set below.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = give_up as extern "C" fn(libc::c_int) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler makes system calls and touches one atomic, nothing else.
    if unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    keep(kept)?;
    for _ in 0..ROUNDS {
        let greedy = threads_with_more(kept)?;
        if greedy.is_empty() {
            return Ok(());
        }
        let own = rustix::process::getpid().as_raw_nonzero().get();
        for thread in greedy {
            // SAFETY: a signal to a thread of this process; one that has ended meanwhile is an error that is ignored.
            unsafe { libc::syscall(libc::SYS_tgkill, own, thread, signal) };
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(io::Error::other("a thread keeps capabilities that it should have given up"))
}

/// The threads of this process that may have more than `kept`.
fn threads_with_more(kept: CapabilitySet) -> io::Result<Vec<i32>> {
    let mut greedy = Vec::new();
    for task in std::fs::read_dir("/proc/self/task")? {
        let path = task?.path();
        // One that has ended needs no asking.
        let Ok(status) = std::fs::read_to_string(path.join("status")) else { continue };
        let set = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            u64::from_str_radix(line.trim(), 16).ok()
        };
        let held = set("CapPrm:").unwrap_or(u64::MAX) | set("CapEff:").unwrap_or(u64::MAX);
        let thread = path.file_name().and_then(|name| name.to_str()?.parse().ok());
        if held & !kept.bits() != 0
            && let Some(thread) = thread
        {
            greedy.push(thread);
        }
    }
    Ok(greedy)
}

/// Gives up the capabilities of the thread that it interrupts, by system calls alone.
extern "C" fn give_up(_: libc::c_int) {
    const VERSION_3: u32 = 0x2008_0522;
    let kept = KEPT.load(Ordering::SeqCst);
    // SAFETY: errno is this thread's own, and is put back for the code that was interrupted. The structures are as
    // capget(2) describes them for version 3, two sets of 32 bits each, and live until the calls return.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        for one in (0..64).filter(|one| kept & (1 << one) == 0) {
            libc::syscall(libc::SYS_prctl, libc::PR_CAPBSET_DROP, one, 0, 0, 0);
        }
        let header = [VERSION_3, 0];
        let mut sets = [0_u32; 6];
        if libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) == 0 {
            let halves = [kept as u32, (kept >> 32) as u32];
            for half in 0..2 {
                let left = sets[half * 3 + 1] & halves[half];
                (sets[half * 3], sets[half * 3 + 1], sets[half * 3 + 2]) = (left, left, 0);
            }
            libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr());
        }
        *errno = before;
    }
}
