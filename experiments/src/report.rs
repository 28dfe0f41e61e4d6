//! What an experiment found: a report for programs, a table and plots for people.

use crate::bound::{Drawing, bound, formula};
use crate::daemon::Daemon;
use crate::session::{Bench, Window, shares};
use crate::{Contest, ExperimentError, ExperimentInfo, Machine, Policy, Wobble};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Between samples where nothing says how long a quantum is.
const QUANTUM_MS: u64 = 10;
/// By how much allotd's own promise may differ from the graph's: it takes a moment to notice who
/// woke.
const PROMISE_TOLERANCE: f64 = 0.01;

/// A client's share. All shares are parts of the CPU time that the clients had together, 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The client or user, with the phase where there are several.
    pub client: String,
    /// What the funding graph promises, by exact fractions.
    pub promised: f64,
    /// What it got.
    pub measured: f64,
    /// How far apart these are, never negative.
    pub error: f64,
    /// How far apart they may be.
    pub bound: f64,
    /// What allotd says that it promised.
    pub promised_by_allotd: f64,
    /// CPU time, in seconds.
    pub used_seconds: f64,
    /// How many draws took place.
    pub draws: u64,
    /// How many whole draws they were worth: see [`Report::bound_formula`].
    pub draws_worth: f64,
    /// What it got under the kernel's default in the same run; none where that was not tried.
    pub default_measured: Option<f64>,
    /// How far that is from what tickets promise.
    pub default_error: Option<f64>,
}

/// A share under another rule than the two of a [`Row`], in the same run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// As in [`Row::client`].
    pub client: String,
    /// Who shared the CPU.
    pub by: String,
    /// What tickets would promise.
    pub promised: f64,
    /// What it got.
    pub measured: f64,
    /// How far apart these are, never negative.
    pub error: f64,
}

/// Something besides shares that must hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What.
    pub what: String,
    /// Whether it held.
    pub ok: bool,
}

/// The report for programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The experiment's.
    pub name: String,
    /// What it repeats.
    pub paper: String,
    /// Where it ran.
    pub machine: Machine,
    /// Who enforced the tickets.
    pub enforcer: String,
    /// Who chose the winners.
    pub policy: String,
    /// Of the policy's random numbers.
    pub seed: u64,
    /// How long it ran.
    pub seconds: f64,
    /// Promised and measured.
    pub rows: Vec<Row>,
    /// The greatest error.
    pub max_error: f64,
    /// The greatest of the rows' bounds; each row is held to its own.
    pub bound: f64,
    /// Whether each row is within its bound and each check held.
    pub ok: bool,
    /// How the bounds are derived.
    pub bound_formula: String,
    /// What the numbers are.
    pub units: String,
    /// Nanoseconds between draws.
    pub quantum_ns: u64,
    /// What else had to hold.
    pub checks: Vec<Check>,
    /// What the kernel's default is here.
    pub kernel_default: String,
    /// Other rules beside it, not judged.
    pub compared: Vec<Compared>,
    /// Quantities that are no shares.
    pub contests: Vec<Contest>,
    /// How even the shares were over short times.
    pub wobble: Vec<Wobble>,
    /// CPU time of allotd itself, as a part of one CPU.
    pub allotd_cpu: f64,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// All that an experiment gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// For programs.
    pub report: Report,
    /// For people.
    pub table: String,
    /// Plots and logs: file names, and their contents.
    pub files: Vec<(String, String)>,
}

