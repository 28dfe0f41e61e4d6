//! Members, transfers and guests through the interface: what the kernel says of a caller decides,
//! not what the caller says; and what was moved is shown, and ends with who was moved.

mod common;

use common::{BY_HAND, Daemon, Worker, client_of, may_switch_users, two_users, wait_for};
use std::sync::mpsc::channel;
use wire::{Class, ClientError, CurrencyView, ErrorCode, MemberRef, MemberView, Operation};

fn adopt(pid: u32) -> Operation {
    Operation::Adopt { pid: Some(pid), start_time_ticks: None, from: None, funding: None }
}

fn join(member: MemberRef, client: u32) -> Operation {
    Operation::Join { member: Some(member), client: format!("pid:{client}").into() }
}

#[track_caller]
fn refusal(result: Result<wire::OperationsDone, ClientError>) -> wire::ApiError {
    match result {
        Err(ClientError::Refused(trouble)) => trouble,
        other => panic!("a refusal was expected, not {other:?}"),
    }
}

fn view_of(daemon: &Daemon, pid: u32) -> CurrencyView {
    let ledger = daemon.client().ledger().expect("a ledger");
    client_of(&ledger, pid).expect("a client").clone()
}

/// A system's allotd, root's, whose policy names two users of the tests.
fn of_two(enforcer: &str, one: u32, other: u32) -> Daemon {
    let daemon = Daemon::prepare(&["--enforcer", enforcer]);
    let policy = daemon.dir.path().join("policy.toml");
    let users = format!("[users]\nuids = \"{one}-{other}\"\ncpu = 1000\n");
    std::fs::write(&policy, format!("{users}{BY_HAND}")).expect("a policy");
    let mut daemon = daemon.with(&["--funding-policy", policy.to_str().expect("text")]);
    daemon.launch();
    daemon
}

#[test]
fn a_thread_joins_by_its_own_word_and_its_end_is_seen() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let client = daemon.client();
    let worker = Worker::idle(0);
    client.operate(adopt(worker.pid())).expect("adopted");
    let (send_tid, tid) = channel();
    let (end, ended) = channel::<()>();
    let thread = std::thread::spawn(move || {
        send_tid.send(nix::unistd::gettid().as_raw().cast_unsigned()).expect("the test waits");
        let _ = ended.recv();
    });
    let tid = tid.recv().expect("it started");
    client.operate(join(MemberRef::Thread(tid), worker.pid())).expect("a thread of the caller's");
    let members = view_of(&daemon, worker.pid()).members;
    match members.as_slice() {
        [MemberView::Thread { tid: found, process }] => {
            assert_eq!((*found, process.pid), (tid, std::process::id()));
        }
        other => panic!("{other:?}"),
    }
    let trouble = refusal(client.operate(join(MemberRef::Process(tid), worker.pid())));
    assert!(trouble.message.contains("names a thread"), "{}", trouble.message);
    client.operate(Operation::Leave { member: Some(MemberRef::Thread(tid)) }).expect("it leaves");
    assert_eq!(view_of(&daemon, worker.pid()).members, []);
    let again = refusal(client.operate(Operation::Leave { member: Some(MemberRef::Thread(tid)) }));
    assert_eq!(again.code, ErrorCode::Conflict, "{}", again.message);
    client.operate(join(MemberRef::Thread(tid), worker.pid())).expect("and comes back");
    drop(end);
    thread.join().expect("it ends");
    wait_for("the end of a thread", || view_of(&daemon, worker.pid()).members.is_empty());
    let trouble = refusal(client.operate(join(MemberRef::Thread(tid), worker.pid())));
    assert_eq!(trouble.code, ErrorCode::Unknown, "{}", trouble.message);
}

