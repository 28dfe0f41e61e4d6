//! The judgement of `nice`.

use crate::report::types::Check;
use std::collections::BTreeMap;

/// The greatest difference between equal guarantees: the ledger's integers round down, and a
/// guaranteed value is a number between 0 and 1.
const SAME: f64 = 1e-9;

/// Checks that nice left the guarantees of Alice and her task as they were.
pub(super) fn leaves_as_it_was(
    before: &BTreeMap<String, f64>,
    after: &BTreeMap<String, f64>,
) -> Vec<Check> {
    let check = |name: &str| {
        let (before, after) = (before[name], after[name]);
        Check {
            what: format!(
                "nice leaves what {name} is sure of as it was ({:.4} % before, {:.4} % after)",
                before * 100.0,
                after * 100.0
            ),
            ok: (before - after).abs() <= SAME,
        }
    };
    vec![check("alice"), check("task1")]
}
