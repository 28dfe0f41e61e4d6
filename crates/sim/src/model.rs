//! The naive model: what the papers' rules say that everybody is due, in exact fractions.
//!
//! Written from paper 1 (2.1, 3.3, figure 4; exchanges, 4.3; transfers, 5.3), paper 4 (guests) and
//! what the ledger says of covers, and from nothing else: it takes the ledger's bare
//! lists of currencies and tickets, makes every soft-ticket subcurrency a node of its own, and
//! computes everything from the root down, from scratch, each time.

use crate::covers::covers;
use crate::fraction::Fraction;
use ledger::{BASE, Class, CurrencyId, Good, HARD_TOTAL, Ledger, Resource, TicketKind};
use std::collections::{BTreeMap, BTreeSet};

/// A node of the graph with its subcurrencies made explicit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// A currency of the ledger.
    Currency(CurrencyId),
    /// The *soft_tix* subcurrency of one that has issued hard tickets.
    SoftTix(CurrencyId),
}

#[derive(Clone, Debug)]
struct Backing {
    issuer: usize,
    amount: u64,
}

/// One resource's graph.
#[derive(Clone, Debug)]
pub struct Model {
    names: Vec<Name>,
    places: BTreeMap<Name, usize>,
    backing: Vec<Vec<Backing>>,
    // From base down.
    order: Vec<usize>,
    // Whether what a node issues are hard tickets, of which there are always 1000.
    issues_hard: Vec<bool>,
    // Whether a node is a client that has lent all that it holds, to the holder of the only
    // ticket that it issues.
    lends: Vec<bool>,
    // Whether a node is a guest.
    guest: Vec<bool>,
    // What base's hard tickets total where they are amounts: of memory.
    amount: Option<u64>,
    // What is given and was received, for each kind: base tickets, and where the charge of who
    // gives goes while it is idle, the nodes of base excepted.
    traded: [Traded; 2],
}

/// What is exchanged of base's tickets of one kind.
#[derive(Clone, Debug)]
struct Traded {
    given: Vec<u64>,
    received: Vec<u64>,
    sinks_to: Vec<Option<usize>>,
}

/// An exchange's roundings cost less than so many parts: base's tickets that count are never less
/// than a sixteenth of those that somebody holds or gave.
const ROUNDED: u64 = 17;

const KINDS: [TicketKind; 2] = [TicketKind::Soft, TicketKind::Hard];

/// Who is active and what everybody is worth.
#[derive(Clone, Debug)]
pub struct Values {
    active: Vec<bool>,
    values: Vec<Fraction>,
    // What a node is charged for idle holders of its tickets.
    sunk: Vec<Fraction>,
    // How many roundings exchanges cost a node.
    rounded: Vec<u64>,
    /// A node that is worth less than nothing.
    pub negative: Option<Name>,
}