#[test]
fn a_caller_moves_lends_and_steps_back_by_itself() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let client = daemon.client();
    let worker = Worker::idle(0);
    let own = std::process::id();
    client.operate(adopt(worker.pid())).expect("adopted");
    let nobody = Operation::SetClass { client: None, class: Class::Guest };
    assert_eq!(
        refusal(client.operate(nobody)).code,
        ErrorCode::Unknown,
        "the caller is no client yet"
    );
    client.operate(adopt(own)).expect("adopted");
    let to = || format!("pid:{}", worker.pid()).into();
    client.operate(Operation::Join { member: None, client: to() }).expect("its own process");
    assert_eq!(view_of(&daemon, own).joined, Some(view_of(&daemon, worker.pid()).id));
    client.operate(Operation::Leave { member: None }).expect("back");
    client.operate(Operation::SetClass { client: None, class: Class::Guest }).expect("itself");
    assert_eq!(view_of(&daemon, own).class, Class::Guest);
    client.operate(Operation::SetClass { client: None, class: Class::Host }).expect("itself");
    let lend = || Operation::Transfer { from: None, to: to(), resource: None };
    client.operate(lend()).expect("its own tickets");
    let trouble = refusal(client.operate(lend()));
    assert!(trouble.message.contains("already lent"), "{}", trouble.message);
    let lent = |daemon: &Daemon| {
        let tickets = daemon.client().ledger().expect("a ledger").tickets;
        tickets.into_iter().filter(|ticket| ticket.kind == wire::TicketKind::Transfer).count()
    };
    assert_eq!(lent(&daemon), 1);
    client.operate(Operation::TakeBack { from: None, resource: None }).expect("taken back");
    assert_eq!(lent(&daemon), 0);
    let trouble = refusal(client.operate(Operation::TakeBack { from: None, resource: None }));
    assert!(trouble.message.contains("has lent no"), "{}", trouble.message);
    // What was lent ends with who holds it.
    client.operate(lend()).expect("lent again");
    let ledger = client.ledger().expect("a ledger");
    let text = daemon.allot(&["tree"], 0);
    assert!(String::from_utf8_lossy(&text.stdout).contains("lends all it has"), "{ledger:?}");
    drop(worker);
    wait_for("the end of a loan", || lent(&daemon) == 0);
}

#[test]
fn what_a_guest_starts_is_a_guest() {
    let mut daemon = Daemon::private(&["--enforcer", "none"]);
    let mut command = std::process::Command::new(common::allot());
    command.args(["--socket".as_ref(), daemon.socket().as_os_str()]);
    command.args(["run", "--guest", "--", "sh", "-c", "sleep 1000 & wait"]);
    let mut shell = command.spawn().expect("allot runs");
    let guests = |daemon: &Daemon| {
        let ledger = daemon.client().ledger().expect("a ledger");
        ledger.currencies.iter().filter(|one| one.class == Class::Guest).count()
    };
    wait_for("a guest and its child", || guests(&daemon) == 2);
    daemon.kill();
    daemon.launch();
    assert_eq!(guests(&daemon), 2, "it is written down");
    let off = daemon.allot(&["guest", &shell.id().to_string(), "--off"], 0);
    assert!(off.status.success(), "{off:?}");
    assert_eq!(guests(&daemon), 1);
    shell.kill().expect("it runs");
    shell.wait().expect("it ends");
    let ledger = daemon.client().ledger().expect("a ledger");
    for one in ledger.currencies.iter().filter_map(|one| one.process.as_ref()) {
        let pid = nix::unistd::Pid::from_raw(one.pid.cast_signed());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
    }
}

#[test]
fn nobody_moves_lends_or_holds_back_what_is_anothers() {
    let name = "nobody_moves_lends_or_holds_back_what_is_anothers";
    if !may_switch_users(name) {
        return;
    }
    let (somebody, somebody_else) = two_users();
    let daemon = of_two("none", somebody, somebody_else);
    let mine = Worker::idle(somebody);
    let theirs = Worker::idle(somebody_else);
    let (own, other) = (mine.pid().to_string(), theirs.pid().to_string());
    let (own_client, other_client) = (format!("pid:{own}"), format!("pid:{other}"));
    wait_for("both to be placed", || {
        let ledger = daemon.client().ledger().expect("a ledger");
        client_of(&ledger, mine.pid()).is_some() && client_of(&ledger, theirs.pid()).is_some()
    });
    let before = daemon.client().ledger().expect("a ledger");
    let root = std::process::id().to_string();
    let (theirs_alone, no_issue) =
        (format!("belongs to uid {somebody_else}"), format!("uid {somebody} lacks the right i"));
    let no_change = format!("uid {somebody} lacks the right c");
    for (arguments, says) in [
        // Somebody else's process, by any name; and a process of root's.
        (vec!["join", "--process", &other, "--to", &own_client], theirs_alone.as_str()),
        (vec!["join", "--thread", &other, "--to", &own_client], theirs_alone.as_str()),
        (vec!["join", "--process", &root, "--to", &own_client], "belongs to uid 0"),
        (vec!["leave", "--process", &other], "has joined no client"),
        // One's own into somebody else's share.
        (vec!["join", "--process", &own, "--to", &other_client], no_issue.as_str()),
        (vec!["join", "--process", &own, "--to", "kernel"], "no currency `kernel`"),
        // Init, and the threads of the kernel.
        (vec!["join", "--process", "1", "--to", &own_client], "init"),
        // Somebody else's tickets.
        (vec!["transfer", "--from", &other, "--to", &own], no_change.as_str()),
        (vec!["guest", &other], no_change.as_str()),
        (vec!["policy", "stride"], "only the superuser may change the policy"),
        (vec!["trace", "--seconds", "1"], "only the superuser may trace"),
    ] {
        let said = daemon.allot(&arguments, somebody);
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(text.contains(says), "{arguments:?}: {text}");
    }
    // Those who asked were clients, too; that they are gone may be seen a little later.
    let ledger = || daemon.client().ledger().expect("alive");
    wait_for("the tickets that there were", || ledger().tickets == before.tickets);
    let after = ledger();
    assert!(after.currencies.iter().all(|one| one.members.is_empty() && one.joined.is_none()));
    // With the right to issue, one may spend; and who owns the client may send one away.
    let allowed = |arguments: &[&str], uid: u32| {
        let said = daemon.allot(arguments, uid);
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.status.success(), "{arguments:?}: {text}");
    };
    let subject = format!("uid:{somebody}");
    allowed(&["currency", "grant", &other_client, &subject, "i"], somebody_else);
    allowed(&["join", "--process", &own, "--to", &other_client], somebody);
    assert_eq!(view_of(&daemon, theirs.pid()).members.len(), 1);
    let said = daemon.allot(&["leave", "--process", &own], somebody_else + 1000);
    assert!(!said.status.success(), "a third has no say");
    allowed(&["leave", "--process", &own], somebody_else);
    assert_eq!(view_of(&daemon, theirs.pid()).members.len(), 0);
    // To lend is to give, and whoever is given something is asked.
    let said = daemon.allot(&["transfer", "--from", &own, "--to", &other], somebody);
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!said.status.success() && text.contains("lacks the right f"), "{text}");
    allowed(&["currency", "grant", &other_client, &subject, "f"], somebody_else);
    allowed(&["transfer", "--from", &own, "--to", &other], somebody);
    let said = daemon.allot(&["transfer", "--back", "--from", &own], somebody_else);
    assert!(!said.status.success(), "what was lent is the lender's to take back");
    allowed(&["transfer", "--back", "--from", &own], somebody);
}

