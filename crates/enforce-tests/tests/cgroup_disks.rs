//! Shares of disks by tickets on a real kernel: run by tests/lab-disk.sh in the lab, or on any machine
//! with null_blk whose cgroup v2 tree nobody owns.
#![allow(missing_docs)]

mod common;
#[path = "support/disk.rs"]
mod disk;

use ::disk::{KeptDisk, KeptDisks, Model, Speed, look, read_usage};
use common::cgroups::{Enforcing, Lab, groups, place_of, read, write};
use common::{TestProcess, eventually, funds::Funds, state_of, stop};
use disk::NullDisk;
use enforce_cgroup::{Cgroup, CgroupOptions};
use enforce_cgroup::{CgroupRestorer, DiskOptions, MemoryOptions};
use enforcer::{Enforcer, Plan};
use ledger::{BASE, CurrencyId, Funding, Member, Resource, TicketKind};
use policy::idle::IdleOptions;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// A request of 4 ms: an emulator's timers keep that, and not 1 ms.
const REQUEST: Duration = Duration::from_millis(4);
/// How far what is served may be off its due, as a part of it, on a machine that is emulated and busy.
const OFF: f64 = 0.05;
/// And besides: BFQ serves one for up to 125 ms (its `timeout_sync`) before the next, so that in a window
/// somebody may have one such turn more or less at either end.
const TURNS: f64 = 2.0 * 125.0 / 4.0;

fn here(test: &str) -> Option<Lab> {
    let lab = Lab::here(test)?;
    let bfq = || disk::run("modprobe", &["bfq"]);
    if let Err(why) = disk::available().and_then(|()| bfq()) {
        eprintln!("SKIP {test}: {why}");
        return None;
    }
    Some(lab)
}

fn funding(kind: TicketKind, amount: u64) -> Funding {
    Funding { resource: Resource::disk("allot0"), kind, amount }
}

fn soft(amount: u64) -> Funding {
    funding(TicketKind::Soft, amount)
}

fn enforcer(lab: &Lab, options: DiskOptions) -> Cgroup {
    let options = CgroupOptions { shares_cpu: false, disks: Some(options), ..lab.options() };
    Cgroup::start(options).expect("an enforcer")
}

fn follow(enforcer: &mut Cgroup, plan: Plan) {
    enforcer.apply(&plan.into()).expect("a plan");
    let drift = enforcer.status().expect("it runs").drift;
    assert!(drift.is_empty(), "{drift:?}");
}

/// A process that reads the disk anywhere, four requests at a time.
fn reader(tag: &str) -> TestProcess {
    TestProcess::start(tag, &["read-disk", "/dev/allot0", "268435456", "4"])
}

fn group_of(lab: &Lab, process: &TestProcess) -> PathBuf {
    lab.mount.join(place_of(process.pid()).trim_start_matches('/'))
}

/// What each reads in some seconds.
fn served(lab: &Lab, processes: &[TestProcess]) -> Vec<u64> {
    let number = look("allot0").expect("it is there").number;
    let requests = || -> Vec<u64> {
        let usage = processes
            .iter()
            .map(|process| read_usage(&group_of(lab, process)).expect("it is there"));
        usage.map(|usage| usage.get(&number).map_or(0, |usage| usage.reads)).collect()
    };
    // Who was served before it was moved, by other weights, waits for a while.
    std::thread::sleep(Duration::from_secs(5));
    let before = requests();
    std::thread::sleep(Duration::from_secs(10));
    let served: Vec<u64> =
        requests().iter().zip(&before).map(|(after, before)| after - before).collect();
    eprintln!("{served:?}");
    served
}

#[track_caller]
fn close(served: &[u64], dues: &[f64]) {
    let all: u64 = served.iter().sum();
    for (served_one, due) in served.iter().zip(dues) {
        let due = due * all as f64;
        let off = (*served_one as f64 - due).abs();
        assert!(off <= OFF * due + TURNS, "{served:?} for {dues:?}");
    }
}

