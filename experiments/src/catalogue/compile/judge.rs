//! The judgement of `compile`.

use crate::report::comparison::Comparison;
use crate::report::statistics::mean;
use crate::report::verdict::Verdict;

/// Rows of table 7: our name, and the paper's times under standard Linux and its two lotteries.
pub(super) const ROWS: [(&str, &str); 5] = [
    ("no load", "4:04, 4:05, 4:03"),
    ("ls -lR", "14:28, 12:44, 12:50"),
    ("user-mode CPU", "7:29, 11:33, 10:46"),
    ("cat (spawns)", "10:13, 4:09, 4:10"),
    ("sh read", "7:29, 11:25, 10:46"),
];
/// The loads that want all the CPU that they can get.
const CPU_BOUND: [&str; 3] = ["user-mode CPU", "cat (spawns)", "sh read"];
/// The build's share beside a CPU-bound load. Each side is due a half, and a build waits now and
/// then, for files and between its processes.
const BUILD_MIN: f64 = 0.42;
const BUILD_MAX: f64 = 0.55;

/// The measurements of one build.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub build_seconds: f64,
    pub build_share: f64,
    /// The load's iterations a second.
    pub progress: f64,
}

/// The builds of each row: allot's, and the default's.
pub(super) type Builds = [[Vec<Measured>; 2]; ROWS.len()];

/// Judges all rows.
pub(super) fn judge(builds: &Builds) -> Verdict {
    let mut verdict = Verdict::default();
    for (row, measured) in builds.iter().enumerate() {
        judge_row(row, measured, &mut verdict);
    }
    verdict
}

fn judge_row(row: usize, measured: &[Vec<Measured>; 2], verdict: &mut Verdict) {
    let (name, paper) = ROWS[row];
    let both = |what: fn(&Measured) -> f64| {
        let [allot, default] = measured;
        [allot, default].map(|builds| mean(&builds.iter().map(what).collect::<Vec<_>>()))
    };
    let [allot, default] = both(|one| one.build_seconds);
    let build = Comparison::new(name, "build", "s").measured(allot, default);
    verdict.comparisons.push(build.paper(&format!("{paper} (min)")));
    if row == 0 {
        return;
    }
    let [allot, default] = both(|one| one.build_share * 100.0);
    let is_bound = CPU_BOUND.contains(&name);
    let share = Comparison::new(name, "build's share", "%").measured(allot, default);
    verdict.comparisons.push(share.promising(is_bound.then_some(50.0)));
    let [progress, beside] = both(|one| one.progress);
    let progress = Comparison::new(name, "load's progress", "1/s").measured(progress, beside);
    verdict.comparisons.push(progress);
    if is_bound {
        let share = allot.unwrap_or(0.0) / 100.0;
        let what = format!(
            "{name}: build and load share the CPU equally: the build has {:.0} to {:.0} % of what \
             both have ({:.1} %)",
            BUILD_MIN * 100.0,
            BUILD_MAX * 100.0,
            share * 100.0
        );
        verdict.check(what, (BUILD_MIN..=BUILD_MAX).contains(&share));
    }
}
