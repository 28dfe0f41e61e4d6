//! Who means ill, and what must not happen then.

mod common;

use common::{
    BY_HAND, Daemon, NO_SERVICES, SOMEBODY, SOMEBODY_ELSE, Worker, as_user, client_of,
    enforcing_process, front, guardian, may_switch_users, scheduling_of, state_of, wait_for,
};
use observe::{CgroupVersion, Hierarchy, ProcessHandle};
use std::io::{Read, Write};
use std::os::unix::fs::{lchown, symlink};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use wire::{Amount, Operation, TicketKind};

/// A policy that names one user of the tests and nobody else.
const POLICY: &str = "[users]\nuids = \"64001\"\ncpu = 1000\n";

fn of_somebody(options: &[&str]) -> Daemon {
    let daemon = Daemon::prepare(options);
    let policy = daemon.dir.path().join("policy.toml");
    std::fs::write(&policy, format!("{POLICY}{NO_SERVICES}")).expect("a policy");
    daemon.with(&["--funding-policy", policy.to_str().expect("a path")])
}

fn adopt(pid: u32) -> Operation {
    Operation::Adopt { pid: Some(pid), start_time_ticks: None, from: None, funding: None }
}

#[test]
fn nobody_manages_allotd_its_guardian_init_or_the_kernel() {
    let daemon = Daemon::private(&[]);
    let client = daemon.client();
    let (enforcing, guardian) = (enforcing_process(daemon.pid()), guardian(daemon.pid()));
    let nice = |pid| Operation::Nice { pid: Some(pid), resource: None, amount: 1 };
    let ours = [
        (daemon.pid(), "allotd itself"),
        (enforcing, "a process of allotd"),
        (guardian, "the guardian"),
        (front(daemon.pid()).expect("it serves"), "a process of allotd"),
        (1, "init"),
    ];
    for (pid, what) in ours {
        for operation in [adopt(pid), nice(pid)] {
            let error = client.operate(operation).expect_err(what).to_string();
            assert!(error.contains(what), "{error}");
        }
    }
    let kernel = "/proc/2/comm";
    if std::fs::read_to_string(kernel).is_ok_and(|name| name.trim() == "kthreadd") {
        let error = client.operate(adopt(2)).expect_err("a kernel thread").to_string();
        assert!(error.contains("thread of the kernel"), "{error}");
    }
    assert_eq!(client.ledger().expect("alive").sequence, 0);
}

#[test]
fn an_allotd_that_is_started_in_a_managed_shell_does_not_manage_itself() {
    let mut daemon = Daemon::private(&["--hold", "stop"]);
    let started = daemon.dir.path().join("pid");
    let (state, socket) = (daemon.state_dir(), daemon.socket());
    let script = format!(
        "while kill -0 {}; do sleep 0.1; done; {} --user --hold stop --state-dir {} --socket {} & \
         echo $! > {}; wait",
        daemon.pid(),
        env!("CARGO_BIN_EXE_allotd"),
        state.display(),
        socket.display(),
        started.display()
    );
    let shell = Worker::shell(&script, 0);
    daemon.client().operate(adopt(shell.pid())).expect("adopted");
    daemon.stop();
    let client = daemon.client();
    let read = || std::fs::read_to_string(&started).ok()?.trim().parse::<u32>().ok();
    wait_for("another allotd", || {
        read().is_some_and(|pid| client.status().is_ok_and(|status| status.pid == pid))
    });
    let pid = read().expect("it was written");
    let ledger = client.ledger().expect("alive");
    assert!(client_of(&ledger, shell.pid()).is_some(), "the shell stays a client");
    assert!(client_of(&ledger, pid).is_none(), "allotd manages itself");
    for part in [enforcing_process(pid), guardian(pid), front(pid).expect("it serves")] {
        assert!(client_of(&ledger, part).is_none(), "allotd manages a part of itself");
    }
}

