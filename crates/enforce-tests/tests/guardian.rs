//! Attacks on the guardian: whoever dies, however and whenever, no process stays held.
//!
//! `ALLOT_KILLS` sets the number of rounds (50), `ALLOT_SEED` the random moments.
#![allow(missing_docs)]

mod common;

use common::{
    ACTOR, TestProcess, eventually, held, is_root, named, policy_of, state_of, within_seconds,
};
use enforce_user::CellRestorer;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::BufRead;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn own_session(command: &mut Command) {
    // SAFETY: setsid is safe between fork and exec.
    unsafe { command.pre_exec(|| Ok(nix::unistd::setsid().map(drop)?)) };
}

/// A process that enforces, and its guardian.
struct Enforcing {
    child: Child,
    guardian_pid: u32,
}

impl Enforcing {
    fn start(
        registry: Option<&Path>,
        hold: &str,
        uid: &str,
        processes: &[&TestProcess],
    ) -> Enforcing {
        Enforcing::start_with(registry, hold, uid, processes, |_| {})
    }

    fn start_with(
        registry: Option<&Path>,
        hold: &str,
        uid: &str,
        processes: &[&TestProcess],
        prepare: impl FnOnce(&mut Command),
    ) -> Enforcing {
        let mut command = Command::new(ACTOR);
        prepare(&mut command);
        command.arg("enforce").arg(registry.unwrap_or(Path::new("-"))).args([hold, uid]);
        command.args(processes.iter().map(|process| process.pid().to_string()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // SAFETY: prctl is safe between fork and exec.
        unsafe {
            command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?));
        }
        let mut child = command.spawn().expect("the actor runs");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("piped");
        std::io::BufReader::new(out).read_line(&mut line).expect("it answers");
        let guardian_pid = line.trim().parse().expect("the guardian's pid");
        Enforcing { child, guardian_pid }
    }

    fn kill(&mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
    }

    fn kill_guardian(&self) {
        kill(Pid::from_raw(self.guardian_pid.cast_signed()), Signal::SIGKILL).expect("it lives");
    }

    fn has_guardian(&self) -> bool {
        !matches!(state_of(self.guardian_pid), None | Some('Z' | 'X'))
    }
}

impl Drop for Enforcing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Random moments, repeatable up to what the machine does.
struct Moments(u64);

impl Moments {
    fn new() -> Moments {
        let seed = std::env::var("ALLOT_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.expect("after 1970").as_nanos() as u64
        });
        eprintln!("ALLOT_SEED={seed}");
        Moments(seed | 1)
    }

    fn wait(&mut self, at_most_us: u64) {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        std::thread::sleep(Duration::from_micros(self.0 % at_most_us));
    }
}

