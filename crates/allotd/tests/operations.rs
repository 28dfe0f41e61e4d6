//! Bad input of every kind: a clear error naming what and why, nothing lost, the daemon alive.

mod common;

use common::{
    BY_HAND, Daemon, SOMEBODY, SOMEBODY_ELSE, Worker, backing, client_of, may_switch_users,
};
use wire::{Amount, ClientError, CurrencyRef, Operation, TicketKind};

fn create(name: &str) -> Operation {
    Operation::CreateCurrency { name: name.to_owned(), owner: None, group: None, mode: None }
}

fn fund(currency: &str, from: &str, amount: u64, kind: TicketKind) -> Operation {
    let resource = "cpu".to_owned();
    let amount = Amount { resource, kind, amount };
    Operation::Fund { currency: currency.into(), from: from.into(), amount }
}

fn refusal(result: Result<wire::OperationsDone, ClientError>) -> wire::ApiError {
    match result {
        Err(ClientError::Refused(trouble)) => trouble,
        other => panic!("a refusal was expected, not {other:?}"),
    }
}

#[test]
fn malformed_requests_are_answered_and_change_nothing() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let before = daemon.client().ledger().expect("a ledger");
    let huge = format!("{{\"operations\":[{}]}}", vec!["{}"; 251].join(","));
    for (body, status, says) in [
        ("", 400, "EOF"),
        ("{", 400, "EOF"),
        ("nonsense", 400, "line 1 column"),
        ("[]", 400, "operations"),
        ("{}", 400, "operations"),
        ("{\"operations\":[]}", 400, "1 to 250"),
        ("{\"operations\":[{\"operation\":\"rob\"}]}", 400, "rob"),
        ("{\"operations\":[{\"operation\":\"set_base\",\"uid\":0}]}", 400, "amount"),
        ("{\"operations\":[{\"operation\":\"set_base\",\"uid\":-1,\"amount\":5}]}", 400, "-1"),
        (
            "{\"operations\":[{\"operation\":\"set_tickets\",\"pid\":1,\"amount\":1e30}]}",
            400,
            "column",
        ),
        (
            "{\"operations\":[{\"operation\":\"create_currency\",\"name\":\"a\",\"mode\":\"rwx\"}]}",
            400,
            "fci--i---",
        ),
        (
            "{\"operations\":[{\"operation\":\"create_currency\",\"name\":\"a\",\"extra\":1}]}",
            400,
            "extra",
        ),
        (&huge, 400, "column"),
    ] {
        let (found, answer) = daemon.post(body);
        assert_eq!(found, status, "{body} gave {answer}");
        assert!(answer.contains(says), "{body} gave {answer}");
        let parsed: wire::ErrorBody = serde_json::from_str(&answer).expect("an error body");
        assert!(!parsed.error.message.is_empty());
    }
    let too_long = format!("{{\"operations\":[\"{}\"]}}", "x".repeat(2 << 20));
    let (status, answer) = daemon.post(&too_long);
    assert!(status == 400 && answer.contains("bytes"), "{status} {answer}");
    assert_eq!(daemon.get("/v1/nothing").0, 404);
    assert_eq!(daemon.get("/v1/operations").0, 405);
    assert_eq!(daemon.get("/v1/samples?interval_ms=1").0, 400);
    assert_eq!(daemon.get("/v1/events?after=x").0, 400);
    assert_eq!(daemon.raw("\0\0 garbage\r\n\r\n").0, 400);
    assert_eq!(daemon.client().ledger().expect("alive"), before);
}

#[test]
fn refusals_name_what_and_why() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let client = daemon.client();
    client.operate_all(vec![create("a"), create("b")]).expect("two currencies");
    client.operate(fund("a", "base", 100, TicketKind::Soft)).expect("funded");
    client.operate(fund("b", "a", 100, TicketKind::Soft)).expect("funded");
    let before = client.ledger().expect("a ledger");
    for (operation, code, says) in [
        (fund("a", "b", 1, TicketKind::Soft), "cycle", "already funds"),
        (fund("a", "a", 1, TicketKind::Soft), "cycle", "already funds"),
        (fund("base", "a", 1, TicketKind::Soft), "conflict", "base holds no tickets"),
        (fund("nobody", "a", 1, TicketKind::Soft), "unknown", "nobody"),
        (fund("#99", "a", 1, TicketKind::Soft), "unknown", "#99"),
        (fund("#x", "a", 1, TicketKind::Soft), "invalid", "#x"),
        (fund("pid:0", "a", 1, TicketKind::Soft), "unknown", "0"),
        (fund("pid:1", "a", 1, TicketKind::Soft), "unknown", "pid 1"),
        (fund("a", "base", u64::MAX, TicketKind::Soft), "invalid", "too many"),
        (fund("a", "base", 1001, TicketKind::Hard), "limit", "1000"),
        (create("a"), "conflict", "already has"),
        (create("base"), "invalid", "base"),
        (create("a b"), "invalid", "a b"),
        (create(&"x".repeat(65)), "invalid", "64"),
        (Operation::DestroyCurrency { currency: "a".into() }, "conflict", "still funds"),
        (Operation::DestroyCurrency { currency: "base".into() }, "conflict", "base"),
        (Operation::Release { client: "a".into() }, "conflict", "not a client"),
        (Operation::SetBase { uid: 1, amount: 100 }, "conflict", "policy"),
        (
            Operation::Grant { currency: "a".into(), to: "root".into(), rights: "f".into() },
            "invalid",
            "uid:1000",
        ),
        (
            Operation::Grant { currency: "a".into(), to: "uid:5".into(), rights: "rw".into() },
            "invalid",
            "fci",
        ),
    ] {
        let trouble = refusal(client.operate(operation.clone()));
        assert_eq!(trouble.code.as_str(), code, "{operation:?}: {}", trouble.message);
        assert!(trouble.message.contains(says), "{operation:?}: {}", trouble.message);
    }
    assert_eq!(client.ledger().expect("alive"), before);
}

