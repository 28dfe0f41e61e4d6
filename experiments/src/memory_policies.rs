//! `memory-policies`: the load of paper 1's figure 9 under each rule for who loses memory.

use crate::contest::Contest;
use crate::daemon::Memory;
use crate::memory_load::{KIB, Steady, Watched, disk};
use crate::memory_shares::{LIMIT_MIB, READERS, keeps};
use crate::plot::draw;
use crate::report::Findings;
use crate::session::Bench;
use crate::{Check, ExperimentError, ExperimentInfo, Outcome};

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "memory-policies",
    title: "Who loses memory: the kernel within guarantees, and three policies",
    paper: "paper 1, section 5.4: inverse lottery, min-funding revocation, shares by faults",
    what: "The four readers of memory-shares with the same guarantees, when the kernel alone chooses who loses \
           (memory.min and memory.low), by inverse lottery, by min-funding revocation, and by faults: what each holds, how \
           often each needs again what was taken, how much is in use, and what choosing costs.",
    least_seconds: 60.0,
    usual_seconds: 160.0,
    own_allotd: true,
};

const POLICIES: [&str; 4] = ["kernel", "inverse-lottery", "min-funding", "fault-share"];

pub(crate) fn run(bench: &mut Bench) -> Result<Outcome, ExperimentError> {
    let disk = disk(INFO.name)?;
    let seconds = bench.total / POLICIES.len() as f64;
    let mut findings: Option<Findings> = None;
    let (mut panels, mut seen) = (Vec::new(), Vec::new());
    for policy in POLICIES {
        let mut stage =
            bench.memory_stage(Memory { policy, limit_mib: LIMIT_MIB, guests: None })?;
        if let (None, Some(daemon)) = (&findings, &stage.daemon) {
            findings = Some(Findings::new(bench, daemon)?);
        }
        stage.start(bench, &disk, &READERS, seconds)?;
        let watched = stage.watch(bench, seconds, policy, "allot", &mut |_| Ok(()))?;
        drop(stage);
        panels.push(watched.panel(policy, &READERS));
        let steady = watched.steady(&READERS);
        seen.push((policy, watched, steady));
    }
    let mut findings = findings.expect("there was one");
    for (policy, watched, steady) in &seen {
        findings.contests.extend(contests(policy, watched, steady));
        findings.checks.extend(keeps(&READERS, steady, policy));
    }
    findings.checks.push(tickets_count(&seen));
    let svg = vec![("memory-policies.svg".to_owned(), draw(INFO.title, &panels))];
    Ok(findings.finish(bench, &INFO, INFO.title, INFO.paper, svg))
}

fn contests(policy: &str, watched: &Watched, steady: &Steady) -> Vec<Contest> {
    let has = steady.looks > 0;
    let mut contests = Vec::new();
    let mut put = |quantity: String, unit: &str, value: f64| {
        contests.push(Contest::new(policy, &quantity, unit).measured(has.then_some(value), None));
    };
    for (place, reader) in READERS.iter().enumerate() {
        put(format!("{} held", reader.name), "KiB", steady.mean[place] / KIB);
        put(format!("{} least", reader.name), "KiB", steady.least[place] as f64 / KIB);
        put(format!("{} refaults", reader.name), "/s", watched.refaults[place]);
    }
    put("in use".to_owned(), "%", steady.in_use * 100.0);
    put("reads".to_owned(), "/s", watched.reads.iter().sum());
    put("allotd".to_owned(), "% of a CPU", watched.allotd_cpu * 100.0);
    contests
}

/// What lies above the guarantees goes to who has tickets, more than under the kernel alone, which knows none.
fn tickets_count(seen: &[(&str, Watched, Steady)]) -> Check {
    let above = |steady: &Steady| -> f64 {
        let guaranteed = READERS.iter().zip(&steady.mean).filter(|(it, _)| it.guaranteed_kib > 0);
        guaranteed.map(|(it, mean)| mean - it.guaranteed_bytes() as f64).sum::<f64>() / KIB
    };
    let kernel = seen.first().map_or(0.0, |(_, _, steady)| above(steady));
    let rest = seen.get(1..).unwrap_or_default();
    let shown: Vec<String> =
        rest.iter().map(|(policy, _, steady)| format!("{policy} {:.0}", above(steady))).collect();
    let what = format!(
        "above their guarantees the two with tickets hold more under each policy than under the kernel alone (KiB: \
         {}; kernel {kernel:.0})",
        shown.join(", ")
    );
    let ok = !rest.is_empty() && rest.iter().all(|(_, _, it)| it.looks > 0 && above(it) > kernel);
    Check { what, ok }
}
