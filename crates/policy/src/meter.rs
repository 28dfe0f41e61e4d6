//! Use, in quanta: what every policy charges by, and the bounds that they share.
//!
//! Use is counted in **parts**, 2³² to a quantum. [`Meter`] sums it from win to win, for policies
//! in which a win pays for the use since the win before:
//!
//! 1. A new client counts as if it had just used one quantum: that is the price of its first win.
//! 2. It costs at most [`MAX_DEBT_QUANTA`]; what is used beyond that is free. Only time that nobody
//!    else wanted, or quanta that ran long, get there. (Ours: work conservation must not become a
//!    debt without end.)

/// Parts in one quantum.
pub(crate) const ONE_QUANTUM: u64 = 1 << 32;

/// A client owes at most this many quanta: after a feast on idle time it waits at most about so
/// many times as long as after any other quantum. See each policy for what it measures debt from.
pub const MAX_DEBT_QUANTA: u64 = 8;

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

/// Use since the last win.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    parts: u64,
    /// Won, and not charged since.
    pending: bool,
}

impl Meter {
    /// A new client's meter (rule 1).
    pub fn new() -> Self {
        Meter { parts: ONE_QUANTUM, pending: false }
    }

    /// The client won: what it used before is paid.
    pub fn win(&mut self) {
        *self = Meter { parts: 0, pending: true };
    }

    /// Adds a use, as far as it counts (rule 2).
    pub fn charge(&mut self, used_ns: u64, quantum_ns: u64) {
        let sum = self.parts + parts(used_ns, quantum_ns);
        *self = Meter { parts: sum.min(MAX_DEBT_QUANTA * ONE_QUANTUM), pending: false };
    }

    /// The price of the next win in parts: what was used since the last one, but at least
    /// 1/[`MAX_COMPENSATION`] of a quantum; one quantum until the last win's use is known.
    pub fn price(self) -> u64 {
        if self.pending { ONE_QUANTUM } else { self.parts.max(ONE_QUANTUM / MAX_COMPENSATION) }
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
        meter.win();
        assert_eq!(meter.price(), ONE_QUANTUM);
        meter.charge(Q / 4, Q);
        meter.charge(Q / 4, Q);
        assert_eq!(meter.price(), ONE_QUANTUM / 2);
    }

    #[test]
    fn prices_are_bounded_on_both_sides() {
        let mut meter = Meter::new();
        meter.win();
        meter.charge(0, Q);
        assert_eq!(meter.price(), ONE_QUANTUM / MAX_COMPENSATION);
        meter.charge(u64::MAX, 1);
        assert_eq!(meter.price(), MAX_DEBT_QUANTA * ONE_QUANTUM);
        meter.charge(Q, Q);
        assert_eq!(meter.price(), MAX_DEBT_QUANTA * ONE_QUANTUM);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_quantum_of_nothing_is_a_broken_invariant() {
        Meter::new().charge(1, 0);
    }
}
