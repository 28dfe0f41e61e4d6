//! The program itself: exit statuses, messages, the four utilities' names and ranges.

use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// The program, asking an allotd that is not there.
fn allot(arguments: &[&str]) -> Command {
    as_program(PathBuf::from(env!("CARGO_BIN_EXE_allot")), arguments)
}

fn as_program(program: PathBuf, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env("ALLOT_SOCKET", "/nonexistent/allotd.sock").stdin(Stdio::null());
    command.env_remove("NO_COLOR");
    command
}

fn output(command: &mut Command) -> Output {
    command.output().expect("the program can be started")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("messages are UTF-8")
}

#[track_caller]
fn refuses(arguments: &[&str], status: i32, says: &str) {
    let output = output(&mut allot(arguments));
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {message}");
    assert!(message.contains(says), "{arguments:?} says: {message}");
    assert!(message.starts_with("allot: "), "{arguments:?} says: {message}");
    assert!(output.stdout.is_empty(), "{arguments:?} writes {:?}", output.stdout);
}

#[test]
fn wrong_usage_ends_with_2() {
    refuses(&["nonsense"], 2, "unrecognized subcommand");
    refuses(&["fund", "a", "--from", "b"], 2, "required");
    refuses(&["fund", "a", "--from", "b", "--cpu", "-5"], 2, "negative");
    refuses(&["fund", "a", "--from", "b", "--cpu", "18446744073709551616"], 2, "too large");
    refuses(&["fund", "a", "--from", "b", "--cpu", "ten"], 2, "whole number");
    refuses(&["fund", "a", "--from", "b", "--disk", "sda"], 2, "NAME=N");
    refuses(&["adopt", "0"], 2, "not the number of a process");
    refuses(&["run"], 2, "COMMAND");
    refuses(&["nice"], 2, "COMMAND");
    refuses(&["nice", "--pid", "1", "--", "ls"], 2, "cannot be used with");
    refuses(&["--user", "--socket", "/x", "tree"], 2, "cannot be used with");
    refuses(&["top", "--interval", "0"], 2, "seconds");
    refuses(&["top"], 1, "cannot reach allotd");
    refuses(&["currency", "chown", "build", ":"], 2, "names nobody");
    refuses(&["currency", "chown", "build", "no-such-user"], 1, "no-such-user");
    refuses(&["currency", "grant", "build", "group:no-such-group", "f--"], 1, "no-such-group");
    refuses(&["lsetbase", "-u", "no-such-user", "500"], 1, "no-such-user");
}

#[test]
fn rights_may_begin_with_a_dash() {
    for arguments in [
        &["currency", "grant", "build", "root", "---"][..],
        &["currency", "grant", "build", "root", "-c-"],
        &["currency", "chmod", "build", "---------"],
        &["currency", "create", "build", "--mode", "---fci---"],
    ] {
        refuses(arguments, 1, "cannot reach allotd at /nonexistent/allotd.sock");
    }
}

