//! When memory tickets do not count.

use allot_policy::idle::REQUEST_NS;
use allot_policy::{Idle, IdleOptions, Use};
use proptest::prelude::*;

const SECOND_NS: u64 = 1_000_000_000;

/// A client that uses so many thousandths of a CPU, as looked at ten times a second.
struct Client {
    idle: Idle,
    now_ns: u64,
    used_ns: u64,
}

impl Client {
    fn new() -> Self {
        let mut idle = Idle::new(IdleOptions { idle_ns: 30 * SECOND_NS, ..IdleOptions::default() });
        let (now_ns, used_ns) = (7 * SECOND_NS, 3 * SECOND_NS);
        assert!(idle.observe(now_ns, used_ns), "who is new is active");
        Client { idle, now_ns, used_ns }
    }

    /// Answers after how many tenths of a second it became active or inactive, if it did.
    fn goes_on(&mut self, thousandths: u64, seconds: u64) -> Option<u64> {
        let before = self.idle.is_active();
        (1..=10 * seconds)
            .filter(|_| {
                self.now_ns += SECOND_NS / 10;
                self.used_ns += SECOND_NS / 10 * thousandths / 1000;
                self.idle.observe(self.now_ns, self.used_ns) != before
            })
            .min()
    }
}

#[test]
fn who_is_idle_for_long_loses_its_tickets_and_gets_them_back_at_once() {
    let mut client = Client::new();
    assert_eq!(client.goes_on(1000, 100), None);
    assert_eq!(client.goes_on(0, 100), Some(300), "30 s after the last busy window");
    assert_eq!(client.goes_on(1000, 1), Some(1), "the window is sure to be busy");
}

#[test]
fn what_lies_between_the_thresholds_changes_nothing() {
    let mut client = Client::new();
    assert_eq!(client.goes_on(30, 100), None, "above low: it stays active");
    client.goes_on(10, 100);
    assert!(!client.idle.is_active(), "not above low");
    assert_eq!(client.goes_on(30, 1000), None, "not above high: it stays inactive");
    assert_eq!(client.goes_on(51, 2), Some(10), "by the end of the window");
    assert_eq!(client.goes_on(0, 29), None, "its time begins anew");
    assert_eq!(client.goes_on(0, 2), Some(10));
}

#[test]
fn a_block_of_a_moment_deactivates_nothing() {
    let mut client = Client::new();
    for _ in 0..100 {
        assert_eq!(client.goes_on(1000, 1), None);
        assert_eq!(client.goes_on(0, 28), None);
    }
}

#[test]
fn who_comes_back_between_rare_observations_has_its_whole_time() {
    let mut client = Client::new();
    client.goes_on(0, 100);
    client.now_ns += SECOND_NS / 10;
    client.used_ns += SECOND_NS / 10;
    assert!(client.idle.observe(client.now_ns, client.used_ns));
    // The next one comes so late that the whole window was idle.
    client.now_ns += 29 * SECOND_NS;
    assert!(client.idle.observe(client.now_ns, client.used_ns));
    client.now_ns += 2 * SECOND_NS;
    assert!(!client.idle.observe(client.now_ns, client.used_ns));
}

#[test]
fn a_member_that_leaves_is_no_use() {
    let mut client = Client::new();
    client.goes_on(1000, 10);
    client.used_ns -= 5 * SECOND_NS;
    assert_eq!(client.goes_on(0, 100), Some(300));
}

proptest! {
    /// Against the rules as a naive reader of all windows has them.
    #[test]
    fn it_is_what_its_windows_say(
        options in (1..40_u64, 0..100_u64, 0..100_u64),
        steps in prop::collection::vec((1..3000_u64, 0..1000_u64), 1..200),
    ) {
        let (idle_s, low, more) = options;
        let options = IdleOptions {
            idle_ns: idle_s * SECOND_NS,
            window_ns: SECOND_NS,
            low,
            high: low + more,
        };
        let mut idle = Idle::new(options);
        // Observations a whole window apart at least, so each ends one.
        let (mut now, mut used, mut busy, mut active) = (0, 0, 0, true);
        idle.observe(now, used);
        for (more_ms, thousandths) in steps {
            let length = SECOND_NS + more_ms * 1_000_000;
            let thousandths = u64::saturating_sub(thousandths, 700);
            now += length;
            // Exact: lengths are whole milliseconds.
            used += length / 1000 * thousandths;
            let is_busy = thousandths > options.low;
            if is_busy || (!active && thousandths > options.high) {
                busy = now;
            }
            active = match active {
                true => is_busy || now - busy < options.idle_ns,
                false => thousandths > options.high,
            };
            prop_assert_eq!(idle.observe(now, used), active, "at {}", now);
        }
    }
}

/// Who reads from a disk all the time uses next to no CPU.
#[test]
fn who_waits_for_a_disk_is_not_idle() {
    let done = |seconds: u64, per_second: Use| {
        let options = IdleOptions { idle_ns: 30 * SECOND_NS, ..IdleOptions::default() };
        let mut idle = Idle::new(options);
        (0..=seconds).for_each(|second| {
            let all = Use {
                cpu_ns: per_second.cpu_ns * second,
                waited_ns: per_second.waited_ns * second,
                requests: per_second.requests * second,
            };
            idle.observe(second * SECOND_NS, all.busy_ns());
        });
        idle.is_active()
    };
    let little = Use { cpu_ns: SECOND_NS / 1000, ..Use::default() };
    assert!(!done(100, little), "a thousandth of a CPU alone");
    assert!(done(100, Use { waited_ns: SECOND_NS / 10, ..little }));
    // Where waits are not measured, what it waited for is counted.
    assert!(done(100, Use { requests: 20, ..little }));
    assert!(!done(100, Use { requests: 5, ..little }), "a line in a log now and then");
    let all = Use { cpu_ns: u64::MAX, waited_ns: 7, requests: u64::MAX };
    assert_eq!(all.busy_ns(), u64::MAX, "no overflow");
    assert_eq!(Use { requests: 3, ..Use::default() }.busy_ns(), 3 * REQUEST_NS);
}
