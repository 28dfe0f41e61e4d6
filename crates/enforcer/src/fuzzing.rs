//! The fuzz target `plans`, its half of whole plans: postcard from another process that may say anything.

use crate::Plan;
use ledger::{CurrencyId, KindName};

/// Takes inputs whose first byte is odd: reads a plan, and asks it all that enforcers ask.
pub fn plans(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    if kind % 2 == 0 {
        return;
    }
    let Ok(mut plan) = postcard::from_bytes::<Plan>(rest) else { return };
    let text = postcard::to_stdvec(&plan).expect("a plan can be written");
    let again: Plan = postcard::from_bytes(&text).expect("what was written can be read");
    assert_eq!(format!("{again:?}").len(), format!("{plan:?}").len());
    let ids: Vec<CurrencyId> = plan.clients.iter().map(|client| client.id).collect();
    for id in &ids {
        plan.cpu_mut().set_active(*id, true);
    }
    let cpu = plan.cpu_mut();
    let mut active: Vec<CurrencyId> = cpu.active_clients().collect();
    active.dedup();
    let sum: u128 = active.iter().map(|id| u128::from(cpu.value(*id))).sum();
    assert!(sum <= u128::from(valuation::WHOLE), "{sum}");
    for kind in [KindName::CPU, KindName::MEMORY, KindName::DISK, KindName::NET] {
        let _ = (plan.wants(kind), plan.graphs_of(kind).count());
    }
    for client in &plan.clients {
        let _ = client.may_hold(0);
    }
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[test]
fn the_corpus_of_plans_makes_no_unsound_plan() {
    replay::replay("plans", 4_000, plans);
}
