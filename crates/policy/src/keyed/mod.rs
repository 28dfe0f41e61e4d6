//! Policies that give keys: what the scheduler in the kernel (bpf/sched) computes, bit for bit.
//!
//! Nobody draws for all CPUs at once here. Each CPU asks for somebody when it is free, at its own
//! time; threads wait in order of a **key** and the least is served. The policies differ in how a
//! client's keys move. Each is a file of its own, the twin of a header of the kernel's, and both
//! must give the same numbers for the same calls (`tests/kernel_twins.rs`).
//!
//! - [`lottery`]: a race of exponential clocks.
//! - [`stride`]: start-time fair queueing.
//! - [`mtr_ls`]: places in a list.
//! - [`machine`]: CPUs, queues and wake-ups around them, in virtual time.
//!
//! A client *owes* what it was charged beyond what it was due, and its key follows from that; so
//! whoever calls counts what is due, exactly ([`Machine`] asks its [`machine::Funding`]). Numbers
//! wrap around as they do in C; [`before`] compares keys.

pub mod lottery;
pub mod machine;
pub mod mtr_ls;
pub mod stride;

pub use machine::Machine;

use crate::PolicyName;

/// The value of all tickets together. A client's value is a part of it: what it is due of the
/// whole machine while those are active that are now.
pub const WHOLE: u64 = 1 << 48;

/// A lesser value is charged as this, so that no product overflows.
pub const VALUE_MIN: u64 = 1 << 24;

/// A slice is at least this long, in nanoseconds, however little is left.
pub const SLICE_MIN_NS: u64 = 500_000;

/// The unit of [`Client::inverse`] is 2 to this power less.
const INVERSE_SHIFT: u32 = 15;

/// What a policy is told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many there are.
    pub cpus: u32,
    /// How long a turn is, in nanoseconds; at most 2³⁰.
    pub quantum_ns: u64,
    /// MTR-LS: the length of a round (T), in nanoseconds; at most 2³⁰.
    pub round_ns: u64,
    /// Decides all that is left to chance.
    pub seed: u64,
}

impl Default for Settings {
    /// As the kernel's, on one CPU, seed 0.
    fn default() -> Self {
        Settings { cpus: 1, quantum_ns: 4_000_000, round_ns: 100_000_000, seed: 0 }
    }
}

/// What policies know of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// Names it; also picks its random numbers.
    pub id: u64,
    /// CPU time that its tickets were due while it was active, in nanoseconds: its value's part of
    /// all that was given. Set by who counts that.
    pub due_ns: u64,
    /// CPU time that it was charged, in nanoseconds. What it owes is charged − due.
    pub charged_ns: u64,
    /// Random numbers drawn.
    pub draws: u64,
    /// MTR-LS: what is left of its quota, in parts of 2⁻²⁴; signed, as in C.
    pub left: u64,
    /// MTR-LS: its place in the list, a virtual time; 0 before its first.
    pub position: u64,
    /// MTR-LS: where it goes when its quota is used; 0 while that is not known.
    pub next_place: u64,
    /// MTR-LS: the virtual time at which it moved to the rear, and the rounds that it missed then.
    pub moved_at: u64,
    /// See [`Client::moved_at`].
    pub skips: u64,
    /// What it is due, in parts of [`WHOLE`].
    pub value: u64,
    /// What it was due on average lately, in parts of [`WHOLE`]. Set by [`Client::set_rate`].
    pub rate: u64,
    /// 2⁶³ / rate.
    pub inverse: u64,
    /// When its last runnable member went to sleep, in nanoseconds.
    pub left_at_ns: u64,
}

impl Client {
    /// A client without history.
    pub fn new(id: u64, value: u64) -> Self {
        let mut client = Client { id, ..Client::default() };
        client.set_value(value);
        client
    }

    /// It is due this now, and was before.
    pub fn set_value(&mut self, value: u64) {
        self.value = value;
        self.set_rate(value);
    }

    /// It was due this on average lately.
    pub fn set_rate(&mut self, rate: u64) {
        self.rate = rate.max(VALUE_MIN);
        self.inverse = (1 << 63) / self.rate;
    }

    /// It is due so much less. Answers what is due to all instead: nothing where there is nobody
    /// else, for then it would be due to itself, again and again.
    pub fn give_back(&mut self, ns: u64) -> u64 {
        self.due_ns = self.due_ns.wrapping_sub(ns);
        if self.value < WHOLE - (WHOLE >> 10) { ns } else { 0 }
    }

