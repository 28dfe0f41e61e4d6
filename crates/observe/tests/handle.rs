//! Handles on real processes.

mod common;

use allot_observe::{Ancestry, ProcessError, ProcessHandle, RunState, scan};
use common::{Actor, is_root, skip, until, until_state};
use rustix::process::{Pid, Signal, kill_process};

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("a process");
    kill_process(pid, signal).expect("signal");
}

#[test]
fn a_handle_names_the_process_that_it_holds() {
    let actor = Actor::start();
    let handle = actor.handle();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", actor.pid())).expect("a stat");
    let behind_name = stat.rsplit_once(") ").expect("a name").1;
    let started = behind_name.split(' ').nth(22 - 3).expect("a start").parse();
    assert_eq!(handle.identity().pid, actor.pid());
    assert_eq!(started, Ok(handle.identity().start_time_ticks));
    assert!(handle.is_alive());
    let again = ProcessHandle::open_identity(handle.identity()).expect("the same process");
    assert_eq!(again.identity(), handle.identity());
}

#[test]
fn facts_are_the_kernels() {
    let mut actor = Actor::start();
    let facts = actor.handle().facts().expect("facts");
    assert_eq!(facts.parent_pid, std::process::id());
    assert_eq!(facts.real_uid, rustix::process::getuid().as_raw());
    assert_eq!(facts.effective_uid, rustix::process::geteuid().as_raw());
    assert_eq!(facts.real_gid, rustix::process::getgid().as_raw());
    assert_eq!(facts.comm, "observe-actor");
    assert!(facts.cmdline.ends_with("observe-actor"), "{}", facts.cmdline);
    assert!(!facts.is_kernel_thread);
    assert_eq!(facts.thread_count, 1);
    // SAFETY: both calls only return numbers. They are 0 in a namespace without the leader, which rustix's Pid cannot hold.
    let (session, process_group) = unsafe { (libc::getsid(0), libc::getpgrp()) };
    assert_eq!(facts.session, session.cast_unsigned());
    assert_eq!(facts.process_group, process_group.cast_unsigned());
    assert_eq!(actor.tell("threads 3"), "ok");
    assert_eq!(actor.handle().facts().expect("facts").thread_count, 4);
}

#[test]
fn names_that_look_like_a_stat_line_do_not_mislead() {
    let mut actor = Actor::start();
    let handle = actor.handle();
    for name in [&b"a) R 1 (b"[..], b") Z ", b"x\ny", b"\xff) R \xfe", b"Uid:\t7\t7"] {
        let hex: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(actor.tell(&format!("name {hex}")), "ok");
        let facts = handle.facts().expect("facts");
        assert_eq!(facts.comm, String::from_utf8_lossy(name));
        assert_eq!(facts.parent_pid, std::process::id());
        assert_eq!(facts.real_uid, rustix::process::getuid().as_raw());
        until_state(&handle, RunState::Sleeping);
        let again = ProcessHandle::open(actor.pid()).expect("it lives");
        assert_eq!(again.identity(), handle.identity());
    }
}

#[test]
fn a_dead_process_is_gone_to_every_reader() {
    let mut actor = Actor::start();
    let handle = actor.handle();
    let fresh = actor.handle();
    until_state(&handle, RunState::Sleeping);
    actor.kill();
    assert!(!handle.is_alive());
    assert_eq!(handle.run_state().expect("a state"), RunState::Dead);
    assert_eq!(fresh.run_state().expect("a state"), RunState::Dead);
    assert!(handle.cpu_time_ns().expect_err("reaped").is_gone());
    assert!(handle.facts().expect_err("reaped").is_gone());
    assert!(handle.threads().expect_err("reaped").is_gone());
    assert!(ProcessHandle::open_identity(handle.identity()).expect_err("reaped").is_gone());
    assert!(ProcessHandle::open(0).expect_err("no process").is_gone());
    assert!(ProcessHandle::open(u32::MAX).expect_err("no process").is_gone());
}

