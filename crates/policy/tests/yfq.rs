//! YFQ against exact proportional sharing.

use allot_policy::yfq::{NodeKey, ROOT, RequestKey, Yfq};
use proptest::prelude::*;
use std::collections::BTreeMap;

const LONGEST: u64 = 64;

/// A device that serves what it is given, and what each node got; who always wants more is given more.
struct Disk {
    yfq: Yfq,
    lengths: BTreeMap<RequestKey, u64>,
    in_service: Vec<(NodeKey, RequestKey)>,
    parents: BTreeMap<NodeKey, NodeKey>,
    served: BTreeMap<NodeKey, u64>,
    next: RequestKey,
}

impl Disk {
    fn new(batch: usize) -> Self {
        Disk {
            yfq: Yfq::new(batch),
            lengths: BTreeMap::new(),
            in_service: Vec::new(),
            parents: BTreeMap::new(),
            served: BTreeMap::new(),
            next: 0,
        }
    }

    fn add(&mut self, key: NodeKey, parent: NodeKey, weight: u64) {
        self.yfq.add(key, parent, weight);
        self.parents.insert(key, parent);
        self.served.insert(key, 0);
    }

    fn submit(&mut self, leaf: NodeKey, length: u64) {
        self.next += 1;
        self.lengths.insert(self.next, length);
        self.yfq.submit(leaf, self.next, length);
    }

    /// Fills the batch; then the request that `choose` names of so many is done. Answers whose it was.
    fn serve(&mut self, choose: impl FnOnce(usize) -> usize) -> Option<NodeKey> {
        while let Some(sent) = self.yfq.dispatch() {
            self.in_service.push(sent);
        }
        if self.in_service.is_empty() {
            return None;
        }
        let (leaf, request) = self.in_service.remove(choose(self.in_service.len()));
        self.yfq.complete(request);
        let length = self.lengths[&request];
        let mut key = leaf;
        while key != ROOT {
            *self.served.get_mut(&key).expect("it was added") += length;
            key = self.parents[&key];
        }
        Some(leaf)
    }

    fn service(&self, key: NodeKey) -> f64 {
        self.served[&key] as f64
    }
}

/// The next number of a sequence that a seed gives.
fn dice(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |sides| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % sides
    }
}

