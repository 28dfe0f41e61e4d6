//! Why an enforcer cannot do what it was asked.

use crate::GuardianError;
use std::io;

/// Why an enforcer cannot do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EnforceError {
    /// The quantum is too short to switch processes in, or too long to be a share.
    #[error("a quantum of {0} ns is out of range: 1 000 000 (1 ms) to 1 000 000 000 (1 s)")]
    QuantumOutOfRange(u64),
    /// Looks too often to be cheap, or too seldom to follow who competes.
    #[error("a period of {0} ns is out of range: 10 000 000 (10 ms) to 10 000 000 000 (10 s)")]
    PeriodOutOfRange(u64),
    /// An empty set of CPUs was to be shared out.
    #[error("no CPU to share out")]
    NoCpus,
    /// A CPU that we may not use.
    #[error("CPU {0} does not exist or we may not use it")]
    NotOurCpu(u32),
    /// Losers cannot wait in SCHED_IDLE here, although that was asked for.
    #[error("losers cannot wait in SCHED_IDLE: {0}")]
    NoIdle(String),
    /// A plan came after a later one.
    #[error("plan {given} is older than plan {followed}, which is followed")]
    Stale {
        /// The generation followed.
        followed: u64,
        /// The generation given.
        given: u64,
    },
    /// There is no guardian, so no process may be touched.
    #[error(transparent)]
    Guardian(#[from] GuardianError),
    /// The quantum is not one of the scheduler in the kernel.
    #[error("a quantum of {0} ns is out of range: 100 000 (0.1 ms) to 100 000 000 (100 ms)")]
    ScxQuantumOutOfRange(u64),
    /// The scheduler in the kernel could not be loaded.
    #[error(transparent)]
    Load(#[from] crate::scx::LoadError),
    /// The scheduler in the kernel was thrown out again and again: the kernel's own goes on.
    #[error("{0}")]
    GaveUp(String),
    /// The policy was chosen at the start.
    #[error("this enforcer cannot change its policy while it runs")]
    PolicyIsFixed,
    /// The enforcer's thread has ended, after giving every process back what it had.
    #[error("the enforcer has ended")]
    Ended,
    /// The kernel refused.
    #[error("{what}")]
    Os {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl EnforceError {
    pub(crate) fn os<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Os { what, source: source.into() }
    }
}