#[test]
fn a_zombie_is_dead_but_its_account_can_be_read() {
    let mut actor = Actor::start();
    let handle = actor.handle();
    let used = actor.tell_number("burn 20");
    actor.end_unreaped();
    until("the process has exited", || !handle.is_alive());
    assert_eq!(handle.run_state().expect("a state"), RunState::Dead);
    assert!(handle.cpu_time_ns().expect("not reaped yet") >= used);
    assert_eq!(handle.facts().expect("not reaped yet").leader_state, RunState::Dead);
    assert!(matches!(ProcessHandle::open(actor.pid()), Err(ProcessError::Gone { .. })));
    actor.end();
    assert!(handle.cpu_time_ns().expect_err("reaped").is_gone());
}

/// The kernel gives out pids in turn; `ns_last_pid` says where it goes on. In the lab, where nobody else takes the next.
#[test]
#[ignore = "lab"]
fn a_reused_pid_is_another_process() {
    const NAME: &str = "a_reused_pid_is_another_process";
    const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";
    let mut actor = Actor::start();
    let old = actor.handle();
    until_state(&old, RunState::Sleeping);
    let unasked = actor.handle();
    actor.end();
    let pid = old.identity().pid;
    // The next process must begin in a later tick of the clock.
    std::thread::sleep(std::time::Duration::from_millis(30));
    if let Err(error) = std::fs::write(LAST_PID, (pid - 1).to_string()) {
        return skip(NAME, &format!("cannot choose the next pid: {error}"));
    }
    let actor = Actor::start();
    assert_eq!(actor.pid(), pid, "another process was born in between");
    let new = actor.handle();
    assert_ne!(new.identity(), old.identity());
    assert!(matches!(
        ProcessHandle::open_identity(old.identity()),
        Err(ProcessError::Reused { .. })
    ));
    for handle in [&old, &unasked] {
        assert!(!handle.is_alive());
        assert_eq!(handle.run_state().expect("a state"), RunState::Dead);
        assert!(handle.cpu_time_ns().expect_err("another's clock").is_gone());
        assert!(handle.facts().expect_err("another's facts").is_gone());
        assert!(handle.threads().expect_err("another's threads").is_gone());
    }
    assert!(new.is_alive());
}

#[test]
fn cpu_time_lies_between_what_the_process_reads_itself() {
    let mut actor = Actor::start();
    let handle = actor.handle();
    let mut ours = 0;
    for _ in 0..5 {
        let theirs = actor.tell_number("burn 10");
        assert!(theirs >= ours, "{theirs} ns after {ours} ns");
        ours = handle.cpu_time_ns().expect("it lives");
        assert!(ours >= theirs, "{ours} ns after {theirs} ns");
    }
    assert!(ours >= 1_000_000, "five burns used {ours} ns");
}

#[test]
fn run_state_follows_the_process() {
    let mut actor = Actor::start();
    let handle = actor.handle();
    until_state(&handle, RunState::Sleeping);
    signal(actor.pid(), Signal::STOP);
    until_state(&handle, RunState::Stopped);
    signal(actor.pid(), Signal::CONT);
    until_state(&handle, RunState::Sleeping);
    assert_eq!(actor.tell("threads 0"), "ok");
}

