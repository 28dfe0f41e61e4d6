//! Weights of the cgroups of a [`Layout`], from what one resource's tickets decide. Pure.
//!
//! 1. Where all tickets of a resource that decide among the cgroups of one place are soft, none is more than
//!    [`MOST_STABLE`] times another, and no value leaves the cgroups for elsewhere, by tickets or in exchanges, each
//!    cgroup weighs what its tickets amount to. That stays right whoever sleeps: the kernel divides among those that
//!    want the resource, as the ledger does.
//! 2. Elsewhere each weighs what the active clients below it are worth together (valuation), which is computed anew
//!    when activity changes. A sleeper weighs what it is guaranteed, in the same unit, so that it does not wake to an
//!    outdated weight.
//! 3. The heaviest cgroup of a place has the greatest weight that the kernel takes, the others in proportion, rounded
//!    to the nearest, at least 1.
//!
//! **Error**, where weights go to [`MAX_WEIGHT`]. By rule 1 a weight is off by at most 0.5 %, so the shares of one place
//! are within 1 % of what they should be. By rule 2, among n cgroups a share is off by at most (n + 1) / 10 000 of the
//! place; four times that where heavier ones sleep. Each level of the tree adds its own. Ratios above 10 000 to 1
//! cannot be expressed.

use super::layout::Layout;
use ledger::{BASE, CurrencyId, TicketKind};
use std::collections::BTreeSet;
use std::path::Path;
use valuation::Graph;

/// The greatest `cpu.weight`, and `io.weight`.
pub(crate) const MAX_WEIGHT: u32 = 10_000;
/// The greatest ratio of two weights that are left as they are whoever sleeps: when only the lesser is awake it still
/// has a hundred steps of precision.
const MOST_STABLE: u64 = 100;
/// The greatest weight of a sleeper, as a multiple of the heaviest active one's: more would cost the active ones their
/// precision (rule 2).
const MOST_OF_A_SLEEPER: u64 = 4;

/// The weights that one resource's tickets give the cgroups of a [`Layout`].
#[derive(Clone, Debug)]
pub(crate) struct Weights {
    most: u32,
    /// By position: the sum of its soft tickets; `None` where rule 1 does not hold for it.
    amounts: Vec<Option<u64>>,
    /// By position: whether rule 1 holds among its children.
    stable: Vec<bool>,
    top_is_stable: bool,
    /// By position: the weight that was returned last, 0 for none.
    told: Vec<u32>,
}

impl Weights {
    /// Derives the weights of the graph's resource, up to `most`.
    pub fn of(layout: &Layout, graph: &Graph, most: u32) -> Weights {
        let count = layout.positions.len();
        let mut amounts = vec![Some(0); count];
        // Currencies from which value flows to a holder that does not stand below them.
        let mut leaking: BTreeSet<CurrencyId> = BTreeSet::new();
        let mut hard: BTreeSet<CurrencyId> = BTreeSet::new();
        for node in graph.nodes().filter(|node| node.id != BASE) {
            let backing: Vec<_> = node.backing().filter(|ticket| ticket.amount > 0).collect();
            let issuers: BTreeSet<CurrencyId> =
                backing.iter().map(|ticket| ticket.issuer).collect();
            let Some(&index) = layout.by_id.get(&node.id) else {
                leaking.extend(issuers);
                continue;
            };
            // What it gave or received in exchanges comes from, or goes, elsewhere.
            if graph.exchanged(node.id) != Default::default() {
                leaking.insert(node.id);
            }
            let under =
                layout.positions[index].parent.map_or(BASE, |parent| layout.positions[parent].id);
            // Unfunded ones take nothing from anybody.
            let fits = issuers.iter().all(|issuer| *issuer == under);
            if !fits {
                leaking.extend(&issuers);
            }
            let soft = backing.iter().all(|ticket| ticket.kind == TicketKind::Soft);
            if !soft {
                hard.extend(&issuers);
            }
            let amount = backing.iter().map(|ticket| ticket.amount).sum();
            amounts[index] = (fits && soft).then_some(amount);
        }
        let told = vec![0; count];
        let stable = vec![false; count];
        let mut weights = Weights { most, amounts, stable, top_is_stable: false, told };
        weights.find_stable(layout, &mut leaking, &hard);
        weights
    }

    /// Applies rule 1, holders before issuers, so that a leak is known where the value comes from.
    fn find_stable(
        &mut self,
        layout: &Layout,
        leaking: &mut BTreeSet<CurrencyId>,
        hard: &BTreeSet<CurrencyId>,
    ) {
        for (index, place) in layout.positions.iter().enumerate().rev() {
            self.stable[index] =
                self.agree(layout, &place.children, leaking) && !hard.contains(&place.id);
            if leaking.contains(&place.id)
                && let Some(parent) = place.parent
            {
                leaking.insert(layout.positions[parent].id);
            }
        }
        self.top_is_stable = self.agree(layout, &layout.tops, leaking) && !hard.contains(&BASE);
    }

