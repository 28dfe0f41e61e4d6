//! Precedence of allotd's own sessions over those that it manages.

use nix::unistd::{getpid, getsid};
use rustix::process::getpriority_process;

/// Gives the session that the caller leads the caller's nice value, where that is negative (`Nice=` of the unit). The
/// kernel schedules sessions as groups (autogroup), and a nice value counts only within its group: without this, a daemon
/// of nice −20 has no more of a busy CPU than one user's session. The weight ends with the session.
pub fn take_precedence() {
    // Zero, and so nobody's, where the leader is outside the caller's PID namespace (a container entered by exec).
    let is_leader = getsid(None).is_ok_and(|session| session == getpid());
    let nice = getpriority_process(None).unwrap_or(0);
    if !is_leader || nice >= 0 {
        return;
    }
    // Not there where the kernel has no such groups.
    if let Err(error) = std::fs::write("/proc/self/autogroup", nice.to_string()) {
        tracing::debug!("sessions are no groups of the scheduler here: {error}");
    }
}
