//! The display of a running experiment.

use allot_experiments::Progress;
use command_line::style::{Style, Tone, bar, clean, fit, pad_left, percent, width};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Interval between lines where nothing can be redrawn.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// The widest that anything is drawn.
const COLUMNS_MAX: usize = 100;
/// Marks around what a terminal shall show at once (DEC private mode 2026).
const BEGIN_UPDATE: &str = "\x1b[?2026h";
const END_UPDATE: &str = "\x1b[?2026l";

/// A display that is redrawn in place on a terminal, and elsewhere a line now and then.
pub struct Live {
    name: String,
    out: Box<dyn Write>,
    on_stderr: bool,
    is_terminal: bool,
    style: Style,
    /// Number of lines that stand on the terminal now.
    drawn: usize,
    last_line: Option<Instant>,
}

impl Live {
    /// Creates a display on standard output, or on standard error where the report has that.
    pub fn new(name: &str, on_stderr: bool) -> Live {
        let (out, is_terminal): (Box<dyn Write>, bool) = if on_stderr {
            (Box::new(io::stderr()), io::stderr().is_terminal())
        } else {
            (Box::new(io::stdout()), io::stdout().is_terminal())
        };
        let style = if on_stderr { Style::PLAIN } else { Style::of_stdout() };
        Live {
            name: name.to_owned(),
            out,
            on_stderr,
            is_terminal,
            style,
            drawn: 0,
            last_line: None,
        }
    }

    /// Shows the progress.
    pub fn show(&mut self, progress: &Progress) -> io::Result<()> {
        if !self.is_terminal {
            if self.last_line.is_none_or(|last| last.elapsed() >= LINE_EVERY) {
                self.last_line = Some(Instant::now());
                writeln!(self.out, "{}", one_line(&self.name, progress))?;
                self.out.flush()?;
            }
            return Ok(());
        }
        let (columns, rows) = self.size().unwrap_or((80, 24));
        // The last column stays free: some terminals wrap as soon as it is written.
        let columns = usize::from(columns.max(21) - 1).min(COLUMNS_MAX);
        let lines = frame(&self.name, progress, columns, usize::from(rows), self.style);
        // One write: a terminal that does not know the marks shows no half-drawn frame either.
        let mut text = BEGIN_UPDATE.to_owned() + &self.erasing();
        for line in &lines {
            text += line;
            text.push('\n');
        }
        text += END_UPDATE;
        self.out.write_all(text.as_bytes())?;
        self.drawn = lines.len();
        self.out.flush()
    }

    /// Erases the display, for what follows.
    pub fn clear(&mut self) -> io::Result<()> {
        let erasing = self.erasing();
        self.drawn = 0;
        self.out.write_all(erasing.as_bytes())?;
        self.out.flush()
    }

    /// Moves the cursor to the first line drawn, and clears all from there.
    fn erasing(&self) -> String {
        match self.drawn {
            0 => String::new(),
            lines => format!("\x1b[{lines}F\x1b[J"),
        }
    }

    /// Columns and rows of the terminal.
    fn size(&self) -> Option<(u16, u16)> {
        let size = match self.on_stderr {
            true => rustix::termios::tcgetwinsize(io::stderr().as_fd()),
            false => rustix::termios::tcgetwinsize(io::stdout().as_fd()),
        };
        size.ok().map(|size| (size.ws_col, size.ws_row)).filter(|(columns, _)| *columns > 0)
    }
}

/// Returns one line for a log.
fn one_line(name: &str, progress: &Progress) -> String {
    let rows: Vec<String> = progress
        .rows
        .iter()
        .map(|row| {
            let client = clean(&row.client);
            format!("{client} {:.1}/{:.1}", row.measured * 100.0, row.promised * 100.0)
        })
        .collect();
    let shares = match rows.len() {
        0 => String::new(),
        1..=12 => format!("; measured/promised %: {}", rows.join(", ")),
        many => format!("; {many} clients, {}", farthest(progress)),
    };
    format!(
        "{name} {:.0} of {:.0} s, {}, under {}{shares}",
        progress.elapsed,
        progress.total,
        clean(&progress.phase),
        clean(&progress.note)
    )
}

