//! `disk-queue-depth` on real processes. The device's own depth is that of the disk that it is
//! given: `experiments/lab-disk` runs it at 1, 4 and 16.

use crate::catalogue::disk_queue_depth::cells::cells_for;
use crate::catalogue::disk_queue_depth::judge::{Observed, judge};
use crate::error::ExperimentError;
use crate::harness::context::ExperimentContext;
use crate::harness::disk_rules::DiskRules;
use crate::harness::disk_run::DiskRun;
use crate::harness::test_disk::TestDisk;
use crate::report::findings::Findings;
use crate::report::outcome::{Outcome, Plot};
use crate::report::plot::side_by_side;

/// Part of the time for measuring the disk.
const OF_MEASURING: f64 = 0.05;

pub(crate) fn run(context: &mut ExperimentContext) -> Result<Outcome, ExperimentError> {
    let disk = TestDisk::find()?;
    let rules = DiskRules::find(context, &disk, OF_MEASURING)?;
    let cells = cells_for(context.total);
    let runs = cells.len() * rules.rules.len();
    let seconds = context.total * (1.0 - OF_MEASURING) / runs as f64;
    let mut findings = Findings::default();
    findings.notes.extend(rules.notes.iter().cloned());
    for cell in cells {
        let (clients, label) = (cell.clients(disk.depth), cell.name());
        let mut observed = Vec::new();
        for rule in rules.rules.iter().copied() {
            let disks = rules.disks(rule);
            let part = DiskRun { label: &label, rule, clients: &clients, disks, seconds };
            let series = context.run_on_disk(&disk, &part, &|_| false)?;
            observed.extend(Observed::of(&series).map(|found| (rule, found)));
        }
        findings.add_verdict(judge(cell, disk.depth, &observed));
    }
    findings.note(format!(
        "{}; groups of O_DIRECT have twice that in flight, a buffered reader 2, a mapping one 1",
        disk.describe()
    ));
    let panel = side_by_side("the heavy for one of the light", &findings.comparisons, "ratio");
    let plot = Plot::new("disk-queue-depth", context.about.title, vec![panel]);
    Ok(context.finish(findings, vec![plot]))
}
