//! All small funding graphs: every shape, every choice of amounts from a small set, every set of
//! active clients, against the [naive model](crate::model).
//!
//! Left out are only graphs in which a pure currency is not funded or funds nobody: for its
//! neighbours it is as if it were not there, and those are the graphs of one currency less.

use crate::auditor::{Fault, Sure, audit_against, audit_increments};
use crate::model::Model;
use ledger::{
    BASE, Change, Class, CurrencyId, CurrencyKind, CurrencyRecord, Exchange, ExchangeId, Good,
    HARD_TOTAL, Ledger, Leg, Mode, ProcessIdentity, Resource, TRANSFER_AMOUNT, Ticket, TicketId,
    TicketKind,
};
use std::collections::BTreeSet;
use valuation::Graph;

/// Which graphs.
#[derive(Clone, Copy, Debug)]
pub struct Set {
    /// Pure currencies between base and the clients.
    pub pure: usize,
    /// Clients.
    pub clients: usize,
    /// The most tickets.
    pub tickets: usize,
    /// The tickets that one currency can hold of another.
    pub choices: &'static [&'static [(TicketKind, u64)]],
    /// Besides, in every way in which the clients can lend each other all that they hold, and
    /// each can be a guest or a host.
    pub arranged: bool,
    /// Besides, with every loan, and every second one, of one base ticket or of all that can be given.
    pub exchanged: bool,
}

/// How many there were.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// Graphs.
    pub graphs: u64,
    /// Graphs times sets of active clients.
    pub activities: u64,
}

use TicketKind::{Hard, Soft};

/// Every kind of ticket, zeroes and both kinds at once among them.
const ALL_KINDS: &[&[(TicketKind, u64)]] = &[
    &[(Soft, 0)],
    &[(Soft, 1)],
    &[(Soft, 2)],
    &[(Hard, 0)],
    &[(Hard, 300)],
    &[(Hard, 1000)],
    &[(Soft, 1), (Hard, 300)],
];
const FEW_KINDS: &[&[(TicketKind, u64)]] = &[&[(Soft, 1)], &[(Soft, 2)], &[(Hard, 300)]];
const EXTREMES: &[&[(TicketKind, u64)]] = &[&[(Soft, 0)], &[(Soft, 1)], &[(Hard, 1000)]];

/// Amounts of which parts can be given away.
const GIVEN: &[&[(TicketKind, u64)]] = &[&[(Soft, 2)], &[(Soft, 30)], &[(Hard, 300)]];
const GIVEN_BOTH: &[&[(TicketKind, u64)]] =
    &[&[(Soft, 0)], &[(Soft, 30)], &[(Hard, 1000)], &[(Soft, 10), (Hard, 300)]];

/// What `make test` checks.
pub const SMALLER: &[Set] = &[
    Set { pure: 0, clients: 3, tickets: 3, choices: GIVEN, arranged: false, exchanged: true },
    Set { pure: 1, clients: 2, tickets: 4, choices: GIVEN, arranged: false, exchanged: true },
    Set { pure: 1, clients: 3, tickets: 3, choices: GIVEN, arranged: false, exchanged: true },
    Set { pure: 1, clients: 2, tickets: 3, choices: GIVEN_BOTH, arranged: true, exchanged: true },
    Set { pure: 0, clients: 3, tickets: 6, choices: ALL_KINDS, arranged: false, exchanged: false },
    Set { pure: 1, clients: 2, tickets: 10, choices: ALL_KINDS, arranged: false, exchanged: false },
    Set { pure: 1, clients: 3, tickets: 4, choices: ALL_KINDS, arranged: false, exchanged: false },
    Set { pure: 2, clients: 2, tickets: 5, choices: ALL_KINDS, arranged: false, exchanged: false },
    Set { pure: 2, clients: 3, tickets: 5, choices: FEW_KINDS, arranged: false, exchanged: false },
    Set { pure: 3, clients: 2, tickets: 6, choices: EXTREMES, arranged: false, exchanged: false },
    Set { pure: 4, clients: 2, tickets: 6, choices: FEW_KINDS, arranged: false, exchanged: false },
    Set { pure: 0, clients: 3, tickets: 4, choices: ALL_KINDS, arranged: true, exchanged: false },
    Set { pure: 1, clients: 2, tickets: 4, choices: ALL_KINDS, arranged: true, exchanged: false },
    Set { pure: 1, clients: 3, tickets: 3, choices: FEW_KINDS, arranged: true, exchanged: false },
];

