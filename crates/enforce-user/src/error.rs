//! Why the user-level enforcer cannot begin.

use enforcer::EnforceError;

/// Why the user-level enforcer cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum UserLevelError {
    /// The quantum is too short to switch processes in, or too long to be a share.
    #[error("a quantum of {0} ns is out of range: 1 000 000 (1 ms) to 1 000 000 000 (1 s)")]
    QuantumOutOfRange(u64),
    /// An empty set of CPUs was to be shared out.
    #[error("no CPU to share out")]
    NoCpus,
    /// A CPU that we may not use.
    #[error("CPU {0} does not exist or we may not use it")]
    NotOurCpu(u32),
    /// Losers cannot wait in SCHED_IDLE here, although that was asked for.
    #[error("losers cannot wait in SCHED_IDLE: {0}")]
    NoIdle(String),
}

impl From<UserLevelError> for EnforceError {
    fn from(error: UserLevelError) -> Self {
        EnforceError::refused(error)
    }
}
