//! A command as the job of a shell, with allot in between.
//!
//! An allotd that holds processes by stopping them cannot hold what a shell with job control has
//! started: the shell would take the stop for its user's own. So allot stays as the shell's child
//! and runs the command as its own child, in the same process group: the terminal goes on to
//! send ^C, ^Z, changes of size and background reads to the command itself, as well as to the
//! other commands of its pipeline. The process in between passes on what the command has not been
//! sent itself, stops when the command was stopped by anything but allotd, and ends as the command
//! ends.

use command_line::error;
use command_line::{CliError, GlobalOptions, connection};
use nix::libc;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, kill, raise, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::unistd::{ForkResult, Pid, fork, getpgrp, getppid};
use std::io;
use std::process::ExitCode;

/// Lets this process go on as the command that it is to become; the process in between waits for
/// the command, and gets its exit status. Does nothing where there is no need of one in between.
pub fn stay_between(global: &GlobalOptions) -> Result<Option<ExitCode>, CliError> {
    if !is_shells_job() || !holds_processes(global) {
        return Ok(None);
    }
    begin().map_err(|cause| CliError::Io { what: "cannot wait for the command".to_owned(), cause })
}

/// Whether a shell runs a process in the foreground of a terminal: an allotd that would have to
/// stop it leaves it alone.
pub fn is_foreground_job(pid: u32) -> bool {
    Standing::of(pid).is_some_and(|it| it.is_job() && it.group == it.foreground)
}

/// Whether the allotd that is asked holds whole processes.
pub fn holds_processes(global: &GlobalOptions) -> bool {
    let status = connection::connect(global).and_then(|client| Ok(client.status()?));
    status.is_ok_and(|status| status.cpu.name == "user-level")
}

/// Whether a shell with job control waits for this process.
fn is_shells_job() -> bool {
    Standing::of(std::process::id()).is_some_and(|it| it.is_job())
}

/// Where a process stands among the jobs of its terminal.
struct Standing {
    parent: i64,
    group: i64,
    terminal: i64,
    foreground: i64,
}

impl Standing {
    fn of(pid: u32) -> Option<Standing> {
        Standing::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses the line of /proc/PID/stat. The name, in brackets, can contain anything.
    fn parse(line: &[u8]) -> Option<Standing> {
        let end = line.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(line.get(end + 4..)?).ok()?;
        let mut fields = rest.split(' ').map_while(|field| field.parse().ok());
        let (parent, group, _session) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Standing { parent, group, terminal: fields.next()?, foreground: fields.next()? })
    }

    /// Whether its parent, on the same terminal, has put it into a group of its own.
    fn is_job(&self) -> bool {
        let parent = u32::try_from(self.parent).ok().and_then(Standing::of);
        self.terminal != 0
            && parent.is_some_and(|it| it.terminal == self.terminal && it.group != self.group)
    }
}

/// The process in between: all that it knows.
struct Between {
    command: Pid,
    signals: SignalFd,
    witness: Witness,
    /// A stop that was sent to the job, and that the command has not followed yet.
    stop: Option<Signal>,
}

fn begin() -> io::Result<Option<ExitCode>> {
    let mut before = SigSet::empty();
    // Before the fork, so that none is lost. SIGCONT does its work even while it is blocked.
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut before))?;
    let signals = SignalFd::with_flags(&SigSet::all(), SfdFlags::SFD_CLOEXEC)?;
    let parent = nix::unistd::getpid();
    // SAFETY: this process has one thread, so nothing that the child uses is locked by another.
    match unsafe { fork() }? {
        ForkResult::Child => {
            drop(signals);
            // Whoever kills the job's process kills the command.
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            if getppid() != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
            Ok(None)
        }
        ForkResult::Parent { child } => {
            take_default(libc::SIGCHLD);
            let witness = Witness::or_none();
            Between { command: child, signals, witness, stop: None }.watch().map(Some)
        }
    }
}

impl Between {
    fn watch(mut self) -> io::Result<ExitCode> {
        loop {
            let Some(info) = self.signals.read_signal()? else { continue };
            match info.ssi_signo.cast_signed() {
                libc::SIGCHLD => {
                    if let Some(code) = self.look() {
                        return Ok(code);
                    }
                }
                libc::SIGCONT => {}
                signo @ (libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU) => {
                    self.stop = Signal::try_from(signo).ok();
                    self.pass_on(&info);
                }
                _ => self.pass_on(&info),
            }
        }
    }

    /// Gives the command a signal that it was not sent itself: one for this process alone, or one
    /// for the job where the command has made a process group of its own, as timeout(1) does.
    fn pass_on(&mut self, info: &siginfo) {
        let signo = info.ssi_signo.cast_signed();
        let for_job = self.witness.takes(signo);
        let by_kernel = info.ssi_code > 0;
        let by_command = info.ssi_pid.cast_signed() == self.command.as_raw();
        match for_job {
            true if self.is_apart() => self.send_to_job(signo),
            true => {}
            false if by_kernel || by_command => {}
            false => self.send(signo),
        }
    }

    /// Whether the command has left the job's process group.
    fn is_apart(&self) -> bool {
        nix::unistd::getpgid(Some(self.command)).is_ok_and(|group| group != getpgrp())
    }

    /// Sends to the command, and to its process group if it leads one: without a process in between, that
    /// would be the job.
    fn send_to_job(&self, signo: i32) {
        let leads = nix::unistd::getpgid(Some(self.command)) == Ok(self.command);
        let target = if leads { -self.command.as_raw() } else { self.command.as_raw() };
        // SAFETY: no memory is touched. Our child's number, and the group's of that number, is no
        // other's until it is waited for.
        unsafe { libc::kill(target, signo) };
    }