impl Model {
    /// The graph of one resource; `None` where it has a cycle.
    pub fn of(ledger: &Ledger, resource: &Resource) -> Option<Model> {
        let tickets: Vec<_> = ledger
            .tickets()
            .map(|(_, ticket)| ticket)
            .filter(|ticket| ticket.resource == *resource)
            .collect();
        let mut hard: BTreeMap<CurrencyId, u64> = BTreeMap::new();
        for ticket in tickets.iter().filter(|ticket| ticket.kind == TicketKind::Hard) {
            *hard.entry(ticket.issuer).or_default() += ticket.amount;
        }
        let mut names: Vec<Name> =
            ledger.currencies().map(|currency| Name::Currency(currency.id)).collect();
        names.extend(hard.keys().map(|id| Name::SoftTix(*id)));
        let places: BTreeMap<Name, usize> =
            names.iter().enumerate().map(|(place, name)| (*name, place)).collect();
        let mut backing = vec![Vec::new(); names.len()];
        let mut issues_hard = vec![false; names.len()];
        for (id, issued) in &hard {
            let issuer = places[&Name::Currency(*id)];
            issues_hard[issuer] = true;
            let total = ledger.hard_total(*id, resource);
            let amount = total.checked_sub(*issued).expect("no more hard tickets than there are");
            backing[places[&Name::SoftTix(*id)]].push(Backing { issuer, amount });
        }
        let mut lends = vec![false; names.len()];
        for ticket in tickets {
            lends[places[&Name::Currency(ticket.issuer)]] |= ticket.kind == TicketKind::Transfer;
            let soft_tix = ticket.kind == TicketKind::Soft && hard.contains_key(&ticket.issuer);
            let issuer =
                if soft_tix { Name::SoftTix(ticket.issuer) } else { Name::Currency(ticket.issuer) };
            let issuer = places[&issuer];
            let holder = places[&Name::Currency(ticket.holder)];
            backing[holder].push(Backing { issuer, amount: ticket.amount });
        }
        let order = from_the_top(&backing)?;
        let guest = names
            .iter()
            .map(|name| match name {
                Name::Currency(id) => {
                    ledger.currency(*id).is_some_and(|currency| currency.class() == Class::Guest)
                }
                Name::SoftTix(_) => false,
            })
            .collect();
        let is_memory = resource.is_amount() && ledger.memory_kib() > 0;
        let amount = is_memory.then(|| ledger.memory_kib());
        let traded = KINDS.map(|kind| {
            let good = Good { resource: resource.clone(), kind };
            let mut all = Traded {
                given: vec![0; names.len()],
                received: vec![0; names.len()],
                sinks_to: vec![None; names.len()],
            };
            let legs = ledger.exchanges().flat_map(|(_, exchange)| &exchange.legs);
            for leg in legs.filter(|leg| leg.good == good) {
                all.given[places[&Name::Currency(leg.giver)]] += leg.amount;
                all.received[places[&Name::Currency(leg.receiver)]] += leg.amount;
            }
            if all.given.iter().any(|given| *given > 0) {
                for (id, cover) in covers(ledger, &good) {
                    let Some(main) = cover.main.filter(|main| main.issuer != BASE) else {
                        continue;
                    };
                    let has_hard = hard.get(&main.issuer).is_some_and(|hard| *hard > 0);
                    let sinks_to = match main.kind == TicketKind::Soft && has_hard {
                        true => Name::SoftTix(main.issuer),
                        false => Name::Currency(main.issuer),
                    };
                    all.sinks_to[places[&Name::Currency(id)]] = Some(places[&sinks_to]);
                }
                for id in hard.keys().filter(|id| **id != BASE) {
                    let issuer = places[&Name::Currency(*id)];
                    all.sinks_to[places[&Name::SoftTix(*id)]] = Some(issuer);
                }
            }
            all
        });
        Some(Model { names, places, backing, order, issues_hard, lends, guest, amount, traded })
    }

    /// Who is worth what while `clients` compete.
    pub fn now(&self, clients: &BTreeSet<CurrencyId>) -> Values {
        // A client that lends competes with nothing itself.
        let mut active: Vec<bool> = self
            .names
            .iter()
            .zip(&self.lends)
            .map(|(name, lends)| {
                matches!(name, Name::Currency(id) if clients.contains(id)) && !lends
            })
            .collect();
        // Issuers of what backs the active are active; a subcurrency's currency is, whatever
        // the subcurrency still gets. No guest ever is.
        for &holder in self.order.iter().rev() {
            active[holder] &= !self.guest[holder];
            if active[holder] {
                let soft_tix = matches!(self.names[holder], Name::SoftTix(_));
                for ticket in &self.backing[holder] {
                    if ticket.amount > 0 || soft_tix {
                        active[ticket.issuer] = true;
                    }
                }
            }
        }
        for (place, kind) in self.place_of_soft() {
            let received = &self.traded[kind].received;
            if received.iter().zip(&active).any(|(received, active)| *active && *received > 0) {
                active[place] = true;
                active[self.place(BASE)] = true;
            }
        }
        let (charged, uncharged) = self.charged(&active);
        let mut total = self.totals(&active);
        for (place, kind) in self.place_of_soft() {
            let received = self.traded[kind].received.iter().zip(&active);
            let received: u64 = received.filter(|it| *it.1).map(|it| it.0).sum();
            let given: u64 = self.traded[kind].given.iter().sum();
            total[place] = total[place] + received + uncharged[kind] - given;
        }
        if let Some(amount) = self.amount
            && self.issues_hard[self.place(BASE)]
        {
            total[self.place(BASE)] = amount;
        }
        self.divide(active, &total, &charged)
    }