#[test]
fn json_is_for_errors_too() {
    for (arguments, code, status) in [
        (&["--json", "tree"][..], "unreachable", 1),
        (&["fund", "--json"], "usage", 2),
        (&["run", "--json", "--", "true"], "unreachable", 125),
    ] {
        let output = output(&mut allot(arguments));
        assert_eq!(output.status.code(), Some(status), "{arguments:?}");
        let error: serde_json::Value =
            serde_json::from_slice(&output.stderr).expect("the error is JSON");
        assert_eq!(error["error"]["code"], code, "{arguments:?}");
        assert!(error["error"]["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
    // What belongs to the command that is run is not ours.
    let output = output(&mut allot(&["run", "--tickets", "x", "--", "ls", "--json"]));
    assert!(stderr(&output).starts_with("allot: "));
}

#[test]
fn a_command_is_not_run_without_an_allotd() {
    for utility in [&["run"][..], &["nice"], &["lnice"]] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let file = dir.path().join("made");
        let path = file.to_str().expect("a path in UTF-8");
        let output = output(&mut allot(&[utility, &["touch", path]].concat()));
        assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
        assert!(stderr(&output).contains("`touch` was not run"), "{}", stderr(&output));
        assert!(!file.exists(), "{utility:?} ran the command");
    }
}

#[test]
fn anyway_runs_it_and_has_its_status() {
    let run =
        |command: &[&str]| output(&mut allot(&[&["run", "--anyway", "--"], command].concat()));
    let said = run(&["sh", "-c", "echo out; exit 7"]);
    assert_eq!(said.status.code(), Some(7));
    assert_eq!(said.stdout, b"out\n");
    assert!(stderr(&said).contains("without allot"));
    assert_eq!(run(&["/no/such/program"]).status.code(), Some(127));
    assert_eq!(run(&["/dev/null"]).status.code(), Some(126));
}

#[test]
fn the_utilities_have_the_papers_ranges() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let call = |arguments: &[&str]| {
        let link = dir.path().join(arguments[0]);
        if !link.exists() {
            symlink(env!("CARGO_BIN_EXE_allot"), &link).expect("a link can be made");
        }
        let output = output(&mut as_program(link, &arguments[1..]));
        (output.status.code(), stderr(&output))
    };
    let usage = [
        &["lnice", "-p", "9", "true"][..],
        &["lnice", "-p", "10001", "true"],
        &["lnice", "-p", "-10", "true"],
        &["lnice"],
        &["lrenice", "1", "9"],
        &["lrenice", "1", "10001"],
        &["lrenice", "1"],
        &["lrenice", "0", "100"],
        &["lsetbase", "-u", "root", "99"],
        &["lsetbase", "-u", "root", "10001"],
        &["lsetbase", "500"],
        &["lsetbase", "-u", "root"],
        &["ltix"],
        &["ltix", "-u", "root", "-p", "1"],
        &["ltix", "-p", "x"],
    ];
    for arguments in usage {
        let (status, says) = call(arguments);
        assert_eq!(status, Some(2), "{arguments:?}: {says}");
    }
    let (_, says) = call(&["lnice", "-p", "9", "true"]);
    assert!(says.contains("10 (lowest) to 10000 (highest)"), "{says}");
    let (_, says) = call(&["lsetbase", "-u", "root", "99"]);
    assert!(says.contains("100 (lowest) to 10000 (highest)"), "{says}");
    // Within the range they go as far as to ask.
    for (arguments, expected) in [
        (&["lnice", "-p", "10", "true"][..], 125),
        (&["lnice", "-p", "10000", "true"], 125),
        (&["lnice", "true", "-p", "5"], 125),
        (&["lrenice", "1", "10"], 1),
        (&["lrenice", "1", "10000"], 1),
        (&["lsetbase", "-u", "root", "100"], 1),
        (&["lsetbase", "-u", "root", "10000"], 1),
        (&["ltix", "-u", "root"], 1),
        (&["ltix", "-p", "1"], 1),
    ] {
        let (status, says) = call(arguments);
        assert_eq!(status, Some(expected), "{arguments:?}: {says}");
        assert!(says.contains("cannot reach allotd"), "{arguments:?}: {says}");
    }
}

#[test]
fn a_reader_who_goes_is_no_error() {
    for arguments in [&["completions", "zsh"][..], &["--help"]] {
        let mut child = allot(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        drop(child.stdout.take());
        let mut says = String::new();
        let mut stderr = child.stderr.take().expect("standard error was piped");
        stderr.read_to_string(&mut says).expect("messages are UTF-8");
        let status = child.wait().expect("it ends");
        assert_eq!(says, "", "{arguments:?}");
        assert!(matches!(status.code(), Some(0 | 141)), "{arguments:?}: {status}");
    }
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let output = output(&mut allot(&["completions", shell]));
        assert!(output.status.success());
        let script = String::from_utf8(output.stdout).expect("a script is UTF-8");
        for word in ["currency", "unfund", "anyway"] {
            assert!(script.contains(word), "{shell} does not complete {word}");
        }
        assert!(!script.contains("workload"), "{shell} completes what is hidden");
    }
}

#[test]
fn a_command_that_is_another_program_says_where_it_was_sought() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let alone = dir.path().join("allot");
    std::fs::copy(env!("CARGO_BIN_EXE_allot"), &alone).expect("the program can be copied");
    let missing = output(as_program(alone.clone(), &["exp", "list"]).env("PATH", dir.path()));
    assert_eq!(missing.status.code(), Some(127));
    assert!(stderr(&missing).contains("allot-exp"), "{}", stderr(&missing));
    assert!(stderr(&missing).contains("make install"), "{}", stderr(&missing));
    let script = "#!/bin/sh\necho \"$0 $*\"; exit 3\n";
    let beside = dir.path().join("allot-exp");
    std::fs::write(&beside, script).expect("a file can be written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&beside, mode).expect("it can be made a program");
    let arguments = ["--socket", "/x", "exp", "--json", "run", "rre", "--live", "--help"];
    let ran = output(&mut as_program(alone, &arguments));
    let said = String::from_utf8(ran.stdout).expect("UTF-8");
    let beside = beside.display();
    assert_eq!(said, format!("{beside} --socket /x --json run rre --live --help\n"));
    assert_eq!(ran.status.code(), Some(3));
}
