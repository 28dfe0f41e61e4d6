//! What the user-level enforcer does to single processes, and what it leaves alone.
#![allow(missing_docs)]

mod common;

use allot_enforce::{ClientState, Enforcer, Held, Hold, UserLevel, UserLevelOptions};
use common::{
    Prey, eventually, funds::Funds, guardian, is_root, policy_of, state_of, within_seconds,
};
use ledger::{BASE, CurrencyId};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One seat, so that one of two always loses.
fn start(hold: Hold) -> UserLevel {
    let cpu = first_cpu();
    UserLevel::start(UserLevelOptions {
        cpus: Some(vec![cpu]),
        hold,
        ..UserLevelOptions::new(guardian(None))
    })
    .expect("an enforcer")
}

fn first_cpu() -> u32 {
    let set = rustix::thread::sched_getaffinity(None).expect("our CPUs");
    (0..).find(|cpu| set.is_set(*cpu)).expect("a CPU") as u32
}

/// Runs on the first CPU only.
fn pin(command: &mut std::process::Command) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(first_cpu() as usize);
    // SAFETY: the call is safe between fork and exec.
    unsafe { command.pre_exec(move || Ok(rustix::thread::sched_setaffinity(None, &set)?)) };
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

fn find(enforcer: &mut UserLevel, id: CurrencyId) -> Option<allot_enforce::AppliedClient> {
    let applied = enforcer.read_back().expect("it runs");
    applied.clients.into_iter().find(|client| client.id == id)
}

fn needs_root(test: &str) -> bool {
    if !is_root() {
        eprintln!("SKIP {test}: needs root to hold in SCHED_IDLE");
    }
    !is_root()
}

/// Two hogs, the second with `weight` times the tickets of the first, get that.
///
/// Of 600 quanta 18 may be off, as in shares.rs; there too it is said why one window of three has to be right.
fn assert_shares(prey: &[Prey; 2], weight: u64, hold: Hold) {
    const DRAWS: u64 = 600;
    let mut funds = Funds::new();
    let ids = [funds.client(BASE, 1, prey[0].pid()), funds.client(BASE, weight, prey[1].pid())];
    let mut enforcer = start(hold);
    enforcer.apply(funds.plan(1)).expect("a plan");
    let used = |enforcer: &mut UserLevel| {
        let sample = enforcer.take_sample().expect("it runs");
        let of = |id| sample.clients.iter().find(|c| c.id == id).map_or(0, |c| c.used_ns);
        (sample.draws, of(ids[0]), of(ids[1]))
    };
    eventually("both compete", || {
        let sample = enforcer.take_sample().expect("it runs");
        sample.clients.len() == 2 && sample.clients.iter().all(|client| client.draws > 10)
    });
    let mut window = || {
        let before = used(&mut enforcer);
        let mut after = before;
        within_seconds(180, "enough draws", || {
            after = used(&mut enforcer);
            after.0 - before.0 >= DRAWS
        });
        let (first, second) = ((after.1 - before.1) as f64, (after.2 - before.2) as f64);
        let share = second / (first + second);
        eprintln!("{share:.4}");
        (share - weight as f64 / (weight + 1) as f64).abs() < 18.0 / DRAWS as f64
    };
    assert!((0..3).any(|_| window()), "never {weight}:1");
}

#[test]
fn stopping_losers_gives_shares_too() {
    let _alone = alone();
    let hog = || Prey::start_with("allot-stop", &["burn", "1"], pin);
    let prey = [hog(), hog()];
    assert_shares(&prey, 3, Hold::Stop);
    assert!(prey.iter().all(|prey| state_of(prey.pid()) != Some('T')));
}

