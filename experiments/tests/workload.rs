//! A workload process on its own: barrier, schedule, counting, and its end with its parent.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_allot-exp");
/// The page: a line of 64 bytes for the start, one for each workload.
const ITERATIONS_AT: u64 = 64;
const READY_AT: u64 = 72;

fn word(page: &Path, at: u64) -> u64 {
    let mut bytes = [0; 8];
    fs::File::open(page).unwrap().read_exact_at(&mut bytes, at).unwrap();
    u64::from_ne_bytes(bytes)
}

fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spec(page: &Path, parent: u32, work: &str) -> String {
    format!(
        "{{\"page\":{page:?},\"slots\":1,\"slot\":0,\"name\":\"B3\",\"parent\":{parent},\
         \"cpus\":[],\"uid\":null,\"nice\":0,\"end_ns\":60000000000,\"work\":{work}}}"
    )
}

fn start(page: &Path, work: &str) -> Killed {
    fs::write(page, [0; 128]).unwrap();
    let child = Command::new(PROGRAM)
        .args(["workload", "burn"])
        .arg(spec(page, std::process::id(), work))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    Killed(child)
}

#[test]
fn a_workload_waits_then_burns_then_sleeps() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page");
    let mut workload = start(&page, "{\"burn\":[[0,true],[2000000000,false]]}");
    wait_for("readiness", || word(&page, READY_AT) == 1);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(word(&page, ITERATIONS_AT), 0, "nothing before the start");
    let file = fs::OpenOptions::new().write(true).open(&page).unwrap();
    let begin = || file.write_all_at(&now_ns().to_ne_bytes(), 0).unwrap();
    begin();
    drop(workload.0.stdin.take());
    // Its start moves on, so that it is not over before it has begun, however slow we are.
    wait_for("work", || {
        begin();
        word(&page, ITERATIONS_AT) > 0
    });
    let comm = fs::read_to_string(format!("/proc/{}/comm", workload.0.id())).unwrap();
    assert_eq!(comm, "B3\n");
    // It sleeps once its count stays.
    let mut last = word(&page, ITERATIONS_AT);
    wait_for("sleep", || {
        std::thread::sleep(Duration::from_millis(300));
        let before = std::mem::replace(&mut last, word(&page, ITERATIONS_AT));
        let stat = fs::read_to_string(format!("/proc/{}/stat", workload.0.id())).unwrap();
        before == last && stat.contains(") S ")
    });
    assert!(workload.0.try_wait().unwrap().is_none(), "it lives on, asleep");
}

/// Each kind counts what it does, and its memory is used: at most what it was told.
#[test]
fn loads_on_memory_count_and_stay_within_their_size() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let reader = |by: &str| {
        format!(
            "{{\"read-at-random\":{{\"file\":{file:?},\"mib\":2,\"buffer_mib\":4,\"by\":\"{by}\"}}}}"
        )
    };
    let works = [reader("read"), reader("map"), "{\"allocate\":{\"mib\":4}}".to_owned()];
    for (number, work) in works.iter().enumerate() {
        let page = dir.path().join(format!("page-{number}"));
        let mut workload = start(&page, work);
        wait_for("readiness", || word(&page, READY_AT) == 1);
        let pid = workload.0.id();
        let anonymous_kib = || {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
            line.map(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().unwrap())
        };
        let before = anonymous_kib();
        let file = fs::OpenOptions::new().write(true).open(&page).unwrap();
        file.write_all_at(&now_ns().to_ne_bytes(), 0).unwrap();
        drop(workload.0.stdin.take());
        // 1024 pages at random 8192 times: all but one or none have been written to.
        wait_for("work", || word(&page, ITERATIONS_AT) >= 8192);
        // Some kernels and sandboxes do not tell.
        let (Some(before), Some(after)) = (before, anonymous_kib()) else { continue };
        assert!((4000..4200).contains(&(after - before)), "{work}: {before} to {after} KiB");
    }
}

#[test]
fn a_pause_is_none_of_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page");
    let mut workload = start(&page, "{\"burn\":[[0,true],[2000000000,false]]}");
    let pid = nix::unistd::Pid::from_raw(workload.0.id() as i32);
    let signal = |signal| nix::sys::signal::kill(pid, signal).unwrap();
    wait_for("readiness", || word(&page, READY_AT) == 1);
    let file = fs::OpenOptions::new().write(true).open(&page).unwrap();
    let begin_at = |start_ns: u64| file.write_all_at(&start_ns.to_ne_bytes(), 0).unwrap();
    begin_at(now_ns());
    drop(workload.0.stdin.take());
    // Its start moves on, so that it does not come to its end while we look, however slow we are.
    wait_for("work", || {
        begin_at(now_ns());
        word(&page, ITERATIONS_AT) > 0
    });
    signal(nix::sys::signal::Signal::SIGSTOP);
    let stat = format!("/proc/{pid}/stat");
    wait_for("standstill", || {
        begin_at(now_ns());
        fs::read_to_string(&stat).unwrap().contains(") T ")
    });
    // Longer than it was to burn.
    std::thread::sleep(Duration::from_millis(2500));
    begin_at(now_ns() + 3_600_000_000_000);
    let before = word(&page, ITERATIONS_AT);
    signal(nix::sys::signal::Signal::SIGCONT);
    wait_for("more work", || word(&page, ITERATIONS_AT) > before);
}

#[test]
fn a_workload_whose_barrier_breaks_ends() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page");
    let mut workload = start(&page, "{\"burn\":[[0,true]]}");
    wait_for("readiness", || word(&page, READY_AT) == 1);
    // As when the parent is gone: closed, and no start was set.
    drop(workload.0.stdin.take());
    assert!(workload.0.wait().unwrap().success());
    assert_eq!(word(&page, ITERATIONS_AT), 0);
}

#[test]
fn a_workload_of_a_parent_that_is_gone_does_not_begin() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page");
    fs::write(&page, [0; 128]).unwrap();
    let output = Command::new(PROGRAM)
        .args(["workload", "burn"])
        .arg(spec(&page, 1, "{\"burn\":[[0,true]]}"))
        .output()
        .unwrap();
    // Process 1 is not its parent, unless the tests are started by process 1 itself.
    if std::process::id() == 1 {
        eprintln!("SKIP a_workload_of_a_parent_that_is_gone_does_not_begin: we are process 1");
        return;
    }
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("parent"));
}
