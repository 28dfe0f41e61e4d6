//! Plays the adversary's sequences on several threads until it has played as many as asked, the
//! time is over, or a theorem breaks. Sequence *n* of seed *s* is seed *s + n*, so a failure
//! names the one seed that repeats it.

use allot_sim::adversary::{Audit, Counterexample, Tally, play};
use allot_sim::orders::{self, Mattered};
use allot_sim::{large, small};
use clap::Parser;
use std::fmt;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Parser)]
#[command(about = "Try to break the ledger's theorems with random users, for long")]
struct Arguments {
    /// How many sequences to play
    #[arg(long, default_value_t = 1_000_000)]
    sequences: u64,
    /// The seed of the first; the others follow
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stop after so many seconds, whatever has been played
    #[arg(long)]
    seconds: Option<u64>,
    /// How many threads; all processors by default
    #[arg(long)]
    threads: Option<usize>,
    /// Also check all small graphs of the larger set, and large random ones
    #[arg(long)]
    graphs: bool,
}

/// Every so many sequences the auditor looks after each operation, not only at the end.
const AUDIT_ALWAYS_EVERY: u64 = 32;
const PROGRESS: Duration = Duration::from_secs(10);

struct Soak<'a> {
    arguments: &'a Arguments,
    started: Instant,
    next: AtomicU64,
    broken: AtomicBool,
    found: Mutex<Option<Broken>>,
}

/// What does not hold.
#[derive(Debug)]
enum Broken {
    Theorem(Box<Counterexample>),
    Order(Box<Mattered>),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Theorem(found) => found.fmt(f),
            Broken::Order(mattered) => mattered.fmt(f),
        }
    }
}

impl Soak<'_> {
    fn over(&self) -> bool {
        let limit = self.arguments.seconds.map(Duration::from_secs);
        self.broken.load(Ordering::Relaxed)
            || limit.is_some_and(|limit| self.started.elapsed() >= limit)
    }

    /// Answers what was played, and how many pairs of an event and a request in both orders.
    fn work(&self) -> (Tally, u64) {
        let mut tally = Tally::default();
        let mut pairs = 0;
        while !self.over() {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.arguments.sequences {
                break;
            }
            let always = number.is_multiple_of(AUDIT_ALWAYS_EVERY);
            let audit = if always { Audit::Always } else { Audit::AtEnd };
            if let Err(found) = play(self.arguments.seed.wrapping_add(number), audit, &mut tally) {
                self.broken.store(true, Ordering::Relaxed);
                let mut first = self.found.lock().expect("nobody panics with it");
                first.get_or_insert(Broken::Theorem(found));
            }
            match orders::play(self.arguments.seed.wrapping_add(number)) {
                Ok(count) => pairs += count,
                Err(mattered) => {
                    self.broken.store(true, Ordering::Relaxed);
                    let mut first = self.found.lock().expect("nobody panics with it");
                    first.get_or_insert(Broken::Order(mattered));
                }
            }
        }
        (tally, pairs)
    }

    fn show_progress(&self, finished: impl Fn() -> bool) {
        let mut shown = Instant::now();
        while !finished() {
            std::thread::sleep(Duration::from_millis(50));
            if shown.elapsed() >= PROGRESS {
                shown = Instant::now();
                let begun = self.next.load(Ordering::Relaxed).min(self.arguments.sequences);
                let seconds = self.started.elapsed().as_secs_f64();
                let rate = begun as f64 / seconds;
                eprintln!("{begun} sequences in {seconds:.0} s, {rate:.0} a second");
            }
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let started = Instant::now();
    if arguments.graphs
        && let Err(fault) = check_graphs(arguments.seed)
    {
        println!("BROKEN {fault}");
        return ExitCode::FAILURE;
    }
    let soak = Soak {
        arguments: &arguments,
        started,
        next: AtomicU64::new(0),
        broken: AtomicBool::new(false),
        found: Mutex::new(None),
    };
    let count = arguments
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    let mut tally = Tally::default();
    let mut pairs = 0;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count.max(1)).map(|_| scope.spawn(|| soak.work())).collect();
        soak.show_progress(|| threads.iter().all(|thread| thread.is_finished()));
        for thread in threads {
            let (played, in_both_orders) = thread.join().expect("a worker ends without a panic");
            tally.add(&played);
            pairs += in_both_orders;
        }
    });
    let found = soak.found.into_inner().expect("nobody panics with it");
    let seconds = started.elapsed().as_secs_f64();
    if let Some(found) = found {
        println!("BROKEN after {} sequences ({seconds:.0} s)\n{found}", tally.sequences);
        return ExitCode::FAILURE;
    }
    let seed = arguments.seed;
    println!(
        "held: {tally}, {pairs} events and requests in both orders, first seed {seed}, {seconds:.0} s"
    );
    ExitCode::SUCCESS
}

fn check_graphs(seed: u64) -> Result<(), allot_sim::auditor::Fault> {
    for set in small::LARGER {
        let count = small::check_all(set)?;
        eprintln!("all {} graphs of {set:?}, {} activities", count.graphs, count.activities);
    }
    for round in 0..10 {
        large::check(seed.wrapping_add(round), 10_000, 20, 20)?;
    }
    eprintln!("10 graphs of 10000 currencies");
    Ok(())
}
