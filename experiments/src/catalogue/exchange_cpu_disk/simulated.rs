//! Paper 1, 6.5 (figures 11 and 12): a CPU-bound and a disk-bound program exchange tickets one for
//! one.

use crate::catalogue::exchange_cpu_disk::judge::{Observed, judge};
use crate::catalogue::exchange_cpu_disk::plots::plots;
use crate::report::findings::Findings;
use crate::report::outcome::Outcome;
use crate::simulation::exchange_loads::cpu_disk;
use crate::simulation::plan::{Plan, Words};

pub(crate) fn run(plan: &Plan) -> Outcome {
    let observed = |hundreds: u64| {
        let n = hundreds * 100;
        let mut load = cpu_disk(plan.seed);
        load.exchange((n, n));
        // The first tenth settles.
        let done = load.between(plan.seconds * 0.1, plan.seconds);
        let cpu: f64 = done.iter().map(|done| done.cpu).sum();
        let disk: f64 = done.iter().map(|done| done.disk_requests).sum();
        let iohog = &done[1];
        Observed {
            n,
            cpu_wait_ms: 1000.0 * iohog.cpu_wait / iohog.iterations,
            progress: done.iter().map(|done| done.iterations).collect(),
            cpu: done.iter().map(|done| done.cpu / cpu).collect(),
            disk: done.iter().map(|done| done.disk_requests / disk).collect(),
        }
    };
    let exchanges: Vec<Observed> = (0..=8).map(observed).collect();
    let mut findings = Findings::default();
    findings.add_verdict(judge(&exchanges, 0.0));
    let words = Words {
        policy: "CPU: lottery, 10 ms; disk: YFQ".to_owned(),
        default: "no exchange",
        units: "times of the progress without exchange; parts of the CPU and of the disk's requests",
    };
    plan.finish(words, findings, plots(&exchanges))
}
