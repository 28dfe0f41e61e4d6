//! The commands against a real allotd that keeps a ledger and touches no process.

mod common;

use common::Daemon;
use std::process::{Child, Command, Stdio};

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

#[test]
fn a_log_in_a_file_has_no_codes_of_colours() {
    let Some(daemon) = Daemon::start("a_log_in_a_file_has_no_codes_of_colours") else { return };
    // It answers, so it has said that it listens.
    let log = daemon.log();
    assert!(log.contains("INFO listening"), "{log:?}");
    assert!(!log.contains('\x1b'), "{log:?}");
}

#[test]
fn doctor_says_nothing_twice_in_one_line() {
    let Some(daemon) = Daemon::start("doctor_says_nothing_twice_in_one_line") else { return };
    let doctor = daemon.json(&["doctor"]);
    let list = |name: &str, text: &str| -> Vec<String> {
        let all = doctor[name].as_array().expect("a list").iter();
        all.map(|one| one[text].as_str().expect("words").to_owned()).collect()
    };
    for line in list("resources", "why").into_iter().chain(list("checks", "says")) {
        let begin = |part: &str| part.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
        let mut parts: Vec<String> = line.split([':', ';']).map(begin).collect();
        parts.retain(|part| part.contains(' '));
        let all = parts.len();
        parts.sort();
        parts.dedup();
        assert_eq!(parts.len(), all, "{line}");
    }
}

#[test]
fn an_amount_of_memory_is_refused_where_no_memory_is_shared() {
    let test = "an_amount_of_memory_is_refused_where_no_memory_is_shared";
    let Some(daemon) = Daemon::start(test) else { return };
    daemon.says(&["currency", "create", "alice"]);
    daemon.refuses(&["fund", "alice", "--from", "base", "--memory", "1G"], "conflict");
}
