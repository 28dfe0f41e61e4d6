//! The kernel's scheduling policies, one system call a function.
//!
//! These calls take a bare thread id. Only enforcers, their restorers and [`crate::restore`] call
//! those that change something, each under a check that the thread is still who it was.

use std::cell::Cell;
use std::io;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// Counts system calls of this thread.
pub fn count_calls(number: u64) {
    CALLS.with(|calls| calls.set(calls.get() + number));
}

/// System calls counted in this thread.
pub fn calls() -> u64 {
    CALLS.with(Cell::get)
}

/// A scheduling policy without a real-time priority, as sched_getscheduler(2) tells it: with the
/// flag SCHED_RESET_ON_FORK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulingPolicy(pub i32);

const SCHED_EXT: i32 = 7;

impl SchedulingPolicy {
    /// SCHED_OTHER.
    pub const OTHER: Self = Self(libc::SCHED_OTHER);

    fn class(self) -> i32 {
        self.0 & !libc::SCHED_RESET_ON_FORK
    }

    /// Whether it is SCHED_IDLE.
    pub fn is_idle(self) -> bool {
        self.class() == libc::SCHED_IDLE
    }

    /// False for the real-time classes, which run before everybody and are never touched.
    pub fn is_ordinary(self) -> bool {
        matches!(self.class(), libc::SCHED_OTHER | libc::SCHED_BATCH | libc::SCHED_IDLE | SCHED_EXT)
    }

    /// SCHED_IDLE for a thread of this policy. The flag stays: to clear it needs a right.
    pub fn held(self) -> Self {
        Self(libc::SCHED_IDLE | (self.0 & libc::SCHED_RESET_ON_FORK))
    }
}

impl std::fmt::Display for SchedulingPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.class() {
            libc::SCHED_OTHER => "SCHED_OTHER",
            libc::SCHED_BATCH => "SCHED_BATCH",
            libc::SCHED_IDLE => "SCHED_IDLE",
            libc::SCHED_FIFO => "SCHED_FIFO",
            libc::SCHED_RR => "SCHED_RR",
            libc::SCHED_DEADLINE => "SCHED_DEADLINE",
            SCHED_EXT => "SCHED_EXT",
            _ => "an unknown policy",
        })
    }
}

fn checked(result: libc::c_long) -> io::Result<i32> {
    count_calls(1);
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// The policy of a thread (0: this one).
pub fn policy_of(tid: u32) -> io::Result<SchedulingPolicy> {
    // SAFETY: takes no pointer.
    checked(unsafe { libc::syscall(libc::SYS_sched_getscheduler, tid) }).map(SchedulingPolicy)
}

/// Sets the policy of a thread; its nice value stays.
pub fn set_policy(tid: u32, policy: SchedulingPolicy) -> io::Result<()> {
    set_with_priority(tid, policy.0, 0)
}

fn set_with_priority(tid: u32, policy: i32, priority: i32) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: priority };
    let pointer = std::ptr::from_ref(&parameter);
    // SAFETY: the pointer is to a live sched_param, which the kernel only reads.
    checked(unsafe { libc::syscall(libc::SYS_sched_setscheduler, tid, policy, pointer) }).map(drop)
}

/// The nice value of a thread.
pub fn nice_of(tid: u32) -> io::Result<i32> {
    // SAFETY: takes no pointer. The raw call answers 20 - nice, 1 to 40.
    checked(unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, tid) })
        .map(|answer| 20 - answer)
}

/// Sets the nice value of a thread.
pub fn set_nice(tid: u32, nice: i32) -> io::Result<()> {
    // SAFETY: takes no pointer.
    checked(unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, tid, nice) })
        .map(drop)
}

/// Lets this thread run before all ordinary ones, where it has the right: the least real-time
/// priority, else the best nice value that it may have. What it starts does not inherit that.
pub fn raise_this_thread() -> &'static str {
    if set_with_priority(0, libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, 1).is_ok() {
        return "SCHED_RR 1";
    }
    // SAFETY: takes no pointer; 0 is the calling thread.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) } == 0 {
        return "nice -20";
    }
    "no priority"
}
