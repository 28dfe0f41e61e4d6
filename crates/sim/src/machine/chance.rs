//! All that is left to chance, from one seed.
//!
//! Each thread and each device has a stream of its own, so that one more of them does not change what the
//! others draw.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Chance(Pcg64Mcg);

impl Chance {
    /// The stream with this number, of a seed.
    pub fn new(seed: u64, stream: u64) -> Chance {
        // Neighbouring streams begin far from each other (the golden ratio's fraction, in 2⁻⁶⁴).
        let apart = stream.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Chance(Pcg64Mcg::seed_from_u64(seed ^ apart))
    }

    /// A number below `bound`, each equally likely (Lemire 2019: multiply and reject).
    ///
    /// # Panics
    /// When `bound` is 0: a broken invariant.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below 0");
        let rejected = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(bound);
            if product as u64 >= rejected {
                return (product >> 64) as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_uniform_and_streams_differ() {
        let mut chance = Chance::new(7, 0);
        let (draws, sides) = (60_000_u64, 6_u64);
        let mut counts = [0_u64; 6];
        for _ in 0..draws {
            counts[chance.below(sides) as usize] += 1;
        }
        // Six standard deviations of a binomial count with p = 1/6.
        let allowed = 6.0 * (draws as f64 * 5.0 / 36.0).sqrt();
        for count in counts {
            assert!((count as f64 - (draws / sides) as f64).abs() < allowed, "{counts:?}");
        }
        let first = |seed, stream| Chance::new(seed, stream).below(u64::MAX);
        assert_eq!(first(7, 3), first(7, 3));
        assert_ne!(first(7, 3), first(7, 4));
        assert_ne!(first(7, 3), first(8, 3));
    }
}
