//! The walls between the parts of allotd: what each has given up, and what a part that lies or dies can do.

mod common;

use common::{
    Daemon, NO_SERVICES, SOMEBODY, Worker, children_of, enforcing_process, guardian,
    may_switch_users, scheduling_of, state_of, two_users, wait_for,
};
use enforcement::{Choice, Enforcement, Reach, Task};
use enforcer::{CpuSettings, HoldMethod, MemorySettings, Plan, PlannedClient, Settings};
use ledger::{BASE, Class, CurrencyId, Member, Resource, TicketKind};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use observe::ProcessHandle;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use valuation::{Backing, CurrencyFacts, Graph, GraphFacts};
use wire::Operation;

const ALLOTD: &str = env!("CARGO_BIN_EXE_allotd");

/// A user of the keeper's own.
const KEEPER: u32 = 64_010;

/// The capabilities that this process could give to others.
fn own_capabilities() -> u64 {
    set(&statuses(std::process::id())[0], "CapPrm")
}

/// KILL, DAC_OVERRIDE, DAC_READ_SEARCH, NET_ADMIN, SYS_NICE and SYS_RESOURCE.
const OF_ENFORCERS: u64 = 1 << 5 | 1 << 1 | 1 << 2 | 1 << 12 | 1 << 23 | 1 << 24;
/// SYS_PTRACE and SYS_ADMIN, which a guardian may have besides.
const OF_GUARDIANS: u64 = 1 << 19 | 1 << 21;

fn kill_9(pid: u32) {
    kill(Pid::from_raw(pid as i32), Signal::SIGKILL).expect("it lives");
}

/// The lines of the status of each thread of a process, by name.
fn statuses(pid: u32) -> Vec<BTreeMap<String, String>> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    let text = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("status")).ok();
    let lines = |text: String| {
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
    };
    tasks.filter_map(text).map(lines).collect()
}

fn set(status: &BTreeMap<String, String>, name: &str) -> u64 {
    u64::from_str_radix(&status[name], 16).expect("a set of capabilities")
}

/// A daemon of the machine that manages one user's processes, with a keeper of its own user.
fn of_somebody(options: &[&str]) -> Daemon {
    let keeper = KEEPER.to_string();
    let daemon = Daemon::prepare(options).with(&["--keeper-user", &keeper]);
    let policy = daemon.dir.path().join("policy.toml");
    let text = format!("[users]\nuids = \"{SOMEBODY}\"\n{NO_SERVICES}");
    std::fs::write(&policy, text).expect("a policy");
    let mut daemon = daemon.with(&["--funding-policy", policy.to_str().expect("a path")]);
    daemon.launch();
    daemon
}

#[test]
fn each_process_has_the_rights_that_it_needs_and_no_others() {
    if !may_switch_users("each_process_has_the_rights_that_it_needs_and_no_others") {
        return;
    }
    let daemon = of_somebody(&["--others", "none"]);
    let (keeper, enforcing) = (daemon.pid(), enforcing_process(daemon.pid()));
    for status in statuses(keeper) {
        let uids = format!("{KEEPER}\t{KEEPER}\t{KEEPER}\t{KEEPER}");
        assert_eq!((&status["Uid"], &status["Gid"], status["Groups"].as_str()), (&uids, &uids, ""));
        for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(set(&status, name), 0, "{name} of the keeper's {}", status["Name"]);
        }
        assert_eq!((status["NoNewPrivs"].as_str(), status["Seccomp"].as_str()), ("1", "2"));
    }
    assert!(statuses(enforcing).len() > 1, "an enforcer has a thread");
    for status in statuses(enforcing) {
        for name in ["CapPrm", "CapEff", "CapBnd"] {
            assert_eq!(
                set(&status, name),
                OF_ENFORCERS & own_capabilities(),
                "{name} of {}",
                status["Name"]
            );
        }
        assert_eq!((set(&status, "CapInh"), set(&status, "CapAmb")), (0, 0));
        assert_eq!((status["NoNewPrivs"].as_str(), status["Seccomp"].as_str()), ("1", "2"));
    }
    for status in statuses(guardian(keeper)) {
        let held = set(&status, "CapPrm") | set(&status, "CapBnd") | set(&status, "CapInh");
        assert_eq!(held & !(OF_ENFORCERS | OF_GUARDIANS), 0, "{held:x}");
        assert_eq!(status["NoNewPrivs"], "1");
    }
    let owner = |path: &Path| std::fs::metadata(path).expect("there").uid();
    assert_eq!(owner(&daemon.state_dir()), KEEPER);
    assert_eq!(owner(daemon.dir.path()), 0, "records lie where the keeper cannot write");
    let doctor = daemon.client().doctor().expect("it answers");
    let walls = doctor.checks.iter().filter(|check| check.name.contains(": "));
    let standing: Vec<&str> =
        walls.filter(|check| check.ok).map(|check| check.name.as_str()).collect();
    for wall in [
        "keeper: user",
        "keeper: files",
        "keeper: system calls",
        "enforcing process: capabilities",
        "enforcing process: system calls",
        "enforcing process: files",
        "front: capabilities",
        "front: files",
        "front: system calls",
    ] {
        assert!(standing.contains(&wall), "{wall} does not stand: {:?}", doctor.checks);
    }
}

