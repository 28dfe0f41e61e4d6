//! The clocks that enforcers read.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds on the monotonic clock.
pub fn now_ns() -> u64 {
    ns(clock_gettime(ClockId::Monotonic))
}

/// CPU time used by the calling thread, in ns.
pub fn thread_cpu_ns() -> u64 {
    ns(clock_gettime(ClockId::ThreadCPUTime))
}

/// CPU time used by this process, all threads, in ns.
pub fn process_cpu_ns() -> u64 {
    ns(clock_gettime(ClockId::ProcessCPUTime))
}

fn ns(time: Timespec) -> u64 {
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
