//! The report for people: `table.txt`. It has the same headings for every experiment.

use crate::cpu_list::show_cpus;
use crate::report::setting::SIMULATED;
use crate::report::types::{NotJudged, Report, Row};
use crate::report::{comparison, wobble};

/// The headings of every table, in order. A part without content has one line.
pub const HEADINGS: [&str; 6] =
    ["Shares", "Comparisons", "Not judged", "Wobble", "Checks", "Notes"];

/// Returns the table of a report.
pub(crate) fn table(title: &str, report: &Report) -> String {
    let mut text = match report.paper.as_str() {
        "" => format!("{title}\n"),
        paper => format!("{title} ({paper})\n"),
    };
    text += &format!("{}\n", circumstances(report));
    let checks = report.checks.iter();
    let checks =
        checks.map(|it| format!("{}: {}", if it.ok { "held" } else { "NOT HELD" }, it.what));
    let parts = [
        shares(&report.rows),
        lines_of(&comparison::table(&report.comparisons)),
        not_judged(&report.not_judged),
        lines_of(&wobble::table(&report.wobble)),
        checks.collect(),
        report.notes.clone(),
    ];
    for (heading, lines) in HEADINGS.into_iter().zip(parts) {
        text += &match lines.is_empty() {
            true => format!("\n{heading}: none\n"),
            false => format!("\n{heading}\n{}\n", lines.join("\n")),
        };
    }
    text += &format!(
        "\ndefault: {}\nunits: {}\nbound: {}\n{}\n",
        report.kernel_default,
        report.units,
        report.bound_formula,
        verdict(report)
    );
    text
}

/// Returns the line on how the report came to be.
fn circumstances(report: &Report) -> String {
    let Report { policy, enforcer, seconds, seed, .. } = report;
    match enforcer.as_str() {
        SIMULATED => format!("simulated: {seconds} s of virtual time a run, seed {seed}; {policy}"),
        _ => format!(
            "{policy} policy, {enforcer} enforcer, quantum {} ms, CPUs {}, {seconds} s, seed {seed}",
            report.quantum_ns / 1_000_000,
            show_cpus(&report.machine.cpus),
        ),
    }
}

fn lines_of(text: &str) -> Vec<String> {
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn percent(part: f64) -> String {
    format!("{:.2} %", part * 100.0)
}

fn shares(rows: &[Row]) -> Vec<String> {
    let width = rows.iter().map(|row| row.client.chars().count()).max().unwrap_or(0).max(6);
    let or_none = |part: Option<f64>| part.map_or("-".to_owned(), percent);
    let mut lines = Vec::new();
    if !rows.is_empty() {
        lines.push(format!(
            "{:<width$}  {:>9}  {:>9}  {:>8}  {:>8}  {:>9}  {:>8}",
            "client", "promised", "allot", "error", "bound", "default", "error"
        ));
    }
    lines.extend(rows.iter().map(|row| {
        let line = format!(
            "{:<width$}  {:>9}  {:>9}  {:>8}  {:>8}  {:>9}  {:>8}  {}",
            row.client,
            percent(row.promised),
            percent(row.measured),
            percent(row.error),
            percent(row.bound),
            or_none(row.default_measured),
            or_none(row.default_error),
            if row.error <= row.bound { "" } else { "BEYOND" }
        );
        line.trim_end().to_owned()
    }));
    lines
}

fn not_judged(rows: &[NotJudged]) -> Vec<String> {
    let width = rows.iter().map(|row| row.client.chars().count()).max().unwrap_or(0);
    let line = |row: &NotJudged| {
        format!(
            "{:<width$}  {:>9}  {:>9}  {:>8}  {}",
            row.client,
            percent(row.promised),
            percent(row.measured),
            percent(row.error),
            row.by
        )
    };
    rows.iter().map(line).collect()
}

/// Returns the last line.
fn verdict(report: &Report) -> String {
    let mut verdict = if report.ok { "ok" } else { "NOT OK" }.to_owned();
    if !report.rows.is_empty() {
        verdict += &format!(": the greatest error is {}", percent(report.max_error));
    }
    if !report.rows.is_empty() && report.enforcer != SIMULATED {
        verdict += &format!("; allotd used {} of one CPU", percent(report.allotd_cpu));
    }
    verdict
}
