//! The client against servers that answer, answer late, or do not answer.

use allot_wire::{Client, ClientError};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const POLICY: &str = r#"{"policy":"stride","enforcer":"user-level"}"#;

struct Server {
    listener: UnixListener,
    dir: tempfile::TempDir,
}

impl Server {
    fn new() -> Server {
        let dir = tempfile::tempdir().expect("a directory");
        let listener = UnixListener::bind(dir.path().join("sock")).expect("a socket");
        Server { listener, dir }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("sock")
    }

    fn accept(&self) -> UnixStream {
        self.listener.accept().expect("a caller").0
    }
}

/// Reads one request; answers its head and its body.
fn request(stream: &UnixStream) -> (Vec<String>, String) {
    let mut reader = BufReader::new(stream);
    let head: Vec<String> = reader
        .by_ref()
        .lines()
        .map(|line| line.expect("a line"))
        .take_while(|line| !line.is_empty())
        .collect();
    let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a length"))];
    reader.read_exact(&mut body).expect("a body");
    (head, String::from_utf8(body).expect("text"))
}

fn answer(mut stream: &UnixStream, status: &str, body: &str) {
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}")
        .expect("it reads");
}

#[test]
fn requests_and_refusals() {
    let server = Server::new();
    let client = Client::new(server.socket());
    let served = std::thread::spawn(move || {
        let stream = server.accept();
        let mut seen = vec![request(&stream)];
        answer(&stream, "200 OK", POLICY);
        // The same connection serves the next request.
        seen.push(request(&stream));
        answer(&stream, "403 Forbidden", r#"{"error":{"code":"forbidden","message":"not yours"}}"#);
        seen.push(request(&stream));
        answer(&stream, "500 Oh", "no JSON");
        seen
    });
    assert_eq!(client.set_policy("stride").expect("an answer").policy, "stride");
    let refused = client.traders(&["#1", "a b&c"]).expect_err("it is refused");
    assert!(matches!(&refused, ClientError::Refused(why) if why.message == "not yours"));
    assert!(matches!(client.policy(), Err(ClientError::Garbled(why)) if why.contains("no JSON")));
    let seen = served.join().expect("it served");
    assert_eq!(seen[0].0[0], "PUT /v1/policy HTTP/1.1");
    assert!(seen[0].0.contains(&"content-type: application/json".to_owned()), "{seen:?}");
    assert_eq!(seen[0].1, r#"{"policy":"stride"}"#);
    assert_eq!(seen[1].0[0], "GET /v1/traders?who=%231%2Ca%20b%26c HTTP/1.1");
}

#[test]
fn a_server_that_comes_back_is_asked_anew() {
    let server = Server::new();
    let client = Client::new(server.socket());
    let served = std::thread::spawn(move || {
        for _ in 0..2 {
            let stream = server.accept();
            request(&stream);
            answer(&stream, "200 OK", POLICY);
        }
        server
    });
    client.policy().expect("an answer");
    client.policy().expect("an answer, though the connection was closed");
    drop(served.join().expect("it served"));
    let gone = client.policy().expect_err("nobody listens").to_string();
    assert!(gone.contains("No such file or directory"), "{gone}");
}

#[test]
fn lines_come_as_they_are_written() {
    let server = Server::new();
    let client = Client::new(server.socket());
    let (heard, next) = mpsc::channel();
    let served = std::thread::spawn(move || {
        let mut stream = server.accept();
        let head = request(&stream).0;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            .expect("it reads");
        for number in 0..3 {
            let line = format!(
                r#"{{"sequence":{number},"at_unix_ms":0,"kind":"daemon","uid":null,"text":""}}"#
            ) + "\n";
            write!(stream, "{:x}\r\n{line}\r\n", line.len()).expect("it reads");
            let () = next.recv_timeout(Duration::from_secs(60)).expect("the line before was heard");
        }
        stream.write_all(b"0\r\n\r\n").expect("it reads");
        head
    });
    let mut lines = client.events(Some(7)).expect("a stream");
    for _ in 0..3 {
        lines.next().expect("a line").expect("an event");
        heard.send(()).expect("it listens");
    }
    assert!(lines.next().is_none());
    assert_eq!(served.join().expect("it served")[0], "GET /v1/events?after=7 HTTP/1.1");
}

#[test]
fn whoever_cannot_wait_is_told() {
    let server = Server::new();
    let client = Client::answered_within(server.socket(), Duration::from_millis(50));
    let started = Instant::now();
    let late = client.policy().expect_err("nobody answers");
    assert!(matches!(&late, ClientError::Unreachable { .. }), "{late}");
    assert!(late.to_string().contains("in time"), "{late}");
    assert!(started.elapsed() >= Duration::from_millis(50));
    // Nor does a socket whose backlog is full keep anybody waiting. A short one: each that waits takes a descriptor.
    rustix::net::listen(&server.listener, 4).expect("it listens");
    let mut waiting = Vec::new();
    while let Ok(stream) = connect_at_once(&server.socket()) {
        waiting.push(stream);
    }
    let late = client.policy().expect_err("nobody accepts");
    assert!(late.to_string().contains("in time"), "{late}");
}

fn connect_at_once(socket: &std::path::Path) -> rustix::io::Result<rustix::fd::OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let stream = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&stream, &SocketAddrUnix::new(socket)?)?;
    Ok(stream)
}
