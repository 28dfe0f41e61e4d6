//! Heights: how many currencies below one its longest path to a leaf has.
//!
//! Each currency counts the tickets that it has issued by their holders' heights, so a change costs
//! those whose height it changes, and no others. Cycles and paths that are too long are found the
//! same way: a ticket to a currency that funds its issuer would raise that currency too.

use super::Ledger;
use crate::{Currency, CurrencyId, DEPTH_MAX, Ticket};
use std::collections::{BTreeMap, BTreeSet};

/// What a ticket would do to the currencies above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lift {
    /// No path becomes longer than [`DEPTH_MAX`].
    Fits,
    /// The holder funds the issuer, over any number of currencies.
    Cycle,
    /// A path would be longer than [`DEPTH_MAX`].
    TooDeep,
}

/// Holders of tickets of one currency, counted by their heights. The last count is not 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Below(Vec<u32>);

impl Below {
    fn add(&mut self, height: usize) {
        if self.0.len() <= height {
            self.0.resize(height + 1, 0);
        }
        self.0[height] += 1;
    }

    fn take(&mut self, height: usize) {
        self.0[height] -= 1;
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}

impl Currency {
    fn height(&self) -> usize {
        self.below.0.len()
    }
}

impl Ledger {
    /// What a new ticket from `issuer` to `holder` would do; `None`: to a new client.
    pub(crate) fn lift(&self, issuer: CurrencyId, holder: Option<CurrencyId>) -> Lift {
        if holder == Some(issuer) {
            return Lift::Cycle;
        }
        let height = |id: CurrencyId| self.currencies.get(&id).map_or(0, Currency::height);
        let least = holder.map_or(0, height) + 1;
        let mut fits = Lift::Fits;
        // By the height before: a currency comes after all below it that rise.
        let mut open = BTreeSet::new();
        let mut lifted = BTreeMap::new();
        if least > height(issuer) {
            open.insert((height(issuer), issuer));
            lifted.insert(issuer, least);
        }
        while let Some((_, id)) = open.pop_first() {
            if Some(id) == holder {
                return Lift::Cycle;
            }
            let now = lifted[&id];
            if now > DEPTH_MAX {
                fits = Lift::TooDeep;
            }
            let above = now + 1;
            for (_, ticket) in self.backing(id) {
                self.work.note(1);
                let before = height(ticket.issuer);
                let known = lifted.get(&ticket.issuer).copied().unwrap_or(before);
                if above > known {
                    lifted.insert(ticket.issuer, above);
                    open.insert((before, ticket.issuer));
                }
            }
        }
        fits
    }

    /// Whether `from` issues, over any number of currencies, tickets that fund `to`.
    pub(crate) fn funds(&self, from: CurrencyId, to: CurrencyId) -> bool {
        self.lift(to, Some(from)) == Lift::Cycle
    }

    /// A ticket has come or gone.
    pub(super) fn count_height(&mut self, ticket: &Ticket, comes: bool) {
        let below = self.currencies[&ticket.holder].height();
        let issuer = self.currencies.get_mut(&ticket.issuer).expect("the issuer exists");
        let before = issuer.height();
        match comes {
            true => issuer.below.add(below),
            false => issuer.below.take(below),
        }
        if issuer.height() != before {
            self.follow_height(ticket.issuer, before);
        }
    }