fn rounds(usual: u64) -> u64 {
    std::env::var("ALLOT_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(usual)
}

/// To be asked when whoever restores says that all was restored: from then on nobody is held, not
/// even for a moment.
#[track_caller]
fn nobody_is_held(tag: &str) {
    let held = held(tag);
    assert!(held.is_empty(), "{held:?}");
    assert!(!named(tag).is_empty(), "there was somebody to look at");
}

fn is_any_held(tag: &str) {
    eventually("somebody is held", || !held(tag).is_empty());
}

#[test]
fn a_killed_enforcer_leaves_nobody_held() {
    if !is_root() {
        eprintln!("SKIP a_killed_enforcer_leaves_nobody_held: needs root to hold in SCHED_IDLE");
        return;
    }
    let tag = "allot-killed";
    let burners =
        [TestProcess::start(tag, &["burn", "1"]), TestProcess::start(tag, &["burn", "4"])];
    let dozer = TestProcess::start(tag, &["doze", "3", "2"]);
    let forkers = [TestProcess::start(tag, &["fork"]), TestProcess::start(tag, &["fork"])];
    let processes = [&burners[0], &burners[1], &dozer, &forkers[0], &forkers[1]];
    let mut moments = Moments::new();
    for round in 0..rounds(50) {
        let hold = if round % 3 == 2 { "stop" } else { "idle" };
        let mut enforcing = Enforcing::start(None, hold, "-", &processes);
        // Every fourth dies whatever it does, most while they begin.
        if round % 4 > 0 {
            is_any_held(tag);
        }
        moments.wait(60_000);
        enforcing.kill();
        eventually("the guardian has done its work", || !enforcing.has_guardian());
        nobody_is_held(tag);
    }
}

/// Orphans in sessions of their own that inherited SCHED_IDLE: nothing but the kernel's word
/// tells where they came from.
#[test]
fn children_that_left_family_and_session_are_freed_too() {
    if !is_root() {
        eprintln!("SKIP children_that_left_family_and_session: needs root to hold in SCHED_IDLE");
        return;
    }
    if let Err(error) = observe::ProcConnector::open() {
        eprintln!("SKIP children_that_left_family_and_session: {error}");
        return;
    }
    let tag = "allot-orphans";
    // One seat, and a winner for it: the forker is held, and runs and forks on what is left.
    let processes = [TestProcess::start(tag, &["fork"]), TestProcess::start(tag, &["burn", "1"])];
    let processes: Vec<&TestProcess> = processes.iter().collect();
    let ours = nix::unistd::getsid(None).expect("our session");
    let set = rustix::thread::sched_getaffinity(None).expect("our CPUs");
    let cpu = (0..).find(|cpu| set.is_set(*cpu)).expect("a CPU");
    let is_idle_orphan = |pid: &u32| {
        policy_of(*pid) == Some(libc::SCHED_IDLE)
            && nix::unistd::getsid(Some(Pid::from_raw(pid.cast_signed()))).is_ok_and(|s| s != ours)
    };
    for round in 0..rounds(50).div_ceil(5) {
        let mut enforcing = Enforcing::start_with(None, "idle", "-", &processes, |command| {
            command.env("ACTOR_CPU", cpu.to_string());
        });
        // It lives for a fifth of a second, and is born when the forker gets to run.
        within_seconds(120, "an orphan is held", || named(tag).iter().any(is_idle_orphan));
        if round % 2 == 0 {
            enforcing.kill();
        } else {
            drop(enforcing.child.stdin.take());
            assert!(enforcing.child.wait().expect("it is our child").success());
        }
        eventually("the guardian has done its work", || !enforcing.has_guardian());
        nobody_is_held(tag);
    }
}

#[test]
fn a_killed_guardian_is_replaced_and_nobody_stays_held() {
    if !is_root() {
        eprintln!("SKIP a_killed_guardian_is_replaced: needs root to hold in SCHED_IDLE");
        return;
    }
    let tag = "allot-unguarded";
    let processes = [
        TestProcess::start(tag, &["burn", "1"]),
        TestProcess::start(tag, &["burn", "1"]),
        TestProcess::start(tag, &["burn", "1"]),
    ];
    let processes: Vec<&TestProcess> = processes.iter().collect();
    let mut enforcing = Enforcing::start(None, "idle", "-", &processes);
    for _ in 0..3 {
        is_any_held(tag);
        enforcing.kill_guardian();
        let first = enforcing.guardian_pid;
        eventually("there is another guardian", || {
            let children = format!("/proc/{0}/task", enforcing.child.id());
            let found = std::fs::read_dir(children).expect("it lives").flatten().find_map(|task| {
                let children = std::fs::read_to_string(task.path().join("children")).ok()?;
                children.split_whitespace().find_map(|pid| pid.parse::<u32>().ok())
            });
            if let Some(pid) = found.filter(|pid| *pid != first && state_of(*pid) != Some('Z')) {
                enforcing.guardian_pid = pid;
            }
            enforcing.guardian_pid != first
        });
        is_any_held(tag);
    }
    enforcing.kill();
    eventually("the guardian has done its work", || !enforcing.has_guardian());
    nobody_is_held(tag);
}

#[test]
fn what_both_left_behind_is_restored_from_the_registry() {
    if !is_root() {
        eprintln!("SKIP what_both_left_behind_is_restored: needs root to hold in SCHED_IDLE");
        return;
    }
    let tag = "allot-left";
    let processes = [
        TestProcess::start(tag, &["burn", "3"]),
        // Of scheduling groups of their own, so that they are frozen where they can be.
        TestProcess::start_with(tag, &["burn", "1"], own_session),
        TestProcess::start_with(tag, &["burn", "1"], own_session),
        TestProcess::start(tag, &["fork"]),
    ];
    let processes: Vec<&TestProcess> = processes.iter().collect();
    let folder = tempfile::tempdir().expect("a directory");
    let registry = folder.path().join("registry");
    let mut moments = Moments::new();
    for round in 0..10 {
        let hold = ["idle", "stop", "auto"][round % 3];
        let mut enforcing = Enforcing::start(Some(&registry), hold, "-", &processes);
        is_any_held(tag);
        moments.wait(20_000);
        enforcing.kill_guardian();
        enforcing.kill();
        undo::restore_leftovers(&registry, &[&CellRestorer]).expect("it is restored");
        nobody_is_held(tag);
        assert!(!registry.exists(), "nothing is left to restore");
    }
}

#[test]
fn an_unprivileged_user_is_guarded_too() {
    if !is_root() {
        eprintln!("SKIP an_unprivileged_user_is_guarded_too: needs root to become another user");
        return;
    }
    const NOBODY: u32 = 65_534;
    let tag = "allot-nobody";
    let start = || {
        TestProcess::start_with(tag, &["burn", "2"], |command| {
            command.uid(NOBODY).gid(NOBODY);
        })
    };
    let processes = [start(), start(), start(), start()];
    let processes: Vec<&TestProcess> = processes.iter().collect();
    let mut moments = Moments::new();
    for _ in 0..10 {
        let mut enforcing = Enforcing::start(None, "auto", &NOBODY.to_string(), &processes);
        eventually("somebody is stopped", || {
            processes.iter().any(|process| state_of(process.pid()) == Some('T'))
        });
        moments.wait(20_000);
        let idle = |process: &&TestProcess| policy_of(process.pid()) == Some(libc::SCHED_IDLE);
        assert!(!processes.iter().any(idle), "there is no way back from SCHED_IDLE");
        enforcing.kill();
        eventually("the guardian has done its work", || !enforcing.has_guardian());
        nobody_is_held(tag);
    }
}

#[test]
fn a_clean_end_leaves_nobody_held_and_no_guardian() {
    if !is_root() {
        eprintln!("SKIP a_clean_end_leaves_nobody_held: needs root to hold in SCHED_IDLE");
        return;
    }
    let tag = "allot-clean";
    let processes = [
        TestProcess::start(tag, &["burn", "1"]),
        TestProcess::start(tag, &["burn", "1"]),
        TestProcess::start(tag, &["fork"]),
    ];
    let processes: Vec<&TestProcess> = processes.iter().collect();
    let folder = tempfile::tempdir().expect("a directory");
    let registry = folder.path().join("registry");
    let mut enforcing = Enforcing::start(Some(&registry), "idle", "-", &processes);
    is_any_held(tag);
    drop(enforcing.child.stdin.take());
    assert!(enforcing.child.wait().expect("it is our child").success());
    assert!(!enforcing.has_guardian());
    assert!(!registry.exists());
    nobody_is_held(tag);
}
