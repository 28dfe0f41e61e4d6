//! Real processes and their lives, as a running allotd sees them.

mod common;

use common::{
    Daemon, NO_SERVICES, Worker, backing, children_of, client_of, may_switch_users, scheduling_of,
    state_of, two_users, wait_for,
};
use ledger::memory_size;
use wire::{Amount, CurrencyKind, Operation, TicketKind};

fn adopt(pid: u32, tickets: u64) -> Operation {
    let amount = Amount { resource: "cpu".to_owned(), kind: TicketKind::Soft, amount: tickets };
    let funding = Some(vec![amount]);
    Operation::Adopt { pid: Some(pid), start_time_ticks: None, from: None, funding }
}

#[test]
fn children_are_funded_by_what_funds_their_parent_and_leave_when_they_exit() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let client = daemon.client();
    // Has children once it is a client.
    let go = daemon.dir.path().join("go");
    let script = "until [ -e GO ]; do sleep 0.1; done; sleep 1000 & sleep 1000";
    let worker = Worker::shell(&script.replace("GO", &go.display().to_string()), 0);
    client.operate(adopt(worker.pid(), 300)).expect("adopted");
    std::fs::write(go, "").expect("written");
    wait_for("both children", || {
        let ledger = client.ledger().expect("alive");
        let ours = children_of(worker.pid());
        // Between its fork and its exec a child bears the shell's name.
        let named = |child| client_of(&ledger, child).is_some_and(|it| it.name == "sleep");
        ours.len() == 2 && ours.into_iter().all(named)
    });
    let children = children_of(worker.pid());
    let ledger = client.ledger().expect("alive");
    for child in &children {
        let currency = client_of(&ledger, *child).expect("a client");
        assert_eq!(backing(&ledger, currency.id), [(0, 300)]);
    }
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(children[0] as i32),
        nix::sys::signal::Signal::SIGKILL,
    )
    .expect("a signal");
    wait_for("the child to leave", || {
        client_of(&client.ledger().expect("alive"), children[0]).is_none()
    });
}

#[test]
fn no_tickets_freeze_a_process_until_it_gets_some() {
    let mut daemon = Daemon::private(&[]);
    let client = daemon.client();
    let worker = Worker::busy();
    client.operate(adopt(worker.pid(), 0)).expect("adopted");
    wait_for("the freeze", || state_of(worker.pid()) == 'T');
    let currency = client.ledger().expect("alive");
    assert!(client_of(&currency, worker.pid()).expect("a client").frozen);
    client
        .operate(Operation::SetTickets { pid: worker.pid(), amount: 100 })
        .expect("it gets tickets");
    wait_for("the thaw", || state_of(worker.pid()) == 'R');
    client.operate(Operation::SetTickets { pid: worker.pid(), amount: 0 }).expect("they are taken");
    wait_for("the freeze", || state_of(worker.pid()) == 'T');
    // Frozen is not for ever: whoever kills allotd frees what it stopped.
    daemon.kill();
    wait_for("the guardian", || state_of(worker.pid()) == 'R');
    assert_eq!(scheduling_of(worker.pid()), 0);
}

#[test]
fn what_is_released_or_left_is_as_it_was() {
    let mut daemon = Daemon::private(&[]);
    let client = daemon.client();
    let workers: Vec<Worker> = (0..6).map(|_| Worker::busy()).collect();
    for worker in &workers {
        client.operate(adopt(worker.pid(), 100)).expect("adopted");
    }
    wait_for("a draw", || workers.iter().any(|worker| scheduling_of(worker.pid()) == 5));
    let first = workers[0].pid();
    client.operate(Operation::Release { client: format!("pid:{first}").into() }).expect("released");
    // Answered after the enforcer has heard of it.
    client.status().expect("alive");
    wait_for("the release", || scheduling_of(first) == 0);
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(scheduling_of(first), 0, "nobody touches it any more");
    assert!(daemon.stop().success());
    for worker in &workers {
        assert_eq!((scheduling_of(worker.pid()), state_of(worker.pid())), (0, 'R'));
    }
}

#[test]
fn a_returning_allotd_adopts_those_who_live_and_drops_the_others() {
    let mut daemon = Daemon::private(&[]);
    let client = daemon.client();
    let (stays, goes) = (Worker::busy(), Worker::busy());
    client.operate_all(vec![adopt(stays.pid(), 70), adopt(goes.pid(), 30)]).expect("adopted");
    let (stays_pid, goes_pid) = (stays.pid(), goes.pid());
    daemon.kill();
    drop(goes);
    daemon.launch();
    let ledger = daemon.client().ledger().expect("alive");
    let found = client_of(&ledger, stays_pid).expect("still a client");
    assert_eq!(backing(&ledger, found.id), [(0, 70)]);
    assert!(client_of(&ledger, goes_pid).is_none());
}

