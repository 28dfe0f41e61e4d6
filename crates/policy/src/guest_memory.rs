//! Guests' memory (paper 4, section 2): low and high thresholds for what all guests together hold.
//!
//! 1. **Above high**, guests' pages go first; the hosts' only where no guest has more than it is guaranteed.
//! 2. **Below low**, the hosts' go first, and the guests' last.
//! 3. **Between**, both included, older pages go first, whoever's they are. Of cgroups the age of a page is not
//!    known, but what was not used recently is: who has most of that above its guarantee loses; a guest where
//!    several have as much, then the least key. Where nobody has any (or it is not known), rule 4 for all.
//! 4. **Among those of one class** another policy chooses.
//! 5. **Where no guest holds anything** there are no classes: rule 4 for all.
//!
//! The paper sets both thresholds "very low (5-10% of the total memory) so as not to affect memory intensive
//! host jobs".

use std::cmp::Reverse;

use crate::reclaim::{Holder, Reclaim, eligible};

/// Thresholds for guests around another policy. See the [module](self).
#[derive(Debug)]
pub struct GuestMemory<R> {
    inner: R,
    low_bytes: u64,
    high_bytes: u64,
    /// Those of one class, and where they stand among all (kept for their storage).
    class: Vec<Holder>,
    places: Vec<usize>,
}

impl<R: Reclaim> GuestMemory<R> {
    /// Thresholds in bytes, the lower first; `inner` chooses among those of one class (rule 4).
    ///
    /// # Panics
    /// When `low_bytes` is above `high_bytes`: a broken invariant.
    pub fn new(inner: R, low_bytes: u64, high_bytes: u64) -> Self {
        assert!(low_bytes <= high_bytes, "the low threshold, {low_bytes}, is above {high_bytes}");
        GuestMemory { inner, low_bytes, high_bytes, class: Vec::new(), places: Vec::new() }
    }

    /// Rule 4 among those of one class.
    fn choose_class(&mut self, holders: &[Holder], guest: bool) -> Option<usize> {
        self.class.clear();
        self.places.clear();
        for (place, holder) in holders.iter().enumerate().filter(|(_, it)| it.guest == guest) {
            self.class.push(*holder);
            self.places.push(place);
        }
        self.inner.choose(&self.class).map(|index| self.places[index])
    }

    /// Rule 3: the oldest.
    fn choose_oldest(&mut self, holders: &[Holder]) -> Option<usize> {
        let old = |holder: &Holder| holder.idle_bytes().min(holder.excess_bytes());
        eligible(holders)
            .filter(|(_, holder)| old(holder) > 0)
            .max_by_key(|(_, holder)| (old(holder), holder.guest, Reverse(holder.key)))
            .map(|(index, _)| index)
            .or_else(|| self.inner.choose(holders))
    }
}

impl<R: Reclaim> Reclaim for GuestMemory<R> {
    /// The name of the policy among those of one class.
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn choose(&mut self, holders: &[Holder]) -> Option<usize> {
        let held = |sum: u64, holder: &Holder| sum.saturating_add(holder.held_bytes);
        let guests_bytes = holders.iter().filter(|holder| holder.guest).fold(0, held);
        if guests_bytes == 0 {
            return self.inner.choose(holders);
        }
        let first = if guests_bytes > self.high_bytes {
            true
        } else if guests_bytes < self.low_bytes {
            false
        } else {
            return self.choose_oldest(holders);
        };
        self.choose_class(holders, first).or_else(|| self.choose_class(holders, !first))
    }
}
