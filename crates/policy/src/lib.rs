//! Policies: who holds the CPUs for the next quantum, whose request a disk serves next, who loses memory.
//!
//! Everything here is **pure**: no clock, no randomness of its own, no threads, no files. The seed
//! comes in as an argument, time comes in as charges, and the same seed and calls give the same
//! winners, bit for bit, on every machine.
//!
//! One algorithm a file, its rules numbered at the top with their source:
//!
//! - [`lottery`]: wins are random, CPU time is in proportion to weights (compensation tickets).
//! - [`stride`]: the same shares without chance, with errors that do not grow.
//! - [`mtr_ls`]: turns of many quanta each, in the order of a list.
//! - [`yfq`]: whose request a disk serves next.
//! - [`reclaim`]: who loses memory when there is too little: by [`inverse_lottery`], by [`min_funding`], by
//!   [`fault_share`]; guests first or last by [`guest_memory`]; tickets that do not count by [`idle`].
//! - [`feasible`]: which weights a number of CPUs cannot satisfy, and what is promised instead.
//! - [`meter`]: what a client used since it last won, and the bounds on what that can cost it.
//! - [`keyed`]: the same policies as the scheduler in the kernel has them, where each CPU chooses at
//!   its own time; bit for bit what it computes.
//!
//! The words: a **client** competes with a **weight** (its base value, from the valuation) for
//! **seats** (CPUs), each held for a **quantum**. Clients are opaque keys.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

pub mod fault_share;
pub mod feasible;
mod fenwick;
pub mod guest_memory;
pub mod idle;
pub mod inverse_lottery;
pub mod keyed;
pub mod lottery;
pub mod meter;
pub mod min_funding;
pub mod mtr_ls;
pub mod reclaim;
pub mod stride;
mod tournament;
pub mod yfq;

pub use fault_share::FaultShare;
pub use feasible::ONE_SEAT;
pub use guest_memory::GuestMemory;
pub use idle::{Idle, IdleOptions, Use};
pub use inverse_lottery::InverseLottery;
pub use lottery::Lottery;
pub use meter::{MAX_COMPENSATION, MAX_DEBT_QUANTA, MAX_SURPLUS_QUANTA};
pub use min_funding::MinFunding;
pub use mtr_ls::MtrLs;
pub use reclaim::{Holder, Reclaim, ReclaimName};
pub use stride::Stride;
pub use yfq::Yfq;

/// Names a client. Opaque to policies; only equality and order (to break ties) matter.
pub type ClientKey = u64;

/// The greatest weight that a client may have.
pub const MAX_WEIGHT: u64 = 1 << 48;

/// The longest quantum, in nanoseconds (about 18 minutes).
pub const MAX_QUANTUM_NS: u64 = 1 << 40;

/// A rule that chooses who runs.
///
/// The caller's loop, once a quantum: tell who started or stopped to compete ([`join`],
/// [`leave`]), tell new weights ([`reweigh`]), [`draw`], let the winners run, [`charge`] every
/// client for what it used. A charge may come before or after its client leaves.
///
/// [`join`]: Policy::join
/// [`leave`]: Policy::leave
/// [`reweigh`]: Policy::reweigh
/// [`draw`]: Policy::draw
/// [`charge`]: Policy::charge
pub trait Policy: Send {
    /// The policy's name, as [`PolicyName`] spells it.
    fn name(&self) -> &'static str;

    /// `client` starts to compete with this weight, 0 to [`MAX_WEIGHT`]; a client with weight 0
    /// competes but is never drawn.
    ///
    /// # Panics
    /// When the client competes already, or the weight is too great: broken invariants.
    fn join(&mut self, client: ClientKey, weight: u64);

    /// `client` no longer competes: it sleeps, or is gone. What the policy remembers for its
    /// return (a compensation, stride's remain) it keeps until [`Policy::forget`]. No effect on a
    /// client that does not compete.
    fn leave(&mut self, client: ClientKey);

    /// `client` is gone for good: it leaves if it still competes, and nothing of it is kept. No
    /// effect on an unknown client.
    fn forget(&mut self, client: ClientKey);

    /// `client`'s weight is now this, 0 to [`MAX_WEIGHT`]. No effect on a client that does not
    /// compete: it tells its weight when it joins.
    ///
    /// # Panics
    /// When the weight is too great: a broken invariant.
    fn reweigh(&mut self, client: ClientKey, weight: u64);

    /// Chooses the clients that hold the `seats` CPUs for the next quantum. `winners` is cleared
    /// first; it then holds distinct clients with weights above 0: as many as there are seats, or
    /// all of them when they are fewer.
    fn draw(&mut self, seats: usize, winners: &mut Vec<ClientKey>);

    /// Accounts CPU time: `client` used `used_ns` since its last charge. That may be less or more
    /// than `quantum_ns`, and may happen to a client that did not win (it ran in left-over time)
    /// or has just left. No effect on an unknown client.
    ///
    /// # Panics
    /// When `quantum_ns` is 0 or above [`MAX_QUANTUM_NS`]: a broken invariant.
    fn charge(&mut self, client: ClientKey, used_ns: u64, quantum_ns: u64);

    /// What each competing client is promised in the long run when all stay busy, for reports: the
    /// part of one seat, in units of 2⁻³² ([`ONE_SEAT`] is a whole one), after weights that `seats`
    /// CPUs cannot satisfy are capped ([`feasible::promised`]). In order of keys.
    fn promised(&self, seats: usize) -> Vec<(ClientKey, u64)>;
}

/// The policies that [`build`] can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// [`Lottery`]
    Lottery,
    /// [`Stride`]
    Stride,
    /// [`MtrLs`]
    MtrLs,
}

impl PolicyName {
    /// Every policy, in the order in which help texts list them.
    pub const ALL: [PolicyName; 3] = [PolicyName::Lottery, PolicyName::Stride, PolicyName::MtrLs];

    /// The name in lower case, as users write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            PolicyName::Lottery => "lottery",
            PolicyName::Stride => "stride",
            PolicyName::MtrLs => "mtr-ls",
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// There is no policy of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no policy is called {0:?}: the policies are lottery, stride and mtr-ls")]
pub struct UnknownPolicy(pub String);

impl FromStr for PolicyName {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|policy| policy.as_str() == name)
            .ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

/// Makes a policy without clients. `seed` decides all that is left to chance; a policy without
/// chance ignores it.
pub fn build(name: PolicyName, seed: u64) -> Box<dyn Policy> {
    match name {
        PolicyName::Lottery => Box::new(Lottery::new(seed)),
        PolicyName::Stride => Box::new(Stride::new()),
        PolicyName::MtrLs => Box::new(MtrLs::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_build_what_they_name() {
        for name in PolicyName::ALL {
            assert_eq!(name.to_string().parse(), Ok(name));
            assert_eq!(build(name, 1).name(), name.as_str());
        }
        assert_eq!("fifo".parse::<PolicyName>(), Err(UnknownPolicy("fifo".into())));
        let said = UnknownPolicy("fifo".into()).to_string();
        assert!(PolicyName::ALL.iter().all(|name| said.contains(name.as_str())), "{said}");
    }
}