#[test]
fn losers_in_other_scheduling_groups_do_not_take_what_winners_are_due() {
    if needs_root("losers_in_other_scheduling_groups") {
        return;
    }
    let _alone = alone();
    let hog = || Prey::start_with("allot-group", &["burn", "1"], own_session);
    let prey = [hog(), hog()];
    let group = |prey: &Prey| std::fs::read_to_string(format!("/proc/{}/autogroup", prey.pid()));
    match (group(&prey[0]), group(&prey[1])) {
        (Ok(first), Ok(second)) if first != second => {}
        _ => {
            eprintln!("SKIP losers_in_other_scheduling_groups: sessions are no groups here");
            return;
        }
    }
    assert_shares(&prey, 9, Hold::Idle);
}

/// Paper 4: whatever its tickets. Neither is it left standing when nobody else is there.
#[test]
fn a_guest_runs_only_when_no_host_wants_to() {
    let _alone = alone();
    for hold in [Hold::Stop, Hold::Auto] {
        let hog = || Prey::start_with("allot-guest", &["burn", "1"], own_session);
        let (host, guest) = (hog(), hog());
        let mut funds = Funds::new();
        let ids = [host.pid(), guest.pid()].map(|pid| funds.client(BASE, 100, pid));
        funds.guest(ids[1]);
        let mut enforcer = start(hold);
        enforcer.apply(funds.plan(1)).expect("a plan");
        let sample = |enforcer: &mut UserLevel, id| {
            let sample = enforcer.take_sample().expect("it runs");
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
    let _alone = alone();
    let prey = Prey::start("allot-frozen", &["burn", "2"]);
    let mut funds = Funds::new();
    let id = funds.client(BASE, 1, prey.pid());
    let mut enforcer = start(Hold::Auto);
    funds.freeze(id, true);
    enforcer.apply(funds.plan(1)).expect("a plan");
    eventually("it stands", || state_of(prey.pid()) == Some('T'));
    eventually("it is told", || {
        find(&mut enforcer, id).is_some_and(|client| {
            (client.state, client.held) == (ClientState::Frozen, Held::Stopped)
        })
    });
    // Somebody continues it: it is stopped again, and that is told.
    kill(Pid::from_raw(prey.pid().cast_signed()), Signal::SIGCONT).expect("it lives");
    eventually("the drift is told", || {
        let applied = enforcer.read_back().expect("it runs");
        applied.drift.iter().any(|drift| drift.what.contains("continued"))
    });
    eventually("it stands again", || state_of(prey.pid()) == Some('T'));
    funds.freeze(id, false);
    enforcer.apply(funds.plan(2)).expect("a plan");
    eventually("it wins", || {
        find(&mut enforcer, id).is_some_and(|client| client.state == ClientState::Running)
    });
    assert_ne!(state_of(prey.pid()), Some('T'));
}

#[test]
fn everybody_gets_their_own_policy_back_even_one_that_changed_meanwhile() {
    if needs_root("everybody_gets_their_own_policy_back") {
        return;
    }
    let _alone = alone();
    let prey: Vec<Prey> = (0..5).map(|_| Prey::start("allot-own", &["burn", "3"])).collect();
    let threads = |prey: &Prey| std::fs::read_dir(format!("/proc/{}/task", prey.pid()));
    eventually("all have their threads", || {
        prey.iter().all(|prey| threads(prey).expect("it lives").count() == 3)
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
    all(prey[1].pid(), libc::SCHED_BATCH);
    all(prey[2].pid(), libc::SCHED_IDLE);
    // The leader as it is, one thread otherwise.
    let odd = std::fs::read_dir(format!("/proc/{}/task", prey[3].pid())).expect("it lives");
    let odd = odd.flatten().last().expect("threads").file_name();
    let odd: u32 = odd.to_str().and_then(|tid| tid.parse().ok()).expect("a tid");
    set_policy(odd, libc::SCHED_BATCH, 0);
    let mut funds = Funds::new();
    for prey in &prey {
        funds.client(BASE, 1, prey.pid());
    }
    let mut enforcer = start(Hold::Idle);
    enforcer.apply(funds.plan(1)).expect("a plan");
    for prey in &prey {
        eventually("each was held", || {
            policies(prey.pid()).iter().all(|policy| *policy == libc::SCHED_IDLE)
        });
    }
    // Its user changes one while it is held.
    eventually("it was changed while it was held", || {
        if policy_of(prey[4].pid()) != Some(libc::SCHED_IDLE) {
            return false;
        }
        all(prey[4].pid(), libc::SCHED_BATCH);
        true
    });
    eventually("the drift is told", || {
        let applied = enforcer.read_back().expect("it runs");
        applied.drift.iter().any(|drift| drift.what.contains("SCHED_BATCH"))
    });
    enforcer.revert().expect("it runs");
    assert_eq!(policies(prey[0].pid()), [libc::SCHED_OTHER; 3]);
    assert_eq!(policies(prey[1].pid()), [libc::SCHED_BATCH; 3]);
    assert_eq!(policies(prey[2].pid()), [libc::SCHED_IDLE; 3]);
    assert_eq!(policy_of(odd), Some(libc::SCHED_BATCH));
    assert_eq!(policies(prey[3].pid()).iter().filter(|p| **p == libc::SCHED_OTHER).count(), 2);
    assert_eq!(policies(prey[4].pid()), [libc::SCHED_BATCH; 3]);
    let applied = enforcer.read_back().expect("it runs");
    assert_eq!((applied.generation, applied.clients.len()), (None, 0));
}

#[test]
fn who_goes_first_by_the_kernels_rules_is_not_touched() {
    if needs_root("who_goes_first_is_not_touched") {
        return;
    }
    let _alone = alone();
    let prey = Prey::start("allot-realtime", &["doze", "1", "50"]);
    set_policy(prey.pid(), libc::SCHED_FIFO, 1);
    let mut funds = Funds::new();
    let id = funds.client(BASE, 1, prey.pid());
    let own = funds.client(BASE, 1, std::process::id());
    let mut enforcer = start(Hold::Idle);
    enforcer.apply(funds.plan(1)).expect("a plan");
    let client = find(&mut enforcer, id).expect("it is told");
    assert_eq!((client.state, client.held), (ClientState::Unmanaged, Held::Free));
    assert!(client.note.expect("a reason").contains("SCHED_FIFO"));
    assert!(find(&mut enforcer, own).expect("it is told").note.is_some());
    assert_eq!(policy_of(prey.pid()), Some(libc::SCHED_FIFO));
    // Once it is ordinary, it is managed.
    set_policy(prey.pid(), libc::SCHED_OTHER, 0);
    eventually("it is managed", || {
        find(&mut enforcer, id).is_some_and(|client| client.state != ClientState::Unmanaged)
    });
}

#[test]
fn sleepers_leave_the_draw_and_are_free() {
    let _alone = alone();
    let sleeper = Prey::start("allot-sleeper", &["doze", "1", "400"]);
    let hogs =
        [Prey::start("allot-awake", &["burn", "1"]), Prey::start("allot-awake", &["burn", "1"])];
    let mut funds = Funds::new();
    let id = funds.client(BASE, 100, sleeper.pid());
    let ids = [funds.client(BASE, 1, hogs[0].pid()), funds.client(BASE, 1, hogs[1].pid())];
    let mut enforcer = start(Hold::Auto);
    enforcer.apply(funds.plan(1)).expect("a plan");
    eventually("it sleeps, is free, and the others share what it leaves", || {
        let sample = enforcer.take_sample().expect("it runs");
        let of = |id| *sample.clients.iter().find(|client| client.id == id).expect("a client");
        of(id).state == ClientState::Sleeping
            && of(id).value == 0
            && ids.iter().all(|id| of(*id).promised == policy::ONE_SEAT / 2)
    });
    eventually("asleep it is free", || {
        let client = find(&mut enforcer, id).expect("a client");
        client.state == ClientState::Sleeping && client.held == Held::Free
    });
}

#[test]
fn who_was_stopped_by_somebody_else_is_left_alone() {
    let _alone = alone();
    for hold in [Hold::Auto, Hold::Stop] {
        let prey = [
            Prey::start("allot-user-stop", &["burn", "1"]),
            Prey::start("allot-user-stop", &["burn", "1"]),
        ];
        let pid = Pid::from_raw(prey[0].pid().cast_signed());
        kill(pid, Signal::SIGSTOP).expect("it lives");
        eventually("it stands", || state_of(prey[0].pid()) == Some('T'));
        let mut funds = Funds::new();
        let id = funds.client(BASE, 9, prey[0].pid());
        funds.client(BASE, 1, prey[1].pid());
        let mut enforcer = start(hold);
        enforcer.apply(funds.plan(1)).expect("a plan");
        eventually("it is told", || {
            find(&mut enforcer, id).is_some_and(|client| client.state == ClientState::Stopped)
        });
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(state_of(prey[0].pid()), Some('T'));
        kill(pid, Signal::SIGCONT).expect("it lives");
        eventually("it competes when its user lets it", || {
            enforcer
                .take_sample()
                .expect("it runs")
                .clients
                .iter()
                .any(|client| client.id == id && client.wins > 0)
        });
        drop(enforcer);
        assert_ne!(state_of(prey[0].pid()), Some('T'));
        assert_ne!(policy_of(prey[0].pid()), Some(libc::SCHED_IDLE));
    }
}

#[test]
fn a_child_that_inherited_its_hold_gets_its_parents_policy() {
    if needs_root("a_child_that_inherited_its_hold") {
        return;
    }
    let _alone = alone();
    let forker = Prey::start("allot-forker", &["fork"]);
    let hog = Prey::start("allot-forker", &["burn", "1"]);
    let mut funds = Funds::new();
    funds.client(BASE, 1, forker.pid());
    funds.client(BASE, 20, hog.pid());
    let mut enforcer = start(Hold::Idle);
    enforcer.apply(funds.plan(1)).expect("a plan");
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
        enforcer.apply(funds.plan(generation)).expect("a plan");
        eventually("the child is free, for it is stopped", || {
            find(&mut enforcer, id).is_none_or(|client| client.held == Held::Free)
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
    let _alone = alone();
    let prey: Vec<Prey> = (0..3).map(|_| Prey::start("allot-plans", &["burn", "1"])).collect();
    let mut funds = Funds::new();
    let ids: Vec<CurrencyId> = prey.iter().map(|prey| funds.client(BASE, 1, prey.pid())).collect();
    let mut enforcer = start(Hold::Auto);
    enforcer.apply(funds.plan(1)).expect("a plan");
    eventually("all took part", || {
        let sample = enforcer.take_sample().expect("it runs");
        sample.clients.len() == 3 && sample.clients.iter().all(|client| client.wins > 1)
    });
    let before = enforcer.take_sample().expect("it runs");
    funds.release(ids[1]);
    enforcer.apply(funds.plan(2)).expect("a plan");
    let after = enforcer.take_sample().expect("it runs");
    assert_eq!(after.generation, 2);
    assert_eq!(after.clients.iter().map(|c| c.id).collect::<Vec<_>>(), [ids[0], ids[2]]);
    assert!(after.clients[0].wins >= before.clients[0].wins);
    assert!(after.clients[1].used_ns >= before.clients[2].used_ns);
    assert!(after.used_ns >= before.used_ns, "what is gone still counts");
    assert_ne!(policy_of(prey[1].pid()), Some(libc::SCHED_IDLE));
    assert_ne!(state_of(prey[1].pid()), Some('T'));
    assert!(enforcer.apply(funds.plan(1)).is_err(), "an older plan is refused");
    // Who dies is dropped without a plan.
    let mut prey = prey;
    drop(prey.remove(0));
    eventually("the dead are dropped", || {
        enforcer.take_sample().expect("it runs").clients.len() == 1
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
