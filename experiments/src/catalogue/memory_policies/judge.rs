//! The judgement of `memory-policies`.

use crate::catalogue::memory_shares::judge::{READERS, keeps};
use crate::harness::memory_trace::{KIB, MemoryTrace, SteadyState};
use crate::report::comparison::Comparison;
use crate::report::types::Check;
use crate::report::verdict::Verdict;

/// The memory of the readers under one policy.
pub(super) struct UnderPolicy {
    pub policy: &'static str,
    pub trace: MemoryTrace,
    pub steady: SteadyState,
}

/// Judges the policies, of which the first is the kernel alone.
pub(super) fn judge(all: &[UnderPolicy]) -> Verdict {
    let mut verdict = Verdict::default();
    for one in all {
        verdict.comparisons.extend(comparisons(one));
        verdict.checks.extend(keeps(&READERS, &one.steady, one.policy));
    }
    verdict.checks.push(tickets_count(all));
    verdict
}

fn comparisons(UnderPolicy { policy, trace, steady }: &UnderPolicy) -> Vec<Comparison> {
    let has = steady.looks > 0;
    let mut comparisons = Vec::new();
    let mut put = |quantity: String, unit: &str, value: f64| {
        comparisons
            .push(Comparison::new(policy, &quantity, unit).measured(has.then_some(value), None));
    };
    for (place, reader) in READERS.iter().enumerate() {
        put(format!("{} held", reader.name), "KiB", steady.mean[place] / KIB);
        put(format!("{} least", reader.name), "KiB", steady.least[place] as f64 / KIB);
        put(format!("{} refaults", reader.name), "/s", trace.refaults[place]);
    }
    put("in use".to_owned(), "%", steady.in_use * 100.0);
    put("reads".to_owned(), "/s", trace.reads.iter().sum());
    put("allotd".to_owned(), "% of a CPU", trace.allotd_cpu * 100.0);
    comparisons
}

/// Checks that memory above the guarantees goes to readers with tickets, more than under the kernel
/// alone, which knows no tickets there.
fn tickets_count(all: &[UnderPolicy]) -> Check {
    let above = |steady: &SteadyState| -> f64 {
        let guaranteed = READERS.iter().zip(&steady.mean).filter(|(it, _)| it.guaranteed_kib > 0);
        guaranteed.map(|(it, mean)| mean - it.guaranteed_bytes() as f64).sum::<f64>() / KIB
    };
    let kernel = all.first().map_or(0.0, |kernel| above(&kernel.steady));
    let rest = all.get(1..).unwrap_or_default();
    let shown: Vec<String> =
        rest.iter().map(|it| format!("{} {:.0}", it.policy, above(&it.steady))).collect();
    let what = format!(
        "above their guarantees the two with tickets hold more under each policy than under the kernel alone (KiB: \
         {}; kernel {kernel:.0})",
        shown.join(", ")
    );
    let ok =
        !rest.is_empty() && rest.iter().all(|it| it.steady.looks > 0 && above(&it.steady) > kernel);
    Check { what, ok }
}
