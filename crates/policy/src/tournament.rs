//! A tournament tree: the greatest of a changing list, O(log n) to change, O(1) to read.

/// Values of slots 0, 1, 2, … and their maximum.
#[derive(Clone, Debug)]
pub(crate) struct Tournament {
    /// A complete binary tree: node i's children are 2i and 2i + 1, the leaves are the second
    /// half. `nodes[0]` is not used.
    nodes: Vec<u128>,
}

impl Tournament {
    pub fn new() -> Self {
        Tournament { nodes: vec![0; 2] }
    }

    /// How many slots there are room for: a power of two.
    pub fn capacity(&self) -> usize {
        self.nodes.len() / 2
    }

    pub fn get(&self, slot: usize) -> u128 {
        self.nodes[self.capacity() + slot]
    }

    /// Doubles the capacity; the new slots hold 0.
    pub fn grow(&mut self) {
        let leaves = self.nodes[self.capacity()..].to_vec();
        self.nodes = vec![0; 4 * leaves.len()];
        for (slot, value) in leaves.into_iter().enumerate() {
            self.set(slot, value);
        }
    }

    pub fn set(&mut self, slot: usize, value: u128) {
        let mut i = self.capacity() + slot;
        self.nodes[i] = value;
        while i > 1 {
            let greater = self.nodes[i].max(self.nodes[i ^ 1]);
            i /= 2;
            if self.nodes[i] == greater {
                break;
            }
            self.nodes[i] = greater;
        }
    }

    /// The greatest value and the first slot that holds it.
    pub fn greatest(&self) -> (usize, u128) {
        let value = self.nodes[1];
        let mut i = 1;
        while i < self.capacity() {
            i = if self.nodes[2 * i] == value { 2 * i } else { 2 * i + 1 };
        }
        (i - self.capacity(), value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn knows_the_first_of_the_greatest(
            changes in prop::collection::vec((0usize..40, 0u128..5), 1..100)
        ) {
            let mut tree = Tournament::new();
            let mut list: Vec<u128> = vec![0];
            for (slot, value) in changes {
                while slot >= tree.capacity() {
                    tree.grow();
                    list.resize(tree.capacity(), 0);
                }
                tree.set(slot, value);
                list[slot] = value;
                let greatest = *list.iter().max().unwrap();
                let first = list.iter().position(|&value| value == greatest).unwrap();
                prop_assert_eq!(tree.greatest(), (first, greatest));
                prop_assert_eq!(tree.get(slot), value);
            }
        }
    }
}
