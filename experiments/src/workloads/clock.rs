//! Clocks, in nanoseconds.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Returns CLOCK_MONOTONIC, in ns.
pub(crate) fn monotonic_ns() -> u64 {
    timespec_ns(clock_gettime(ClockId::Monotonic))
}

/// Returns the CPU time of the calling thread, in ns.
pub(crate) fn thread_cpu_ns() -> u64 {
    timespec_ns(clock_gettime(ClockId::ThreadCPUTime))
}

fn timespec_ns(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until a moment of CLOCK_MONOTONIC, in ns.
pub(crate) fn sleep_until(until_ns: u64) {
    let until = Timespec {
        tv_sec: (until_ns / 1_000_000_000) as i64,
        tv_nsec: (until_ns % 1_000_000_000) as i64,
    };
    while let Err(rustix::io::Errno::INTR) =
        rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &until)
    {}
}