/// Paper 1, figure 10: one client with a hard share of one half, four that share their user's currency.
#[test]
#[ignore = "lab"]
fn half_the_disk_is_one_clients_and_four_share_the_rest() {
    let Some(lab) = here("half_the_disk_is_one_clients_and_four_share_the_rest") else { return };
    let disk = NullDisk::new("allot0", REQUEST, 1);
    let scheduler = disk.queue().join("scheduler");
    let before = std::fs::read_to_string(&scheduler).expect("it has one");
    let processes: Vec<TestProcess> =
        ["hard", "soft-a", "soft-b", "soft-c", "soft-d"].map(reader).into();
    let mut enforcer = enforcer(&lab, DiskOptions::default());
    let mut funds = Funds::new();
    let user = funds.currency("user", 100);
    let clients: Vec<CurrencyId> =
        processes.iter().map(|process| funds.client(user, 1, process.pid())).collect();
    funds.fund_of(clients[0], BASE, funding(TicketKind::Hard, 500));
    funds.fund_of(user, BASE, soft(10));
    for client in &clients[1..] {
        funds.fund_of(*client, user, soft(1000));
    }
    follow(&mut enforcer, funds.plan(1));
    assert!(std::fs::read_to_string(&scheduler).expect("it has one").contains("[bfq]"));
    close(&served(&lab, &processes), &[0.5, 0.125, 0.125, 0.125, 0.125]);
    // Of what its tickets are not used for, the others have their parts.
    stop(processes[0].pid());
    close(&served(&lab, &processes[1..]), &[0.25, 0.25, 0.25, 0.25]);
    drop(enforcer);
    lab.is_as_before();
    assert_eq!(std::fs::read_to_string(&scheduler).expect("it has one"), before);
}

#[test]
#[ignore = "lab"]
fn where_the_speed_is_known_iocost_serves_by_tickets() {
    let Some(lab) = here("where_the_speed_is_known_iocost_serves_by_tickets") else { return };
    // As fast as the others, but of the kind for which iocost is chosen: it takes several at a time.
    let disk = NullDisk::new("allot0", 8 * REQUEST, 8);
    let sixteen = |tag| TestProcess::start(tag, &["read-disk", "/dev/allot0", "268435456", "16"]);
    let processes: Vec<TestProcess> = ["three", "one"].map(sixteen).into();
    // Slower than it is: an emulator's timers are late.
    let a_second = 195;
    let model = Model {
        rbps: a_second << 20,
        rseqiops: a_second,
        rrandiops: a_second,
        wbps: a_second << 20,
        wseqiops: a_second,
        wrandiops: a_second,
    };
    let speed = Speed { read_latency_us: 32_000, write_latency_us: 32_000, model };
    let file = lab.record().with_extension("disks");
    let mut kept = KeptDisks::default();
    let measured = KeptDisk { name: "allot0".to_owned(), measured_at: 1, depth: 1, speed };
    kept.keep(&look("allot0").expect("it is there"), measured);
    kept.save(&file).expect("it is written");
    let mut enforcer = enforcer(&lab, DiskOptions { file: Some(file) });
    let mut funds = Funds::new();
    for (tickets, process) in [3, 1].into_iter().zip(&processes) {
        let client = funds.client(BASE, 1, process.pid());
        funds.fund_of(client, BASE, soft(tickets));
    }
    follow(&mut enforcer, funds.plan(1));
    let quality = look("allot0").expect("it is there").cost.0.expect("a line");
    assert!(quality.contains("enable=1 ctrl=user"), "{quality}");
    close(&served(&lab, &processes), &[0.75, 0.25]);
    drop(enforcer);
    lab.is_as_before();
    let quality = look(&disk.name).expect("it is there").cost.0;
    assert!(quality.is_none_or(|line| line.contains("enable=0")));
}

