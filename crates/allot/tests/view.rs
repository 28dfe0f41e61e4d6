//! What is seen of a ledger and of samples: drawn from what allotd would send.

use allot::graph::Graph;
use allot::top::{Model, SortBy, frame_as_text};
use allot::tree::{Enforced, render};
use command_line::style::Style;
use serde_json::{Value, json};
use wire::{DoctorResource, LedgerView, Sample, Status};

fn currency(id: u64, name: &str, nature: &str, worth: Value) -> Value {
    let owner = match name {
        "base" => (0, "root"),
        "bob" => (1001, "bob"),
        _ => (1000, "alice"),
    };
    json!({
        "id": id, "name": name, "nature": nature, "owner": owner.0, "owner_name": owner.1,
        "group": owner.0, "mode": "fci------", "grants": [], "process": null, "placed": false,
        "frozen": false, "resources": worth,
    })
}

fn worth(resource: &str, value: f64, guaranteed: f64, lent: u64, hard: u64) -> Value {
    json!({
        "resource": resource, "active": value > 0.0, "value": value, "guaranteed": guaranteed,
        "lent": lent, "issued_soft": 0, "issued_hard": hard,
    })
}

fn client(id: u64, command: &str, pid: u32, worth: Value) -> Value {
    let mut client = currency(id, command, "client", worth);
    client["process"] = json!({ "pid": pid, "start_time_ticks": 1, "command": command });
    client
}

fn ticket(id: u64, issuer: u64, holder: u64, kind: &str, amount: u64, resource: &str) -> Value {
    json!({
        "id": id, "issuer": issuer, "holder": holder, "resource": resource, "kind": kind,
        "amount": amount,
    })
}

/// Alice and bob have the same; alice has a hard client, a shared project, a job and one client
/// that is frozen; the project is funded by both.
fn ledger() -> LedgerView {
    let cpu = |value, guaranteed| json!([worth("cpu", value, guaranteed, 0, 0)]);
    let mut frozen = client(7, "stuck", 104, cpu(0.0, 0.0));
    frozen["frozen"] = json!(true);
    let view = json!({
        "sequence": 9,
        "currencies": [
            currency(0, "base", "base", json!([worth("cpu", 1.0, 1.0, 0, 0), worth("memory", 0.0, 1.0, 0, 0)])),
            currency(1, "alice", "pure", json!([worth("cpu", 0.45, 0.45, 100, 200), worth("memory", 0.0, 1.0, 0, 0)])),
            currency(2, "bob", "pure", cpu(0.5, 0.5)),
            currency(3, "project", "pure", cpu(0.86, 0.86)),
            client(4, "hard\u{1b}[2J", 101, cpu(0.09, 0.09)),
            client(5, "make", 102, cpu(0.86, 0.86)),
            currency(6, "job", "job", cpu(0.05, 0.05)),
            frozen,
            client(8, "long", 105, cpu(0.05, 0.05)),
            client(9, "idle", 106, cpu(0.0, 0.1)),
            currency(10, "later", "pure", json!([])),
        ],
        "tickets": [
            ticket(1, 0, 1, "soft", 900, "cpu"),
            ticket(2, 0, 2, "soft", 1000, "cpu"),
            ticket(3, 1, 4, "hard", 200, "cpu"),
            ticket(4, 1, 3, "soft", 500, "cpu"),
            ticket(5, 2, 3, "soft", 500, "cpu"),
            ticket(6, 3, 5, "soft", 1000, "cpu"),
            ticket(7, 0, 6, "soft", 100, "cpu"),
            ticket(8, 6, 8, "soft", 1000, "cpu"),
            ticket(9, 1, 7, "soft", 0, "cpu"),
            ticket(10, 2, 9, "soft", 100, "cpu"),
            ticket(11, 0, 1, "soft", 10, "memory"),
        ],
    });
    serde_json::from_value(view).expect("the fixture is a ledger")
}

