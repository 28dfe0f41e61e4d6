//! The journal against the death of its process and a failing sync. Runs itself as the process
//! that dies, so it is its own harness.

mod common;

use allot_journal::{Journal, JournalError, Keep};
use common::{BOOT, Workload, fingerprint, from_environment, seed};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const SMALL: Keep = Keep { entries: 50, snapshot_after: 40, ..Keep::DEFAULT };

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("child:append") => return append_for_ever(&arguments[2], &arguments[3]),
        Some("child:once") => return append_once(&arguments[2]),
        _ => (),
    }
    let tests: [(&str, fn()); 2] = [
        ("kills_lose_nothing_acknowledged", kills_lose_nothing_acknowledged),
        ("a_failed_sync_is_unknown_and_settled", a_failed_sync_is_unknown_and_settled),
    ];
    // What libtest answers, for the tools that ask.
    if arguments.iter().any(|argument| argument == "--list") {
        let none_is_ignored = arguments.iter().all(|argument| argument != "--ignored");
        tests.iter().filter(|_| none_is_ignored).for_each(|(name, _)| println!("{name}: test"));
        return;
    }
    let filter = arguments[1..].iter().find(|argument| !argument.starts_with('-'));
    let chosen = tests.iter().filter(|(name, _)| filter.is_none_or(|part| name.contains(part)));
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in chosen {
        let ok = std::panic::catch_unwind(test).is_ok();
        println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
        *(if ok { &mut passed } else { &mut failed }) += 1;
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {passed} passed; {failed} failed; 0 ignored");
    std::process::exit(i32::from(failed > 0));
}

/// Says `try LAST FINGERPRINT` before each commit and `ack LAST` after it.
fn append_for_ever(dir: &str, seed: &str) {
    let mut work = Workload::new(seed.parse().unwrap());
    let (mut journal, recovered) =
        Journal::open_keeping(Path::new(dir), BOOT, 0, 0, SMALL).unwrap();
    let mut ledger = recovered.ledger;
    let mut out = std::io::stdout().lock();
    let mut say = |line: String| out.write_all(line.as_bytes()).unwrap();
    say(format!("ack {}\n", recovered.sequence));
    loop {
        let mut batch = journal.begin().unwrap();
        let mut last = 0;
        for _ in 0..1 + work.below(50) {
            let done = work.step(&mut ledger);
            last = batch.append(1, &done.authority, &done.intent, &done.changes).unwrap();
        }
        say(format!("try {last} {}\n", fingerprint(&ledger)));
        batch.commit().unwrap();
        say(format!("ack {last}\n"));
        journal.snapshot_if_due(&ledger).unwrap();
    }
}

fn kills_lose_nothing_acknowledged() {
    let seed = seed("kills_lose_nothing_acknowledged");
    let rounds = from_environment("ALLOT_KILLS", 60);
    let mut dice = Workload::new(seed);
    let mut dir = tempfile::tempdir().unwrap();
    // The states that the journal may be in: the last acknowledged, and the one being written.
    let mut acknowledged = (0, None);
    let (mut acknowledgements, mut in_doubt_kept, mut awaited) = (0, 0, 0);
    for round in 0..rounds {
        if round % 20 == 19 {
            // Dying while a journal is begun is worth more than one try.
            dir = tempfile::tempdir().unwrap();
            acknowledged = (0, None);
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child:append", dir.path().to_str().unwrap(), &(seed + round).to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = BufReader::new(child.stdout.take().unwrap());
        let (heard, acknowledging) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let (mut said, mut last) = (String::new(), 0);
            while pipe.read_line(&mut said).unwrap() > 0 {
                if said[last..].starts_with("ack") {
                    // Nobody listens to the last ones.
                    let _ = heard.send(());
                }
                last = said.len();
            }
            said
        });
        // Every third dies whatever it does, most while they open the journal; the others after some batches, however
        // slow the machine is.
        if round % 3 > 0 {
            // The first is of what it found.
            for _ in 0..2 + dice.below(6) {
                let patience = Duration::from_secs(60);
                acknowledging.recv_timeout(patience).expect("another batch");
            }
            awaited += 1;
        }
        let most_us = if round % 3 > 0 { 10_000 } else { 80_000 };
        std::thread::sleep(Duration::from_micros(dice.below(most_us) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        let said = reader.join().unwrap();
        let mut tried: Option<(u64, String)> = None;
        for line in said.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let words: Vec<&str> = line.split(' ').collect();
            let last = words[1].parse().unwrap();
            match (words[0], tried.take()) {
                ("try", _) => tried = Some((last, words[2].to_owned())),
                ("ack", Some((number, state))) => {
                    assert_eq!(number, last);
                    acknowledged = (last, Some(state));
                    acknowledgements += 1;
                }
                ("ack", None) => assert_eq!(last, acknowledged.0, "the child read another state"),
                _ => panic!("the child said {line}"),
            }
        }
        let opened = Journal::open_keeping(dir.path(), BOOT, 0, 0, SMALL);
        let (journal, recovered) = opened.unwrap_or_else(|error| panic!("round {round}: {error}"));
        let state = fingerprint(&recovered.ledger);
        let expected = match &tried {
            Some((last, tried)) if *last == recovered.sequence => {
                in_doubt_kept += 1;
                Some(tried.clone())
            }
            _ => acknowledged.1.clone(),
        };
        if let Some(expected) = &expected {
            assert_eq!(&state, expected, "round {round}: another ledger");
        }
        let last = tried.filter(|(last, _)| *last == recovered.sequence);
        let last = last.map_or(acknowledged.0, |(last, _)| last);
        assert_eq!(recovered.sequence, last, "round {round}: acknowledged entries are missing");
        assert_eq!(journal.entries(0, usize::MAX).unwrap().last().map_or(0, |e| e.sequence), last);
        acknowledged = (recovered.sequence, Some(state));
    }
    eprintln!("{rounds} kills, {acknowledgements} batches acknowledged, {in_doubt_kept} in doubt");
    assert!(acknowledgements >= awaited, "{awaited} were let do something");
}

