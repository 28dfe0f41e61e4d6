//! Persons: uids that one user has by a range of subordinate uids (`/etc/subuid`) count as that user where limits do, so
//! that nobody has them more than once.

use std::ops::RangeInclusive;

/// Which uids belong to whom. No range overlaps another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Persons(Vec<(RangeInclusive<u32>, u32)>);

impl Persons {
    /// Of ranges and their owners; what overlaps an earlier range is left out, and so is what would make somebody who owns
    /// a range another's.
    pub fn of_ranges(ranges: impl IntoIterator<Item = (RangeInclusive<u32>, u32)>) -> Persons {
        let mut persons = Persons::default();
        for (range, owner) in ranges {
            let clashes = |(other, other_owner): &(RangeInclusive<u32>, u32)| {
                let overlaps = range.start() <= other.end() && other.start() <= range.end();
                overlaps || range.contains(other_owner) || other.contains(&owner)
            };
            // A range that has its owner in it would make nobody of them.
            let sound = !range.is_empty() && !range.contains(&owner);
            if sound && !persons.0.iter().any(clashes) {
                persons.0.push((range, owner));
            }
        }
        persons.0.sort_by_key(|(range, _)| *range.start());
        persons
    }

    /// The uid of the person whose a uid is. A range of root's is a person of its own: limits hold there.
    pub fn of(&self, uid: u32) -> u32 {
        let after = self.0.partition_point(|(range, _)| *range.start() <= uid);
        match after.checked_sub(1).map(|index| &self.0[index]) {
            Some((range, 0)) if range.contains(&uid) => *range.start(),
            Some((range, owner)) if range.contains(&uid) => *owner,
            _ => uid,
        }
    }

    /// All uids of the person of a uid.
    pub(crate) fn uids_of(&self, uid: u32) -> impl Iterator<Item = RangeInclusive<u32>> {
        let person = self.of(uid);
        let own = self.0.iter().filter(move |(range, _)| self.of(*range.start()) == person);
        let ranges: Vec<RangeInclusive<u32>> = own.map(|(range, _)| range.clone()).collect();
        let itself = ranges.iter().all(|range| !range.contains(&person)).then_some(person..=person);
        itself.into_iter().chain(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_belongs_to_its_owner() {
        let persons = Persons::of_ranges([
            (200_000..=265_535, 1001),
            (100_000..=165_535, 1000),
            (165_535..=200_000, 1002),
            (300_000..=300_009, 0),
            (400_000..=400_009, 1000),
            (1000..=2000, 1500),
            (900..=1100, 7),
            (500_000..=500_009, 150_000),
        ]);
        for (uid, person) in [
            (0, 0),
            (1000, 1000),
            (100_000, 1000),
            (165_535, 1000),
            (165_536, 165_536),
            (200_000, 1001),
            (300_009, 300_000),
            (300_010, 300_010),
            (400_005, 1000),
            (1600, 1600),
            (500_000, 500_000),
            (u32::MAX, u32::MAX),
        ] {
            assert_eq!(persons.of(uid), person, "{uid}");
        }
        let all: Vec<_> = persons.uids_of(150_000).collect();
        assert_eq!(all, [1000..=1000, 100_000..=165_535, 400_000..=400_009]);
        assert_eq!(persons.uids_of(300_001).collect::<Vec<_>>(), [300_000..=300_009]);
        assert_eq!(persons.uids_of(7).collect::<Vec<_>>(), [7..=7]);
    }
}
