//! Real processes for tests, which never outlive them.

#![allow(dead_code, reason = "not every test needs everything")]

pub mod cgroups;
pub mod funds;

use enforcer::{CpuSample, Enforcer};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The program whose processes are held.
pub const ACTOR: &str = env!("CARGO_BIN_EXE_enforce-actor");

/// Waits until a hog says that it burns.
pub fn until_it_burns(hog: &mut Child) {
    let mut line = String::new();
    let output = hog.stdout.as_mut().expect("it is piped");
    BufReader::new(output).read_line(&mut line).expect("it speaks");
    assert_eq!(line, "burning\n");
}

/// A process of a test. Killed when dropped, and by the kernel when the test's thread dies.
pub struct TestProcess(pub Child);

impl TestProcess {
    /// Starts the actor. `tag` names it and all its children (at most 15 bytes).
    pub fn start(tag: &str, arguments: &[&str]) -> TestProcess {
        TestProcess::start_with(tag, arguments, |_| {})
    }

    /// The same, after changes to how it is started.
    pub fn start_with(
        tag: &str,
        arguments: &[&str],
        prepare: impl FnOnce(&mut Command),
    ) -> TestProcess {
        let mut command = Command::new(ACTOR);
        command.args(arguments).env("ACTOR_NAME", tag).stdin(Stdio::null()).stdout(Stdio::null());
        prepare(&mut command);
        // SAFETY: prctl is safe between fork and exec.
        unsafe {
            command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?));
        }
        let child = command.spawn().expect("the actor runs");
        let process = TestProcess(child);
        let has_begun = || name_of(process.pid()).is_some_and(|name| name == tag);
        eventually("the actor has begun", has_begun);
        process
    }

    /// Burns in so many threads; answers when nothing that it runs has still to be read from a disk. Before that it sleeps now
    /// and then, and cannot be held while it does.
    pub fn burning(tag: &str, threads: u32, prepare: impl FnOnce(&mut Command)) -> TestProcess {
        let mut process =
            TestProcess::start_with(tag, &["burn", &threads.to_string()], |command| {
                command.stdout(Stdio::piped());
                prepare(command);
            });
        until_it_burns(&mut process.0);
        process
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn name_of(pid: u32) -> Option<String> {
    Some(std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned())
}

/// Waits until something is so. Not a test of speed: the wait is long.
#[track_caller]
pub fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    within_seconds(30, what, is_so);
}

/// Keeps this program in memory. In the lab the clock goes on while a page is read from the host, which others keep waiting: an
/// enforcer at user level would give long quanta meanwhile.
pub fn stay_in_memory() {
    // SAFETY: takes no pointer.
    let result = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// A sample of the CPU, once the clients have used so much more than now: what was used is a state to wait for, seconds are not.
#[track_caller]
pub fn after_use(enforcer: &mut dyn Enforcer, used_ns: u64) -> CpuSample {
    let mut sample = || enforcer.sample().expect("it runs").cpu.expect("of the CPU");
    let enough_ns = sample().used_ns + used_ns;
    let mut last = sample();
    within_seconds(300, "enough time used", || {
        // Looks cost time, which an emulated machine lacks.
        std::thread::sleep(Duration::from_nanos(used_ns / 50));
        last = sample();
        last.used_ns >= enough_ns
    });
    last
}

/// The first CPU that we may use.
pub fn first_cpu() -> u32 {
    let set = rustix::thread::sched_getaffinity(None).expect("our CPUs");
    (0..).find(|cpu| set.is_set(*cpu)).expect("a CPU") as u32
}

/// Has a command run on the first CPU only.
pub fn pin(command: &mut Command) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(first_cpu() as usize);
    // SAFETY: the call is safe between fork and exec.
    unsafe { command.pre_exec(move || Ok(rustix::thread::sched_setaffinity(None, &set)?)) };
}

/// For what a busy machine may do seldom.
#[track_caller]
pub fn within_seconds(seconds: u64, what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {seconds} s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The scheduling policy of a thread, without flags.
pub fn policy_of(tid: u32) -> Option<i32> {
    // SAFETY: takes no pointer.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, tid) } as i32;
    (policy >= 0).then_some(policy & !libc::SCHED_RESET_ON_FORK)
}

/// The state letter of a process.
pub fn state_of(pid: u32) -> Option<char> {
    state_in(Path::new(&format!("/proc/{pid}")))
}

/// The same of what has this folder in /proc: a process, or a thread.
fn state_in(folder: &Path) -> Option<char> {
    let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
    stat[stat.rfind(')')? + 2..].chars().next()
}

/// Stops a process, and waits until each of its threads stands: one that runs on another CPU goes on until it is
/// interrupted there.
#[track_caller]
pub fn stop(pid: u32) {
    signal(pid, Signal::SIGSTOP);
    eventually("all its threads stand", || all_stand(pid));
}

/// Whether all threads of a process are stopped.
pub fn all_stand(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it lives").flatten();
    threads.map(|thread| state_in(&thread.path())).all(|state| state == Some('T'))
}

fn signal(pid: u32, signal: Signal) {
    nix::sys::signal::kill(Pid::from_raw(pid.cast_signed()), signal).expect("it lives");
}

pub fn kill(pid: u32) {
    signal(pid, Signal::SIGKILL);
}

/// Every living process of this name.
pub fn named(tag: &str) -> Vec<u32> {
    std::fs::read_dir("/proc")
        .expect("/proc")
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| name_of(*pid).is_some_and(|name| name == tag))
        .filter(|pid| !matches!(state_of(*pid), None | Some('Z' | 'X')))
        .collect()
}

/// Processes of this name that are stopped or have a thread in SCHED_IDLE, in words.
pub fn held(tag: &str) -> Vec<String> {
    let mut held = Vec::new();
    for pid in named(tag) {
        if state_of(pid) == Some('T') {
            held.push(format!("{pid} is stopped"));
        }
        let cgroups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        if cgroups.contains("/allot-held.") {
            held.push(format!("{pid} is in a cell"));
        }
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten() {
            let tid = thread.file_name().to_str().and_then(|tid| tid.parse().ok());
            if tid.and_then(policy_of) == Some(libc::SCHED_IDLE) {
                held.push(format!("{pid}: thread {tid:?} is in SCHED_IDLE"));
            }
        }
    }
    held
}

/// Whether we are root, which some tests need.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// A guardian from the actor.
pub fn guardian(registry: Option<&Path>) -> undo::Guardian {
    enforce_user::start_guardian(Path::new(ACTOR), registry).expect("a guardian")
}