/// Appends five at once until a commit fails, says what came of it, and settles it.
fn append_once(dir: &str) {
    let mut work = Workload::new(5);
    let (mut journal, recovered) = Journal::open(Path::new(dir), BOOT, 0, 0).unwrap();
    let mut ledger = recovered.ledger;
    let before = ledger.clone();
    println!("ready");
    // The parent lets syncs fail from some moment on, and asks until they do.
    let probe = tempfile::tempfile().unwrap();
    let mut line = String::new();
    loop {
        line.clear();
        std::io::stdin().read_line(&mut line).unwrap();
        if line != "probe\n" {
            break;
        }
        println!("{}", if probe.sync_all().is_ok() { "syncs" } else { "fails" });
    }
    let error = work.batch(&mut journal, &mut ledger, 5).unwrap_err();
    let JournalError::Unknown { first, last, .. } = error else { panic!("{error}") };
    let stopped = work.batch(&mut journal, &mut ledger.clone(), 1).unwrap_err();
    assert!(matches!(stopped, JournalError::Stopped { .. }), "{stopped}");
    // As long as syncs fail, it cannot be settled either.
    let unsettled = journal.reopen().unwrap_err();
    println!("unknown {first} {last} ({unsettled})");
    line.clear();
    std::io::stdin().read_line(&mut line).unwrap();
    let settled = journal.reopen().unwrap();
    let whole = match settled.sequence {
        0 => before,
        5 => ledger,
        other => panic!("half a batch: {other}"),
    };
    assert_eq!(fingerprint(&settled.ledger), fingerprint(&whole));
    let mut ledger = settled.ledger;
    let last = work.batch(&mut journal, &mut ledger, 3).unwrap();
    println!("settled {} {last} {}", settled.sequence, fingerprint(&ledger));
}

fn a_failed_sync_is_unknown_and_settled() {
    let name = "a_failed_sync_is_unknown_and_settled";
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child:once", dir.path().to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut into = child.stdin.take().unwrap();
    assert_eq!(out.next().unwrap().unwrap(), "ready");
    let inject = "inject=fsync,fdatasync:error=EIO";
    let pid = child.id().to_string();
    let tracer = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", inject])
        .args(["-p", &pid])
        .stderr(Stdio::null())
        .spawn();
    let mut tracer = match tracer {
        Ok(tracer) => tracer,
        Err(error) => {
            eprintln!("SKIP {name}: strace cannot be run: {error}");
            drop(into);
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
    };
    let mut fails = || {
        into.write_all(b"probe\n").unwrap();
        out.next().unwrap().unwrap() == "fails"
    };
    if !injected(&mut tracer, &mut fails) {
        eprintln!("SKIP {name}: strace may not trace a process here");
        let _ = child.kill();
        let _ = child.wait();
        return;
    }
    into.write_all(b"go\n").unwrap();
    let unknown = out.next().unwrap().unwrap();
    assert!(unknown.starts_with("unknown 1 5"), "{unknown}");
    // SIGTERM: strace lets go of the process and ends.
    // SAFETY: sends a signal to a child of ours that is not yet waited for.
    assert_eq!(unsafe { libc::kill(tracer.id() as i32, libc::SIGTERM) }, 0);
    tracer.wait().unwrap();
    into.write_all(b"go\n").unwrap();
    let settled = out.next().unwrap().unwrap();
    assert!(child.wait().unwrap().success());
    let words: Vec<&str> = settled.split(' ').collect();
    let (_, recovered) = Journal::open(dir.path(), BOOT, 0, 0).unwrap();
    assert_eq!(recovered.sequence.to_string(), words[2]);
    assert_eq!(fingerprint(&recovered.ledger), words[3]);
}

/// Waits until syncs fail by the tracer's doing; false if the tracer ended instead.
fn injected(tracer: &mut std::process::Child, fails: &mut dyn FnMut() -> bool) -> bool {
    while !fails() {
        if tracer.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}