#[test]
#[ignore = "lab"]
fn a_disk_that_goes_and_comes_back_is_told_and_shared_again() {
    let test = "a_disk_that_goes_and_comes_back_is_told_and_shared_again";
    let Some(lab) = here(test) else { return };
    let disk = NullDisk::new("allot0", REQUEST, 1);
    let process = TestProcess::start("doze", &["doze", "1", "1000"]);
    let mut enforcer = enforcer(&lab, DiskOptions::default());
    let mut funds = Funds::new();
    let client = funds.client(BASE, 1, process.pid());
    funds.fund_of(client, BASE, soft(7));
    follow(&mut enforcer, funds.plan(1));
    let mut words = String::new();
    let mut tells = |enforcer: &mut Cgroup, what: &str| {
        let drift = enforcer.status().expect("it runs").drift;
        words.extend(drift.iter().map(|drift| format!("{drift}\n")));
        words.contains(what)
    };
    disk.vanish();
    eventually("it is told", || tells(&mut enforcer, "allot0 is gone"));
    let disk = NullDisk::new("allot0", REQUEST, 1);
    let chosen = || read(&disk.queue(), "scheduler").contains("[bfq]");
    eventually("it is shared again", chosen);
    // Somebody chooses another scheduler: that is told, and undone.
    write(&disk.queue(), "scheduler", "none");
    eventually("that is told", || tells(&mut enforcer, "scheduler says `none`, not `bfq`"));
    eventually("and undone", chosen);
    // Without tickets it is given back, at once.
    funds.release(client);
    enforcer.apply(&funds.plan(2).into()).expect("a plan");
    enforcer.status().expect("it runs");
    assert!(!chosen());
    drop(enforcer);
    lab.is_as_before();
}

#[test]
#[ignore = "lab"]
fn tickets_of_what_is_no_disk_are_told_to_have_no_effect() {
    let Some(lab) = here("tickets_of_what_is_no_disk_are_told_to_have_no_effect") else { return };
    let process = TestProcess::start("doze", &["doze", "1", "1000"]);
    let mut enforcer = enforcer(&lab, DiskOptions::default());
    let mut funds = Funds::new();
    let client = funds.client(BASE, 1, process.pid());
    funds.fund_of(client, BASE, soft(7));
    enforcer.apply(&funds.plan(1).into()).expect("a plan");
    let drift = enforcer.status().expect("it runs").drift;
    let said = drift.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(said.contains("tickets of allot0 have no effect"), "{said}");
    drop(enforcer);
    lab.is_as_before();
}

/// Killed, with its guardian on watch and with both at once.
#[test]
#[ignore = "lab"]
fn killed_it_leaves_no_setting_of_a_disk_and_no_share() {
    let test = "killed_it_leaves_no_setting_of_a_disk_and_no_share";
    let Some(lab) = here(test) else { return };
    let disk = NullDisk::new("allot0", REQUEST, 1);
    write(&disk.queue(), "scheduler", "mq-deadline");
    write(&disk.queue(), "nr_requests", "50");
    let chosen = || read(&disk.queue(), "scheduler").contains("[bfq]");
    let as_found = || {
        read(&disk.queue(), "scheduler").contains("[mq-deadline]")
            && read(&disk.queue(), "nr_requests") == "50"
    };
    let processes = ["a", "b"].map(|tag| TestProcess::start(tag, &["doze", "1", "1000"]));
    for with_guardian in [false, true] {
        let with_disk = |command: &mut Command| {
            command.env("ENFORCE_DISK", "allot0");
        };
        let mut enforcing = Enforcing::start_with(&lab, &[&processes[0], &processes[1]], with_disk);
        assert!(chosen());
        assert_eq!(read(&lab.top(), "memory.min"), (2 << 20).to_string());
        if with_guardian {
            enforcing.kill_with_guardian();
        } else {
            enforcing.kill();
        }
        if with_guardian {
            assert!(chosen(), "nobody is left to give it back");
            let restored = undo::restore_leftovers(&lab.record(), &[&CgroupRestorer]);
            let restored = restored.expect("the record");
            assert_eq!(restored.failed, [""; 0]);
        }
        eventually("all is as it was found", || as_found() && groups(&lab.mount) == lab.before);
        lab.is_as_before();
    }
}

/// Reads a second of each, over some seconds.
fn reads_a_second(groups: &[PathBuf]) -> Vec<f64> {
    const SECONDS: u64 = 6;
    let number = look("allot0").expect("it is there").number;
    let reads = |group: &PathBuf| {
        read_usage(group).expect("it is there").get(&number).map_or(0, |usage| usage.reads)
    };
    // The first second of a limit is served at once.
    std::thread::sleep(Duration::from_secs(2));
    let before: Vec<u64> = groups.iter().map(reads).collect();
    std::thread::sleep(Duration::from_secs(SECONDS));
    let served: Vec<f64> = groups
        .iter()
        .zip(before)
        .map(|(group, before)| (reads(group) - before) as f64 / SECONDS as f64)
        .collect();
    eprintln!("{served:?} a second");
    served
}

