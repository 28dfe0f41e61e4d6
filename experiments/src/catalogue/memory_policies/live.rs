//! `memory-policies` on real processes.

use crate::catalogue::memory_policies::judge::{UnderPolicy, judge};
use crate::catalogue::memory_shares::judge::{LIMIT_MIB, READERS};
use crate::error::ExperimentError;
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::DaemonMemory;
use crate::harness::test_disk::disk_dir;
use crate::report::findings::Findings;
use crate::report::outcome::{Outcome, Plot};

const POLICIES: [&str; 4] = ["kernel", "inverse-lottery", "min-funding", "fault-share"];

pub(crate) fn run(context: &mut ExperimentContext) -> Result<Outcome, ExperimentError> {
    let disk = disk_dir()?;
    let seconds = context.total / POLICIES.len() as f64;
    let mut all = Vec::new();
    for policy in POLICIES {
        let memory = DaemonMemory { policy, limit_mib: LIMIT_MIB, guests: None };
        let mut trial = context.memory_trial(memory)?;
        trial.start(context, &disk, &READERS, seconds)?;
        let trace = trial.watch(context, seconds, policy, "allot", &mut |_| Ok(()))?;
        drop(trial);
        let steady = trace.steady(&READERS);
        all.push(UnderPolicy { policy, trace, steady });
    }
    let mut findings = Findings::default();
    findings.add_verdict(judge(&all));
    let panels = all.iter().map(|it| it.trace.panel(it.policy, &READERS)).collect();
    let plot = Plot::new("memory-policies", context.about.title, panels);
    Ok(context.finish(findings, vec![plot]))
}
