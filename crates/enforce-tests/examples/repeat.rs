//! What the scheduler in the kernel does with a fixed plan, to be compared with another run.
//!
//! `repeat SEED MILLISECONDS`, as root, on a kernel that has sched_ext. Hogs and sleepers run by
//! the lottery with this seed for so long; then every choice is printed: when, whose thread, its
//! random number and its key. On a machine whose clock counts instructions (`lab/repeat`) two runs
//! print the same bytes.

#[path = "../tests/common/funds.rs"]
mod funds;

use enforce_scx::{Scx, ScxOptions, loader_main};
use enforcer::{Enforcer, TraceEventKind};
use funds::Funds;
use policy::PolicyName;
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio, exit};
use std::time::{Duration, Instant};

/// Who runs: how many ms it works before it sleeps, and for how many ms; a hog does not sleep.
/// Then its user, and its tickets.
const ACTS: [(u64, u64, usize, u64); 5] =
    [(2, 9, 0, 10), (6, 5, 1, 10), (1, 0, 0, 30), (1, 0, 0, 20), (1, 0, 1, 10)];
/// Base tickets of each user.
const USERS: [u64; 2] = [60_000, 40_000];
/// Of this process, which must not wait for them.
const OWN: u64 = 50_000;
/// So often the trace is emptied.
const LOOK: Duration = Duration::from_millis(100);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // The loader is this program again.
    if arguments.first().is_some_and(|word| word == "helper") {
        loader_main();
        return;
    }
    let numbers: Option<Vec<u64>> = arguments.iter().map(|text| text.parse().ok()).collect();
    match numbers.as_deref() {
        Some([seed, milliseconds]) if *milliseconds > 0 => run(*seed, *milliseconds),
        // A child of ours.
        Some([0, works, sleeps]) => act(*works, *sleeps),
        _ => {
            eprintln!("usage: repeat SEED MILLISECONDS");
            exit(2);
        }
    }
}

fn act(works: u64, sleeps: u64) -> ! {
    loop {
        let end = Instant::now() + Duration::from_millis(works);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        if sleeps > 0 {
            std::thread::sleep(Duration::from_millis(sleeps));
        }
    }
}

struct Actors(Vec<Child>);

impl Drop for Actors {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn run(seed: u64, milliseconds: u64) {
    let policy = PolicyName::Lottery;
    let options = ScxOptions { policy, seed, transfers: false, ..ScxOptions::default() };
    let mut scx = Scx::start(options).unwrap_or_else(|error| {
        eprintln!("{error}");
        exit(1);
    });
    let own = std::env::current_exe().expect("the kernel says what we run");
    let start = |(works, sleeps, ..): &(u64, u64, usize, u64)| {
        let words = ["0".to_owned(), works.to_string(), sleeps.to_string()];
        Command::new(&own).args(words).stdin(Stdio::null()).spawn().expect("it starts")
    };
    let actors = Actors(ACTS.iter().map(start).collect());
    let mut funds = Funds::new();
    let users: Vec<_> = USERS
        .iter()
        .enumerate()
        .map(|(number, amount)| funds.currency(&format!("user{number}"), *amount))
        .collect();
    let mut names = BTreeMap::new();
    for (number, (child, (_, sleeps, user, amount))) in actors.0.iter().zip(ACTS).enumerate() {
        let kind = if sleeps > 0 { "sleeper" } else { "hog" };
        let client = funds.client(users[user], amount, child.id());
        names.insert(client, format!("{kind}{number}"));
    }
    let client = funds.client(ledger::BASE, OWN, std::process::id());
    names.insert(client, "reader".to_owned());

    let mut trace = scx.tracer().expect("it has one").expect("it goes on");
    scx.apply(&funds.plan(1).into()).expect("it takes the plan");
    let mut events = Vec::new();
    for _ in 0..milliseconds.div_ceil(LOOK.as_millis() as u64) {
        std::thread::sleep(LOOK);
        events.extend(trace.ready());
    }
    let sample = scx.sample().expect("it goes on").cpu.expect("of the CPU");
    drop(scx);
    drop(actors);

    println!("at_ns client drawn key");
    for event in events.iter().filter(|event| event.kind == TraceEventKind::Win) {
        let name = names.get(&event.client).map_or("others", String::as_str);
        println!("{} {name} {} {}", event.at_ns, event.drawn, event.key);
    }
    println!("client wins used_ns promised_ns");
    for client in &sample.clients {
        let name = names.get(&client.id).map_or("others", String::as_str);
        println!("{name} {} {} {}", client.wins, client.used_ns, client.promised_ns);
    }
}