    /// The height of a currency is another than before: so may be those of all that fund it.
    fn follow_height(&mut self, id: CurrencyId, before: usize) {
        // By the height before: a currency comes after all below it that changed.
        let mut open = BTreeSet::from([(before, id)]);
        let mut seen = BTreeSet::from([id]);
        while let Some((before, id)) = open.pop_first() {
            let after = self.currencies[&id].height();
            if before == after {
                continue;
            }
            let issuers: Vec<CurrencyId> = self.backing(id).map(|(_, it)| it.issuer).collect();
            self.work.note(issuers.len() as u64);
            for issuer in issuers {
                let currency = self.currencies.get_mut(&issuer).expect("the issuer exists");
                if seen.insert(issuer) {
                    open.insert((currency.height(), issuer));
                }
                currency.below.add(after);
                currency.below.take(before);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{CreateCurrency, Fund, Unfund};
    use crate::{Authority, BASE, Caller, Funding, Intent, Mode, Resource, TicketKind, decide};

    /// The longest path over `next`, in currencies.
    fn longest(
        id: CurrencyId,
        known: &mut BTreeMap<CurrencyId, usize>,
        next: &dyn Fn(CurrencyId) -> Vec<CurrencyId>,
    ) -> usize {
        if let Some(length) = known.get(&id) {
            return *length;
        }
        let length = next(id).into_iter().map(|it| 1 + longest(it, known, next)).max().unwrap_or(0);
        known.insert(id, length);
        length
    }

    fn naive(ledger: &Ledger, issuer: CurrencyId, holder: CurrencyId) -> Lift {
        let above = |id| ledger.backing(id).map(|(_, it)| it.issuer).collect::<Vec<_>>();
        let below = |id| ledger.issued(id).map(|(_, it)| it.holder).collect::<Vec<_>>();
        let mut seen = BTreeSet::new();
        let mut open = vec![issuer];
        while let Some(id) = open.pop() {
            if id == holder {
                return Lift::Cycle;
            }
            if seen.insert(id) {
                open.extend(above(id));
            }
        }
        let known = BTreeMap::new;
        let path = longest(issuer, &mut known(), &above) + 1;
        match path + longest(holder, &mut known(), &below) > DEPTH_MAX {
            true => Lift::TooDeep,
            false => Lift::Fits,
        }
    }

    /// Random tickets come and go among few currencies in a narrow graph, so that long paths are common.
    #[test]
    fn heights_and_lifts_are_those_of_the_longest_paths() {
        const CURRENCIES: u64 = 48;
        let root = Authority::Caller(Caller { uid: 0, gid: 0, groups: vec![], process: None });
        let mut ledger = Ledger::new(0, 0);
        let act = |ledger: &mut Ledger, intent: Intent| {
            let authorised = decide(ledger, root.clone(), intent)?;
            Ok::<_, crate::Refusal>(ledger.apply(authorised))
        };
        for number in 1..=CURRENCIES {
            let (name, mode) = (format!("c{number}"), Mode::PRIVATE);
            let make = CreateCurrency { name, owner: 0, group: 0, mode };
            act(&mut ledger, make.into()).expect("a name of its own");
        }
        let mut state: u64 = 42;
        let mut below = |bound: u64| {
            state =
                state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            (state >> 33) % bound
        };
        let mut lifts = BTreeMap::new();
        for _ in 0..4000 {
            // Mostly between neighbours; now and then any two, in either direction.
            let issuer = below(CURRENCIES);
            let near = (issuer + 1 + below(2)).min(CURRENCIES);
            let holder = if below(4) == 0 { 1 + below(CURRENCIES) } else { near };
            let (issuer, holder) = (CurrencyId(issuer), CurrencyId(holder));
            if ledger.held(holder, issuer, &Resource::CPU, TicketKind::Soft).is_some() {
                if below(3) == 0 {
                    let (resource, kind) = (Resource::CPU, TicketKind::Soft);
                    let unfund = Unfund { holder, issuer, resource, kind };
                    act(&mut ledger, unfund.into()).expect("root may");
                }
                continue;
            }
            let lift = ledger.lift(issuer, Some(holder));
            assert_eq!(lift, naive(&ledger, issuer, holder), "{issuer} to {holder}");
            *lifts.entry(format!("{lift:?}")).or_insert(0) += 1;
            let funding = Funding::soft(&Resource::CPU, 1);
            let funded = act(&mut ledger, Fund { holder, issuer, funding }.into());
            assert_eq!(funded.is_ok(), lift == Lift::Fits);
            if below(8) == 0
                && let Ok(changes) = funded
            {
                ledger.undo(changes);
            }
        }
        assert_eq!(lifts.len(), 3, "not all cases were met: {lifts:?}");
        let next = |id| ledger.issued(id).map(|(_, it)| it.holder).collect::<Vec<_>>();
        for currency in ledger.currencies() {
            assert_eq!(
                currency.height(),
                longest(currency.id, &mut BTreeMap::new(), &next),
                "{}",
                currency.id
            );
        }
        assert!(ledger.currency(BASE).expect("base").height() > 0);
    }
}
