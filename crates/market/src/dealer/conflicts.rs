//! Offers that an offer meets but for the rate (paper 1, 4.2): who asks can ask for less, or not.
//!
//! 1. Complementary are offers of other parties that give what is wanted and want what is given.
//! 2. Their rates conflict when the product of what each wants for one ticket is above 1, at the
//!    lowest rates of their curves. Amounts, and what anybody can give now, do not matter here.
//! 3. Nearest first: the least product, then the older offer.

use super::rate::Rate;
use ledger::{Offer, OfferId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An offer that would be exchanged if rates met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// The complementary offer.
    pub offer: OfferId,
    /// By how much the two ask for too much, together, in millionths: 500 000 if one of them would
    /// have to give one and a half times as much for what it gets.
    pub gap_millionths: u64,
}

/// The complementary offers whose rates conflict with an offer's (rules 1 to 3).
pub fn conflicts(offer: &Offer, book: &BTreeMap<OfferId, Offer>) -> Vec<Conflict> {
    let Some(own) = Rate::lowest(&offer.terms) else { return Vec::new() };
    let complementary = |other: &&Offer| {
        other.party != offer.party
            && other.terms.gives == offer.terms.wants
            && other.terms.wants == offer.terms.gives
    };
    let mut found: Vec<(u64, Conflict)> = Vec::new();
    for (&id, other) in book.iter().filter(|(_, other)| complementary(other)) {
        let Some(theirs) = Rate::lowest(&other.terms) else { continue };
        let Some(above) = own.gap_millionths(theirs) else { continue };
        found.push((above, Conflict { offer: id, gap_millionths: above }));
    }
    found.sort_by_key(|(above, conflict)| (*above, conflict.offer));
    found.into_iter().map(|(_, conflict)| conflict).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_terms::{NAMES, good};
    use ledger::{CurrencyId, Terms};

    fn offer(party: u64, gives: usize, give: u64, wants: usize, want: u64) -> Offer {
        let terms = Terms::one(good(NAMES[gives]), give, good(NAMES[wants]), want);
        Offer { party: CurrencyId(party), terms, until_s: None, lease: None }
    }

    #[test]
    fn the_papers_example_conflicts_by_a_factor_of_two() {
        // A requests 20 CPU tickets for 10 memory tickets, B 10 memory tickets for 10 CPU tickets.
        let book = BTreeMap::from([
            (OfferId(1), offer(1, 0, 10, 1, 10)),
            (OfferId(2), offer(2, 0, 16, 1, 10)),
            (OfferId(3), offer(3, 0, 20, 1, 10)),
            (OfferId(4), offer(9, 0, 10, 1, 10)),
            (OfferId(5), offer(4, 0, 16, 2, 10)),
        ]);
        let found = conflicts(&offer(9, 1, 10, 0, 20), &book);
        let nearest = Conflict { offer: OfferId(2), gap_millionths: 250_000 };
        let next = Conflict { offer: OfferId(1), gap_millionths: 1_000_000 };
        assert_eq!(found, [nearest, next]);
    }
}