#[test]
fn a_batch_is_done_whole_or_not_at_all() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let client = daemon.client();
    let before = client.ledger().expect("a ledger");
    let trouble = refusal(client.operate_all(vec![
        create("a"),
        fund("a", "base", 10, TicketKind::Soft),
        fund("a", "nowhere", 10, TicketKind::Soft),
    ]));
    assert_eq!(trouble.operation, Some(2));
    assert_eq!(client.ledger().expect("alive"), before);
    let done = client
        .operate_all(vec![create("a"), fund("a", "base", 10, TicketKind::Soft)])
        .expect("both are right");
    assert_eq!(done.results.len(), 2);
    assert_eq!(done.sequence, 2);
}

#[test]
fn other_peoples_processes_and_currencies_are_theirs() {
    let name = "other_peoples_processes_and_currencies_are_theirs";
    if !may_switch_users(name) {
        return;
    }
    // A system's allotd whose policy names one user only.
    let daemon = Daemon::prepare(&["--enforcer", "none"]);
    let policy = daemon.dir.path().join("policy.toml");
    let rule =
        format!("[[rule]]\nname = \"t\"\nuids = \"{SOMEBODY}\"\ncpu = 1000\neach_user = true");
    std::fs::write(&policy, format!("{rule}{BY_HAND}[users]\nmanaged = false\n"))
        .expect("a policy");
    let mut daemon = daemon.with(&["--funding-policy", policy.to_str().expect("text")]);
    daemon.launch();
    let theirs = Worker::idle(SOMEBODY_ELSE);
    let pid = theirs.pid().to_string();
    let said = |arguments: &[&str], uid: u32| {
        let output = daemon.allot(arguments, uid);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = said(&["currency", "create", "mine"], SOMEBODY);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = said(&["adopt", &pid, "--from", "mine"], SOMEBODY);
    assert!(code == Some(1) && text.contains("belongs to uid"), "{code:?} {text}");
    let (code, text) = said(&["fund", "mine", "--from", "base", "--cpu", "5"], SOMEBODY);
    assert!(code == Some(1) && text.contains("lacks the right i"), "{code:?} {text}");
    let its = format!("{SOMEBODY}:mine");
    let (code, text) = said(&["currency", "destroy", "mine"], SOMEBODY_ELSE);
    assert!(code == Some(1) && text.contains(&its), "whose is to be said: {code:?} {text}");
    let (code, text) = said(&["currency", "destroy", &its], SOMEBODY_ELSE);
    assert!(code == Some(1) && text.contains("lacks the right c"), "{code:?} {text}");
    let (code, text) = said(&["currency", "chmod", &its, "fcifcifci"], SOMEBODY_ELSE);
    assert!(code == Some(1) && text.contains("only its owner"), "{code:?} {text}");
    let (code, text) = said(&["lsetbase", "-u", "0", "5000"], SOMEBODY);
    assert!(code == Some(1), "{code:?} {text}");
    // Given the right, they can.
    let grant = ["currency", "grant", "mine", &format!("uid:{SOMEBODY_ELSE}"), "i"];
    let (code, text) = said(&grant, SOMEBODY);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = said(&["adopt", &pid, "--from", &its, "--tickets", "7"], SOMEBODY_ELSE);
    assert_eq!(code, Some(0), "{text}");
    let ledger = daemon.client().ledger().expect("alive");
    let client = client_of(&ledger, theirs.pid()).expect("it was adopted");
    assert_eq!(client.owner, SOMEBODY_ELSE);
    assert_eq!(backing(&ledger, client.id).len(), 1);
    assert_eq!(backing(&ledger, client.id)[0].1, 7);
}

#[test]
fn the_description_matches_what_is_served() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let (status, body) = daemon.get("/v1/openapi.json");
    assert_eq!(status, 200);
    let description: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    let paths = description["paths"].as_object().expect("paths");
    assert!(paths.len() >= 8, "{:?}", paths.keys());
    for (path, methods) in paths {
        for method in methods.as_object().expect("methods").keys() {
            let method = method.to_uppercase();
            // Streams do not end: what counts is that they begin.
            if path == "/v1/samples" || path == "/v1/events" {
                let (status, _) = daemon.raw(&format!(
                    "HEAD {path} HTTP/1.1\r\nhost: allotd\r\nconnection: close\r\n\r\n"
                ));
                assert_eq!(status, 200, "{path}");
                continue;
            }
            let (status, body) = daemon.raw(&format!(
                "{method} {path} HTTP/1.1\r\nhost: allotd\r\nconnection: close\r\n\
                 content-length: 0\r\n\r\n"
            ));
            let expected = match (method.as_str(), path.as_str()) {
                ("POST" | "PUT", _) => 400,
                // Nobody enforces: there is nothing to trace.
                (_, "/v1/trace") => 409,
                _ => 200,
            };
            assert_eq!(status, expected, "{method} {path}: {body}");
            let answer: serde_json::Value = serde_json::from_str(&body).expect("JSON");
            let said = &methods[&method.to_lowercase()]["responses"][status.to_string()];
            let schema = &said["content"]["application/json"]["schema"];
            conforms(&description, schema, &answer, path);
        }
    }
}