#[test]
fn a_log_that_nobody_reads_ends_nothing() {
    let mut daemon = Daemon::private(&[]);
    daemon.stop();
    let mut child = daemon.command().stderr(Stdio::piped()).spawn().expect("allotd");
    drop(child.stderr.take());
    let client = daemon.client();
    wait_for("allotd", || client.status().is_ok_and(|status| status.pid == child.id()));
    let guardian = guardian(child.id());
    let worker = Worker::busy();
    client.operate(adopt(worker.pid())).expect("adopted");
    // That its guardian dies is worth a warning.
    let pid = nix::unistd::Pid::from_raw(guardian as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("a signal");
    wait_for("the warning", || {
        client.status().expect("alive").cpu.drift.iter().any(|drift| drift.contains("guardian"))
    });
    client.operate(adopt(worker.pid())).expect_err("it is a client already");
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("a signal");
    assert!(child.wait().expect("it ends").success());
    assert_eq!((state_of(worker.pid()), scheduling_of(worker.pid())), ('R', 0));
}

#[test]
fn a_second_allotd_at_a_socket_leaves_the_first_alone() {
    let mut first = Daemon::private(&[]);
    let mut registry = first.socket().into_os_string();
    registry.push(".held");
    assert!(std::path::Path::new(&registry).exists());
    let second = tempfile::tempdir().expect("a directory");
    let socket = first.socket();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_allotd"))
        .args(["--user".as_ref(), "--state-dir".as_ref(), second.path().as_os_str()])
        .args(["--socket".as_ref(), socket.as_os_str()])
        .output()
        .expect("allotd");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("another allotd listens"), "{said}");
    assert!(first.is_running() && std::path::Path::new(&registry).exists());
    first.client().status().expect("it answers");
}

#[test]
fn a_link_that_somebody_else_put_there_is_not_followed() {
    let test = "a_link_that_somebody_else_put_there_is_not_followed";
    if !may_switch_users(test) {
        return;
    }
    let mut daemon = Daemon::private(&[]);
    daemon.stop();
    let ours = tempfile::tempdir().expect("a directory");
    std::fs::remove_dir_all(daemon.state_dir()).expect("empty again");
    symlink(ours.path(), daemon.state_dir()).expect("a link");
    lchown(daemon.state_dir(), Some(SOMEBODY), Some(SOMEBODY)).expect("theirs");
    assert!(!daemon.try_launch());
    assert!(daemon.log().contains("belongs to uid 64001"), "{}", daemon.log());
    assert_eq!(std::fs::read_dir(ours.path()).expect("a directory").count(), 0);
}

#[test]
fn who_was_released_stays_so_when_allotd_returns() {
    if !may_switch_users("who_was_released_stays_so_when_allotd_returns") {
        return;
    }
    let mut daemon = of_somebody(&[]);
    daemon.launch();
    let client = daemon.client();
    let (free, managed) = (Worker::idle(SOMEBODY), Worker::idle(SOMEBODY));
    let is_client = |pid| client_of(&client.ledger().expect("alive"), pid).is_some();
    wait_for("both", || is_client(free.pid()) && is_client(managed.pid()));
    let reference = format!("pid:{}", free.pid()).into();
    client.operate(Operation::Release { client: reference }).expect("released by root");
    // Later entries must not make it forgotten.
    let later = Worker::idle(SOMEBODY);
    wait_for("a later one", || is_client(later.pid()));
    daemon.kill();
    daemon.launch();
    wait_for("the managed one", || is_client(later.pid()));
    assert!(!is_client(free.pid()), "it was released");
}

#[test]
fn another_group_is_no_way_out_of_a_freeze() {
    if !may_switch_users("another_group_is_no_way_out_of_a_freeze") {
        return;
    }
    let mut daemon = of_somebody(&["--enforcer", "none"]);
    daemon.launch();
    let client = daemon.client();
    // Goes on when it is told to, with another real group and the same user.
    let go = daemon.dir.path().join("go");
    let script = format!(
        "import os, time\nos.setresgid(64001, 64001, 64002)\nos.setresuid(64001, 64001, 64001)\n\
         while not os.path.exists({go:?}): time.sleep(0.05)\nos.setresgid(64002, -1, -1)\n\
         time.sleep(1000)"
    );
    let mut command = std::process::Command::new("python3");
    let child = command.args(["-c", &script]).stdin(Stdio::null()).spawn();
    let Ok(child) = child else {
        eprintln!("SKIP another_group_is_no_way_out_of_a_freeze: there is no python3");
        return;
    };
    let worker = KilledAtTheEnd(child);
    let pid = worker.0.id();
    let shown = || client_of(&client.ledger().expect("alive"), pid).cloned();
    wait_for("the client", || shown().is_some_and(|shown| shown.group == 64001));
    client.operate(Operation::SetTickets { pid, amount: 0 }).expect("frozen by root");
    std::fs::File::create(&go).and_then(|mut file| file.write_all(b"go")).expect("told");
    wait_for("the new group", || shown().is_some_and(|shown| shown.group == 64002));
    let ledger = client.ledger().expect("alive");
    let id = shown().expect("a client").id;
    assert_eq!(common::backing(&ledger, id).iter().map(|(_, amount)| amount).sum::<u64>(), 0);
}

