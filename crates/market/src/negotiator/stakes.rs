//! What is at stake, from two observations.

use super::curve::Stake;
use super::seen::{Observation, Seen};
use ledger::Good;

/// Of each good what is held, how much of the time is spent waiting for it, and what is free.
#[allow(clippy::cast_precision_loss)]
pub(super) fn stakes(from: &Observation, to: &Observation) -> Vec<(Good, Stake, u64)> {
    let length_ns = (to.now_ns - from.now_ns) as f64;
    let waited = |now: &Seen| {
        let before = from.seen.iter().find(|seen| seen.good == now.good);
        let before_ns = before.map_or(now.waited_ns, |seen| seen.waited_ns);
        (now.waited_ns.saturating_sub(before_ns) as f64 / length_ns).min(1.0)
    };
    let stake = |now: &Seen| Stake { held: now.held, waiting: waited(now) };
    to.seen.iter().map(|now| (now.good.clone(), stake(now), now.free)).collect()
}
