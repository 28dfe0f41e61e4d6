//! `disk-shares` on real processes.

use crate::catalogue::disk_shares::judge::{MIB, Observed, PAGES, SETTLE, SETTLE_SECONDS, judge};
use crate::error::ExperimentError;
use crate::harness::context::ExperimentContext;
use crate::harness::disk_client::{DiskClient, DiskFunding};
use crate::harness::disk_rules::DiskRules;
use crate::harness::disk_run::DiskRun;
use crate::harness::test_disk::TestDisk;
use crate::report::findings::Findings;
use crate::report::outcome::{Outcome, Plot};
use crate::report::plot::{progress, progress_panel};
use crate::workloads::disk::DiskLoad;

/// Part of the time for measuring the disk.
const OF_MEASURING: f64 = 0.1;

/// Returns the clients: one has half of the disk for sure, four share what their user has.
fn clients() -> Vec<DiskClient> {
    let client = |name: &str, fund, promised| DiskClient {
        name: name.to_owned(),
        fund,
        promised,
        load: DiskLoad::IoHog,
        mib: MIB,
    };
    let mut clients = vec![client("hard", DiskFunding::Hard(500), 0.5)];
    let soft = ["soft A", "soft B", "soft C", "soft D"];
    clients.extend(soft.map(|name| client(name, DiskFunding::OfUser(1000), 0.125)));
    clients
}

pub(crate) fn run(context: &mut ExperimentContext) -> Result<Outcome, ExperimentError> {
    let disk = TestDisk::find()?;
    let rules = DiskRules::find(context, &disk, OF_MEASURING)?;
    let clients = clients();
    let names: Vec<String> = clients.iter().map(|client| client.name.clone()).collect();
    let seconds = context.total * (1.0 - OF_MEASURING) / rules.rules.len() as f64;
    let (mut observed, mut panels) = (Vec::new(), Vec::new());
    for rule in rules.rules.iter().copied() {
        let disks = rules.disks(rule);
        let part = DiskRun { label: "figure 10", rule, clients: &clients, disks, seconds };
        let series = context.run_on_disk(&disk, &part, &|pages| pages[0] >= PAGES)?;
        observed.extend(Observed::of(&series).map(|found| (rule, found)));
        panels.push(progress_panel(rule.name(), progress(&names, &series, &|_| true), Vec::new()));
    }
    let mut findings = Findings::default();
    findings.notes.extend(rules.notes);
    findings.add_verdict(judge(&observed));
    findings.note(format!(
        "measured after the first {:.0} % of each run, and {SETTLE_SECONDS:.0} s at least where \
         that leaves as much",
        SETTLE * 100.0
    ));
    findings.note(disk.describe());
    let plot = Plot::new("disk-shares", context.about.title, panels);
    Ok(context.finish(findings, vec![plot]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tickets_promise_adds_up() {
        let clients = clients();
        let all: f64 = clients.iter().map(|client| client.promised).sum();
        assert!((all - 1.0).abs() < 1e-9);
    }
}