/// Each of two clients alone, then both as their currency's, then nobody: no disk tickets are needed.
#[test]
#[ignore = "lab"]
fn who_is_limited_does_no_more_however_idle_the_disk_is() {
    let Some(lab) = here("who_is_limited_does_no_more_however_idle_the_disk_is") else { return };
    let _disk = NullDisk::new("allot0", REQUEST, 8);
    let processes = ["limited", "free"].map(reader);
    let mut enforcer = enforcer(&lab, DiskOptions::default());
    let mut funds = Funds::new();
    let user = funds.currency("user", 100);
    let clients = [0, 1].map(|index: usize| funds.client(user, 1, processes[index].pid()));
    funds.limit_reads(clients[0], "allot0", Some(40));
    follow(&mut enforcer, funds.plan(1));
    let leaves: Vec<PathBuf> = processes.iter().map(|process| group_of(&lab, process)).collect();
    let served = reads_a_second(&leaves);
    assert!((30.0..46.0).contains(&served[0]), "{served:?}: 40 a second were asked for");
    assert!(served[1] > 200.0, "{served:?}: the other has no limit");
    // What somebody changes is told and put right.
    let number = look("allot0").expect("it is there").number;
    write(&leaves[0], "io.max", &format!("{number} riops=max"));
    let is_limited = |leaf: &PathBuf| read(leaf, "io.max").contains("riops=40");
    eventually("it is put right", || is_limited(&leaves[0]));
    let said: Vec<String> =
        enforcer.status().expect("it runs").drift.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|what| what.contains("is set again")), "{said:?}");
    // Both together.
    funds.limit_reads(clients[0], "allot0", None);
    funds.limit_reads(user, "allot0", Some(60));
    follow(&mut enforcer, funds.plan(2));
    eventually("the old one is gone", || read(&leaves[0], "io.max").is_empty());
    let together: f64 = reads_a_second(&leaves).iter().sum();
    assert!((45.0..69.0).contains(&together), "{together}: 60 a second were asked for");
    funds.limit_reads(user, "allot0", None);
    follow(&mut enforcer, funds.plan(3));
    let free: f64 = reads_a_second(&leaves).iter().sum();
    assert!(free > 400.0, "{free}: nobody is limited any more");
    drop(enforcer);
    lab.is_as_before();
}

#[test]
#[ignore = "lab"]
fn what_cannot_be_limited_is_told_and_a_disk_that_comes_is_limited() {
    let test = "what_cannot_be_limited_is_told_and_a_disk_that_comes_is_limited";
    let Some(lab) = here(test) else { return };
    let process = TestProcess::start("doze", &["doze", "1", "1000"]);
    let mut enforcer = enforcer(&lab, DiskOptions::default());
    let mut funds = Funds::new();
    let client = funds.client(BASE, 1, process.pid());
    funds.limit_reads(client, "allot0", Some(40));
    enforcer.apply(&funds.plan(1).into()).expect("a plan");
    let mut said = String::new();
    let mut tells = |enforcer: &mut Cgroup| {
        let drift = enforcer.status().expect("it runs").drift;
        said.extend(drift.iter().map(|drift| format!("{drift}\n")));
        said.matches("on allot0 has no effect").count()
    };
    eventually("it is told", || tells(&mut enforcer) == 1);
    let disk = NullDisk::new("allot0", REQUEST, 1);
    let group = group_of(&lab, &process);
    eventually("it is limited", || read(&group, "io.max").contains("riops=40"));
    disk.vanish();
    eventually("that is told again", || tells(&mut enforcer) == 2);
    drop(enforcer);
    lab.is_as_before();
}

