//! Requests that cannot be met are refused at once, with the reason.

use allot_experiments::{EXPERIMENTS, ExperimentError, Machine, RunOptions, allowed_cpus, run};
use std::fs;

fn refused(name: &str, options: &RunOptions) -> ExperimentError {
    run(name, options, &mut |_| panic!("it began")).expect_err("it cannot be met")
}

#[test]
fn unknown_names() {
    let error = refused("cpu-hierachy", &RunOptions::default());
    assert!(matches!(error, ExperimentError::Unknown { .. }), "{error}");
    for experiment in EXPERIMENTS {
        assert!(error.to_string().contains(experiment.name), "{error}");
    }
    assert_eq!(error.exit_status(), 2);
}

#[test]
fn too_few_seconds() {
    for experiment in EXPERIMENTS {
        let Some(live) = experiment.live() else { continue };
        let refused = |seconds: f64| {
            refused(experiment.name, &RunOptions { seconds, ..RunOptions::default() })
        };
        for seconds in [0.0, -1.0, live.seconds.least - 0.1] {
            let error = refused(seconds);
            assert!(matches!(error, ExperimentError::TooShort { .. }), "{error}");
        }
        let error = refused(f64::NAN);
        assert!(matches!(error, ExperimentError::BadOption(_)), "{error}");
    }
}

#[test]
fn cpus_that_are_not_here() {
    let missing = allowed_cpus().unwrap().last().unwrap() + 1;
    let options = RunOptions { cpus: Some(vec![missing]), ..RunOptions::default() };
    let error = refused("rre", &options);
    assert!(matches!(error, ExperimentError::NoSuchCpu { .. }), "{error}");
    let error = refused("rre", &RunOptions { cpus: Some(Vec::new()), ..RunOptions::default() });
    assert!(matches!(error, ExperimentError::BadOption(_)), "{error}");
}

#[test]
fn results_that_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let out = Some(file.join("out"));
    let error = refused("nice", &RunOptions { out, ..RunOptions::default() });
    assert!(matches!(error, ExperimentError::CannotWrite { .. }), "{error}");
    assert!(error.to_string().contains("file/out"), "{error}");
}

#[test]
fn graphs_that_cannot_be_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.toml");
    let options = RunOptions { graph: Some(path.clone()), ..RunOptions::default() };
    let error = refused("cpu-hierarchy", &options);
    assert!(matches!(error, ExperimentError::Graph(_)), "no such file: {error}");
    fs::write(&path, "title = 'x'\n[[client]]\nname = 7\n").unwrap();
    let error = refused("cpu-hierarchy", &options);
    assert!(error.to_string().contains("graph.toml, line 3"), "{error}");
    let error = refused("rre", &options);
    assert!(matches!(error, ExperimentError::BadOption(_)), "{error}");
}

#[test]
fn an_allotd_that_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let allotd = Some(dir.path().join("allotd"));
    let error = refused("nice", &RunOptions { allotd, ..RunOptions::default() });
    assert!(error.to_string().contains("no allotd at"), "{error}");
    let socket = Some(dir.path().join("socket"));
    let error = refused("nice", &RunOptions { socket, ..RunOptions::default() });
    assert!(matches!(error, ExperimentError::Client { .. }), "{error}");
}

#[test]
fn an_allotd_that_does_not_start() {
    let allotd = Some("/bin/false".into());
    let error = refused("nice", &RunOptions { allotd, ..RunOptions::default() });
    assert!(matches!(error, ExperimentError::DaemonFailed { .. }), "{error}");
}

/// The refusal names everything that the machine lacks.
#[test]
fn a_machine_that_lacks_something() {
    let machine = Machine::look();
    for experiment in EXPERIMENTS {
        let Some(live) = experiment.live() else { continue };
        let lacking: Vec<String> =
            live.needs.iter().filter_map(|need| need.lacking(&machine)).collect();
        if lacking.is_empty() {
            continue;
        }
        let seconds = live.seconds.usual;
        let error = refused(experiment.name, &RunOptions { seconds, ..RunOptions::default() });
        assert!(matches!(error, ExperimentError::Lacking { .. }), "{error}");
        for what in lacking {
            assert!(error.to_string().contains(&what), "{error}");
        }
        assert_eq!(error.exit_status(), 2);
    }
}
