//! Paper 1, 6.5 (figures 11 and 12): a CPU-bound and a disk-bound program exchange tickets one for one.

use super::exchanging::cpu_disk;
use super::report::Findings;
use super::scene::Plan;
use crate::exchange_cpu_disk::{Seen, judge};
use crate::{ExperimentInfo, Outcome};

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    least_seconds: 60.0,
    usual_seconds: 600.0,
    own_allotd: false,
    ..crate::exchange_cpu_disk::INFO
};

pub(super) fn run(plan: &Plan) -> Outcome {
    let seen = |hundreds: u64| {
        let n = hundreds * 100;
        let mut load = cpu_disk(plan.seed);
        load.exchange((n, n));
        // What is read first settles.
        let done = load.between(plan.seconds * 0.1, plan.seconds);
        let cpu: f64 = done.iter().map(|done| done.cpu).sum();
        let disk: f64 = done.iter().map(|done| done.disk_requests).sum();
        let iohog = &done[1];
        Seen {
            n,
            cpu_wait_ms: 1000.0 * iohog.cpu_wait / iohog.iterations,
            progress: done.iter().map(|done| done.iterations).collect(),
            cpu: done.iter().map(|done| done.cpu / cpu).collect(),
            disk: done.iter().map(|done| done.disk_requests / disk).collect(),
        }
    };
    let exchanges: Vec<Seen> = (0..=8).map(seen).collect();
    let mut findings = Findings::new();
    findings.policy = "CPU: lottery, 10 ms; disk: YFQ".to_owned();
    findings.default = "no exchange".to_owned();
    findings.units =
        "times of the progress without exchange; parts of the CPU and of the disk's requests"
            .to_owned();
    let plots = findings.take(judge(&exchanges, 0.0));
    findings.finish(plan, plots)
}
