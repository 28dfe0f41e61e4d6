//! The arrays of a bank, and the places in them. Pure; the bounds are proved by Kani (docs/theorems.md).

use std::ops::Deref;

/// One array of a bank. Invariant: it never has more than `MAX` entries.
#[derive(Clone, Debug)]
pub(crate) struct BankArray<T, const MAX: usize> {
    entries: Vec<T>,
}

/// Consecutive entries of an array. Only [`BankArray::append`] makes one that is not empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    first: u32,
    len: u32,
}

impl Extent {
    /// The extent of `more` entries after the first `used` ones; `None` where `max` are too few.
    fn after(used: usize, more: usize, max: usize) -> Option<Extent> {
        if more > max.checked_sub(used)? {
            return None;
        }
        let (first, len) = (u32::try_from(used).ok()?, u32::try_from(more).ok()?);
        Some(Extent { first, len })
    }

    /// The index of the first entry.
    pub fn first(self) -> u32 {
        self.first
    }

    /// The number of entries.
    pub fn len(self) -> u32 {
        self.len
    }
}

impl<T, const MAX: usize> Default for BankArray<T, MAX> {
    fn default() -> Self {
        BankArray { entries: Vec::new() }
    }
}

impl<T, const MAX: usize> Deref for BankArray<T, MAX> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.entries
    }
}

impl<T: Clone, const MAX: usize> BankArray<T, MAX> {
    /// Whether `more` entries fit.
    pub fn has_room(&self, more: usize) -> bool {
        Extent::after(self.entries.len(), more, MAX).is_some()
    }

    /// Appends all of some entries, or none of them where they do not fit.
    pub fn append(&mut self, more: &[T]) -> Option<Extent> {
        let extent = Extent::after(self.entries.len(), more.len(), MAX)?;
        self.entries.extend_from_slice(more);
        Some(extent)
    }
}

/// The index at which a bank begins in a map that has two arrays of `max` entries.
pub(crate) fn bank_start(bank: u32, max: usize) -> usize {
    (bank & 1) as usize * max
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut array = BankArray::<u8, 3>::default();
        assert_eq!(array.append(&[1, 2]), Some(Extent { first: 0, len: 2 }));
        assert!(array.has_room(1) && !array.has_room(2) && !array.has_room(usize::MAX));
        assert_eq!(array.append(&[3, 4]), None);
        assert_eq!(*array, [1, 2]);
        assert_eq!(array.append(&[5]), Some(Extent { first: 2, len: 1 }));
        assert_eq!(array.append(&[6]), None);
        assert_eq!(array.append(&[]), Some(Extent { first: 3, len: 0 }));
        assert_eq!(*array, [1, 2, 5]);
    }
}

#[cfg(kani)]
mod proofs {
    use super::*;
    use crate::abi::{EDGES_MAX, GIVERS_MAX, SLOTS_MAX, STEPS_MAX};

    fn any_max() -> usize {
        let all = [SLOTS_MAX, EDGES_MAX, STEPS_MAX, GIVERS_MAX];
        let index: usize = kani::any();
        kani::assume(index < all.len());
        all[index]
    }

    /// For every number of entries, used and more, without any bound: what is accepted lies within
    /// the array and after all before it, and what fits is accepted.
    #[kani::proof]
    fn an_extent_is_within_its_array() {
        let (used, more, max) = (kani::any(), kani::any(), any_max());
        match Extent::after(used, more, max) {
            Some(extent) => {
                let end = u64::from(extent.first) + u64::from(extent.len);
                assert!(extent.first as usize == used && extent.len as usize == more);
                assert!(end <= max as u64 && end == used as u64 + more as u64);
            }
            None => assert!(used > max || more > max - used),
        }
    }

    /// Any two extents that are made one after the other have no entry in common.
    #[kani::proof]
    fn extents_do_not_overlap() {
        let (used, one, between, two, max): (usize, usize, usize, usize, usize) =
            (kani::any(), kani::any(), kani::any(), kani::any(), any_max());
        if let Some(first) = Extent::after(used, one, max) {
            let used = used + one;
            kani::assume(between <= max - used);
            if let Some(second) = Extent::after(used + between, two, max) {
                assert!(first.first + first.len <= second.first);
            }
        }
    }

    /// Every index within a bank is within the map, and in no other bank.
    #[kani::proof]
    fn banks_do_not_overlap() {
        let (bank, index, other, max): (u32, usize, usize, usize) =
            (kani::any(), kani::any(), kani::any(), any_max());
        kani::assume(index < max && other < max);
        assert!(bank_start(bank, max) + index < 2 * max);
        assert!(bank_start(bank, max) + index != bank_start(bank ^ 1, max) + other);
    }

    /// Three appends of up to three entries to an array of four: the array keeps its invariant, an
    /// accepted append has its entries where it says, and a refused one changes nothing.
    #[kani::proof]
    #[kani::unwind(6)]
    fn an_append_is_whole_or_nothing() {
        let mut array = BankArray::<u8, 4>::default();
        for _ in 0..3 {
            let (more, len): ([u8; 3], usize) = (kani::any(), kani::any());
            kani::assume(len <= more.len());
            let before = array.len();
            let fits = array.has_room(len);
            let extent = array.append(&more[..len]);
            assert!(extent.is_some() == fits && fits == (before + len <= 4));
            assert!(array.len() <= 4);
            match extent {
                None => assert!(array.len() == before),
                Some(extent) => {
                    assert!(extent.first as usize == before && array.len() == before + len);
                    for index in 0..len {
                        assert!(array[before + index] == more[index]);
                    }
                }
            }
        }
    }
}
