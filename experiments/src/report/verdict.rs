//! A judgement of measurements, which may be those of a live or of a simulated run.

use crate::report::comparison::Comparison;
use crate::report::types::Check;

/// The judgement of some measurements.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub comparisons: Vec<Comparison>,
    pub checks: Vec<Check>,
    pub notes: Vec<String>,
}

impl Verdict {
    /// Adds a condition, and whether it held.
    pub fn check(&mut self, what: impl Into<String>, ok: bool) {
        self.checks.push(Check { what: what.into(), ok });
    }
}