#[test]
fn the_keepers_state_outlives_a_change_of_its_user() {
    if !may_switch_users("the_keepers_state_outlives_a_change_of_its_user") {
        return;
    }
    let mut daemon = of_somebody(&["--enforcer", "none"]);
    let made = || Operation::CreateCurrency {
        name: "kept".to_owned(),
        owner: None,
        group: None,
        mode: None,
    };
    daemon.client().operate(made()).expect("made");
    assert!(daemon.stop().success());
    assert!(!daemon.socket().exists(), "the enforcing process removes what the keeper may not");
    daemon.launch();
    daemon.client().operate(made()).expect_err("it is there");
    daemon.kill();
    daemon.launch();
    daemon.client().operate(made()).expect_err("it is there");
}

fn settings(records: PathBuf) -> Settings {
    let cpu = CpuSettings {
        algorithm: policy::PolicyName::Stride,
        quantum_ns: Some(2_000_000),
        cpus: None,
        hold: HoldMethod::Stop,
        transfers: false,
    };
    let memory = MemorySettings {
        policy: None,
        idle_tax: 0,
        idle_ns: 0,
        limit_bytes: None,
        guests_bytes: None,
        most_bytes: None,
    };
    let (own, disks_file) = (BTreeMap::new(), PathBuf::from("/nonexistent"));
    let program = PathBuf::from(ALLOTD);
    Settings { is_private: false, program, records, seed: 1, cpu, memory, disks_file, own }
}

fn task(dir: &Path, uid: u32) -> Task {
    Task {
        settings: settings(dir.join("held")),
        choice: Choice::Named("user-level".to_owned()),
        shares_others: false,
        reach: Reach::of([uid..=uid]),
        socket: None,
    }
}

/// A plan in which each of these has one ticket from base, and none is to run.
fn plan_of(clients: Vec<PlannedClient>) -> Plan {
    let base = CurrencyFacts {
        id: BASE,
        is_client: false,
        class: Class::Host,
        competes: false,
        given: Default::default(),
        received: Default::default(),
        tickets: Vec::new(),
    };
    let funded = clients.iter().map(|client| CurrencyFacts {
        id: client.id,
        is_client: true,
        tickets: vec![Backing { issuer: BASE, kind: TicketKind::Soft, amount: 1 }],
        ..base.clone()
    });
    let currencies = std::iter::once(base.clone()).chain(funded).collect();
    let facts = GraphFacts { resource: Resource::CPU, memory_kib: 0, currencies };
    let graph = Graph::from_facts(&facts).expect("a graph");
    let graphs = BTreeMap::from([(Resource::CPU, graph)]);
    Plan { generation: 1, graphs, clients, limits: Vec::new() }
}

