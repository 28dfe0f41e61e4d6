//! Real processes for tests to look at.
#![allow(dead_code, reason = "each test program uses a part of it")]

use allot_observe::{ProcessHandle, RunState};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Long enough for the busiest machine: reached only by a test that fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A process that does what it is told; it ends with this value.
pub struct Actor {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Actor {
    pub fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_observe-actor"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the actor starts");
        let commands = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        let mut actor = Self { child, commands, answers };
        assert_eq!(actor.answer(), "ready");
        actor
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn handle(&self) -> ProcessHandle {
        ProcessHandle::open(self.pid()).expect("the actor lives")
    }

    /// Gives a command and waits for its answer.
    pub fn tell(&mut self, command: &str) -> String {
        writeln!(self.commands.as_mut().expect("not ended"), "{command}").expect("it listens");
        self.answer()
    }

    pub fn tell_number(&mut self, command: &str) -> u64 {
        let answer = self.tell(command);
        answer.parse().unwrap_or_else(|_| panic!("{command} answered {answer:?}"))
    }

    pub fn tell_pid(&mut self, command: &str) -> u32 {
        u32::try_from(self.tell_number(command)).expect("a pid")
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer");
        line.trim_end().to_owned()
    }

    /// Ends the process and reaps it.
    pub fn end(&mut self) {
        self.commands = None;
        self.child.wait().expect("it ends");
    }

    /// Ends the process; it is not reaped before `end`.
    pub fn end_unreaped(&mut self) {
        self.commands = None;
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.commands = None;
        let _ = self.child.wait();
    }
}

/// Looks again and again until the condition holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn until_state(handle: &ProcessHandle, state: RunState) {
    until(&format!("{} is {state:?}", handle.identity()), || {
        handle.run_state().expect("a state") == state
    });
}

/// Told to the test runner, which counts such lines.
pub fn skip(test: &str, reason: &str) {
    eprintln!("SKIP {test}: {reason}");
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
