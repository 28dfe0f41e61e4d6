//! Cgroups on a real kernel: run by tests/lab-cgroup.sh in the lab, where nobody owns the cgroup v2 tree and the clock counts
//! instructions. One test at a time: each wants the CPUs and the root of the tree.
#![allow(missing_docs)]

mod common;

use common::cgroups::{Enforcing, Lab, groups, place_of, read, write};
use common::{TestProcess, after_use, eventually, funds::Funds, kill, named, state_of, stop};
use enforce_cgroup::{Cgroup, PROCESSES_MOVED};
use enforcer::{ClientState, CpuSample, Enforcer, Plan, Status};
use ledger::{BASE, Class, CurrencyId, Member};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// How far a share may be off, as a part of the CPU, where all hogs are on one CPU: of the two seconds that are looked at, seven
/// of the kernel's ticks (4 ms) at either end, where its own bound is a slice for each level of the tree.
const OFF: f64 = 0.03;
const LOOKED_AT_NS: u64 = 2_000_000_000;
/// Used until weights that follow from who competes are set, and what was owed by the ones before is paid.
const SETTLED_NS: u64 = 300_000_000;

/// A process that burns CPU 0.
fn hog(tag: &str) -> TestProcess {
    TestProcess::burning(tag, 1, to_cpu_0)
}

fn on_cpu_0(tag: &str, arguments: &[&str]) -> TestProcess {
    TestProcess::start_with(tag, arguments, to_cpu_0)
}

fn to_cpu_0(command: &mut Command) {
    // SAFETY: the call is safe between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let mut cpus = nix::sched::CpuSet::new();
            cpus.set(0)?;
            Ok(nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &cpus)?)
        });
    }
}

/// What each client used between two samples, as parts of what all did.
fn shares(before: &CpuSample, after: &CpuSample) -> BTreeMap<CurrencyId, f64> {
    let used_before: BTreeMap<CurrencyId, u64> =
        before.clients.iter().map(|client| (client.id, client.used_ns)).collect();
    let used = |client: &enforcer::CpuClientSample| {
        client.used_ns - used_before.get(&client.id).copied().unwrap_or(0)
    };
    let all: u64 = after.clients.iter().map(used).sum();
    after.clients.iter().map(|client| (client.id, used(client) as f64 / all as f64)).collect()
}

/// Shares of so much CPU time that is used from when all that are named compete.
fn measure(
    enforcer: &mut Cgroup,
    competing: &[CurrencyId],
    used_ns: u64,
) -> BTreeMap<CurrencyId, f64> {
    eventually("all compete", || {
        let sample = enforcer.sample().expect("it runs").cpu.expect("of the CPU");
        let state = |id| sample.clients.iter().find(|client| client.id == id).map(|c| c.state);
        competing
            .iter()
            .all(|id| matches!(state(*id), Some(ClientState::Running | ClientState::Waiting)))
    });
    let before = after_use(enforcer, SETTLED_NS);
    let shares = shares(&before, &after_use(enforcer, used_ns));
    eprintln!("shares {shares:?}");
    shares
}

/// The clients have these parts of what all have, while those of them that are due something compete.
#[track_caller]
fn gives(enforcer: &mut Cgroup, due: &[(CurrencyId, f64)]) {
    let competing: Vec<_> = due.iter().filter(|(_, part)| *part > 0.0).map(|(id, _)| *id).collect();
    let shares = measure(enforcer, &competing, LOOKED_AT_NS);
    let right = due.iter().all(|(id, part)| (shares[id] - part).abs() <= OFF);
    assert!(right, "{shares:?}, not {due:?}");
}

fn follow(enforcer: &mut Cgroup, plan: Plan) -> Status {
    enforcer.apply(&plan.into()).expect("a plan");
    enforcer.status().expect("it runs")
}