    /// What everybody is worth when every ticket is active, and of the hard ones all 1000.
    pub fn guaranteed(&self) -> Values {
        let mut total = self.totals(&vec![true; self.names.len()]);
        // A guest's tickets count, so that others are sure of no more than they will have when
        // it is a host again; it is worth nothing itself.
        let active: Vec<bool> = self.guest.iter().map(|guest| !guest).collect();
        for (place, hard) in self.issues_hard.iter().enumerate() {
            if *hard {
                total[place] = self.hard_total(place);
            }
        }
        // All that was received was given: base's tickets are as many as without.
        let charged = [0, 1].map(|kind| self.traded[kind].given.clone());
        self.divide(active, &total, &charged)
    }

    /// Whether what nobody active holds of base is nobody's: of memory.
    pub fn keeps_back(&self) -> bool {
        self.amount.is_some() && self.issues_hard[self.place(BASE)]
    }

    fn hard_total(&self, place: usize) -> u64 {
        self.amount.filter(|_| self.names[place] == Name::Currency(BASE)).unwrap_or(HARD_TOTAL)
    }

    /// What paths of hard tickets alone are worth: the fixed shares of paper 1, 3.3.
    pub fn reserved(&self) -> Values {
        let mut values = vec![Fraction::zero(); self.names.len()];
        for &place in &self.order {
            values[place] = match self.names[place] {
                Name::Currency(BASE) => Fraction::one(),
                Name::SoftTix(_) => Fraction::zero(),
                Name::Currency(_) if self.guest[place] => Fraction::zero(),
                Name::Currency(_) => self.backing[place]
                    .iter()
                    .filter_map(|ticket| {
                        let whole = &values[ticket.issuer];
                        if self.lends[ticket.issuer] {
                            return Some(whole.clone());
                        }
                        let hard = self.issues_hard[ticket.issuer];
                        let total = self.hard_total(ticket.issuer);
                        hard.then(|| whole.times(ticket.amount, total))
                    })
                    .fold(Fraction::zero(), |sum, value| sum.plus(&value)),
            };
        }
        self.owned(vec![true; self.names.len()], values)
    }

    /// With what each keeps: who lends keeps nothing.
    fn owned(&self, active: Vec<bool>, mut values: Vec<Fraction>) -> Values {
        for (value, _) in values.iter_mut().zip(&self.lends).filter(|(_, lends)| **lends) {
            *value = Fraction::zero();
        }
        let rounded = vec![0; self.names.len()];
        let sunk = vec![Fraction::zero(); self.names.len()];
        Values { active, values, sunk, rounded, negative: None }
    }

    fn totals(&self, active: &[bool]) -> Vec<u64> {
        let mut totals = vec![0; self.names.len()];
        for (holder, tickets) in self.backing.iter().enumerate() {
            for ticket in tickets.iter().filter(|_| active[holder]) {
                totals[ticket.issuer] += ticket.amount;
            }
        }
        totals
    }

    /// Which nodes' totals count base's tickets of each kind: hard ones only where there are some.
    fn place_of_soft(&self) -> Vec<(usize, usize)> {
        let base = self.place(BASE);
        match self.issues_hard[base] {
            true => vec![(self.places[&Name::SoftTix(BASE)], 0), (base, 1)],
            false => vec![(base, 0)],
        }
    }