proptest! {
    /// Of any two siblings that are backlogged, what they got for their weights never differs by more than the
    /// largest request of each; by the batch's more, where the device reorders it.
    #[test]
    fn backlogged_siblings_share_by_weight(
        weights in prop::collection::vec(prop::collection::vec(1u64..50, 1..5), 2..5),
        inner in prop::collection::vec(1u64..50, 5),
        batch in 1usize..6,
        seed: u64,
    ) {
        let mut dice = dice(seed);
        let mut disk = Disk::new(batch);
        let mut leaves = Vec::new();
        let mut weight_of = BTreeMap::new();
        for (group, of) in weights.iter().enumerate() {
            let parent = 100 + group as u64;
            disk.add(parent, ROOT, inner[group]);
            weight_of.insert(parent, inner[group]);
            for (place, weight) in of.iter().enumerate() {
                let leaf = 1000 + 10 * group as u64 + place as u64;
                disk.add(leaf, parent, *weight);
                weight_of.insert(leaf, *weight);
                leaves.push(leaf);
            }
        }
        // So many wait at each leaf that it is never without.
        for leaf in &leaves {
            for _ in 0..=batch {
                disk.submit(*leaf, 1 + dice(LONGEST));
            }
        }
        let largest = (LONGEST * batch as u64) as f64;
        for _ in 0..600 {
            let served = disk.serve(|count| dice(count as u64) as usize).expect("something waits");
            disk.submit(served, 1 + dice(LONGEST));
            for (one, weight) in &weight_of {
                for (other, other_weight) in weight_of.range(one + 1..) {
                    if disk.parents[one] != disk.parents[other] {
                        continue;
                    }
                    let (weight, other_weight) = (*weight as f64, *other_weight as f64);
                    let off = (disk.service(*one) / weight - disk.service(*other) / other_weight).abs();
                    let bound = largest / weight + largest / other_weight;
                    prop_assert!(off <= bound, "{} and {}: {} of {}", one, other, off, bound);
                }
            }
        }
    }

    /// Who is said to be next if it came is next when it comes.
    #[test]
    fn who_would_be_next_is(
        weights in prop::collection::vec(prop::collection::vec(0u64..50, 1..4), 1..4),
        inner in prop::collection::vec(1u64..50, 4),
        steps in 1usize..200,
        seed: u64,
    ) {
        let mut dice = dice(seed);
        let mut disk = Disk::new(2);
        let mut leaves = Vec::new();
        for (group, of) in weights.iter().enumerate() {
            let parent = 100 + group as u64;
            disk.add(parent, ROOT, inner[group]);
            for (place, weight) in of.iter().enumerate() {
                leaves.push((1000 + 10 * group as u64 + place as u64, *weight));
                disk.add(1000 + 10 * group as u64 + place as u64, parent, *weight);
            }
        }
        let mut waiting: BTreeMap<NodeKey, usize> = BTreeMap::new();
        for _ in 0..steps {
            let (leaf, weight) = leaves[dice(leaves.len() as u64) as usize];
            let length = 1 + dice(LONGEST);
            let idle = waiting.get(&leaf).copied().unwrap_or(0) == 0;
            let said = idle.then(|| disk.yfq.would_be_next(leaf, length));
            disk.submit(leaf, length);
            *waiting.entry(leaf).or_default() += 1;
            // Only when something else may be begun is there an answer to compare.
            if let Some((next, request)) = disk.yfq.dispatch() {
                *waiting.get_mut(&next).expect("it waited") -= 1;
                if let Some(said) = said {
                    prop_assert_eq!(said, next == leaf && weight > 0, "{} of {:?}", leaf, waiting);
                }
                if dice(3) > 0 {
                    disk.yfq.complete(request);
                } else {
                    disk.in_service.push((next, request));
                }
            }
            if disk.in_service.len() == 2 {
                let (_, request) = disk.in_service.remove(0);
                disk.yfq.complete(request);
            }
        }
    }

    /// Whoever comes and goes: while two are backlogged, neither gets more beyond its weight's part, counted
    /// from any moment of that time, than twice the largest request of each, and once that of the lightest.
    #[test]
    fn who_was_away_saves_nothing_up(
        weights in prop::collection::vec(1u64..20, 2..6),
        seed: u64,
    ) {
        let mut dice = dice(seed);
        let mut disk = Disk::new(1);
        let count = weights.len() as u64;
        for (place, weight) in weights.iter().enumerate() {
            disk.add(1 + place as u64, ROOT, *weight);
        }
        let mut waits = vec![0u64; weights.len()];
        // What both had got when both became backlogged, for each pair: the least and the greatest difference since.
        let mut since: BTreeMap<(usize, usize), (f64, f64)> = BTreeMap::new();
        for _ in 0..2000 {
            let who = dice(count);
            if dice(3) > 0 && waits[who as usize] < 20 {
                for _ in 0..=dice(6) {
                    disk.submit(1 + who, 1 + dice(LONGEST));
                    waits[who as usize] += 1;
                }
            }
            if let Some(served) = disk.serve(|_| 0) {
                waits[served as usize - 1] -= 1;
            }
            for one in 0..weights.len() {
                for other in one + 1..weights.len() {
                    if waits[one] == 0 || waits[other] == 0 {
                        since.remove(&(one, other));
                        continue;
                    }
                    let part = |place: usize| disk.service(1 + place as u64) / weights[place] as f64;
                    let off = part(one) - part(other);
                    let (least, greatest) = since.entry((one, other)).or_insert((off, off));
                    (*least, *greatest) = (least.min(off), greatest.max(off));
                    let largest = |place: usize| LONGEST as f64 / weights[place] as f64;
                    let lightest = (0..weights.len()).map(largest).fold(0.0, f64::max);
                    let bound = 2.0 * (largest(one) + largest(other)) + lightest;
                    prop_assert!(*greatest - *least <= bound, "{} and {}", one, other);
                }
            }
        }
    }
}

