//! The front: a process without rights that may die.

mod common;

use common::{Daemon, Worker, client_of, front, guardian, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use wire::Operation;

fn status_of(pid: u32) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_owned(), value.trim().to_owned()))
    };
    text.lines().filter_map(field).collect()
}

fn create(name: &str) -> Operation {
    Operation::CreateCurrency { name: name.to_owned(), owner: None, group: None, mode: None }
}

fn kill_9(pid: u32) {
    kill(Pid::from_raw(pid as i32), Signal::SIGKILL).expect("a signal");
}

fn front_of(daemon: &Daemon) -> u32 {
    front(daemon.pid()).expect("it serves")
}

/// Answers with the next front's process.
fn another_front(daemon: &Daemon, than: u32) -> u32 {
    let mut found = than;
    wait_for("another front", || {
        found = front(daemon.pid()).unwrap_or(than);
        found != than
    });
    found
}

#[test]
fn the_front_has_no_rights() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let pid = front_of(&daemon);
    let status = status_of(pid);
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(u64::from_str_radix(&status[set], 16), Ok(0), "{set}");
    }
    assert_eq!((&*status["NoNewPrivs"], &*status["Seccomp"]), ("1", "2"));
    assert_eq!(status["Threads"], "1");
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("it lives");
    for limit in ["Max file size", "Max core file size", "Max processes"] {
        let line = limits.lines().find(|line| line.starts_with(limit)).expect("a limit");
        let values: Vec<&str> = line[limit.len()..].split_whitespace().take(2).collect();
        assert_eq!(values, ["0", "0"], "{limit}");
    }
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        // A process that hides its memory is root's to look at.
        return;
    };
    for descriptor in descriptors.flatten() {
        let Ok(what) = std::fs::read_link(descriptor.path()) else { continue };
        let what = what.display().to_string();
        let known = ["socket:", "anon_inode:[event", "pipe:"];
        assert!(known.iter().any(|kind| what.starts_with(kind)), "the front has {what} open");
    }
}

#[test]
fn a_front_that_is_not_started_by_allotd_ends_with_a_reason() {
    let output = Command::new(env!("CARGO_BIN_EXE_allotd"))
        .arg("front")
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("started by allotd itself"), "{said}");
}

#[test]
fn a_front_that_is_killed_under_load_takes_nothing_with_it() {
    let mut daemon = Daemon::private(&[]);
    let worker = Worker::busy();
    let client = daemon.client();
    let adopt = Operation::Adopt {
        pid: Some(worker.pid()),
        start_time_ticks: None,
        from: None,
        funding: None,
    };
    client.operate(adopt).expect("adopted");
    let guardian_before = guardian(daemon.pid());
    let (done, cut) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let stop = AtomicBool::new(false);
    let mut killed = front_of(&daemon);
    // A stream that is cut is seen to be.
    let mut stream = UnixStream::connect(daemon.socket()).expect("it listens");
    stream.write_all(b"GET /v1/events HTTP/1.1\r\nhost: allotd\r\n\r\n").expect("sent");
    let mut head = [0; 12];
    stream.read_exact(&mut head).expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 200");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let amount = done.load(Ordering::Relaxed) as u64 % 1000;
                    let fund = Operation::SetTickets { pid: worker.pid(), amount };
                    match daemon.client().operate(fund) {
                        Ok(_) => done.fetch_add(1, Ordering::Relaxed),
                        Err(_) => cut.fetch_add(1, Ordering::Relaxed),
                    };
                }
            });
        }
        for _ in 0..4 {
            let before = done.load(Ordering::Relaxed);
            wait_for("some to be served", || done.load(Ordering::Relaxed) > before + 5);
            kill_9(killed);
            killed = another_front(&daemon, killed);
        }
        let before = done.load(Ordering::Relaxed);
        wait_for("the last front to serve", || done.load(Ordering::Relaxed) > before + 5);
        stop.store(true, Ordering::Relaxed);
    });
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(!rest.ends_with(b"0\r\n\r\n"), "the stream looks as if it had ended in order");
    let ledger = client.ledger().expect("it answers");
    assert!(client_of(&ledger, worker.pid()).is_some(), "nobody's enforcement ended");
    assert!(ledger.sequence as usize >= done.into_inner(), "all that was acknowledged is there");
    assert_eq!(guardian(daemon.pid()), guardian_before);
    assert!(daemon.log().contains("its connections are closed, another starts"));
    assert!(daemon.stop().success());
}

