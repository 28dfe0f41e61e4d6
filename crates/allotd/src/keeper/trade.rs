//! The keeper's part in trade: clearings, what ends by itself, and who trades.

use super::state::{Round, Running};
use crate::clock::unix_ms;
use crate::exchange_desk;
use journal::Entry;
use ledger::Intent;
use ledger::operation::Clear;
use market::Match;

impl Running {
    /// Let the dealer clear the offers where that is due: all that it finds in one step.
    pub(super) fn clear_if_due(&mut self) {
        let found = self.desk.clear_if_due(&self.keeper.ledger);
        if found.is_empty() {
            return;
        }
        let mut round = Round::default();
        let made = self.clear(found, &mut round.entries);
        // Where it cannot be made durable it is undone.
        if self.finish(round) {
            self.desk.record(unix_ms() / 1000, &made);
        }
    }

    /// Answers what was made. Where the broker will not have all of it (the dealer sees each party
    /// alone, and one's gifts may uncover another's), each half is tried: a few that cannot be
    /// keep no others waiting, and no time.
    fn clear(&mut self, mut found: Vec<Match>, entries: &mut Vec<Entry>) -> Vec<Match> {
        let ledger = &self.keeper.ledger;
        let exchanges = found.iter().map(|one| exchange_desk::clearing(ledger, one));
        if let Some(exchanges) = exchanges.collect::<Option<Vec<_>>>()
            && self.observe(Intent::from(Clear { exchanges }), entries)
        {
            return found;
        }
        if found.len() == 1 {
            return Vec::new();
        }
        let rest = found.split_off(found.len() / 2);
        let mut made = self.clear(found, entries);
        made.extend(self.clear(rest, entries));
        made
    }

    /// End what was to last until now.
    pub(super) fn end_what_is_over(&mut self) {
        let over = exchange_desk::expired(&self.keeper.ledger, unix_ms() / 1000);
        if over.is_empty() {
            return;
        }
        let mut round = Round::default();
        for intent in over {
            self.observe(intent, &mut round.entries);
        }
        self.finish(round);
    }
}
