//! The shares that a funding graph promises, in exact fractions. It checks allotd, so it shares no
//! code with allotd and takes the plainest way.
//!
//! Base is worth 1. A currency is active while a client that it funds, near or far, is. A
//! currency's value is divided among its active hard tickets and, while a soft ticket is active,
//! its soft-ticket subcurrency, which holds the hard tickets that were not issued (paper 1,
//! figure 4); that one's value is divided among its active soft tickets. On several CPUs nobody is
//! promised more than one (Chandra et al. 2000).

use crate::funding::graph::{BASE, HARD_TOTAL};
use crate::funding::phases::{FundingKind, Tickets};
use num_rational::BigRational;
use num_traits::{One, ToPrimitive};
use std::collections::{BTreeMap, BTreeSet};

/// The promises to clients, as exact fractions.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpectedShares {
    /// Parts of all CPU time that the clients get; they add up to 1 where a client is active.
    pub shares: Vec<BigRational>,
    /// Parts of one CPU each, 0 to 1: the chance to win a draw.
    pub seats: Vec<BigRational>,
}

impl ExpectedShares {
    /// Returns the shares as numbers.
    pub fn shares(&self) -> Vec<f64> {
        self.shares.iter().map(number).collect()
    }

    /// Returns the parts of one CPU as numbers.
    pub fn seats(&self) -> Vec<f64> {
        self.seats.iter().map(number).collect()
    }
}

fn number(fraction: &BigRational) -> f64 {
    fraction.to_f64().expect("a fraction between 0 and 1 is a number")
}

fn whole(value: u64) -> BigRational {
    BigRational::from_integer(value.into())
}

/// Returns the promises on so many CPUs. `clients` are names, each with whether it is active.
pub fn expected_shares(tickets: &Tickets, clients: &[(&str, bool)], cpus: usize) -> ExpectedShares {
    let values: Vec<BigRational> = {
        let active = active(tickets, clients);
        let mut known = BTreeMap::from([(BASE.to_owned(), whole(1))]);
        clients
            .iter()
            .map(
                |(name, on)| if *on { value(name, tickets, &active, &mut known) } else { whole(0) },
            )
            .collect()
    };
    let seats = capped(&values, cpus);
    let total: BigRational = seats.iter().sum();
    let nothing = total == whole(0);
    let shares = seats.iter().map(|seat| if nothing { whole(0) } else { seat / &total }).collect();
    ExpectedShares { shares, seats }
}

/// Returns the names of all that compete: active clients and the currencies that fund them.
fn active(tickets: &Tickets, clients: &[(&str, bool)]) -> BTreeSet<String> {
    let mut active: BTreeSet<String> =
        clients.iter().filter(|(_, on)| *on).map(|(name, _)| (*name).to_owned()).collect();
    loop {
        let before = active.len();
        for ((holder, issuer, _), amount) in tickets {
            if *amount > 0 && active.contains(holder) {
                active.insert(issuer.clone());
            }
        }
        if active.len() == before {
            return active;
        }
    }
}

fn value(
    name: &str,
    tickets: &Tickets,
    active: &BTreeSet<String>,
    known: &mut BTreeMap<String, BigRational>,
) -> BigRational {
    if let Some(value) = known.get(name) {
        return value.clone();
    }
    let mut total = whole(0);
    for ((holder, issuer, kind), amount) in tickets {
        if holder == name && *amount > 0 {
            let part = part(issuer, *kind, *amount, tickets, active);
            total += value(issuer, tickets, active, known) * part;
        }
    }
    known.insert(name.to_owned(), total.clone());
    total
}

/// Returns the part of its issuer's value that an active ticket has.
fn part(
    issuer: &str,
    kind: FundingKind,
    amount: u64,
    tickets: &Tickets,
    active: &BTreeSet<String>,
) -> BigRational {
    let sum = |kind: FundingKind, only_active: bool| -> u64 {
        tickets
            .iter()
            .filter(|((holder, from, of), _)| {
                from == issuer && *of == kind && (!only_active || active.contains(holder))
            })
            .map(|(_, amount)| amount)
            .sum()
    };
    let (soft, hard) = (sum(FundingKind::Soft, true), sum(FundingKind::Hard, true));
    let subcurrency = if soft > 0 { HARD_TOTAL - sum(FundingKind::Hard, false) } else { 0 };
    match kind {
        FundingKind::Hard => BigRational::new(amount.into(), (hard + subcurrency).into()),
        FundingKind::Transfer => BigRational::one(),
        // All hard tickets are issued and none competes: the soft ones have it all.
        FundingKind::Soft if hard + subcurrency == 0 => {
            BigRational::new(amount.into(), soft.into())
        }
        FundingKind::Soft => {
            BigRational::new(subcurrency.into(), (hard + subcurrency).into())
                * BigRational::new(amount.into(), soft.into())
        }
    }
}