/// Whether a value has what its schema requires and nothing that the schema does not know.
fn conforms(
    document: &serde_json::Value,
    schema: &serde_json::Value,
    value: &serde_json::Value,
    at: &str,
) {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = document.pointer(reference.trim_start_matches('#')).expect("it is defined");
        return conforms(document, target, value, at);
    }
    if let Some(properties) = schema["properties"].as_object() {
        let object = value.as_object().unwrap_or_else(|| panic!("{at}: no object"));
        let required = schema["required"].as_array().into_iter().flatten();
        for name in required {
            let name = name.as_str().expect("a name");
            assert!(object.contains_key(name), "{at}: {name} is missing");
        }
        for (name, inner) in object {
            let described = properties.get(name);
            let described = described.unwrap_or_else(|| panic!("{at}: {name} is undescribed"));
            if !inner.is_null() {
                conforms(document, described, inner, &format!("{at}.{name}"));
            }
        }
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for inner in values {
            conforms(document, items, inner, &format!("{at}[]"));
        }
    }
    if let Some(kind) = schema["type"].as_str() {
        let right = match kind {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "integer" => value.is_u64() || value.is_i64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            _ => true,
        };
        assert!(right, "{at}: {value} is no {kind}");
    }
}

#[test]
fn references_name_what_people_mean() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let client = daemon.client();
    let uid = nix::unistd::getuid().as_raw();
    let done = client.operate(create("proj")).expect("made");
    let id = done.results[0].created.expect("an id");
    let worker = Worker::idle(0);
    let adopt = |from: &str| Operation::Adopt {
        pid: Some(worker.pid()),
        start_time_ticks: None,
        from: Some(CurrencyRef(from.to_owned())),
        funding: None,
    };
    for (index, from) in ["proj".into(), format!("#{id}"), format!("{uid}:proj")].iter().enumerate()
    {
        client.operate(adopt(from)).unwrap_or_else(|error| panic!("{from}: {error}"));
        let ledger = client.ledger().expect("a ledger");
        let adopted = client_of(&ledger, worker.pid()).expect("adopted");
        assert_eq!(backing(&ledger, adopted.id), [(id, 1000)], "round {index}");
        let again = refusal(client.operate(adopt(from)));
        assert!(again.message.contains("client already"), "{}", again.message);
        let release = Operation::Release { client: format!("pid:{}", worker.pid()).into() };
        client.operate(release).expect("released");
    }
    let mut stale = adopt("proj");
    if let Operation::Adopt { start_time_ticks, .. } = &mut stale {
        *start_time_ticks = Some(1);
    }
    assert!(refusal(client.operate(stale)).message.contains("another process"));
}

#[test]
fn a_private_allotd_says_what_shares_its_resources() {
    let daemon = Daemon::private(&[]);
    let cpu = daemon.client().status().expect("a status").cpu;
    assert_eq!(cpu.name, "user-level");
    assert!(
        cpu.why.starts_with("a private allotd shares what it is given, from user space"),
        "{}",
        cpu.why
    );
    let worker = Worker::idle(0);
    let pid = Some(worker.pid());
    let adopt = Operation::Adopt { pid, start_time_ticks: None, from: None, funding: None };
    daemon.client().operate(adopt).expect("adopted");
    let amount = Amount { resource: "memory".to_owned(), kind: TicketKind::Soft, amount: 1 };
    let currency = format!("pid:{}", worker.pid()).into();
    let fund = Operation::Fund { currency, from: "base".into(), amount };
    daemon.client().operate(fund).expect("kept");
    let status = daemon.client().status().expect("a status");
    let [memory] = status.others.as_slice() else { panic!("{:?}", status.others) };
    let why = "a private allotd shares the CPU only";
    assert_eq!((memory.enforcer.as_str(), memory.why.as_str()), ("none", why));
    let told = status.cpu.drift.iter().filter(|drift| drift.contains(why)).count();
    assert_eq!(told, 1, "{:?}", status.cpu.drift);
}
