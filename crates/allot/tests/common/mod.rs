//! Shared by the tests of the command line: an allotd of their own, and a terminal.

// Not every test uses all of it.
#![allow(dead_code, unused_imports)]

mod terminal;

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
pub use terminal::Terminal;

/// How long anything may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A private allotd of its own, gone when this is dropped.
pub struct Daemon {
    process: Child,
    dir: tempfile::TempDir,
}

impl Daemon {
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("allotd.sock")
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).expect("the log is UTF-8")
    }

    /// Starts one; none where there is no program to start.
    pub fn start(test: &str) -> Option<Daemon> {
        Daemon::start_with(test, &["--enforcer", "none"])
    }

    /// Starts one with options of the test's own.
    pub fn start_with(test: &str, options: &[&str]) -> Option<Daemon> {
        let beside = Path::new(env!("CARGO_BIN_EXE_allot")).with_file_name("allotd");
        let program = std::env::var_os("ALLOTD").map_or(beside, PathBuf::from);
        if !program.is_file() {
            let line = format!("SKIP {test}: {} has not been built\n", program.display());
            std::io::stderr().write_all(line.as_bytes()).expect("standard error is open");
            return None;
        }
        let dir = tempfile::tempdir().expect("a temporary directory");
        let process = Command::new(program)
            .args(["--user", "--with-parent"])
            .args(options)
            .arg("--state-dir")
            .arg(dir.path().join("state"))
            .arg("--socket")
            .arg(dir.path().join("allotd.sock"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(dir.path().join("log")).expect("a log"))
            .spawn()
            .expect("allotd can be started");
        let daemon = Daemon { process, dir };
        let since = Instant::now();
        while !daemon.run(&["status"]).status.success() {
            assert!(since.elapsed() < PATIENCE, "allotd does not answer");
            sleep(Duration::from_millis(50));
        }
        Some(daemon)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_allot"));
        command.args(arguments).env("ALLOT_SOCKET", self.socket()).stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("allot can be started")
    }

    #[track_caller]
    pub fn says(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        String::from_utf8(output.stdout).expect("output is UTF-8")
    }

    #[track_caller]
    pub fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.says(&[&["--json"], arguments].concat())).expect("JSON")
    }

    #[track_caller]
    pub fn refuses(&self, arguments: &[&str], code: &str) {
        let output = self.run(&[&["--json"], arguments].concat());
        let error: Value = serde_json::from_slice(&output.stderr).expect("the error is JSON");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert_eq!(error["error"]["code"], code, "{arguments:?}: {error}");
    }

    /// Runs a command that waits for its standard input to end, and waits until its process is
    /// the command's.
    pub fn waiting(&self, arguments: &[&str]) -> Child {
        let child = self
            .command(&[arguments, &["cat"]].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("allot can be started");
        let comm = format!("/proc/{}/comm", child.id());
        let since = Instant::now();
        while std::fs::read_to_string(&comm).unwrap_or_default() != "cat\n" {
            assert!(since.elapsed() < PATIENCE, "{arguments:?} did not become its command");
            sleep(Duration::from_millis(20));
        }
        child
    }

    /// The tickets that a process's client holds: issuer, kind, amount.
    pub fn tickets(&self, pid: u32) -> Vec<(u64, String, u64)> {
        let shown = self.json(&["currency", "show", &format!("pid:{pid}")]);
        let held = shown["held"].as_array().expect("a list").iter();
        held.map(|ticket| {
            let kind = ticket["kind"].as_str().expect("a kind").to_owned();
            let number = |name: &str| ticket[name].as_u64().expect("a number");
            (number("issuer"), kind, number("amount"))
        })
        .collect()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
