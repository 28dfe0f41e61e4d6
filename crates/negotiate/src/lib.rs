//! The program `allot-negotiate`, which `allot negotiate` runs: negotiators at work for clients on
//! this machine (paper 1, 4.2 and 8).
//!
//! It runs as the user whose clients it trades for. `market::Negotiator` decides; this program has what
//! that needs: the clock, the kernel's accounts, allotd. One look at all clients that are due is one
//! request, and one more for all that they want done.

mod accounting;
mod arguments;
mod command;
#[cfg(test)]
mod fixtures;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod lock;
mod metric_server;
mod own_tickets;
mod paging;
mod progress;
mod reporter;
mod settings;
mod standing;
mod trader;
mod trading_session;
mod wakes;
mod watch;

use arguments::Arguments;
use clap::{CommandFactory, Parser};
use command::Running;
use command_line::{CliError, Definition, connection, error, programs};
use progress::Source;
use reporter::Reporter;
use settings::{Policy, RawSettings, Settings};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Sender;
use trading_session::TradingSession;
use wakes::{Wake, Wakes};

/// Negotiates as the arguments of this process say.
pub fn negotiate_main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(answered) = Definition::answer(&words, &Arguments::command()) {
        return answered.unwrap_or_else(|error| error.show(false));
    }
    match Arguments::try_parse_from(&words) {
        Ok(args) => negotiate(&args).unwrap_or_else(|error| error.show(args.global.json)),
        Err(refused) => error::show_usage(&refused, &words),
    }
}

fn negotiate(args: &Arguments) -> Result<ExitCode, CliError> {
    let (settings, policy) = settings_of(args)?;
    let socket = connection::socket(&args.global)?;
    let failed = |cause| CliError::Io { what: "cannot catch signals".to_owned(), cause };
    let (mut wakes, wake) = Wakes::catch().map_err(failed)?;
    let lines = Arc::new(AtomicU64::new(0));
    let reporter = Reporter { json: args.global.json, on_stderr: !args.command.is_empty() };
    let mut session = TradingSession::begin(socket.clone(), reporter, policy, Arc::clone(&lines))?;
    // Before the command is run: it is not to be run where nobody could be traded for.
    for client in &args.clients {
        session.add(client, &settings)?;
    }
    let running = start(&socket, args, lines, wake)?;
    if let (Some(running), true) = (&running, args.clients.is_empty()) {
        let client = format!("pid:{}", running.pid());
        // The command runs, whether anybody trades for it or not.
        if let Err(error) = session.add_when_there(&client, &settings, &mut wakes) {
            error::warn(&error.to_string());
        }
    }
    while !wakes.is_over() && (session.has_work() || running.is_some()) {
        session.round();
        wakes.sleep(session.until_next());
    }
    session.leave(args.keep);
    if args.verbose {
        session.tell_cost();
    }
    match running {
        None => Ok(ExitCode::SUCCESS),
        Some(running) => {
            wakes.wait_for_command(|signal| running.signal(signal));
            Ok(ExitCode::from(running.end()?))
        }
    }
}

/// The settings for the clients that the arguments name, and the policy for all others.
fn settings_of(args: &Arguments) -> Result<(Settings, Option<Policy>), CliError> {
    let raw = RawSettings {
        progress: args.progress.clone(),
        window: args.window,
        lease: args.lease,
        goods: args.goods.clone(),
        most_part: args.most_part,
        ..RawSettings::default()
    };
    let settings = raw.settings().map_err(CliError::Usage)?;
    if settings.progress == Some(Source::Lines) && args.command.is_empty() {
        let what = "`--progress lines` counts the lines of a command; add `-- COMMAND`";
        return Err(CliError::Usage(what.to_owned()));
    }
    let policy = args.policy.as_deref().map(Policy::read).transpose();
    Ok((settings, policy.map_err(|error| CliError::Usage(error.to_string()))?))
}

/// Runs the command, where there is one: as a client, if it is the one that is traded for.
fn start(
    socket: &Path,
    args: &Arguments,
    lines: Arc<AtomicU64>,
    wake: Sender<Wake>,
) -> Result<Option<Running>, CliError> {
    let Some(name) = args.command.first() else { return Ok(None) };
    let mut command = Vec::new();
    if args.clients.is_empty() {
        command.extend([programs::path("allot").into(), "--socket".into(), socket.into()]);
        command.extend(["run", "--"].map(OsString::from));
    }
    command.extend(args.command.iter().cloned());
    let name = name.to_string_lossy().into_owned();
    let running = Running::start(&command, lines, wake);
    running.map(Some).map_err(|cause| CliError::Exec { command: name, cause })
}
