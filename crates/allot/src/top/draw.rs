//! One frame of `top`.

use super::model::{Model, Row};
use command_line::style::{bar, clean, duration, fit, pad_left, percent};
use ratatui::Frame;
use ratatui::backend::TestBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use wire::ClientState;

const HELP: [&str; 16] = [
    "PROMISED  the share of the CPUs that its tickets",
    "          promised it over the window; a process has",
    "          one CPU at a time, however many tickets:",
    "          `allot tree` shows what those are worth",
    "MEASURED  the share that it used",
    "WINS      draws won since it became a client",
    "SLICE     the part of a slice that it used when it",
    "          won (where the terminal is wide enough)",
    "",
    "STATE     running: won the last draw; waiting: lost",
    "          it; sleeping: wants no CPU; frozen: has no",
    "          tickets; stopped: by somebody else;",
    "          unmanaged: see `allot status`",
    "",
    "s sort   p pause   ↑ ↓ page keys scroll   q quit",
    "? close this",
];

/// Of the part of a slice.
const SLICE_COLUMNS: usize = 8;

/// Lines of a frame besides the head and the clients.
const HEADINGS_AND_FOOT: usize = 2;

/// One frame in text, without the line that names the keys, as wide as asked and as high as it takes to show every client.
pub fn frame_as_text(model: &mut Model, columns: u16) -> String {
    let clients = model.latest().map_or(0, |sample| sample.clients.len());
    let columns = columns.max(40);
    let head = head(model, usize::from(columns)).len();
    let lines = u16::try_from(clients.saturating_add(head).saturating_add(HEADINGS_AND_FOOT))
        .unwrap_or(u16::MAX);
    // A backend in memory cannot fail.
    let mut terminal = ratatui::Terminal::new(TestBackend::new(columns, lines))
        .unwrap_or_else(|never| match never {});
    terminal.draw(|frame| draw(frame, model)).unwrap_or_else(|never| match never {});
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..buffer.area.height - 1 {
        let mut line = String::new();
        let mut x = 0;
        while x < buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += u16::try_from(command_line::style::width(symbol).max(1)).unwrap_or(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Draws it.
pub fn draw(frame: &mut Frame<'_>, model: &mut Model) {
    let head = head(model, usize::from(frame.area().width));
    let [top, headings, body, keys] = Layout::vertical([
        Constraint::Length(u16::try_from(head.len()).unwrap_or(u16::MAX)),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(head), top);
    model.page = body.height;
    model.scroll_by(0);
    let rows = model.rows();
    let columns = Columns::of(frame.area().width, &rows);
    frame.render_widget(Paragraph::new(columns.headings()), headings);
    let lines: Vec<Line<'_>> = rows
        .iter()
        .skip(model.scroll)
        .take(usize::from(body.height))
        .map(|row| columns.line(row))
        .collect();
    frame.render_widget(Paragraph::new(lines), body);
    frame.render_widget(Paragraph::new(foot(model, rows.len())), keys);
    if model.help {
        help(frame);
    }
}

fn faint() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn head(model: &Model, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some(status) = &model.status {
        let cpu = &status.cpu;
        let whose = if status.private { " (private)" } else { "" };
        lines.push(Line::from(vec![
            Span::styled(
                format!("allot {}{whose}", clean(&status.version)),
                Style::new().add_modifier(Modifier::BOLD),
            ),
            Span::raw(format!(
                "  {} {}, quantum {}, {} CPUs, {} clients",
                clean(&cpu.name),
                clean(&cpu.policy),
                duration(cpu.quantum_ns),
                cpu.cpus.len(),
                model.latest().map_or(status.clients, |sample| sample.clients.len() as u64)
            )),
        ]));
    }
    if let Some(sample) = model.latest() {
        let share = |share: Option<f64>| share.map_or("–".to_owned(), percent);
        let clients = share(model.clients_share());
        let parts = [
            format!("over {}: clients {clients} of the CPUs", duration(model.window_ns())),
            format!("allotd {} of one", share(model.daemon_share())),
            format!("{} draws", sample.draws),
            format!("{} late", sample.late),
        ];
        lines.extend(folded(&parts, width).into_iter().map(Line::raw));
    }
    if let Some(status) = &model.status {
        for drift in &status.cpu.drift {
            let text = fit(&clean(drift), width);
            lines.push(Line::styled(text, Style::new().fg(Color::Yellow)));
        }
    }
    lines.push(Line::raw(""));
    lines
}

/// Parts with commas between them, in as many lines as they need.
fn folded(parts: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let comma = if index + 1 < parts.len() { "," } else { "" };
        match lines.last_mut() {
            Some(line) if line.len() + 1 + part.len() + comma.len() <= width => {
                line.push_str(&format!(" {part}{comma}"));
            }
            _ => lines.push(format!("{part}{comma}")),
        }
    }
    lines
}

fn foot(model: &Model, clients: usize) -> Line<'static> {
    let shown = format!(
        "{}-{} of {clients}",
        (model.scroll + 1).min(clients),
        (model.scroll + usize::from(model.page)).min(clients)
    );
    let pause = if model.is_paused() { "p go on (paused)" } else { "p pause" };
    Line::styled(
        format!("q quit  s sort ({})  {pause}  ↑↓ scroll ({shown})  ? help", model.sort.name()),
        faint(),
    )
}

/// How wide each column is.
struct Columns {
    user: usize,
    command: usize,
    from: usize,
    /// Whether there is room for it.
    slice: bool,
    bar: usize,
    /// What a full bar stands for.
    scale: f64,
}

impl Columns {
    /// PID, STATE, WINS and the two numbers are as wide as they are; bars, names and, where there
    /// is room, FROM share the rest.
    fn of(width: u16, rows: &[Row]) -> Columns {
        let rest = usize::from(width).saturating_sub(7 + 1 + 1 + 1 + 9 + 1 + 8 + 2 + 8 + 2 + 8);
        let shares = rows.iter().flat_map(|row| [row.promised, row.measured]).flatten();
        let scale = shares.fold(0.01, f64::max);
        let user = 8.min(rest / 4);
        let rest = rest - user;
        let slice = rest > 60 + SLICE_COLUMNS;
        let rest = if slice { rest - SLICE_COLUMNS - 1 } else { rest };
        if rest < 60 {
            let bar = rest / 4;
            Columns { user, command: rest - 2 * bar, from: 0, slice, bar, scale }
        } else {
            let bar = (rest / 5).min(25);
            let from = (rest / 4).min(24);
            Columns { user, command: rest - 2 * bar - from - 1, from, slice, bar, scale }
        }
    }

    fn headings(&self) -> Line<'static> {
        let from = if self.from > 0 { fit(" FROM", self.from + 1) } else { String::new() };
        let slice = match self.slice {
            true => format!(" {}", pad_left("SLICE", SLICE_COLUMNS)),
            false => String::new(),
        };
        let text = format!(
            "{} {} {}{from} {} {} {} {}{slice}",
            pad_left("PID", 7),
            fit("USER", self.user),
            fit("COMMAND", self.command),
            fit("STATE", 9),
            fit("PROMISED", self.bar + 9),
            fit("MEASURED", self.bar + 9),
            pad_left("WINS", 8),
        );
        Line::styled(text, Style::new().add_modifier(Modifier::REVERSED))
    }

    fn line(&self, row: &Row) -> Line<'static> {
        let (state, style) = match row.state {
            ClientState::Running => ("running", Style::new().fg(Color::Green)),
            ClientState::Waiting => ("waiting", Style::new()),
            ClientState::Sleeping => ("sleeping", faint()),
            ClientState::Frozen => ("frozen", Style::new().fg(Color::Cyan)),
            ClientState::Stopped => ("stopped", Style::new().fg(Color::Red)),
            ClientState::Unmanaged => ("unmanaged", Style::new().fg(Color::Yellow)),
        };
        // A cgroup, the kernel and the rest have none.
        let pid = if row.pid == 0 { String::new() } else { row.pid.to_string() };
        let mut spans = vec![Span::raw(format!(
            "{} {} {}",
            pad_left(&pid, 7),
            fit(&row.user, self.user),
            fit(&row.command, self.command),
        ))];
        if self.from > 0 {
            spans.push(Span::raw(format!(" {}", fit(&row.from, self.from))));
        }
        spans.push(Span::styled(format!(" {}", fit(state, 9)), style));
        self.share(&mut spans, row.promised, Color::Blue);
        self.share(&mut spans, row.measured, Color::Green);
        spans.push(Span::raw(format!(" {}", pad_left(&row.wins.to_string(), 8))));
        if self.slice {
            let slice = row.slice.map_or("–".to_owned(), percent);
            spans.push(Span::raw(format!(" {}", pad_left(&slice, SLICE_COLUMNS))));
        }
        Line::from(spans)
    }

    fn share(&self, spans: &mut Vec<Span<'static>>, share: Option<f64>, colour: Color) {
        let number = share.map_or("–".to_owned(), percent);
        spans.push(Span::raw(format!(" {} ", pad_left(&number, 8))));
        let bar = bar(share.unwrap_or(0.0) / self.scale, self.bar);
        spans.push(Span::styled(fit(&bar, self.bar), Style::new().fg(colour)));
    }
}

fn help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let width = 56.min(area.width);
    let height = (HELP.len() as u16 + 2).min(area.height);
    let window = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, window);
    let lines: Vec<Line<'_>> = HELP.iter().map(|line| Line::raw(format!(" {line}"))).collect();
    frame
        .render_widget(Paragraph::new(lines).block(Block::bordered().title(" allot top ")), window);
}
