//! `memory-shares` on real processes.

use crate::catalogue::memory_shares::judge::{LIMIT_MIB, READERS, judge};
use crate::error::ExperimentError;
use crate::funding::graph::BASE;
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::DaemonMemory;
use crate::harness::memory_trace::{MemoryTrace, Reader};
use crate::harness::memory_trial::{MemoryLook, memory_tickets};
use crate::harness::test_disk::disk_dir;
use crate::report::findings::Findings;
use crate::report::outcome::{Outcome, Plot};
use std::path::Path;
use wire::{CurrencyRef, Operation, TicketKind};

/// Parts of the time: allot, the kernel alone, allot with tickets deactivated at every block.
const PARTS: [f64; 3] = [0.4, 0.25, 0.35];
const MEMORY: DaemonMemory =
    DaemonMemory { policy: "min-funding", limit_mib: LIMIT_MIB, guests: None };

pub(crate) fn run(context: &mut ExperimentContext) -> Result<Outcome, ExperimentError> {
    let disk = disk_dir()?;
    let [seconds, of_kernel, of_blocks] = PARTS.map(|part| part * context.total);
    let mut findings = Findings::default();

    let mut trial = context.memory_trial(MEMORY)?;
    trial.start(context, &disk, &READERS, seconds)?;
    let trace = trial.watch(context, seconds, "figure 9", "allot", &mut |_| Ok(()))?;
    drop(trial);
    let allot = trace.steady(&READERS);
    let mut panels = vec![trace.panel("allot", &READERS)];

    // The kernel guarantees nothing, so no reader need have had anything.
    let unguaranteed = READERS.map(|reader| Reader { guaranteed_kib: 0, ..reader });
    let trace = by_kernel(context, &disk, of_kernel)?;
    let kernel = trace.as_ref().map(|trace| trace.steady(&unguaranteed));
    match trace {
        Some(trace) => panels.push(trace.panel("the kernel alone", &READERS)),
        None => findings.note("no control group is ours to make: allot is measured alone"),
    }

    let mut trial = context.memory_trial(MEMORY)?;
    trial.start(context, &disk, &READERS, of_blocks)?;
    let mut blocks = Blocks::default();
    let trace =
        trial.watch(context, of_blocks, "figure 6", "allot", &mut |look| blocks.look(look))?;
    drop(trial);
    panels.push(trace.panel("allot, tickets deactivated at every block", &READERS));
    let at_blocks = trace.after(Some(of_blocks / 3.0));
    findings.note(blocks.describe());
    findings.add_verdict(judge(&allot, kernel.as_ref(), &at_blocks));
    let plot = Plot::new("memory-shares", context.about.title, panels);
    Ok(context.finish(findings, vec![plot]))
}

/// Runs the readers under the kernel alone, where a control group is ours to make.
fn by_kernel(
    context: &mut ExperimentContext,
    disk: &Path,
    seconds: f64,
) -> Result<Option<MemoryTrace>, ExperimentError> {
    let Some(mut trial) = context.memory_trial_of_kernel(LIMIT_MIB)? else {
        context.elapsed += seconds;
        return Ok(None);
    };
    trial.start(context, disk, &READERS, seconds)?;
    let note = "the kernel alone";
    trial.watch(context, seconds, "figure 9", note, &mut |_| Ok(())).map(Some)
}

/// Tickets that are deactivated whenever a client blocks.
#[derive(Default)]
struct Blocks {
    /// Whether each has its tickets now.
    has: Vec<bool>,
    looks: u64,
    blocked: u64,
    changes: u64,
}

impl Blocks {
    /// Deactivates the tickets of readers that block, and returns those of readers that run.
    fn look(&mut self, look: &MemoryLook) -> Result<(), ExperimentError> {
        let MemoryLook { daemon: Some(daemon), ids, blocked } = *look else { return Ok(()) };
        self.has.resize(ids.len(), true);
        let mut operations = Vec::new();
        let guaranteed = READERS.iter().zip(ids).zip(blocked).zip(&mut self.has);
        for (((reader, id), blocked), has) in
            guaranteed.filter(|(((reader, _), _), _)| reader.guaranteed_kib > 0)
        {
            self.looks += 1;
            self.blocked += u64::from(*blocked);
            if *has != *blocked {
                continue;
            }
            *has = !blocked;
            self.changes += 1;
            let (currency, from) = (id.clone(), CurrencyRef::from(BASE));
            operations.push(match *has {
                true => Operation::Fund {
                    currency,
                    from,
                    amount: memory_tickets(reader.guaranteed_kib),
                },
                false => Operation::Unfund {
                    currency,
                    from,
                    resource: "memory".to_owned(),
                    kind: TicketKind::Hard,
                },
            });
        }
        if !operations.is_empty() {
            daemon.operate("deactivating memory tickets", operations)?;
        }
        Ok(())
    }

    fn describe(&self) -> String {
        format!(
            "figure 6: whoever was seen blocked at a look lost its memory tickets, and had them back \
             when it was seen running: {} changes, {:.0} % of the looks found them blocked; what \
             counts is the last two thirds",
            self.changes,
            100.0 * self.blocked as f64 / self.looks.max(1) as f64
        )
    }
}
