//! `allot top`: a live view of who was promised what, and who got it.

mod draw;
mod model;

use crate::cli::Global;
use crate::error::CliError;
use crate::{numbers, output, session};
use clap::Args;
pub use draw::frame_as_text;
pub use model::{Model, Row, SortBy};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;
use wire::{Client, ClientError, LedgerView, Sample, Status};

/// Watch clients: promised and measured shares, who wins, what allotd itself costs
///
/// Keys: q quit, s sort by another column, p pause, ? help, arrows and page keys scroll.
#[derive(Args)]
#[command(
    after_help = "Example:\n  allot top\n  allot top --interval 0.5\n  allot top --once | head"
)]
pub struct TopArgs {
    /// Seconds between samples
    #[arg(long, short, value_name = "SECONDS", default_value = "1", value_parser = numbers::interval)]
    pub interval: Duration,
    /// Measure over one interval, print one frame as text, and end
    #[arg(long)]
    pub once: bool,
}

/// What comes from allotd.
enum News {
    Sample(Sample),
    Around(Box<(Status, LedgerView)>),
    Gone(ClientError),
}

/// How long the keyboard is waited for before news is looked at.
const TICK: Duration = Duration::from_millis(100);
/// How often status and ledger are asked for.
const AROUND: Duration = Duration::from_secs(2);

/// Shows it.
pub(crate) fn top(global: &Global, args: &TopArgs) -> Result<ExitCode, CliError> {
    let client = session::connect(global)?;
    let mut model = Model::default();
    let status = client.status()?;
    model.set_around(status, client.ledger()?);
    if global.json {
        for sample in client.samples(args.interval)? {
            output::json(&sample?)?;
            if args.once {
                break;
            }
        }
    } else if args.once {
        for sample in client.samples(args.interval)?.take(2) {
            model.add_sample(sample?);
        }
        output::text(&frame_as_text(&mut model, columns()))?;
    } else if io::stdout().is_terminal() {
        watch(&client, model, args.interval)?;
    } else {
        return Err(CliError::Usage(
            "standard output is no terminal; `allot top --once` prints one frame, --json samples"
                .to_owned(),
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The terminal's width, else what every terminal has.
fn columns() -> u16 {
    match ratatui::crossterm::terminal::size() {
        Ok((columns, _)) if io::stdout().is_terminal() && columns > 0 => columns,
        _ => 80,
    }
}

fn watch(client: &Client, mut model: Model, interval: Duration) -> Result<(), CliError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|cause| CliError::Io { what: "cannot wait for signals".to_owned(), cause })?;
    }
    let news = follow(client, interval);
    // Restores the terminal when a panic unwinds, too.
    let mut terminal = ratatui::try_init()
        .map_err(|cause| CliError::Io { what: "cannot use the terminal".to_owned(), cause })?;
    let ended = watch_in(&mut terminal, &mut model, &news, &stop);
    ratatui::restore();
    ended
}

fn watch_in(
    terminal: &mut ratatui::DefaultTerminal,
    model: &mut Model,
    news: &Receiver<News>,
    stop: &AtomicBool,
) -> Result<(), CliError> {
    while !stop.load(Ordering::Relaxed) {
        for item in news.try_iter() {
            match item {
                News::Sample(sample) => model.add_sample(sample),
                News::Around(around) => model.set_around(around.0, around.1),
                News::Gone(error) => return Err(error.into()),
            }
        }
        terminal.draw(|frame| draw::draw(frame, model))?;
        if event::poll(TICK)? {
            let quit = match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => !press(model, key),
                _ => false,
            };
            if quit {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Does what a key asks; false to quit.
fn press(model: &mut Model, key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if control => return false,
        KeyCode::Char('q') => return false,
        KeyCode::Esc if model.help => model.help = false,
        KeyCode::Esc => return false,
        KeyCode::Char('?') | KeyCode::Char('h') => model.help = !model.help,
        KeyCode::Char('s') => model.sort = model.sort.next(),
        KeyCode::Char('p') | KeyCode::Char(' ') => model.pause(),
        KeyCode::Up | KeyCode::Char('k') => model.scroll_by(-1),
        KeyCode::Down | KeyCode::Char('j') => model.scroll_by(1),
        KeyCode::PageUp => model.scroll_by(-i64::from(model.page)),
        KeyCode::PageDown => model.scroll_by(i64::from(model.page)),
        KeyCode::Home => model.scroll_by(i64::MIN),
        KeyCode::End => model.scroll_by(i64::MAX),
        _ => {}
    }
    true
}

/// Reads samples, status and ledger in threads of their own: a slow answer never holds up the
/// keyboard.
fn follow(client: &Client, interval: Duration) -> Receiver<News> {
    let (sender, receiver) = channel();
    let socket = client.socket().to_owned();
    let samples = sender.clone();
    thread::spawn({
        let socket = socket.clone();
        move || send_samples(&Client::new(socket), interval, &samples)
    });
    thread::spawn(move || {
        let client = Client::new(socket);
        loop {
            thread::sleep(AROUND);
            let around = client.status().and_then(|status| Ok((status, client.ledger()?)));
            let (news, last) = match around {
                Ok(around) => (News::Around(Box::new(around)), false),
                Err(error) => (News::Gone(error), true),
            };
            if sender.send(news).is_err() || last {
                return;
            }
        }
    });
    receiver
}

fn send_samples(client: &Client, interval: Duration, sender: &Sender<News>) {
    let ended = |error| {
        // Nobody listens any more when the view has ended.
        let _ = sender.send(News::Gone(error));
    };
    let samples = match client.samples(interval) {
        Ok(samples) => samples,
        Err(error) => return ended(error),
    };
    for sample in samples {
        match sample {
            Ok(sample) => {
                if sender.send(News::Sample(sample)).is_err() {
                    return;
                }
            }
            Err(error) => return ended(error),
        }
    }
    ended(ClientError::Unreachable {
        socket: client.socket().to_owned(),
        cause: "it ended".to_owned(),
    });
}