#[test]
fn a_niced_job_takes_from_its_owner_and_gives_back() {
    if !may_switch_users("a_niced_job_takes_from_its_owner_and_gives_back") {
        return;
    }
    let (somebody, somebody_else) = two_users();
    let daemon = system(&format!(
        "[users]\nuids = \"{somebody}-{somebody_else}\"\ncpu = 1000\n[processes]\ncpu = 500\n"
    ));
    let client = daemon.client();
    let worker = Worker::idle(somebody);
    let other = Worker::idle(somebody_else);
    wait_for("both to be placed", || {
        let ledger = client.ledger().expect("alive");
        [&worker, &other].iter().all(|worker| client_of(&ledger, worker.pid()).is_some())
    });
    let guaranteed = |pid: u32| {
        let ledger = client.ledger().expect("alive");
        client_of(&ledger, pid).expect("a client").resources[0].guaranteed
    };
    let others_before = guaranteed(other.pid());
    let pid = worker.pid().to_string();
    let output = daemon.allot(&["nice", "--tickets", "10", "--pid", &pid], somebody);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let ledger = client.ledger().expect("alive");
    let niced = client_of(&ledger, worker.pid()).expect("a client");
    let job = backing(&ledger, niced.id)[0].0;
    let job = ledger.currencies.iter().find(|currency| currency.id == job).expect("a job");
    assert_eq!(job.kind, CurrencyKind::Job);
    assert_eq!(backing(&ledger, job.id), [(0, 10)]);
    let home = ledger
        .currencies
        .iter()
        .find(|currency| currency.kind == CurrencyKind::Pure && currency.owner == somebody)
        .expect("a home");
    assert_eq!(backing(&ledger, home.id), [(0, 990)]);
    assert_eq!(guaranteed(other.pid()), others_before);
    let home = home.id;
    drop(worker);
    wait_for("the loan to come back", || {
        backing(&client.ledger().expect("alive"), home) == [(0, 1000)]
    });
    assert_eq!(guaranteed(other.pid()), others_before);
}

#[test]
fn users_are_placed_by_the_policy_and_funded_anew_when_they_change() {
    if !may_switch_users("users_are_placed_by_the_policy_and_funded_anew_when_they_change") {
        return;
    }
    let (somebody, somebody_else) = two_users();
    let mut daemon = system(&format!("[users]\nuids = \"{somebody}-{somebody_else}\"\n"));
    let client = daemon.client();
    let worker = Worker::shell("sleep 1000 & wait", somebody);
    wait_for("the worker and its child", || {
        let ledger = client.ledger().expect("alive");
        let children = children_of(worker.pid());
        client_of(&ledger, worker.pid()).is_some()
            && !children.is_empty()
            && children.iter().all(|child| client_of(&ledger, *child).is_some())
    });
    let home_of = |pid: u32| {
        let ledger = client.ledger().expect("alive");
        let id = client_of(&ledger, pid).map(|currency| currency.id)?;
        let issuer = backing(&ledger, id).first()?.0;
        ledger.currencies.iter().find(|currency| currency.id == issuer).map(|home| home.owner)
    };
    assert_eq!(home_of(worker.pid()), Some(somebody));
    // Root's process becomes somebody's, then runs on as such.
    let script = format!(
        "exec setpriv --reuid {somebody_else} --regid {somebody_else} --clear-groups sleep 1000"
    );
    let changing = Worker::shell(&script, 0);
    wait_for("the changed user", || home_of(changing.pid()) == Some(somebody_else));
    // Root's own are not named by this policy.
    let roots = Worker::idle(0);
    assert_eq!(home_of(roots.pid()), None);
    // What base tickets were set to survives logout and a restart.
    let set = ["lsetbase", "-u", &somebody.to_string(), "400"];
    let output = daemon.allot(&set, 0);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    drop(worker);
    daemon.kill();
    daemon.launch();
    let again = Worker::idle(somebody);
    wait_for("the next login", || home_of(again.pid()) == Some(somebody));
    let output = daemon.allot(&["ltix", "-u", &somebody.to_string()], somebody_else);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("400"), "{text}");
}

