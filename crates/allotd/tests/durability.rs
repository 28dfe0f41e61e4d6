//! Nothing lost, nothing left behind: allotd is killed at random moments under load.

mod common;

use common::{Daemon, Worker, scheduling_of, state_of, wait_for};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::{Amount, Client, ErrorCode, Operation, TicketKind};

/// Rounds of killing; the environment asks for more (`make soak`: 1000).
fn rounds() -> u64 {
    std::env::var("ALLOT_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(12)
}

fn create(name: String) -> Operation {
    Operation::CreateCurrency { name, owner: None, group: None, mode: None }
}

fn fund(currency: String, amount: u64) -> Operation {
    let amount = Amount { resource: "cpu".to_owned(), kind: TicketKind::Soft, amount };
    Operation::Fund { currency: currency.into(), from: "base".into(), amount }
}

/// A small generator for moments; the seed is printed.
struct Moments(u64);

impl Moments {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A ledger grows by some hundred currencies a round: after so many rounds a new one begins.
const ROUNDS_OF_ONE_LEDGER: u64 = 25;

#[test]
fn killed_at_any_moment_it_loses_no_acknowledged_operation_and_leaves_no_process_held() {
    let seed = std::env::var("ALLOT_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
    let mut moments = Moments(seed);
    let (mut done, mut acknowledged) = (0, 0);
    while done < rounds() {
        let some = ROUNDS_OF_ONE_LEDGER.min(rounds() - done);
        acknowledged += kill_again_and_again(&mut moments, some);
        done += some;
        eprintln!("seed {seed}: {done} kills, {acknowledged} pairs acknowledged, none lost");
    }
}

/// Answers how many pairs of operations were acknowledged.
fn kill_again_and_again(moments: &mut Moments, rounds: u64) -> usize {
    let mut daemon = Daemon::private(&["--quantum-ms", "2", "--policy", "stride"]);
    // Busy ones, and one that forks all the time.
    let mut workers: Vec<Worker> = (0..4).map(|_| Worker::busy()).collect();
    workers.push(Worker::shell("while :; do (:) ; (sleep 0.01 &) ; done", 0));
    let acknowledged: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    for round in 0..rounds {
        let client = daemon.client();
        let known = client.ledger().expect("alive");
        for worker in &workers {
            if common::client_of(&known, worker.pid()).is_none() {
                let amount = 1 + moments.below(100);
                let amount = Amount { resource: "cpu".to_owned(), kind: TicketKind::Soft, amount };
                let adopt = Operation::Adopt {
                    pid: Some(worker.pid()),
                    start_time_ticks: None,
                    from: None,
                    funding: Some(vec![amount]),
                };
                client.operate(adopt).expect("adopted");
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let loads: Vec<_> = (0..3)
            .map(|load| {
                let (stop, acknowledged) = (Arc::clone(&stop), Arc::clone(&acknowledged));
                let socket = daemon.socket();
                std::thread::spawn(move || {
                    let client = Client::new(socket);
                    for number in 0.. {
                        let name = format!("c{round}-{load}-{number}");
                        let pair = vec![create(name.clone()), fund(name.clone(), number + 1)];
                        if stop.load(Ordering::Relaxed) || client.operate_all(pair).is_err() {
                            return;
                        }
                        acknowledged.lock().expect("a lock").insert(name);
                    }
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(moments.below(250)));
        daemon.kill();
        stop.store(true, Ordering::Relaxed);
        loads.into_iter().for_each(|load| load.join().expect("a load"));
        for worker in &workers {
            let pid = worker.pid();
            wait_for("the guardian", || scheduling_of(pid) == 0 && state_of(pid) != 'T');
        }
        wait_for("every descendant to be restored", || descendants_held(&workers).is_empty());
        daemon.launch();
        let ledger = daemon.client().ledger().expect("alive");
        let names: BTreeSet<&str> =
            ledger.currencies.iter().map(|currency| currency.name.as_str()).collect();
        for name in acknowledged.lock().expect("a lock").iter() {
            assert!(names.contains(name.as_str()), "round {round}: {name} is lost");
        }
        // Each was made and funded in one step: no half of it.
        for currency in &ledger.currencies {
            if currency.name.starts_with('c') && currency.kind == wire::CurrencyKind::Pure {
                assert_eq!(common::backing(&ledger, currency.id).len(), 1, "{}", currency.name);
            }
        }
    }
    assert!(daemon.stop().success());
    acknowledged.lock().expect("a lock").len()
}

/// Processes of the workers' groups that are stopped or in SCHED_IDLE.
fn descendants_held(workers: &[Worker]) -> Vec<u32> {
    let groups: BTreeSet<u32> = workers.iter().map(Worker::pid).collect();
    let pids = std::fs::read_dir("/proc")
        .expect("proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let in_group = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let group = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(2)?.parse().ok());
        group.is_some_and(|group| groups.contains(&group))
    };
    pids.filter(in_group).filter(|pid| scheduling_of(*pid) == 5 || state_of(*pid) == 'T').collect()
}

#[test]
fn a_damaged_journal_is_told_and_recovered_from() {
    let mut daemon = Daemon::private(&["--enforcer", "none"]);
    for number in 0..50 {
        daemon.client().operate(create(format!("c{number}"))).expect("made");
    }
    assert!(daemon.stop().success());
    let file = daemon.state_dir().join("journal.sqlite");
    let mut bytes = std::fs::read(&file).expect("a journal");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].iter_mut().for_each(|byte| *byte ^= 0x5a);
    std::fs::write(&file, &bytes).expect("a damaged journal");
    if daemon.try_launch() {
        // Damage where nothing is kept: then nothing may be missing.
        let names = daemon.client().ledger().expect("alive").currencies.len();
        assert_eq!(names, 51, "accepted, so it must be whole");
        assert!(daemon.stop().success());
        bytes.truncate(bytes.len() / 2);
        std::fs::write(&file, &bytes).expect("a truncated journal");
        assert!(!daemon.try_launch(), "half a file is no journal");
    }
    let log = daemon.log();
    assert!(log.contains("journal.sqlite") && log.contains("--recover"), "{log}");
    assert!(std::fs::read(&file).is_ok_and(|now| now == bytes), "nothing was touched");
    let mut daemon = daemon.with(&["--recover"]);
    daemon.launch();
    daemon.client().operate(create("after".to_owned())).expect("it serves again");
}

#[test]
fn a_full_disk_refuses_and_loses_nothing() {
    let test = "a_full_disk_refuses_and_loses_nothing";
    let daemon = Daemon::prepare(&["--user", "--enforcer", "none"]);
    std::fs::create_dir_all(daemon.state_dir()).expect("a directory");
    let mount = |arguments: &[&str]| {
        let done = std::process::Command::new(arguments[0])
            .args(&arguments[1..])
            .arg(daemon.state_dir())
            .status();
        done.is_ok_and(|status| status.success())
    };
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs"]) {
        eprintln!("SKIP {test}: no tmpfs can be mounted here");
        return;
    }
    let unmount = Unmount(daemon.state_dir());
    let mut daemon = daemon;
    daemon.launch();
    let client = daemon.client();
    let ballast = daemon.state_dir().join("ballast");
    let mut made = BTreeSet::new();
    let mut refused = None;
    for number in 0..5000 {
        let name = format!("c{number}");
        match client.operate(create(name.clone())) {
            Ok(_) => made.insert(name),
            Err(error) => {
                refused = Some(error);
                break;
            }
        };
        if number == 20 {
            // What is left of the disk goes to somebody else.
            let _ = std::fs::write(&ballast, vec![0; 1 << 20]);
        }
    }
    match refused.expect("the disk is full some time") {
        wire::ClientError::Refused(trouble) => {
            assert_eq!(trouble.code, ErrorCode::Journal);
            assert!(trouble.message.contains("nothing was changed"), "{}", trouble.message);
        }
        other => panic!("{other}"),
    }
    let all_there = |daemon: &Daemon| {
        let ledger = daemon.client().ledger().expect("alive");
        let names: BTreeSet<String> =
            ledger.currencies.into_iter().map(|currency| currency.name).collect();
        assert!(made.iter().all(|name| names.contains(name)));
        assert_eq!(names.len(), made.len() + 1, "base and what was acknowledged");
    };
    all_there(&daemon);
    std::fs::remove_file(&ballast).expect("room again");
    wait_for("operations to succeed again", || {
        let probe = Operation::ChangeMode { currency: "base".into(), mode: "fci------".into() };
        client.operate(probe).is_ok()
    });
    daemon.kill();
    daemon.launch();
    all_there(&daemon);
    drop(daemon);
    drop(unmount);
}

#[test]
fn newcomers_are_placed_while_the_disk_is_full() {
    let test = "newcomers_are_placed_while_the_disk_is_full";
    if !common::may_switch_users(test) {
        return;
    }
    let daemon = Daemon::prepare(&["--enforcer", "none"]);
    std::fs::create_dir_all(daemon.state_dir()).expect("a directory");
    let mut mount = std::process::Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs"]).arg(daemon.state_dir());
    if !mount.status().is_ok_and(|status| status.success()) {
        eprintln!("SKIP {test}: no tmpfs can be mounted here");
        return;
    }
    let unmount = Unmount(daemon.state_dir());
    let policy = daemon.dir.path().join("policy.toml");
    let text = format!("[users]\nuids = \"64001\"\ncpu = 1000\n{}", common::NO_SERVICES);
    std::fs::write(&policy, text).expect("a policy");
    let mut daemon = daemon.with(&["--funding-policy", policy.to_str().expect("a path")]);
    daemon.launch();
    let client = daemon.client();
    let ballast = daemon.state_dir().join("ballast");
    let _ = std::fs::write(&ballast, vec![0; 1 << 20]);
    let is_refused = |number: u32| client.operate(create(format!("c{number}"))).is_err();
    assert!((0..5000).any(is_refused), "the disk is full some time");
    let of = |pid: u32| {
        let ledger = client.ledger().expect("alive");
        common::client_of(&ledger, pid).map(|found| found.id)
    };
    let workers: Vec<Worker> = (0..30).map(|_| Worker::idle(common::SOMEBODY)).collect();
    wait_for("the newcomers", || workers.iter().all(|worker| of(worker.pid()).is_some()));
    let gone = workers.first().expect("some").pid();
    let mut workers = workers;
    drop(workers.remove(0));
    wait_for("one to go", || of(gone).is_none());
    let ids = |workers: &[Worker]| workers.iter().map(|it| of(it.pid())).collect::<Vec<_>>();
    let before = ids(&workers);
    let full = client.operate(create("refused".to_owned())).expect_err("the disk is full");
    assert!(full.to_string().contains("nothing was changed"), "{full}");
    let told = daemon.log().matches("operations undone").count();
    assert_eq!(told, 1, "told once:\n{}", daemon.log());
    std::fs::remove_file(&ballast).expect("room again");
    wait_for("operations to succeed again", || client.operate(create("c".to_owned())).is_ok());
    assert_eq!(ids(&workers), before);
    // What was placed meanwhile is in the journal now.
    daemon.kill();
    daemon.launch();
    assert_eq!(ids(&workers), before);
    drop(daemon);
    drop(unmount);
}

struct Unmount(std::path::PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn one_state_has_one_keeper() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let elsewhere = daemon.dir.path().join("another");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_allotd"))
        .args(["--user", "--enforcer", "none", "--state-dir"])
        .args([daemon.state_dir(), "--socket".into(), elsewhere])
        .output()
        .expect("allotd runs");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("in use"), "{said}");
    assert!(daemon.client().status().is_ok(), "the first goes on");
}
