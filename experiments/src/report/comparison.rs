//! Quantities that are no shares, under allot and under the kernel's default.

use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// One quantity, under allot and the kernel's default in the same run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The thing measured: a line of the table.
    pub what: String,
    /// The quantity: a column of the table.
    pub quantity: String,
    /// Its unit.
    pub unit: String,
    /// The value that the tickets promise, or arithmetic expects; none where they say nothing.
    pub promised: Option<f64>,
    /// The value under allot; none where there was nothing to measure.
    pub allot: Option<f64>,
    /// The value under allot without ticket transfers, where that was tried.
    pub allot_without_transfers: Option<f64>,
    /// The value under the kernel's default.
    pub default: Option<f64>,
    /// The paper's value, in words.
    pub paper: Option<String>,
}

impl Comparison {
    /// Creates a comparison without values.
    pub fn new(what: &str, quantity: &str, unit: &str) -> Comparison {
        Comparison {
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

    /// Sets the measured values, allot's first.
    pub fn measured(mut self, allot: Option<f64>, default: Option<f64>) -> Comparison {
        (self.allot, self.default) = (allot, default);
        self
    }

    /// Sets the promised value.
    pub fn promising(mut self, promised: Option<f64>) -> Comparison {
        self.promised = promised;
        self
    }

    /// Sets the paper's value.
    pub fn paper(mut self, paper: &str) -> Comparison {
        self.paper = Some(paper.to_owned());
        self
    }
}

/// A column of the table: its heading, its label, and a cell for each thing.
type Column = Vec<String>;

/// A value of a comparison.
type Value = fn(&Comparison) -> Option<f64>;

/// The columns of a quantity, as far as any line has them.
const VALUES: [(&str, Value); 4] = [
    ("promised", |comparison| comparison.promised),
    ("allot", |comparison| comparison.allot),
    ("no transfer", |comparison| comparison.allot_without_transfers),
    ("default", |comparison| comparison.default),
];

/// Returns a table: a line for each thing, a group of columns for each quantity, allot beside the
/// kernel's default.
pub(crate) fn table(comparisons: &[Comparison]) -> String {
    let mut things: Vec<&str> = Vec::new();
    let mut quantities: Vec<(&str, &str)> = Vec::new();
    for comparison in comparisons {
        if !things.contains(&comparison.what.as_str()) {
            things.push(&comparison.what);
        }
        let quantity = (comparison.quantity.as_str(), comparison.unit.as_str());
        if !quantities.contains(&quantity) {
            quantities.push(quantity);
        }
    }
    let mut columns: Vec<Column> = vec![vec![String::new(), String::new()]];
    columns[0].extend(things.iter().map(|thing| (*thing).to_owned()));
    for (quantity, unit) in quantities {
        let of = |thing: &&str| {
            comparisons.iter().find(|it| it.what == *thing && it.quantity == quantity)
        };
        let lines: Vec<Option<&Comparison>> = things.iter().map(of).collect();
        columns.extend(columns_of(quantity, unit, &lines));
    }
    render(&columns)
}

/// Returns the columns of one quantity.
fn columns_of(quantity: &str, unit: &str, lines: &[Option<&Comparison>]) -> Vec<Column> {
    let mut heading = match unit {
        "" => quantity.to_owned(),
        unit => format!("{quantity} ({unit})"),
    };
    let mut columns = Vec::new();
    for (label, value) in VALUES {
        let cells: Vec<Option<f64>> = lines.iter().map(|line| line.and_then(value)).collect();
        if cells.iter().any(Option::is_some) {
            let mut column = vec![std::mem::take(&mut heading), label.to_owned()];
            column.extend(cells.iter().map(|cell| cell.map_or("-".to_owned(), number)));
            columns.push(column);
        }
    }
    let words: Vec<Option<String>> =
        lines.iter().map(|line| line.and_then(|it| it.paper.clone())).collect();
    if words.iter().any(Option::is_some) {
        let mut column = vec![String::new(), "paper".to_owned()];
        column.extend(words.into_iter().map(|word| word.unwrap_or("-".to_owned())));
        columns.push(column);
    }
    columns
}

/// Aligns columns.
fn render(columns: &[Column]) -> String {
    let mut text = String::new();
    for line in 0..columns[0].len() {
        let mut written = String::new();
        for (place, column) in columns.iter().enumerate() {
            let (width, cell) = (width_of(column), &column[line]);
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

/// Returns a column's width. Its heading may reach over the quantity's other columns, and does not
/// count.
fn width_of(column: &[String]) -> usize {
    column[1..].iter().map(|cell| cell.chars().count()).max().unwrap_or(0)
}

/// Writes a number with three digits that count.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_for_each_thing() {
        let comparisons = [
            Comparison::new("X, burn", "p99", "ms")
                .measured(Some(1.234), Some(123.4))
                .paper("worse"),
            Comparison::new("audio, burn", "p99", "ms").measured(None, Some(0.01)),
        ];
        let table = table(&comparisons);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 4, "{table}");
        assert!(lines[0].contains("p99 (ms)"), "{table}");
        assert!(lines[1].contains("allot") && lines[1].contains("default"), "{table}");
        assert!(lines[2].contains("1.23") && lines[2].ends_with("worse"), "{table}");
        assert!(lines[3].contains('-') && lines[3].contains("0.010"), "{table}");
    }
}
