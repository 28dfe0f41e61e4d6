//! Measurements of CPU shares over time.

use crate::funding::independent_valuation::ExpectedShares;

/// Seconds at the beginning of each phase that are not measured: a client that wakes has to be
/// noticed first. A tenth of the phase where that is less.
pub(crate) const SETTLE_SECONDS: f64 = 0.5;

/// The measurement of a stretch of time in which nothing changed.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// The phase's name.
    pub phase: String,
    /// Whether allot shared the CPU; the kernel's default if not.
    pub managed: bool,
    /// Its length without settling.
    pub seconds: f64,
    /// The promises of the graph, by the checker's own arithmetic.
    pub expected: ExpectedShares,
    /// CPU time of each client, in ns.
    pub used_ns: Vec<u64>,
    /// The CPU time that allotd says it promised to each client, in ns.
    pub promised_ns: Vec<u64>,
    /// Number of draws.
    pub draws: u64,
    /// Inequality of the draws' worth: E[f²] / E[f]², with f the part of a quantum that other
    /// processes left to its winner. 1 where they left all.
    pub dispersion: f64,
    /// Number of draws that came too late.
    pub late: u64,
    /// CPU time of allotd itself, in ns.
    pub daemon_ns: u64,
}

/// Progress over time, sample by sample.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    /// Seconds from the start, for each sample.
    pub at: Vec<f64>,
    /// Iterations, for each sample and client.
    pub iterations: Vec<Vec<u64>>,
    /// CPU time in ns, for each sample and client.
    pub used_ns: Vec<Vec<u64>>,
}

impl Series {
    /// Returns E[f²] / E[f]² between two times, from the CPU time of all clients between samples
    /// (of about a quantum each) on so many busy CPUs. The CPUs are taken as independent of each
    /// other: the variance of their mean is that of one, divided by their number. A quantum that is
    /// spread over two samples is smoothed, so the result errs, if at all, towards 1.
    pub fn dispersion(&self, [from, to]: [f64; 2], busy: f64) -> f64 {
        let total = |sample: usize| self.used_ns[sample].iter().sum::<u64>() as f64;
        let inside: Vec<usize> =
            (0..self.at.len()).filter(|sample| (from..=to).contains(&self.at[*sample])).collect();
        let rates: Vec<f64> = inside
            .windows(2)
            .map(|pair| (total(pair[1]) - total(pair[0])) / (self.at[pair[1]] - self.at[pair[0]]))
            .collect();
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        if rates.len() < 2 || mean <= 0.0 {
            return 1.0;
        }
        let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
        1.0 + busy * squares / (rates.len() - 1) as f64 / (mean * mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(rates: impl Iterator<Item = u64>) -> Series {
        let mut series = Series { at: vec![0.0], used_ns: vec![vec![0, 0]], iterations: vec![] };
        let mut used = 0;
        for (tick, rate) in rates.enumerate() {
            used += rate;
            series.at.push((tick + 1) as f64 * 0.01);
            series.used_ns.push(vec![used, 0]);
        }
        series
    }

    #[test]
    fn quanta_that_are_used_whole_are_worth_what_they_are() {
        let even = series(std::iter::repeat_n(10_000_000, 500));
        assert!((even.dispersion([0.0, 5.0], 1.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn quanta_of_which_others_take_half_at_random_are_worth_half() {
        // All or nothing, equally often: E[f²] / E[f]² = 1/2 / 1/4.
        let half = series((0..500).map(|tick| if tick % 2 == 0 { 10_000_000 } else { 0 }));
        assert!((half.dispersion([0.0, 5.0], 1.0) - 2.0).abs() < 0.02);
        let nothing = series(std::iter::repeat_n(0, 10));
        assert_eq!(nothing.dispersion([0.0, 1.0], 1.0), 1.0);
    }
}
