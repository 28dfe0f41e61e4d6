//! The enforcers, one line each: the only place of allotd that names one.

use enforcer::Registration;

/// The enforcers that allot comes with, the best of each kind first.
pub const ENFORCERS: &[Registration] = &[
    #[cfg(feature = "scx")]
    enforce_scx::REGISTRATION,
    enforce_cgroup::REGISTRATION,
    enforce_weights::REGISTRATION,
    enforce_user::REGISTRATION,
    reclaim::REGISTRATION,
];