/// What the soak checks.
pub const LARGER: &[Set] = &[
    Set { pure: 1, clients: 3, tickets: 5, choices: GIVEN, arranged: false, exchanged: true },
    Set { pure: 2, clients: 2, tickets: 6, choices: GIVEN, arranged: false, exchanged: true },
    Set { pure: 2, clients: 3, tickets: 5, choices: GIVEN, arranged: false, exchanged: true },
    Set { pure: 1, clients: 3, tickets: 4, choices: GIVEN_BOTH, arranged: false, exchanged: true },
    Set { pure: 1, clients: 3, tickets: 14, choices: ALL_KINDS, arranged: false, exchanged: false },
    Set { pure: 2, clients: 2, tickets: 7, choices: ALL_KINDS, arranged: false, exchanged: false },
    Set { pure: 3, clients: 2, tickets: 7, choices: FEW_KINDS, arranged: false, exchanged: false },
    Set { pure: 3, clients: 3, tickets: 7, choices: EXTREMES, arranged: false, exchanged: false },
    Set { pure: 4, clients: 2, tickets: 7, choices: FEW_KINDS, arranged: false, exchanged: false },
    Set { pure: 4, clients: 3, tickets: 7, choices: FEW_KINDS, arranged: false, exchanged: false },
    Set { pure: 2, clients: 3, tickets: 6, choices: FEW_KINDS, arranged: true, exchanged: false },
    Set { pure: 1, clients: 4, tickets: 5, choices: FEW_KINDS, arranged: true, exchanged: false },
];

/// Check every graph of a set.
///
/// # Errors
/// The first fault, with the graph's tickets.
pub fn check_all(set: &Set) -> Result<Count, Fault> {
    let mut search = Search::new(*set);
    search.holder(1)?;
    Ok(search.count)
}

/// The currency of a number: pure up to `pure`, a client beyond.
pub(crate) fn new_currency(number: usize, pure: usize) -> Change {
    let process = ProcessIdentity { pid: number as u32, start_time_ticks: 1 };
    let client = number > pure;
    let record = CurrencyRecord {
        name: if client { String::new() } else { format!("c{number}") },
        owner: 1,
        group: 1,
        mode: Mode::PRIVATE,
        grants: Vec::new(),
        limits: Default::default(),
        kind: if client { CurrencyKind::client(process) } else { CurrencyKind::Pure },
    };
    let id = CurrencyId(number as u64);
    Change::Currency { id, before: None, after: Some(Box::new(record)) }
}

struct Search {
    set: Set,
    bare: Ledger,
    // What each way to lend and to be guests adds to a graph.
    arrangements: Vec<Vec<Change>>,
    tickets: Vec<Ticket>,
    // By currency; never above HARD_TOTAL.
    hard: Vec<u64>,
    count: Count,
}

impl Search {
    fn new(set: Set) -> Search {
        let mut bare = Ledger::new(0, 0);
        for number in 1..=set.pure + set.clients {
            bare.replay(vec![new_currency(number, set.pure)]).expect("a fresh currency fits");
        }
        let hard = vec![0; set.pure + 1];
        let arrangements = if set.arranged { arrangements(&set, &bare) } else { vec![Vec::new()] };
        Search { set, bare, arrangements, tickets: Vec::new(), hard, count: Count::default() }
    }

    /// Choose what a currency holds, then those after it. Issuers come before holders, so that
    /// every acyclic graph is met under one order at least.
    fn holder(&mut self, number: usize) -> Result<(), Fault> {
        if number > self.set.pure + self.set.clients {
            let issues = |n: usize| self.tickets.iter().any(|t| t.issuer.0 == n as u64);
            return if (1..=self.set.pure).all(issues) { self.check() } else { Ok(()) };
        }
        self.issuer(number, 0, false)
    }

