//! What a client used since it last won: the one measure that every policy charges by.
//!
//! 1. Use is counted in **parts**, 2³² to a quantum, and summed from win to win. A new client
//!    counts as if it had just used one quantum: that is the price of its first win. (Waldspurger &
//!    Weihl 1995 start a client one stride behind for the same reason.)
//! 2. Between two wins a client is charged for at most [`MAX_DEBT_QUANTA`]; what it uses beyond
//!    that is free. Only time that nobody else wanted, or a quantum that ran long, gets there; so
//!    after a feast on idle time a client waits at most [`MAX_DEBT_QUANTA`] times as long as
//!    after any other quantum. (Ours. Work conservation must not become a debt without end.)

/// Parts in one quantum.
pub(crate) const ONE_QUANTUM: u64 = 1 << 32;

/// A client is charged for at most this many quanta between two wins.
pub const MAX_DEBT_QUANTA: u64 = 8;

/// A client that used less than this fraction of its quantum, one part in so many, is compensated
/// as if it had used that fraction. (Waldspurger's own kernel counted in hundredths, paper 3
/// section 4.2.)
pub const MAX_COMPENSATION: u64 = 128;

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

    /// Adds a use, and returns the parts of it that count (rule 2). Rounds down.
    pub fn charge(&mut self, used_ns: u64, quantum_ns: u64) -> u64 {
        assert!(
            (1..=crate::MAX_QUANTUM_NS).contains(&quantum_ns),
            "a quantum of {quantum_ns} ns is out of range"
        );
        let used = (u128::from(used_ns) * u128::from(ONE_QUANTUM)) / u128::from(quantum_ns);
        let room = MAX_DEBT_QUANTA * ONE_QUANTUM - self.parts;
        // `room` fits in 64 bits, so the lesser of both does.
        let parts = used.min(u128::from(room)) as u64;
        self.parts += parts;
        self.pending = false;
        parts
    }

    /// Parts used since the last win.
    pub fn parts(self) -> u64 {
        self.parts
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
        assert_eq!(meter.charge(Q / 2, Q), ONE_QUANTUM / 2);
        assert_eq!(meter.price(), ONE_QUANTUM + ONE_QUANTUM / 2);
        meter.win();
        assert_eq!((meter.parts(), meter.price()), (0, ONE_QUANTUM));
        meter.charge(Q / 4, Q);
        meter.charge(Q / 4, Q);
        assert_eq!((meter.parts(), meter.price()), (ONE_QUANTUM / 2, ONE_QUANTUM / 2));
    }

    #[test]
    fn prices_are_bounded_on_both_sides() {
        let mut meter = Meter::new();
        meter.win();
        assert_eq!(meter.charge(0, Q), 0);
        assert_eq!(meter.price(), ONE_QUANTUM / MAX_COMPENSATION);
        assert_eq!(meter.charge(u64::MAX, Q), MAX_DEBT_QUANTA * ONE_QUANTUM);
        assert_eq!(meter.charge(Q, Q), 0);
        assert_eq!(meter.price(), MAX_DEBT_QUANTA * ONE_QUANTUM);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_quantum_of_nothing_is_a_broken_invariant() {
        Meter::new().charge(1, 0);
    }
}
