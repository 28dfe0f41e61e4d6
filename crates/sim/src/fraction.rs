//! Exact fractions: machine words while they fit, big integers where they do not.

use num_bigint::BigUint;
use num_rational::Ratio;
use num_traits::{CheckedAdd, CheckedMul, CheckedSub, Zero};
use std::cmp::Ordering;
use std::fmt;

/// A fraction of non-negative integers, exact.
#[derive(Clone, Debug)]
pub struct Fraction(Size);

#[derive(Clone, Debug)]
enum Size {
    Word(Ratio<u128>),
    Big(Ratio<BigUint>),
}

impl Fraction {
    /// `part / whole`; `whole` is not 0.
    pub fn new(part: u64, whole: u64) -> Fraction {
        Fraction(Size::Word(Ratio::new(part.into(), whole.into())))
    }

    /// Nothing.
    pub fn zero() -> Fraction {
        Fraction::new(0, 1)
    }

    /// All.
    pub fn one() -> Fraction {
        Fraction::new(1, 1)
    }

    /// Whether it is 0.
    pub fn is_zero(&self) -> bool {
        match &self.0 {
            Size::Word(ratio) => ratio.is_zero(),
            Size::Big(ratio) => ratio.is_zero(),
        }
    }

    /// The sum.
    pub fn plus(&self, other: &Fraction) -> Fraction {
        if let (Size::Word(a), Size::Word(b)) = (&self.0, &other.0)
            && let Some(sum) = a.checked_add(b)
        {
            return Fraction(Size::Word(sum));
        }
        Fraction(Size::Big(self.big() + other.big()))
    }

    /// What is left without `other`; `None` where that is more.
    pub fn minus(&self, other: &Fraction) -> Option<Fraction> {
        if self < other {
            return None;
        }
        if let (Size::Word(a), Size::Word(b)) = (&self.0, &other.0)
            && let Some(rest) = a.checked_sub(b)
        {
            return Some(Fraction(Size::Word(rest)));
        }
        Some(Fraction(Size::Big(self.big() - other.big())))
    }

    /// `self · part / whole`; `whole` is not 0.
    pub fn times(&self, part: u64, whole: u64) -> Fraction {
        let by = Ratio::<u128>::new(part.into(), whole.into());
        if let Size::Word(a) = &self.0
            && let Some(product) = a.checked_mul(&by)
        {
            return Fraction(Size::Word(product));
        }
        Fraction(Size::Big(self.big() * Ratio::<BigUint>::new(part.into(), whole.into())))
    }

    fn big(&self) -> Ratio<BigUint> {
        match &self.0 {
            Size::Word(ratio) => Ratio::new_raw((*ratio.numer()).into(), (*ratio.denom()).into()),
            Size::Big(ratio) => ratio.clone(),
        }
    }
}

impl Ord for Fraction {
    fn cmp(&self, other: &Fraction) -> Ordering {
        match (&self.0, &other.0) {
            (Size::Word(a), Size::Word(b)) => a.cmp(b),
            _ => self.big().cmp(&other.big()),
        }
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Fraction) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Fraction {
    fn eq(&self, other: &Fraction) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Fraction {}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Size::Word(ratio) => ratio.fmt(f),
            Size::Big(ratio) => ratio.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_into_big_integers_and_stays_exact() {
        let primes = [1_000_000_007, 998_244_353, 1_000_000_009, 999_999_937, 999_999_929];
        let small = primes.iter().fold(Fraction::one(), |all, prime| all.times(1, *prime));
        let back = primes.iter().fold(small.clone(), |all, prime| all.times(*prime, 1));
        assert!(small > Fraction::zero() && small < Fraction::new(1, u64::MAX));
        assert_eq!(back, Fraction::one());
        assert!(small.plus(&Fraction::one()) > Fraction::one());
    }
}
