//! Which slot of the scheduler's memory is whose. Pure: time comes in as arguments.
//!
//! 1. A currency has one slot for as long as it lives; base has slot 0.
//! 2. A freed slot may get a new owner once nobody runs there any more, two plans have passed
//!    (both banks have forgotten the old owner) and so has [`REST_NS`].
//! 3. Dying pays no debts: what a client owed when it went (it used more than its share has paid
//!    for yet) goes to an account of its first issuer, and the next new client of that issuer
//!    starts with it. Otherwise a chain of short-lived processes would run on credit for ever.

use ledger::CurrencyId;
use std::collections::{BTreeMap, VecDeque};

/// A freed slot rests at least so long, in ns.
const REST_NS: u64 = 200_000_000;
/// And for so many plans.
const REST_PLANS: u64 = 2;

/// Gives slots to currencies.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    places: usize,
    of: BTreeMap<CurrencyId, u32>,
    /// How many owners each used slot has had.
    births: Vec<u32>,
    resting: VecDeque<Resting>,
    plans: u64,
    debts: BTreeMap<CurrencyId, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Resting {
    slot: u32,
    since_ns: u64,
    plan: u64,
}

/// A slot that was given to a currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// Which.
    pub slot: u32,
    /// Tells its owners apart, from 1 on.
    pub birth: u32,
}

impl Slots {
    /// So many slots, base in the first.
    pub fn new(places: usize) -> Slots {
        Slots {
            places,
            of: BTreeMap::from([(ledger::BASE, 0)]),
            births: vec![1],
            resting: VecDeque::new(),
            plans: 0,
            debts: BTreeMap::new(),
        }
    }

    /// Another plan begins.
    pub fn begin_plan(&mut self) {
        self.plans += 1;
    }

    /// Whose slot it is.
    pub fn of(&self, id: CurrencyId) -> Option<u32> {
        self.of.get(&id).copied()
    }

    /// Every currency that has one.
    pub fn all(&self) -> impl Iterator<Item = (CurrencyId, u32)> {
        self.of.iter().map(|(id, slot)| (*id, *slot))
    }

    /// One more than the greatest slot that was ever used.
    pub fn end(&self) -> usize {
        self.births.len()
    }

    /// A slot for a currency that has none; `None` when there is no free one. `is_quiet` says
    /// whether nobody runs in a slot any more.
    ///
    /// # Panics
    /// When it has one: a broken invariant.
    pub fn give(
        &mut self,
        id: CurrencyId,
        now_ns: u64,
        mut is_quiet: impl FnMut(u32) -> bool,
    ) -> Option<Given> {
        let rested = |place: &Resting| {
            now_ns.saturating_sub(place.since_ns) >= REST_NS
                && self.plans - place.plan >= REST_PLANS
        };
        // Those that have rested are in front, in order; one may still be busy.
        let found = self
            .resting
            .iter()
            .take_while(|place| rested(place))
            .position(|place| is_quiet(place.slot));
        let slot = match found.and_then(|index| self.resting.remove(index)) {
            Some(place) => place.slot,
            None if self.births.len() < self.places => {
                self.births.push(0);
                self.births.len() as u32 - 1
            }
            None => return None,
        };
        let birth = &mut self.births[slot as usize];
        *birth = birth.wrapping_add(1).max(1);
        let given = Given { slot, birth: *birth };
        let known = self.of.insert(id, slot);
        assert!(known.is_none(), "a currency gets one slot");
        Some(given)
    }

    /// The currency is no more; answers its slot, if it had one.
    pub fn free(&mut self, id: CurrencyId, now_ns: u64) -> Option<u32> {
        self.debts.remove(&id);
        let slot = self.of.remove(&id)?;
        self.resting.push_back(Resting { slot, since_ns: now_ns, plan: self.plans });
        Some(slot)
    }

    /// A client of this issuer went and owed so much.
    pub fn owe(&mut self, issuer: CurrencyId, debt_ns: u64) {
        if debt_ns > 0 && self.of.contains_key(&issuer) {
            let debt = self.debts.entry(issuer).or_default();
            *debt = debt.saturating_add(debt_ns);
        }
    }

    /// What a new client of this issuer takes over, in ns.
    pub fn take_debt(&mut self, issuer: CurrencyId) -> u64 {
        self.debts.remove(&issuer).unwrap_or(0)
    }
}

/// What a client owes, in ns of CPU time: it was charged more than it was due.
pub(crate) fn debt_ns(charged_ns: u64, due_ns: u64) -> u64 {
    charged_ns.wrapping_sub(due_ns).cast_signed().max(0).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: CurrencyId = CurrencyId(10);
    const B: CurrencyId = CurrencyId(11);
    const C: CurrencyId = CurrencyId(12);

    fn busy(_: u32) -> bool {
        false
    }

    fn quiet(_: u32) -> bool {
        true
    }

    #[test]
    fn a_slot_is_kept_rests_and_is_born_again() {
        let mut slots = Slots::new(3);
        assert_eq!(slots.of(ledger::BASE), Some(0));
        slots.begin_plan();
        assert_eq!(slots.give(A, 0, quiet), Some(Given { slot: 1, birth: 1 }));
        assert_eq!(slots.give(B, 0, quiet), Some(Given { slot: 2, birth: 1 }));
        assert_eq!(slots.give(C, 0, quiet), None);
        assert_eq!(slots.free(A, 1_000), Some(1));
        assert_eq!((slots.of(A), slots.of(B)), (None, Some(2)));
        assert_eq!(slots.give(C, u64::MAX, quiet), None, "two plans must pass");
        slots.begin_plan();
        slots.begin_plan();
        assert_eq!(slots.give(C, 1_000 + REST_NS - 1, quiet), None, "and a time");
        assert_eq!(slots.give(C, 1_000 + REST_NS, busy), None, "and who runs there must be gone");
        assert_eq!(slots.give(C, 1_000 + REST_NS, quiet), Some(Given { slot: 1, birth: 2 }));
    }

    #[test]
    fn one_busy_slot_does_not_hold_up_the_others() {
        let mut slots = Slots::new(3);
        slots.give(A, 0, quiet).unwrap();
        slots.give(B, 0, quiet).unwrap();
        slots.free(A, 0);
        slots.free(B, 0);
        slots.begin_plan();
        slots.begin_plan();
        assert_eq!(slots.give(C, REST_NS, |slot| slot == 2), Some(Given { slot: 2, birth: 2 }));
    }

    #[test]
    fn a_debt_is_handed_on_once() {
        let mut slots = Slots::new(8);
        slots.give(A, 0, quiet).unwrap();
        slots.owe(A, 300);
        slots.owe(A, 200);
        assert_eq!(slots.take_debt(A), 500);
        assert_eq!(slots.take_debt(A), 0);
        slots.owe(A, 1);
        slots.free(A, 0);
        slots.owe(A, 1);
        assert_eq!(slots.take_debt(A), 0, "an issuer that is gone has no account");
        slots.give(B, 0, quiet).unwrap();
        for _ in 0..3 {
            slots.owe(B, debt_ns(i64::MAX.unsigned_abs(), 0));
        }
        assert_eq!(slots.take_debt(B), u64::MAX, "more than can be");
    }

    #[test]
    fn who_has_paid_owes_nothing() {
        assert_eq!(debt_ns(5, 6), 0);
        assert_eq!(debt_ns(6, 5), 1);
        assert_eq!(debt_ns(5, u64::MAX), 6, "what was due may have been taken back");
    }
}