#[test]
fn one_running_thread_makes_a_process_running() {
    // More threads than the reader keeps open, and fewer.
    for idle in [3, 100] {
        let mut actor = Actor::start();
        let handle = actor.handle();
        assert_eq!(actor.tell(&format!("threads {idle}")), "ok");
        until_state(&handle, RunState::Sleeping);
        for _ in 0..3 {
            let spinner = actor.tell_pid("spin");
            // The leader waits for the next command, so this is the spinning thread's doing.
            for _ in 0..20 {
                assert_eq!(handle.run_state().expect("a state"), RunState::Running);
            }
            assert_eq!(handle.threads().expect("threads").len(), idle + 2);
            assert!(matches!(
                ProcessHandle::open(spinner),
                Err(ProcessError::NotAProcess { pid }) if pid == spinner
            ));
            assert_eq!(actor.tell("unspin"), "ok");
            until_state(&handle, RunState::Sleeping);
            until("the thread is gone", || handle.threads().expect("threads").len() == idle + 1);
        }
        actor.tell("spin");
        signal(actor.pid(), Signal::STOP);
        until_state(&handle, RunState::Stopped);
        signal(actor.pid(), Signal::CONT);
        until_state(&handle, RunState::Running);
        actor.kill();
        assert_eq!(handle.run_state().expect("a state"), RunState::Dead);
    }
}

#[test]
fn a_process_outlives_its_leading_thread() {
    let mut actor = Actor::start();
    let handle = actor.handle();
    assert_eq!(actor.tell("main-exit"), "ok");
    until("the leader is a zombie", || {
        handle.facts().expect("facts").leader_state == RunState::Dead
    });
    assert!(handle.is_alive());
    until_state(&handle, RunState::Sleeping);
    actor.tell("spin");
    assert_eq!(handle.run_state().expect("a state"), RunState::Running);
    assert!(ProcessHandle::open_identity(handle.identity()).is_ok());
    actor.end();
    assert!(!handle.is_alive());
    assert_eq!(handle.run_state().expect("a state"), RunState::Dead);
}

#[test]
fn facts_follow_a_change_of_ids() {
    if !is_root() {
        return skip("facts_follow_a_change_of_ids", "only root may change its ids");
    }
    let mut actor = Actor::start();
    let handle = actor.handle();
    assert_eq!(actor.tell("setgid 54321"), "ok");
    assert_eq!(actor.tell("setuid 65534"), "ok");
    let facts = handle.facts().expect("facts");
    assert_eq!((facts.real_uid, facts.effective_uid), (65534, 65534));
    assert_eq!((facts.real_gid, facts.effective_gid), (54321, 54321));
}

#[test]
fn a_scan_finds_families() {
    let mut actor = Actor::start();
    let child = actor.tell_pid("fork");
    let pids = actor.tell("double-fork");
    let (_, orphan) = pids.split_once(' ').expect("two pids");
    let orphan: u32 = orphan.parse().expect("a pid");
    let processes = scan().expect("/proc");
    let identity = |pid| {
        let found = processes.iter().find(|process| process.identity.pid == pid);
        found.unwrap_or_else(|| panic!("no {pid} in the scan")).identity
    };
    let me = identity(std::process::id());
    let ancestry = Ancestry::from_scan(&processes);
    assert_eq!(ancestry.parent_of(identity(actor.pid())), Some(me));
    assert_eq!(ancestry.children_of(identity(actor.pid())), [identity(child)]);
    assert!(ancestry.descendants_of(me).contains(&identity(child)));
    assert!(!ancestry.descendants_of(identity(actor.pid())).contains(&identity(orphan)));
    for process in &processes {
        let by_kernel = process.identity.pid == 2 || process.facts.parent_pid == 2;
        if processes.iter().any(|p| p.identity.pid == 2 && p.facts.comm == "kthreadd") {
            assert_eq!(process.facts.is_kernel_thread, by_kernel, "{process:?}");
        } else {
            assert!(!process.facts.is_kernel_thread, "{process:?}");
        }
    }
}

#[test]
fn scans_bear_processes_that_vanish() {
    let mut actor = Actor::start();
    let storm = std::thread::spawn(move || {
        for _ in 0..20 {
            actor.tell("storm 50");
        }
    });
    let me = std::process::id();
    while !storm.is_finished() {
        let processes = scan().expect("/proc");
        assert!(processes.iter().any(|process| process.identity.pid == me));
    }
    storm.join().expect("the storm ends");
}
