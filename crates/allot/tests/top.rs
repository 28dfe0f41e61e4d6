//! `allot top` on a terminal: however that goes, it ends.

mod common;

use common::{Daemon, PATIENCE, Terminal};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// A view that stands.
fn top(daemon: &Daemon) -> Terminal {
    let mut terminal = Terminal::run(daemon.command(&["top"]));
    terminal.shows("q quit");
    terminal
}

#[track_caller]
fn ends(terminal: &mut Terminal) -> ExitStatus {
    let since = Instant::now();
    loop {
        if let Some(status) = terminal.leader.try_wait().expect("it can be waited for") {
            return status;
        }
        assert!(since.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn it_ends_when_its_terminal_is_gone() {
    let Some(daemon) = Daemon::start("it_ends_when_its_terminal_is_gone") else { return };
    let mut terminal = top(&daemon);
    terminal.hang_up();
    assert!(ends(&mut terminal).success());
}

/// nohup(1) does that: then nothing but the terminal itself tells that it is gone.
#[test]
fn it_ends_at_the_end_of_its_input_where_no_signal_says_so() {
    let Some(daemon) = Daemon::start("it_ends_at_the_end_of_its_input") else { return };
    let script = "trap '' HUP; \"$0\" top; echo $? >\"$1\"";
    let code = daemon.socket().with_file_name("code");
    let mut shell = daemon.command(&[]);
    shell = {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script]).arg(shell.get_program()).arg(&code);
        command.env("ALLOT_SOCKET", daemon.socket());
        command
    };
    let mut terminal = Terminal::run(shell);
    terminal.shows("q quit");
    terminal.hang_up();
    ends(&mut terminal);
    assert_eq!(std::fs::read_to_string(code).expect("top ended before its shell"), "0\n");
}

#[test]
fn it_ends_when_told_to_and_leaves_the_terminal_as_it_was() {
    let Some(daemon) = Daemon::start("it_ends_when_told_to") else { return };
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        let mut terminal = top(&daemon);
        let pid = Pid::from_raw(terminal.leader.id().cast_signed());
        kill(pid, signal).expect("it lives");
        // The other screen is left.
        terminal.shows("\u{1b}[?1049l");
        assert!(ends(&mut terminal).success(), "{signal}");
    }
    let mut terminal = top(&daemon);
    terminal.types("q");
    assert!(ends(&mut terminal).success());
}