#[test]
fn a_cgroup_is_named_by_its_directory_and_nothing_else_is_looked_at() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let worker = Worker::idle(0);
    daemon.client().operate(adopt(worker.pid())).expect("adopted");
    let has_tree = !matches!(
        std::fs::read_to_string("/proc/self/mountinfo"),
        Ok(mounts) if !mounts.contains(" - cgroup2 ")
    );
    for path in
        ["/", "", ".", "../../../etc", "/../etc", "/no/such/group", "/proc/1/root", "a\u{0}b"]
    {
        let adopt = Operation::AdoptCgroup { cgroup: path.to_owned(), from: None, funding: None };
        for operation in [adopt, join(MemberRef::Cgroup(path.to_owned()), worker.pid())] {
            let trouble = refusal(daemon.client().operate(operation));
            let expected: &[&str] = if has_tree { &["unknown", "invalid"] } else { &["conflict"] };
            assert!(expected.contains(&trouble.code.as_str()), "{path:?}: {}", trouble.message);
        }
    }
}

#[test]
fn the_policy_is_shown_and_a_change_that_cannot_be_is_refused() {
    let daemon = Daemon::private(&["--policy", "stride"]);
    let client = daemon.client();
    assert_eq!(client.policy().expect("an answer").policy, "stride");
    let refused = |policy: &str| match client.set_policy(policy) {
        Err(ClientError::Refused(trouble)) => trouble,
        other => panic!("{other:?}"),
    };
    let trouble = refused("fifo");
    assert!(
        trouble.code == ErrorCode::Invalid && trouble.message.contains("mtr-ls"),
        "{trouble:?}"
    );
    let trouble = refused("lottery");
    assert_eq!(trouble.code, ErrorCode::Conflict);
    assert!(trouble.message.contains("user-level"), "{}", trouble.message);
    assert_eq!(client.policy().expect("an answer").policy, "stride");
    let said = match client.trace(None) {
        Err(ClientError::Refused(trouble)) => trouble,
        Ok(_) => panic!("the user-level lottery has no trace"),
        Err(other) => panic!("{other:?}"),
    };
    assert!(said.code == ErrorCode::Conflict && said.message.contains("user-level"), "{said:?}");
}

#[test]
fn a_private_allotd_takes_nothing_for_the_whole_machine() {
    for enforcer in ["sched-ext", "weights"] {
        let mut daemon = Daemon::prepare(&["--user", "--enforcer", enforcer]);
        assert!(!daemon.try_launch(), "{enforcer}");
        assert!(daemon.log().contains("shares the whole machine"), "{}", daemon.log());
    }
    // The choice says why not the others.
    let daemon = Daemon::private(&[]);
    let cpu = daemon.client().status().expect("alive").cpu;
    assert_eq!(cpu.name, "user-level");
    assert!(cpu.why.contains("private"), "{}", cpu.why);
    let doctor = daemon.client().doctor().expect("alive");
    for name in ["sched_ext", "cgroup weights"] {
        let check = doctor.checks.iter().find(|check| check.name == name).expect(name);
        assert!(check.ok || check.says.contains("; "), "what, why and what to do: {}", check.says);
    }
}