/// What the kernel has told comes before what anybody asks, and a release is decided by whom the policy names.
#[test]
fn nobody_is_quicker_than_the_policy() {
    if !may_switch_users("nobody_is_quicker_than_the_policy") {
        return;
    }
    let mut daemon = of_somebody(&["--enforcer", "none"]);
    daemon.launch();
    let client = daemon.client();
    for _ in 0..50 {
        let worker = Worker::idle(SOMEBODY);
        let error = client.operate(adopt(worker.pid())).expect_err("placed by the policy");
        assert!(error.to_string().contains("already"), "{error}");
        assert!(client_of(&client.ledger().expect("alive"), worker.pid()).is_some());
    }
    let worker = Worker::idle(SOMEBODY);
    let release = ["release", &format!("pid:{}", worker.pid())];
    let output = daemon.allot(&release, SOMEBODY);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("funding policy names"), "{said}");
    // A batch that fails has released nobody.
    let first = format!(r#"{{"operation":"release","client":"pid:{}"}}"#, worker.pid());
    let second = r#"{"operation":"release","client":"nobody"}"#;
    let (status, _) = daemon.post(&format!(r#"{{"operations":[{first},{second}]}}"#));
    assert!(status >= 400);
    daemon.kill();
    daemon.launch();
    wait_for("it to be managed", || {
        client_of(&client.ledger().expect("alive"), worker.pid()).is_some()
    });
}

/// A process that becomes that of somebody whom the policy does not name is nobody's to freeze any more.
#[test]
fn a_process_that_becomes_roots_is_released() {
    if !may_switch_users("a_process_that_becomes_roots_is_released") {
        return;
    }
    let mut daemon = of_somebody(&[]);
    daemon.launch();
    let client = daemon.client();
    let go = daemon.dir.path().join("go");
    let script = format!(
        "import os, time\nos.setresgid(64001, 64001, 0)\nos.setresuid(64001, 64001, 0)\n\
         while not os.path.exists({go:?}): time.sleep(0.05)\nos.setresuid(0, 0, 0)\n\
         while True: pass"
    );
    let mut command = std::process::Command::new("python3");
    let Ok(child) = command.args(["-c", &script]).stdin(Stdio::null()).spawn() else {
        eprintln!("SKIP a_process_that_becomes_roots_is_released: there is no python3");
        return;
    };
    let worker = KilledAtTheEnd(child);
    let pid = worker.0.id();
    let shown = || client_of(&client.ledger().expect("alive"), pid).cloned();
    wait_for("the client", || shown().is_some());
    std::fs::File::create(&go).and_then(|mut file| file.write_all(b"go")).expect("told");
    wait_for("it to be released", || shown().is_none());
    let unfund = ["unfund", &format!("pid:{pid}"), "--from", "64001:"];
    assert!(!daemon.allot(&unfund, SOMEBODY).status.success());
    wait_for("it to run as it was", || (state_of(pid), scheduling_of(pid)) == ('R', 0));
}

/// Where losers are stopped by a signal, whoever runs on is held with all of its user's.
#[test]
fn who_runs_while_stopped_waits_with_its_family() {
    if !may_switch_users("who_runs_while_stopped_waits_with_its_family") {
        return;
    }
    let daemon = Daemon::prepare(&["--hold", "stop", "--cpus", "0", "--policy", "stride"]);
    let policy = daemon.dir.path().join("policy.toml");
    std::fs::write(&policy, "[users]\nuids = \"64001-64002\"\n").expect("a policy");
    let mut daemon = daemon.with(&["--funding-policy", policy.to_str().expect("a path")]);
    daemon.launch();
    let client = daemon.client();
    let _rival = Worker::shell("while :; do :; done", 64_002);
    let script = "sh -c 'while :; do :; done' & while kill -CONT $!; do :; done";
    let _continuing = Worker::shell(script, SOMEBODY);
    wait_for("it to be noticed", || {
        let drift = client.status().expect("alive").cpu.drift;
        drift.iter().any(|drift| drift.contains("all of uid 64001 wait with it"))
    });
}

/// By weights, whose processes end before they are given a weight: their children are born where one has been put that was
/// caught alive.
#[test]
fn a_chain_of_short_lives_ends_up_in_a_nursery() {
    let test = "a_chain_of_short_lives_ends_up_in_a_nursery";
    if !may_switch_users(test) {
        return;
    }
    if let Err(why) = enforce_weights::available(Some(enforce_weights::CarrierName::CgroupV1)) {
        eprintln!("SKIP {test}: {why}");
        return;
    }
    let mut daemon = of_somebody(&["--enforcer", "weights"]);
    daemon.launch();
    let source = daemon.client().status().expect("alive").life_source;
    if source.starts_with("scanning") {
        eprintln!("SKIP {test}: births are told too late for such lives: {source}");
        return;
    }
    let chain = "use Time::HiRes 'time'; \
                 while (1) { my $until = time + 0.004; while (time < $until) {} exit if fork; }";
    let worker =
        Worker::shell(&format!("exec perl -e \"{}\"", chain.replace('$', "\\$")), SOMEBODY);
    let mounts = observe::mounts().expect("/proc");
    let tree = Hierarchy::among(&mounts, CgroupVersion::V1("cpu")).expect("it is mounted");
    let is_successor = |pid: u32| {
        let facts = ProcessHandle::open(pid).and_then(|it| it.facts());
        facts.is_ok_and(|facts| facts.process_group == worker.pid())
    };
    wait_for("a successor to be born in the nursery", || {
        let groups = observe::cgroups_in(tree.mount()).into_iter();
        let mut nurseries = groups.filter(|it| it.to_string_lossy().contains("-nursery"));
        nurseries.any(|it| observe::processes_in(&it).into_iter().any(is_successor))
    });
}

struct KilledAtTheEnd(std::process::Child);

impl Drop for KilledAtTheEnd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn readers_that_take_nothing_and_halves_of_requests_keep_nobody_waiting() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let client = daemon.client();
    let worker = Worker::idle(0);
    client.operate(adopt(worker.pid())).expect("adopted");
    let fund = |amount| Operation::SetTickets { pid: worker.pid(), amount };
    for amount in 0..1500 {
        client.operate(fund(amount)).expect("funded");
    }
    let requests: [&[u8]; 4] = [
        b"GET /v1/events?after=0 HTTP/1.1\r\nhost: allotd\r\n\r\n",
        b"GET /v1/samples?interval_ms=100 HTTP/1.1\r\nhost: allotd\r\n\r\n",
        b"POST /v1/operations HTTP/1.1\r\nhost: allotd\r\ncontent-length: 100\r\n\r\n{\"op",
        b"GET /v1/sta",
    ];
    let mut idle = Vec::new();
    for request in requests.iter().cycle().take(100) {
        let mut stream = UnixStream::connect(daemon.socket()).expect("allotd listens");
        stream.write_all(request).expect("sent");
        idle.push(stream);
    }
    client.operate(fund(7)).expect("served");
    // Pages of events join up.
    let numbers: Vec<u64> = client
        .past_events(Some(0))
        .expect("kept")
        .filter_map(|event| event.expect("an event").sequence)
        .collect();
    // The shell's own child may be among them.
    assert!(numbers.len() >= 1502, "{}", numbers.len());
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "a gap, or one told twice");
}

