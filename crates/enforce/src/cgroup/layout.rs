//! From a funding graph, which need not be a tree, to a tree of cgroups and their weights. Pure.
//!
//! 1. A currency stands under its only issuer; one with several issuers stands at the top, and so
//!    does one with none. Every client is a leaf.
//! 2. Where all tickets that decide among the cgroups of one place are soft, and no value leaves
//!    the place to elsewhere, each weighs what its tickets amount to. That stays right whoever
//!    sleeps: the kernel divides among those that want the CPU, as the ledger does.
//! 3. Elsewhere each weighs what the active clients below it are worth together (valuation), and
//!    that is computed anew when who is active changes. One that sleeps weighs what it is sure of,
//!    in the same unit, so that it does not wake to a weight of long ago.
//! 4. The heaviest cgroup of a place weighs [`MAX_WEIGHT`], the others in proportion, rounded to
//!    the nearest, at least 1.
//!
//! **Error** of rule 4: among n cgroups of one place, a share of the place is off by at most
//! (n + 1) / 10 000 of the place; ratios above 10 000 to 1 cannot be expressed.

use ledger::{BASE, CurrencyId, TicketKind};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use valuation::Graph;

/// The greatest `cpu.weight`.
pub(super) const MAX_WEIGHT: u32 = 10_000;
/// A sleeper weighs at most so many times what the heaviest active one does: more would cost the
/// active ones their precision (rule 3).
const MOST_OF_A_SLEEPER: u64 = 4;

/// One currency's place.
#[derive(Clone, Debug)]
struct Place {
    id: CurrencyId,
    client: bool,
    parent: Option<usize>,
    children: Vec<usize>,
    /// Sum of the soft tickets from the only issuer; `None` where rule 2 does not hold for it.
    amount: Option<u64>,
    /// Rule 2 holds among its children.
    stable: bool,
}

/// The tree of one plan.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Issuers before holders.
    places: Vec<Place>,
    by_id: BTreeMap<CurrencyId, usize>,
    tops: Vec<usize>,
    top_is_stable: bool,
}

/// The name of a currency's cgroup.
pub(super) fn name(id: CurrencyId) -> String {
    format!("c{}", id.0)
}

impl Layout {
    /// The tree for the clients for whom `is_leaf` holds; others (guests, and processes that are
    /// left where they are) take their value elsewhere.
    pub fn of(graph: &Graph, is_leaf: impl Fn(CurrencyId) -> bool) -> Layout {
        let mut places: Vec<Place> = Vec::new();
        let mut by_id = BTreeMap::new();
        // Currencies from which value flows to somebody who does not stand below them.
        let mut leaking: BTreeSet<CurrencyId> = BTreeSet::new();
        let mut hard: BTreeSet<CurrencyId> = BTreeSet::new();
        for node in graph.nodes().filter(|node| node.id != BASE) {
            let backing: Vec<_> = node.backing().filter(|ticket| ticket.amount > 0).collect();
            let issuers: BTreeSet<CurrencyId> =
                backing.iter().map(|ticket| ticket.issuer).collect();
            let only = if issuers.len() == 1 { issuers.first().copied() } else { None };
            if node.is_client && !is_leaf(node.id) {
                leaking.extend(issuers);
                continue;
            }
            if only.is_none() {
                // Unfunded ones take nothing from anybody.
                leaking.extend(&issuers);
            }
            let soft = backing.iter().all(|ticket| ticket.kind == TicketKind::Soft);
            if let Some(issuer) = only
                && !soft
            {
                hard.insert(issuer);
            }
            let amount = backing.iter().map(|ticket| ticket.amount).sum();
            let index = places.len();
            let parent = only.and_then(|issuer| by_id.get(&issuer).copied());
            places.push(Place {
                id: node.id,
                client: node.is_client,
                parent,
                children: Vec::new(),
                amount: (issuers.len() < 2 && soft).then_some(amount),
                stable: false,
            });
            by_id.insert(node.id, index);
            if let Some(parent) = parent {
                places[parent].children.push(index);
            }
        }
        let tops = (0..places.len()).filter(|index| places[*index].parent.is_none()).collect();
        let mut layout = Layout { places, by_id, tops, top_is_stable: false };
        layout.find_stable(&mut leaking, &hard);
        layout
    }

