//! What the user-level enforcer does to single processes, and what it leaves alone.
#![allow(missing_docs)]

mod common;

use common::{
    TestProcess, after_use, all_stand, eventually, first_cpu, funds::Funds, guardian, is_root, pin,
    policy_of, state_of, stay_in_memory, within_seconds,
};
use enforce_user::{DEFAULT_QUANTUM_NS, UserLevel, UserLevelOptions};
use enforcer::{ClientState, CpuSample, Enforcer, HoldMethod, HoldState};
use ledger::{BASE, Class, CurrencyId};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;

/// One seat, so that one of two always loses.
fn start(hold: HoldMethod) -> UserLevel {
    let cpu = first_cpu();
    UserLevel::start(UserLevelOptions {
        cpus: Some(vec![cpu]),
        hold,
        ..UserLevelOptions::new(guardian(None))
    })
    .expect("an enforcer")
}

fn own_session(command: &mut std::process::Command) {
    pin(command);
    // SAFETY: setsid is safe between fork and exec.
    unsafe { command.pre_exec(|| Ok(nix::unistd::setsid().map(drop)?)) };
}

fn set_policy(pid: u32, policy: i32, priority: i32) {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: the pointer is to a live sched_param.
    let result =
        unsafe { libc::sched_setscheduler(pid.cast_signed(), policy, &raw const parameter) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// A client, as it is set.
struct SeenClient {
    state: ClientState,
    held: HoldState,
    note: Option<String>,
}

fn find(enforcer: &mut UserLevel, id: CurrencyId) -> Option<SeenClient> {
    let status = enforcer.status().expect("it runs");
    let held = status.cpu.expect("of the CPU").held.get(&id).copied().unwrap_or(HoldState::Free);
    let client = status.clients.into_iter().find(|client| client.id == id)?;
    Some(SeenClient { state: client.state, held, note: client.note })
}

fn needs_root(test: &str) -> bool {
    if !is_root() {
        eprintln!("SKIP {test}: needs root to hold in SCHED_IDLE");
    }
    !is_root()
}

/// Two hogs, the second with `weight` times the tickets of the first, get that.
///
/// Of some 600 quanta 18 may be off, as in shares.rs; there too it is said why this is for the lab.
fn assert_shares(processes: &[TestProcess; 2], weight: u64, hold: HoldMethod) {
    stay_in_memory();
    let mut funds = Funds::new();
    let ids =
        [funds.client(BASE, 1, processes[0].pid()), funds.client(BASE, weight, processes[1].pid())];
    let mut enforcer = start(hold);
    enforcer.apply(&funds.plan(1).into()).expect("a plan");
    let used = |sample: &CpuSample| {
        ids.map(|id| sample.clients.iter().find(|c| c.id == id).map_or(0, |c| c.used_ns))
    };
    eventually("both compete", || {
        let sample = enforcer.sample().expect("it runs").cpu.expect("of the CPU");
        sample.clients.len() == 2 && sample.clients.iter().all(|client| client.draws > 10)
    });
    let before = used(&enforcer.sample().expect("it runs").cpu.expect("of the CPU"));
    let after = used(&after_use(&mut enforcer, 600 * DEFAULT_QUANTUM_NS));
    let [first, second] = [0, 1].map(|index| (after[index] - before[index]) as f64);
    let share = second / (first + second);
    let off = (share - weight as f64 / (weight + 1) as f64).abs();
    let allowed = 18.0 * DEFAULT_QUANTUM_NS as f64 / (first + second);
    eprintln!("{share:.4}, {allowed:.4} allowed");
    assert!(off <= allowed, "{share:.4} and not {weight}:1 by {allowed:.4}");
}

#[test]
#[ignore = "lab"]
fn stopping_losers_gives_shares_too() {
    let hog = || TestProcess::start_with("allot-stop", &["burn", "1"], pin);
    let processes = [hog(), hog()];
    assert_shares(&processes, 3, HoldMethod::Stop);
    assert!(processes.iter().all(|process| state_of(process.pid()) != Some('T')));
}

#[test]
#[ignore = "lab"]
fn losers_in_other_scheduling_groups_do_not_take_what_winners_are_due() {
    if needs_root("losers_in_other_scheduling_groups") {
        return;
    }
    let hog = || TestProcess::start_with("allot-group", &["burn", "1"], own_session);
    let processes = [hog(), hog()];
    let group = |process: &TestProcess| {
        std::fs::read_to_string(format!("/proc/{}/autogroup", process.pid()))
    };
    match (group(&processes[0]), group(&processes[1])) {
        (Ok(first), Ok(second)) if first != second => {}
        _ => {
            eprintln!("SKIP losers_in_other_scheduling_groups: sessions are no groups here");
            return;
        }
    }
    assert_shares(&processes, 9, HoldMethod::Idle);
}

/// Paper 4: whatever its tickets. Neither is it left standing when nobody else is there.
#[test]
fn a_guest_runs_only_when_no_host_wants_to() {
    for hold in [HoldMethod::Stop, HoldMethod::Auto] {
        let hog = || TestProcess::start_with("allot-guest", &["burn", "1"], own_session);
        let (host, guest) = (hog(), hog());
        let mut funds = Funds::new();
        let ids = [host.pid(), guest.pid()].map(|pid| funds.client(BASE, 100, pid));
        funds.guest(ids[1]);
        let mut enforcer = start(hold);
        enforcer.apply(&funds.plan(1).into()).expect("a plan");
        let sample = |enforcer: &mut UserLevel, id| {
            let sample = enforcer.sample().expect("it runs").cpu.expect("of the CPU");
            sample.clients.into_iter().find(|client| client.id == id)
        };
        eventually("the host competes for long", || {
            sample(&mut enforcer, ids[0]).is_some_and(|host| host.wins > 50)
        });
        let of_guest = sample(&mut enforcer, ids[1]).expect("it is managed");
        assert_eq!((of_guest.wins, of_guest.value), (0, 0), "with {hold}");
        drop(host);
        eventually("it has the CPU for itself", || {
            sample(&mut enforcer, ids[1])
                .is_some_and(|now| now.used_ns > of_guest.used_ns + 100_000_000)
        });
    }
}

#[test]
fn a_frozen_client_stands_still_until_it_is_thawed() {
    let process = TestProcess::start("allot-frozen", &["burn", "2"]);
    let mut funds = Funds::new();
    let id = funds.client(BASE, 1, process.pid());
    let mut enforcer = start(HoldMethod::Auto);
    funds.freeze(id, true);
    enforcer.apply(&funds.plan(1).into()).expect("a plan");
    eventually("it stands", || state_of(process.pid()) == Some('T'));
    eventually("it is told", || {
        find(&mut enforcer, id).is_some_and(|client| {
            (client.state, client.held) == (ClientState::Frozen, HoldState::Stopped)
        })
    });
    // A thread that has not stopped yet would be no news.
    eventually("all of it stands", || all_stand(process.pid()));
    // Somebody continues it: it is stopped again, and that is told.
    kill(Pid::from_raw(process.pid().cast_signed()), Signal::SIGCONT).expect("it lives");
    eventually("the drift is told", || {
        let applied = enforcer.status().expect("it runs");
        applied.drift.iter().any(|drift| drift.what.contains("continued"))
    });
    // Stopped; or in a frozen cgroup, if it ran in several draws before its stop came through.
    eventually("it stands again", || {
        let is_held = |client: SeenClient| client.held == HoldState::Stopped;
        state_of(process.pid()) != Some('R') && find(&mut enforcer, id).is_some_and(is_held)
    });
    funds.freeze(id, false);
    enforcer.apply(&funds.plan(2).into()).expect("a plan");
    eventually("it wins", || {
        find(&mut enforcer, id).is_some_and(|client| client.state == ClientState::Running)
    });
    assert_ne!(state_of(process.pid()), Some('T'));
}

/// Whose a process is, the kernel is asked before each stop: a plan may be late.
#[test]
fn a_process_of_a_user_whom_the_plan_does_not_name_is_not_touched() {
    let process = TestProcess::start("allot-strange", &["burn", "1"]);
    let mut funds = Funds::new();
    let id = funds.client(BASE, 1, process.pid());
    let mut enforcer = start(HoldMethod::Auto);
    funds.freeze(id, true);
    let mut plan = funds.plan(1);
    let us = nix::unistd::getuid().as_raw();
    plan.clients[0].owners = vec![us];
    enforcer.apply(&plan.clone().into()).expect("a plan");
    eventually("its owner's plan stops it", || state_of(process.pid()) == Some('T'));
    plan.generation = 2;
    plan.clients[0].owners = vec![us + 1];
    enforcer.apply(&plan.into()).expect("a plan");
    eventually("it goes on", || state_of(process.pid()) == Some('R'));
    eventually("it is told", || {
        let status = enforcer.status().expect("it runs");
        let note = status.clients.iter().find_map(|client| client.note.clone());
        note.is_some_and(|note| note.contains(&format!("belongs to uid {us} now")))
    });
    assert_ne!(state_of(process.pid()), Some('T'));
}

/// A loser of another scheduling group is frozen, so whoever continues it changes nothing.
#[test]
fn who_is_continued_all_the_time_gets_its_share_and_no_more() {
    if needs_root("who_is_continued_all_the_time_gets_its_share_and_no_more") {
        return;
    }
    if !std::path::Path::new("/sys/fs/cgroup").exists() {
        eprintln!("SKIP who_is_continued_all_the_time_gets_its_share_and_no_more: no cgroups");
        return;
    }
    let start_one = || TestProcess::start_with("allot-continued", &["burn", "1"], own_session);
    let processes = [start_one(), start_one()];
    let mut funds = Funds::new();
    let small = funds.client(BASE, 1, processes[0].pid());
    funds.client(BASE, 9, processes[1].pid());
    let mut enforcer = start(HoldMethod::Auto);
    enforcer.apply(&funds.plan(1).into()).expect("a plan");
    let pid = Pid::from_raw(processes[0].pid().cast_signed());
    // As long as it takes for both to use a second: by right it has a tenth of that, free a half.
    within_seconds(120, "both use a second", || {
        kill(pid, Signal::SIGCONT).expect("it lives");
        let clients = enforcer.sample().expect("it runs").cpu.expect("of the CPU").clients;
        let used: u64 = clients.iter().map(|client| client.used_ns).sum();
        let small = clients.iter().find(|client| client.id == small).map_or(0, |it| it.used_ns);
        assert!(used < 500_000_000 || small * 10 < used * 3, "{small} of {used} ns");
        used > 1_000_000_000
    });
    drop(enforcer);
    assert!(common::held("allot-continued").is_empty(), "{:?}", common::held("allot-continued"));
}

#[test]
fn everybody_gets_their_own_policy_back_even_one_that_changed_meanwhile() {
    if needs_root("everybody_gets_their_own_policy_back") {
        return;
    }
    let processes: Vec<TestProcess> =
        (0..5).map(|_| TestProcess::start("allot-own", &["burn", "3"])).collect();
    let threads =
        |process: &TestProcess| std::fs::read_dir(format!("/proc/{}/task", process.pid()));
    eventually("all have their threads", || {
        processes.iter().all(|process| threads(process).expect("it lives").count() == 3)
    });
    let all = |pid: u32, policy: i32| {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
        for thread in threads.flatten() {
            let tid = thread.file_name().to_str().and_then(|tid| tid.parse().ok()).expect("a tid");
            set_policy(tid, policy, 0);
        }
    };
    let policies = |pid: u32| -> Vec<i32> {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
        threads
            .flatten()
            .filter_map(|thread| policy_of(thread.file_name().to_str()?.parse().ok()?))
            .collect()
    };
    all(processes[1].pid(), libc::SCHED_BATCH);
    all(processes[2].pid(), libc::SCHED_IDLE);
    // The leader as it is, one thread otherwise.
    let odd = std::fs::read_dir(format!("/proc/{}/task", processes[3].pid())).expect("it lives");
    let odd = odd.flatten().last().expect("threads").file_name();
    let odd: u32 = odd.to_str().and_then(|tid| tid.parse().ok()).expect("a tid");
    set_policy(odd, libc::SCHED_BATCH, 0);
    let mut funds = Funds::new();
    let clients: Vec<CurrencyId> =
        processes.iter().map(|process| funds.client(BASE, 1, process.pid())).collect();
    let mut plan = funds.plan(1);
    // A guest beside hosts who never sleep is always held.
    let guest = plan.clients.iter_mut().find(|client| client.id == clients[4]).expect("planned");
    guest.class = Class::Guest;
    let mut enforcer = start(HoldMethod::Idle);
    enforcer.apply(&plan.into()).expect("a plan");
    for process in &processes {
        eventually("each was held", || {
            policies(process.pid()).iter().all(|policy| *policy == libc::SCHED_IDLE)
        });
    }
    // Its user changes one while it is held.
    all(processes[4].pid(), libc::SCHED_BATCH);
    eventually("the drift is told", || {
        let applied = enforcer.status().expect("it runs");
        applied.drift.iter().any(|drift| drift.what.contains("SCHED_BATCH"))
    });
    enforcer.revert().expect("it runs");
    assert_eq!(policies(processes[0].pid()), [libc::SCHED_OTHER; 3]);
    assert_eq!(policies(processes[1].pid()), [libc::SCHED_BATCH; 3]);
    assert_eq!(policies(processes[2].pid()), [libc::SCHED_IDLE; 3]);
    assert_eq!(policy_of(odd), Some(libc::SCHED_BATCH));
    assert_eq!(policies(processes[3].pid()).iter().filter(|p| **p == libc::SCHED_OTHER).count(), 2);
    assert_eq!(policies(processes[4].pid()), [libc::SCHED_BATCH; 3]);
    let applied = enforcer.status().expect("it runs");
    assert_eq!((applied.generation, applied.clients.len()), (None, 0));
}

#[test]
fn who_goes_first_by_the_kernels_rules_is_not_touched() {
    if needs_root("who_goes_first_is_not_touched") {
        return;
    }
    let process = TestProcess::start("allot-realtime", &["doze", "1", "50"]);
    set_policy(process.pid(), libc::SCHED_FIFO, 1);
    let mut funds = Funds::new();
    let id = funds.client(BASE, 1, process.pid());
    let own = funds.client(BASE, 1, std::process::id());
    let mut enforcer = start(HoldMethod::Idle);
    enforcer.apply(&funds.plan(1).into()).expect("a plan");
    let client = find(&mut enforcer, id).expect("it is told");
    assert_eq!((client.state, client.held), (ClientState::Unmanaged, HoldState::Free));
    assert!(client.note.expect("a reason").contains("SCHED_FIFO"));
    assert!(find(&mut enforcer, own).expect("it is told").note.is_some());
    assert_eq!(policy_of(process.pid()), Some(libc::SCHED_FIFO));
    // Once it is ordinary, it is managed.
    set_policy(process.pid(), libc::SCHED_OTHER, 0);
    eventually("it is managed", || {
        find(&mut enforcer, id).is_some_and(|client| client.state != ClientState::Unmanaged)
    });
}

#[test]
fn sleepers_leave_the_draw_and_are_free() {
    let sleeper = TestProcess::start("allot-sleeper", &["doze", "1", "400"]);
    let hogs = [
        TestProcess::start("allot-awake", &["burn", "1"]),
        TestProcess::start("allot-awake", &["burn", "1"]),
    ];
    let mut funds = Funds::new();
    let id = funds.client(BASE, 100, sleeper.pid());
    let ids = [funds.client(BASE, 1, hogs[0].pid()), funds.client(BASE, 1, hogs[1].pid())];
    let mut enforcer = start(HoldMethod::Auto);
    enforcer.apply(&funds.plan(1).into()).expect("a plan");
    eventually("it sleeps, is free, and the others share what it leaves", || {
        let sample = enforcer.sample().expect("it runs").cpu.expect("of the CPU");
        let of = |id| *sample.clients.iter().find(|client| client.id == id).expect("a client");
        of(id).state == ClientState::Sleeping
            && of(id).value == 0
            && ids.iter().all(|id| of(*id).promised == policy::ONE_SEAT / 2)
    });
    eventually("asleep it is free", || {
        let client = find(&mut enforcer, id).expect("a client");
        client.state == ClientState::Sleeping && client.held == HoldState::Free
    });
}

#[test]
fn who_was_stopped_by_somebody_else_is_left_alone() {
    for hold in [HoldMethod::Auto, HoldMethod::Stop] {
        let processes = [
            TestProcess::start("allot-user-stop", &["burn", "1"]),
            TestProcess::start("allot-user-stop", &["burn", "1"]),
        ];
        let pid = Pid::from_raw(processes[0].pid().cast_signed());
        kill(pid, Signal::SIGSTOP).expect("it lives");
        eventually("it stands", || state_of(processes[0].pid()) == Some('T'));
        let mut funds = Funds::new();
        let id = funds.client(BASE, 9, processes[0].pid());
        funds.client(BASE, 1, processes[1].pid());
        let mut enforcer = start(hold);
        enforcer.apply(&funds.plan(1).into()).expect("a plan");
        eventually("it is told", || {
            find(&mut enforcer, id).is_some_and(|client| client.state == ClientState::Stopped)
        });
        // It stays so while the other is given quanta.
        after_use(&mut enforcer, 20 * DEFAULT_QUANTUM_NS);
        assert_eq!(state_of(processes[0].pid()), Some('T'));
        kill(pid, Signal::SIGCONT).expect("it lives");
        eventually("it competes when its user lets it", || {
            enforcer
                .sample()
                .expect("it runs")
                .cpu
                .expect("of the CPU")
                .clients
                .iter()
                .any(|client| client.id == id && client.wins > 0)
        });
        drop(enforcer);
        assert_ne!(state_of(processes[0].pid()), Some('T'));
        assert_ne!(policy_of(processes[0].pid()), Some(libc::SCHED_IDLE));
    }
}

#[test]
fn a_child_that_inherited_its_hold_gets_its_parents_policy() {
    if needs_root("a_child_that_inherited_its_hold") {
        return;
    }
    let forker = TestProcess::start("allot-forker", &["fork"]);
    let hog = TestProcess::start("allot-forker", &["burn", "1"]);
    let mut funds = Funds::new();
    funds.client(BASE, 1, forker.pid());
    funds.client(BASE, 20, hog.pid());
    let mut enforcer = start(HoldMethod::Idle);
    enforcer.apply(&funds.plan(1).into()).expect("a plan");
    let mut child = None;
    let parent = observe::ProcessHandle::open(forker.pid()).expect("it lives").identity();
    for generation in 2..40 {
        eventually("a child inherits the hold", || {
            let children = format!("/proc/{0}/task/{0}/children", forker.pid());
            let children = std::fs::read_to_string(children).unwrap_or_default();
            child =
                children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()).find(|pid| {
                    policy_of(*pid) == Some(libc::SCHED_IDLE) && state_of(*pid) != Some('Z')
                });
            child.is_some()
        });
        let Ok(handle) = observe::ProcessHandle::open(child.expect("found")) else { continue };
        // Stopped by its user, so that it is there to be looked at.
        if rustix::process::pidfd_send_signal(handle.pidfd(), rustix::process::Signal::STOP)
            .is_err()
        {
            continue;
        }
        // One that was about to end ends; one that stands stays.
        let pid = handle.identity().pid;
        eventually("it stands or is gone", || {
            matches!(state_of(pid), None | Some('T' | 'Z' | 'X'))
        });
        if state_of(pid) != Some('T') {
            continue;
        }
        enforcer.note_fork(parent, handle.identity());
        let id = funds.client(BASE, 1, handle.identity().pid);
        enforcer.apply(&funds.plan(generation).into()).expect("a plan");
        eventually("the child is free, for it is stopped", || {
            find(&mut enforcer, id).is_none_or(|client| client.held == HoldState::Free)
        });
        if handle.is_alive() {
            assert_eq!(policy_of(handle.identity().pid), Some(libc::SCHED_OTHER));
            let _ =
                rustix::process::pidfd_send_signal(handle.pidfd(), rustix::process::Signal::CONT);
            return;
        }
        funds.release(id);
    }
    panic!("no child lived long enough");
}

#[test]
fn a_later_plan_keeps_who_stays_and_frees_who_goes() {
    let processes: Vec<TestProcess> =
        (0..3).map(|_| TestProcess::start("allot-plans", &["burn", "1"])).collect();
    let mut funds = Funds::new();
    let ids: Vec<CurrencyId> =
        processes.iter().map(|process| funds.client(BASE, 1, process.pid())).collect();
    let mut enforcer = start(HoldMethod::Auto);
    enforcer.apply(&funds.plan(1).into()).expect("a plan");
    eventually("all took part", || {
        let sample = enforcer.sample().expect("it runs").cpu.expect("of the CPU");
        sample.clients.len() == 3 && sample.clients.iter().all(|client| client.wins > 1)
    });
    let before = enforcer.sample().expect("it runs").cpu.expect("of the CPU");
    funds.release(ids[1]);
    enforcer.apply(&funds.plan(2).into()).expect("a plan");
    let after = enforcer.sample().expect("it runs").cpu.expect("of the CPU");
    assert_eq!(after.generation, 2);
    assert_eq!(after.clients.iter().map(|c| c.id).collect::<Vec<_>>(), [ids[0], ids[2]]);
    assert!(after.clients[0].wins >= before.clients[0].wins);
    assert!(after.clients[1].used_ns >= before.clients[2].used_ns);
    assert!(after.used_ns >= before.used_ns, "what is gone still counts");
    assert_ne!(policy_of(processes[1].pid()), Some(libc::SCHED_IDLE));
    assert_ne!(state_of(processes[1].pid()), Some('T'));
    assert!(enforcer.apply(&funds.plan(1).into()).is_err(), "an older plan is refused");
    // Who dies is dropped without a plan.
    let mut processes = processes;
    drop(processes.remove(0));
    eventually("the dead are dropped", || {
        enforcer.sample().expect("it runs").cpu.expect("of the CPU").clients.len() == 1
    });
}

#[test]
fn options_out_of_range_are_refused() {
    let with = |change: fn(&mut UserLevelOptions)| {
        let mut options = UserLevelOptions::new(guardian(None));
        change(&mut options);
        UserLevel::start(options).err().expect("refused").to_string()
    };
    assert!(with(|options| options.quantum_ns = 999_999).contains("999999"));
    assert!(with(|options| options.quantum_ns = 1_000_000_001).contains("1000000001"));
    assert!(with(|options| options.cpus = Some(Vec::new())).contains("no CPU"));
    assert!(with(|options| options.cpus = Some(vec![100_000])).contains("100000"));
}
