//! Inverse lottery (Waldspurger, *Lottery and Stride Scheduling*, MIT/LCS/TR-667, 1995, chapter 6): a loser is drawn,
//! and the more tickets it holds the less likely it is to lose.
//!
//! 1. **Draw** (1995). Client i loses with a probability in proportion to (1 − t_i / T), "times the fraction of
//!    memory that i holds": to (T − t_i) · u_i, which is exact in integers. T is what all that take part hold.
//! 2. **Who takes part**: those that hold more than they are guaranteed ([`reclaim`](crate::reclaim), rule 1), with
//!    what lies above the guarantee as u_i. So a client is never drawn for what it cannot lose, and the tickets of
//!    those that cannot lose do not blur the ratio of the others.
//! 3. **A lone client** (n = 1, where the rule gives 0 of 0) loses for certain: nobody else is left.
//! 4. **All the tickets** (t_i = T, n > 1): who holds them never loses while others take part, the others lose by
//!    what they hold. **No tickets** (T = 0): all lose by what they hold, as if tickets were equal.
//! 5. **Chance** as in [`lottery`](crate::lottery), rule 6: one stream from the seed, one number a draw, no
//!    modulo bias.
//!
//! Property: losses are multinomial with these probabilities. With n clients of equal excess, who holds no tickets
//! loses with 1 / (n − 1), who holds a part p with (1 − p) / (n − 1): many clients blur differences. Of two,
//! each loses in proportion to the other's tickets.

use rand_core::SeedableRng;
use rand_pcg::Pcg64;

use crate::reclaim::{Holder, Reclaim, ReclaimName, eligible};

/// The inverse lottery. See the [module](self).
#[derive(Debug)]
pub struct InverseLottery {
    chance: Pcg64,
}

impl InverseLottery {
    /// `seed` decides all draws.
    pub fn new(seed: u64) -> Self {
        InverseLottery { chance: Pcg64::seed_from_u64(seed) }
    }
}

/// Who takes part, what it holds of the draw, and what all hold. 2⁴⁸ tickets and 2⁵² bytes each: 2¹⁴ such clients
/// fit in 128 bits; where tickets are parts of one whole, 2²⁸ do.
fn chances(holders: &[Holder]) -> (impl Iterator<Item = (usize, u128)>, u128) {
    let (count, total) = eligible(holders)
        .fold((0_usize, 0_u128), |(n, sum), (_, holder)| (n + 1, sum + u128::from(holder.tickets)));
    let part = move |holder: &Holder| {
        // Rules 3 and 4: otherwise 0 for everybody.
        let against = if count == 1 || total == 0 { 1 } else { total - u128::from(holder.tickets) };
        against * u128::from(holder.excess_bytes())
    };
    let parts = eligible(holders).map(move |(index, holder)| (index, part(holder)));
    let sum = eligible(holders)
        .try_fold(0_u128, |sum, (_, holder)| sum.checked_add(part(holder)))
        .expect("the chances of all holders fit in 128 bits");
    (parts, sum)
}

impl Reclaim for InverseLottery {
    fn name(&self) -> &'static str {
        ReclaimName::InverseLottery.as_str()
    }

    fn choose(&mut self, holders: &[Holder]) -> Option<usize> {
        let (mut parts, sum) = chances(holders);
        if sum == 0 {
            return None;
        }
        let mut point = crate::lottery::below(&mut self.chance, sum);
        parts.find_map(|(index, part)| match point.checked_sub(part) {
            Some(beyond) => {
                point = beyond;
                None
            }
            None => Some(index),
        })
    }
}