#[test]
fn a_keeper_that_lies_touches_nobody_whom_the_policy_does_not_name() {
    if !may_switch_users("a_keeper_that_lies_touches_nobody_whom_the_policy_does_not_name") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (policys, another) = two_users();
    let task = task(dir.path(), policys);
    let (mut enforcement, process, _) =
        Enforcement::begin(Path::new(ALLOTD), task).expect("it begins");
    enforcement.start().expect("it starts");
    let (named, roots, others) = (Target::busy(policys), Target::busy(0), Target::busy(another));
    let founder = |pid| Member::Process(ProcessHandle::open(pid).expect("it lives").identity());
    let targets = [
        (named.pid, vec![]),
        (roots.pid, vec![0]),
        (others.pid, vec![]),
        (1, vec![]),
        (process.pid(), vec![policys]),
        (std::process::id(), vec![]),
    ];
    let frozen = |(n, (pid, owners)): (usize, (u32, Vec<u32>))| PlannedClient {
        owners,
        // init must live if this fails.
        frozen: pid != 1,
        ..PlannedClient::of(CurrencyId(n as u64 + 1), founder(pid))
    };
    let mut clients: Vec<PlannedClient> = targets.into_iter().enumerate().map(frozen).collect();
    // Those that the policy does not name as members of one that it names.
    let (second_of_root, second_of_other) = (Target::busy(0), Target::busy(another));
    clients[0].members = [&second_of_root, &second_of_other].map(|it| founder(it.pid)).into();
    let mut again = plan_of(clients.clone());
    enforcement.apply(plan_of(clients));
    let is_held = |pid| state_of(pid) == 'T' || is_frozen(pid);
    wait_for("the one that may be held", || is_held(named.pid));
    let seconds = [second_of_root.pid, second_of_other.pid];
    let spared = [roots.pid, others.pid, 1, process.pid(), std::process::id()];
    let must_be_spared = || {
        for pid in spared.into_iter().chain(seconds) {
            assert!(!is_held(pid), "{pid} is held");
        }
    };
    must_be_spared();
    // Who says of another's process that it is a named user's is not believed either.
    again.generation = 2;
    again.clients.iter_mut().for_each(|client| client.owners = vec![policys, 0]);
    enforcement.apply(again);
    enforcement.look();
    let told = enforcement.seen().cpu.drift.join("\n");
    let anothers = format!("uid {another}'s");
    for (pid, why) in [
        (roots.pid, "uid 0's"),
        (others.pid, &anothers),
        (second_of_root.pid, "uid 0's"),
        (second_of_other.pid, &anothers),
        (1, "init"),
        (process.pid(), "a part of allotd"),
        (std::process::id(), "a part of allotd"),
    ] {
        let line = told.lines().find(|line| line.starts_with(&format!("pid {pid} ")));
        assert!(line.is_some_and(|line| line.contains(why)), "{pid}, {why}:\n{told}");
    }
    must_be_spared();
    enforcement.end();
    assert_eq!(process.wait(), None, "it was told to end");
    wait_for("all to be given back", || state_of(named.pid) == 'R');
    assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 0, "nothing stays behind");
}

/// A process that is no child of ours: those are parts of allotd to whom we are the keeper.
struct Target {
    pid: u32,
    _parent: Worker,
}

impl Target {
    fn busy(uid: u32) -> Target {
        let parent = Worker::shell("(while :; do :; done) & wait", uid);
        wait_for("a child", || !children_of(parent.pid()).is_empty());
        Target { pid: children_of(parent.pid())[0], _parent: parent }
    }
}

/// Whether a freezer of cgroups holds a process.
fn is_frozen(pid: u32) -> bool {
    let cgroups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    cgroups.lines().any(|line| line.contains("freezer") && line.contains("allot"))
}

