//! The kinds of resources that enforcers serve, and why one is not shared.

use enforcer::Registration;
use ledger::{KindName, ResourceKind, ResourceKinds};

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