#[test]
fn amounts_at_the_edge_are_refused_by_name() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let worker = Worker::idle(0);
    let client = daemon.client();
    for amount in [u64::MAX, 1 << 53, ledger::AMOUNT_MAX + 1] {
        let amount = Amount { resource: "cpu".to_owned(), kind: TicketKind::Soft, amount };
        let funding = Some(vec![amount]);
        let operation = Operation::Adopt {
            pid: Some(worker.pid()),
            start_time_ticks: None,
            from: None,
            funding,
        };
        let error = client.operate(operation).expect_err("too many").to_string();
        assert!(error.contains(&ledger::AMOUNT_MAX.to_string()), "{error}");
    }
}

fn create(name: &str) -> Operation {
    Operation::CreateCurrency { name: name.to_owned(), owner: None, group: None, mode: None }
}

fn fund(currency: &str, from: &str) -> Operation {
    let amount = Amount { resource: "cpu".to_owned(), kind: TicketKind::Soft, amount: 1 };
    Operation::Fund { currency: currency.into(), from: from.into(), amount }
}

fn unfund(currency: &str, from: &str) -> Operation {
    let (resource, kind) = ("cpu".to_owned(), TicketKind::Soft);
    Operation::Unfund { currency: currency.into(), from: from.into(), resource, kind }
}