impl Outcome {
    /// Writes `report.json`, `table.txt` and the plots into a directory, which is made if need be.
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

/// Refuses a directory before the experiment takes its time.
pub(crate) fn check_writable(dir: &Path) -> Result<(), ExperimentError> {
    make(dir)?;
    tempfile::tempfile_in(dir)
        .map(drop)
        .map_err(|cause| ExperimentError::CannotWrite { path: dir.to_owned(), cause })
}

/// Collects what the parts of an experiment gave.
pub(crate) struct Findings {
    pub rows: Vec<Row>,
    pub compared: Vec<Compared>,
    pub checks: Vec<Check>,
    pub contests: Vec<Contest>,
    pub wobble: Vec<Wobble>,
    pub notes: Vec<String>,
    pub policy: Policy,
    enforcer: String,
    pub drawing: Drawing,
    quantum_ns: u64,
    seed: u64,
    daemon_ns: u64,
    managed_seconds: f64,
}

impl Findings {
    pub fn new(bench: &Bench, daemon: &Daemon) -> Result<Findings, ExperimentError> {
        let enforcer = daemon.enforcer();
        // Somebody else's allotd has the policy that it has; where weights alone are set it may
        // have none.
        let policy = match enforcer.name.as_str() {
            "cgroup" => bench.options.policy,
            _ => enforcer.policy.parse()?,
        };
        let mut notes = Vec::new();
        let quota = bench.machine.cpu_quota.filter(|quota| *quota < bench.cpus.len() as f64);
        if let Some(quota) = quota {
            notes.push(format!(
                "the control group may use {quota} CPUs of the {} in use: whoever runs when it is \
                 throttled pays for it",
                bench.cpus.len()
            ));
        }
        let (cpus, all) = (bench.cpus.len(), bench.machine.cpus_online);
        if enforcer.name == "sched-ext" && cpus < all {
            notes.push(format!(
                "the processes may run on {cpus} of {all} CPUs only: such threads the scheduler                  orders by start-time fair queueing, whatever the policy; where the machine has no                  other CPUs, the policy does"
            ));
        }
        Ok(Findings {
            rows: Vec::new(),
            compared: Vec::new(),
            checks: Vec::new(),
            contests: Vec::new(),
            wobble: Vec::new(),
            notes,
            policy,
            drawing: match (policy, enforcer.name.as_str()) {
                (Policy::Lottery, "sched-ext") => Drawing::EachCpu,
                (Policy::Lottery, "user-level") => Drawing::AllCpus,
                _ => Drawing::None,
            },
            enforcer: enforcer.name.clone(),
            // Weights have no quantum.
            quantum_ns: match enforcer.quantum_ns {
                0 => bench.options.quantum_ms.unwrap_or(QUANTUM_MS) * 1_000_000,
                quantum_ns => quantum_ns,
            },
            seed: enforcer.seed,
            daemon_ns: 0,
            managed_seconds: 0.0,
        })
    }

    /// Between draws.
    pub fn quantum(&self) -> Duration {
        Duration::from_nanos(self.quantum_ns)
    }

    /// Adds what was measured in a part: a row for each name and phase. `names` says per client
    /// whose row it belongs to; `label` is put into the rows' names where it is not empty. What the
    /// kernel's default did in its slices is put beside.
    pub fn add(&mut self, label: &str, names: &[String], windows: &[Window]) {
        for window in merged(windows) {
            let label = joined(label, &window.phase);
            if !window.managed {
                self.set_default(&label, names, &window);
                continue;
            }
            let seats = window.expected.seats();
            let busy: f64 = seats.iter().sum();
            let draws_worth = window.draws as f64 / window.dispersion;
            let said = shares(&window.promised_ns);
            for share in shares_of(&label, names, &window) {
                let chances: Vec<f64> = share.clients.iter().map(|i| seats[*i]).collect();
                let used: u64 = share.clients.iter().map(|i| window.used_ns[*i]).sum();
                self.rows.push(Row {
                    client: share.title,
                    promised: share.promised,
                    measured: share.measured,
                    error: (share.measured - share.promised).abs(),
                    bound: bound(self.policy, self.drawing, &chances, busy, draws_worth),
                    promised_by_allotd: share.clients.iter().map(|i| said[*i]).sum(),
                    used_seconds: used as f64 / 1e9,
                    draws: window.draws,
                    draws_worth,
                    default_measured: None,
                    default_error: None,
                });
            }
            self.note(&label, &window, busy);
        }
    }

    /// Puts what the kernel's default did, in a part of its own, beside what allot did.
    pub fn add_default(&mut self, label: &str, names: &[String], windows: &[Window]) {
        for window in merged(windows) {
            self.set_default(&joined(label, &window.phase), names, &window);
        }
    }

    fn set_default(&mut self, label: &str, names: &[String], window: &Window) {
        for share in shares_of(label, names, window) {
            let row = self.rows.iter_mut().find(|row| row.client == share.title);
            let row = row.expect("allot comes first");
            row.default_measured = Some(share.measured);
            row.default_error = Some((share.measured - share.promised).abs());
        }
    }

    /// Puts a part beside the others that is not judged: another policy, or nice values.
    pub fn compare(&mut self, label: &str, names: &[String], windows: &[Window], by: &str) {
        for window in merged(windows) {
            self.put_beside(&joined(label, &window.phase), names, &window, by);
        }
    }

    fn put_beside(&mut self, label: &str, names: &[String], window: &Window, by: &str) {
        let beside = shares_of(label, names, window).into_iter().map(|share| Compared {
            client: share.title,
            by: by.to_owned(),
            promised: share.promised,
            measured: share.measured,
            error: (share.measured - share.promised).abs(),
        });
        self.compared.extend(beside);
    }