    fn issuer(&mut self, holder: usize, issuer: usize, funded: bool) -> Result<(), Fault> {
        if issuer > self.set.pure || issuer == holder {
            // A client may be without funding.
            return if funded || holder > self.set.pure { self.holder(holder + 1) } else { Ok(()) };
        }
        self.issuer(holder, issuer + 1, funded)?;
        for choice in self.set.choices {
            let hard: u64 = choice.iter().filter(|t| t.0 == Hard).map(|t| t.1).sum();
            let full = self.tickets.len() + choice.len() > self.set.tickets;
            if full || self.hard[issuer] + hard > HARD_TOTAL {
                continue;
            }
            self.hard[issuer] += hard;
            self.tickets.extend(choice.iter().map(|(kind, amount)| Ticket {
                issuer: CurrencyId(issuer as u64),
                holder: CurrencyId(holder as u64),
                resource: Resource::CPU,
                kind: *kind,
                amount: *amount,
            }));
            self.issuer(holder, issuer + 1, true)?;
            self.tickets.truncate(self.tickets.len() - choice.len());
            self.hard[issuer] -= hard;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), Fault> {
        let changes: Vec<Change> = self
            .tickets
            .iter()
            .enumerate()
            .map(|(index, ticket)| Change::Ticket {
                id: TicketId(index as u64),
                before: None,
                after: Some(ticket.clone()),
            })
            .collect();
        for index in 0..self.arrangements.len() {
            let mut changes = changes.clone();
            changes.extend_from_slice(&self.arrangements[index]);
            self.bare.replay(changes.clone())?;
            let found = match self.set.exchanged {
                true => self.check_loans(2),
                false => self.check_activities(),
            };
            self.bare.undo(changes);
            found.map_err(|fault| {
                let (tickets, arranged) = (&self.tickets, &self.arrangements[index]);
                Fault::Conservation(format!("{fault}, with {tickets:?} and {arranged:?}"))
            })?;
        }
        Ok(())
    }

    /// As it is, and with every loan that can be made, and in each of these again.
    fn check_loans(&mut self, more: usize) -> Result<(), Fault> {
        self.check_activities()?;
        if more == 0 {
            return Ok(());
        }
        let ids = 1..=(self.set.pure + self.set.clients) as u64;
        for giver in ids.clone().map(CurrencyId) {
            for kind in [Soft, Hard] {
                let good = Good { resource: Resource::CPU, kind };
                let spare = self.bare.spare(giver, &good);
                let amounts = BTreeSet::from([1, spare]);
                for amount in amounts.into_iter().filter(|amount| *amount > 0 && spare > 0) {
                    for receiver in ids.clone().map(CurrencyId).filter(|it| *it != giver) {
                        let legs = vec![Leg { giver, receiver, good: good.clone(), amount }];
                        let id = ExchangeId(more as u64);
                        let after = Some(Exchange::of(legs));
                        let loan = vec![Change::Exchange { id, before: None, after }];
                        // The second may uncover the first.
                        if self.bare.clone().replay(loan.clone()).is_err() {
                            continue;
                        }
                        self.bare.replay(loan.clone())?;
                        let found = self.check_loans(more - 1);
                        self.bare.undo(loan.clone());
                        found
                            .map_err(|fault| Fault::Exchange(format!("{fault}, with {loan:?}")))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn check_activities(&mut self) -> Result<(), Fault> {
        let ledger = &self.bare;
        debug_assert!(ledger.backing(BASE).next().is_none());
        let model = Model::of(ledger, &Resource::CPU).ok_or(Fault::Cycle(Resource::CPU))?;
        let sure = Sure::of(&model);
        let mut graph = Graph::of(ledger, Resource::CPU);
        let client = |bit: usize| CurrencyId((self.set.pure + 1 + bit) as u64);
        self.count.graphs += 1;
        // In Gray's order one client at a time comes or goes.
        for step in 0..1_u32 << self.set.clients {
            let gray = step ^ (step >> 1);
            if step > 0 {
                let bit = step.trailing_zeros() as usize;
                graph.set_active(client(bit), gray & (1 << bit) != 0);
            }
            let clients: BTreeSet<CurrencyId> =
                (0..self.set.clients).filter(|bit| gray & (1 << bit) != 0).map(client).collect();
            audit_against(ledger, &mut graph, &clients, &model, &sure)?;
            if self.count.graphs.is_multiple_of(64) {
                audit_increments(ledger, &mut graph, &clients)?;
            }
            self.count.activities += 1;
        }
        Ok(())
    }
}

/// Every way in which clients lend to each other, in no circle, and every set of guests.
fn arrangements(set: &Set, bare: &Ledger) -> Vec<Vec<Change>> {
    let id = |client: usize| CurrencyId((set.pure + 1 + client) as u64);
    let mut all = Vec::new();
    // One digit for each client: to whom it lends, itself for nobody.
    for lent in 0..set.clients.pow(set.clients as u32) {
        let holder = |client: usize| lent / set.clients.pow(client as u32) % set.clients;
        let transfers: Vec<Change> = (0..set.clients)
            .filter(|client| holder(*client) != *client)
            .map(|client| Change::Ticket {
                // Past all ids of the graph's own tickets.
                id: TicketId(1000 + client as u64),
                before: None,
                after: Some(Ticket {
                    issuer: id(client),
                    holder: id(holder(client)),
                    resource: Resource::CPU,
                    kind: TicketKind::Transfer,
                    amount: TRANSFER_AMOUNT,
                }),
            })
            .collect();
        if bare.clone().replay(transfers.clone()).is_err() {
            continue;
        }
        for guests in 0..1_u32 << set.clients {
            let classes = (0..set.clients).filter(|client| guests & (1 << client) != 0);
            let classes = classes.map(|client| {
                let before = bare.currency(id(client)).expect("a client").record.clone();
                let mut after = before.clone();
                if let CurrencyKind::Client { class, .. } = &mut after.kind {
                    *class = Class::Guest;
                }
                let (before, after) = (Some(Box::new(before)), Some(Box::new(after)));
                Change::Currency { id: id(client), before, after }
            });
            all.push(transfers.iter().cloned().chain(classes).collect());
        }
    }
    all
}
