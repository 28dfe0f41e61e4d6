//! `guest-memory` on real processes.

use crate::catalogue::guest_memory::judge::{GUEST, HOST, LIMIT_MIB, THRESHOLDS, judge};
use crate::error::ExperimentError;
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::DaemonMemory;
use crate::harness::memory_trace::{MemoryTrace, Reader};
use crate::harness::test_disk::disk_dir;
use crate::report::findings::Findings;
use crate::report::outcome::{Outcome, Plot};
use std::path::Path;

/// Parts of the time: the guest alone, both, both under the kernel alone.
const PARTS: [f64; 3] = [0.4, 0.35, 0.25];
/// The part after which the guest alone counts, and those with a host.
const STEADY: [f64; 2] = [0.75, 0.5];

pub(crate) fn run(context: &mut ExperimentContext) -> Result<Outcome, ExperimentError> {
    let disk = disk_dir()?;
    let [alone_s, both_s, of_kernel_s] = PARTS.map(|part| part * context.total);
    let memory =
        DaemonMemory { policy: "min-funding", limit_mib: LIMIT_MIB, guests: Some(THRESHOLDS) };
    let mut trial = context.memory_trial(memory)?;
    trial.hold_tickets(HOST.guaranteed_kib)?;
    trial.start(context, &disk, &[GUEST], alone_s + both_s)?;
    let before = trial.watch(context, alone_s, "the guest alone", "allot", &mut |_| Ok(()))?;
    trial.start(context, &disk, &[HOST], both_s)?;
    let after = trial.watch(context, both_s, "guest and host", "allot", &mut |_| Ok(()))?;
    drop(trial);
    let mut panels =
        vec![before.panel("the guest alone", &[GUEST]), after.panel("with a host", &[GUEST, HOST])];
    let alone = before.after(Some(alone_s * STEADY[0]));
    let together = after.after(Some(both_s * STEADY[1]));
    let mut findings = Findings::default();
    let of_kernel = by_kernel(context, &disk, of_kernel_s)?;
    let kernel = of_kernel.as_ref().map(|trace| trace.after(Some(of_kernel_s * STEADY[1])));
    match of_kernel {
        Some(trace) => panels.push(trace.panel("the kernel alone", &unguaranteed())),
        None => findings.note("no control group is ours to make: allot is measured alone"),
    }
    findings.add_verdict(judge(&alone, &together, kernel.as_ref()));
    let plot = Plot::new("guest-memory", context.about.title, panels);
    Ok(context.finish(findings, vec![plot]))
}

fn unguaranteed() -> [Reader; 2] {
    [GUEST, HOST].map(|reader| Reader { guaranteed_kib: 0, ..reader })
}

/// Runs both under the kernel alone, where a control group is ours to make.
fn by_kernel(
    context: &mut ExperimentContext,
    disk: &Path,
    seconds: f64,
) -> Result<Option<MemoryTrace>, ExperimentError> {
    let Some(mut trial) = context.memory_trial_of_kernel(LIMIT_MIB)? else { return Ok(None) };
    trial.start(context, disk, &unguaranteed(), seconds)?;
    let note = "the kernel alone";
    trial.watch(context, seconds, "guest and host", note, &mut |_| Ok(())).map(Some)
}
