//! Findings from CPU shares over time.

use crate::report::bound::bound;
use crate::report::findings::Findings;
use crate::report::series::Window;
use crate::report::setting::Selection;
use crate::report::statistics::shares;
use crate::report::types::{NotJudged, Row};
use std::collections::BTreeMap;

/// The most by which allotd's own promise may differ from the graph's: it needs a moment to notice
/// that a client woke.
const PROMISE_TOLERANCE: f64 = 0.01;

impl Findings {
    /// Adds the measurements of a part: a row for each name and phase. `names` has the name of each
    /// client's row; `label` is put into the rows' names where it is not empty. The slices of the
    /// kernel's default are put beside.
    pub fn add_shares(
        &mut self,
        selection: &Selection,
        label: &str,
        names: &[String],
        windows: &[Window],
    ) {
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
                    bound: bound(selection, &chances, busy, draws_worth),
                    promised_by_allotd: share.clients.iter().map(|i| said[*i]).sum(),
                    used_seconds: used as f64 / 1e9,
                    draws: window.draws,
                    draws_worth,
                    default_measured: None,
                    default_error: None,
                });
            }
            self.note_window(&label, &window, busy);
        }
    }

    /// Puts the measurements of the kernel's default, in a part of its own, beside those of allot.
    pub fn add_default_shares(&mut self, label: &str, names: &[String], windows: &[Window]) {
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

    /// Adds a part that is not judged: another policy, or nice values.
    pub fn add_not_judged(&mut self, label: &str, names: &[String], windows: &[Window], by: &str) {
        for window in merged(windows) {
            self.put_beside(&joined(label, &window.phase), names, &window, by);
        }
    }

    fn put_beside(&mut self, label: &str, names: &[String], window: &Window, by: &str) {
        let beside = shares_of(label, names, window).into_iter().map(|share| NotJudged {
            client: share.title,
            by: by.to_owned(),
            promised: share.promised,
            measured: share.measured,
            error: (share.measured - share.promised).abs(),
        });
        self.not_judged.extend(beside);
    }

    fn note_window(&mut self, label: &str, window: &Window, busy: f64) {
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

    /// Checks that allotd promised what the graph promises, where there are rows.
    pub fn check_promises(&mut self) {
        let off = |row: &Row| (row.promised_by_allotd - row.promised).abs();
        let Some(worst) = self.rows.iter().max_by(|a, b| off(a).total_cmp(&off(b))) else { return };
        let ok = off(worst) <= PROMISE_TOLERANCE;
        let what = format!(
            "allotd promises what the graph promises (within 1 percentage point; farthest: {}, \
             {:.2} and {:.2} %)",
            worst.client,
            worst.promised_by_allotd * 100.0,
            worst.promised * 100.0
        );
        self.check(what, ok);
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

/// Merges the windows of one phase under one rule: they are one measurement.
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

/// Returns the clients of each name, in the order in which the names come.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::funding::independent_valuation::expected_shares;
    use crate::funding::phases::FundingKind;

    fn window(managed: bool, used: [u64; 3]) -> Window {
        let ticket = |holder: &str, amount| {
            ((holder.to_owned(), "base".to_owned(), FundingKind::Soft), amount)
        };
        let tickets = [ticket("a", 2), ticket("b", 1), ticket("c", 1)].into();
        Window {
            phase: "half".to_owned(),
            managed,
            seconds: 4.0,
            expected: expected_shares(&tickets, &[("a", true), ("b", true), ("c", true)], 1),
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
