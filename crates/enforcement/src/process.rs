//! The enforcing process: the far end, which holds the table.

use crate::admission::Admission;
use crate::lock::Lock;
use crate::message::{Answer, LookedAfter, Request, Started, Task};
use crate::survey::Surveyed;
use crate::table::{Table, TableError, with_causes};
use crate::{tracing_stream, walls};
use enforcer::Registration;
use enforcer::frame::{self, FrameError};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

/// Why an enforcing process ends out of order.
#[derive(Debug, thiserror::Error)]
enum EndedEarly {
    /// The connection.
    #[error("the keeper")]
    Frame(#[from] FrameError),
    /// The keeper asked what it may not ask now.
    #[error("the keeper asked for {0} where it may not")]
    OutOfTurn(&'static str),
    /// Told by a signal.
    #[error("told to end by a signal")]
    Told,
    /// The keeper died.
    #[error("the keeper is gone")]
    Alone,
    /// The system refused.
    #[error("the system refused to {0}")]
    System(&'static str, #[source] io::Error),
}

/// Enforces what the parent asks for: the work of `<program> enforce`. Standard input is the connection. However it
/// ends, everything was given back.
pub fn enforce_main(enforcers: &[Registration]) -> ExitCode {
    match serve(enforcers) {
        Ok(()) => ExitCode::SUCCESS,
        // The keeper says why it ends; a crash of it is in the log of whoever started it.
        Err(EndedEarly::Frame(error)) if error.is_end() => alone(),
        Err(EndedEarly::Alone) => alone(),
        Err(error) => {
            tracing::error!("the enforcing process ends: {}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}

fn alone() -> ExitCode {
    tracing::warn!("the keeper is gone: everything was given back");
    ExitCode::SUCCESS
}

fn serve(enforcers: &[Registration]) -> Result<(), EndedEarly> {
    let keeper = Keeper::connect()?;
    let Request::Begin(task) = keeper.next()? else { return Err(EndedEarly::OutOfTurn("work")) };
    let records = &task.settings.records;
    let (_lock, surveyed) = match Lock::take(records) {
        // Before our own scheduler is there, which would be found to be in the way.
        Ok(lock) => (lock, Surveyed::look(enforcers, &task.settings)),
        Err(error) => {
            let why = format!("{}.lock: {error}", records.display());
            return keeper.answer(&Answer::Begun(Err(why)));
        }
    };
    let socket = task.socket.clone();
    keeper.answer(&Answer::Begun(Ok(surveyed)))?;
    let Request::Start = keeper.next()? else { return Err(EndedEarly::OutOfTurn("work")) };
    let (mut table, started) = match start(enforcers, *task, keeper.pid()) {
        Ok(started) => started,
        Err(error) => return keeper.answer(&Answer::Started(Err(with_causes(&error)))),
    };
    let started = keeper.answer(&Answer::Started(Ok(started)));
    let served = started.and_then(|()| follow(&keeper, &mut table));
    table.end();
    served?;
    // The keeper still listens there, so it is nobody else's.
    if let Some(socket) = socket {
        let _ = std::fs::remove_file(socket);
    }
    keeper.answer(&Answer::Ended)
}

/// Starts the CPU's enforcer, and gives up what is not needed once it runs.
fn start(
    enforcers: &[Registration],
    task: Task,
    keeper: u32,
) -> Result<(Table, Started), TableError> {
    let looks = walls::to_look_into_processes(enforcers, &task);
    let (enforcers, files) = walls::restrict_files(enforcers, &task);
    let Task { settings, choice, shares_others, reach, .. } = task;
    let admission = Admission::new(reach, keeper);
    let table = Table::start(&enforcers, settings, &choice, shares_others, admission)?;
    let mut all = walls::give_up_the_rest(table.needs().union(looks));
    all.push(files);
    all.extend(walls::of_helpers(&enforcers));
    let covers_everybody = table.covers_everybody();
    Ok((table, Started { covers_everybody, walls: all }))
}

/// Does what the keeper asks, until it asks for the end.
fn follow(keeper: &Keeper, table: &mut Table) -> Result<(), EndedEarly> {
    loop {
        let answer = match keeper.next()? {
            Request::End => return Ok(()),
            Request::NoteFork { parent, child } => {
                table.note_fork(parent, child);
                continue;
            }
            Request::Trace => {
                trace(keeper, table)?;
                continue;
            }
            request => answer(table, request)?,
        };
        keeper.answer(&answer)?;
    }
}

fn answer(table: &mut Table, request: Request) -> Result<Answer, EndedEarly> {
    Ok(match request {
        Request::Apply(plan) => Answer::Applied(plan.generation, table.apply(plan)),
        Request::Look => Answer::Seen(Box::new(table.seen())),
        Request::Measure => Answer::Measured(Box::new(table.measure())),
        Request::LookAfter => {
            let replaced = table.replace_those_that_gave_up();
            Answer::LookedAfter(LookedAfter { replaced, drift: table.new_drift() })
        }
        Request::SetAlgorithm(algorithm) => Answer::AlgorithmSet(table.set_algorithm(algorithm)),
        Request::WithoutEffect(resources) => {
            let why = resources.iter().map(|resource| table.without_effect(resource));
            Answer::WithoutEffect(why.collect())
        }
        Request::Defer(why) => Answer::Deferred(table.defer(why)),
        Request::Begin(_) | Request::Start => return Err(EndedEarly::OutOfTurn("a second start")),
        Request::End | Request::NoteFork { .. } | Request::Trace => {
            unreachable!("served elsewhere")
        }
    })
}

fn trace(keeper: &Keeper, table: &mut Table) -> Result<(), EndedEarly> {
    let written = |trace| tracing_stream::write(trace).map_err(|error| error.to_string());
    match table.trace().and_then(written) {
        Ok(socket) => {
            keeper.answer(&Answer::Tracing(Ok(())))?;
            Ok(frame::send_descriptors(&keeper.stream, &[socket.as_fd()])?)
        }
        Err(why) => keeper.answer(&Answer::Tracing(Err(why))),
    }
}

/// The keeper, as the enforcing process has it: the connection, and the process at its other end.
struct Keeper {
    stream: UnixStream,
    /// Its number.
    number: u32,
    /// Its process; `None` where it was gone before it could be watched, which the connection tells too.
    process: Option<OwnedFd>,
    /// SIGTERM.
    told: SignalFd,
}

impl Keeper {
    fn connect() -> Result<Keeper, EndedEarly> {
        let system = |what| move |error: io::Error| EndedEarly::System(what, error);
        let parent = rustix::process::getppid();
        // Signals of a terminal to everybody are the keeper's to hear; fails only for a leader of a process group.
        let _ = rustix::process::setsid();
        let _ = std::fs::write("/proc/self/comm", "allot-enforce");
        // When memory runs out others go first: all that this process holds would have to be given back.
        let _ = std::fs::write("/proc/self/oom_score_adj", "-900");
        // Everybody may look into the cgroups that it makes, whatever whoever started it wants of files.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        for hardened in [sandbox::make_undumpable(), sandbox::forgo_new_privileges()] {
            hardened.map_err(system("give up privileges"))?;
        }
        let stream =
            frame::take_standard_input().map_err(system("take the connection to the keeper"))?;
        let process = parent.and_then(watch).filter(|_| rustix::process::getppid() == parent);
        let mut told = SigSet::empty();
        told.add(Signal::SIGTERM);
        let mut ours = told;
        ours.add(Signal::SIGINT);
        ours.add(Signal::SIGHUP);
        let of_nix = |what| move |errno: nix::Error| EndedEarly::System(what, errno.into());
        ours.thread_block().map_err(of_nix("keep signals back"))?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let told = SignalFd::with_flags(&told, flags).map_err(of_nix("hear signals"))?;
        let number = parent.map_or(0, |parent| parent.as_raw_nonzero().get().unsigned_abs());
        Ok(Keeper { stream, number, process, told })
    }

    fn pid(&self) -> u32 {
        self.number
    }

    /// Waits for the next request.
    fn next(&self) -> Result<Request, EndedEarly> {
        loop {
            let mut fds = vec![PollFd::new(&self.stream, PollFlags::IN)];
            fds.push(PollFd::new(&self.told, PollFlags::IN));
            fds.extend(self.process.as_ref().map(|it| PollFd::new(it, PollFlags::IN)));
            match rustix::event::poll(&mut fds, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(EndedEarly::System("wait", errno.into())),
            }
            let is_ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
            // Nothing that the keeper asked before it died is done any more.
            match (is_ready(1), is_ready(2), is_ready(0)) {
                (true, _, _) => return Err(EndedEarly::Told),
                (_, true, _) => return Err(EndedEarly::Alone),
                (_, _, true) => return Ok(frame::read(&self.stream)?),
                _ => {}
            }
        }
    }

    fn answer(&self, answer: &Answer) -> Result<(), EndedEarly> {
        Ok(frame::write(&self.stream, answer)?)
    }
}

fn watch(process: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(process, PidfdFlags::empty()).ok()
}
