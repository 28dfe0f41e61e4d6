//! `exchange-cpu-disk` on real processes.

use crate::catalogue::exchange_cpu_disk::judge::{EQUAL, NAMES, Observed, judge};
use crate::catalogue::exchange_cpu_disk::plots::plots;
use crate::error::ExperimentError;
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::DaemonSettings;
use crate::harness::disk_run::soft;
use crate::harness::test_disk::TestDisk;
use crate::harness::trading_session::{StretchUsage, Trader};
use crate::report::findings::Findings;
use crate::report::outcome::{Outcome, Plot};
use crate::report::statistics::mean;
use crate::workloads::disk::{DiskLoad, DiskWork};
use crate::workloads::spec::Work;

/// Size of each file.
const FILE_MIB: u64 = 16;
/// BFQ serves one client for up to 125 ms (`timeout_sync`).
const TURN_SECONDS: f64 = 0.125;
/// Tickets exchanged, phase by phase. The load without exchange is there between, so that other
/// changes with time show.
const PHASES: [u64; 12] = [0, 100, 200, 300, 0, 400, 500, 600, 0, 700, 800, 0];
/// The part of each phase that settles.
const SETTLE: f64 = 0.2;

/// The work of all clients in a phase, in which n tickets were exchanged.
type Phase = (u64, Vec<StretchUsage>);

pub(crate) fn run(context: &mut ExperimentContext) -> Result<Outcome, ExperimentError> {
    let disk = TestDisk::find()?;
    let phases = run_phases(context, &disk)?;
    let counted = context.total / PHASES.len() as f64 * (1.0 - SETTLE);
    let observed = observe(&phases);
    let mut findings = Findings::default();
    findings.add_verdict(judge(&observed, TURN_SECONDS / counted));
    findings.note(spread(&phases));
    findings.note(format!(
        "`default` is the same without exchange; {counted:.1} s of each phase count, its last \
         {:.0} %; the disk takes {} requests at a time and is shared by BFQ",
        (1.0 - SETTLE) * 100.0,
        disk.depth
    ));
    let title = context.about.title;
    let plots = plots(&observed).into_iter().map(|(file, panels)| Plot::new(file, title, panels));
    let plots = plots.collect();
    Ok(context.finish(findings, plots))
}

fn run_phases(
    context: &mut ExperimentContext,
    disk: &TestDisk,
) -> Result<Vec<Phase>, ExperimentError> {
    let mut daemon = context.allotd_with_bfq(DaemonSettings::of(context.options))?;
    let seconds = context.total / PHASES.len() as f64;
    let mut session = context.trading_session(&mut daemon, disk, &traders(disk), context.total)?;
    session.release();
    let mut phases = Vec::new();
    for n in PHASES {
        let label = format!("n = {n}");
        let tickets = |resource: &str| soft(resource, n);
        let exchange = match n {
            0 => None,
            _ => Some(session.exchange(&tickets(&disk.resource()), &tickets("cpu"))?),
        };
        session.pass(context, seconds * SETTLE, &label, &mut |_| Ok(()))?;
        let counted = seconds * (1.0 - SETTLE);
        phases.push((n, session.pass(context, counted, &label, &mut |_| Ok(()))?));
        if let Some(exchange) = exchange {
            session.end(exchange)?;
        }
    }
    Ok(phases)
}

/// Returns the seven clients; their files are in the disk's directory.
pub(in crate::catalogue) fn traders(disk: &TestDisk) -> Vec<Trader> {
    NAMES.iter().map(|name| trader(disk, name, name.contains("iohog"))).collect()
}

/// Returns a client with the tickets of all, that reads or computes.
pub(in crate::catalogue) fn trader(disk: &TestDisk, name: &str, reads: bool) -> Trader {
    Trader {
        name: name.to_owned(),
        work: match reads {
            true => Work::Disk(DiskWork {
                file: disk.dir.join(name.replace(' ', "-")),
                mib: FILE_MIB,
                load: DiskLoad::IoHog,
            }),
            false => Work::Burn(Vec::new()),
        },
        funding: vec![soft("cpu", EQUAL), soft(&disk.resource(), EQUAL)],
    }
}

/// Observes the phases of each n together, by n.
fn observe(phases: &[Phase]) -> Vec<Observed> {
    let mut all: Vec<u64> = phases.iter().map(|(n, _)| *n).collect();
    all.sort_unstable();
    all.dedup();
    let of = |n: u64| {
        let mut sums = vec![StretchUsage::default(); NAMES.len()];
        for (_, did) in phases.iter().filter(|(at, _)| *at == n) {
            sums.iter_mut().zip(did).for_each(|(sum, did)| sum.add(did));
        }
        Observed {
            n,
            progress: sums.iter().map(StretchUsage::progress).collect(),
            cpu: parts(sums.iter().map(|did| did.cpu_ns)),
            disk: parts(sums.iter().map(|did| did.read_bytes)),
            cpu_wait_ms: sums[1].cpu_wait_ns as f64 / 1e6 / sums[1].iterations.max(1) as f64,
        }
    };
    all.into_iter().map(of).collect()
}

fn parts(amounts: impl Iterator<Item = u64> + Clone) -> Vec<f64> {
    let all = amounts.clone().sum::<u64>().max(1) as f64;
    amounts.map(|amount| amount as f64 / all).collect()
}

/// Describes how far the phases without exchange differ.
fn spread(phases: &[Phase]) -> String {
    let part = |client: usize| {
        let none = phases.iter().filter(|(n, _)| *n == 0);
        let progress: Vec<f64> = none.map(|(_, did)| did[client].progress()).collect();
        let average = mean(&progress).unwrap_or(0.0);
        let most = progress.iter().copied().fold(0.0, f64::max);
        let least = progress.iter().copied().fold(f64::INFINITY, f64::min);
        (most - least) / average * 100.0
    };
    format!(
        "the {} phases without exchange differ by {:.1} % (dhrystone) and {:.1} % (iohog), the most from the least",
        phases.iter().filter(|(n, _)| *n == 0).count(),
        part(0),
        part(1)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn did(seconds: f64, counts: [u64; 7]) -> Vec<StretchUsage> {
        let of = |count| StretchUsage {
            seconds,
            iterations: count,
            cpu_ns: count,
            cpu_wait_ns: 2_000_000 * count,
            read_bytes: count,
        };
        counts.map(of).to_vec()
    }

    #[test]
    fn phases_without_exchange_count_together() {
        let phases = [(0, did(1.0, [10; 7])), (300, did(2.0, [50; 7])), (0, did(3.0, [50; 7]))];
        let seen = observe(&phases);
        assert_eq!(seen.iter().map(|seen| seen.n).collect::<Vec<_>>(), [0, 300]);
        assert!((seen[0].progress[4] - 15.0).abs() < 1e-9);
        assert!((seen[1].cpu[2] - 1.0 / 7.0).abs() < 1e-9);
        assert!((seen[1].cpu_wait_ms - 2.0).abs() < 1e-9);
        assert!(spread(&phases).contains("differ by 50.0 %"), "{}", spread(&phases));
    }

    #[test]
    fn every_exchange_of_the_paper_has_a_phase() {
        let mut all = PHASES.to_vec();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all, (0..=8).map(|hundreds| hundreds * 100).collect::<Vec<u64>>());
    }
}