    /// What everybody who is active is charged, and what nobody is, because all are idle.
    fn charged(&self, active: &[bool]) -> ([Vec<u64>; 2], [u64; 2]) {
        let mut uncharged = [0; 2];
        let charged = [0, 1].map(|kind| {
            let traded = &self.traded[kind];
            let mut charged = traded.given.clone();
            for &node in self.order.iter().rev().filter(|node| !active[**node]) {
                let sinks = std::mem::take(&mut charged[node]);
                match traded.sinks_to[node] {
                    Some(to) => charged[to] += sinks,
                    None => uncharged[kind] += sinks,
                }
            }
            charged
        });
        (charged, uncharged)
    }

    /// Without any exchange.
    pub fn bare(&self) -> Model {
        let mut bare = self.clone();
        for traded in &mut bare.traded {
            traded.given.fill(0);
            traded.received.fill(0);
        }
        bare
    }

    /// Whether anything is exchanged.
    pub fn trades(&self) -> bool {
        self.traded.iter().any(|traded| traded.given.iter().any(|given| *given > 0))
    }

    /// Who is party to an exchange, or held by a party's tickets, over any number of them.
    pub fn concerned(&self) -> Vec<bool> {
        let mut concerned = vec![false; self.names.len()];
        for &place in &self.order {
            let party =
                self.traded.iter().any(|all| all.given[place] > 0 || all.received[place] > 0);
            let funded = self.backing[place].iter().any(|ticket| concerned[ticket.issuer]);
            concerned[place] = party || funded;
        }
        concerned
    }

    fn divide(&self, active: Vec<bool>, totals: &[u64], charged: &[Vec<u64>; 2]) -> Values {
        let mut rounded = vec![0; self.names.len()];
        let mut sunk = vec![Fraction::zero(); self.names.len()];
        let mut negative = None;
        // What one of base's tickets of each kind is worth.
        let units: Vec<(Fraction, usize)> = self
            .place_of_soft()
            .into_iter()
            .filter(|(place, _)| totals[*place] > 0)
            .map(|(place, kind)| {
                let base = self.place(BASE);
                let sub = if place == base { 0 } else { self.backing[place][0].amount };
                let pool = match totals[base] {
                    total if place != base && total > 0 => Fraction::new(sub, total),
                    _ => Fraction::one(),
                };
                (pool.times(1, totals[place]), kind)
            })
            .collect();
        let mut values = vec![Fraction::zero(); self.names.len()];
        for &place in &self.order {
            if self.names[place] == Name::Currency(BASE) {
                values[place] = Fraction::one();
                continue;
            }
            if !active[place] {
                continue;
            }
            let mut value = Fraction::zero();
            for ticket in &self.backing[place] {
                if ticket.amount > 0 {
                    let whole = &values[ticket.issuer];
                    value = value.plus(&whole.times(ticket.amount, totals[ticket.issuer]));
                } else if totals[ticket.issuer] == 0 && self.is_soft_tix(place) {
                    // All 1000 are issued and none of them is active: nobody else competes.
                    value = value.plus(&values[ticket.issuer]);
                }
            }
            for (unit, kind) in &units {
                let (received, charged) =
                    (self.traded[*kind].received[place], charged[*kind][place]);
                rounded[place] += ROUNDED * (u64::from(received > 0) + u64::from(charged > 0));
                let own = self.traded[*kind].given[place];
                sunk[place] = sunk[place].plus(&unit.times(charged - own, 1));
                value = value.plus(&unit.times(received, 1));
                value = value.minus(&unit.times(charged, 1)).unwrap_or_else(|| {
                    negative.get_or_insert(self.names[place]);
                    Fraction::zero()
                });
            }
            values[place] = value;
        }
        Values { sunk, rounded, negative, ..self.owned(active, values) }
    }

