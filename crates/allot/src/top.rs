//! `allot top`: a live view of who was promised what, and who got it.

mod draw;
mod model;
mod terminal;

use clap::Args;
use command_line::{CliError, GlobalOptions, argument_parsing, connection, output};
pub use draw::frame_as_text;
pub use model::{Model, Row, SortBy};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;
use terminal::Terminals;
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
    #[arg(long, short, value_name = "SECONDS", default_value = "1", value_parser = argument_parsing::interval)]
    pub interval: Duration,
    /// Measure over one interval, print one frame as text, and end
    #[arg(long)]
    pub once: bool,
}

/// An event, from allotd or from the keyboard.
enum News {
    Sample(Sample),
    Around(Box<(Status, LedgerView)>),
    Gone(ClientError),
    Keyboard(Event),
    NoKeyboard(io::Error),
}

/// Interval between looks at signals and at the terminal, which can be gone.
const TICK: Duration = Duration::from_millis(100);
/// How often status and ledger are asked for.
const AROUND: Duration = Duration::from_secs(2);

/// Shows it.
pub(crate) fn top(global: &GlobalOptions, args: &TopArgs) -> Result<ExitCode, CliError> {
    let client = connection::connect(global)?;
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
    let terminals = Terminals::find();
    let (sender, news) = channel();
    follow(client, interval, &sender);
    // Restores the terminal when a panic unwinds, too.
    let mut terminal = ratatui::try_init()
        .map_err(|cause| CliError::Io { what: "cannot use the terminal".to_owned(), cause })?;
    thread::spawn(move || read_keyboard(&sender));
    let ended = watch_in(&mut terminal, &mut model, &news, || {
        stop.load(Ordering::Relaxed) || terminals.are_gone()
    });
    if terminals.are_gone() {
        // Nothing can be restored or said there, which its drop would try.
        std::mem::forget(terminal);
        return Ok(());
    }
    ratatui::restore();
    ended
}

fn watch_in(
    terminal: &mut ratatui::DefaultTerminal,
    model: &mut Model,
    news: &Receiver<News>,
    ends: impl Fn() -> bool,
) -> Result<(), CliError> {
    while !ends() {
        terminal.draw(|frame| draw::draw(frame, model))?;
        let first = match news.recv_timeout(TICK) {
            Ok(item) => item,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        for item in std::iter::once(first).chain(news.try_iter()) {
            match item {
                News::Sample(sample) => model.add_sample(sample),
                News::Around(around) => model.set_around(around.0, around.1),
                News::Gone(error) => return Err(error.into()),
                News::Keyboard(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    if !press(model, key) {
                        return Ok(());
                    }
                }
                News::Keyboard(_) => {}
                News::NoKeyboard(cause) => {
                    let what = "cannot read the keyboard".to_owned();
                    return Err(CliError::Io { what, cause });
                }
            }
        }
    }
    Ok(())
}

/// Reads the keyboard in a thread of its own: at the end of its input the library reads for ever,
/// and only the end of the program ends that.
fn read_keyboard(sender: &Sender<News>) {
    loop {
        let (news, last) = match event::read() {
            Ok(event) => (News::Keyboard(event), false),
            Err(cause) => (News::NoKeyboard(cause), true),
        };
        if sender.send(news).is_err() || last {
            return;
        }
    }
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
fn follow(client: &Client, interval: Duration, sender: &Sender<News>) {
    let socket = client.socket().to_owned();
    thread::spawn({
        let (socket, sender) = (socket.clone(), sender.clone());
        move || send_samples(&Client::new(socket), interval, &sender)
    });
    let sender = sender.clone();
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