#[test]
#[ignore = "lab"]
fn a_tree_of_currencies_is_a_tree_of_cgroups() {
    let Some(lab) = Lab::here("a_tree_of_currencies_is_a_tree_of_cgroups") else { return };
    let hogs = [hog("tree-a"), hog("tree-b"), hog("tree-c")];
    let mut enforcer = lab.enforcer();
    let mut funds = Funds::new();
    let (two, one) = (funds.currency("two", 200), funds.currency("one", 100));
    let a = funds.client(two, 3, hogs[0].pid());
    let b = funds.client(two, 1, hogs[1].pid());
    let c = funds.client(one, 7, hogs[2].pid());
    follow(&mut enforcer, funds.plan(1));
    gives(&mut enforcer, &[(a, 0.5), (b, 1.0 / 6.0), (c, 1.0 / 3.0)]);
    for (hog, id) in hogs.iter().zip([a, b, c]) {
        let leaf = place_of(hog.pid());
        assert!(leaf.starts_with(&format!("/{}/c", lab.name)), "{leaf}");
        assert!(leaf.ends_with(&format!("/c{}", id.0)), "{leaf}");
        assert_eq!(leaf.split('/').count(), 4, "currency, then client: {leaf}");
    }
    // Who sleeps needs no new weights: the kernel divides as the ledger does.
    let weights = |lab: &Lab| -> Vec<String> {
        groups(&lab.top()).iter().map(|group| read(group, "cpu.weight")).collect()
    };
    let before = weights(&lab);
    stop(hogs[0].pid());
    gives(&mut enforcer, &[(a, 0.0), (b, 2.0 / 3.0), (c, 1.0 / 3.0)]);
    assert_eq!(weights(&lab), before);
    drop(enforcer);
    lab.is_as_before();
    assert!(hogs.iter().all(|hog| place_of(hog.pid()) == "/"));
}

#[test]
#[ignore = "lab"]
fn a_client_of_two_currencies_stands_apart() {
    let Some(lab) = Lab::here("a_client_of_two_currencies_stands_apart") else { return };
    let hogs = [hog("both-x"), hog("both-u"), hog("both-v")];
    let mut enforcer = lab.enforcer();
    let mut funds = Funds::new();
    let (u, v) = (funds.currency("u", 1), funds.currency("v", 1));
    let x = funds.client(u, 1, hogs[0].pid());
    funds.fund(x, v, 3);
    let of_u = funds.client(u, 1, hogs[1].pid());
    let of_v = funds.client(v, 1, hogs[2].pid());
    follow(&mut enforcer, funds.plan(1));
    // Half of u's half and three quarters of v's.
    gives(&mut enforcer, &[(x, 0.625), (of_u, 0.25), (of_v, 0.125)]);
    assert_eq!(place_of(hogs[0].pid()), format!("/{}/c{}", lab.name, x.0));
    lab_is_empty_after(&lab, enforcer);
}

fn lab_is_empty_after(lab: &Lab, enforcer: Cgroup) {
    drop(enforcer);
    lab.is_as_before();
}

#[test]
#[ignore = "lab"]
fn weights_follow_who_is_active() {
    let Some(lab) = Lab::here("weights_follow_who_is_active") else { return };
    let hogs = [hog("flow-x"), hog("flow-u"), hog("flow-v")];
    let mut enforcer = lab.enforcer();
    let mut funds = Funds::new();
    let (u, v) = (funds.currency("u", 1), funds.currency("v", 1));
    let x = funds.client(u, 1, hogs[0].pid());
    funds.fund(x, v, 1);
    let of_u = funds.client(u, 3, hogs[1].pid());
    let of_v = funds.client(v, 1, hogs[2].pid());
    follow(&mut enforcer, funds.plan(1));
    gives(&mut enforcer, &[(x, 0.375), (of_u, 0.375), (of_v, 0.25)]);
    // Without its competitor x has all of u, and the weights have to say so.
    stop(hogs[1].pid());
    gives(&mut enforcer, &[(x, 0.75), (of_u, 0.0), (of_v, 0.25)]);
    lab_is_empty_after(&lab, enforcer);
}

#[test]
#[ignore = "lab"]
fn what_somebody_changes_is_put_right_and_told() {
    let Some(lab) = Lab::here("what_somebody_changes_is_put_right_and_told") else { return };
    let (hog, doze) = (hog("drift-a"), TestProcess::start("drift-b", &["doze", "1", "50"]));
    let mut enforcer = lab.enforcer();
    let mut funds = Funds::new();
    let a = funds.client(BASE, 1, hog.pid());
    let b = funds.client(BASE, 2, doze.pid());
    funds.freeze(b, true);
    let applied = follow(&mut enforcer, funds.plan(1));
    assert!(applied.drift.is_empty(), "{:?}", applied.drift);
    let leaf = |id: CurrencyId| lab.top().join(format!("c{}", id.0));
    let weight = read(&leaf(a), "cpu.weight");

    write(&leaf(a), "cpu.weight", "77");
    write(&lab.mount, "cgroup.procs", &hog.pid().to_string());
    write(&leaf(b), "cgroup.freeze", "0");
    let told = |enforcer: &mut Cgroup, words: &mut Vec<String>| {
        let drift = enforcer.status().expect("it runs").drift;
        words.extend(drift.iter().map(ToString::to_string));
        words.join("\n")
    };
    let mut words = Vec::new();
    eventually("all three are told", || {
        let words = told(&mut enforcer, &mut words);
        words.contains("was 77") && words.contains("moved it to /") && words.contains("thawed")
    });
    assert_eq!(read(&leaf(a), "cpu.weight"), weight);
    assert_eq!(place_of(hog.pid()), format!("/{}/c{}", lab.name, a.0));
    assert_eq!(read(&leaf(b), "cgroup.freeze"), "1");
    assert!(enforcer.status().expect("it runs").drift.is_empty(), "once");

    // A cgroup that is gone is made again, with its weight.
    eventually("it is removed", || {
        write(&lab.mount, "cgroup.procs", &hog.pid().to_string());
        std::fs::remove_dir(leaf(a)).is_ok()
    });
    eventually("it is there again", || {
        place_of(hog.pid()) == format!("/{}/c{}", lab.name, a.0)
            && read(&leaf(a), "cpu.weight") == weight
    });
    lab_is_empty_after(&lab, enforcer);
}

