//! `allot negotiate`: a negotiator at work for clients on this machine (paper 1, 4.2 and 8).
//!
//! It is a program like any other, and runs as the user whose clients it trades for. What it does is in
//! `market::Negotiator`; here is what that needs: the clock, the kernel's accounts, allotd. One look at
//! all clients that are due is one request, and one more for all that they want done.

mod command;
#[cfg(test)]
mod fixtures;
mod lock;
mod own_tickets;
mod paging;
mod progress;
mod session;
mod settings;
mod standing;
mod sums;
mod tell;
mod trader;
mod watch;

use crate::cli::Global;
use crate::error::{self, CliError};
use clap::Args;
use command::Running;
use progress::Source;
use session::Session;
use settings::{Policy, Said};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use tell::Teller;

/// Trade tickets for clients that know nothing of them
///
/// It watches what a client waits for, offers what it waits for least for what it waits for most, in
/// small steps, keeps what makes it faster and takes the rest back. It tells each action and verdict
/// in a line. When it ends, its offers are withdrawn and what is still on trial is ended; what was
/// found good stays until its lease is over.
#[derive(Args)]
#[command(
    after_help = "Example:\n  allot negotiate --for build --progress file:/run/build/objects\n  \
        allot negotiate --progress lines -- make -j8\n  \
        allot negotiate --policy /etc/allot/negotiate.toml\n\n\
        Exit status: the command's own, where there is one; else 0, also when its clients are gone."
)]
pub struct NegotiateArgs {
    /// For whom: a client or a currency of yours with its clients, as NAME, USER:NAME, `#ID`,
    /// `pid:PID` or `cgroup:PATH`; may be given several times. Without it, for COMMAND, which is made
    /// a client
    #[arg(long = "for", value_name = "CLIENT", required_unless_present_any = ["policy", "command"])]
    pub clients: Vec<String>,
    /// For all clients that a policy names, as they come and go
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "clients", "progress", "window", "lease", "goods", "most_part", "command",
    ])]
    pub policy: Option<PathBuf>,
    /// What tells how far the client has come: file:PATH, url:http://HOST/PATH#METRIC, or lines (of
    /// COMMAND); without it, CPU time less what faults cost
    #[arg(long, value_name = "SOURCE")]
    pub progress: Option<Source>,
    /// The least time between two looks [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = settings::span)]
    pub window: Option<Duration>,
    /// How long exchanges stay after it dies, or ends without --keep [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = settings::span)]
    pub lease: Option<Duration>,
    /// Trade these resources alone, as in cpu,memory
    #[arg(long, value_name = "RESOURCES", value_delimiter = ',')]
    pub goods: Option<Vec<String>>,
    /// Never give more of a good than this part of what is the client's own, 0 to 1
    #[arg(long, value_name = "PART")]
    pub most_part: Option<f64>,
    /// When it ends, leave its exchanges as they are, without an end
    #[arg(long)]
    pub keep: bool,
    /// Tell what it has cost, when it ends
    #[arg(long, short)]
    pub verbose: bool,
    /// A command to run meanwhile; its lines are passed on, and it ends with it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// What ends a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A signal came.
    Signal(i32),
    /// The command has ended.
    CommandEnded,
}

/// What has woken it so far.
pub struct Wakes {
    woken: Receiver<Wake>,
    ended: bool,
    signal: Option<i32>,
}

impl Wakes {
    /// Sleeps so long, or until something comes.
    pub fn sleep(&mut self, longest: Duration) {
        match self.woken.recv_timeout(longest) {
            Ok(wake) => self.note(wake),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }

    /// Whether there is no more to be done.
    pub fn is_over(&self) -> bool {
        self.ended || self.signal.is_some()
    }

    fn note(&mut self, wake: Wake) {
        match wake {
            Wake::Signal(signal) => self.signal = Some(signal),
            Wake::CommandEnded => self.ended = true,
        }
    }

    /// Passes signals on to a command until it has ended. From a terminal SIGINT comes to both.
    fn wait_for(&mut self, running: &Running) {
        while !self.ended {
            if let Some(signal) = self.signal.take().filter(|signal| *signal != SIGINT) {
                running.signal(signal);
            }
            match self.woken.recv() {
                Ok(wake) => self.note(wake),
                Err(_) => return,
            }
        }
    }
}

pub fn negotiate(global: &Global, args: &NegotiateArgs) -> Result<ExitCode, CliError> {
    let said = Said {
        progress: args.progress.clone(),
        window: args.window,
        lease: args.lease,
        goods: args.goods.clone(),
        most_part: args.most_part,
        ..Said::default()
    };
    let settings = said.settings().map_err(CliError::Usage)?;
    if settings.progress == Some(Source::Lines) && args.command.is_empty() {
        let what = "`--progress lines` counts the lines of a command; add `-- COMMAND`";
        return Err(CliError::Usage(what.to_owned()));
    }
    let policy = args.policy.as_deref().map(Policy::read).transpose();
    let policy = policy.map_err(|error| CliError::Usage(error.to_string()))?;
    let socket = crate::session::socket(global)?;
    let (wake, woken) = channel();
    let mut wakes = Wakes { woken, ended: false, signal: None };
    catch_signals(wake.clone())?;
    let lines = Arc::new(AtomicU64::new(0));
    let teller = Teller { json: global.json, on_stderr: !args.command.is_empty() };
    let mut session = Session::begin(socket.clone(), teller, policy, Arc::clone(&lines))?;
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
            wakes.wait_for(&running);
            Ok(ExitCode::from(running.end()?))
        }
    }
}

fn catch_signals(wake: Sender<Wake>) -> Result<(), CliError> {
    let failed = |cause| CliError::Io { what: "cannot catch signals".to_owned(), cause };
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if wake.send(Wake::Signal(signal)).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Runs the command, where there is one: as a client, if it is the one that is traded for.
fn start(
    socket: &Path,
    args: &NegotiateArgs,
    lines: Arc<AtomicU64>,
    wake: Sender<Wake>,
) -> Result<Option<Running>, CliError> {
    let Some(name) = args.command.first() else { return Ok(None) };
    let mut command = Vec::new();
    if args.clients.is_empty() {
        let own = std::env::current_exe()
            .map_err(|cause| CliError::Io { what: "where allot is".to_owned(), cause })?;
        command.extend([own.into_os_string(), "--socket".into(), socket.into()]);
        command.extend(["run", "--"].map(OsString::from));
    }
    command.extend(args.command.iter().cloned());
    let name = name.to_string_lossy().into_owned();
    let running = Running::start(&command, lines, wake);
    running.map(Some).map_err(|cause| CliError::Exec { command: name, cause })
}
