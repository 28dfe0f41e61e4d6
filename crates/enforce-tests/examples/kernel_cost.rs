//! What the scheduler in the kernel costs, beside the least one that there can be (FIFO) and the
//! kernel's own: nanoseconds in BPF per choice and per wake-up, and round trips of a byte between
//! two processes through pipes.
//!
//! `kernel_cost SCHEDULER RUNNABLE SECONDS [POLICY]`, as root, on a kernel that has sched_ext
//! (`scripts/bench-kernel` runs it in the lab). SCHEDULER is `default`, `fifo` or `allot`. RUNNABLE
//! threads are runnable all the time: two of them are the pair, which takes turns, and the rest
//! burn. Each is a client of its own; ten users fund them. Prints one line of JSON.

#[path = "../tests/common/funds.rs"]
mod funds;

use enforce_scx::{Fifo, ProgramCost, Scx, ScxOptions, loader_main, program_costs};
use enforcer::{Enforcer, Plan};
use funds::Funds;
use ledger::{Member, ThreadIdentity};
use policy::PolicyName;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use std::{fs, io, process, thread};

const USERS: usize = 10;
const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // The loader is this program again.
    if arguments.first().is_some_and(|word| word == "helper") {
        loader_main();
        return;
    }
    let [scheduler, runnable, seconds, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: kernel_cost default|fifo|allot RUNNABLE SECONDS [POLICY]");
        process::exit(2);
    };
    let runnable: usize = runnable.parse().expect("a number of threads");
    let seconds: f64 = seconds.parse().expect("a number of seconds");
    let policy = match rest.first().map(String::as_str) {
        Some("lottery") => PolicyName::Lottery,
        Some("mtr-ls") => PolicyName::MtrLs,
        _ => PolicyName::Stride,
    };

    // Loaded first, so that nobody waits for the verifier beside thousands of threads.
    let mut allot = (scheduler == "allot")
        .then(|| Scx::start(ScxOptions { policy, ..ScxOptions::default() }).expect("it loads"));
    let load = Load::start(runnable);
    if let Some(allot) = &mut allot {
        allot.apply(&load.plan().into()).expect("it takes the plan");
        allot.status().expect("it follows the plan");
    }
    let _fifo = (scheduler == "fifo").then(|| Fifo::attach().expect("it attaches"));
    load.go.wait();
    thread::sleep(Duration::from_millis(300));

    // Counting costs time itself, so trips are counted first.
    let (trips, began) = (load.trips(), Instant::now());
    thread::sleep(Duration::from_secs_f64(seconds / 2.0));
    let (later_trips, took) = (load.trips(), began.elapsed());
    fs::write(STATS, "1").expect("root may count what programs cost");
    let costs = costs();
    thread::sleep(Duration::from_secs_f64(seconds / 2.0));
    let later_costs = self::costs();
    fs::write(STATS, "0").expect("as before");

    let mut per_run = BTreeMap::new();
    for (name, after) in later_costs {
        let before = costs.get(&name).map_or((0, 0), |cost| (cost.runs, cost.run_time_ns));
        let (runs, ns) = (after.runs - before.0, after.run_time_ns - before.1);
        if runs > 0 {
            let of = serde_json::json!({ "runs": runs, "ns": ns as f64 / runs as f64 });
            per_run.insert(name, of);
        }
    }
    let trips = (later_trips - trips) as f64;
    let answer = serde_json::json!({
        "scheduler": scheduler,
        "policy": policy.to_string(),
        "runnable": runnable,
        "programs": per_run,
        "round_trips_per_s": trips / took.as_secs_f64(),
        "totals": allot.as_mut().and_then(|allot| allot.totals().ok().flatten()),
    });
    println!("{answer}");
    drop(allot);
    load.end.store(true, Ordering::Relaxed);
    process::exit(0);
}

fn costs() -> BTreeMap<String, ProgramCost> {
    program_costs().into_iter().map(|cost| (cost.name.clone(), cost)).collect()
}

/// Threads of this process, each with an identity of its own.
struct Load {
    go: Arc<Barrier>,
    end: Arc<AtomicBool>,
    trips: Arc<AtomicU64>,
    threads: Vec<ThreadIdentity>,
}

impl Load {
    /// They wait until [`Load::go`] is reached by all and the caller.
    fn start(runnable: usize) -> Load {
        assert!(runnable >= 2, "the pair is two");
        let go = Arc::new(Barrier::new(runnable + 1));
        let end = Arc::new(AtomicBool::new(false));
        let trips = Arc::new(AtomicU64::new(0));
        let (said, heard) = std::sync::mpsc::channel();
        let start = |work: Box<dyn FnOnce() + Send>| {
            let (go, said) = (Arc::clone(&go), said.clone());
            thread::Builder::new()
                .stack_size(64 << 10)
                .spawn(move || {
                    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
                    said.send(tid).expect("somebody hears");
                    go.wait();
                    work();
                })
                .expect("a thread");
        };
        let (mut from_one, mut to_other) = io::pipe().expect("a pipe");
        let (mut from_other, mut to_one) = io::pipe().expect("a pipe");
        let counted = Arc::clone(&trips);
        start(Box::new(move || {
            let mut byte = [0];
            while to_other.write_all(&byte).is_ok() && from_other.read_exact(&mut byte).is_ok() {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        }));
        start(Box::new(move || {
            let mut byte = [0];
            while from_one.read_exact(&mut byte).is_ok() && to_one.write_all(&byte).is_ok() {}
        }));
        for _ in 2..runnable {
            let end = Arc::clone(&end);
            start(Box::new(move || while !end.load(Ordering::Relaxed) {}));
        }
        let threads = (0..runnable)
            .map(|_| observe::thread(heard.recv().expect("each says who it is")).expect("it lives"))
            .collect();
        Load { go, end, trips, threads }
    }

    fn trips(&self) -> u64 {
        self.trips.load(Ordering::Relaxed)
    }

    /// Every thread is a client, and this process, with what is left of it, one more.
    fn plan(&self) -> Plan {
        let mut funds = Funds::new();
        let users: Vec<_> =
            (0..USERS).map(|user| funds.currency(&format!("user{user}"), 1000)).collect();
        let own = self.threads[0].process;
        funds.member(users[0], 1000, Member::Process(own));
        for (index, thread) in self.threads.iter().enumerate() {
            let amount = 100 * (1 + index as u64 % 4);
            funds.member(users[index % USERS], amount, Member::Thread(*thread));
        }
        funds.plan(1)
    }
}
