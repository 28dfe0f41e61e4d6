//! What each client used and was promised, over reloads of the scheduler. What the kernel counted is added up without
//! overflow, whatever it says.

use crate::abi::types;
use ledger::CurrencyId;
use policy::feasible;
use std::collections::BTreeMap;

/// One client's account. Totals count from its first plan.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub slot: u32,
    /// Who gets what it owes when it goes.
    pub first_issuer: Option<CurrencyId>,
    /// What it had used and won in schedulers that are gone.
    before: Counts,
    /// And in the present one.
    now: Counts,
    /// Whether it won since the sample before.
    pub won: bool,
    pub is_runnable: bool,
    pub value: u64,
    promised: u64,
    active_ns: u64,
    draws: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    used_ns: u64,
    due_ns: u64,
    wins: u64,
}

impl Account {
    pub fn new(slot: u32) -> Account {
        Account {
            slot,
            first_issuer: None,
            before: Counts::default(),
            now: Counts::default(),
            won: false,
            is_runnable: false,
            value: 0,
            promised: 0,
            active_ns: 0,
            draws: 0,
        }
    }

    /// The scheduler has counted so far.
    pub fn read(&mut self, client: &types::client) {
        self.won = client.wins != self.now.wins;
        self.is_runnable = client.runnable > 0;
        self.now = Counts { used_ns: client.used_ns, due_ns: client.due_ns, wins: client.wins };
    }

    /// The scheduler is gone, with its counters.
    pub fn carry_over(&mut self) {
        self.before =
            Counts { used_ns: self.used_ns(), due_ns: self.promised_ns(), wins: self.wins() };
        self.now = Counts::default();
        self.is_runnable = false;
    }

    /// CPU time used, in ns.
    pub fn used_ns(&self) -> u64 {
        self.before.used_ns.saturating_add(self.now.used_ns)
    }

    /// Times that a member was chosen.
    pub fn wins(&self) -> u64 {
        self.before.wins.saturating_add(self.now.wins)
    }

    /// What it is promised now, in parts of a seat.
    pub fn promised(&self) -> u64 {
        self.promised
    }

    /// CPU time promised so far, in ns: what its tickets were due of all that was given, counted
    /// by the scheduler at every change of activity.
    pub fn promised_ns(&self) -> u64 {
        self.before.due_ns.saturating_add(self.now.due_ns)
    }

    /// Time for which it competed, in ns.
    pub fn active_ns(&self) -> u64 {
        self.active_ns
    }

    /// Choices that were made while it competed.
    pub fn draws(&self) -> u64 {
        self.draws
    }
}

/// For the last `elapsed_ns`, in which `draws` choices were made, the clients competed as they do
/// now: `value_of` is what one is worth, `None` where it does not compete.
pub(crate) fn integrate(
    accounts: &mut BTreeMap<CurrencyId, Account>,
    seats: usize,
    elapsed_ns: u64,
    draws: u64,
    mut value_of: impl FnMut(CurrencyId, &Account) -> Option<u64>,
) {
    let mut weights = Vec::new();
    for (id, account) in accounts.iter_mut() {
        account.promised = 0;
        let value = value_of(*id, account);
        account.value = value.unwrap_or(0);
        if let Some(value) = value {
            account.active_ns = account.active_ns.saturating_add(elapsed_ns);
            account.draws = account.draws.saturating_add(draws);
            weights.push((id.0, value));
        }
    }
    for (id, promised) in feasible::promised(&weights, seats) {
        let account = accounts.get_mut(&CurrencyId(id)).expect("it was in the list");
        account.promised = promised;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::ONE_SEAT;
    use valuation::WHOLE;

    #[test]
    fn who_competes_is_promised_at_most_one_seat_and_its_time_counts() {
        let mut accounts: BTreeMap<_, _> =
            (1..=3).map(|id| (CurrencyId(id), Account::new(id as u32))).collect();
        let value = |id: CurrencyId| match id.0 {
            1 => Some(WHOLE / 4 * 3),
            2 => Some(WHOLE / 4),
            _ => None,
        };
        integrate(&mut accounts, 1, 1000, 4, |id, _| value(id));
        let promised = |accounts: &BTreeMap<_, Account>| {
            [1, 2, 3].map(|id| accounts[&CurrencyId(id)].promised())
        };
        assert_eq!(promised(&accounts), [ONE_SEAT / 4 * 3, ONE_SEAT / 4, 0]);
        integrate(&mut accounts, 2, 1000, 5, |id, _| value(id));
        assert_eq!(promised(&accounts), [ONE_SEAT, ONE_SEAT, 0]);
        let of = |id| &accounts[&CurrencyId(id)];
        assert_eq!([1, 2, 3].map(|id| of(id).active_ns()), [2000, 2000, 0]);
        assert_eq!([1, 2, 3].map(|id| of(id).draws()), [9, 9, 0]);
    }

    #[test]
    fn a_reload_loses_nothing() {
        let mut account = Account::new(1);
        let counted = |used_ns, wins| {
            let due_ns = used_ns * 2;
            types::client { used_ns, due_ns, wins, ..types::client::default() }
        };
        account.read(&counted(500, 2));
        assert!(account.won);
        account.carry_over();
        account.read(&counted(30, 1));
        assert_eq!((account.used_ns(), account.promised_ns(), account.wins()), (530, 1060, 3));
        account.read(&counted(30, 1));
        assert!(!account.won);
    }

    #[test]
    fn counts_that_cannot_be_do_not_overflow() {
        let mut account = Account::new(1);
        let counted = types::client { used_ns: u64::MAX, wins: u64::MAX, ..Default::default() };
        for _ in 0..2 {
            account.read(&counted);
            account.carry_over();
        }
        assert_eq!((account.used_ns(), account.wins()), (u64::MAX, u64::MAX));
        let mut accounts = BTreeMap::from([(CurrencyId(1), account)]);
        integrate(&mut accounts, 1, u64::MAX, u64::MAX, |_, _| Some(1));
        integrate(&mut accounts, 1, 1, 1, |_, _| Some(1));
        let account = &accounts[&CurrencyId(1)];
        assert_eq!((account.active_ns(), account.draws()), (u64::MAX, u64::MAX));
    }
}