    fn note(&mut self, label: &str, window: &Window, busy: f64) {
        self.daemon_ns += window.daemon_ns;
        self.managed_seconds += window.seconds;
        let where_ = if label.is_empty() { String::new() } else { format!("{label}: ") };
        let used: u64 = window.used_ns.iter().sum();
        let got = used as f64 / 1e9 / (window.seconds * busy);
        if got < 0.9 {
            let got = got * 100.0;
            let what =
                format!("{where_}the clients had {got:.0} % of the CPUs; others had the rest");
            self.notes.push(what);
        }
        if window.late * 20 > window.draws {
            let (late, draws) = (window.late, window.draws);
            let what =
                format!("{where_}{late} of {draws} draws came late by half a quantum or more");
            self.notes.push(what);
        }
    }

    /// The end: all judged, and the table made.
    pub fn finish(
        mut self,
        bench: &Bench,
        info: &ExperimentInfo,
        title: &str,
        paper: &str,
        files: Vec<(String, String)>,
    ) -> Outcome {
        let off = |row: &Row| (row.promised_by_allotd - row.promised).abs();
        let worst = self.rows.iter().max_by(|a, b| off(a).total_cmp(&off(b)));
        if let Some(worst) = worst {
            let ok = off(worst) <= PROMISE_TOLERANCE;
            let what = format!(
                "allotd promises what the graph promises (within 1 percentage point; farthest: {}, \
                 {:.2} and {:.2} %)",
                worst.client,
                worst.promised_by_allotd * 100.0,
                worst.promised * 100.0
            );
            self.checks.push(Check { what, ok });
        }
        let within = self.rows.iter().all(|row| row.error <= row.bound);
        let judged = !self.rows.is_empty() || !self.checks.is_empty();
        let ok = within && judged && self.checks.iter().all(|check| check.ok);
        let greatest = |of: fn(&Row) -> f64| self.rows.iter().map(of).fold(0.0, f64::max);
        let report = Report {
            name: info.name.to_owned(),
            paper: paper.to_owned(),
            machine: bench.machine.clone(),
            enforcer: self.enforcer,
            policy: self.policy.to_string(),
            seed: self.seed,
            seconds: bench.total,
            max_error: greatest(|row| row.error),
            bound: greatest(|row| row.bound),
            ok,
            bound_formula: match self.rows.is_empty() {
                true => "the checks say what must hold".to_owned(),
                false => formula(self.policy, self.drawing, bench.cpus.len()),
            },
            kernel_default: bench.kernel.describe(),
            units: "shares are parts (0 to 1) of the CPU time of all clients together; the first \
                    0.5 s of each phase (a tenth, where that is less) is not measured"
                .to_owned(),
            quantum_ns: self.quantum_ns,
            checks: self.checks,
            compared: self.compared,
            contests: self.contests,
            wobble: self.wobble,
            allotd_cpu: self.daemon_ns as f64 / 1e9 / self.managed_seconds.max(f64::EPSILON),
            notes: self.notes,
            rows: self.rows,
        };
        let table = table(&report, title);
        Outcome { report, table, files }
    }
}

/// The share of one name in one window.
struct Share {
    title: String,
    clients: Vec<usize>,
    promised: f64,
    measured: f64,
}

fn joined(label: &str, phase: &str) -> String {
    let both = [label, phase];
    both.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

fn shares_of(label: &str, names: &[String], window: &Window) -> Vec<Share> {
    let promised = window.expected.shares();
    let measured = shares(&window.used_ns);
    let named = groups(names).into_iter();
    named
        .map(|(name, clients)| {
            let sum = |parts: &[f64]| clients.iter().map(|i| parts[*i]).sum::<f64>();
            let title = if label.is_empty() { name } else { format!("{name} ({label})") };
            Share { title, promised: sum(&promised), measured: sum(&measured), clients }
        })
        .collect()
}

/// Windows of one phase under one rule are one measurement.
fn merged(windows: &[Window]) -> Vec<Window> {
    let mut merged: Vec<Window> = Vec::new();
    for window in windows {
        let same =
            |other: &&mut Window| other.phase == window.phase && other.managed == window.managed;
        let Some(into) = merged.iter_mut().find(same) else {
            merged.push(window.clone());
            continue;
        };
        let add = |into: &mut [u64], from: &[u64]| {
            into.iter_mut().zip(from).for_each(|(into, from)| *into += from);
        };
        add(&mut into.used_ns, &window.used_ns);
        add(&mut into.promised_ns, &window.promised_ns);
        let (old, new) = (into.seconds, window.seconds);
        into.dispersion = (into.dispersion * old + window.dispersion * new) / (old + new);
        into.seconds += window.seconds;
        into.draws += window.draws;
        into.late += window.late;
        into.daemon_ns += window.daemon_ns;
    }
    merged
}

/// Which clients belong to which name, in the order in which the names come.
fn groups(names: &[String]) -> Vec<(String, Vec<usize>)> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for (client, name) in names.iter().enumerate() {
        let place = *places.entry(name).or_insert_with(|| {
            groups.push((name.clone(), Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(client);
    }
    groups
}

/// What else was checked, what to know, and what the default is: lines of a table for people.
pub(crate) fn findings(report: &Report) -> impl Iterator<Item = String> {
    let checks = report
        .checks
        .iter()
        .map(|check| format!("{}: {}", if check.ok { "held" } else { "NOT HELD" }, check.what));
    let notes = report.notes.iter().map(|note| format!("note: {note}"));
    checks.chain(notes).chain([format!("default: {}", report.kernel_default)])
}

fn table(report: &Report, title: &str) -> String {
    let mut text = String::new();
    let machine = &report.machine;
    let mut line = |words: String| {
        text.push_str(words.trim_end());
        text.push('\n');
    };
    line(match report.paper.as_str() {
        "" => title.to_owned(),
        paper => format!("{title} ({paper})"),
    });
    line(format!(
        "{} policy, {} enforcer, quantum {} ms, CPUs {}, {} s, seed {}",
        report.policy,
        report.enforcer,
        report.quantum_ns / 1_000_000,
        crate::show_cpus(&machine.cpus),
        report.seconds,
        report.seed
    ));
    line(String::new());
    let clients = report.rows.iter().map(|row| row.client.chars().count());
    let compared = report.compared.iter().map(|row| row.client.chars().count());
    let width = clients.chain(compared).max().unwrap_or(0).max(6);
    let percent = |part: f64| format!("{:.2} %", part * 100.0);
    if !report.rows.is_empty() {
        line(format!(
            "{:<width$}  {:>9}  {:>9}  {:>8}  {:>8}  {:>9}  {:>8}",
            "client", "promised", "allot", "error", "bound", "default", "error"
        ));
    }
    for row in &report.rows {
        let or_none = |part: Option<f64>| part.map_or("-".to_owned(), percent);
        line(format!(
            "{:<width$}  {:>9}  {:>9}  {:>8}  {:>8}  {:>9}  {:>8}  {}",
            row.client,
            percent(row.promised),
            percent(row.measured),
            percent(row.error),
            percent(row.bound),
            or_none(row.default_measured),
            or_none(row.default_error),
            if row.error <= row.bound { "" } else { "BEYOND" }
        ));
    }
    if !report.contests.is_empty() {
        if !report.rows.is_empty() {
            line(String::new());
        }
        crate::contest::table(&report.contests).lines().for_each(|words| line(words.to_owned()));
    }
    if !report.compared.is_empty() {
        line(String::new());
        line("Beside it in the same run, not judged:".to_owned());
        for row in &report.compared {
            line(format!(
                "{:<width$}  {:>9}  {:>9}  {:>8}  {}",
                row.client,
                percent(row.promised),
                percent(row.measured),
                percent(row.error),
                row.by
            ));
        }
    }
    if !report.wobble.is_empty() {
        line(String::new());
        crate::wobble::table(&report.wobble).lines().for_each(|words| line(words.to_owned()));
    }
    line(String::new());
    findings(report).for_each(&mut line);
    line(format!("bound: {}", report.bound_formula));
    let verdict = if report.ok { "ok" } else { "NOT OK" };
    line(match report.rows.is_empty() {
        true => verdict.to_owned(),
        false => format!(
            "{verdict}: the greatest error is {}; allotd used {} of one CPU",
            percent(report.max_error),
            percent(report.allotd_cpu)
        ),
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expected::expected;

    fn window(managed: bool, used: [u64; 3]) -> Window {
        let ticket = |holder: &str, amount| {
            ((holder.to_owned(), "base".to_owned(), crate::timeline::Kind::Soft), amount)
        };
        let tickets = [ticket("a", 2), ticket("b", 1), ticket("c", 1)].into();
        Window {
            phase: "half".to_owned(),
            managed,
            seconds: 4.0,
            expected: expected(&tickets, &[("a", true), ("b", true), ("c", true)], 1),
            used_ns: used.to_vec(),
            promised_ns: vec![2, 1, 1],
            draws: 100,
            dispersion: 1.0,
            late: 0,
            daemon_ns: 0,
        }
    }

    #[test]
    fn windows_of_one_rule_are_one_and_clients_of_one_name_too() {
        let windows = [window(true, [4, 1, 1]), window(false, [1, 1, 1]), window(true, [4, 3, 3])];
        let merged = merged(&windows);
        assert_eq!(merged.len(), 2);
        assert_eq!((merged[0].used_ns.as_slice(), merged[0].draws), (&[8, 4, 4][..], 200));
        let names = ["bill", "paul", "paul"].map(str::to_owned);
        assert_eq!(groups(&names), [("bill".to_owned(), vec![0]), ("paul".to_owned(), vec![1, 2])]);
    }
}
