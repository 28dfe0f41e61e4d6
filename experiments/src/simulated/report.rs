//! The report of a simulated experiment: as that of a live one, but that nothing is left to the machine.

use super::scene::Plan;
use crate::exchanges::Judged;
use crate::plot::{self, Panel};
use crate::{Check, Contest, Machine, Outcome, Report, Row};
use std::fmt::Write as _;

/// Collects what runs gave.
pub(super) struct Findings {
    rows: Vec<Row>,
    contests: Vec<Contest>,
    checks: Vec<Check>,
    notes: Vec<String>,
    /// What the column `default` has.
    pub default: String,
    /// Who decided: for the report's field `policy`.
    pub policy: String,
    /// What the shares are parts of.
    pub units: String,
}

impl Findings {
    pub fn new() -> Findings {
        Findings {
            rows: Vec::new(),
            contests: Vec::new(),
            checks: Vec::new(),
            notes: Vec::new(),
            default: String::new(),
            policy: String::new(),
            units: String::new(),
        }
    }

    /// A share of `promised` beside what it was, and what it was without tickets. It may differ by `bound`.
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

    pub fn contest(&mut self, contest: Contest) {
        self.contests.push(contest);
    }

    /// Something must hold.
    pub fn check(&mut self, what: impl Into<String>, ok: bool) {
        self.checks.push(Check { what: what.into(), ok });
    }

    pub fn note(&mut self, what: impl Into<String>) {
        self.notes.push(what.into());
    }

    /// Takes over what is said of a live run too. Answers its plots.
    pub fn take(&mut self, judged: Judged) -> Vec<(&'static str, Vec<Panel>)> {
        self.contests.extend(judged.contests);
        self.checks.extend(judged.checks);
        self.notes.extend(judged.notes);
        judged.plots
    }

    /// The end: all judged, and the table made.
    pub fn finish(self, plan: &Plan, plots: Vec<(&str, Vec<Panel>)>) -> Outcome {
        let within = self.rows.iter().all(|row| row.error <= row.bound);
        let greatest = |of: fn(&Row) -> f64| self.rows.iter().map(of).fold(0.0, f64::max);
        let report = Report {
            name: plan.info.name.to_owned(),
            paper: plan.info.paper.to_owned(),
            machine: Machine {
                kernel: "none: virtual time".to_owned(),
                os: "none".to_owned(),
                cpu_model: "simulated".to_owned(),
                cpus_online: 0,
                cpus: Vec::new(),
                cpu_quota: None,
                load_average: 0.0,
            },
            enforcer: "simulated".to_owned(),
            policy: self.policy.clone(),
            seed: plan.seed,
            seconds: plan.seconds,
            max_error: greatest(|row| row.error),
            bound: greatest(|row| row.bound),
            ok: within && self.checks.iter().all(|check| check.ok),
            bound_formula: match self.rows.is_empty() {
                true => "the checks say what must hold".to_owned(),
                false => "5 % of what is promised".to_owned(),
            },
            units: self.units.clone(),
            quantum_ns: 0,
            checks: self.checks.clone(),
            kernel_default: self.default.clone(),
            compared: Vec::new(),
            contests: self.contests.clone(),
            wobble: Vec::new(),
            allotd_cpu: 0.0,
            notes: self.notes.clone(),
            rows: self.rows.clone(),
        };
        let table = table(&report, plan.info.title);
        let draw = |(name, panels): (&str, Vec<Panel>)| {
            let title = format!("{} (simulated)", plan.info.title);
            (format!("{name}.svg"), plot::draw(&title, &panels))
        };
        Outcome { report, table, files: plots.into_iter().map(draw).collect() }
    }
}

fn table(report: &Report, title: &str) -> String {
    let mut text = String::new();
    let mut line = |words: String| {
        let _ = writeln!(text, "{}", words.trim_end());
    };
    line(format!("{title} ({})", report.paper));
    line(format!(
        "simulated: {} s of virtual time a run, seed {}; {}",
        report.seconds, report.seed, report.policy
    ));
    line(String::new());
    if !report.rows.is_empty() {
        let width = report.rows.iter().map(|row| row.client.chars().count()).max().unwrap_or(0);
        let percent = |part: f64| format!("{:.2} %", part * 100.0);
        line(format!(
            "{:<width$}  {:>9}  {:>9}  {:>8}  {:>8}  {:>9}",
            "client", "promised", "allot", "error", "bound", "default"
        ));
        for row in &report.rows {
            line(format!(
                "{:<width$}  {:>9}  {:>9}  {:>8}  {:>8}  {:>9}  {}",
                row.client,
                percent(row.promised),
                percent(row.measured),
                percent(row.error),
                percent(row.bound),
                row.default_measured.map_or("-".to_owned(), percent),
                if row.error <= row.bound { "" } else { "BEYOND" }
            ));
        }
        line(String::new());
    }
    if !report.contests.is_empty() {
        crate::contest::table(&report.contests).lines().for_each(|words| line(words.to_owned()));
        line(String::new());
    }
    crate::report::findings(report).for_each(&mut line);
    line(format!("units: {}", report.units));
    line(if report.ok { "ok" } else { "NOT OK" }.to_owned());
    text
}
