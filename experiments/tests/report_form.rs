//! The report of a live experiment has the form of every other. tests/experiments.sh holds all that
//! run on this machine to it, tests/simulated.rs all that can be simulated.

mod support;

use allot_experiments::{ExperimentError, RunOptions, find, run};

#[test]
fn a_live_report_has_the_form_of_a_simulated_one() {
    let live = find("mtr-ls").expect("there is one").live().expect("it runs live");
    let options = RunOptions {
        seconds: live.seconds.least,
        workload: Some(vec![env!("CARGO_BIN_EXE_allot-exp").into(), "workload".into()]),
        ..RunOptions::default()
    };
    match run("mtr-ls", &options, &mut |_| ()) {
        Ok(outcome) => support::has_form(&outcome),
        Err(ExperimentError::NoDaemon { .. }) => {
            eprintln!("SKIP a_live_report_has_the_form_of_a_simulated_one: allotd is not built");
        }
        Err(error) => panic!("{error}"),
    }
}
