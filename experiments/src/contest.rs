//! Quantities that are not shares of the CPU, under allot and under the kernel's default.

use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// One quantity, under allot and the kernel's default in the same run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contest {
    /// Of what: a line of the table.
    pub what: String,
    /// Which quantity: a column of the table.
    pub quantity: String,
    /// Its unit.
    pub unit: String,
    /// What the tickets promise, or arithmetic expects; none where they say nothing about it.
    pub promised: Option<f64>,
    /// What it was under allot; none where there was nothing to measure.
    pub allot: Option<f64>,
    /// What it was under allot without ticket transfers, where that was tried.
    pub allot_without_transfers: Option<f64>,
    /// What it was under the kernel's default.
    pub default: Option<f64>,
    /// What the paper has for it, in words.
    pub paper: Option<String>,
}

impl Contest {
    /// A quantity without promise and paper.
    pub fn new(what: &str, quantity: &str, unit: &str) -> Contest {
        Contest {
            what: what.to_owned(),
            quantity: quantity.to_owned(),
            unit: unit.to_owned(),
            promised: None,
            allot: None,
            allot_without_transfers: None,
            default: None,
            paper: None,
        }
    }

    /// What was measured, allot first.
    pub fn measured(mut self, allot: Option<f64>, default: Option<f64>) -> Contest {
        (self.allot, self.default) = (allot, default);
        self
    }

    /// What is promised.
    pub fn promising(mut self, promised: Option<f64>) -> Contest {
        self.promised = promised;
        self
    }

    /// What the paper has.
    pub fn paper(mut self, paper: &str) -> Contest {
        self.paper = Some(paper.to_owned());
        self
    }
}

/// A table: a line for each thing, a group of columns for each quantity, allot beside the
/// kernel's default.
pub(crate) fn table(contests: &[Contest]) -> String {
    let mut things: Vec<&str> = Vec::new();
    let mut quantities: Vec<(&str, &str)> = Vec::new();
    for contest in contests {
        if !things.contains(&contest.what.as_str()) {
            things.push(&contest.what);
        }
        let quantity = (contest.quantity.as_str(), contest.unit.as_str());
        if !quantities.contains(&quantity) {
            quantities.push(quantity);
        }
    }
    let find = |what: &str, quantity: &(&str, &str)| {
        let is_it = |contest: &&Contest| contest.what == what && contest.quantity == quantity.0;
        contests.iter().find(is_it)
    };
    // The columns of a quantity: those that any line has.
    type Of = fn(&Contest) -> Option<f64>;
    let all: [(&str, Of); 4] = [
        ("promised", |contest| contest.promised),
        ("allot", |contest| contest.allot),
        ("no transfer", |contest| contest.allot_without_transfers),
        ("default", |contest| contest.default),
    ];
    let mut columns: Vec<Vec<String>> = vec![vec![String::new(), String::new()]];
    columns[0].extend(things.iter().map(|thing| (*thing).to_owned()));
    for quantity in &quantities {
        let name = match quantity.1 {
            "" => quantity.0.to_owned(),
            unit => format!("{} ({unit})", quantity.0),
        };
        let mut first = true;
        for (label, of) in &all {
            let cells = things.iter().map(|thing| find(thing, quantity).and_then(of));
            let cells: Vec<Option<f64>> = cells.collect();
            if cells.iter().all(Option::is_none) {
                continue;
            }
            let head = if first { name.clone() } else { String::new() };
            first = false;
            let mut column = vec![head, (*label).to_owned()];
            column.extend(cells.iter().map(|cell| cell.map_or("-".to_owned(), number)));
            columns.push(column);
        }
        let words = things.iter().map(|thing| find(thing, quantity)?.paper.clone());
        let words: Vec<Option<String>> = words.collect();
        if words.iter().any(Option::is_some) {
            let mut column = vec![String::new(), "paper".to_owned()];
            column.extend(words.into_iter().map(|word| word.unwrap_or("-".to_owned())));
            columns.push(column);
        }
    }
    let mut text = String::new();
    for line in 0..columns[0].len() {
        let mut written = String::new();
        for (place, column) in columns.iter().enumerate() {
            // A quantity's name may reach over its columns: it counts for none of them.
            let width = column[1..].iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
            let cell = &column[line];
            match (place, line) {
                (0, _) => {
                    let _ = write!(written, "{cell:<width$}");
                }
                (_, 0) => {
                    let begin: usize = columns[..place].iter().map(|before| width_of(before)).sum();
                    let begin = begin + 2 * place;
                    if !cell.is_empty() {
                        // One blank at least after the name before.
                        let begin = begin.max(written.chars().count() + 1);
                        let _ = write!(written, "{:<1$}", "", begin - written.chars().count());
                        written.push_str(cell);
                    }
                }
                _ => {
                    let _ = write!(written, "  {cell:>width$}");
                }
            }
        }
        text.push_str(written.trim_end());
        text.push('\n');
    }
    text
}

fn width_of(column: &[String]) -> usize {
    column[1..].iter().map(|cell| cell.chars().count()).max().unwrap_or(0)
}

/// Three digits that count.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// The mean; none of nothing.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The least value that so many parts (0 to 1) of all do not exceed; none of nothing.
pub(crate) fn percentile(values: &[f64], part: f64) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let place = (values.len() as f64 * part).ceil() as usize;
    values.get(place.clamp(1, values.len().max(1)) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_by_hand() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 0.99), Some(198.0));
        assert_eq!(percentile(&values, 1.0), Some(200.0));
        assert_eq!(percentile(&[7.0], 0.5), Some(7.0));
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(mean(&[1.0, 3.0]), Some(2.0));
        assert_eq!(mean(&[]), None);
    }

    #[test]
    fn a_table_has_a_line_for_each_thing() {
        let contests = [
            Contest::new("X, burn", "p99", "ms").measured(Some(1.234), Some(123.4)).paper("worse"),
            Contest::new("audio, burn", "p99", "ms").measured(None, Some(0.01)),
        ];
        let table = table(&contests);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 4, "{table}");
        assert!(lines[0].contains("p99 (ms)"), "{table}");
        assert!(lines[1].contains("allot") && lines[1].contains("default"), "{table}");
        assert!(lines[2].contains("1.23") && lines[2].ends_with("worse"), "{table}");
        assert!(lines[3].contains('-') && lines[3].contains("0.010"), "{table}");
    }
}