#[test]
#[ignore = "lab"]
fn who_is_frozen_uses_nothing_until_thawed() {
    let Some(lab) = Lab::here("who_is_frozen_uses_nothing_until_thawed") else { return };
    let hog = hog("freeze-a");
    let mut enforcer = lab.enforcer();
    let mut funds = Funds::new();
    let a = funds.client(BASE, 1, hog.pid());
    funds.freeze(a, true);
    let applied = follow(&mut enforcer, funds.plan(1));
    assert_eq!(applied.clients[0].state, ClientState::Frozen);
    let leaf = lab.top().join(format!("c{}", a.0));
    eventually("it is frozen", || read(&leaf, "cgroup.events").contains("frozen 1"));
    let used = |enforcer: &mut Cgroup| {
        enforcer.sample().expect("it runs").cpu.expect("of the CPU").clients[0].used_ns
    };
    let before = used(&mut enforcer);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(used(&mut enforcer), before);
    funds.freeze(a, false);
    follow(&mut enforcer, funds.plan(2));
    eventually("it runs again", || used(&mut enforcer) > before + 1_000_000);
    // Given back while it is frozen, it is not frozen.
    funds.freeze(a, true);
    follow(&mut enforcer, funds.plan(3));
    enforcer.revert().expect("it runs");
    lab.is_as_before();
    let clock = || {
        let process = observe::ProcessHandle::open(hog.pid()).expect("it lives");
        process.cpu_time_ns().expect("a clock")
    };
    let before = clock();
    eventually("it runs", || clock() > before + 1_000_000);
}

#[test]
#[ignore = "lab"]
fn guests_get_what_hosts_leave() {
    let Some(lab) = Lab::here("guests_get_what_hosts_leave") else { return };
    let (host, guest) = (hog("guest-h"), hog("guest-g"));
    let mut enforcer = lab.enforcer();
    let mut funds = Funds::new();
    let h = funds.client(BASE, 1, host.pid());
    let g = funds.client(BASE, 1000, guest.pid());
    let mut plan = funds.plan(1);
    plan.clients.iter_mut().filter(|it| it.id == g).for_each(|it| it.class = Class::Guest);
    follow(&mut enforcer, plan);
    let shares = measure(&mut enforcer, &[h, g], LOOKED_AT_NS);
    assert!(shares[&g] < 0.02, "the guest got {:.4}", shares[&g]);
    drop(host);
    eventually("the guest has the CPU for itself", || {
        let before = enforcer.sample().expect("it runs").cpu.expect("of the CPU");
        shares_of(&before, &after_use(&mut enforcer, 200_000_000), g) > 0.9
    });
    lab_is_empty_after(&lab, enforcer);
}

fn shares_of(before: &CpuSample, after: &CpuSample, id: CurrencyId) -> f64 {
    shares(before, after).get(&id).copied().unwrap_or(0.0)
}

#[test]
#[ignore = "lab"]
fn children_stay_until_they_are_clients_and_go_back_with_the_rest() {
    let test = "children_stay_until_they_are_clients_and_go_back_with_the_rest";
    let Some(lab) = Lab::here(test) else { return };
    let parent = on_cpu_0("forker", &["fork"]);
    let mut enforcer = lab.enforcer();
    let mut funds = Funds::new();
    let a = funds.client(BASE, 1, parent.pid());
    follow(&mut enforcer, funds.plan(1));
    let leaf = format!("/{}/c{}", lab.name, a.0);
    let mut child = 0;
    eventually("a child is there", || {
        let children = named("forker").into_iter().filter(|pid| *pid != parent.pid());
        child = children.clone().find(|pid| place_of(*pid) == leaf).unwrap_or(0);
        child != 0
    });
    // Whatever they use, short lives included, is their client's.
    after_use(&mut enforcer, 100_000_000);
    funds.release(a);
    follow(&mut enforcer, funds.plan(2));
    eventually("all are where they were", || {
        groups(&lab.top()).is_empty() && named("forker").iter().all(|pid| place_of(*pid) == "/")
    });
    lab_is_empty_after(&lab, enforcer);
}

