//! Nothing is left running, stopped or demoted, however an experiment ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_allot-exp");

fn allotd() -> Option<PathBuf> {
    let beside = Path::new(PROGRAM).with_file_name("allotd");
    let named = std::env::var_os("ALLOTD").map(PathBuf::from);
    named.or(Some(beside)).filter(|path| path.is_file())
}

/// Processes whose command line names a directory.
fn processes_of(dir: &Path) -> Vec<String> {
    let dir = dir.to_str().unwrap();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(dir))
        .collect()
}

fn begun(dir: &Path) -> Option<Child> {
    let allotd = allotd()?;
    let mut child = Command::new(PROGRAM)
        // The progress goes to standard error: the report has standard output for itself.
        .args(["run", "cpu-hierarchy", "--seconds", "60", "--live", "--json", "--out"])
        .arg(dir.join("out"))
        .env("TMPDIR", dir)
        .env("ALLOTD", allotd)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first line of progress: all are at work.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().expect("it tells its progress").unwrap();
    assert!(first.starts_with("cpu-hierarchy "), "{first}");
    std::thread::spawn(move || lines.for_each(drop));
    let there = processes_of(dir);
    assert!(there.iter().filter(|line| line.contains("workload burn")).count() == 5, "{there:?}");
    assert!(there.iter().any(|line| line.contains("allotd")), "{there:?}");
    Some(child)
}

fn gone(dir: &Path) {
    let start = Instant::now();
    loop {
        let left = processes_of(dir);
        if left.is_empty() {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "left behind: {left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), signal).unwrap();
}

#[test]
fn interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut child) = begun(dir.path()) else {
        eprintln!("SKIP interrupted: allotd is not built");
        return;
    };
    signal(&child, nix::sys::signal::Signal::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(processes_of(dir.path()), Vec::<String>::new(), "gone when it ends");
    let files = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(files.collect::<Vec<_>>(), ["out"], "but for the results' directory");
    assert_eq!(fs::read_dir(dir.path().join("out")).unwrap().count(), 0);
}

#[test]
fn killed() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut child) = begun(dir.path()) else {
        eprintln!("SKIP killed: allotd is not built");
        return;
    };
    child.kill().unwrap();
    child.wait().unwrap();
    gone(dir.path());
}

/// Workloads stand still while an allotd for the whole machine is started or ended.
#[test]
fn killed_while_workloads_stand_still() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut child) = begun(dir.path()) else {
        eprintln!("SKIP killed_while_workloads_stand_still: allotd is not built");
        return;
    };
    let children = children_of(&child);
    let is_workload = |pid: &&u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").contains("workload burn")
    };
    let workloads: Vec<u32> = children.iter().filter(is_workload).copied().collect();
    assert_eq!(workloads.len(), 5);
    for pid in workloads {
        let pid = nix::unistd::Pid::from_raw(pid as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    gone(dir.path());
}

#[test]
fn allotd_killed() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut child) = begun(dir.path()) else {
        eprintln!("SKIP allotd_killed: allotd is not built");
        return;
    };
    let own = nix::unistd::Pid::from_raw(daemon_of(&child) as i32);
    nix::sys::signal::kill(own, nix::sys::signal::Signal::SIGKILL).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    gone(dir.path());
}

/// The child's child that is allotd.
fn daemon_of(child: &Child) -> u32 {
    let is_allotd = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == "allotd")
    };
    children_of(child).into_iter().find(is_allotd).expect("it started one")
}

fn children_of(child: &Child) -> Vec<u32> {
    let path = format!("/proc/{0}/task/{0}/children", child.id());
    let children = fs::read_to_string(path).unwrap();
    children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}
