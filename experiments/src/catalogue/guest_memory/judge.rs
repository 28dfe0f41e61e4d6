//! The judgement of `guest-memory`.

use crate::harness::memory_trace::{IN_USE, KIB, MIB, Reader, SteadyState};
use crate::report::comparison::Comparison;
use crate::report::verdict::Verdict;

/// Limit of all readers together.
pub(super) const LIMIT_MIB: u64 = 16;
pub(super) const THRESHOLDS: &str = "5%,10%";
const HIGH_BYTES: u64 = LIMIT_MIB * MIB / 10;
pub(super) const GUEST: Reader =
    Reader { name: "guest", guaranteed_kib: 0, guest: true, file_mib: 32 };
/// The host. It holds memory tickets: allot leaves memory alone until a currency does.
pub(super) const HOST: Reader =
    Reader { name: "host", guaranteed_kib: 1024, guest: false, file_mib: 32 };
/// Bytes by which the guest may be above the high threshold on average: what it gets until it is
/// asked again, some draws' worth.
const SLACK_BYTES: u64 = 512 << 10;

/// Judges the guest alone, the guest with a host, and both under the kernel alone.
pub(super) fn judge(
    alone: &SteadyState,
    together: &SteadyState,
    kernel: Option<&SteadyState>,
) -> Verdict {
    let mut verdict = Verdict::default();
    let mean =
        |steady: &SteadyState, place: usize| (steady.looks > 0).then(|| steady.mean[place] / KIB);
    let put = |what: &str, promised: Option<f64>, allot: Option<f64>, default: Option<f64>| {
        Comparison::new(what, "held on average", "KiB").promising(promised).measured(allot, default)
    };
    let of_kernel = |place| kernel.and_then(|steady| mean(steady, place));
    verdict.comparisons.push(put("the guest alone", None, mean(alone, 0), None));
    verdict.comparisons.push(put("guest, with a host", None, mean(together, 0), of_kernel(0)));
    let promised = Some(HOST.guaranteed_kib as f64);
    verdict.comparisons.push(put("host", promised, mean(together, 1), of_kernel(1)));
    let (high, guest) = (HIGH_BYTES as f64, together.mean.first().copied().unwrap_or(0.0));
    let what = format!(
        "with a host the guest holds no more than the high threshold and some draws ({:.0} KiB; {:.0} and {:.0})",
        guest / KIB,
        high / KIB,
        SLACK_BYTES as f64 / KIB
    );
    let ok = together.looks > 0 && guest <= high + SLACK_BYTES as f64;
    verdict.check(what, ok);
    let what = format!(
        "no threshold is a limit: alone the guest has at least {:.0} % of the memory ({:.1} %)",
        IN_USE * 100.0,
        alone.in_use * 100.0
    );
    verdict.check(what, alone.looks > 0 && alone.in_use >= IN_USE);
    let what = format!(
        "with a host at least {:.0} % is in use ({:.1} %)",
        IN_USE * 100.0,
        together.in_use * 100.0
    );
    verdict.check(what, together.looks > 0 && together.in_use >= IN_USE);
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict() {
        let steady = |kib: &[u64], in_use| SteadyState {
            since: Some(1.0),
            looks: 9,
            mean: kib.iter().map(|kib| *kib as f64 * KIB).collect(),
            least: kib.iter().map(|kib| kib << 10).collect(),
            in_use,
        };
        let verdict = |alone: f64, guest: u64, together: f64| {
            let (one, two) = (steady(&[15_000], alone), steady(&[guest, 12_000], together));
            judge(&one, &two, None).checks.iter().map(|check| check.ok).collect::<Vec<_>>()
        };
        assert_eq!(verdict(0.95, 2100, 0.93), [true; 3]);
        assert_eq!(verdict(0.8, 3000, 0.8), [false; 3]);
    }
}