    fn agree(&self, layout: &Layout, siblings: &[usize], leaking: &BTreeSet<CurrencyId>) -> bool {
        let amounts = || siblings.iter().map(|index| self.amounts[*index]);
        // A currency without tickets never competes.
        let funded = amounts().flatten().filter(|amount| *amount > 0);
        let (least, most) = funded
            .fold((u64::MAX, 0), |(least, most), amount| (amount.min(least), amount.max(most)));
        amounts().all(|amount| amount.is_some())
            && !siblings.iter().any(|index| leaking.contains(&layout.positions[*index].id))
            && most <= least.saturating_mul(MOST_STABLE)
    }

    /// Returns whether no weight depends on activity.
    pub fn are_stable(&self, layout: &Layout) -> bool {
        let inner = layout.positions.iter().zip(&self.stable).filter(|(place, _)| !place.is_client);
        self.top_is_stable && inner.into_iter().all(|(_, stable)| *stable)
    }

    /// Computes the weight of every position; 0 without a client below it.
    fn now(&self, layout: &Layout, graph: &mut Graph) -> Vec<u32> {
        let count = layout.positions.len();
        let (mut active, mut sure, mut needed) =
            (vec![0; count], vec![0; count], vec![false; count]);
        for (index, place) in layout.positions.iter().enumerate().rev() {
            if place.is_client {
                // Without activity it is worth nothing now.
                active[index] = graph.value(place.id);
                sure[index] = graph.guaranteed(place.id);
                needed[index] = true;
            }
            if let Some(parent) = place.parent {
                active[parent] += active[index];
                sure[parent] += sure[index];
                needed[parent] |= needed[index];
            }
        }
        let mut weights = vec![0; count];
        let mut weigh = |siblings: &[usize], stable: bool| {
            let siblings: Vec<usize> =
                siblings.iter().copied().filter(|index| needed[*index]).collect();
            let raw: Vec<u64> = if stable {
                siblings.iter().map(|index| self.amounts[*index].unwrap_or(0)).collect()
            } else {
                let pairs: Vec<(u64, u64)> =
                    siblings.iter().map(|index| (active[*index], sure[*index])).collect();
                now_or_when_awake(&pairs)
            };
            for (index, weight) in siblings.iter().zip(scaled(&raw, self.most)) {
                weights[*index] = weight;
            }
        };
        weigh(&layout.tops, self.top_is_stable);
        for (place, stable) in layout.positions.iter().zip(&self.stable) {
            if !place.is_client {
                weigh(&place.children, *stable);
            }
        }
        weights
    }

    /// Returns the weights that changed since the last call.
    pub fn changes<'a>(&mut self, layout: &'a Layout, graph: &mut Graph) -> Vec<(&'a Path, u32)> {
        let weights = self.now(layout, graph);
        let told = std::mem::replace(&mut self.told, weights);
        let all = layout.positions.iter().zip(&self.told).zip(told);
        let changed = all.filter(|((_, now), before)| *now != before && **now != 0);
        changed.map(|((place, weight), _)| (place.path.as_path(), *weight)).collect()
    }
}

/// Applies rule 2 to what each is worth now and what it is guaranteed.
fn now_or_when_awake(pairs: &[(u64, u64)]) -> Vec<u64> {
    let awake = pairs.iter().filter(|(active, _)| *active > 0);
    let (active, sure) = awake.fold((0u128, 0u128), |(active, sure), pair| {
        (active + u128::from(pair.0), sure + u128::from(pair.1))
    });
    let most = pairs.iter().map(|pair| pair.0).max().unwrap_or(0).saturating_mul(MOST_OF_A_SLEEPER);
    let when_awake = |own: u64| {
        if active == 0 || sure == 0 {
            return own;
        }
        let worth = u128::from(own) * active / sure;
        u64::try_from(worth).unwrap_or(u64::MAX).min(most)
    };
    pairs.iter().map(|pair| if pair.0 > 0 { pair.0 } else { when_awake(pair.1) }).collect()
}

/// Applies rule 3.
pub(crate) fn scaled(raw: &[u64], most: u32) -> Vec<u32> {
    let greatest = u128::from(raw.iter().copied().max().unwrap_or(0).max(1));
    raw.iter()
        .map(|value| {
            let weight = (u128::from(*value) * u128::from(most) * 2 + greatest) / (2 * greatest);
            (weight as u32).clamp(1, most)
        })
        .collect()
}

/// Returns weights that add up to about `total`, in proportion to the values, each from 1 to [`MAX_WEIGHT`]: for cgroups
/// with neighbours that are not ours, which keep their own.
pub(crate) fn portions(values: &[u64], total: u64) -> Vec<u32> {
    let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
    values
        .iter()
        .map(|value| {
            let part = u128::from(*value) * u128::from(total) * 2 + sum;
            let weight = part.checked_div(2 * sum).unwrap_or(0);
            u32::try_from(weight).unwrap_or(MAX_WEIGHT).clamp(1, MAX_WEIGHT)
        })
        .collect()
}

#[cfg(test)]
#[path = "weights_tests.rs"]
mod tests;
