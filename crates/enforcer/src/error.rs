//! Why an enforcer cannot do what it was asked.

use std::error::Error;
use std::io;

/// Why an enforcer cannot do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EnforceError {
    /// An error of one enforcer's own: it cannot begin, or go on.
    #[error(transparent)]
    Refused(#[from] Box<dyn Error + Send + Sync>),
    /// A plan came after a later one.
    #[error("plan {given} is older than plan {followed}, which is followed")]
    Stale {
        /// The generation followed.
        followed: u64,
        /// The generation given.
        given: u64,
    },
    /// The enforcer tried again and again and will not try again.
    #[error("{0}")]
    GaveUp(String),
    /// The algorithm was chosen at the start.
    #[error("this enforcer cannot change its policy while it runs")]
    AlgorithmIsFixed,
    /// The enforcer's thread has ended, after giving everything back.
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
    /// Wraps an error of one enforcer's own.
    pub fn refused(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Refused(Box::new(error))
    }

    /// Returns a function that adds what was tried to an error of the kernel.
    pub fn os<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Os { what, source: source.into() }
    }
}
