//! Min-funding revocation (Waldspurger, MIT/LCS/TR-667, 1995, chapter 6), with the idle memory tax of his ESX
//! Server (OSDI 2002, section 5.2): memory goes from who pays least for it.
//!
//! 1. **Price** (1995): a client pays t / u tickets for each of the u bytes that it holds. Who pays least loses.
//! 2. **Idle tax** (2002): an idle byte counts as k = 1 / (1 − τ) bytes, so the price is
//!    t / (active + k · idle). With τ = 0 memory goes by tickets alone; near 1 all idle memory goes first, whatever
//!    the tickets. The usual tax is 0.75: an idle byte costs four active ones.
//! 3. **Exact**: all prices are multiplied by 1 − τ, and compared as fractions, crosswise.
//! 4. **Who takes part**: those that hold more than they are guaranteed ([`reclaim`](crate::reclaim), rule 1). The
//!    price is for all that they hold, the guaranteed part included: tickets pay for both.
//! 5. **Equal prices**: who holds more (idle bytes counted as in rule 2) loses; then the least key. Clients without
//!    tickets all pay nothing, so among those the greatest loses, and they become equal.
//!
//! Property: with all memory active and taken in small parts, memory ends in proportion to tickets, as far as
//! clients use and guarantees allow.

use std::cmp::Ordering;

use crate::reclaim::{Holder, Reclaim, ReclaimName, eligible};

/// The usual idle tax, in thousandths (ESX Server's default).
pub const IDLE_TAX: u64 = 750;

/// The greatest idle tax, in thousandths.
pub const MAX_IDLE_TAX: u64 = 999;

/// Min-funding revocation. See the [module](self).
#[derive(Clone, Debug)]
pub struct MinFunding {
    idle_tax: u64,
}

impl MinFunding {
    /// With this idle tax, in thousandths, 0 to [`MAX_IDLE_TAX`].
    ///
    /// # Panics
    /// When the tax is too great: a broken invariant.
    pub fn new(idle_tax: u64) -> Self {
        assert!(
            idle_tax <= MAX_IDLE_TAX,
            "a tax of {idle_tax} thousandths is above {MAX_IDLE_TAX}"
        );
        MinFunding { idle_tax }
    }

    /// What it pays for, times 1 − τ, in thousandths of a byte (rule 3): at most 2⁶².
    fn charged(&self, holder: &Holder) -> u128 {
        let idle = holder.idle_bytes();
        let active = holder.held_bytes - idle;
        u128::from(1000 - self.idle_tax) * u128::from(active) + 1000 * u128::from(idle)
    }

    /// `Less` where the first loses before the second (rules 1, 2 and 5).
    fn order(&self, one: &Holder, other: &Holder) -> Ordering {
        let (charged, other_charged) = (self.charged(one), self.charged(other));
        let price = u128::from(one.tickets) * other_charged;
        let other_price = u128::from(other.tickets) * charged;
        let by_price = price.cmp(&other_price);
        by_price.then(other_charged.cmp(&charged)).then(one.key.cmp(&other.key))
    }
}

impl Default for MinFunding {
    fn default() -> Self {
        MinFunding::new(IDLE_TAX)
    }
}

impl Reclaim for MinFunding {
    fn name(&self) -> &'static str {
        ReclaimName::MinFunding.as_str()
    }

    fn choose(&mut self, holders: &[Holder]) -> Option<usize> {
        let loser = eligible(holders).min_by(|(_, one), (_, other)| self.order(one, other));
        loser.map(|(index, _)| index)
    }
}