    fn is_soft_tix(&self, place: usize) -> bool {
        matches!(self.names[place], Name::SoftTix(_))
    }

    /// A currency's place, for [`Values`].
    pub fn place(&self, id: CurrencyId) -> usize {
        self.places[&Name::Currency(id)]
    }

    /// Whether tickets of positive amounts lead from base to it.
    pub fn is_funded(&self, id: CurrencyId) -> bool {
        let mut reached = vec![false; self.names.len()];
        for &place in &self.order {
            reached[place] = self.names[place] == Name::Currency(BASE)
                || self.backing[place].iter().any(|ticket| {
                    (ticket.amount > 0 || self.is_soft_tix(place)) && reached[ticket.issuer]
                });
        }
        reached[self.place(id)]
    }

    /// How many divisions with a remainder lie on the way to the value of a node: the active
    /// tickets that it and those above it hold, a subcurrency's own ticket among them.
    pub fn divisions(&self, values: &Values, place: usize) -> u64 {
        let mut seen = BTreeSet::from([place]);
        let mut open = vec![place];
        let mut count = 0;
        while let Some(node) = open.pop() {
            count += values.rounded[node];
            for ticket in &self.backing[node] {
                let divides = ticket.amount > 0 && values.active[node];
                count += u64::from(divides) * if self.trades() { ROUNDED } else { 1 };
                if (divides || self.is_soft_tix(node)) && seen.insert(ticket.issuer) {
                    open.push(ticket.issuer);
                }
            }
        }
        count
    }

    /// How many parts so many divisions, and the exchanges, cost less than in all.
    pub fn bound_of_all(&self, values: &Values, divisions: u64) -> u64 {
        let each = if self.trades() { ROUNDED } else { 1 };
        divisions * each + values.rounded.iter().sum::<u64>()
    }

    /// All active tickets of positive amounts, and how many currencies issue them.
    pub fn active_tickets(&self, values: &Values) -> (u64, u64) {
        let mut tickets = 0;
        let mut issuers = BTreeSet::new();
        for (holder, name) in self.names.iter().enumerate() {
            if values.active[holder] && matches!(name, Name::Currency(_)) {
                for ticket in self.backing[holder].iter().filter(|ticket| ticket.amount > 0) {
                    tickets += 1;
                    issuers.insert(match self.names[ticket.issuer] {
                        Name::Currency(id) | Name::SoftTix(id) => id,
                    });
                }
            }
        }
        (tickets, issuers.len() as u64)
    }
}

impl Values {
    /// Whether a node competes.
    pub fn is_active(&self, place: usize) -> bool {
        self.active[place]
    }

    /// Its value, and what of it idle holders of its tickets have given away.
    pub fn with_sunk(&self, place: usize) -> Fraction {
        self.values[place].plus(&self.sunk[place])
    }

    /// Its value as a part of base's: of what the tickets that it holds are worth, what it has
    /// not lent.
    pub fn value(&self, place: usize) -> &Fraction {
        &self.values[place]
    }
}

/// Every node after those that back it; `None` where that cannot be.
fn from_the_top(backing: &[Vec<Backing>]) -> Option<Vec<usize>> {
    let mut missing: Vec<usize> = backing.iter().map(Vec::len).collect();
    let mut issued = vec![Vec::new(); backing.len()];
    for (holder, tickets) in backing.iter().enumerate() {
        for ticket in tickets {
            issued[ticket.issuer].push(holder);
        }
    }
    let mut order: Vec<usize> = (0..backing.len()).filter(|place| missing[*place] == 0).collect();
    let mut next = 0;
    while let Some(&place) = order.get(next) {
        for &holder in &issued[place] {
            missing[holder] -= 1;
            if missing[holder] == 0 {
                order.push(holder);
            }
        }
        next += 1;
    }
    (order.len() == backing.len()).then_some(order)
}