/// A uid that no range and no list of users names is a person's once a login has begun with it.
#[test]
fn a_directorys_user_is_a_person_by_logging_in() {
    let test = "a_directorys_user_is_a_person_by_logging_in";
    if !may_switch_users(test) {
        return;
    }
    let (user, stranger) = two_users();
    let daemon = system("");
    let client = daemon.client();
    let becomes = |uid: u32, login: &str| {
        let change = format!("exec setpriv --reuid {uid} --regid {uid} --clear-groups sleep 1000");
        Worker::shell(&format!("{login}\n{change}"), 0)
    };
    let logged_in = becomes(user, &format!("echo {user} >/proc/self/loginuid"));
    let not = becomes(stranger, ":");
    wait_for("both to become users", || {
        let both = [(&logged_in, user), (&not, stranger)];
        both.iter().all(|(worker, uid)| uid_of(worker.pid()) == Some(*uid))
    });
    let login = std::fs::read_to_string(format!("/proc/{}/loginuid", logged_in.pid()));
    if login.unwrap_or_default().trim() != user.to_string() {
        eprintln!("SKIP {test}: this kernel keeps no logins");
        return;
    }
    let owner = |pid: u32| {
        let ledger = client.ledger().expect("alive");
        let id = client_of(&ledger, pid).map(|currency| currency.id)?;
        let issuer = backing(&ledger, id).first()?.0;
        ledger.currencies.iter().find(|currency| currency.id == issuer).map(|home| home.owner)
    };
    wait_for("the user's home", || owner(logged_in.pid()) == Some(user));
    assert_eq!(owner(not.pid()), None);
}

/// The real uid of a process.
fn uid_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A part of all memory is given whole to who comes first; the next one gets what is left, and
/// somebody is told.
#[test]
fn amounts_of_memory_are_first_come_first_served_and_disks_have_limits() {
    let test = "amounts_of_memory_are_first_come_first_served_and_disks_have_limits";
    if !may_switch_users(test) {
        return;
    }
    let (first, second) = two_users();
    let daemon = system(&format!(
        "[users]\nuids = \"{first}-{second}\"\nmemory = \"75%\"\n[users.limits.sda]\nread = \"10M\"\n"
    ));
    let client = daemon.client();
    let home = |uid: u32| {
        let ledger = client.ledger().expect("alive");
        let home = ledger.currencies.iter().find(|it| it.owner == uid && it.process.is_none())?;
        let memory =
            ledger.tickets.iter().find(|it| it.holder == home.id && it.resource == "memory");
        let base = ledger.currencies[0].resources.iter().find(|it| it.resource == "memory")?;
        Some((memory?.amount, base.hard_total, home.limits.clone()))
    };
    let _one = Worker::idle(first);
    wait_for("the first user", || home(first).is_some());
    let _other = Worker::idle(second);
    wait_for("the second user", || home(second).is_some());
    let (amount, total, limits) = home(first).expect("placed");
    assert_eq!(amount, total * 3 / 4);
    assert_eq!((limits[0].disk.as_str(), limits[0].limit.read_bytes), ("sda", Some(10 << 20)));
    let (rest, ..) = home(second).expect("placed");
    assert_eq!(rest, total - amount);
    wait_for("a word about it", || daemon.log().contains("others came first"));
    // In sizes, as the file says it.
    let told = format!("has {} of the {} of memory", memory_size(rest), memory_size(amount));
    assert!(daemon.log().contains(&told), "{told}: {}", daemon.log());
}

