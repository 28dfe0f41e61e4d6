//! All files that an experiment gives.

use crate::error::ExperimentError;
use crate::report::findings::Findings;
use crate::report::plot::{self, Panel};
use crate::report::setting::Setting;
use crate::report::table::table;
use crate::report::types::{Report, Row};
use std::path::Path;

/// The outcome of an experiment: its report, a table for people, plots and logs.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The report for programs.
    pub report: Report,
    /// The same for people.
    pub table: String,
    /// Plots and logs: file names, and their contents.
    pub files: Vec<(String, String)>,
}

/// The name of an experiment, and the words above its table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Title {
    pub name: String,
    pub title: String,
    pub paper: String,
}

/// A figure: its file's name without the ending, its title, and its panels.
pub(crate) struct Plot {
    pub file: String,
    pub title: String,
    pub panels: Vec<Panel>,
}

impl Plot {
    /// Creates a figure.
    pub fn new(file: &str, title: &str, panels: Vec<Panel>) -> Plot {
        Plot { file: file.to_owned(), title: title.to_owned(), panels }
    }
}

/// A text that is kept beside the report: its file's name, and its contents.
pub(crate) type Log = (String, String);

impl Outcome {
    /// Judges the findings, and makes the report, the table and the plots. The outcome of every
    /// experiment comes from here, so that all have one form.
    pub(crate) fn of(
        title: &Title,
        setting: Setting,
        findings: Findings,
        plots: Vec<Plot>,
        logs: Vec<Log>,
    ) -> Outcome {
        let within = findings.rows.iter().all(|row| row.error <= row.bound);
        let is_judged = !findings.rows.is_empty() || !findings.checks.is_empty();
        let ok = within && is_judged && findings.checks.iter().all(|check| check.ok);
        let greatest = |of: fn(&Row) -> f64| findings.rows.iter().map(of).fold(0.0, f64::max);
        let report = Report {
            name: title.name.clone(),
            paper: title.paper.clone(),
            machine: setting.machine,
            enforcer: setting.enforcer,
            policy: setting.policy,
            seed: setting.seed,
            seconds: setting.seconds,
            max_error: greatest(|row| row.error),
            bound: greatest(|row| row.bound),
            ok,
            bound_formula: match findings.rows.is_empty() {
                true => "the checks say what must hold".to_owned(),
                false => setting.bound_formula,
            },
            units: setting.units,
            quantum_ns: setting.quantum_ns,
            kernel_default: setting.kernel_default,
            allotd_cpu: findings.daemon_cpu(),
            rows: findings.rows,
            checks: findings.checks,
            not_judged: findings.not_judged,
            comparisons: findings.comparisons,
            wobble: findings.wobble,
            notes: findings.notes,
        };
        let table = table(&title.title, &report);
        let draw =
            |plot: Plot| (format!("{}.svg", plot.file), plot::draw(&plot.title, &plot.panels));
        let files = plots.into_iter().map(draw).chain(logs).collect();
        Outcome { report, table, files }
    }

    /// Writes `report.json`, `table.txt`, plots and logs into a directory, which is made if need
    /// be.
    pub fn write(&self, dir: &Path) -> Result<(), ExperimentError> {
        let json = serde_json::to_string_pretty(&self.report).expect("a report is JSON");
        let mut files = vec![("report.json", json + "\n"), ("table.txt", self.table.clone())];
        files.extend(self.files.iter().map(|(name, text)| (name.as_str(), text.clone())));
        make(dir)?;
        for (name, text) in files {
            let path = dir.join(name);
            std::fs::write(&path, text)
                .map_err(|cause| ExperimentError::CannotWrite { path, cause })?;
        }
        Ok(())
    }
}

fn make(dir: &Path) -> Result<(), ExperimentError> {
    std::fs::create_dir_all(dir)
        .map_err(|cause| ExperimentError::CannotWrite { path: dir.to_owned(), cause })
}

/// Refuses a directory that cannot be written, before an experiment takes its time.
pub(crate) fn check_writable(dir: &Path) -> Result<(), ExperimentError> {
    make(dir)?;
    tempfile::tempfile_in(dir)
        .map(drop)
        .map_err(|cause| ExperimentError::CannotWrite { path: dir.to_owned(), cause })
}