#[test]
#[ignore = "lab"]
fn who_is_under_a_limit_of_others_stays_there() {
    let Some(lab) = Lab::here("who_is_under_a_limit_of_others_stays_there") else { return };
    let others = lab.mount.join(format!("others-{}", std::process::id()));
    let controllers = read(&lab.mount, "cgroup.subtree_control");
    write(&lab.mount, "cgroup.subtree_control", "+cpu +pids");
    std::fs::create_dir(&others).expect("a cgroup");
    write(&others, "cpu.weight", "321");
    let (outside, inside) = (hog("limit-o"), hog("limit-i"));
    let place = format!("/{}", others.file_name().and_then(|name| name.to_str()).expect("a name"));
    write(&others, "cgroup.procs", &inside.pid().to_string());
    let mut enforcer = lab.enforcer();
    let mut funds = Funds::new();
    let o = funds.client(BASE, 1, outside.pid());
    let i = funds.client(BASE, 3, inside.pid());
    follow(&mut enforcer, funds.plan(1));
    gives(&mut enforcer, &[(o, 0.25), (i, 0.75)]);
    assert_eq!(place_of(inside.pid()), place);
    assert_ne!(read(&others, "cpu.weight"), "321");
    drop(enforcer);
    assert_eq!(read(&others, "cpu.weight"), "321");
    drop((inside, outside));
    std::fs::remove_dir(&others).expect("nobody is there");
    write(&lab.mount, "cgroup.subtree_control", "-cpu -pids");
    for name in controllers.split_whitespace() {
        write(&lab.mount, "cgroup.subtree_control", &format!("+{name}"));
    }
    lab.is_as_before();
}

#[test]
#[ignore = "lab"]
fn a_cgroup_can_be_a_member() {
    let Some(lab) = Lab::here("a_cgroup_can_be_a_member") else { return };
    let group = lab.mount.join(format!("member-{}", std::process::id()));
    std::fs::create_dir(&group).expect("a cgroup");
    let (founder, inside, rival) =
        (TestProcess::start("member-f", &["doze", "1", "60000"]), hog("member-i"), hog("member-r"));
    write(&group, "cgroup.procs", &inside.pid().to_string());
    let mut enforcer = lab.enforcer();
    let mut funds = Funds::new();
    let r = funds.client(BASE, 1, rival.pid());
    let m = funds.client(BASE, 3, founder.pid());
    let id = group.metadata().expect("it is there").ino();
    let mut plan = funds.plan(1);
    plan.clients.iter_mut().filter(|it| it.id == m).for_each(|it| {
        it.members.push(Member::Cgroup(id));
    });
    // The founder is away, so that the cgroup is all that the client is.
    let away = plan.clients.iter().position(|it| it.id == m).expect("planned");
    let founder_member = plan.clients[away].founder;
    plan.clients.iter_mut().filter(|it| it.id == r).for_each(|it| {
        it.members.push(founder_member);
    });
    follow(&mut enforcer, plan);
    gives(&mut enforcer, &[(r, 0.25), (m, 0.75)]);
    assert_eq!(place_of(founder.pid()), place_of(rival.pid()), "it has joined");
    drop(enforcer);
    assert_eq!(read(&group, "cpu.weight"), "", "the controller is off again");
    drop((inside, founder, rival));
    std::fs::remove_dir(&group).expect("nobody is there");
    lab.is_as_before();
}

#[test]
#[ignore = "lab"]
fn several_cpus_are_shared_as_well_as_the_kernel_can() {
    let Some(lab) = Lab::here("several_cpus_are_shared_as_well_as_the_kernel_can") else { return };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        eprintln!("SKIP several_cpus_are_shared_as_well_as_the_kernel_can: there is one CPU");
        return;
    }
    // Of weights that so many CPUs can satisfy, two for each CPU.
    let hogs: Vec<TestProcess> =
        (0..2 * cpus).map(|_| TestProcess::start("several", &["burn", "1"])).collect();
    let mut enforcer = lab.enforcer();
    let mut funds = Funds::new();
    let ids: Vec<CurrencyId> = hogs
        .iter()
        .enumerate()
        .map(|(index, hog)| funds.client(BASE, 1 + (index % 2) as u64, hog.pid()))
        .collect();
    follow(&mut enforcer, funds.plan(1));
    let shares = measure(&mut enforcer, &ids, 2 * LOOKED_AT_NS * cpus as u64);
    for (index, id) in ids.iter().enumerate() {
        let due = (1 + (index % 2)) as f64 / (3 * cpus) as f64;
        let off = (shares[id] - due).abs() / due;
        // What the kernel's own test of cpu.weight allows.
        assert!(off < 0.35, "{id} got {:.4}, and {due:.4} was its due", shares[id]);
    }
    lab_is_empty_after(&lab, enforcer);
}

