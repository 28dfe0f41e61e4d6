//! `guest-memory`: a guest beside a host, with paper 4's thresholds (section 2).

use crate::contest::Contest;
use crate::daemon::Memory;
use crate::memory_load::{IN_USE, KIB, MIB, Reader, Steady, disk};
use crate::plot::draw;
use crate::report::Findings;
use crate::session::Bench;
use crate::{Check, ExperimentError, ExperimentInfo, Outcome};

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "guest-memory",
    title: "A guest's memory beside a host's",
    paper: "paper 4, section 2: low and high thresholds, 5 to 10 % of the memory",
    what: "A guest that reads at random has all memory for itself; then a host comes that wants as much. With thresholds \
           of 5 and 10 % the guest gives way down to between them, and without any (the kernel alone) it keeps half.",
    least_seconds: 80.0,
    usual_seconds: 140.0,
    own_allotd: true,
};

const LIMIT_MIB: u64 = 16;
const THRESHOLDS: &str = "5%,10%";
const HIGH_BYTES: u64 = LIMIT_MIB * MIB / 10;
const GUEST: Reader = Reader { name: "guest", guaranteed_kib: 0, guest: true, file_mib: 32 };
/// Somebody must hold memory tickets, or allot leaves memory alone.
const HOST: Reader = Reader { name: "host", guaranteed_kib: 1024, guest: false, file_mib: 32 };
/// Parts of the time: the guest alone, both, both under the kernel alone.
const PARTS: [f64; 3] = [0.4, 0.35, 0.25];
/// Above the high threshold the guest may be, on average, by what it gets until it is asked again: some draws' worth.
const SLACK_BYTES: u64 = 512 << 10;

pub(crate) fn run(bench: &mut Bench) -> Result<Outcome, ExperimentError> {
    let disk = disk(INFO.name)?;
    let [alone, both, of_kernel] = PARTS.map(|part| part * bench.total);
    let memory = Memory { policy: "min-funding", limit_mib: LIMIT_MIB, guests: Some(THRESHOLDS) };
    let mut stage = bench.memory_stage(memory)?;
    let mut findings = Findings::new(bench, stage.daemon.as_ref().expect("it was started"))?;
    stage.hold_tickets(HOST.guaranteed_kib)?;
    stage.start(bench, &disk, &[GUEST], alone + both)?;
    let before = stage.watch(bench, alone, "the guest alone", "allot", &mut |_| Ok(()))?;
    stage.start(bench, &disk, &[HOST], both)?;
    let after = stage.watch(bench, both, "guest and host", "allot", &mut |_| Ok(()))?;
    drop(stage);
    let mut panels =
        vec![before.panel("the guest alone", &[GUEST]), after.panel("with a host", &[GUEST, HOST])];
    let (alone, together) = (before.after(Some(alone * 0.75)), after.after(Some(both / 2.0)));
    let kernel = match bench.memory_fence(LIMIT_MIB)? {
        Some(mut stage) => {
            let readers = [GUEST, HOST].map(|reader| Reader { guaranteed_kib: 0, ..reader });
            stage.start(bench, &disk, &readers, of_kernel)?;
            let note = "the kernel alone";
            let seen = stage.watch(bench, of_kernel, "guest and host", note, &mut |_| Ok(()))?;
            panels.push(seen.panel(note, &readers));
            Some(seen.after(Some(of_kernel / 2.0)))
        }
        None => {
            findings
                .notes
                .push("no control group is ours to make: allot is measured alone".to_owned());
            None
        }
    };
    judge(&alone, &together, kernel.as_ref(), &mut findings.contests, &mut findings.checks);
    let svg = vec![("guest-memory.svg".to_owned(), draw(INFO.title, &panels))];
    Ok(findings.finish(bench, &INFO, INFO.title, INFO.paper, svg))
}

fn judge(
    alone: &Steady,
    together: &Steady,
    kernel: Option<&Steady>,
    contests: &mut Vec<Contest>,
    checks: &mut Vec<Check>,
) {
    let mean = |steady: &Steady, place: usize| (steady.looks > 0).then(|| steady.mean[place] / KIB);
    let put = |what: &str, promised: Option<f64>, allot: Option<f64>, default: Option<f64>| {
        Contest::new(what, "held on average", "KiB").promising(promised).measured(allot, default)
    };
    let of_kernel = |place| kernel.and_then(|steady| mean(steady, place));
    contests.push(put("the guest alone", None, mean(alone, 0), None));
    contests.push(put("guest, with a host", None, mean(together, 0), of_kernel(0)));
    let promised = Some(HOST.guaranteed_kib as f64);
    contests.push(put("host", promised, mean(together, 1), of_kernel(1)));
    let (high, guest) = (HIGH_BYTES as f64, together.mean.first().copied().unwrap_or(0.0));
    let what = format!(
        "with a host the guest holds no more than the high threshold and some draws ({:.0} KiB; {:.0} and {:.0})",
        guest / KIB,
        high / KIB,
        SLACK_BYTES as f64 / KIB
    );
    let ok = together.looks > 0 && guest <= high + SLACK_BYTES as f64;
    checks.push(Check { what, ok });
    let what = format!(
        "no threshold is a limit: alone the guest has at least {:.0} % of the memory ({:.1} %)",
        IN_USE * 100.0,
        alone.in_use * 100.0
    );
    checks.push(Check { what, ok: alone.looks > 0 && alone.in_use >= IN_USE });
    let what = format!(
        "with a host at least {:.0} % is in use ({:.1} %)",
        IN_USE * 100.0,
        together.in_use * 100.0
    );
    checks.push(Check { what, ok: together.looks > 0 && together.in_use >= IN_USE });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict() {
        let steady = |kib: &[u64], in_use| Steady {
            since: Some(1.0),
            looks: 9,
            mean: kib.iter().map(|kib| *kib as f64 * KIB).collect(),
            least: kib.iter().map(|kib| kib << 10).collect(),
            in_use,
        };
        let verdict = |alone: f64, guest: u64, together: f64| {
            let (mut contests, mut checks) = (Vec::new(), Vec::new());
            let (one, two) = (steady(&[15_000], alone), steady(&[guest, 12_000], together));
            judge(&one, &two, None, &mut contests, &mut checks);
            checks.iter().map(|check| check.ok).collect::<Vec<_>>()
        };
        assert_eq!(verdict(0.95, 2100, 0.93), [true; 3]);
        assert_eq!(verdict(0.8, 3000, 0.8), [false; 3]);
    }
}
