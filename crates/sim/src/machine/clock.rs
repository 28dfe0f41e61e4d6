//! Virtual time: what will happen, in order.
//!
//! 1. Events happen in order of time; those of one time in the order in which they were scheduled. So nothing
//!    depends on addresses or hashes, and a run repeats.
//! 2. Time never goes back: what is scheduled for the past happens now.

use std::collections::BTreeMap;

/// A queue of events with the time.
#[derive(Debug)]
pub struct Clock<E> {
    now_ns: u64,
    sequence: u64,
    waiting: BTreeMap<(u64, u64), E>,
}

impl<E> Default for Clock<E> {
    fn default() -> Self {
        Clock { now_ns: 0, sequence: 0, waiting: BTreeMap::new() }
    }
}

impl<E> Clock<E> {
    /// The time, in nanoseconds since the machine was made.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// `event` happens at `at_ns`, now if that has passed.
    pub fn schedule(&mut self, at_ns: u64, event: E) {
        self.sequence += 1;
        self.waiting.insert((at_ns.max(self.now_ns), self.sequence), event);
    }

    /// When the next event happens; `None` where none is scheduled.
    pub fn next_at_ns(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|((at_ns, _), _)| *at_ns)
    }

    /// The next event, at its time.
    pub fn pop(&mut self) -> Option<E> {
        let ((at_ns, _), event) = self.waiting.pop_first()?;
        self.now_ns = at_ns;
        Some(event)
    }

    /// Time passes without an event; no effect where it has passed.
    ///
    /// # Panics
    /// When an event was to happen before: a broken invariant.
    pub fn pass_to(&mut self, at_ns: u64) {
        assert!(self.next_at_ns().is_none_or(|next| next >= at_ns), "an event was left out");
        self.now_ns = self.now_ns.max(at_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_happen_in_order_of_time_and_of_scheduling() {
        let mut clock = Clock::default();
        for (at_ns, name) in [(20, "c"), (10, "a"), (20, "d"), (10, "b")] {
            clock.schedule(at_ns, name);
        }
        assert_eq!((clock.pop(), clock.pop(), clock.now_ns()), (Some("a"), Some("b"), 10));
        clock.pass_to(15);
        clock.schedule(3, "late");
        assert_eq!((clock.pop(), clock.now_ns()), (Some("late"), 15));
        assert_eq!((clock.pop(), clock.pop(), clock.pop()), (Some("c"), Some("d"), None));
        assert_eq!(clock.now_ns(), 20);
    }
}
