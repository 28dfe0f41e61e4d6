//! Infeasible weights (Chandra, Adler, Goyal & Shenoy, *Surplus Fair Scheduling*, OSDI 2000).
//!
//! One client can hold one seat at a time, so on `p` seats nobody can have more than 1/p of the
//! machine, whatever the weights say.
//!
//! 1. In descending order of weight: a client whose weight is at least 1/p of the total of it and
//!    all after it is **capped**: it is promised one whole seat. The rest share p − 1 seats by the
//!    same rule. The first client that passes ends the search, so only the p heaviest are looked at.
//!    (The paper's `readjust`, which gives a capped client the weight Σ_{j>i} w_j / (p − 1): the
//!    weight with which it gets exactly one seat.)
//! 2. Those that are not capped keep their own weights, hence their ratios, and share the seats
//!    that are left.
//! 3. Nobody is promised more than one seat. The promises add up to all seats, or to one seat each
//!    when there are no more clients than seats.

use crate::ClientKey;

/// One whole seat, the unit of promises: 2³² parts.
pub const ONE_SEAT: u64 = 1 << 32;

/// Whether a client of this weight must have a whole seat out of `seats`, when it and those
/// lighter than it weigh `total` (rule 1).
///
/// `total` times 2 and `weight` times `seats` must fit in 128 bits.
pub(crate) fn is_capped(weight: u128, total: u128, seats: usize) -> bool {
    weight > 0 && seats > 0 && weight * seats as u128 >= total
}

/// How many of the heaviest clients are capped: `descending` are the weights from the heaviest
/// down, `total` is what all weigh. Looks at no more than `seats` of them.
///
/// ```
/// use allot_policy::feasible::capped;
/// // 3:2:2:1 fits on two CPUs; 10:1:1 does not: the first gets one CPU for itself.
/// assert_eq!(capped(8, 2, [3, 2, 2, 1]), 0);
/// assert_eq!(capped(12, 2, [10, 1, 1]), 1);
/// ```
pub fn capped(total: u128, seats: usize, descending: impl IntoIterator<Item = u64>) -> usize {
    let mut rest = total;
    let mut count = 0;
    for weight in descending.into_iter().map(u128::from) {
        if !is_capped(weight, rest, seats - count) {
            break;
        }
        rest -= weight;
        count += 1;
    }
    count
}

/// What each client is promised of one seat, in parts of 2⁻³² ([`ONE_SEAT`]), in the given order;
/// a weight of 0 is promised nothing.
///
/// Rounding: down to whole parts; what that leaves over (less than one part a client) goes, one
/// part each, to the greatest remainders, the earlier first among equals, so that the promises add
/// up exactly (rule 3). O(n log n).
///
/// ```
/// use allot_policy::feasible::{ONE_SEAT, promised};
/// let promises = promised(&[(1, 10), (2, 1), (3, 1)], 2);
/// assert_eq!(promises, [(1, ONE_SEAT), (2, ONE_SEAT / 2), (3, ONE_SEAT / 2)]);
/// ```
pub fn promised(weights: &[(ClientKey, u64)], seats: usize) -> Vec<(ClientKey, u64)> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(weights[i].1), i));
    let total: u128 = weights.iter().map(|&(_, weight)| u128::from(weight)).sum();
    let count = capped(total, seats, order.iter().map(|&i| weights[i].1));

    let mut promises: Vec<_> = weights.iter().map(|&(client, _)| (client, 0)).collect();
    let (heavy, light) = order.split_at(count);
    for &i in heavy {
        promises[i].1 = ONE_SEAT;
    }
    let rest: u128 = light.iter().map(|&i| u128::from(weights[i].1)).sum();
    if rest == 0 || count == seats {
        return promises;
    }
    let parts = (seats - count) as u128 * u128::from(ONE_SEAT);
    let mut left = parts;
    let mut remainders = Vec::with_capacity(light.len());
    for &i in light {
        let exact = u128::from(weights[i].1) * parts;
        // Not capped, so less than one seat: it fits in 64 bits.
        promises[i].1 = (exact / rest) as u64;
        left -= exact / rest;
        remainders.push((exact % rest, i));
    }
    remainders.sort_by_key(|&(remainder, i)| (std::cmp::Reverse(remainder), i));
    // What is left over is the sum of the remainders: less than one part each.
    for &(_, i) in &remainders[..left as usize] {
        promises[i].1 += 1;
    }
    promises
}