fn farthest(progress: &Progress) -> String {
    let error = progress.rows.iter().map(|row| (row.measured - row.promised).abs());
    format!("farthest from promised by {}", percent(error.fold(0.0, f64::max)))
}

/// Returns the lines for a terminal of that size.
fn frame(
    name: &str,
    progress: &Progress,
    columns: usize,
    rows: usize,
    style: Style,
) -> Vec<String> {
    let time = format!("{:.0} of {:.0} s", progress.elapsed, progress.total);
    let title_columns = columns.saturating_sub(width(&time) + 1);
    let title = format!("{name}: {} (under {})", clean(&progress.phase), clean(&progress.note));
    let title = style.paint(Tone::Strong, &fit(&title, title_columns));
    let part = if progress.total > 0.0 { progress.elapsed / progress.total } else { 0.0 };
    let mut lines = vec![
        format!("{title} {time}"),
        style.paint(Tone::Faint, &fit(&bar(part, columns), columns)),
    ];
    if progress.rows.is_empty() {
        return lines;
    }
    let longest = progress.rows.iter().map(|row| width(&row.client)).max().unwrap_or(0);
    let client = longest.clamp(6, (columns / 3).max(6));
    let each = columns.saturating_sub(client) / 2;
    let bar_columns = each.saturating_sub(11);
    let shares = progress.rows.iter().flat_map(|row| [row.promised, row.measured]);
    let scale = shares.fold(0.01, f64::max);
    let heading = format!(
        "{} {} {}",
        fit("", client),
        fit(" promised", each - 1),
        fit(" measured", each - 1)
    );
    lines.push(style.paint(Tone::Faint, heading.trim_end()));
    let room = rows.saturating_sub(lines.len() + 2).max(1);
    for row in progress.rows.iter().take(room) {
        let share = |share: f64| {
            let bar = fit(&bar(share / scale, bar_columns), bar_columns);
            format!("{} {bar}", pad_left(&percent(share), 8))
        };
        let near = (row.measured - row.promised).abs() < 0.02;
        lines.push(format!(
            "{} {} {}",
            fit(&clean(&row.client), client),
            share(row.promised),
            style.paint(if near { Tone::Good } else { Tone::Warning }, &share(row.measured))
        ));
    }
    if progress.rows.len() > room {
        let more = progress.rows.len() - room;
        lines.push(format!("and {more} more; of all, {}", farthest(progress)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use allot_experiments::ProgressRow;

    fn progress(clients: usize) -> Progress {
        let row = |index: usize| ProgressRow {
            client: format!("A{index}"),
            promised: 0.5,
            measured: 0.25,
        };
        Progress {
            elapsed: 10.0,
            total: 20.0,
            phase: "B3 sleeps".to_owned(),
            rows: (0..clients).map(row).collect(),
            note: "allot".to_owned(),
        }
    }

    #[test]
    fn frames_fit_their_terminal() {
        for (columns, rows) in [(79, 24), (20, 10), (99, 50)] {
            let lines = frame("insulation", &progress(60), columns, rows, Style::PLAIN);
            assert!(lines.len() < rows, "{} lines of {rows}", lines.len());
            for line in &lines {
                assert!(width(line) <= columns || columns < 40, "{} {line}", width(line));
            }
        }
    }

    #[test]
    fn a_frame() {
        let lines = frame("rre", &progress(1), 60, 24, Style::PLAIN);
        assert_eq!(
            lines,
            [
                "rre: B3 sleeps (under allot)                      10 of 20 s",
                "██████████████████████████████                              ",
                "        promised                   measured",
                "A0       50.0 % ████████████████   25.0 % ████████        ",
            ]
        );
    }

    #[test]
    fn lines_for_logs() {
        assert_eq!(
            one_line("rre", &progress(1)),
            "rre 10 of 20 s, B3 sleeps, under allot; measured/promised %: A0 25.0/50.0"
        );
        assert!(one_line("insulation", &progress(60)).ends_with("by 25.0 %"));
    }
}
