//! Tricks that requests play: too many, too large, never read, never ended, or about what is another's.

use super::Trick;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub const TRICKS: [Trick; 8] = [
    ("batches", batches),
    ("traders", traders),
    ("unread", unread),
    ("slow-heads", slow_heads),
    ("modes", modes),
    ("names", names),
    ("gifts", gifts),
    ("garbage", garbage),
];

/// Layers of currencies, each of which funds all of the next.
const LAYERS: usize = 3;
const WIDTH: usize = 40;

/// Sends bytes and answers the status, or 0 where there is none.
fn send(socket: &Path, bytes: &[u8]) -> u16 {
    let Ok(mut stream) = UnixStream::connect(socket) else { return wait() };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(30)));
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer);
    text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

fn wait() -> u16 {
    std::thread::sleep(Duration::from_millis(20));
    0
}

fn post(socket: &Path, body: &str) -> u16 {
    let head =
        "POST /v1/operations HTTP/1.1\r\nhost: allotd\r\nconnection: close\r\ncontent-length:";
    send(socket, format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes())
}

fn operate(socket: &Path, operations: &[Value]) -> u16 {
    post(socket, &json!({ "operations": operations }).to_string())
}

fn get(socket: &Path, path: &str) -> u16 {
    let head = format!("GET {path} HTTP/1.1\r\nhost: allotd\r\nconnection: close\r\n\r\n");
    send(socket, head.as_bytes())
}

fn fund(currency: &str, from: &str) -> Value {
    json!({"operation": "fund", "currency": currency, "from": from, "resource": "cpu", "amount": 1})
}

/// As much work as one request may be, again and again, over a graph where each ticket leads to thousands.
fn batches(socket: &Path) {
    let name = |layer: usize, place: usize| format!("g{layer}-{place}");
    let places = || (0..LAYERS).flat_map(|layer| (0..WIDTH).map(move |place| (layer, place)));
    let create =
        |(layer, place)| json!({"operation": "create_currency", "name": name(layer, place)});
    operate(socket, &places().map(create).collect::<Vec<_>>());
    for layer in 1..LAYERS {
        for to in 0..WIDTH {
            let row = (0..WIDTH).map(|from| fund(&name(layer, to), &name(layer - 1, from)));
            operate(socket, &row.collect::<Vec<_>>());
        }
    }
    let (to, from) = (name(1, 0), name(0, 0));
    let unfund = json!({"operation": "unfund", "currency": to, "from": from, "resource": "cpu"});
    let toggles: Vec<Value> = (0..125).flat_map(|_| [unfund.clone(), fund(&to, &from)]).collect();
    loop {
        operate(socket, &toggles);
    }
}

/// One name a thousand times, and the whole ledger.
fn traders(socket: &Path) {
    operate(socket, &[json!({"operation": "create_currency", "name": "trader"})]);
    let many = format!("/v1/traders?who={}", ["trader"; 1000].join(","));
    loop {
        get(socket, &many);
        get(socket, "/v1/ledger");
    }
}

/// Asks on every connection that one may have, and reads nothing.
fn unread(socket: &Path) {
    loop {
        let mut open = Vec::new();
        for _ in 0..100 {
            let Ok(mut stream) = UnixStream::connect(socket) else { break };
            for path in ["/v1/ledger", "/v1/events?after=0", "/v1/samples?interval_ms=100"] {
                let _ = stream.set_nonblocking(true);
                let _ = write!(stream, "GET {path} HTTP/1.1\r\nhost: allotd\r\n\r\n");
            }
            open.push(stream);
        }
        std::thread::sleep(Duration::from_secs(5));
    }
}

/// Halves of requests, a byte at a time.
fn slow_heads(socket: &Path) {
    let text = b"POST /v1/operations HTTP/1.1\r\nhost: allotd\r\ncontent-length: 100000\r\n\r\n{\"operations\": [";
    loop {
        let mut open: Vec<UnixStream> =
            (0..64).filter_map(|_| UnixStream::connect(socket).ok()).collect();
        for byte in text {
            open.retain_mut(|stream| stream.write_all(&[*byte]).is_ok());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Fills the journal with changes of one mode.
fn modes(socket: &Path) {
    operate(socket, &[json!({"operation": "create_currency", "name": "mode"})]);
    let change = |mode: &str| json!({"operation": "change_mode", "currency": "mode", "mode": mode});
    let many: Vec<Value> =
        (0..125).flat_map(|_| [change("fci------"), change("fci--i---")]).collect();
    loop {
        if operate(socket, &many) != 200 {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Names that others mean, names that look like others', and as many as there may be.
fn names(socket: &Path) {
    let create = |name: &str| json!({"operation": "create_currency", "name": name});
    for name in
        ["base", "bаse", "backup\u{202e}", "a\u{0}b", "\u{e0001}", "pid:1", "#1", "root:x", ""]
    {
        if operate(socket, &[create(name)]) == 200 {
            println!("named: {name:?}");
        }
    }
    operate(socket, &[create("backup")]);
    for number in 0.. {
        let some = (0..100).map(|part| create(&format!("n{number}-{part}")));
        if operate(socket, &some.collect::<Vec<_>>()) != 200 {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Loans, tickets and processes that nobody asked for, and what is another's to change.
fn gifts(socket: &Path) {
    let victim = std::env::var("ALLOT_HOSTILE_VICTIM").expect("whom it is about");
    let own = std::env::var("ALLOT_HOSTILE_OWN").expect("who it is");
    let good = json!({"resource": "cpu", "kind": "soft"});
    let leg = json!({"from": own, "to": victim, "good": good, "amount": 1});
    let amount = 1_000_000;
    let asked = [
        json!({"operation": "exchange", "legs": [leg]}),
        fund(&victim, &own),
        fund(&own, &victim),
        json!({"operation": "fund", "currency": own, "from": "base", "resource": "cpu", "amount": amount}),
        json!({"operation": "unfund", "currency": victim, "from": "base", "resource": "cpu"}),
        json!({"operation": "change_mode", "currency": victim, "mode": "fcifcifci"}),
        json!({"operation": "change_owner", "currency": victim, "owner": 0}),
        json!({"operation": "destroy_currency", "currency": victim}),
        json!({"operation": "set_base", "uid": victim.trim_end_matches(':').parse::<u32>().ok(), "amount": 1}),
        json!({"operation": "set_base", "uid": own.trim_end_matches(':').parse::<u32>().ok(), "amount": amount}),
    ];
    loop {
        for operation in &asked {
            if operate(socket, std::slice::from_ref(operation)) == 200 {
                println!("granted: {operation}");
            }
        }
    }
}

/// Bytes that are no requests, and requests that are nothing sensible.
fn garbage(socket: &Path) {
    let deep = format!("{{\"operations\":{}{}}}", "[".repeat(50_000), "]".repeat(50_000));
    let bodies = [
        "{\"operations\":[{\"operation\":\"fund\",\"amount\":1e999}]}",
        "{\"operations\":[{\"operation\":\"create_currency\",\"name\":\"\\ud800\"}]}",
        "{\"operations\":[{\"operation\":\"adopt\",\"pid\":18446744073709551616}]}",
        "\u{feff}{}",
        deep.as_str(),
    ];
    let heads: [&[u8]; 5] = [
        b"GET /v1/../../etc/shadow HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        b"POST /v1/operations HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"\x00\xff\xfe\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/operations HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999999999999\r\n\r\n",
    ];
    loop {
        for body in bodies {
            if post(socket, body) == 200 {
                println!("understood: {}", &body[..body.len().min(60)]);
            }
        }
        for head in heads {
            send(socket, head);
        }
    }
}
