//! Who loses memory when there is too little: what every memory policy is told, and what it answers.
//!
//! 1. **A guarantee is never broken by choice** (paper 1, section 5.4: pages "owned by clients who have not
//!    exceeded their memory share are also not reclaimed"). Who holds no more than it is guaranteed is not chosen;
//!    where that is everybody, nobody is.
//! 2. **A share is no limit** (same): a policy is asked only when memory runs short. How much is taken from who
//!    was chosen is the caller's to say, at most [`Holder::excess_bytes`].
//! 3. **Chosen anew each time**: one choice takes little, and what is held is told again before the next.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

use crate::{FaultShare, InverseLottery, MAX_WEIGHT, MinFunding};

/// The most that one client can hold, in bytes: 4 PiB, what a CPU of today can address.
pub const MAX_HELD_BYTES: u64 = 1 << 52;

/// A client that holds memory, as it is when a policy is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// Names it. Opaque to policies; the order breaks ties, and no two have the same.
    pub key: u64,
    /// The base value of its memory tickets, 0 to [`MAX_WEIGHT`], which is all memory. Only clients that ask for
    /// tickets have any (paper 1, section 5.4), so 0 is common.
    pub tickets: u64,
    /// What it holds, in bytes, at most [`MAX_HELD_BYTES`].
    pub held_bytes: u64,
    /// What it is sure to keep, in bytes; may be more than it holds.
    pub guaranteed_bytes: u64,
    /// What of `held_bytes` was used recently, in bytes; as much as is held, where that is unknown.
    pub active_bytes: u64,
    /// A guest (paper 4, section 2): it is here for what others leave.
    pub guest: bool,
    /// How often it needed again what was taken from it: pages a second, averaged over time, in 1/1024.
    pub refaults: u64,
}

impl Holder {
    /// What it holds beyond its guarantee, in bytes: what may be taken (rules 1 and 2).
    pub fn excess_bytes(&self) -> u64 {
        self.held_bytes.saturating_sub(self.guaranteed_bytes)
    }

    /// What it holds and has not used recently, in bytes.
    pub fn idle_bytes(&self) -> u64 {
        self.held_bytes.saturating_sub(self.active_bytes)
    }

    /// # Panics
    /// When a number is out of range: a broken invariant.
    pub(crate) fn check(&self) {
        let Holder { key, tickets, held_bytes, .. } = *self;
        assert!(tickets <= MAX_WEIGHT, "{tickets} tickets of holder {key} are above {MAX_WEIGHT}");
        assert!(held_bytes <= MAX_HELD_BYTES, "{held_bytes} bytes of holder {key} are too many");
    }
}

/// A rule that chooses who loses memory.
pub trait Reclaim: Send {
    /// The policy's name, as [`ReclaimName`] spells it.
    fn name(&self) -> &'static str;

    /// Who loses memory next: an index into `holders`, of one with [`Holder::excess_bytes`] above 0. `None`
    /// where there is no such (rule 1).
    ///
    /// # Panics
    /// When a holder's tickets or bytes are out of range: broken invariants.
    fn choose(&mut self, holders: &[Holder]) -> Option<usize>;
}

impl<R: Reclaim + ?Sized> Reclaim for Box<R> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn choose(&mut self, holders: &[Holder]) -> Option<usize> {
        (**self).choose(holders)
    }
}

/// Those from whom something may be taken (rule 1), with their indices.
pub(crate) fn eligible(holders: &[Holder]) -> impl Iterator<Item = (usize, &Holder)> {
    holders.iter().enumerate().filter(|(_, holder)| {
        holder.check();
        holder.excess_bytes() > 0
    })
}

/// The memory policies that [`build`] can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReclaimName {
    /// [`InverseLottery`]
    InverseLottery,
    /// [`MinFunding`]
    MinFunding,
    /// [`FaultShare`]
    FaultShare,
}

impl ReclaimName {
    /// Every memory policy, in the order in which help texts list them.
    pub const ALL: [ReclaimName; 3] =
        [ReclaimName::InverseLottery, ReclaimName::MinFunding, ReclaimName::FaultShare];

    /// The name in lower case, as users write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            ReclaimName::InverseLottery => "inverse-lottery",
            ReclaimName::MinFunding => "min-funding",
            ReclaimName::FaultShare => "fault-share",
        }
    }
}

impl fmt::Display for ReclaimName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// There is no memory policy of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no memory policy is called {0:?}: they are inverse-lottery, min-funding and fault-share")]
pub struct UnknownReclaim(pub String);

impl FromStr for ReclaimName {
    type Err = UnknownReclaim;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|policy| policy.as_str() == name)
            .ok_or_else(|| UnknownReclaim(name.to_owned()))
    }
}

/// Makes a memory policy with its usual options. `seed` decides all that is left to chance; a policy without
/// chance ignores it.
pub fn build(name: ReclaimName, seed: u64) -> Box<dyn Reclaim> {
    match name {
        ReclaimName::InverseLottery => Box::new(InverseLottery::new(seed)),
        ReclaimName::MinFunding => Box::new(MinFunding::default()),
        ReclaimName::FaultShare => Box::new(FaultShare::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_build_what_they_name() {
        for name in ReclaimName::ALL {
            assert_eq!(name.to_string().parse(), Ok(name));
            assert_eq!(build(name, 1).name(), name.as_str());
        }
        let said = "lru".parse::<ReclaimName>().expect_err("no such policy").to_string();
        assert!(ReclaimName::ALL.iter().all(|name| said.contains(name.as_str())), "{said}");
    }
}