/// What a policy file gives users besides the CPU, and its limits, are what the file says at the last start: also for those
/// who have been there before, and though they begin nothing new.
#[test]
fn a_changed_policy_file_changes_what_users_have_already() {
    let test = "a_changed_policy_file_changes_what_users_have_already";
    if !may_switch_users(test) {
        return;
    }
    let (somebody, _) = two_users();
    let users = format!("[users]\nuids = \"{somebody}\"\n");
    let policy = |rest: &str| format!("{users}{rest}{NO_SERVICES}");
    let mut daemon = system(&format!(
        "{users}memory = \"10%\"\n[users.limits.sda]\nread = \"10M\"\n[users.limits.sdb]\nread = \"20M\"\n"
    ));
    let has = |daemon: &Daemon| {
        let ledger = daemon.client().ledger().expect("alive");
        let is_home = |it: &&wire::CurrencyView| it.owner == somebody && it.process.is_none();
        let home = ledger.currencies.iter().find(is_home)?;
        let amount = |resource: &str| {
            let held = |it: &&wire::TicketView| it.holder == home.id && it.resource == resource;
            ledger.tickets.iter().find(held).map(|ticket| ticket.amount)
        };
        let limit =
            |it: &wire::DiskLimitView| (it.disk.clone(), it.limit.read_bytes.unwrap_or(0) >> 20);
        let limits: Vec<(String, u64)> = home.limits.iter().map(limit).collect();
        Some((amount("memory"), amount("disk:sda"), limits))
    };
    let _worker = Worker::idle(somebody);
    wait_for("the user is placed", || has(&daemon).is_some());
    let of = |disk: &str, mib: u64| (disk.to_owned(), mib);
    let (memory, disk, limits) = has(&daemon).expect("placed");
    assert_eq!((disk, limits), (None, vec![of("sda", 10), of("sdb", 20)]));
    let tenth = memory.expect("it has memory");

    daemon.stop();
    let changed = "memory = \"20%\"\ndisk = { sda = 500 }\n[users.limits.sda]\nread = \"30M\"\n";
    std::fs::write(daemon.dir.path().join("policy.toml"), policy(changed)).expect("a policy");
    daemon.launch();
    wait_for("more memory, a disk and another limit", || {
        let (memory, disk, limits) = has(&daemon).expect("placed");
        let is_twice = memory.is_some_and(|memory| memory.abs_diff(2 * tenth) <= 1);
        is_twice && disk == Some(500) && limits == [of("sda", 30)]
    });

    daemon.stop();
    std::fs::write(daemon.dir.path().join("policy.toml"), policy("")).expect("a policy");
    daemon.launch();
    wait_for("nothing of it is left", || has(&daemon) == Some((None, None, vec![])));
}

/// A process that runs in a container's cgroup when it runs its program is no longer its uid's.
#[test]
fn what_runs_in_a_container_belongs_to_the_containers() {
    let test = "what_runs_in_a_container_belongs_to_the_containers";
    if !may_switch_users(test) {
        return;
    }
    let trees = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(std::path::Path::new);
    let tree = trees.into_iter().find(|tree| tree.join("cgroup.procs").exists());
    let cgroup = tree.map(|tree| tree.join(format!("docker-{}.scope", std::process::id())));
    let Some(cgroup) = cgroup.filter(|cgroup| std::fs::create_dir(cgroup).is_ok()) else {
        eprintln!("SKIP {test}: no cgroup v2 to make one in");
        return;
    };
    let (somebody, _) = two_users();
    let daemon = Daemon::prepare(&["--enforcer", "none"]);
    let path = daemon.dir.path().join("policy.toml");
    let policy = format!("[users]\nuids = \"{somebody}\"\n[system]\nmanaged = false\n");
    std::fs::write(&path, policy).expect("a policy");
    let mut daemon = daemon.with(&["--funding-policy", path.to_str().expect("text")]);
    daemon.launch();
    let client = daemon.client();
    let go = daemon.dir.path().join("go");
    let script = format!("until [ -e {} ]; do sleep 0.1; done; exec sleep 1000", go.display());
    let worker = Worker::shell(&script, somebody);
    let home = || {
        let ledger = client.ledger().expect("alive");
        let id = client_of(&ledger, worker.pid()).map(|currency| currency.id)?;
        let issuer = backing(&ledger, id).first()?.0;
        ledger.currencies.iter().find(|it| it.id == issuer).map(|it| (it.name.clone(), it.owner))
    };
    wait_for("the user's home", || home().is_some_and(|(_, owner)| owner == somebody));
    let moved = std::fs::write(cgroup.join("cgroup.procs"), worker.pid().to_string());
    if moved.is_ok() {
        std::fs::write(go, "").expect("written");
        wait_for("the containers", || home() == Some(("containers".to_owned(), 0)));
    }
    let pid = worker.pid();
    drop(worker);
    wait_for("its end", || !std::path::Path::new(&format!("/proc/{pid}")).exists());
    std::fs::remove_dir(&cgroup).expect("it is empty");
    moved.expect("the superuser moves processes");
}

/// A system's allotd with this policy, which touches nothing.
fn system(policy: &str) -> Daemon {
    let daemon = Daemon::prepare(&["--enforcer", "none"]);
    let path = daemon.dir.path().join("policy.toml");
    std::fs::write(&path, format!("{policy}{NO_SERVICES}")).expect("a policy");
    let mut daemon = daemon.with(&["--funding-policy", path.to_str().expect("text")]);
    daemon.launch();
    daemon
}
