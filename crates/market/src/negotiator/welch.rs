//! Whether one set of measurements is greater than another beyond noise: Welch's t-test (Welch 1947).
//!
//! 1. t = (mean_b − mean_a) / √(v_a/n_a + v_b/n_b), v the sample variances, with the degrees of
//!    freedom of Welch and Satterthwaite, rounded down, at most 30.
//! 2. One side, at 2.5 % or at 0.05 %, by tables of Student's distribution.
//! 3. Sets that do not vary at all differ when their means do. With fewer than two measurements
//!    nothing is known.

/// How sure one must be that it is no chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// One in 40.
    Likely,
    /// One in 2000.
    Sure,
}

/// One-sided critical values of t, for 1 to 30 degrees of freedom.
const LIKELY: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
const SURE: [f64; 30] = [
    636.6, 31.60, 12.92, 8.610, 6.869, 5.959, 5.408, 5.041, 4.781, 4.587, 4.437, 4.318, 4.221,
    4.140, 4.073, 4.015, 3.965, 3.922, 3.883, 3.850, 3.819, 3.792, 3.768, 3.745, 3.725, 3.707,
    3.690, 3.674, 3.659, 3.646,
];

/// The mean of some measurements, 0 of none.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The variance of the mean: the sample variance by their number.
#[allow(clippy::cast_precision_loss)]
fn variance_of_mean(values: &[f64]) -> f64 {
    let (mean, count) = (mean(values), values.len() as f64);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0) / count
}

/// Whether `after` is greater than `before` beyond chance (rules 1 to 3).
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn greater(after: &[f64], before: &[f64], level: Level) -> bool {
    if after.len() < 2 || before.len() < 2 {
        return false;
    }
    let (a, b) = (variance_of_mean(before), variance_of_mean(after));
    let difference = mean(after) - mean(before);
    if a + b <= 0.0 {
        return difference > 0.0;
    }
    let degrees = (a + b).powi(2)
        / (a.powi(2) / (before.len() as f64 - 1.0) + b.powi(2) / (after.len() as f64 - 1.0));
    let table = match level {
        Level::Likely => &LIKELY,
        Level::Sure => &SURE,
    };
    let critical = table[(degrees.floor().clamp(1.0, 30.0) as usize) - 1];
    difference / (a + b).sqrt() > critical
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{RngCore, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    /// A sum of twelve uniform numbers, less six: nearly normal with variance 1.
    fn normal(draws: &mut Pcg64Mcg) -> f64 {
        (0..12).map(|_| f64::from(draws.next_u32()) / 4_294_967_296.0).sum::<f64>() - 6.0
    }

    #[test]
    fn chance_alone_is_taken_for_more_as_often_as_promised() {
        let mut draws = Pcg64Mcg::seed_from_u64(1);
        let mut found = 0u32;
        for _ in 0..20_000 {
            let mut six = || (0..6).map(|_| normal(&mut draws)).collect::<Vec<f64>>();
            let (before, after) = (six(), six());
            found += u32::from(greater(&after, &before, Level::Likely));
        }
        // Binomial with 20000 draws at 2.5 %: 500, standard deviation 22; five of them, and that
        // degrees of freedom are rounded down makes it rather fewer.
        assert!((390..=610).contains(&found), "{found}");
    }

    #[test]
    fn a_step_of_three_deviations_is_seen() {
        let mut draws = Pcg64Mcg::seed_from_u64(2);
        let mut seen = 0u32;
        for _ in 0..1000 {
            let before: Vec<f64> = (0..6).map(|_| normal(&mut draws)).collect();
            let after: Vec<f64> = (0..6).map(|_| normal(&mut draws) + 3.0).collect();
            seen += u32::from(greater(&after, &before, Level::Likely));
        }
        // The power is above 0.99: of 1000 at least 970, six standard deviations below 990.
        assert!(seen >= 970, "{seen}");
    }

    #[test]
    fn what_does_not_vary_differs_when_it_does() {
        assert!(greater(&[2.0; 3], &[1.0; 3], Level::Sure));
        assert!(!greater(&[1.0; 3], &[1.0; 3], Level::Likely));
        assert!(!greater(&[2.0], &[1.0], Level::Likely));
    }
}
