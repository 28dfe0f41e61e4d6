//! The enforcers, one line each: the only place of allotd that names one.

use enforcer::Registration;
use ledger::{KindName, ResourceKind, ResourceKinds};

/// The enforcers that allot comes with, the best of each kind first.
pub const ENFORCERS: &[Registration] = &[
    #[cfg(feature = "scx")]
    enforce_scx::REGISTRATION,
    enforce_cgroup::REGISTRATION,
    enforce_weights::REGISTRATION,
    enforce_user::REGISTRATION,
    reclaim::REGISTRATION,
];

/// Returns the kinds that some enforcer serves, and those that are kept in the ledger before there is one.
pub fn resource_kinds(enforcers: &[Registration]) -> ResourceKinds {
    let served = enforcers.iter().flat_map(|enforcer| (enforcer.kinds)());
    std::iter::once(ResourceKind::net()).chain(served).collect()
}

/// Why a kind without an enforcer is not shared.
pub fn why_not_shared(kind: KindName) -> String {
    match kind {
        KindName::NET => "this version shares no networks".to_owned(),
        kind => format!("no enforcer of {kind} is registered"),
    }
}
