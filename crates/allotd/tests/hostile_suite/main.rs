//! Honest users beside hostile ones who play every trick at once (`examples/hostile`), judged by what the honest ones
//! get. A short attack judges states and prints what it measured; `ALLOT_HOSTILE_SECONDS` makes it long, and judges that
//! too: with `--release`, on a machine that does nothing else (`make soak`).

#[path = "../common/mod.rs"]
mod common;
mod machine;
mod users;

use common::{Daemon, NO_SERVICES, client_of, may_switch_users, wait_for};
use machine::{Footprint, Machine};
use std::time::{Duration, Instant};
use users::{Honest, Hostile, Users};

/// How long the attack lasts where nothing else is asked for.
const SHORT: Duration = Duration::from_secs(5);

/// The time of which the worst share is told: long for who is there all day, and short for who waits.
const WINDOW: Duration = Duration::from_secs(10);

/// Between ten requests and the next: an honest user does not write the journal so fast that its quota refuses them.
const PAUSE: Duration = Duration::from_millis(50);

/// What is promised of allotd beside four users who do their worst.
const REQUEST_P99_MS: f64 = 20.0;
const PLACED_P99_MS: f64 = 50.0;

#[test]
fn honest_users_get_theirs_beside_hostile_ones_by_weights() {
    let test = "honest_users_get_theirs_beside_hostile_ones_by_weights";
    if long().is_none() {
        eprintln!(
            "SKIP {test}: a short attack takes minutes unoptimised; ALLOT_HOSTILE_SECONDS has one"
        );
        return;
    }
    if let Some(found) = attack(test, "weights") {
        found.judge();
    }
}

#[test]
fn honest_users_get_theirs_beside_hostile_ones_at_user_level() {
    let test = "honest_users_get_theirs_beside_hostile_ones_at_user_level";
    if let Some(found) = attack(test, "user-level") {
        found.judge();
    }
}

/// What an attack showed.
struct Findings {
    enforcer: &'static str,
    attacked: Duration,
    /// CPU time that the honest hogs had of what all users had, where it was counted: in all, and in the worst window.
    share: Option<(f64, f64)>,
    request_ms: (f64, f64, f64),
    placed_ms: (f64, f64, f64),
    /// CPU time of allotd's processes, of one CPU.
    own_cpu: f64,
    before: Footprint,
    early: Footprint,
    late: Footprint,
    after: Footprint,
}

impl Findings {
    /// Prints what was measured and, after a long attack, judges it.
    fn judge(&self) {
        let Findings { enforcer, attacked, request_ms, placed_ms, .. } = self;
        println!("{enforcer}, {} s of attack:", attacked.as_secs());
        let text = |(p50, p99, worst): (f64, f64, f64)| {
            format!("median {p50:.1} ms, p99 {p99:.1} ms, worst {worst:.1} ms")
        };
        println!("  an honest user's request: {}", text(*request_ms));
        println!("  a newcomer placed: {}", text(*placed_ms));
        let promised = 1.0 / users::COMPETING as f64;
        match self.share {
            Some((share, worst)) => println!(
                "  honest hogs had {share:.4} of the CPU time, {worst:.4} in the worst {} s, promised {promised:.4}",
                WINDOW.as_secs()
            ),
            None => println!("  shares were not counted: there is no cpuacct hierarchy"),
        }
        println!("  allotd: {:.1} % of a CPU", self.own_cpu * 100.0);
        let states = [
            ("before", self.before),
            ("early", self.early),
            ("late", self.late),
            ("after", self.after),
        ];
        for (when, Footprint { kib, descriptors, processes }) in states {
            println!("  {when}: {kib} KiB, {descriptors} descriptors, {processes} processes");
        }
        if long().is_none() {
            return;
        }
        assert!(request_ms.1 < REQUEST_P99_MS && placed_ms.1 < PLACED_P99_MS, "20 ms and 50 ms");
        if let Some((share, _)) = self.share {
            // Five standard deviations of a lottery with a draw each 100 ms: its error is the greatest of all policies'.
            let draws = attacked.as_secs_f64() * 10.0;
            let tolerance = 5.0 * (promised * (1.0 - promised) / draws).sqrt();
            assert!(share > promised - tolerance, "{share:.4} for {promised:.4} by {tolerance:.4}");
        }
        // What is kept for each of a bounded number of things is there after the first tenth.
        let most = self.early.kib + self.early.kib / 4 + (32 << 10);
        assert!(
            self.late.kib < most,
            "it grows: {} KiB, then {} KiB",
            self.early.kib,
            self.late.kib
        );
    }
}

fn long() -> Option<Duration> {
    let text = std::env::var("ALLOT_HOSTILE_SECONDS").ok()?;
    Some(Duration::from_secs(text.parse().expect("ALLOT_HOSTILE_SECONDS is a number")))
}

