//! The program `allot-exp`: exit statuses, messages, what it lists.

use std::io::Read;
use std::process::{Command, Output, Stdio};

fn allot_exp(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_allot-exp"));
    command.args(arguments).stdin(Stdio::null()).env_remove("NO_COLOR");
    command
}

fn output(command: &mut Command) -> Output {
    command.output().expect("the program can be started")
}

#[test]
fn wrong_usage_ends_with_2() {
    for arguments in [&["run", "no-such-experiment"][..], &["run"], &["nonsense"], &[]] {
        let refused = output(&mut allot_exp(arguments));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.starts_with("allot: "), "{arguments:?}: {said}");
        assert!(refused.stdout.is_empty(), "{arguments:?}");
    }
    let refused = output(&mut allot_exp(&["run", "no-such-experiment"]));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("cpu-hierarchy"), "{said}");
    let refused = output(&mut allot_exp(&["--json", "run", "no-such-experiment"]));
    let error: serde_json::Value = serde_json::from_slice(&refused.stderr).expect("JSON");
    assert!(error["error"]["code"].is_string(), "{error}");
}

#[test]
fn a_reader_who_goes_is_no_error() {
    let mut command = allot_exp(&["list"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    drop(child.stdout.take());
    let mut said = String::new();
    let mut stderr = child.stderr.take().expect("standard error was piped");
    stderr.read_to_string(&mut said).expect("messages are UTF-8");
    let status = child.wait().expect("it ends");
    assert_eq!(said, "");
    assert!(matches!(status.code(), Some(0 | 141)), "{status}");
}

/// `allot completions` knows the commands of this program from what it says of itself.
#[test]
fn it_describes_its_arguments() {
    let done = output(&mut allot_exp(&["--definition"]));
    let text = String::from_utf8(done.stdout).expect("UTF-8");
    for word in ["quantum-ms", "simulate", "list"] {
        assert!(text.contains(word), "{text}");
    }
    assert!(!text.contains("workload"), "what is hidden is not completed: {text}");
}

#[test]
fn experiments_are_listed() {
    let output = output(&mut allot_exp(&["list", "--json"]));
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let names: Vec<_> =
        list.as_array().expect("a list").iter().filter_map(|one| one["name"].as_str()).collect();
    let anywhere = ["cpu-hierarchy", "rre", "insulation", "nice"];
    let in_the_kernel = ["latency", "compile", "spawn", "inversion", "mtr-ls"];
    assert_eq!(names[..9], [&anywhere[..], &in_the_kernel[..]].concat());
    for one in list.as_array().expect("a list") {
        let ways: Vec<_> = one["runs"].as_array().expect("ways").iter().collect();
        assert!(!ways.is_empty(), "{one}");
        let simulated = ways.contains(&&serde_json::Value::from("simulated"));
        assert_eq!(simulated, one["usual_seconds_simulated"].is_number(), "{one}");
    }
    for shares in ["memory-shares", "disk-shares", "disk-queue-depth"] {
        assert!(names.contains(&shares), "{names:?}");
    }
}

#[test]
fn simulating_takes_no_allotd() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("out");
    let out = out.to_str().expect("a path");
    let args = ["run", "disk-shares", "--simulate", "--seconds", "20", "--out", out];
    let done = output(&mut allot_exp(&args));
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(dir.path().join("out/report.json").is_file());
    let refused = output(&mut allot_exp(&[&["--socket", "/nowhere"][..], &args].concat()));
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("leave out --socket"), "{said}");
    let live = output(&mut allot_exp(&["run", "rre", "--simulate"]));
    assert_eq!(live.status.code(), Some(2));
}