#[test]
#[ignore = "lab"]
fn many_clients_come_and_go() {
    let Some(lab) = Lab::here("many_clients_come_and_go") else { return };
    let processes: Vec<TestProcess> =
        (0..100).map(|_| TestProcess::start("many", &["doze", "1", "1000"])).collect();
    let mut enforcer = lab.enforcer();
    let mut funds = Funds::new();
    let users: Vec<CurrencyId> =
        (0..10).map(|user| funds.currency(&format!("user{user}"), 100)).collect();
    for (index, process) in processes.iter().enumerate() {
        funds.client(users[index % users.len()], 1 + index as u64, process.pid());
    }
    let applied = follow(&mut enforcer, funds.plan(1));
    assert!(applied.clients.iter().all(|client| client.note.is_none()), "{:?}", applied.clients);
    assert_eq!(groups(&lab.top()).len(), 110);
    // Half of them end; the next plan does not have them.
    drop(processes.into_iter().step_by(2).collect::<Vec<_>>());
    follow(&mut enforcer, Funds::new().plan(2));
    assert!(groups(&lab.top()).is_empty());
    lab_is_empty_after(&lab, enforcer);
}

#[test]
#[ignore = "lab"]
fn killed_it_leaves_nothing() {
    let Some(lab) = Lab::here("killed_it_leaves_nothing") else { return };
    let seed = std::env::var("ALLOT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    eprintln!("ALLOT_SEED={seed}");
    let mut random: u64 = seed;
    for _ in 0..4 {
        let processes = [hog("kill-a"), hog("kill-b"), on_cpu_0("kill-c", &["fork"])];
        let mut enforcing = Enforcing::start(&lab, &[&processes[0], &processes[1], &processes[2]]);
        assert!(place_of(processes[0].pid()).starts_with(&format!("/{}/", lab.name)));
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_millis((random >> 33) % 60));
        enforcing.kill();
        eventually("nothing is left", || groups(&lab.mount) == lab.before);
        eventually("the guardian leaves", || {
            matches!(state_of(enforcing.guardian), None | Some('Z' | 'X'))
        });
        lab.is_as_before();
        for processes in &processes {
            assert_eq!(place_of(processes.pid()), "/");
        }
    }
}

#[test]
#[ignore = "lab"]
fn killed_with_its_guardian_the_next_one_restores() {
    let Some(lab) = Lab::here("killed_with_its_guardian_the_next_one_restores") else { return };
    let processes = [hog("both-a"), on_cpu_0("both-b", &["fork"])];
    let mut enforcing = Enforcing::start(&lab, &[&processes[0], &processes[1]]);
    enforcing.kill_with_guardian();
    assert!(place_of(processes[0].pid()).starts_with(&format!("/{}/", lab.name)));
    let enforcer = lab.enforcer();
    let leftovers = enforcer.leftovers();
    assert!(leftovers.number_of(PROCESSES_MOVED) >= 2, "{leftovers:?}");
    assert!(processes.iter().all(|processes| place_of(processes.pid()) == "/"));
    lab.is_as_before();
    lab_is_empty_after(&lab, enforcer);
}

#[test]
#[ignore = "lab"]
fn without_a_guardian_nobody_is_held() {
    let Some(lab) = Lab::here("without_a_guardian_nobody_is_held") else { return };
    let hog = hog("lonely");
    let mut enforcer = lab.enforcer();
    let mut funds = Funds::new();
    funds.client(BASE, 1, hog.pid());
    let applied = follow(&mut enforcer, funds.plan(1));
    assert_ne!(place_of(hog.pid()), "/");
    kill(applied.guardian_pid.expect("on watch"));
    let mut words = Vec::new();
    eventually("that is noticed, and there is another", || {
        let drift = enforcer.status().expect("it runs").drift;
        words.extend(drift.iter().map(ToString::to_string));
        let words = words.join("\n");
        words.contains("the guardian died") && words.contains("on watch again")
    });
    eventually("the plan is followed again", || place_of(hog.pid()) != "/");
    lab_is_empty_after(&lab, enforcer);
}
