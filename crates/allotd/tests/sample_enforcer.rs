//! The sample enforcer (examples/token.rs, docs/enforcers.md): a made-up resource is funded, shown, sampled and reverted,
//! although nothing in allot but that one file knows of it.

mod common;

use common::{Daemon, Worker, wait_for};
use std::path::PathBuf;
use wire::{Amount, Operation, TicketKind};

const TOKEN: &str = "token:licence";

/// The file of the licence's holders.
fn holders(daemon: &Daemon) -> PathBuf {
    daemon.dir.path().join("sock.held.token-licence")
}

fn tickets(pid: u32, amount: u64) -> Operation {
    let amount = Amount { resource: TOKEN.to_owned(), kind: TicketKind::Soft, amount };
    Operation::Fund { currency: format!("pid:{pid}").into(), from: "base".into(), amount }
}

/// A sleeping process that the daemon manages.
fn client_of(daemon: &Daemon) -> Worker {
    let worker = Worker::idle(0);
    let pid = Some(worker.pid());
    let adopt = Operation::Adopt { pid, start_time_ticks: None, from: None, funding: None };
    daemon.client().operate(adopt).expect("adopted");
    worker
}

/// The turns that each process has won.
fn turns(daemon: &Daemon, pids: [u32; 2]) -> [u64; 2] {
    let sample = daemon.client().sample().expect("a sample");
    let of = |pid: u32| {
        let client = sample.clients.iter().find(|client| client.pid == pid)?;
        let resource = sample.resources.iter().find(|resource| resource.resource == TOKEN)?;
        resource.clients.iter().find(|used| used.id == client.id).map(|used| used.used)
    };
    pids.map(|pid| of(pid).unwrap_or(0))
}

#[test]
fn a_made_up_resource_is_funded_shown_sampled_and_reverted() {
    let mut daemon = Daemon::prepare(&["--user", "--policy", "stride"]).example("token");
    daemon.launch();
    let sleepers = [client_of(&daemon), client_of(&daemon)];
    let pids = [sleepers[0].pid(), sleepers[1].pid()];
    assert!(!holders(&daemon).exists(), "nobody has such tickets");
    let funds = vec![tickets(pids[0], 300), tickets(pids[1], 100)];
    daemon.client().operate_all(funds).expect("funded");

    let others = daemon.client().status().expect("a status").others;
    let [other] = others.as_slice() else { panic!("{others:?}") };
    assert_eq!((other.resource.as_str(), other.enforcer.as_str()), (TOKEN, "token-queue"));

    // A turn for each look. Stride is at most one turn off for each of two clients, and so is the ratio of what both had
    // at one moment (the policy's bound; nothing here is left to chance).
    wait_for("forty turns", || {
        daemon.client().status().expect("a status");
        turns(&daemon, pids).iter().sum::<u64>() >= 40
    });
    let [more, less] = turns(&daemon, pids);
    assert!(more.abs_diff(3 * less) <= 4, "3:1 of {more}:{less}");
    assert!(holders(&daemon).exists());

    assert!(daemon.stop().success());
    assert!(!holders(&daemon).exists(), "given back");
}

#[test]
fn the_guardian_gives_back_what_a_killed_one_left() {
    let mut daemon = Daemon::prepare(&["--user"]).example("token");
    daemon.launch();
    let sleeper = client_of(&daemon);
    daemon.client().operate(tickets(sleeper.pid(), 1)).expect("funded");
    // What is acknowledged is enforced next.
    wait_for("its holder", || holders(&daemon).exists());
    daemon.kill();
    wait_for("the guardian", || !holders(&daemon).exists());
}

#[test]
fn a_kind_that_nobody_registered_is_refused() {
    let daemon = Daemon::private(&[]);
    let sleeper = client_of(&daemon);
    let refused = daemon.client().operate(tickets(sleeper.pid(), 1)).expect_err("no such resource");
    let refused = refused.to_string();
    assert!(refused.contains("token:licence") && refused.contains("disk:DEVICE"), "{refused}");
}

#[test]
fn tickets_of_a_kind_that_another_program_registered_are_kept() {
    let mut daemon = Daemon::prepare(&["--user"]).example("token");
    daemon.launch();
    let sleeper = client_of(&daemon);
    daemon.client().operate(tickets(sleeper.pid(), 1)).expect("funded");
    assert!(daemon.stop().success());

    daemon.become_allotd();
    daemon.launch();
    let others = daemon.client().status().expect("it goes on").others;
    let [other] = others.as_slice() else { panic!("{others:?}") };
    assert_eq!((other.resource.as_str(), other.enforcer.as_str()), (TOKEN, "none"));
    assert_eq!(other.why, "no enforcer of token is registered");
    let ledger = daemon.client().ledger().expect("a ledger");
    assert!(ledger.tickets.iter().any(|ticket| ticket.resource == TOKEN));
}
