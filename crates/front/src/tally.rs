//! Counts of what each person has, with limits for one and for all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How much each person has of something, while they have any.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Mutex<BTreeMap<u32, usize>>>);

/// A part of a [`Tally`], given back when dropped.
#[derive(Debug)]
pub struct Counted {
    tally: Tally,
    person: u32,
    amount: usize,
}

impl Tally {
    /// Counts so much more for a person; `None` where that would be more than `most`, or all together more than `in_all`.
    pub fn count(&self, person: u32, amount: usize, most: usize, in_all: usize) -> Option<Counted> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = all.get(&person).copied().unwrap_or(0);
        if now + amount > most || all.values().sum::<usize>() + amount > in_all {
            return None;
        }
        all.insert(person, now + amount);
        Some(Counted { tally: self.clone(), person, amount })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut all = self.tally.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(now) = all.get_mut(&self.person) {
            *now -= self.amount;
            if *now == 0 {
                all.remove(&self.person);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_has_is_counted_and_given_back() {
        let tally = Tally::default();
        let some = tally.count(1, 60, 100, 200).expect("room");
        assert!(tally.count(1, 41, 100, 200).is_none());
        let rest = tally.count(1, 40, 100, 200).expect("room");
        assert!(tally.count(2, 100, 100, 199).is_none());
        assert!(tally.count(2, 100, 100, 200).is_some());
        drop((some, rest));
        assert!(tally.0.lock().expect("a lock").is_empty());
    }
}
