//! The findings of an experiment, collected while it runs.

use crate::report::comparison::Comparison;
use crate::report::types::{Check, NotJudged, Row};
use crate::report::verdict::Verdict;
use crate::report::wobble::Wobble;

/// The findings of an experiment, or of a part of one.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub rows: Vec<Row>,
    pub not_judged: Vec<NotJudged>,
    pub checks: Vec<Check>,
    pub comparisons: Vec<Comparison>,
    pub wobble: Vec<Wobble>,
    pub notes: Vec<String>,
    /// CPU time of allotd while it was measured, in ns.
    pub daemon_ns: u64,
    /// Seconds for which that was measured.
    pub managed_seconds: f64,
}

impl Findings {
    /// Adds a share that may differ from its promise by `bound`, and the share without tickets.
    pub fn row(&mut self, client: &str, promised: f64, measured: f64, bound: f64, default: f64) {
        self.rows.push(Row {
            client: client.to_owned(),
            promised,
            measured,
            error: (measured - promised).abs(),
            bound,
            promised_by_allotd: promised,
            used_seconds: 0.0,
            draws: 0,
            draws_worth: 0.0,
            default_measured: Some(default),
            default_error: Some((default - promised).abs()),
        });
    }

    /// Adds a comparison.
    pub fn compare(&mut self, comparison: Comparison) {
        self.comparisons.push(comparison);
    }

    /// Adds a condition, and whether it held.
    pub fn check(&mut self, what: impl Into<String>, ok: bool) {
        self.checks.push(Check { what: what.into(), ok });
    }

    /// Adds a remark.
    pub fn note(&mut self, what: impl Into<String>) {
        self.notes.push(what.into());
    }

    /// Adds a verdict.
    pub fn add_verdict(&mut self, verdict: Verdict) {
        self.comparisons.extend(verdict.comparisons);
        self.checks.extend(verdict.checks);
        self.notes.extend(verdict.notes);
    }

    /// Returns the CPU time of allotd, as a part of one CPU.
    pub fn daemon_cpu(&self) -> f64 {
        self.daemon_ns as f64 / 1e9 / self.managed_seconds.max(f64::EPSILON)
    }
}