/// Figure 10 of paper 1: one with half of the disk, four that share the rest.
#[test]
fn half_of_the_disk_is_four_times_an_eighth() {
    let mut disk = Disk::new(4);
    disk.add(1, ROOT, 500);
    disk.add(2, ROOT, 500);
    for leaf in 3..7 {
        disk.add(leaf, 2, 100);
    }
    for leaf in [1, 3, 4, 5, 6] {
        for _ in 0..8 {
            disk.submit(leaf, 16);
        }
    }
    for _ in 0..4000 {
        let served = disk.serve(|count| count - 1).expect("something waits");
        disk.submit(served, 16);
    }
    for leaf in 3..7 {
        let ratio = disk.service(1) / disk.service(leaf);
        assert!((3.95..4.05).contains(&ratio), "{leaf}: {ratio}");
    }
}

#[test]
fn a_lone_client_is_held_back_by_the_batch_alone() {
    let mut yfq = Yfq::new(3);
    yfq.add(1, ROOT, 1);
    yfq.add(2, ROOT, 1 << 48);
    for request in 0..5 {
        yfq.submit(1, request, 1 << 40);
    }
    let sent: Vec<_> = std::iter::from_fn(|| yfq.dispatch()).collect();
    assert_eq!(sent, [(1, 0), (1, 1), (1, 2)]);
    assert_eq!(yfq.pending(), (2, 3));
    yfq.complete(1);
    assert_eq!(yfq.dispatch(), Some((1, 3)));
    // Who comes now does not wait until the other has been paid for.
    yfq.submit(2, 10, 1);
    yfq.complete(0);
    assert_eq!(yfq.dispatch(), Some((2, 10)));
}

#[test]
fn who_has_lent_its_tickets_or_has_none_is_served_when_nobody_else_waits() {
    let mut yfq = Yfq::new(1);
    for (leaf, weight) in [(1, 100), (2, 1), (3, 0)] {
        yfq.add(leaf, ROOT, weight);
        for request in 0..4 {
            yfq.submit(leaf, leaf * 10 + request, 1);
        }
    }
    yfq.set_lent(1, true);
    let mut order = Vec::new();
    while let Some((leaf, request)) = yfq.dispatch() {
        yfq.complete(request);
        order.push(leaf);
        // It has its tickets back, and owes nothing for what nobody else wanted.
        if order.len() == 6 {
            yfq.set_lent(1, false);
        }
    }
    assert_eq!(order, [2, 2, 2, 2, 3, 1, 1, 1, 1, 3, 3, 3]);
}

#[test]
fn a_new_weight_counts_for_the_request_at_the_head() {
    let mut yfq = Yfq::new(1);
    yfq.add(1, ROOT, 10);
    yfq.add(2, ROOT, 20);
    yfq.submit(1, 1, 8);
    yfq.submit(2, 2, 8);
    yfq.reweigh(1, 40);
    assert_eq!(yfq.dispatch(), Some((1, 1)));
}

#[test]
fn who_goes_takes_what_waits_along_and_what_is_in_service_ends() {
    let mut yfq = Yfq::new(2);
    yfq.add(1, ROOT, 1);
    yfq.add(2, 1, 1);
    yfq.add(3, ROOT, 1);
    for request in 0..3 {
        yfq.submit(2, request, 5);
    }
    assert_eq!(yfq.dispatch(), Some((2, 0)));
    assert_eq!(yfq.remove(2), [1, 2]);
    yfq.remove(1);
    assert_eq!(yfq.dispatch(), None);
    // Another with the same name has nothing to do with it.
    yfq.add(1, ROOT, 7);
    yfq.submit(1, 20, 5);
    yfq.submit(3, 30, 5);
    assert_eq!(yfq.dispatch(), Some((1, 20)));
    for request in [20, 0] {
        yfq.complete(request);
    }
    assert_eq!(yfq.dispatch(), Some((3, 30)));
    yfq.complete(30);
    assert_eq!(yfq.pending(), (0, 0));
}
