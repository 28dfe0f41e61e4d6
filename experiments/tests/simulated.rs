//! Experiments in virtual time: all hold what they say, and equal seeds give equal reports.

mod support;

use allot_experiments::{EXPERIMENTS, ExperimentError, RunOptions, SimulateOptions, run, simulate};

fn options(seconds: f64, seed: u64) -> SimulateOptions {
    SimulateOptions { seconds: Some(seconds), seed, out: None }
}

fn simulated() -> Vec<(&'static str, f64)> {
    let usual = |it: &'static allot_experiments::Experiment| {
        it.simulated().map(|simulated| (it.name, simulated.seconds.usual))
    };
    EXPERIMENTS.into_iter().filter_map(usual).collect()
}

#[test]
fn each_holds_what_it_says() {
    let all = simulated();
    assert!(all.len() >= 3, "{all:?}");
    for (name, usual) in all {
        let seconds = match name {
            // Forty-two cells are enough of a quarter of the time.
            "disk-queue-depth" => usual / 4.0,
            // A thousand clients.
            "market" => 1.0,
            _ => usual,
        };
        let outcome = simulate(name, &options(seconds, 3)).expect("it can be simulated");
        let report = &outcome.report;
        assert!(report.ok, "{}", outcome.table);
        assert!(!report.checks.is_empty() || !report.rows.is_empty(), "{name} judges something");
        assert!(!report.comparisons.is_empty(), "{name} has numbers");
        assert!(outcome.files.iter().all(|(_, svg)| svg.contains("</svg>")), "{name} has plots");
        support::has_form(&outcome);
        assert_eq!(report.enforcer, "simulated");
    }
}

#[test]
fn equal_seeds_give_equal_reports() {
    for name in ["memory-shares", "disk-shares"] {
        let report = |seed| {
            let outcome = simulate(name, &options(60.0, seed)).expect("it can be simulated");
            serde_json::to_string(&outcome.report).expect("a report is JSON")
        };
        assert_eq!(report(5), report(5));
        assert_ne!(report(5), report(6));
    }
}

#[test]
fn a_way_that_is_not_there_is_refused_with_what_to_do() {
    let only_live = simulate("rre", &options(60.0, 1)).expect_err("it runs live");
    assert!(matches!(&only_live, ExperimentError::OnlyLive { name } if name == "rre"));
    assert!(only_live.to_string().contains("leave out --simulate"), "{only_live}");
    let unknown = simulate("nonsense", &options(60.0, 1)).expect_err("there is none");
    assert!(unknown.to_string().contains("memory-shares"), "{unknown}");
    let short = simulate("memory-shares", &options(1.0, 1)).expect_err("it is too short");
    assert!(matches!(short, ExperimentError::TooShort { .. }));
    for experiment in EXPERIMENTS.into_iter().filter(|it| it.live().is_none()) {
        let name = experiment.name;
        let refused =
            run(name, &RunOptions::default(), &mut |_| ()).expect_err("it has no live version");
        assert!(refused.to_string().contains("add --simulate"), "{refused}");
        assert_eq!(refused.exit_status(), 2);
    }
}

#[test]
fn every_experiment_can_be_run_somehow() {
    assert!(EXPERIMENTS.iter().all(|it| it.live().is_some() || it.simulated().is_some()));
    let mut names = EXPERIMENTS.map(|it| it.name).to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), EXPERIMENTS.len(), "a name stands once");
}
