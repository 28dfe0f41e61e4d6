//! Random large funding graphs: thousands of currencies, deep, soft and hard, some clients
//! funded by several, against the [naive model](crate::model).

use crate::auditor::{Fault, audit_books, audit_increments, audit_values};
use crate::small::new_currency;
use ledger::{
    BASE, Change, Class, CurrencyId, CurrencyKind, HARD_TOTAL, Ledger, Resource, TRANSFER_AMOUNT,
    Ticket, TicketId, TicketKind,
};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeSet;
use valuation::Graph;

/// A random ledger of about `currencies`, the deepest path at most `depth` below base; half of
/// them are clients.
pub fn random_ledger(rng: &mut impl RngCore, currencies: usize, depth: usize) -> Ledger {
    let mut below = |count: u64| rng.next_u64() % count.max(1);
    let mut ledger = Ledger::new(0, 0);
    let mut changes = Vec::new();
    let pure = currencies / 2;
    // Level of each pure currency: it is funded from lesser ones.
    let mut levels: Vec<usize> = vec![0];
    let mut hard = vec![0; pure + 1];
    let mut next_ticket = 0;
    for number in 1..=currencies {
        let id = CurrencyId(number as u64);
        let client = number > pure;
        changes.push(new_currency(number, pure));
        let mut level = 0;
        let mut issuers = BTreeSet::new();
        for _ in 0..1 + u64::from(below(5) == 0) {
            // Mostly a late currency, so that paths grow long; never beyond the depth.
            let known = levels.len() as u64;
            let newest = known - 1 - below(known.min(40));
            let any = if below(4) == 0 { below(known) } else { newest } as usize;
            let issuer = if levels[any] + 1 < depth { any } else { 0 };
            issuers.insert(issuer);
        }
        for issuer in issuers {
            level = level.max(levels[issuer] + 1);
            let room = HARD_TOTAL - hard[issuer];
            let (kind, amount) = match below(6) {
                0 if room > 0 => (TicketKind::Hard, 1 + below(room.min(200))),
                1 => (TicketKind::Soft, below(3)),
                _ => (TicketKind::Soft, 1 + below(1000)),
            };
            if kind == TicketKind::Hard {
                hard[issuer] += amount;
            }
            let issuer = CurrencyId(issuer as u64);
            let ticket = Ticket { issuer, holder: id, resource: Resource::CPU, kind, amount };
            let after = Some(ticket);
            changes.push(Change::Ticket { id: TicketId(next_ticket), before: None, after });
            next_ticket += 1;
        }
        if !client {
            levels.push(level);
        }
    }
    ledger.replay(changes).expect("it was made to fit");
    ledger
}

/// Check a random graph with everybody active, then after each of `rounds` in which some clients
/// come and go, lend, take back, become guests and hosts, and some tickets change.
///
/// # Errors
/// The first fault.
pub fn check(seed: u64, currencies: usize, depth: usize, rounds: usize) -> Result<(), Fault> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut ledger = random_ledger(&mut rng, currencies, depth);
    audit_books(&ledger)?;
    let mut graph = Graph::of(&ledger, Resource::CPU);
    let mut active: BTreeSet<CurrencyId> = ledger.clients().map(|(_, id)| id).collect();
    for client in &active {
        graph.set_active(*client, true);
    }
    let everybody = active.clone();
    for _ in 0..rounds {
        audit_values(&ledger, &mut graph, &active)?;
        audit_increments(&ledger, &mut graph, &active)?;
        for client in &everybody {
            if rng.next_u32().is_multiple_of(4) && graph.set_active(*client, false) {
                active.remove(client);
            } else if rng.next_u32().is_multiple_of(3) {
                graph.set_active(*client, true);
                active.insert(*client);
            }
        }
        for change in rearrangements(&ledger, &everybody, &mut rng) {
            // A transfer that would close a circle does not fit, and is left out.
            if ledger.replay(vec![change.clone()]).is_ok() {
                graph.follow(&change);
            }
        }
        let soft: Vec<(TicketId, Ticket)> = ledger
            .tickets()
            .filter(|(_, t)| t.kind == TicketKind::Soft && t.issuer != BASE)
            .map(|(id, ticket)| (id, ticket.clone()))
            .collect();
        for (id, before) in soft {
            if rng.next_u32().is_multiple_of(20) {
                let amount = u64::from(rng.next_u32() % 50);
                let after = Some(Ticket { amount, ..before.clone() });
                let change = Change::Ticket { id, before: Some(before), after };
                graph.follow(&change);
                ledger.replay(vec![change])?;
            }
        }
    }
    Ok(())
}

/// Some clients lend to others or take back, some become guests or hosts.
fn rearrangements(
    ledger: &Ledger,
    clients: &BTreeSet<CurrencyId>,
    rng: &mut impl RngCore,
) -> Vec<Change> {
    let list: Vec<CurrencyId> = clients.iter().copied().collect();
    let mut next_ticket = ledger.tickets().last().map_or(0, |(id, _)| id.0 + 1);
    let mut changes = Vec::new();
    for lender in clients {
        if rng.next_u32().is_multiple_of(20) {
            let before = ledger.currency(*lender).expect("a client").record.clone();
            let mut after = before.clone();
            if let CurrencyKind::Client { class, .. } = &mut after.kind {
                *class = if class.is_host() { Class::Guest } else { Class::Host };
            }
            let (before, after) = (Some(Box::new(before)), Some(Box::new(after)));
            changes.push(Change::Currency { id: *lender, before, after });
        }
        if !rng.next_u32().is_multiple_of(8) {
            continue;
        }
        changes.push(match ledger.transfer_of(*lender, &Resource::CPU) {
            Some((id, lent)) => Change::Ticket { id, before: Some(lent.clone()), after: None },
            None => {
                next_ticket += 1;
                let holder = list[rng.next_u32() as usize % list.len()];
                let (kind, amount) = (TicketKind::Transfer, TRANSFER_AMOUNT);
                let (issuer, resource) = (*lender, Resource::CPU);
                let after = Some(Ticket { issuer, holder, resource, kind, amount });
                Change::Ticket { id: TicketId(next_ticket), before: None, after }
            }
        });
    }
    changes
}
