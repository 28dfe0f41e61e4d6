//! Text on a terminal: colours, widths, bars, numbers, tables.

use std::io::IsTerminal;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The way to colour text.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    colour: bool,
}

/// The meaning of a piece of text, which has a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Ordinary text.
    Plain,
    /// A heading or a name that matters.
    Strong,
    /// Of little interest now.
    Faint,
    /// In order.
    Good,
    /// Worth a look.
    Warning,
    /// Frozen, stopped, wrong.
    Bad,
}

impl Style {
    /// Without colours.
    pub const PLAIN: Style = Style { colour: false };
    /// With colours.
    pub const COLOURED: Style = Style { colour: true };

    /// The style of standard output: colours where it is a terminal, is not a dumb one, and `NO_COLOR` is
    /// not set.
    pub fn of_stdout() -> Style {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Style { colour: std::io::stdout().is_terminal() && !set("NO_COLOR") && !dumb }
    }

    /// Colours a text by its tone.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Strong => "1",
            Tone::Faint => "2",
            Tone::Good => "32",
            Tone::Warning => "33",
            Tone::Bad => "31",
        };
        if self.colour && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Returns a name that somebody else chose, without characters that move a terminal's cursor or hide
/// the text behind them.
pub fn clean(name: &str) -> String {
    name.chars().map(|c| if deceives(c) { '?' } else { c }).collect()
}

/// True for what moves a terminal's cursor (C0 and C1), and for marks that reorder or join the text around them, or
/// carry text that nobody sees (tags, variation selectors).
pub(crate) fn deceives(c: char) -> bool {
    c.width().is_none()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// The number of columns that a text takes.
pub fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Fits a text into exactly that many columns: cuts it and marks the cut, or fills it up on the right.
pub fn fit(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return pad(text, columns);
    }
    let mut cut = String::new();
    let mut used = 0;
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide + 1 > columns {
            break;
        }
        cut.push(c);
        used += wide;
    }
    if columns > 0 {
        cut.push('…');
    }
    pad(&cut, columns)
}

/// Fills a text up with blanks on the right.
pub fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Fills a text up with blanks on the left.
pub fn pad_left(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Formats a share, 0 to 1, as in `12.5 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Draws a bar that fills that part of its columns, in eighths.
pub fn bar(filled: f64, columns: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let filled = if filled.is_finite() { filled.clamp(0.0, 1.0) } else { 0.0 };
    let eighths = (filled * columns as f64 * 8.0).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// Formats a time, as in `10 ms`.
pub fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", trimmed(ns as f64 / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", trimmed(ns as f64 / 1e6)),
        _ => format!("{} s", trimmed(ns as f64 / 1e9)),
    }
}

fn trimmed(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// A table for people: headings, and rows whose cells have tones; columns as wide as they need
/// to be; numbers (columns marked so) to the right.
pub struct Table {
    headings: Vec<(&'static str, bool)>,
    rows: Vec<Vec<(Tone, String)>>,
}

impl Table {
    /// A table with these headings; `true` marks a column of numbers.
    pub fn new(headings: &[(&'static str, bool)]) -> Table {
        Table { headings: headings.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; missing cells are empty.
    pub fn row(&mut self, cells: Vec<(Tone, String)>) {
        self.rows.push(cells);
    }

    /// Renders the table, without blanks at lines' ends.
    pub fn render(&self, style: Style) -> String {
        let columns: Vec<usize> = (0..self.headings.len())
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                let widest = cells.map(|(_, text)| width(text)).max().unwrap_or(0);
                widest.max(width(self.headings[column].0))
            })
            .collect();
        let headings: Vec<(Tone, String)> =
            self.headings.iter().map(|(text, _)| (Tone::Faint, (*text).to_owned())).collect();
        let mut out = String::new();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let mut line = String::new();
            let mut owed = 0;
            for (column, (tone, text)) in row.iter().enumerate() {
                let missing = columns[column] - width(text);
                let right = self.headings[column].1;
                if !text.is_empty() {
                    line.push_str(&" ".repeat(owed + if right { missing } else { 0 }));
                    line.push_str(&style.paint(*tone, text));
                    owed = if right { 0 } else { missing };
                } else {
                    owed += missing;
                }
                owed += 2;
            }
            out.push_str(&line);
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_move_the_cursor() {
        assert_eq!(clean("a\x1b[2Jb\nc\u{202e}"), "a?[2Jb?c?");
        assert_eq!(clean("grüße"), "grüße");
    }

    #[test]
    fn fitting_counts_columns() {
        assert_eq!(fit("abc", 5), "abc  ");
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(width(&fit("漢字漢字", 4)), 4);
        assert_eq!(fit("abc", 0), "");
    }

    #[test]
    fn bars() {
        assert_eq!(bar(0.5, 4), "██");
        assert_eq!(bar(1.0 / 16.0, 2), "▏");
        assert_eq!(bar(7.0, 3), "███");
        assert_eq!(bar(f64::NAN, 3), "");
    }

    #[test]
    fn durations() {
        assert_eq!(duration(10_000_000), "10 ms");
        assert_eq!(duration(2_500_000_000), "2.5 s");
        assert_eq!(duration(900), "900 ns");
    }

    #[test]
    fn tables_align() {
        let mut table = Table::new(&[("NAME", false), ("N", true), ("WHY", false)]);
        table.row(vec![
            (Tone::Strong, "ab".into()),
            (Tone::Plain, "1000".into()),
            (Tone::Plain, "x".into()),
        ]);
        table.row(vec![
            (Tone::Plain, "longer".into()),
            (Tone::Plain, "5".into()),
            (Tone::Plain, String::new()),
        ]);
        assert_eq!(
            table.render(Style::PLAIN),
            "NAME       N  WHY\nab      1000  x\nlonger     5\n"
        );
        assert!(table.render(Style::COLOURED).contains("\x1b[1mab\x1b[0m      1000  x\n"));
    }
}