/// Turns values into parts of one CPU each. A client that is due at least one of the CPUs left has
/// one, the greatest first; the others share the rest in proportion.
fn capped(values: &[BigRational], cpus: usize) -> Vec<BigRational> {
    let mut order: Vec<usize> = (0..values.len()).filter(|i| values[*i] > whole(0)).collect();
    order.sort_by(|a, b| values[*b].cmp(&values[*a]));
    let mut seats = vec![whole(0); values.len()];
    let mut left = cpus as u64;
    for (place, &client) in order.iter().enumerate() {
        let rest: BigRational = order[place..].iter().map(|i| &values[*i]).sum();
        if left > 0 && &values[client] * whole(left) >= rest {
            seats[client] = whole(1);
            left -= 1;
            continue;
        }
        for &client in &order[place..] {
            seats[client] = &values[client] * whole(left) / &rest;
        }
        break;
    }
    seats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::funding::graph::Graph;
    use crate::funding::phases::phases;

    fn fraction(over: i64, under: i64) -> BigRational {
        BigRational::new(over.into(), under.into())
    }

    fn shares(graph: &str, cpus: usize) -> Vec<Vec<BigRational>> {
        let graph = Graph::parse("test", graph).unwrap();
        phases(&graph, 40.0)
            .unwrap()
            .iter()
            .map(|phase| {
                let clients: Vec<_> = graph
                    .clients
                    .iter()
                    .zip(&phase.active)
                    .map(|(client, on)| (client.name.as_str(), *on))
                    .collect();
                expected_shares(&phase.tickets, &clients, cpus).shares
            })
            .collect()
    }

    #[test]
    fn figure_7_by_hand() {
        for cpus in [1, 2] {
            let found = shares(include_str!("../../graphs/figure-7.toml"), cpus);
            let first = [(1, 6), (1, 3), (1, 6), (1, 3), (0, 1)];
            let second = [(1, 6), (1, 3), (1, 12), (1, 6), (1, 4)];
            assert_eq!(found[0], first.map(|(a, b)| fraction(a, b)), "{cpus} CPUs");
            assert_eq!(found[1], second.map(|(a, b)| fraction(a, b)), "{cpus} CPUs");
        }
        // On four CPUs A2 and B2 would need 4/3 of one: they have one each, and half of the rest
        // each goes to A1 and B1.
        let found = shares(include_str!("../../graphs/figure-7.toml"), 4);
        assert_eq!(found[0], [(1, 4), (1, 4), (1, 4), (1, 4), (0, 1)].map(|(a, b)| fraction(a, b)));
    }

    #[test]
    fn figure_4_keeps_the_hard_share() {
        let found = shares(include_str!("../../graphs/figure-4.toml"), 1);
        // bob has 1/2: D 1/5 of it; A, B, C share 4/5 by 1:1:2, then A and B by 1:1.
        let first = [(1, 10), (1, 10), (1, 5), (1, 10), (1, 4), (1, 4)];
        let second = [(1, 5), (1, 5), (0, 1), (1, 10), (1, 4), (1, 4)];
        assert_eq!(found[0], first.map(|(a, b)| fraction(a, b)));
        assert_eq!(found[1], second.map(|(a, b)| fraction(a, b)));
    }

    #[test]
    fn a_client_of_two_currencies_has_both_parts() {
        let found = shares(include_str!("../../graphs/pooled.toml"), 1);
        // own-alice, more-alice, own-bob, shared.
        let first = [(1, 6), (1, 6), (1, 3), (1, 3)];
        let second = [(1, 10), (1, 10), (1, 3), (7, 15)];
        assert_eq!(found[0], first.map(|(a, b)| fraction(a, b)));
        assert_eq!(found[1], second.map(|(a, b)| fraction(a, b)));
    }

    #[test]
    fn nice_by_hand() {
        let found = shares(include_str!("../../graphs/nice.toml"), 1);
        // task1, task2, hog.
        let by_hand = [
            [(3, 4), (100, 440), (10, 440)],
            [(3, 4), (0, 1), (1, 4)],
            [(300, 310), (0, 1), (10, 310)],
            [(300, 400), (90, 400), (10, 400)],
        ];
        for (found, by_hand) in found.iter().zip(by_hand) {
            assert_eq!(*found, by_hand.map(|(a, b)| fraction(a, b)));
        }
    }

    #[test]
    fn one_cpu_at_most() {
        let values = [fraction(10, 12), fraction(1, 12), fraction(1, 12)];
        assert_eq!(capped(&values, 2), [fraction(1, 1), fraction(1, 2), fraction(1, 2)]);
        assert_eq!(capped(&values, 3), [fraction(1, 1), fraction(1, 1), fraction(1, 1)]);
        assert_eq!(capped(&values, 8), [fraction(1, 1), fraction(1, 1), fraction(1, 1)]);
        let values = [fraction(0, 1), fraction(1, 1)];
        assert_eq!(capped(&values, 2), [fraction(0, 1), fraction(1, 1)]);
    }

    #[test]
    fn all_hard_tickets_issued_and_idle_leave_the_soft_ones_everything() {
        let graph = "title = 't'\n\
            [[currency]]\nname='c'\nfunding=[{from='base',amount=1}]\n\
            [[client]]\nname='soft'\nfunding=[{from='c',amount=7}]\n\
            [[client]]\nname='hard'\nfunding=[{from='c',kind='hard',amount=1000}]\n\
            does=[{at=20,what='sleep'}]\n";
        let found = shares(graph, 1);
        assert_eq!(found[0], [fraction(0, 1), fraction(1, 1)]);
        assert_eq!(found[1], [fraction(1, 1), fraction(0, 1)]);
    }
}
