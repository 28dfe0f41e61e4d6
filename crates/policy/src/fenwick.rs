//! A Fenwick tree (Fenwick 1994): sums of a changing list, O(log n) to change, O(log n) to find
//! whose part of the total a point falls into.

/// Sums over slots 0, 1, 2, … The values themselves are kept by the owner.
#[derive(Clone, Debug)]
pub(crate) struct Fenwick {
    /// One-based: `sums[i]` is the sum of the `i & -i` slots that end at slot `i - 1`. The length
    /// less one is a power of two.
    sums: Vec<u128>,
}

impl Fenwick {
    pub fn new() -> Self {
        Fenwick { sums: vec![0; 2] }
    }

    /// How many slots there are room for: a power of two.
    pub fn capacity(&self) -> usize {
        self.sums.len() - 1
    }

    pub fn total(&self) -> u128 {
        self.sums[self.capacity()]
    }

    /// Doubles the capacity; the new slots hold 0.
    pub fn grow(&mut self) {
        let total = self.total();
        let capacity = 2 * self.capacity();
        self.sums.resize(capacity + 1, 0);
        self.sums[capacity] = total;
    }

    pub fn change(&mut self, slot: usize, old: u128, new: u128) {
        let mut i = slot + 1;
        while i < self.sums.len() {
            // Never below zero: the sum holds `old`.
            self.sums[i] = self.sums[i] - old + new;
            i += i & i.wrapping_neg();
        }
    }

    /// The slot into whose part `point` falls: the sum of all slots before it is at most `point`,
    /// with it greater. `point` must be less than the total.
    pub fn find(&self, point: u128) -> usize {
        debug_assert!(point < self.total());
        let mut rest = point;
        let mut slot = 0;
        let mut step = self.capacity();
        while step > 0 {
            if slot + step < self.sums.len() && self.sums[slot + step] <= rest {
                slot += step;
                rest -= self.sums[slot];
            }
            step /= 2;
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_what_a_walk_along_the_list_finds(
            changes in prop::collection::vec((0usize..40, 0u128..5), 1..100)
        ) {
            let mut tree = Fenwick::new();
            let mut list: Vec<u128> = vec![0];
            for (slot, value) in changes {
                while slot >= tree.capacity() {
                    tree.grow();
                    list.resize(tree.capacity(), 0);
                }
                tree.change(slot, list[slot], value);
                list[slot] = value;
                prop_assert_eq!(tree.total(), list.iter().sum::<u128>());
            }
            let mut point = 0;
            for (slot, value) in list.iter().enumerate() {
                for _ in 0..*value {
                    prop_assert_eq!(tree.find(point), slot);
                    point += 1;
                }
            }
        }
    }
}
