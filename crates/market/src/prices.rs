//! What the last clearings paid.
//!
//! 1. A price is between two goods: what was given of one for what was given of the other, by every
//!    offer that traded them. A two-party exchange counts once, each offer of a longer ring once.
//! 2. Of a clearing the whole amounts are kept, whose ratio is the average price by volume, and the
//!    lowest and the highest.
//! 3. Of every pair the last [`PRICES_KEPT`] clearings that traded it.

use crate::dealer::Match;
use ledger::Good;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};

/// Clearings whose prices are kept, for each pair of goods.
pub const PRICES_KEPT: usize = 64;

/// What one clearing paid for a pair of goods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// The pair, the lesser good first.
    pub goods: (Good, Good),
    /// How much of each was traded for the other.
    pub amounts: (u64, u64),
    /// The exchange in which the first good was cheapest: how much of each.
    pub lowest: (u64, u64),
    /// The exchange in which the first good was dearest: how much of each.
    pub highest: (u64, u64),
    /// How often they were traded.
    pub trades: u64,
}

impl Price {
    /// The average price by volume: tickets of the second good for one of the first.
    #[allow(clippy::cast_precision_loss)]
    pub fn average(&self) -> f64 {
        self.amounts.1 as f64 / self.amounts.0 as f64
    }

    fn add(&mut self, amounts: (u64, u64)) {
        self.amounts.0 = self.amounts.0.saturating_add(amounts.0);
        self.amounts.1 = self.amounts.1.saturating_add(amounts.1);
        if dearness(amounts, self.lowest) == Ordering::Less {
            self.lowest = amounts;
        }
        if dearness(amounts, self.highest) == Ordering::Greater {
            self.highest = amounts;
        }
        self.trades += 1;
    }
}

/// Compares what was paid for the first good.
fn dearness(one: (u64, u64), other: (u64, u64)) -> Ordering {
    let paid = |paid: u64, for_other: u64| u128::from(paid) * u128::from(for_other);
    paid(one.1, other.0).cmp(&paid(other.1, one.0))
}

/// The prices of a clearing's exchanges, in order of pairs (rules 1 and 2).
pub fn price_all(exchanges: &[Match]) -> Vec<Price> {
    let mut prices: BTreeMap<(&Good, &Good), Price> = BTreeMap::new();
    for exchange in exchanges {
        let legs = &exchange.legs;
        let trades = if legs.len() == 2 { 1 } else { legs.len() };
        for place in 0..trades {
            let (mut one, mut other) = (&legs[place], &legs[(place + 1) % legs.len()]);
            if other.good < one.good {
                (one, other) = (other, one);
            }
            let amounts = (one.amount, other.amount);
            prices
                .entry((&one.good, &other.good))
                .or_insert_with(|| Price {
                    goods: (one.good.clone(), other.good.clone()),
                    amounts: (0, 0),
                    lowest: amounts,
                    highest: amounts,
                    trades: 0,
                })
                .add(amounts);
        }
    }
    prices.into_values().collect()
}

/// The prices of the last clearings, by pair of goods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceHistory {
    pairs: Vec<(Good, Good)>,
    kept: Vec<VecDeque<(u64, Price)>>,
}

impl PriceHistory {
    /// Notes the prices of a clearing at `time_s`, seconds since 1970.
    pub fn record(&mut self, time_s: u64, prices: &[Price]) {
        for price in prices {
            let place = match self.pairs.binary_search(&price.goods) {
                Ok(place) => place,
                Err(place) => {
                    self.pairs.insert(place, price.goods.clone());
                    self.kept.insert(place, VecDeque::new());
                    place
                }
            };
            let kept = &mut self.kept[place];
            if kept.len() == PRICES_KEPT {
                kept.pop_front();
            }
            kept.push_back((time_s, price.clone()));
        }
    }

    /// The pairs that were traded, in order.
    pub fn pairs(&self) -> &[(Good, Good)] {
        &self.pairs
    }

    /// The clearings that traded a pair, in either order of the two, oldest first: when, and what.
    pub fn of(&self, one: &Good, other: &Good) -> impl DoubleEndedIterator<Item = &(u64, Price)> {
        let pair = (one.min(other).clone(), one.max(other).clone());
        let place = self.pairs.binary_search(&pair).ok();
        place.into_iter().flat_map(|place| self.kept[place].iter())
    }

    /// What was paid last for a pair, and when.
    pub fn last(&self, one: &Good, other: &Good) -> Option<&(u64, Price)> {
        self.of(one, other).next_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dealer::Leg;
    use crate::test_terms::{NAMES, good};
    use ledger::OfferId;

    fn ring(legs: &[(usize, u64)]) -> Match {
        let leg = |place: usize| Leg {
            giver: OfferId(place as u64),
            receiver: OfferId(((place + legs.len() - 1) % legs.len()) as u64),
            good: good(NAMES[legs[place].0]),
            amount: legs[place].1,
        };
        Match { legs: (0..legs.len()).map(leg).collect() }
    }

    #[test]
    fn prices_are_by_pair_and_volume() {
        let prices = price_all(&[
            ring(&[(0, 10), (1, 20)]),
            ring(&[(1, 10), (0, 10)]),
            ring(&[(0, 1), (1, 2), (2, 3)]),
        ]);
        let (cpu, memory) = (good(NAMES[0]), good(NAMES[1]));
        let found = prices.iter().find(|price| price.goods == (cpu.clone(), memory.clone()));
        let price = found.expect("cpu for memory");
        assert_eq!((price.amounts, price.trades), ((21, 32), 3));
        assert_eq!((price.lowest, price.highest), ((10, 10), (10, 20)));
        assert_eq!(prices.len(), 3);
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut history = PriceHistory::default();
        let (cpu, memory) = (good(NAMES[0]), good(NAMES[1]));
        for time_s in 0..100 {
            history.record(time_s, &price_all(&[ring(&[(0, 10), (1, 10 + time_s)])]));
        }
        let kept: Vec<u64> = history.of(&memory, &cpu).map(|(time_s, _)| *time_s).collect();
        assert_eq!((kept.len(), kept[0]), (PRICES_KEPT, 100 - PRICES_KEPT as u64));
        let (time_s, price) = history.last(&cpu, &memory).expect("some");
        assert_eq!((*time_s, price.amounts), (99, (10, 109)));
        assert!(history.last(&cpu, &good(NAMES[2])).is_none());
    }
}
