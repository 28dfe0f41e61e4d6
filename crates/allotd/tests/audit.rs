//! The audit: who changed what is found whatever happens to processes, and however allotd ends.

mod common;

use common::{Daemon, SOMEBODY, Worker, as_user, may_switch_users, wait_for};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use wire::{Event, Operation};

fn create(name: &str) -> Operation {
    Operation::CreateCurrency { name: name.to_owned(), owner: None, group: None, mode: None }
}

fn texts(daemon: &Daemon) -> Vec<String> {
    let audit = daemon.client().audit(0).expect("it answers");
    let events: Vec<Event> = audit.map(|event| event.expect("an event")).collect();
    assert!(events.iter().all(|event| event.uid.is_some()), "{events:?}");
    events.into_iter().map(|event| event.text).collect()
}

fn file(daemon: &Daemon) -> PathBuf {
    let list = std::fs::read_dir(daemon.state_dir().join("audit")).expect("a directory");
    let mut paths: Vec<PathBuf> = list.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.pop().expect("a file")
}

#[test]
fn it_has_what_people_did_and_nothing_else() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let client = daemon.client();
    client.operate(create("first")).expect("made");
    let adopt = |pid| Operation::Adopt {
        pid: Some(pid),
        start_time_ticks: None,
        from: None,
        funding: None,
    };
    let worker = Worker::idle(0);
    client.operate(adopt(worker.pid())).expect("adopted");
    // Its end is an event, and nobody's doing.
    drop(worker);
    wait_for("the exit", || {
        let kept = client.past_events(None).expect("it answers");
        kept.map(|event| event.expect("an event")).any(|event| event.text.contains("exited"))
    });
    client.operate(create("second")).expect("made");
    let texts = texts(&daemon);
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts[0].contains("first") && texts[2].contains("second"), "{texts:?}");
    let future = client.audit(u64::MAX / 2).expect("it answers");
    assert_eq!(future.count(), 0);
}

#[test]
fn nobody_has_it_read_twice_at_once_and_whoever_left_is_not_read_for() {
    if !may_switch_users("nobody_has_it_read_twice_at_once_and_whoever_left_is_not_read_for") {
        return;
    }
    let daemon = Daemon::start(&["--enforcer", "none"]);
    daemon.client().operate(create("first")).expect("made");
    // More than waits on the way to a caller who takes nothing.
    let line = std::fs::read_to_string(file(&daemon)).expect("the audit");
    std::fs::write(file(&daemon), line.repeat((64 << 20) / line.len())).expect("a long audit");
    let ask = |path: &str| {
        let mut stream = UnixStream::connect(daemon.socket()).expect("allotd listens");
        write!(stream, "GET {path} HTTP/1.1\r\nhost: allotd\r\n\r\n").expect("asked");
        let mut head = String::new();
        BufReader::new(stream.try_clone().expect("a descriptor"))
            .read_line(&mut head)
            .expect("a head");
        (stream, head)
    };
    as_user(SOMEBODY, || {
        let (first, head) = ask("/v1/audit");
        assert!(head.contains("200"), "{head}");
        let (_, head) = ask("/v1/audit");
        assert!(head.contains("422"), "{head}");
        drop(first);
        wait_for("the first reader to end", || ask("/v1/audit?since_unix_ms=0").1.contains("200"));
    });
}

#[test]
fn who_has_an_answer_finds_it_in_the_audit() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    for count in 1..=100 {
        daemon.client().operate(create(&format!("c{count}"))).expect("made");
        assert_eq!(texts(&daemon).len(), count);
    }
}

#[test]
fn what_an_end_kept_out_of_the_files_is_taken_from_the_journal() {
    let mut daemon = Daemon::private(&["--enforcer", "none"]);
    for name in ["one", "two", "three"] {
        daemon.client().operate(create(name)).expect("made");
    }
    let before = texts(&daemon);
    daemon.kill();
    // As after a loss of power: the last line is missing, the one before cut short.
    let path = file(&daemon);
    let text = std::fs::read_to_string(&path).expect("text");
    let end = text.trim_end().rfind('\n').expect("several lines");
    std::fs::write(&path, &text[..end - 5]).expect("written");
    daemon.launch();
    assert_eq!(texts(&daemon), before);
    daemon.kill();
    std::fs::remove_dir_all(path.parent().expect("a directory")).expect("removed");
    daemon.launch();
    assert_eq!(texts(&daemon), before);
}
