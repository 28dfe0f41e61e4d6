//! The keeper's part in trade: clearings, what ends by itself, and who trades.

use super::{Round, Running, unix_ms};
use crate::bourse;
use crate::members;
use crate::resolve::Resolver;
use crate::view::currency_name;
use journal::Entry;
use ledger::{Caller, Intent};
use market::Match;
use wire::{CurrencyRef, TradersView, Trouble};

impl Running {
    /// Let the dealer clear the offers where that is due: all that it finds in one step.
    pub(super) fn clear_if_due(&mut self) {
        let found = self.bourse.clear_if_due(&self.keeper.ledger);
        if found.is_empty() {
            return;
        }
        let mut round = Round { entries: Vec::new(), waiting: Vec::new() };
        let made = self.clear(found, &mut round.entries);
        // Where it cannot be made durable it is undone.
        if self.finish(round) {
            self.bourse.record(unix_ms() / 1000, &made);
        }
    }

    /// Answers what was made. Where the broker will not have all of it (the dealer sees each party
    /// alone, and one's gifts may uncover another's), each half is tried: a few that cannot be
    /// keep no others waiting, and no time.
    fn clear(&mut self, mut found: Vec<Match>, entries: &mut Vec<Entry>) -> Vec<Match> {
        let ledger = &self.keeper.ledger;
        let exchanges = found.iter().map(|one| bourse::clearing(ledger, one));
        if let Some(exchanges) = exchanges.collect::<Option<Vec<_>>>()
            && self.observe(Intent::Clear { exchanges }, entries)
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
        let over = bourse::expired(&self.keeper.ledger, unix_ms() / 1000);
        if over.is_empty() {
            return;
        }
        let mut round = Round { entries: Vec::new(), waiting: Vec::new() };
        for intent in over {
            self.observe(intent, &mut round.entries);
        }
        self.finish(round);
    }

    pub(super) fn traders(
        &mut self,
        caller: &Caller,
        who: &[CurrencyRef],
    ) -> Result<TradersView, Trouble> {
        self.see_who_competes();
        let mut traders = Vec::with_capacity(who.len());
        for reference in who {
            let mut resolver = Resolver {
                ledger: &self.keeper.ledger,
                caller,
                policy: self.keeper.policy.as_ref(),
                names: &mut self.names,
                cgroups: &mut self.cgroups,
            };
            let id = match resolver.currency(reference) {
                Err(trouble) if reference.0.starts_with('#') && trouble.code == "unknown" => {
                    continue;
                }
                found => found?,
            };
            let ledger = &self.keeper.ledger;
            let currency = ledger.currency(id).expect("it was found");
            let name = |id| currency_name(ledger, id, &self.commands, &self.cgroups);
            let mut trader = bourse::trader_view(ledger, currency, &mut self.cpu, name);
            let (members, left_out) = members::all_of(ledger, id);
            let view = |member| members::member_view(member, &self.commands, &self.cgroups);
            trader.members = members.iter().map(view).collect();
            trader.members_left_out = left_out;
            traders.push(trader);
        }
        Ok(TradersView { sequence: self.keeper.journal.sequence(), traders })
    }
}