    /// What it was charged beyond what it was due, in nanoseconds; negative when it lags.
    pub fn owed_ns(&self) -> i64 {
        self.charged_ns.wrapping_sub(self.due_ns) as i64
    }
}

/// Answer of [`KeyedPolicy::key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Where the thread is queued.
    pub key: u64,
    /// What the client was due and loses, in nanoseconds, because it lags too far. It is due to all
    /// instead: virtual time moves on by it.
    pub lost_ns: u64,
}

/// How keys move. All functions are the kernel's of the same names. Virtual time is the CPU time
/// that was given to all that compete: the sum of charges.
pub trait KeyedPolicy {
    /// `client`'s first member became runnable, at virtual time `now`.
    fn join(&mut self, client: &mut Client, now: u64) {
        let _ = (client, now);
    }

    /// Where a thread is queued that has `ahead` other members of its client before it, while
    /// `waiting` threads wait, at virtual time `now`.
    fn key(&mut self, client: &mut Client, ahead: u64, waiting: u64, now: u64) -> Key;

    /// What the next turn's charges are multiplied by, in 2⁻¹⁶: drawn once for each turn by a
    /// policy that leaves something to chance; the others ignore it.
    fn draw(&mut self, client: &mut Client) -> u64 {
        let _ = client;
        0
    }

    /// `client` used so much in a turn for which `drawn` was drawn. Answers what that costs, in
    /// nanoseconds: virtual time moves on by it, from `now`, when the client competes.
    fn charge(&mut self, client: &mut Client, used_ns: u64, drawn: u64, now: u64) -> u64;

    /// How long a thread may run, where others would let it run for `slice_ns`.
    fn slice(&self, client: &Client, slice_ns: u64) -> u64 {
        let _ = client;
        slice_ns
    }

    /// Whether a client that left owes nothing for what it used: from then on its tickets do not
    /// count any more. `at_ns` is real time.
    fn is_settled(&self, client: &Client, at_ns: u64) -> bool {
        let _ = at_ns;
        client.owed_ns() <= 0
    }

    /// Whether keys are virtual times, and not places: then they are comparable with use.
    fn keys_are_times(&self) -> bool {
        true
    }
}

/// Makes a policy.
pub fn build(name: PolicyName, settings: Settings) -> Box<dyn KeyedPolicy> {
    match name {
        PolicyName::Lottery => Box::new(lottery::Lottery::new(settings)),
        PolicyName::Stride => Box::new(stride::Stride::new(settings)),
        PolicyName::MtrLs => Box::new(mtr_ls::MtrLs::new(settings)),
    }
}

/// Whether key `a` is served before `b`.
pub fn before(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) < 0
}

/// The later of two keys.
pub fn later(a: u64, b: u64) -> u64 {
    if before(a, b) { b } else { a }
}

/// So much CPU time at a value with this inverse, in virtual nanoseconds: ns · WHOLE / value. More
/// than 2³² ns count as so many.
pub fn virtual_ns(ns: u64, inverse: u64) -> u64 {
    if ns > 1 << 24 {
        return ((ns.min(1 << 32) >> 8) * inverse) >> (INVERSE_SHIFT - 8);
    }
    (ns * inverse) >> INVERSE_SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn virtual_time_is_time_divided_by_the_part_that_is_due(
            ns in 0u64..=1 << 32, value in VALUE_MIN..=WHOLE
        ) {
            let got = virtual_ns(ns, Client::new(1, value).inverse) as f64;
            let exact = ns as f64 * WHOLE as f64 / value as f64;
            // The inverse has 15 bits or more; 256 ns of a long time may be dropped.
            let allowed = exact / 32768.0 + 256.0 * WHOLE as f64 / value as f64 + 1.0;
            prop_assert!((got - exact).abs() <= allowed, "{got} {exact}");
        }

        #[test]
        fn keys_are_compared_across_the_end_of_their_numbers(a: u64, distance in 1u64..1 << 63) {
            prop_assert!(before(a, a.wrapping_add(distance)));
            prop_assert!(!before(a.wrapping_add(distance), a));
            prop_assert_eq!(later(a, a.wrapping_add(distance)), a.wrapping_add(distance));
        }
    }

    #[test]
    fn names_build_what_they_name() {
        let mut client = Client::new(1, WHOLE);
        for name in PolicyName::ALL {
            let mut policy = build(name, Settings::default());
            policy.join(&mut client, 1 << 30);
            let drawn = policy.draw(&mut client);
            assert_eq!(drawn > 0, name == PolicyName::Lottery);
            assert_eq!(policy.keys_are_times(), name != PolicyName::MtrLs);
        }
    }
}
