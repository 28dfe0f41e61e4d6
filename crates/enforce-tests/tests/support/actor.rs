//! A process that the tests hold, fork and kill: its first argument says what it does. Whatever
//! it starts ends by itself soon after.

use nix::unistd::{ForkResult, fork};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

#[path = "../common/funds.rs"]
mod funds;

mod cgroup;
mod memory;
mod reader;
mod weights;

fn main() {
    // Its children inherit the name, so a test finds them all.
    if let Ok(name) = std::env::var("ACTOR_NAME") {
        std::fs::write("/proc/self/comm", name).expect("our own name");
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments[index].parse::<u64>().expect("a number");
    match arguments[0].as_str() {
        "guardian" => undo::guardian_main(&[
            &enforce_cgroup::CgroupRestorer,
            &enforce_user::CellRestorer,
            &enforce_weights::WeightsRestorer,
        ]),
        "helper" => {
            enforce_scx::loader_main();
        }
        "burn" => {
            // All that it runs has been read from the disk, in every thread, when it says so.
            let threads = number(1);
            let all = Arc::new(Barrier::new(threads as usize));
            let burn_in = |all: Arc<Barrier>| {
                burn(Some(Duration::from_millis(10)));
                all.wait();
            };
            for _ in 1..threads {
                let all = Arc::clone(&all);
                std::thread::spawn(move || {
                    burn_in(all);
                    burn(None);
                });
            }
            burn_in(all);
            println!("burning");
            burn(None);
        }
        "doze" => loop {
            burn(Some(Duration::from_millis(number(1))));
            std::thread::sleep(Duration::from_millis(number(2)));
        },
        "read-at-random" => memory::read_at_random(&arguments[1], number(2)),
        "map-at-random" => memory::map_at_random(&arguments[1], number(2)),
        "hold" => memory::hold(number(1)),
        "crowd" => crowd(number(1), number(2), Duration::from_secs(number(3))),
        "fork" => fork_for_ever(),
        "read-disk" => reader::read_for_ever(&arguments[1], number(2), number(3)),
        "enforce-weights" => weights::enforce_until_told(&arguments[1..]),
        "enforce-cgroup" => cgroup::enforce_until_told(&arguments[1..]),
        "enforce" => enforce_until_told(&arguments[1..]),
        other => panic!("no such act: {other}"),
    }
}

fn burn(how_long: Option<Duration>) {
    let end = how_long.map(|how_long| Instant::now() + how_long);
    let mut number: u64 = 1;
    while end.is_none_or(|end| Instant::now() < end) {
        for _ in 0..10_000 {
            number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005) + 1);
        }
    }
}

/// So many threads that burn for so long from that moment on. Prints how long any of them waited for its
/// turn at most, in ns, those that had none for all that time. (Each wakes by itself: a thread that
/// woke them all would wait for its own turn half-way.)
fn crowd(threads: u64, starts_ns: u64, how_long: Duration) {
    let longest_ns = AtomicU64::new(0);
    let starts = Duration::from_nanos(starts_ns);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let waits = || {
                std::thread::sleep(starts.saturating_sub(monotonic()));
                let (end, mut last, mut longest) = (starts + how_long, starts, Duration::ZERO);
                while last < end {
                    let now = monotonic();
                    longest = longest.max(now - last);
                    last = now;
                }
                let longest = u64::try_from(longest.as_nanos()).expect("less than 584 years");
                longest_ns.fetch_max(longest, Ordering::Relaxed);
            };
            let thread = std::thread::Builder::new().stack_size(1 << 16);
            thread.spawn_scoped(scope, waits).expect("a thread");
        }
        assert!(monotonic() < starts, "all are there in time");
        println!("ready");
    });
    println!("{}", longest_ns.into_inner());
}

fn monotonic() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Children, and children of children that leave their session and lose their parent: what a
/// process that daemonises does. Orphans sleep: in groups of their own they would take the CPU from a forker in SCHED_IDLE.
fn fork_for_ever() {
    loop {
        child(|| burn(Some(Duration::from_millis(20))));
        child(|| {
            child(|| {
                let _ = nix::unistd::setsid();
                child(|| std::thread::sleep(Duration::from_millis(200)));
            });
        });
        burn(Some(Duration::from_millis(5)));
        while let Ok(status) =
            nix::sys::wait::waitpid(None, Some(nix::sys::wait::WaitPidFlag::WNOHANG))
        {
            if status == nix::sys::wait::WaitStatus::StillAlive {
                break;
            }
        }
    }
}

fn child(act: impl FnOnce()) {
    // SAFETY: this process has one thread.
    if let Ok(ForkResult::Child) = unsafe { fork() } {
        act();
        // SAFETY: ends the process without running what belongs to its parent.
        unsafe { libc::_exit(0) };
    }
}

/// `enforce REGISTRY HOLD UID PID...`: shares the CPUs among the processes, the n-th with n
/// tickets, until standard input ends. REGISTRY and UID may be `-`.
fn enforce_until_told(arguments: &[String]) {
    use enforcer::Enforcer;
    let [registry, hold, uid, pids @ ..] = arguments else { panic!("too few arguments") };
    if uid != "-" {
        let uid = uid.parse::<u32>().expect("a uid");
        let (user, group) = (nix::unistd::Uid::from_raw(uid), nix::unistd::Gid::from_raw(uid));
        nix::unistd::setgroups(&[]).expect("we were root");
        nix::unistd::setresgid(group, group, group).expect("we were root");
        nix::unistd::setresuid(user, user, user).expect("we were root");
        // Who changes uid cannot be looked at by that uid's processes, the guardian included.
        nix::sys::prctl::set_dumpable(true).expect("ours to say");
    }
    let program = std::env::current_exe().expect("our program");
    let registry = (registry != "-").then(|| std::path::Path::new(registry));
    let guardian = enforce_user::start_guardian(&program, registry).expect("a guardian");
    let guardian_pid = guardian.pid().expect("on watch");
    let mut enforcer = enforce_user::UserLevel::start(enforce_user::UserLevelOptions {
        quantum_ns: 2_000_000,
        hold: hold.parse().expect("a way to hold"),
        // One seat: what is held can run on the other CPUs.
        cpus: std::env::var("ACTOR_CPU").ok().map(|cpu| vec![cpu.parse().expect("a CPU")]),
        ..enforce_user::UserLevelOptions::new(guardian)
    })
    .expect("an enforcer");
    let mut funds = funds::Funds::new();
    for (index, pid) in pids.iter().enumerate() {
        funds.client(ledger::BASE, index as u64 + 1, pid.parse().expect("a pid"));
    }
    enforcer.apply(&funds.plan(1).into()).expect("a plan");
    println!("{guardian_pid}");
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
}
