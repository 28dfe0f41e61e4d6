//! The choice of a reclaim policy.

use enforcer::Settings;
use policy::{GuestMemory, MinFunding, Reclaim, ReclaimName};

/// The policy that chooses who loses memory when there is too little.
#[derive(Clone, Debug)]
pub struct ReclaimPolicy {
    /// The rule.
    pub name: ReclaimName,
    /// Seed of the policy's random number generator.
    pub seed: u64,
    /// Tax on a client's idle memory under minimum funding, in thousandths.
    pub idle_tax: u64,
    /// Thresholds for all guests together, in bytes: above the high one theirs goes first, below the low one the hosts'
    /// does (paper 4, section 2).
    pub guests_bytes: Option<(u64, u64)>,
    /// Memory that is kept free, in bytes. By default a sixteenth, 256 KiB to 64 MiB.
    pub headroom_bytes: Option<u64>,
}

impl ReclaimPolicy {
    /// Makes the policy.
    ///
    /// # Panics
    /// When the tax or the thresholds are out of range: broken invariants.
    pub fn build(&self) -> Box<dyn Reclaim> {
        let inner: Box<dyn Reclaim> = match self.name {
            ReclaimName::MinFunding => Box::new(MinFunding::new(self.idle_tax)),
            name => policy::reclaim::build(name, self.seed),
        };
        match self.guests_bytes {
            Some((low, high)) => Box::new(GuestMemory::new(inner, low, high)),
            None => inner,
        }
    }
}

impl ReclaimPolicy {
    /// The policy that the settings choose; `None` leaves the choice of losers to the kernel.
    pub fn of(settings: &Settings) -> Option<ReclaimPolicy> {
        let memory = &settings.memory;
        memory.policy.map(|name| ReclaimPolicy {
            name,
            seed: settings.seed,
            idle_tax: memory.idle_tax,
            guests_bytes: memory.guests_bytes,
            headroom_bytes: None,
        })
    }
}
