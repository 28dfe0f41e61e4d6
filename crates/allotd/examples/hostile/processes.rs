//! Tricks that processes play: to run while they are held, to be too many, too short-lived, or nobody's.

use super::Trick;
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};
use wire::{Client, Operation};

pub const TRICKS: [Trick; 10] = [
    ("hog", hog),
    ("continue", continue_blindly),
    ("answer-stops", answer_stops),
    ("trace", trace),
    ("terminal", terminal),
    ("chain", chain),
    ("forks", forks),
    ("sleepers", sleepers),
    ("escape", escape),
    ("gone", gone),
];

/// Idle processes of the trick of that name: `ALLOT_HOSTILE_SLEEPERS`.
const SLEEPERS: usize = 100;

fn hog(_: &Path) {
    burn_until(|| false);
}

fn burn_until(done: impl Fn() -> bool) {
    while !done() {
        (0..20_000_u64).for_each(|number| {
            black_box(number);
        });
    }
}

/// A child that does something and ends.
fn child(act: impl FnOnce()) -> Pid {
    loop {
        // SAFETY: this program has one thread wherever it forks.
        match unsafe { fork() } {
            Ok(ForkResult::Parent { child }) => return child,
            Ok(ForkResult::Child) => break,
            // As many as a user may have.
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    act();
    std::process::exit(0);
}

/// A hog that somebody else sends SIGCONT all the time.
fn continue_blindly(socket: &Path) {
    let hog = child(|| hog(socket));
    while kill(hog, Signal::SIGCONT).is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A parent that answers each stop of its child.
fn answer_stops(socket: &Path) {
    let hog = child(|| hog(socket));
    while let Ok(WaitStatus::Stopped(..)) = waitpid(hog, Some(WaitPidFlag::WUNTRACED)) {
        let _ = kill(hog, Signal::SIGCONT);
    }
}

/// A tracer that lets no stop through.
fn trace(socket: &Path) {
    let none = std::ptr::null_mut::<libc::c_void>();
    let hog = child(|| {
        // SAFETY: asks to be traced by the parent; no memory is involved.
        unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, none, none) };
        let _ = kill(Pid::this(), Signal::SIGSTOP);
        hog(socket);
    });
    while let Ok(status) = waitpid(hog, None) {
        let WaitStatus::Stopped(_, signal) = status else { return };
        let passed = if signal == Signal::SIGSTOP { 0 } else { signal as usize };
        // SAFETY: continues a child that this process traces; the last argument is a number.
        unsafe { libc::ptrace(libc::PTRACE_CONT, hog.as_raw(), none, passed) };
    }
}

/// A shell's foreground job on a terminal of its own.
fn terminal(socket: &Path) {
    let leader = child(|| {
        nix::unistd::setsid().expect("a session");
        let pty = nix::pty::openpty(None, None).expect("a terminal");
        // SAFETY: takes the terminal, an open descriptor, as the session's; the argument is a number.
        unsafe { libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(&pty.slave), libc::TIOCSCTTY, 0) };
        let job = child(|| {
            let own = Pid::this();
            let _ = nix::unistd::setpgid(own, own);
            // SAFETY: what happens to a background job that asks for the terminal is ignored; nothing is called.
            let ignored = unsafe {
                nix::sys::signal::signal(Signal::SIGTTOU, nix::sys::signal::SigHandler::SigIgn)
            };
            ignored.expect("a signal");
            let _ = nix::unistd::tcsetpgrp(&pty.slave, own);
            hog(socket);
        });
        let _ = waitpid(job, None);
    });
    let _ = waitpid(leader, None);
}

/// Nobody lives long enough to be held: every 4 ms the hog leaves a successor and ends.
fn chain(_: &Path) {
    loop {
        let began = Instant::now();
        burn_until(|| began.elapsed() >= Duration::from_millis(4));
        // SAFETY: this program has one thread.
        if let Ok(ForkResult::Parent { .. }) = unsafe { fork() } {
            std::process::exit(0);
        }
    }
}

/// A fork storm.
fn forks(_: &Path) {
    loop {
        let born: Vec<Pid> = (0..20).map(|_| child(|| {})).collect();
        for child in born {
            let _ = waitpid(child, None);
        }
    }
}

fn sleepers(_: &Path) {
    let asked = std::env::var("ALLOT_HOSTILE_SLEEPERS").ok().and_then(|text| text.parse().ok());
    for _ in 0..asked.unwrap_or(SLEEPERS) {
        child(sleep_for_ever);
    }
    sleep_for_ever();
}

fn sleep_for_ever() {
    loop {
        nix::unistd::pause();
    }
}

/// Adopts and releases a child in one batch, before its birth is told.
fn escape(socket: &Path) {
    let client = Client::new(socket);
    loop {
        let born = child(|| std::thread::sleep(Duration::from_millis(50)));
        let pid = born.as_raw() as u32;
        let adopt =
            Operation::Adopt { pid: Some(pid), start_time_ticks: None, from: None, funding: None };
        let release = Operation::Release { client: format!("pid:{pid}").into() };
        if client.operate_all(vec![adopt, release]).is_ok() {
            println!("escaped: {pid}");
        }
        let _ = waitpid(born, None);
    }
}

/// Names processes that are about to go, or are gone.
fn gone(socket: &Path) {
    let client = Client::new(socket);
    loop {
        let born = child(|| {});
        let pid = born.as_raw() as u32;
        let _ = client.operate(Operation::SetTickets { pid, amount: 0 });
        let _ = waitpid(born, None);
        let _ = client.operate(Operation::SetTickets { pid, amount: 1 });
    }
}