/// This test and its session before all others: what is measured is allotd, and not how long this test waits for a CPU.
struct Precedence;

impl Precedence {
    fn take() -> Precedence {
        // It holds for this thread and its threads.
        rustix::process::setpriority_process(None, -20).expect("root may");
        Precedence::set_session(-20);
        Precedence
    }

    fn set_session(nice: i32) {
        // Not there where the kernel does not schedule sessions as groups.
        let _ = std::fs::write("/proc/self/autogroup", nice.to_string());
    }
}

impl Drop for Precedence {
    fn drop(&mut self) {
        Precedence::set_session(0);
    }
}

/// One attack on an allotd of its own; `None`, and a note, where it cannot be.
fn attack(test: &str, enforcer: &'static str) -> Option<Findings> {
    if !may_switch_users(test) {
        return None;
    }
    let users = Users::of_this_test();
    let daemon = Daemon::prepare(&["--enforcer", enforcer, "--policy", "stride"]);
    let policy = daemon.dir.path().join("policy.toml");
    let named = users.named();
    let text = format!("[users]\nuids = \"{named}\"\ncpu = 1000\n{NO_SERVICES}");
    std::fs::write(&policy, text).expect("a policy");
    let daemon = daemon.with(&["--funding-policy", policy.to_str().expect("a path")]);
    let mut daemon = daemon.with_precedence();
    if !daemon.try_launch() {
        eprintln!("SKIP {test}: {}", daemon.log().lines().last().unwrap_or_default());
        return None;
    }
    let machine = Machine::of(daemon.pid());
    let honest = Honest::start(&daemon, &users);
    wait_for("the honest hogs to be clients", || honest.are_clients(&daemon));
    wait_for("the honest hogs to be measured", || honest.are_measured(&daemon));
    let before = machine.settled();
    let hostile = Hostile::start(&daemon, &users);
    wait_for("every trick to be played", || hostile.all_play());
    let _precedence = Precedence::take();
    let attacked = long().unwrap_or(SHORT);
    let (began, own, used) = (Instant::now(), machine.cpu_time(), users.cpu_times());
    let early_at = attacked / 10;
    let mut early = before;
    let mut asked = Vec::new();
    let mut placed = Vec::new();
    let (mut window_began, mut window, mut worst) = (began, used.clone(), f64::INFINITY);
    while began.elapsed() < attacked {
        asked.extend(honest.ask(&daemon, 10));
        placed.push(honest.newcomer(&daemon));
        std::thread::sleep(PAUSE);
        if began.elapsed() < early_at {
            early = machine.footprint();
        }
        if window_began.elapsed() >= WINDOW {
            worst = worst.min(users.share_of_honest_hogs(&window).unwrap_or(f64::INFINITY));
            (window_began, window) = (Instant::now(), users.cpu_times());
        }
    }
    let took = began.elapsed();
    // A short attack is one window.
    let share = users.share_of_honest_hogs(&used).map(|share| (share, share.min(worst)));
    let own_cpu = (machine.cpu_time() - own).as_secs_f64() / took.as_secs_f64();
    let late = machine.footprint();
    let got = hostile.end();
    assert!(got.is_empty(), "hostile users got what they should not: {got:#?}");
    honest.still_have_all(&daemon);
    // Nothing of them is left, and what was kept for them is given back.
    let client = daemon.client();
    wait_for("the hostile clients to be gone", || {
        let ledger = client.ledger().expect("alive");
        ledger.currencies.iter().all(|it| it.process.is_none() || !users.are_hostile(it.owner))
    });
    let until = Instant::now() + Duration::from_secs(60);
    let after = loop {
        let now = machine.footprint();
        if now.descriptors <= before.descriptors && now.processes <= before.processes {
            break now;
        }
        let left = || format!("{now:?} after {before:?}:\n{}", machine.open().join("\n"));
        assert!(Instant::now() < until, "not all is closed that was opened: {}", left());
        std::thread::sleep(Duration::from_millis(20));
    };
    let hog = honest.a_hog();
    assert!(client_of(&client.ledger().expect("alive"), hog).is_some(), "it is managed still");
    let processes = machine.processes();
    assert!(daemon.stop().success(), "allotd ends as it is told to");
    wait_for("allotd's processes to end", || processes.iter().all(|pid| !machine::is_alive(*pid)));
    honest.are_as_they_were();
    machine::is_clean(daemon.dir.path());
    let (request_ms, placed_ms) = (common::percentiles(asked), common::percentiles(placed));
    let attacked = took;
    Some(Findings {
        enforcer,
        attacked,
        share,
        request_ms,
        placed_ms,
        own_cpu,
        before,
        early,
        late,
        after,
    })
}