#[test]
fn connections_of_a_dead_front_are_counted_no_more() {
    let test = "connections_of_a_dead_front_are_counted_no_more";
    if !common::may_switch_users(test) {
        return;
    }
    let daemon = Daemon::prepare(&["--enforcer", "none"]);
    let policy = daemon.dir.path().join("policy.toml");
    std::fs::write(&policy, "[users]\nmanaged = false\n").expect("a policy");
    let mut daemon = daemon.with(&["--funding-policy", policy.to_str().expect("a path")]);
    daemon.launch();
    let script = "import socket, sys
streams = []
for number in range(65):
    streams.append(socket.socket(socket.AF_UNIX))
    streams[-1].connect(sys.argv[1])
streams[-1].settimeout(60)
refused = streams[-1].recv(1) == b''
streams[0].sendall(b'GET /v1/policy HTTP/1.1\\r\\nhost: allotd\\r\\n\\r\\n')
served = streams[0].recv(12) == b'HTTP/1.1 200'
print(refused, served, flush=True)
sys.stdin.read()";
    let socket = daemon.socket();
    let all_of = || {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new("python3");
        command.args(["-c".as_ref(), script.as_ref(), socket.as_os_str()]).uid(64_061).gid(64_061);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let mut said = [0; 10];
        child.stdout.take().expect("it is piped").read_exact(&mut said).expect("it says");
        Some((child, String::from_utf8_lossy(&said).into_owned()))
    };
    let Some((mut first, said)) = all_of() else {
        eprintln!("SKIP {test}: there is no python3");
        return;
    };
    assert_eq!(said, "True True\n");
    let killed = front_of(&daemon);
    kill_9(killed);
    another_front(&daemon, killed);
    // The first 64 are still open at their caller's end.
    let (mut second, said) = all_of().expect("python3");
    assert_eq!(said, "True True\n");
    for child in [&mut first, &mut second] {
        drop(child.stdin.take());
        child.wait().expect("it ends");
    }
}

#[test]
fn large_answers_arrive_whole_however_slowly_they_are_read() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let client = daemon.client();
    let names: Vec<Operation> = (0..4000).map(|number| create(&format!("c{number}"))).collect();
    for chunk in names.chunks(250) {
        client.operate_all(chunk.to_vec()).expect("made");
    }
    let whole = client.ledger().expect("it answers");
    assert_eq!(whole.currencies.len(), 4001);
    let mut stream = UnixStream::connect(daemon.socket()).expect("it listens");
    let request = b"GET /v1/ledger HTTP/1.1\r\nhost: allotd\r\nconnection: close\r\n\r\n";
    stream.write_all(request).expect("sent");
    let mut answer = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let read = stream.read(&mut buffer).expect("an answer");
        if read == 0 {
            break;
        }
        answer.extend_from_slice(&buffer[..read]);
        // Others are served in between.
        if answer.len() % (64 * buffer.len()) == 0 {
            client.policy().expect("it answers");
        }
    }
    let text = String::from_utf8(answer).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a body");
    assert!(body.len() > 500_000, "{} bytes are no large answer", body.len());
    assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
    let read: wire::LedgerView = serde_json::from_str(body).expect("JSON");
    assert_eq!(read, whole);
    // A head alone, and then more on the same connection.
    let mut stream = UnixStream::connect(daemon.socket()).expect("it listens");
    let twice = b"HEAD /v1/ledger HTTP/1.1\r\nhost: allotd\r\n\r\nGET /v1/policy HTTP/1.1\r\nhost: allotd\r\nconnection: close\r\n\r\n";
    stream.write_all(twice).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answers");
    assert_eq!(text.matches("HTTP/1.1 200").count(), 2, "{text}");
}

#[test]
fn answers_that_are_on_their_way_are_finished_at_the_end() {
    let mut daemon = Daemon::private(&["--enforcer", "none"]);
    daemon.client().operate(create("x")).expect("made");
    let mut stream = UnixStream::connect(daemon.socket()).expect("it listens");
    stream.write_all(b"GET /v1/events?after=0 HTTP/1.1\r\nhost: allotd\r\n\r\n").expect("sent");
    let mut head = [0; 12];
    stream.read_exact(&mut head).expect("an answer");
    // One that waits for its next request, and one that takes nothing.
    let mut idle = UnixStream::connect(daemon.socket()).expect("it listens");
    idle.write_all(b"GET /v1/policy HTTP/1.1\r\nhost: allotd\r\n\r\n").expect("sent");
    idle.read_exact(&mut head).expect("an answer");
    let front = front_of(&daemon);
    assert!(daemon.stop().success(), "{}", daemon.log());
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("an end");
    assert!(rest.contains("currency x made") && rest.ends_with("\r\n0\r\n\r\n"), "{rest}");
    let mut nothing = Vec::new();
    idle.read_to_end(&mut nothing).expect("an end");
    assert!(!std::path::Path::new(&format!("/proc/{front}")).exists(), "the front is left");
}

#[test]
fn the_front_ends_with_an_allotd_that_is_killed() {
    let mut daemon = Daemon::private(&["--enforcer", "none"]);
    let front = front_of(&daemon);
    daemon.kill();
    wait_for("the front's end", || !std::path::Path::new(&format!("/proc/{front}")).exists());
}