/// A cgroup that is a client's member: what was limited more strictly stays, all is as found at the end,
/// also when all of us are killed but the guardian.
#[test]
#[ignore = "lab"]
fn a_limit_of_others_is_kept_and_comes_back() {
    let Some(lab) = here("a_limit_of_others_is_kept_and_comes_back") else { return };
    let _disk = NullDisk::new("allot0", REQUEST, 1);
    let number = look("allot0").expect("it is there").number;
    let theirs = lab.mount.join("limited-by-others");
    std::fs::create_dir(&theirs).expect("a cgroup");
    let enabled = read(&lab.mount, "cgroup.subtree_control");
    write(&lab.mount, "cgroup.subtree_control", "+io");
    let found = format!("{number} rbps=1048576 wbps=max riops=500 wiops=max");
    write(&theirs, "io.max", &found);
    let limits = || read(&theirs, "io.max");
    let as_limited = format!("{number} rbps=1048576 wbps=max riops=100 wiops=max");
    let process = TestProcess::start("doze", &["doze", "1", "1000"]);
    {
        let mut enforcer = enforcer(&lab, DiskOptions::default());
        let mut funds = Funds::new();
        funds.client(BASE, 1, process.pid());
        let member = Member::Cgroup(theirs.metadata().expect("it is there").ino());
        let client = funds.member(BASE, 1, member);
        for (generation, reads, says) in [
            (1, Some(100), &as_limited),
            (2, Some(1000), &found),
            (3, Some(100), &as_limited),
            (4, None, &found),
            (5, Some(100), &as_limited),
        ] {
            funds.limit_reads(client, "allot0", reads);
            follow(&mut enforcer, funds.plan(generation));
            eventually("it is set", || limits() == *says);
        }
    }
    assert_eq!(limits(), found);
    let mut enforcing = Enforcing::start_with(&lab, &[&process], |command| {
        command.env("ENFORCE_DISK", "allot0").env("ENFORCE_LIMIT", &theirs);
    });
    eventually("it is limited", || limits() == as_limited);
    enforcing.kill();
    eventually("the guardian leaves", || {
        matches!(state_of(enforcing.guardian), None | Some('Z' | 'X'))
    });
    assert_eq!(limits(), found);
    std::fs::remove_dir(&theirs).expect("empty");
    if !enabled.split(' ').any(|controller| controller == "io") {
        write(&lab.mount, "cgroup.subtree_control", "-io");
    }
    lab.is_as_before();
}

/// A process that does nothing but wait for a slow disk uses next to no CPU.
#[test]
#[ignore = "lab"]
fn who_waits_for_a_disk_keeps_its_memory_tickets() {
    let Some(lab) = here("who_waits_for_a_disk_keeps_its_memory_tickets") else { return };
    let _disk = NullDisk::new("allot0", Duration::from_millis(100), 1);
    let reader = TestProcess::start("waits", &["read-disk", "/dev/allot0", "268435456", "1"]);
    let idle = TestProcess::start("idle", &["doze", "1", "5000"]);
    let options = IdleOptions { idle_ns: 2_000_000_000, ..IdleOptions::default() };
    let memory = MemoryOptions { idle: options, ..MemoryOptions::default() };
    let options = CgroupOptions { shares_cpu: false, memory: Some(memory), ..lab.options() };
    let mut enforcer = Cgroup::start(options).expect("an enforcer");
    let mut funds = Funds::new();
    funds.memory(100_000);
    for process in [&reader, &idle] {
        let client = funds.client(BASE, 1, process.pid());
        let (resource, kind) = (Resource::MEMORY, TicketKind::Hard);
        funds.fund_of(client, BASE, Funding { resource, kind, amount: 4000 });
    }
    follow(&mut enforcer, funds.plan(1));
    let [waits, idles] = [&reader, &idle].map(|process| group_of(&lab, process));
    let is_sure = |group: &PathBuf| read(group, "memory.min") == (4000 << 10).to_string();
    assert!(is_sure(&waits) && is_sure(&idles));
    eventually("the idle one has none", || !is_sure(&idles));
    let cpu_before = cpu_us(&waits);
    for _ in 0..60 {
        assert!(is_sure(&waits), "it waits for the disk all the time");
        std::thread::sleep(Duration::from_millis(100));
    }
    let used_us = cpu_us(&waits) - cpu_before;
    eprintln!("it used {used_us} us of CPU time in 6 s");
    drop(enforcer);
    lab.is_as_before();
}

fn cpu_us(group: &std::path::Path) -> u64 {
    let text = read(group, "cpu.stat");
    let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "));
    line.and_then(|line| line.parse().ok()).expect("a number")
}
