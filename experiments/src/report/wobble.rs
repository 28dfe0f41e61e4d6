//! The evenness of shares over short times: paper 3's wobble (5.2, figures 24 to 28).

use crate::report::series::{SETTLE_SECONDS, Series};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The lengths of windows, in ms.
pub(crate) const WINDOWS_MS: [u64; 6] = [50, 100, 200, 500, 1000, 2000];
/// The fewest windows whose deviation says something.
const WINDOWS_MIN: usize = 3;

/// The variation of a client's share between windows of one length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wobble {
    /// The rule that shared the CPU: a policy, or the kernel's default.
    pub by: String,
    /// The client's name.
    pub client: String,
    /// The windows' length, in ms.
    pub window_ms: u64,
    /// Number of windows.
    pub windows: usize,
    /// The mean share, 0 to 1.
    pub mean: f64,
    /// The shares' standard deviation, 0 to 1.
    pub standard_deviation: f64,
    /// The deviation that draws alone would cause; none where nothing is drawn.
    pub of_the_draw: Option<f64>,
}

/// Returns the wobble of one client for each length of windows that fits often enough. `draws` has
/// its chance in each draw and the interval between draws in ms, where there are draws.
pub(crate) fn wobble(
    by: &str,
    name: &str,
    client: usize,
    series: &Series,
    draws: Option<(f64, u64)>,
) -> Vec<Wobble> {
    let Some(&end) = series.at.last() else { return Vec::new() };
    let begin = SETTLE_SECONDS.min(end / 10.0);
    let mut found = Vec::new();
    for window_ms in WINDOWS_MS {
        let length = window_ms as f64 / 1000.0;
        let count = ((end - begin) / length).floor() as usize;
        if count < WINDOWS_MIN {
            continue;
        }
        let edges: Vec<(f64, f64)> =
            (0..=count).map(|edge| at(series, client, begin + length * edge as f64)).collect();
        let shares: Vec<f64> = edges
            .windows(2)
            .map(|pair| (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1))
            .filter(|(_, all)| *all > 0.0)
            .map(|(own, all)| own / all)
            .collect();
        if shares.len() < WINDOWS_MIN {
            continue;
        }
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let squares: f64 = shares.iter().map(|share| (share - mean).powi(2)).sum();
        found.push(Wobble {
            by: by.to_owned(),
            client: name.to_owned(),
            window_ms,
            windows: shares.len(),
            mean,
            standard_deviation: (squares / (shares.len() - 1) as f64).sqrt(),
            of_the_draw: draws.map(|(chance, quantum_ms)| {
                (chance * (1.0 - chance) * quantum_ms as f64 / window_ms as f64).sqrt()
            }),
        });
    }
    found
}

/// Returns the CPU time of a client and of all at a moment, in ns. It interpolates linearly between
/// samples.
fn at(series: &Series, client: usize, moment: f64) -> (f64, f64) {
    let pair = |sample: usize| {
        let used = &series.used_ns[sample];
        (used[client] as f64, used.iter().map(|used| *used as f64).sum::<f64>())
    };
    let after = series.at.partition_point(|at| *at < moment);
    if after == 0 {
        return pair(0);
    }
    if after == series.at.len() {
        return pair(after - 1);
    }
    let (before_at, after_at) = (series.at[after - 1], series.at[after]);
    let part = (moment - before_at) / (after_at - before_at);
    let (before, after) = (pair(after - 1), pair(after));
    let between = |from: f64, to: f64| from + (to - from) * part;
    (between(before.0, after.0), between(before.1, after.1))
}

/// Returns the standard deviations: a line for each length of windows. Nothing without wobble.
pub(crate) fn table(wobble: &[Wobble]) -> String {
    let Some(first) = wobble.first() else { return String::new() };
    let mut names: Vec<&str> = Vec::new();
    for one in wobble {
        if !names.contains(&one.by.as_str()) {
            names.push(&one.by);
        }
    }
    let client = &first.client;
    let mut text = format!("standard deviation of the share of {client} over short windows\n");
    let _ = write!(text, "{:<8}", "window");
    for name in &names {
        let _ = write!(text, "  {name:>20}");
    }
    text.push('\n');
    for window_ms in WINDOWS_MS {
        let _ = write!(text, "{:<8}", format!("{window_ms} ms"));
        for name in &names {
            let one = wobble.iter().find(|one| one.by == *name && one.window_ms == window_ms);
            let shown = one
                .map_or("-".to_owned(), |one| format!("{:.2} %", one.standard_deviation * 100.0));
            let _ = write!(text, "  {shown:>20}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two clients that take turns of 100 ms: each window of 200 ms is even, each of 100 ms is
    /// all or nothing.
    #[test]
    fn turns_of_100_ms() {
        let mut series = Series::default();
        for tick in 0..=1000_u64 {
            let at_ms = tick * 10;
            let (turns, rest) = (at_ms / 100, at_ms % 100);
            let first = turns.div_ceil(2) * 100 + if turns % 2 == 0 { rest } else { 0 };
            series.at.push(at_ms as f64 / 1000.0);
            series.used_ns.push(vec![first * 1_000_000, (at_ms - first) * 1_000_000]);
        }
        let found = wobble("x", "c", 0, &series, None);
        let of = |window_ms| found.iter().find(|one| one.window_ms == window_ms).unwrap();
        assert!((of(100).standard_deviation - 0.5).abs() < 0.01, "{found:?}");
        assert!(of(200).standard_deviation < 1e-6, "{found:?}");
        assert!((of(1000).mean - 0.5).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn the_draws_part() {
        let mut series = Series::default();
        for tick in 0..200_u64 {
            series.at.push(tick as f64 / 10.0);
            series.used_ns.push(vec![tick * 8, tick * 2]);
        }
        let found = wobble("lottery", "c", 0, &series, Some((0.8, 10)));
        let of = found.iter().find(|one| one.window_ms == 1000).unwrap();
        assert!((of.of_the_draw.unwrap() - 0.04).abs() < 1e-9);
        assert!((of.mean - 0.8).abs() < 1e-6 && of.standard_deviation < 1e-6);
    }
}