    fn send(&self, signo: i32) {
        // SAFETY: no memory is touched. Our child's number is no other's until it is waited for; it
        // may have ended.
        unsafe { libc::kill(self.command.as_raw(), signo) };
    }

    /// Looks after the command; its exit status, once it has ended.
    fn look(&mut self) -> Option<ExitCode> {
        loop {
            let mut status = 0;
            let options = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED;
            // SAFETY: the status is written to a live integer.
            let found = unsafe { libc::waitpid(self.command.as_raw(), &raw mut status, options) };
            if found <= 0 {
                return None;
            }
            if libc::WIFEXITED(status) {
                self.witness.end();
                let code = u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(u8::MAX);
                return Some(ExitCode::from(code));
            }
            if libc::WIFSIGNALED(status) {
                self.witness.end();
                return Some(die_of(libc::WTERMSIG(status)));
            }
            if libc::WIFCONTINUED(status) {
                self.stop_after_all();
            } else if libc::WSTOPSIG(status) != libc::SIGSTOP {
                self.follow_into_stop(libc::WSTOPSIG(status));
            }
            // SIGSTOP is how allotd holds it.
        }
    }

    /// A stop that waits while allotd holds the command is lost when allotd lets it run: the
    /// kernel drops it.
    fn stop_after_all(&mut self) {
        let Some(stop) = self.stop else { return };
        self.send(stop as i32);
        if !stops_by_default(self.command, stop) {
            // Once: the command does with it as it likes.
            self.stop = None;
        }
    }

    /// Stops as the command was stopped, for the shell to see, until somebody continues the job.
    fn follow_into_stop(&mut self, signo: i32) {
        self.stop = None;
        if let Ok(signal) = Signal::try_from(signo) {
            // First raised, then unblocked: one that the job was sent waits too, and whoever
            // continues the job drops both.
            let _ = raise(signal);
            unblock(signal);
            let _ = SigSet::all().thread_block();
        }
        self.send_to_job(libc::SIGCONT);
    }
}

/// A process of the job that takes no signals. One that this process was sent waits there too if
/// it was sent to the whole job.
struct Witness(Option<Pid>);

impl Witness {
    /// Forks it. Call it with all signals blocked, after the command was forked.
    fn begin() -> io::Result<Witness> {
        let parent = nix::unistd::getpid();
        // SAFETY: this process has one thread, so nothing that the child uses is locked by another.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => Ok(Witness(Some(child))),
            ForkResult::Child => {
                let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
                if getppid() != parent {
                    std::process::exit(0);
                }
                let _ = nix::sys::prctl::set_name(c"allot-witness");
                // A pipe that the command has closed is to end for its reader.
                // SAFETY: nothing uses a descriptor from here on.
                unsafe { libc::close_range(0, libc::c_uint::MAX, 0) };
                loop {
                    nix::unistd::pause();
                }
            }
        }
    }

    /// Forks it; the command goes on where there can be no further process.
    fn or_none() -> Witness {
        Witness::begin().unwrap_or_else(|cause| {
            error::warn(&format!("signals may arrive twice: {cause}"));
            Witness(None)
        })
    }

    /// Whether a signal that this process has was sent to the job. The kernel gives a group's
    /// signal to the latest member first, so it is here by then.
    fn takes(&mut self, signo: i32) -> bool {
        let Some(pid) = self.0 else { return false };
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
        let has = status.is_ok_and(|status| in_set(&status, "ShdPnd:", signo) == Some(true));
        if has {
            // Another, without the signal.
            let fresh = Witness::or_none();
            std::mem::replace(self, fresh).end();
        }
        has
    }

    fn end(&mut self) {
        if let Some(pid) = self.0.take() {
            let _ = kill(pid, Signal::SIGKILL);
            let _ = nix::sys::wait::waitpid(pid, None);
        }
    }
}

/// Whether a line of /proc/PID/status has a signal in its set.
fn in_set(status: &str, field: &str, signo: i32) -> Option<bool> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let set = u64::from_str_radix(line.trim(), 16).ok()?;
    Some(set & (1 << (signo - 1)) != 0)
}

/// Whether a process neither ignores, handles nor blocks a signal.
fn stops_by_default(pid: Pid, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let has_not = |field| in_set(&status, field, signal as i32) == Some(false);
    ["SigBlk:", "SigIgn:", "SigCgt:"].into_iter().all(has_not)
}

/// Ends as the command was ended, without a core dump over the command's.
fn die_of(signo: i32) -> ExitCode {
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    take_default(signo);
    if let Ok(signal) = Signal::try_from(signo) {
        unblock(signal);
        let _ = raise(signal);
    }
    // A signal that has no name, as a shell tells it.
    ExitCode::from(u8::try_from(128 + signo).unwrap_or(u8::MAX))
}

fn take_default(signo: i32) {
    if let Ok(signal) = Signal::try_from(signo) {
        // SAFETY: no handler is installed.
        let _ = unsafe { nix::sys::signal::signal(signal, SigHandler::SigDfl) };
    }
}

fn unblock(signal: Signal) {
    let mut set = SigSet::empty();
    set.add(signal);
    let _ = set.thread_unblock();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_stat_is_parsed_whatever_the_command_is_called() {
        let standing = Standing::parse(b"12 (a) S 1 (b) S 7 12 5 34816 12 0 0").expect("a line");
        let Standing { parent, group, terminal, foreground } = standing;
        assert_eq!((parent, group, terminal, foreground), (7, 12, 34816, 12));
        assert!(Standing::parse(b"12 (a S 7").is_none());
    }
}
