//! Who means ill, and what must not happen then.

mod common;

use common::{
    Daemon, SOMEBODY, Worker, client_of, may_switch_users, scheduling_of, state_of, wait_for,
};
use std::io::Write;
use std::os::unix::fs::{lchown, symlink};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use wire::{Amount, Operation, TicketKind};

/// A policy that names one user of the tests and nobody else.
const POLICY: &str = "[users]\nuids = \"64001\"\ncpu = 1000\n";

fn of_somebody(options: &[&str]) -> Daemon {
    let daemon = Daemon::prepare(options);
    let policy = daemon.dir.path().join("policy.toml");
    std::fs::write(&policy, POLICY).expect("a policy");
    daemon.with(&["--funding-policy", policy.to_str().expect("a path")])
}

fn adopt(pid: u32) -> Operation {
    Operation::Adopt { pid: Some(pid), start_time_ticks: None, from: None, funding: None }
}

fn children_of(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let read = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.expect("a task").path().join("children")).unwrap_or_default()
    };
    let text: String = tasks.map(read).collect();
    text.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

#[test]
fn nobody_manages_allotd_its_guardian_init_or_the_kernel() {
    let daemon = Daemon::private(&[]);
    let client = daemon.client();
    let guardian = children_of(daemon.pid());
    assert_eq!(guardian.len(), 1, "{guardian:?}");
    let nice = |pid| Operation::Nice { pid: Some(pid), resource: None, amount: 1 };
    for (pid, what) in [(daemon.pid(), "allotd itself"), (guardian[0], "guardian"), (1, "init")] {
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
    for guardian in children_of(pid) {
        assert!(client_of(&ledger, guardian).is_none(), "allotd manages its guardian");
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
    let guardian = children_of(child.id())[0];
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
