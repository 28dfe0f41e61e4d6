//! Threads that are taken out of SCHED_IDLE.

use crate::scheduling::{SchedulingPolicy, policy_of, set_policy};
use observe::ProcessHandle;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// A process that is restored while it forks can leave a child for the next pass, not more.
pub(super) const MAX_PASSES: u32 = 50;

/// Takes every thread of a process out of SCHED_IDLE; threads with a policy of their own get
/// that. Answers whether one was in it.
pub(super) fn free_threads(
    handle: &ProcessHandle,
    policy: SchedulingPolicy,
    threads: &BTreeMap<u32, SchedulingPolicy>,
) -> io::Result<bool> {
    let mut any = false;
    if policy.is_idle() && threads.is_empty() {
        return Ok(false);
    }
    // Each pass can miss threads that were started meanwhile by one not yet freed.
    for _ in 0..MAX_PASSES {
        let Ok(tids) = handle.threads() else { return Ok(any) };
        let mut found = false;
        for tid in tids {
            let own = threads.get(&tid).copied().unwrap_or(policy);
            let now = match policy_of(tid) {
                Ok(now) => now,
                Err(_) => continue,
            };
            if !now.is_idle() || own.is_idle() || !handle.is_alive() {
                continue;
            }
            match set_policy(tid, own) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => continue,
                Err(error) => return Err(error),
            }
            if !is_thread_of(handle, tid) {
                // It ended, and the number may name somebody else's thread, whose policy was
                // SCHED_IDLE.
                let _ = set_policy(tid, now);
                continue;
            }
            found = true;
        }
        any |= found;
        if !found {
            break;
        }
    }
    Ok(any)
}

/// Whether the thread is (still) one of the process.
fn is_thread_of(handle: &ProcessHandle, tid: u32) -> bool {
    if !handle.is_alive() {
        return false;
    }
    let pid = handle.identity().pid;
    // While the process lives, /proc/<pid> is its own.
    tid == pid || Path::new(&format!("/proc/{pid}/task/{tid}")).exists()
}
