//! Forks that were begun before a set-back.
//!
//! A fork copies the parent's scheduling at its beginning, and its child can be seen at its end. A parent that lost its CPU
//! between the two has a child on the way that inherits what we gave the parent, however often /proc is read meanwhile.

use super::threads::MAX_PASSES;
use observe::ProcessHandle;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// CPU time within which a fork is over: it copies the page tables, those of 4 GB in about this time.
const FORK_NS: u64 = 10_000_000;
/// Longest wait for threads that get no CPU.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(1);

/// Sets back again and again, until nobody is found twice in a row, waiting for forks in between. `set_back` returns the
/// processes that it changed.
pub fn until_settled(mut set_back: impl FnMut() -> Vec<ProcessHandle>) {
    // A scan of /proc is not one instant: it can miss a child with a lower number than its parent's.
    const CLEAN_PASSES: u32 = 2;
    let mut clean = 0;
    for _ in 0..MAX_PASSES {
        let changed = set_back();
        clean = if changed.is_empty() { clean + 1 } else { 0 };
        if clean == CLEAN_PASSES {
            return;
        }
        await_forks(&changed);
    }
}

/// Waits until no thread of these processes can be amid a fork any more that it began before: it has ended, sleeps for an
/// event, is stopped, or has used more CPU time than a fork takes.
pub(super) fn await_forks(processes: &[ProcessHandle]) {
    let deadline = Instant::now() + PATIENCE;
    let mut waiting: Vec<(&ProcessHandle, BTreeMap<u32, u64>)> =
        processes.iter().map(|process| (process, busy_threads(process))).collect();
    loop {
        for (process, since) in &mut waiting {
            let now = busy_threads(process);
            since.retain(|tid, used_ns| {
                now.get(tid).is_some_and(|now_ns| now_ns.saturating_sub(*used_ns) < FORK_NS)
            });
        }
        waiting.retain(|(_, since)| !since.is_empty());
        if waiting.is_empty() || Instant::now() >= deadline {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// The threads that may be amid a fork, with the CPU time that they have used, in ns.
fn busy_threads(process: &ProcessHandle) -> BTreeMap<u32, u64> {
    let accounts = process.thread_accounts().unwrap_or_default().into_iter();
    accounts.filter(|thread| thread.is_busy).map(|thread| (thread.tid, thread.run_ns)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn handle(child: &Child) -> ProcessHandle {
        ProcessHandle::open(child.id()).expect("it lives")
    }

    #[test]
    fn a_sleeper_is_not_waited_for_and_a_runner_until_it_has_run() {
        let mut sleeper = Command::new("sleep").arg("60").spawn().expect("it runs");
        let mut runner =
            Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("it runs");
        let handles = [handle(&sleeper), handle(&runner)];
        while handles[0].run_state().is_ok_and(|state| state != observe::RunState::Sleeping) {
            std::thread::sleep(PAUSE);
        }
        let used_ns = handles[1].cpu_time_ns().expect("it lives");
        let began = Instant::now();
        await_forks(&handles);
        // It ran for long enough, or got no CPU for all that time.
        let ran_ns = handles[1].cpu_time_since(used_ns).expect("it lives");
        assert!(ran_ns >= FORK_NS / 2 || began.elapsed() >= PATIENCE, "{ran_ns}");
        assert!(busy_threads(&handles[0]).is_empty());
        for child in [&mut sleeper, &mut runner] {
            child.kill().expect("it is ours");
            child.wait().expect("it is ours");
        }
        await_forks(&handles);
    }

    #[test]
    fn it_is_set_back_until_nobody_is_found_twice_in_a_row() {
        let mut ended = Command::new("sleep").arg("60").spawn().expect("it runs");
        let gone = handle(&ended);
        ended.kill().expect("it is ours");
        ended.wait().expect("it is ours");
        let mut gone = Some(gone);
        let found = std::cell::RefCell::new(vec![false, false, true, false]);
        until_settled(|| match found.borrow_mut().pop() {
            Some(true) => gone.take().into_iter().collect(),
            Some(false) => Vec::new(),
            None => panic!("two looks that find nobody are enough"),
        });
        assert!(found.borrow().is_empty());
    }
}
