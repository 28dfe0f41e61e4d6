//! Nice values as weights. Pure.
//!
//! 1. A thread, or an autogroup, of nice value n weighs what the kernel's table says (`sched_prio_to_weight` of
//!    kernel/sched/core.c): 1024 for 0, and 1.25 times as much for each step down.
//! 2. A weight between two steps is had on average: each time that a weight is asked for, that of the two steps is taken
//!    which is nearer to it and what is carried over, and the difference is carried over to the next time (error
//!    diffusion). So it changes between two neighbours, and no more than a step is carried over.

/// The weight of nice 0.
pub(crate) const NICE_0_WEIGHT: f64 = 1024.0;

/// The weights of nice −20 to 19.
const WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, //
    9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277, //
    1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, //
    110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// A weight that is differed from by less than one part in this many is had by its nearest step alone: to switch to and
/// fro for so little is not worth its calls.
const NEAR_ENOUGH: f64 = 50.0;

/// Returns the weight of a nice value.
pub(crate) fn weight_of(nice: i32) -> f64 {
    let index = (nice + 20).clamp(0, 39);
    f64::from(WEIGHTS[index.unsigned_abs() as usize])
}

/// Returns the nice values between whose weights a weight is, the heavier first; twice the same beyond the table.
fn around(weight: f64) -> (i32, i32) {
    let lighter = (-20..=19).find(|nice| weight_of(*nice) <= weight).unwrap_or(19);
    let heavier = (-20..=19).rev().find(|nice| weight_of(*nice) >= weight).unwrap_or(-20);
    (heavier, lighter)
}

/// Returns the one of two nice values whose weight is nearer.
fn nearer((heavier, lighter): (i32, i32), weight: f64) -> i32 {
    if weight_of(heavier) - weight < weight - weight_of(lighter) { heavier } else { lighter }
}

/// What is carried over from one time to the next, of one thread or autogroup.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Carry(f64);

impl Carry {
    /// Returns the nice value for a weight, by rule 2.
    pub fn next(&mut self, weight: f64) -> i32 {
        let around = around(weight);
        let plain = nearer(around, weight);
        if around.0 == around.1 || (weight_of(plain) - weight).abs() < weight / NEAR_ENOUGH {
            // Beyond the table nothing can be made up for.
            self.0 = 0.0;
            return plain;
        }
        let nice = nearer(around, weight + self.0);
        self.0 += weight - weight_of(nice);
        nice
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_table_is_the_kernels() {
        assert_eq!(WEIGHTS[20], 1024);
        for pair in WEIGHTS.windows(2) {
            let ratio = f64::from(pair[0]) / f64::from(pair[1]);
            assert!((1.18..1.29).contains(&ratio), "{pair:?}");
        }
        let first = |weight| Carry::default().next(weight);
        assert_eq!((first(3.0 * 1024.0), first(0.0), first(1e9), first(1024.0)), (-5, 19, -20, 0));
    }

    proptest! {
        /// Of so many times the mean is within a step (28 % of the weight at most), divided by their number.
        #[test]
        fn the_mean_is_the_weight(weight in 16.0f64..88_000.0, times in 1usize..200) {
            let mut carry = Carry::default();
            let given: Vec<f64> = (0..times).map(|_| weight_of(carry.next(weight))).collect();
            let mean = given.iter().sum::<f64>() / times as f64;
            let bound = weight / NEAR_ENOUGH + weight * 0.28 / times as f64;
            prop_assert!((mean - weight).abs() <= bound, "{mean} for {weight}");
            // Two neighbours at most.
            let (least, most) = (given.iter().copied().fold(f64::MAX, f64::min),
                given.iter().copied().fold(0.0, f64::max));
            prop_assert!(most / least < 1.29, "{least} to {most}");
        }
    }
}