fn request_of(operations: &[Operation]) -> Vec<u8> {
    let body = serde_json::json!({ "operations": operations }).to_string();
    let head =
        "POST /v1/operations HTTP/1.1\r\nhost: allotd\r\nconnection: close\r\ncontent-length:";
    format!("{head} {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// The journal's number in an answer.
fn sequence_in(mut stream: UnixStream) -> u64 {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    body["sequence"].as_u64().unwrap_or_else(|| panic!("{body}"))
}

fn signal(pid: u32, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(pid as i32);
    nix::sys::signal::kill(pid, signal).expect("a signal");
}

#[test]
fn a_user_s_many_requests_wait_for_another_s_only_one() {
    use nix::sys::signal::Signal;
    const REQUESTS: usize = 40;
    if !may_switch_users("a_user_s_many_requests_wait_for_another_s_only_one") {
        return;
    }
    let mut daemon = of_somebody(&["--enforcer", "none"]);
    daemon.launch();
    let socket = daemon.socket();
    as_user(SOMEBODY, || {
        let made = daemon.client().operate_all(vec![create("a"), create("b")]);
        made.expect("two currencies");
    });
    let toggles: Vec<Operation> =
        (0..125).flat_map(|_| [fund("b", "a"), unfund("b", "a")]).collect();
    let many = request_of(&toggles);
    let send = |request: &[u8]| {
        let mut stream = UnixStream::connect(&socket).expect("allotd listens");
        stream.write_all(request).expect("the socket has room");
        stream
    };
    // All wait when it goes on, the other's after them.
    signal(daemon.pid(), Signal::SIGSTOP);
    let (hostile, other) = std::thread::scope(|_| {
        let hostile =
            as_user(SOMEBODY, || (0..REQUESTS).map(|_| send(&many)).collect::<Vec<UnixStream>>());
        (hostile, as_user(SOMEBODY_ELSE, || send(&request_of(&[create("mine")]))))
    });
    signal(daemon.pid(), Signal::SIGCONT);
    let other = sequence_in(other);
    let before = hostile.into_iter().map(sequence_in).filter(|one| *one < other).count();
    // In order of arrival it would be all of them.
    assert!(before <= REQUESTS * 3 / 4, "{before} of {REQUESTS} requests came before");
}

#[test]
fn one_request_concerns_a_bounded_number_of_tickets() {
    if !may_switch_users("one_request_concerns_a_bounded_number_of_tickets") {
        return;
    }
    const WIDTH: usize = 63;
    let mut daemon = of_somebody(&["--enforcer", "none"]);
    daemon.launch();
    as_user(SOMEBODY, || {
        let client = daemon.client();
        // Layers that each fund all of the next: what makes the last one higher makes all of them higher.
        let name = |layer: usize, place: usize| format!("g{layer}-{place}");
        let all = (0..6).flat_map(|layer| (0..WIDTH).map(move |place| (layer, place)));
        let mut make: Vec<Operation> =
            all.map(|(layer, place)| create(&name(layer, place))).collect();
        make.extend([create("top"), create("end")]);
        for chunk in make.chunks(250) {
            client.operate_all(chunk.to_vec()).expect("made");
        }
        for layer in (0..5).rev() {
            for to in 0..WIDTH {
                let row = (0..WIDTH).map(|from| fund(&name(layer + 1, to), &name(layer, from)));
                client.operate_all(row.collect()).expect("funded");
            }
        }
        let end = name(5, 0);
        let toggles = (0..125).flat_map(|_| [fund("end", &end), unfund("end", &end)]).collect();
        let error = client.operate_all(toggles).expect_err("much too much").to_string();
        assert!(error.contains("send them in several"), "{error}");
        let ledger = client.ledger().expect("alive");
        let end = ledger.currencies.iter().find(|it| it.name == "end").expect("it was made");
        assert!(common::backing(&ledger, end.id).is_empty(), "nothing of it was done");
        client.operate(fund("end", &name(5, 0))).expect("one is not too much");
    });
}

#[test]
fn traders_are_looked_at_once_each_and_the_ledger_comes_in_pages() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let client = daemon.client();
    let names: Vec<String> = (0..25).map(|number| format!("c{number}")).collect();
    client.operate_all(names.iter().map(|name| create(name)).collect()).expect("made");
    let fund_all = names.iter().map(|name| fund(name, "base")).collect();
    client.operate_all(fund_all).expect("funded");
    let (status, body) = daemon.get(&format!("/v1/traders?who={}", ["c1"; 1000].join(",")));
    let found: wire::TradersView = serde_json::from_str(&body).expect("traders");
    assert_eq!((status, found.traders.len()), (200, 1));
    let whole = client.ledger().expect("alive");
    let mut pages = wire::LedgerView { currencies: vec![], tickets: vec![], ..whole.clone() };
    let mut query = "limit=10".to_owned();
    loop {
        let (status, body) = daemon.get(&format!("/v1/ledger?{query}"));
        assert_eq!(status, 200, "{body}");
        let page: wire::LedgerView = serde_json::from_str(&body).expect("a page");
        let is_last = page.currencies.len() < 10;
        pages.currencies.extend(page.currencies);
        pages.tickets.extend(page.tickets);
        if is_last {
            break;
        }
        let last = pages.currencies.last().expect("a full page").id;
        query = format!("limit=10&after={last}");
    }
    pages.tickets.sort_by_key(|ticket| ticket.id);
    assert_eq!(pages, whole);
    assert_eq!(daemon.get("/v1/ledger?limit=0").0, 400);
}

#[test]
fn a_name_that_somebody_took_first_is_not_paid() {
    if !may_switch_users("a_name_that_somebody_took_first_is_not_paid") {
        return;
    }
    let mut daemon = of_somebody(&["--enforcer", "none"]);
    let policy = daemon.dir.path().join("policy.toml");
    std::fs::write(&policy, format!("{POLICY}{BY_HAND}")).expect("a policy");
    daemon.launch();
    let client = daemon.client();
    // A connection is who made it.
    as_user(SOMEBODY, || daemon.client().operate(create("backup")).map(drop)).expect("theirs");
    let worker = Worker::idle(0);
    let from = |name: &str| Operation::Adopt {
        pid: Some(worker.pid()),
        start_time_ticks: None,
        from: Some(name.into()),
        funding: None,
    };
    for operation in [fund("backup", "base"), from("backup")] {
        let error = client.operate(operation).expect_err("whose is meant?").to_string();
        assert!(error.contains("64001:backup"), "{error}");
    }
    client.operate(fund("64001:backup", "base")).expect("said whose");
    client.operate(create("backup")).expect("root's own");
    client.operate(fund("backup", "base")).expect("root's own");
    // What base's owner has, others mean by its name, unless they have their own.
    let whose = |uid: u32| {
        as_user(uid, || daemon.client().traders(&["backup"])).expect("found").traders[0].owner
    };
    assert_eq!((whose(SOMEBODY), whose(SOMEBODY_ELSE)), (SOMEBODY, 0));
}

#[test]
fn a_user_s_limit_starts_nothing_that_the_policy_does_not_allow() {
    let test = "a_user_s_limit_starts_nothing_that_the_policy_does_not_allow";
    let limit = || {
        let limit = wire::DiskLimit { reads: Some(100), ..Default::default() };
        Operation::LimitDisk { currency: "mine".into(), disk: "sda".to_owned(), limit }
    };
    if !may_switch_users(test) {
        return;
    }
    for (line, allowed) in [("", false), ("disk_limits = true\n", true)] {
        let daemon = Daemon::prepare(&["--enforcer", "none"]);
        let policy = daemon.dir.path().join("policy.toml");
        std::fs::write(&policy, format!("{POLICY}{line}{NO_SERVICES}")).expect("a policy");
        let mut daemon = daemon.with(&["--funding-policy", policy.to_str().expect("a path")]);
        daemon.launch();
        as_user(SOMEBODY, || {
            let client = daemon.client();
            client.operate(create("mine")).expect("made");
            let limited = client.operate(limit()).map(drop).map_err(|error| error.to_string());
            match allowed {
                true => limited.expect("the policy allows it"),
                false => assert!(limited.expect_err("not allowed").contains("disk_limits = true")),
            }
        });
    }
}

#[test]
fn who_does_not_rule_is_not_told_the_seed_nor_where_the_state_is() {
    if !may_switch_users("who_does_not_rule_is_not_told_the_seed_nor_where_the_state_is") {
        return;
    }
    let mut daemon = of_somebody(&["--enforcer", "none", "--seed", "4711"]);
    daemon.launch();
    let told = |uid| {
        let status = as_user(uid, || daemon.client().status()).expect("alive");
        (status.state_dir.is_empty(), status.cpu.seed)
    };
    assert_eq!((told(SOMEBODY), told(0)), ((true, 0), (false, 4711)));
}