#[test]
fn a_tree() {
    let expected = "\
CURRENCY                 MODE       OWNER   TICKETS      NOW     SURE
base                     fci------  root             100.0 %  100.0 %
├─ alice                 fci------  alice       900   45.0 %   45.0 %  100 lent
│  ├─ hard?[2J 101       fci------  alice  200 hard    9.0 %    9.0 %
│  └─ soft_tix 800/1000
│     ├─ project *       fci------  alice       500   86.0 %   86.0 %
│     │  └─ make 102     fci------  alice      1000   86.0 %   86.0 %
│     └─ stuck 104       fci------  alice         0    0.0 %    0.0 %  frozen
├─ bob                   fci------  bob        1000   50.0 %   50.0 %
│  ├─ project *          fci------  alice       500   86.0 %   86.0 %  see above
│  └─ idle 106           fci------  alice       100    0.0 %   10.0 %  asleep
└─ job #6                fci------  alice       100    5.0 %    5.0 %
   └─ long 105           fci------  alice      1000    5.0 %    5.0 %
without tickets:
└─ later                 fci------  alice
* funded by several: NOW and SURE are the sum
";
    assert_eq!(render(&ledger(), Some("cpu"), &Enforced::default(), Style::PLAIN), expected);
}

#[test]
fn a_tree_for_each_resource() {
    let text = render(&ledger(), None, &Enforced::default(), Style::PLAIN);
    let (cpu, memory) = text.split_once("\nmemory\n").expect("two trees");
    assert!(cpu.starts_with("cpu\n"), "{cpu}");
    assert_eq!(
        memory,
        "\
CURRENCY  MODE       OWNER  TICKETS    NOW     SURE
base      fci------  root            0.0 %  100.0 %
└─ alice  fci------  alice       10  0.0 %  100.0 %
"
    );
}

#[test]
fn colours_only_where_asked() {
    assert!(!render(&ledger(), None, &Enforced::default(), Style::PLAIN).contains('\x1b'));
    let coloured = render(&ledger(), None, &Enforced::default(), Style::COLOURED);
    assert!(coloured.contains("\x1b["));
    assert!(!coloured.contains("\x1b[2J"), "a command's name moved the cursor");
}

/// Thousands of paths through few currencies must not become thousands of lines.
#[test]
fn a_dense_graph_stays_as_long_as_its_tickets() {
    let mut view = ledger();
    let pure = view.currencies[3].clone();
    view.currencies = vec![view.currencies[0].clone()];
    view.tickets.clear();
    let levels = 20;
    for level in 0..levels {
        for side in 0..2 {
            let id = 1 + level * 2 + side;
            let mut one = pure.clone();
            one.id = id;
            one.name = format!("l{level}s{side}");
            view.currencies.push(one);
            let issuers = if level == 0 { vec![0] } else { vec![id - side - 2, id - side - 1] };
            for issuer in issuers {
                let number = view.tickets.len() as u64;
                let json = ticket(number, issuer, id, "soft", 1, "cpu");
                view.tickets.push(serde_json::from_value(json).expect("a ticket"));
            }
        }
    }
    let lines = render(&view, Some("cpu"), &Enforced::default(), Style::PLAIN).lines().count();
    assert_eq!(lines, 1 + 1 + view.tickets.len() + 1, "heading, base, tickets, footnote");
}

#[test]
fn names_are_found_as_allotd_finds_them() {
    let mut view = ledger();
    let mut second = view.currencies[3].clone();
    second.id = 11;
    second.owner = 1001;
    second.owner_name = "bob".to_owned();
    view.currencies.push(second);
    let graph = Graph::new(&view);
    let find = |text: &str, uid| graph.find(text, uid).map(|one| one.id);
    assert_eq!(find("base", 1).unwrap(), 0);
    assert_eq!(find("#5", 1).unwrap(), 5);
    assert_eq!(find("pid:104", 1).unwrap(), 7);
    assert_eq!(find("alice:alice", 1).unwrap(), 1);
    assert_eq!(find("project", 1000).unwrap(), 3);
    assert_eq!(find("project", 1001).unwrap(), 11);
    assert_eq!(find("bob:project", 1000).unwrap(), 11);
    assert_eq!(find("1000:project", 1001).unwrap(), 3);
    let several = find("project", 7).unwrap_err().to_string();
    assert!(several.contains("alice:project, bob:project"), "{several}");
    for unknown in ["nobody", "#99", "#x", "pid:9", "pid:x", "carol:project", "make"] {
        assert!(find(unknown, 1000).is_err(), "{unknown}");
    }
}

#[test]
fn papers_numbers() {
    let view = ledger();
    let graph = Graph::new(&view);
    assert_eq!(graph.base_tickets(1000), Some(1000), "what is lent is still the user's");
    assert_eq!(graph.base_tickets(1001), Some(1000));
    assert_eq!(graph.base_tickets(1002), None);
    assert_eq!(graph.process_tickets(5).map(|ticket| ticket.amount), Some(1000));
    assert_eq!(graph.process_tickets(4), None, "hard tickets are no process tickets");
}

fn status() -> Status {
    serde_json::from_value(json!({
        "version": "0.1.0", "pid": 1, "uid": 0, "private": true, "state_dir": "/x", "sequence": 9,
        "currencies": 11, "tickets": 11, "clients": 3, "life_source": "proc connector",
        "cpu": {
            "name": "user-level", "why": "works anywhere", "policy": "stride", "seed": 7,
            "quantum_ns": 10_000_000, "cpus": [0, 1], "hold": "idle", "generation": 3,
            "drift": ["process 105 has another policy"],
        },
    }))
    .expect("the fixture is a status")
}

/// `seconds` after the first, clients having used what is given, in seconds.
fn sample(seconds: u64, used: &[(u64, u32, &str, &str, f64)]) -> Sample {
    let clients: Vec<Value> = used
        .iter()
        .map(|(id, pid, command, state, used)| {
            json!({
                "id": id, "pid": pid, "command": command, "state": state, "value": 0.5,
                "promised_share": 0.5, "promised_ns": seconds * 1_000_000_000,
                "used_ns": (used * 1e9) as u64, "wins": seconds * 50, "draws": seconds * 100,
            })
        })
        .collect();
    serde_json::from_value(json!({
        "at_ns": 5_000_000_000_u64 + seconds * 1_000_000_000, "seats": 2, "generation": 3,
        "draws": seconds * 100, "late": 1, "daemon_cpu_ns": seconds * 5_000_000, "clients": clients,
    }))
    .expect("the fixture is a sample")
}

fn model() -> Model {
    let mut model = Model::default();
    model.set_around(status(), ledger());
    model.add_sample(sample(
        0,
        &[(4, 101, "hard", "running", 0.0), (5, 102, "make", "waiting", 0.0)],
    ));
    model.add_sample(sample(
        2,
        &[
            (4, 101, "hard", "running", 1.0),
            (5, 102, "make", "waiting", 3.0),
            (9, 106, "idle", "sleeping", 0.0),
        ],
    ));
    model
}

#[test]
fn a_tree_says_why_one_process_is_promised_less_than_its_tickets_are_worth() {
    // make's tickets are worth 86 %.
    let says = |most_of_one| {
        let enforced = Enforced { most_of_one, ..Enforced::default() };
        render(&ledger(), Some("cpu"), &enforced, Style::PLAIN)
    };
    assert!(says(Some(0.5)).contains("so `allot top` promises it 50.0 % at most\n"));
    assert!(!says(Some(0.9)).contains("promises it"));
    assert!(!says(None).contains("promises it"));
}

#[test]
fn a_tree_says_which_tickets_have_no_effect() {
    let mut status = status();
    let (resource, enforcer) = ("memory".to_owned(), "none".to_owned());
    status.others = vec![DoctorResource { resource, enforcer, why: "not \x1bhere".to_owned() }];
    let text = render(&ledger(), None, &Enforced::of(&status), Style::PLAIN);
    let (cpu, memory) = text.split_once("\nmemory\n").expect("two trees");
    assert!(!cpu.contains("without effect"), "{cpu}");
    assert!(
        memory.ends_with("\nkept in the ledger and without effect now: not ?here\n"),
        "{memory}"
    );
    status.cpu.name = "none".to_owned();
    let cpu = render(&ledger(), Some("cpu"), &Enforced::of(&status), Style::PLAIN);
    assert!(cpu.ends_with("without effect now: works anywhere\n"), "{cpu}");
}

#[test]
fn a_frame_of_top() {
    let expected = "\
allot 0.1.0 (private)  user-level stride, quantum 10 ms, 2 CPUs, 3 clients
over 2 s: clients 100.0 % of the CPUs, allotd 0.5 % of one, 200 draws, 1 late
process 105 has another policy

    PID USER     COMMAND      STATE     PROMISED        MEASURED            WINS
    102 alice    make         waiting     50.0 % ████     75.0 % ██████      100
    101 alice    hard         running     50.0 % ████     25.0 % ██          100
    106 alice    idle         sleeping         –               –             100
";
    let frame = frame_as_text(&mut model(), 80);
    assert!(frame.lines().all(|line| line.chars().count() <= 80), "{frame}");
    assert_eq!(frame, expected);
}

#[test]
fn a_long_head_takes_another_line_and_is_not_cut() {
    let mut model = model();
    let mut last = model.latest().expect("a sample").clone();
    (last.draws, last.late) = (7_654_321, 98_765);
    model.add_sample(last);
    for columns in [80, 60, 40] {
        let frame = frame_as_text(&mut model, columns);
        let head: Vec<&str> = frame.lines().take_while(|line| !line.is_empty()).collect();
        for part in ["of the CPUs,", "of one,", "7654321 draws,", "98765 late"] {
            assert!(head.iter().any(|line| line.contains(part)), "{part} at {columns}: {frame}");
        }
        for client in ["102", "101", "106"] {
            assert!(frame.lines().any(|line| line.trim_start().starts_with(client)), "{frame}");
        }
    }
}

#[test]
fn a_wide_frame_says_who_funds() {
    let frame = frame_as_text(&mut model(), 140);
    assert!(frame.lines().any(|line| line.contains("make") && line.contains("project")), "{frame}");
    assert!(frame.contains("FROM"));
}

#[test]
fn a_wider_frame_says_how_much_of_a_slice_is_used() {
    let frame = frame_as_text(&mut model(), 160);
    assert!(frame.contains("SLICE"), "{frame}");
    // 100 wins of 10 ms each in the window, and 1 s used; nobody knows of who came last.
    let line = |name: &str| frame.lines().find(|line| line.contains(name)).expect(name).to_owned();
    assert!(line("hard").ends_with("100.0 %"), "{frame}");
    assert!(line("idle").ends_with('–'), "{frame}");
    assert!(frame.lines().all(|line| line.chars().count() <= 160), "{frame}");
}

#[test]
fn a_tree_says_who_joined_lends_or_is_a_guest() {
    let mut view = serde_json::to_value(ledger()).expect("a view");
    let currencies = view["currencies"].as_array_mut().expect("a list");
    let by_id = |id: u64| move |one: &&mut Value| one["id"] == id;
    let make = currencies.iter_mut().find(by_id(5)).expect("make");
    make["members"] = json!([
        { "kind": "thread", "tid": 4712, "process": { "pid": 105, "start_time_ticks": 1, "command": "long\u{1b}" } },
    ]);
    let long = currencies.iter_mut().find(by_id(8)).expect("long");
    long["class"] = json!("guest");
    long["joined"] = json!(5);
    let tickets = view["tickets"].as_array_mut().expect("a list");
    tickets.push(ticket(99, 4, 5, "transfer", 1000, "cpu"));
    let view: LedgerView = serde_json::from_value(view).expect("a view");
    let tree = render(&view, Some("cpu"), &Enforced::default(), Style::PLAIN);
    let has = |name: &str, note: &str| {
        tree.lines().any(|line| line.contains(name) && line.trim_end().contains(note))
    };
    assert!(has("make 102", "with long? thread 4712"), "{tree}");
    assert!(has("long 105", "guest, consumes as make 102"), "{tree}");
    assert!(has("101", "lends all it has"), "{tree}");
    assert!(has("make 102", " lent "), "{tree}");
}

#[test]
fn narrow_frames_do_not_break() {
    for columns in [1, 40, 50, 60] {
        frame_as_text(&mut model(), columns);
    }
}

#[test]
fn rows_are_sorted_as_asked() {
    let mut model = model();
    let pids = |model: &Model| model.rows().iter().map(|row| row.pid).collect::<Vec<_>>();
    assert_eq!(pids(&model), [102, 101, 106]);
    model.sort = SortBy::Pid;
    assert_eq!(pids(&model), [101, 102, 106]);
    model.sort = SortBy::Command;
    assert_eq!(pids(&model), [101, 106, 102]);
    model.sort = SortBy::Error;
    assert_eq!(pids(&model), [101, 102, 106]);
    let mut sort = SortBy::default();
    for _ in 0..5 {
        sort = sort.next();
    }
    assert_eq!(sort, SortBy::default(), "the key comes round");
}

#[test]
fn a_pause_holds_the_picture_and_loses_nothing() {
    let mut model = model();
    let before = model.rows();
    model.pause();
    model.add_sample(sample(3, &[(4, 101, "hard", "running", 3.0)]));
    assert_eq!(model.rows(), before);
    model.pause();
    assert_eq!(model.rows().len(), 1);
    assert_eq!(model.rows()[0].measured, Some(0.5));
}

#[test]
fn the_window_moves_on() {
    let mut model = model();
    for seconds in 3..20 {
        let used = if seconds < 10 { 0.0 } else { (seconds - 9) as f64 };
        model.add_sample(sample(seconds, &[(4, 101, "hard", "running", used)]));
    }
    assert_eq!(model.window_ns(), 5_000_000_000);
    assert_eq!(model.rows()[0].measured, Some(0.5), "what was long ago does not count");
    // Another allotd has totals of its own.
    model.add_sample(sample(1, &[(4, 101, "hard", "running", 0.0)]));
    assert_eq!(model.rows()[0].measured, None);
}

#[test]
fn scrolling_stays_within_what_there_is() {
    let mut model = model();
    model.page = 2;
    model.scroll_by(i64::MAX);
    assert_eq!(model.scroll, 1);
    model.scroll_by(i64::MIN);
    assert_eq!(model.scroll, 0);
}
