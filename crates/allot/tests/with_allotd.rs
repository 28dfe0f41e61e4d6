//! The commands against a real allotd that keeps a ledger and touches no process.

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A private allotd of its own, gone when this is dropped.
struct Daemon {
    process: Child,
    dir: tempfile::TempDir,
}

impl Daemon {
    fn socket(&self) -> PathBuf {
        self.dir.path().join("allotd.sock")
    }

    /// Starts one; none where there is no program to start.
    fn start(test: &str) -> Option<Daemon> {
        let beside = Path::new(env!("CARGO_BIN_EXE_allot")).with_file_name("allotd");
        let program = std::env::var_os("ALLOTD").map_or(beside, PathBuf::from);
        if !program.is_file() {
            let line = format!("SKIP {test}: {} has not been built\n", program.display());
            std::io::stderr().write_all(line.as_bytes()).expect("standard error is open");
            return None;
        }
        let dir = tempfile::tempdir().expect("a temporary directory");
        let process = Command::new(program)
            .args(["--user", "--enforcer", "none", "--with-parent", "--state-dir"])
            .arg(dir.path().join("state"))
            .arg("--socket")
            .arg(dir.path().join("allotd.sock"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
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

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_allot"));
        command.args(arguments).env("ALLOT_SOCKET", self.socket()).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("allot can be started")
    }

    #[track_caller]
    fn says(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        String::from_utf8(output.stdout).expect("output is UTF-8")
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.says(&[&["--json"], arguments].concat())).expect("JSON")
    }

    #[track_caller]
    fn refuses(&self, arguments: &[&str], code: &str) {
        let output = self.run(&[&["--json"], arguments].concat());
        let error: Value = serde_json::from_slice(&output.stderr).expect("the error is JSON");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert_eq!(error["error"]["code"], code, "{arguments:?}: {error}");
    }

    /// Runs a command that waits for its standard input to end, and waits until its process is
    /// the command's.
    fn waiting(&self, arguments: &[&str]) -> Child {
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
    fn tickets(&self, pid: u32) -> Vec<(u64, String, u64)> {
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

/// Lets a waiting command end.
fn end(mut child: Child) -> Option<i32> {
    drop(child.stdin.take());
    child.wait().expect("it ends").code()
}

fn soft(issuer: u64, amount: u64) -> (u64, String, u64) {
    (issuer, "soft".to_owned(), amount)
}

#[test]
fn run_becomes_a_client_and_then_the_command() {
    let Some(daemon) = Daemon::start("run_becomes_a_client_and_then_the_command") else { return };
    let child = daemon.waiting(&["run", "--tickets", "300", "--"]);
    assert_eq!(daemon.tickets(child.id()), [soft(0, 300)], "the same process, no parent between");
    assert_eq!(end(child), Some(0));
    let output = daemon.run(&["run", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(
        (output.stdout.as_slice(), output.stderr.as_slice()),
        (&b"out\n"[..], &b"err\n"[..])
    );
    assert_eq!(daemon.run(&["run", "--", "/no/such/program"]).status.code(), Some(127));
    assert_eq!(daemon.run(&["run", "--", "/dev/null"]).status.code(), Some(126));
    assert_eq!(daemon.run(&["run", "--from", "nobody", "--", "true"]).status.code(), Some(125));
}

#[test]
fn a_client_that_runs_a_command_is_funded_anew() {
    let Some(daemon) = Daemon::start("a_client_that_runs_a_command_is_funded_anew") else { return };
    daemon.says(&["currency", "create", "build"]);
    daemon.says(&["fund", "build", "--from", "base", "--cpu", "500"]);
    let own = env!("CARGO_BIN_EXE_allot");
    // Processes that are clients already: the shell becomes allot, which becomes cat.
    let nested = |arguments: &str| {
        daemon.waiting(&[
            "run",
            "-t",
            "40",
            "--",
            "sh",
            "-c",
            &format!("exec {own} {arguments} cat"),
        ])
    };
    let child = nested("lnice -p 77");
    assert_eq!(daemon.tickets(child.id()), [soft(0, 77)]);
    end(child);
    let child = nested("lnice");
    assert_eq!(daemon.tickets(child.id()), [soft(0, 1000)], "the default");
    end(child);
    let child = nested("run --");
    assert_eq!(daemon.tickets(child.id()), [soft(0, 40)], "nothing was asked");
    end(child);
    let child = nested("run --from build --hard 200 --");
    assert_eq!(daemon.tickets(child.id()), [(1, "hard".to_owned(), 200)]);
    end(child);
}

#[test]
fn currencies_from_birth_to_end() {
    let Some(daemon) = Daemon::start("currencies_from_birth_to_end") else { return };
    assert_eq!(
        daemon.says(&["currency", "create", "build", "--mode", "fci--i---"]),
        "currency build is #1\n"
    );
    assert_eq!(
        daemon.says(&["fund", "build", "--from", "base", "--cpu", "500", "--memory", "70"]),
        ""
    );
    assert_eq!(daemon.says(&["fund", "build", "--from", "base", "--cpu", "200", "--hard"]), "");
    let shown = daemon.json(&["currency", "show", "build"]);
    assert_eq!(shown["held"].as_array().map(Vec::len), Some(3));
    assert_eq!(shown["currency"]["mode"], "fci--i---");
    daemon.says(&["currency", "chmod", "build", "---------"]);
    daemon.says(&["currency", "grant", "build", "root", "f-i"]);
    let shown = daemon.json(&["currency", "show", "build"]);
    assert_eq!(shown["currency"]["mode"], "---------");
    assert_eq!(shown["currency"]["grants"][0]["to"], "uid:0");
    daemon.says(&["currency", "grant", "build", "root", "---"]);
    let shown = daemon.json(&["currency", "show", "build"]);
    assert_eq!(shown["currency"]["grants"].as_array().map(Vec::len), Some(0));
    daemon.says(&["currency", "chmod", "build", "fci------"]);
    daemon.says(&["unfund", "build", "--from", "base", "--hard"]);
    daemon.says(&[
        "unfund",
        "build",
        "--from",
        "base",
        "--resource",
        "cpu",
        "--resource",
        "memory",
    ]);
    assert!(daemon.says(&["tree"]).contains("without tickets:"));
    daemon.says(&["currency", "destroy", "build"]);
    daemon.refuses(&["currency", "show", "build"], "unknown");
}

#[test]
fn refusals_change_nothing() {
    let Some(daemon) = Daemon::start("refusals_change_nothing") else { return };
    daemon.says(&["currency", "create", "a"]);
    daemon.says(&["currency", "create", "b"]);
    daemon.says(&["fund", "a", "--from", "base", "--cpu", "1"]);
    daemon.says(&["fund", "b", "--from", "a", "--cpu", "1"]);
    let before = daemon.says(&["--json", "tree"]);
    daemon.refuses(&["fund", "a", "--from", "b", "--cpu", "1"], "cycle");
    daemon.refuses(&["fund", "a", "--from", "base", "--cpu", "1000000001"], "invalid");
    daemon.refuses(&["fund", "b", "--from", "a", "--cpu", "1001", "--hard"], "limit");
    daemon.refuses(&["fund", "b", "--from", "nobody", "--cpu", "1"], "unknown");
    daemon.refuses(&["fund", "b", "--from", "a", "--cpu", "7", "--disk", "s/a=1"], "invalid");
    daemon.refuses(&["currency", "create", "a"], "conflict");
    daemon.refuses(&["currency", "chmod", "a", "fci"], "invalid");
    daemon.refuses(&["currency", "destroy", "a"], "conflict");
    daemon.refuses(&["release", "1"], "unknown");
    daemon.refuses(&["lrenice", "1", "500"], "unknown");
    daemon.refuses(&["adopt", "2147483647"], "unknown");
    daemon.refuses(&["ltix", "-p", "1"], "unknown");
    assert_eq!(daemon.says(&["--json", "tree"]), before);
}

#[test]
fn processes_that_run_already() {
    let Some(daemon) = Daemon::start("processes_that_run_already") else { return };
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat can be started");
    let pid = child.id().to_string();
    assert_eq!(
        daemon.says(&["adopt", &pid, "--tickets", "30"]),
        format!("process {pid} is client #1\n")
    );
    assert_eq!(daemon.says(&["ltix", "-p", &pid]), "30\n");
    daemon.refuses(&["adopt", &pid], "conflict");
    daemon.says(&["lrenice", &pid, "10000"]);
    assert_eq!(daemon.says(&["ltix", "-p", &pid]), "10000\n");
    daemon.says(&["fund", &format!("pid:{pid}"), "--from", "base", "--cpu", "0"]);
    assert!(daemon.says(&["tree"]).contains("frozen"));
    daemon.says(&["release", &pid]);
    daemon.refuses(&["ltix", "-p", &pid], "unknown");
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success(), "nobody stopped it");
}

#[test]
fn what_is_shown() {
    let Some(daemon) = Daemon::start("what_is_shown") else { return };
    let child = daemon.waiting(&["run", "--"]);
    assert!(daemon.says(&["status"]).contains("private"));
    assert_eq!(daemon.json(&["status"])["clients"], 1);
    assert!(daemon.says(&["doctor"]).contains("RESOURCE"));
    assert!(daemon.json(&["doctor"])["checks"].is_array());
    // Its name comes when allotd hears of its exec.
    let shown = format!("cat {}", child.id());
    let begun = std::time::Instant::now();
    while !daemon.says(&["tree"]).contains(&shown) {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "no {shown}");
    }
    assert!(daemon.says(&["currency", "show"]).contains("base"));
    assert!(daemon.says(&["events"]).contains(&format!("pid {} adopted", child.id())));
    assert_eq!(daemon.says(&["events", "--after", "1"]), "");
    assert!(daemon.says(&["top", "--once", "--interval", "0.1"]).contains("MEASURED"));
    assert!(daemon.json(&["top", "--once", "--interval", "0.1"])["clients"].is_array());
    let output = daemon.run(&["top"]);
    assert_eq!(output.status.code(), Some(2), "no terminal to draw on");
    assert_eq!(end(child), Some(0));
}
