//! Short lives: houses whose processes end before they can be given a weight. Pure.
//!
//! A process that ends soon is not worth a move. Many of them are: a build, or a chain in which each process leaves a
//! successor and ends, would run beside all clients for ever. So
//! 1. a house's short lives are counted, by a count of which [`KEPT`] is left after each second;
//! 2. a house with more than [`MANY`] has a **nursery** until fewer than [`FEW`] are left: a place for those of it that do not
//!    compete. Their children are born there, so nobody has to be quick enough for them;
//! 3. a nursery weighs as one more client of its house, which the others of the house make room for.

use ledger::CurrencyId;
use std::collections::BTreeMap;

/// The part of a count that is left after a second.
const KEPT: f64 = 0.5;
/// A house with more short lives than this has a nursery.
const MANY: f64 = 3.0;
/// A house with fewer short lives than this has none any more: five seconds after the last of a few.
const FEW: f64 = 0.1;

#[derive(Clone, Copy, Debug)]
struct Count {
    lives: f64,
    at_ns: u64,
    has_nursery: bool,
}

impl Count {
    fn at(self, now_ns: u64) -> f64 {
        self.lives * KEPT.powf(now_ns.saturating_sub(self.at_ns) as f64 / 1e9)
    }
}

/// The short lives of all houses.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShortLives {
    counts: BTreeMap<CurrencyId, Count>,
}

impl ShortLives {
    /// Counts a short life (rules 1 and 2).
    pub fn add(&mut self, house: CurrencyId, now_ns: u64) {
        let none = Count { lives: 0.0, at_ns: now_ns, has_nursery: false };
        let count = self.counts.entry(house).or_insert(none);
        count.lives = count.at(now_ns) + 1.0;
        count.at_ns = now_ns;
        count.has_nursery |= count.lives > MANY;
    }

    /// Forgets the houses that have few.
    pub fn forget(&mut self, now_ns: u64) {
        self.counts.retain(|_, count| count.at(now_ns) >= FEW);
    }

    /// Whether a house has a nursery.
    pub fn has_nursery(&self, house: CurrencyId) -> bool {
        self.counts.get(&house).is_some_and(|count| count.has_nursery)
    }
}

/// Returns the part of a house's weight that its nursery has (rule 3): that of the greatest of those who sleep, for whom it
/// is; where all of them are gone, as one more of those who compete. `clients` tells of each whether it competes, and its part.
pub(crate) fn part_of_nursery(clients: impl Iterator<Item = (bool, f64)>) -> f64 {
    let (mut awake, mut asleep) = (0, None);
    for (competes, part) in clients {
        match competes {
            true => awake += 1,
            false => asleep = Some(part.max(asleep.unwrap_or(0.0))),
        }
    }
    asleep.unwrap_or_else(|| 1.0 / f64::from(awake + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const HOUSE: CurrencyId = CurrencyId(7);

    #[test]
    fn many_short_lives_make_a_nursery_and_few_end_it() {
        let mut lives = ShortLives::default();
        for at in 0..10 {
            lives.add(HOUSE, at * SECOND);
        }
        assert!(
            !lives.has_nursery(HOUSE),
            "one a second is what a shell does: less than two are left"
        );
        for _ in 0..3 {
            lives.add(HOUSE, 10 * SECOND);
        }
        assert!(lives.has_nursery(HOUSE) && !lives.has_nursery(CurrencyId(8)));
        lives.forget(14 * SECOND);
        assert!(lives.has_nursery(HOUSE), "a sixteenth of four is left");
        lives.forget(16 * SECOND);
        assert!(!lives.has_nursery(HOUSE));
    }

    #[test]
    fn a_nursery_weighs_as_one_client_more() {
        assert_eq!(part_of_nursery([(true, 0.5), (true, 0.5), (false, 0.3)].into_iter()), 0.3);
        assert_eq!(part_of_nursery([(true, 0.5), (true, 0.5)].into_iter()), 1.0 / 3.0);
        assert_eq!(part_of_nursery([(false, 1.0)].into_iter()), 1.0, "nobody competes");
        assert_eq!(part_of_nursery(std::iter::empty()), 1.0);
    }
}