#[test]
fn who_speaks_garbage_to_the_enforcing_process_ends_it_and_nothing_else() {
    let long = [vec![0xff; 4], vec![0; 64]].concat();
    let attempts: [(&str, Vec<u8>); 6] = [
        ("nothing", Vec::new()),
        ("a frame longer than any", long),
        ("a frame cut short", vec![200, 0, 0, 0, 1, 2, 3]),
        ("no message", vec![8, 0, 0, 0, 0xee, 1, 2, 3, 4, 5, 6, 7]),
        ("a start before the task", vec![1, 0, 0, 0, 1]),
        ("an end before the task", vec![1, 0, 0, 0, 12]),
    ];
    for (what, bytes) in attempts {
        let (mut ours, theirs) = UnixStream::pair().expect("two sockets");
        let mut child = Command::new(ALLOTD)
            .arg("enforce")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("allotd");
        let _ = ours.write_all(&bytes);
        ours.shutdown(std::net::Shutdown::Write).expect("shut");
        let mut said = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        let ended = child.wait().expect("it ends");
        assert!(!said.contains("panicked"), "{what}: {said}");
        assert!(ended.code().is_some(), "{what}: {ended}");
        assert_eq!(ended.success(), what == "nothing", "{what}: {said}");
        assert!(what == "nothing" || said.contains("the enforcing process ends"), "{what}: {said}");
    }
}

#[test]
fn whichever_part_is_killed_everything_is_given_back() {
    type Victims = fn(u32) -> Vec<u32>;
    let orders: [(&str, Victims); 6] = [
        ("the keeper", |allotd| vec![allotd]),
        ("the enforcing process", |allotd| vec![enforcing_process(allotd)]),
        ("the keeper first", |allotd| vec![allotd, enforcing_process(allotd)]),
        ("the enforcing process first", |allotd| vec![enforcing_process(allotd), allotd]),
        ("the guardian first", |allotd| vec![guardian(allotd), enforcing_process(allotd)]),
        ("all", |allotd| vec![guardian(allotd), enforcing_process(allotd), allotd]),
    ];
    for (what, victims) in orders {
        let mut daemon = Daemon::private(&["--hold", "stop", "--quantum-ms", "2"]);
        let workers = [Worker::busy(), Worker::busy(), Worker::busy(), Worker::busy()];
        for worker in &workers {
            let pid = Some(worker.pid());
            let (start_time_ticks, from, funding) = (None, None, None);
            let adopt = Operation::Adopt { pid, start_time_ticks, from, funding };
            daemon.client().operate(adopt).expect("adopted");
        }
        wait_for("draws", || daemon.client().sample().expect("alive").draws > 20);
        let victims = victims(daemon.pid());
        victims.iter().copied().for_each(kill_9);
        let is_all = victims.contains(&daemon.pid());
        let status = daemon.wait();
        if !is_all {
            assert_eq!(status.code(), Some(1), "{what}: allotd ends with an error");
            assert!(daemon.log().contains("the enforcing process has ended"), "{}", daemon.log());
        }
        // Where the guardian died too, the next allotd gives back.
        daemon.launch();
        let is_free =
            |worker: &Worker| scheduling_of(worker.pid()) == 0 && state_of(worker.pid()) == 'R';
        assert!(daemon.stop().success());
        wait_for(what, || workers.iter().all(is_free));
    }
}

/// A process that was put into a container by exec has a session that began outside: the kernel calls it 0 there.
#[test]
fn it_starts_in_a_session_that_began_outside_its_namespace() {
    if !may_switch_users("it_starts_in_a_session_that_began_outside_its_namespace") {
        return;
    }
    let daemon = Daemon::prepare(&["--user"]);
    let allotd = daemon.command();
    let mut namespace = Command::new("unshare")
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(allotd.get_program())
        .args(allotd.get_args())
        .stdin(Stdio::null())
        .spawn()
        .expect("unshare");
    wait_for("an answer", || {
        assert_eq!(namespace.try_wait().expect("a child"), None, "allotd ended");
        daemon.client().status().is_ok_and(|status| status.pid == 1)
    });
    namespace.kill().expect("it runs");
    namespace.wait().expect("it was killed");
}
