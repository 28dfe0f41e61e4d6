//! Other ways to divide goods among clients of equal rights, to compare the dealer with.
//!
//! 1. **Dominant resource fairness** (Ghodsi et al., NSDI 2011), progressive filling: everybody's bundle is in
//!    proportion to its demands; all grow together, so that everybody's dominant share, the greatest of its shares
//!    of a good, is the same, until a good is used up. As every client needs every good here, all stop then.
//!    What is left is divided equally, as a machine that lets nothing idle would.
//! 2. **Karma** (Vuppalapati et al., OSDI 2023), for each good by itself, in slices. In each quantum a client is
//!    guaranteed α of its fair share f; what it does not want of that it donates. The rest, (1 − α)·f for
//!    each, is shared; everybody gets (1 − α)·f credits for it. Who wants more borrows, a slice at a time: the
//!    borrower with the most credits is served first and pays one; donated slices go before shared ones,
//!    those of the donor with the fewest credits first, who earns one.
//!    It has no prices between goods: what one good's credits are worth in another nobody asks.

use super::needs::{Bundle, GOODS, Needs};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Rule 1. `own` is what each client brings of each good.
pub fn dominant_shares(needs: &[Needs], own: f64) -> Vec<Bundle> {
    let total = own * needs.len() as f64;
    let dominant = |needs: &Needs| needs.weights.iter().copied().fold(0.0, f64::max);
    let shares: Vec<Bundle> =
        needs.iter().map(|it| it.weights.map(|weight| weight / dominant(it))).collect();
    let sum = |good: usize| shares.iter().map(|share| share[good]).sum::<f64>();
    let sums: Vec<f64> = (0..GOODS).map(sum).collect();
    let level = total / sums.iter().copied().fold(0.0, f64::max);
    let left: Vec<f64> =
        sums.iter().map(|sum| (total - level * sum).max(0.0) / needs.len() as f64).collect();
    let bundle = |share: &Bundle| {
        let mut bundle = share.map(|share| share * level);
        bundle.iter_mut().zip(&left).for_each(|(amount, left)| *amount += left);
        bundle
    };
    shares.iter().map(bundle).collect()
}

/// The credits of one good (rule 2).
#[derive(Clone, Debug)]
pub struct Karma {
    credits: Vec<i64>,
    fair: i64,
    guaranteed: i64,
}

impl Karma {
    /// So many clients with `fair` slices each, of which `guaranteed` are never lent against their will.
    ///
    /// # Panics
    /// When more is guaranteed than is fair: a broken invariant.
    pub fn new(clients: usize, fair: i64, guaranteed: i64) -> Karma {
        assert!((0..=fair).contains(&guaranteed), "α is a part");
        // Nobody runs out of them before it has borrowed for long.
        Karma { credits: vec![fair * 1000; clients], fair, guaranteed }
    }

    /// A client's credits.
    pub fn credits(&self, client: usize) -> i64 {
        self.credits[client]
    }

    /// One quantum: what each gets of what it demands, in slices.
    ///
    /// # Panics
    /// When not every client says what it demands: a broken invariant.
    pub fn allocate(&mut self, demands: &[i64]) -> Vec<i64> {
        assert_eq!(demands.len(), self.credits.len(), "everybody demands something, or nothing");
        let shared_each = self.fair - self.guaranteed;
        let mut shared = shared_each * demands.len() as i64;
        self.credits.iter_mut().for_each(|credits| *credits += shared_each);
        let mut got: Vec<i64> =
            demands.iter().map(|demand| (*demand).min(self.guaranteed)).collect();
        let mut donors: BinaryHeap<Reverse<(i64, usize, i64)>> = BinaryHeap::new();
        let mut borrowers: BinaryHeap<(i64, Reverse<usize>)> = BinaryHeap::new();
        for (client, &demand) in demands.iter().enumerate() {
            let credits = self.credits[client];
            if demand < self.guaranteed {
                donors.push(Reverse((credits, client, self.guaranteed - demand)));
            } else if demand > self.guaranteed && credits > 0 {
                borrowers.push((credits, Reverse(client)));
            }
        }
        while let Some((credits, Reverse(borrower))) = borrowers.pop() {
            if let Some(Reverse((earned, donor, left))) = donors.pop() {
                self.credits[donor] = earned + 1;
                if left > 1 {
                    donors.push(Reverse((earned + 1, donor, left - 1)));
                }
            } else if shared > 0 {
                shared -= 1;
            } else {
                break;
            }
            got[borrower] += 1;
            self.credits[borrower] = credits - 1;
            if got[borrower] < demands[borrower] && credits > 1 {
                borrowers.push((credits - 1, Reverse(borrower)));
            }
        }
        got
    }
}

#[cfg(test)]
mod tests {
    use super::super::needs::Shape;
    use super::*;
    use crate::machine::chance::Chance;

    #[test]
    fn dominant_shares_are_equal_and_nothing_is_left() {
        // The paper's example in other words: one needs CPU to memory 1:4, the other 3:1.
        let needs = [[0.2, 0.7, 0.1], [0.6, 0.3, 0.1]]
            .map(|weights| Needs { shape: Shape::Leontief, weights });
        let bundles = dominant_shares(&needs, 1000.0);
        for good in 0..GOODS {
            let sum: f64 = bundles.iter().map(|bundle| bundle[good]).sum();
            assert!((sum - 2000.0).abs() < 1e-6, "{sum}");
        }
        // Before what is left is added: 2000 / (1 + 0.3/0.6) of memory is the level.
        let level = 2000.0 / (1.0 + 0.5);
        assert!((bundles[0][1] - level).abs() < 1e-6, "{bundles:?}");
    }

    #[test]
    fn karma_is_max_min_at_first_and_remembers_later() {
        // Three with two slices each. The first donates; the others want all there is.
        let mut karma = Karma::new(3, 2, 1);
        assert_eq!(karma.allocate(&[0, 4, 4]), [0, 3, 3]);
        assert!(karma.credits(0) > karma.credits(1));
        // Now all want everything: who donated goes first.
        assert_eq!(karma.allocate(&[4, 4, 4]), [4, 1, 1]);
    }

    #[test]
    fn karma_gives_no_more_than_there_is_and_no_more_than_is_wanted() {
        let mut chance = Chance::new(3, 0);
        let mut karma = Karma::new(50, 10, 5);
        for _ in 0..200 {
            let demands: Vec<i64> = (0..50).map(|_| chance.below(25) as i64).collect();
            let got = karma.allocate(&demands);
            let (wanted, given) = (demands.iter().sum::<i64>(), got.iter().sum::<i64>());
            assert!(got.iter().zip(&demands).all(|(got, demand)| got <= demand));
            assert_eq!(given, wanted.min(500), "nothing idles that somebody wants");
        }
    }
}
