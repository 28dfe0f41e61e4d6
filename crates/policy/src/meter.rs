//! Use, in quanta: what every policy charges by, and the bounds that they share.
//!
//! Use is counted in **parts**, 2³² to a quantum. [`Meter`] sums it from win to win, for policies
//! in which a win pays for the use since the win before:
//!
//! 1. A new client counts as if it had just used one quantum: that is the price of its first win.
//! 2. It costs at most [`MAX_DEBT_QUANTA`]; what is used beyond that is free. Only time that nobody
//!    else wanted, or quanta that ran long, get there. (Ours: work conservation must not become a
//!    debt without end.)
//! 3. A win may carry a surplus over to the next, at most [`MAX_SURPLUS_QUANTA`]: the next costs
//!    that much less (lottery, rule 4).

/// Parts in one quantum.
pub(crate) const ONE_QUANTUM: u64 = 1 << 32;

/// A client owes at most this many quanta: after a feast on idle time it waits at most about so
/// many times as long as after any other quantum. See each policy for what it measures debt from.
pub const MAX_DEBT_QUANTA: u64 = 8;

/// A client that could not win as often as it was due keeps a claim to at most this many quanta.
pub const MAX_SURPLUS_QUANTA: u64 = 8;

/// A client that used less than this fraction of its quantum, one part in so many, is compensated
/// as if it had used that fraction. (Waldspurger's own kernel counted in hundredths, paper 3
/// section 4.2.)
pub const MAX_COMPENSATION: u64 = 128;

/// A use in parts, rounded down; at most 2²⁴ quanta.
pub(crate) fn parts(used_ns: u64, quantum_ns: u64) -> u64 {
    assert!(
        (1..=crate::MAX_QUANTUM_NS).contains(&quantum_ns),
        "a quantum of {quantum_ns} ns is out of range"
    );
    let parts = u128::from(used_ns) * u128::from(ONE_QUANTUM) / u128::from(quantum_ns);
    parts.min(1 << (24 + ONE_QUANTUM.trailing_zeros())) as u64
}

/// Use since the last win, less the surplus that came over from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    parts: i64,
    /// Won, and not charged since.
    pending: bool,
}

impl Meter {
    /// A new client's meter (rule 1).
    pub fn new() -> Self {
        Meter { parts: ONE_QUANTUM as i64, pending: false }
    }

    /// The client won: what it used before is paid. `due` is what a price would have been fair for
    /// so certain a win, in parts, where it was more than what was paid (rule 3); else 0.
    pub fn win(&mut self, due: u64) {
        let most = (MAX_SURPLUS_QUANTA * ONE_QUANTUM) as i64;
        let due = due.min(i64::MAX as u64 / 2) as i64;
        let surplus = (due - self.owed()).clamp(0, most);
        *self = Meter { parts: if due > 0 { -surplus } else { 0 }, pending: true };
    }

    /// Adds a use, as far as it counts (rule 2).
    pub fn charge(&mut self, used_ns: u64, quantum_ns: u64) {
        let sum = self.parts + parts(used_ns, quantum_ns) as i64;
        let most = (MAX_DEBT_QUANTA * ONE_QUANTUM) as i64;
        *self = Meter { parts: sum.min(most), pending: false };
    }

    /// The price of the next win in parts: what was used since the last one, but at least
    /// 1/[`MAX_COMPENSATION`] of a quantum; one quantum until the last win's use is known.
    pub fn price(self) -> u64 {
        self.owed().max((ONE_QUANTUM / MAX_COMPENSATION) as i64) as u64
    }

    /// What the next win pays for; below 0 while a surplus is left.
    fn owed(self) -> i64 {
        if self.pending { self.parts + ONE_QUANTUM as i64 } else { self.parts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const Q: u64 = 10_000_000;

    #[test]
    fn use_adds_up_from_win_to_win() {
        let mut meter = Meter::new();
        assert_eq!(meter.price(), ONE_QUANTUM);
        meter.charge(Q / 2, Q);
        assert_eq!(meter.price(), ONE_QUANTUM + ONE_QUANTUM / 2);
        meter.win(0);
        assert_eq!(meter.price(), ONE_QUANTUM);
        meter.charge(Q / 4, Q);
        meter.charge(Q / 4, Q);
        assert_eq!(meter.price(), ONE_QUANTUM / 2);
    }

    #[test]
    fn prices_are_bounded_on_both_sides() {
        let mut meter = Meter::new();
        meter.win(0);
        meter.charge(0, Q);
        assert_eq!(meter.price(), ONE_QUANTUM / MAX_COMPENSATION);
        meter.charge(u64::MAX, 1);
        assert_eq!(meter.price(), MAX_DEBT_QUANTA * ONE_QUANTUM);
        meter.charge(Q, Q);
        assert_eq!(meter.price(), MAX_DEBT_QUANTA * ONE_QUANTUM);
    }

    #[test]
    fn a_surplus_makes_the_next_win_cheaper_and_is_bounded() {
        let mut meter = Meter::new();
        meter.win(0);
        meter.charge(Q / 4, Q);
        meter.win(ONE_QUANTUM / 2);
        meter.charge(Q, Q);
        assert_eq!(meter.price(), ONE_QUANTUM - ONE_QUANTUM / 4);
        for _ in 0..100 {
            meter.win(ONE_QUANTUM);
            meter.charge(0, Q);
        }
        meter.charge(Q * (MAX_SURPLUS_QUANTA + 1), Q);
        assert_eq!(meter.price(), ONE_QUANTUM);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_quantum_of_nothing_is_a_broken_invariant() {
        Meter::new().charge(1, 0);
    }
}