    /// Holders before issuers, so that a leak is known where the value comes from.
    fn find_stable(&mut self, leaking: &mut BTreeSet<CurrencyId>, hard: &BTreeSet<CurrencyId>) {
        for index in (0..self.places.len()).rev() {
            let place = &self.places[index];
            let (id, parent) = (place.id, place.parent);
            let stable = self.agree(&place.children, leaking) && !hard.contains(&id);
            self.places[index].stable = stable;
            if leaking.contains(&id)
                && let Some(parent) = parent
            {
                leaking.insert(self.places[parent].id);
            }
        }
        self.top_is_stable = self.agree(&self.tops, leaking) && !hard.contains(&BASE);
    }

    fn agree(&self, siblings: &[usize], leaking: &BTreeSet<CurrencyId>) -> bool {
        siblings.iter().all(|index| {
            let place = &self.places[*index];
            place.amount.is_some() && !leaking.contains(&place.id)
        })
    }

    /// Where a currency stands, below the top.
    pub fn path(&self, id: CurrencyId) -> Option<PathBuf> {
        let mut index = *self.by_id.get(&id)?;
        let mut names = vec![name(self.places[index].id)];
        while let Some(parent) = self.places[index].parent {
            names.push(name(self.places[parent].id));
            index = parent;
        }
        Some(names.iter().rev().collect())
    }

    /// The weight of every place that has a client below it, by path, an outer one before those
    /// in it.
    pub fn weights(&self, graph: &mut Graph) -> Vec<(PathBuf, u32)> {
        let mut active = vec![0; self.places.len()];
        let mut sure = vec![0; self.places.len()];
        let mut needed = vec![false; self.places.len()];
        for index in (0..self.places.len()).rev() {
            let place = &self.places[index];
            if place.client {
                // One that is not active is worth nothing now.
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
        let mut weights = vec![0; self.places.len()];
        let mut weigh = |siblings: &[usize], stable: bool| {
            let siblings: Vec<usize> =
                siblings.iter().copied().filter(|index| needed[*index]).collect();
            let raw: Vec<u64> = if stable {
                siblings.iter().map(|index| self.places[*index].amount.unwrap_or(0)).collect()
            } else {
                let pairs: Vec<(u64, u64)> =
                    siblings.iter().map(|index| (active[*index], sure[*index])).collect();
                now_or_when_awake(&pairs)
            };
            for (index, weight) in siblings.iter().zip(scaled(&raw)) {
                weights[*index] = weight;
            }
        };
        weigh(&self.tops, self.top_is_stable);
        for place in self.places.iter().filter(|place| !place.client) {
            weigh(&place.children, place.stable);
        }
        let mut paths: Vec<PathBuf> = Vec::with_capacity(self.places.len());
        for place in &self.places {
            let outer = place.parent.map_or_else(PathBuf::new, |parent| paths[parent].clone());
            paths.push(outer.join(name(place.id)));
        }
        let all = paths.into_iter().zip(weights).zip(needed);
        all.filter(|(_, needed)| *needed).map(|(pair, _)| pair).collect()
    }
}

/// Rule 3, from what each is worth now and what it is sure of.
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

/// Rule 4.
pub(super) fn scaled(raw: &[u64]) -> Vec<u32> {
    let greatest = u128::from(raw.iter().copied().max().unwrap_or(0).max(1));
    raw.iter()
        .map(|value| {
            let weight =
                (u128::from(*value) * u128::from(MAX_WEIGHT) * 2 + greatest) / (2 * greatest);
            (weight as u32).clamp(1, MAX_WEIGHT)
        })
        .collect()
}

/// Weights that add up to about `total`, in proportion to the values, each from 1 to
/// [`MAX_WEIGHT`]: for cgroups with neighbours that are not ours, which keep their own.
pub(super) fn portions(values: &[u64], total: u64) -> Vec<u32> {
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
