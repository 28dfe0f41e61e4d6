//! A private allotd beside the machine's.

mod common;

use common::{Daemon, NO_SERVICES, Worker, may_switch_users, scheduling_of, state_of, wait_for};
use wire::Operation;

/// Both would hold processes one by one: the private one lets go, says so where it is asked, and goes
/// on when the other has ended.
#[test]
fn a_private_one_defers_to_the_machines_while_that_holds_processes_too() {
    let test = "a_private_one_defers_to_the_machines_while_that_holds_processes_too";
    if !may_switch_users(test) {
        return;
    }
    let machines = Daemon::prepare(&["--enforcer", "user-level"]);
    let policy = machines.dir.path().join("policy.toml");
    std::fs::write(&policy, format!("{NO_SERVICES}[users]\nmanaged = false\n")).expect("written");
    let mut machines = machines.with(&["--funding-policy", policy.to_str().expect("text")]);
    let socket = machines.socket();
    let socket = socket.to_str().expect("text");
    let private = Daemon::private(&["--machine-socket", socket, "--hold", "stop"]);
    let client = private.client();
    let worker = Worker::busy();
    let adopt = |pid| {
        let adopt =
            Operation::Adopt { pid: Some(pid), start_time_ticks: None, from: None, funding: None };
        client.operate(adopt).expect("adopted").results.remove(0).notes
    };
    assert!(adopt(worker.pid()).is_empty());
    client.operate(Operation::SetTickets { pid: worker.pid(), amount: 0 }).expect("frozen");
    wait_for("the freeze", || state_of(worker.pid()) == 'T');

    machines.launch();
    let enforcer = || client.status().expect("alive").cpu;
    wait_for("the private one to defer", || enforcer().name == "none");
    assert!(enforcer().why.contains("deferred to the machine's allotd"), "{}", enforcer().why);
    wait_for("the thaw", || state_of(worker.pid()) == 'R');
    assert_eq!(scheduling_of(worker.pid()), 0);
    let other = Worker::busy();
    let notes = adopt(other.pid());
    assert!(notes[0].contains("has no effect now: deferred to"), "{notes:?}");

    machines.kill();
    wait_for("the private one to go on", || enforcer().name == "user-level");
    wait_for("the freeze", || state_of(worker.pid()) == 'T');
}
