//! Houses: clients that compete as one, and their weights. Pure.
//!
//! 1. Clients whose tickets are all from one currency, which is not base, are of that currency's **house**. A client with
//!    tickets from base, or of several currencies, is a house of its own.
//! 2. A house weighs what its active clients are worth together. While none is active it weighs what they are guaranteed,
//!    in the same unit, and at most [`MOST_OF_A_SLEEPER`] times the heaviest active one: so it does not wake to an
//!    outdated weight, and does not take the others their precision.
//! 3. Weights are in parts of the mean of all active houses.
//! 4. A house's active clients divide its weight. An inactive one has the part that it would have if it alone awoke.

use ledger::{BASE, CurrencyId};
use std::collections::BTreeSet;
use valuation::Graph;

/// The greatest weight of a sleeper, as a multiple of the heaviest active one's.
const MOST_OF_A_SLEEPER: f64 = 4.0;

/// Returns the house of a client, by rule 1.
pub(crate) fn house_of(graph: &Graph, client: CurrencyId) -> CurrencyId {
    let funding = graph.backing(client).filter(|ticket| ticket.amount > 0);
    let issuers: BTreeSet<CurrencyId> = funding.map(|ticket| ticket.issuer).collect();
    match issuers.first() {
        Some(only) if issuers.len() == 1 && *only != BASE => *only,
        _ => client,
    }
}

/// The worth of a house, or of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Worth {
    /// The value of what is active.
    pub active: u64,
    /// The value that is guaranteed, active or not.
    pub sure: u64,
}

/// Applies rule 2: the weights of all, in the unit of active values.
fn when_awake(all: &[Worth]) -> Vec<f64> {
    let awake = || all.iter().filter(|worth| worth.active > 0);
    let active: f64 = awake().map(|worth| worth.active as f64).sum();
    let sure: f64 = awake().map(|worth| worth.sure as f64).sum();
    let most = awake().map(|worth| worth.active as f64).fold(0.0, f64::max) * MOST_OF_A_SLEEPER;
    let asleep = |worth: &Worth| match active > 0.0 && sure > 0.0 {
        true => (worth.sure as f64 * active / sure).min(most),
        false => worth.sure as f64,
    };
    all.iter()
        .map(|worth| if worth.active > 0 { worth.active as f64 } else { asleep(worth) })
        .collect()
}

/// The weights of houses, by rules 2 and 3.
pub(crate) fn weights(houses: &[Worth]) -> Vec<f64> {
    let raw = when_awake(houses);
    let any_awake = houses.iter().any(|worth| worth.active > 0);
    let counts = |worth: &Worth| worth.active > 0 || !any_awake;
    let counted = houses.iter().zip(&raw).filter(|(worth, _)| counts(worth));
    let (number, sum) = counted.fold((0, 0.0), |(number, sum), (_, raw)| (number + 1, sum + raw));
    let mean = if sum > 0.0 { sum / f64::from(number) } else { 1.0 };
    raw.iter().map(|raw| raw / mean).collect()
}

/// The part that each client has of its house's weight, by rule 4.
pub(crate) fn parts(clients: &[Worth]) -> Vec<f64> {
    let raw = when_awake(clients);
    let awake: f64 = clients.iter().map(|worth| worth.active as f64).sum();
    let part = |(worth, raw): (&Worth, &f64)| {
        let together = if worth.active > 0 { awake } else { awake + raw };
        if together > 0.0 { raw / together } else { 0.0 }
    };
    clients.iter().zip(&raw).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worth(active: u64, sure: u64) -> Worth {
        Worth { active, sure }
    }

    #[test]
    fn weights_are_parts_of_the_mean_and_sleepers_weigh_what_they_will_be_worth() {
        assert_eq!(weights(&[worth(300, 300), worth(100, 100)]), [1.5, 0.5]);
        // The second sleeps: the first has all, and the second keeps a third of that.
        let asleep = weights(&[worth(400, 300), worth(0, 100)]);
        assert!(asleep[0] == 1.0 && (asleep[1] - 1.0 / 3.0).abs() < 1e-9, "{asleep:?}");
        assert_eq!(weights(&[worth(1, 1), worth(0, 1000)]), [1.0, 4.0], "no more than four times");
        assert_eq!(weights(&[worth(0, 3), worth(0, 1)]), [1.5, 0.5], "all sleep");
        assert_eq!(weights(&[worth(0, 0)]), [0.0]);
        assert_eq!(weights(&[]), [0.0; 0]);
    }

    #[test]
    fn a_house_is_divided_among_its_awake_clients() {
        assert_eq!(parts(&[worth(100, 100), worth(300, 300), worth(0, 400)]), [0.25, 0.75, 0.5]);
        assert_eq!(parts(&[worth(0, 1), worth(0, 3)]), [1.0, 1.0], "whoever wakes first");
        assert_eq!(parts(&[worth(0, 0)]), [0.0]);
        assert_eq!(parts(&[]), [0.0; 0]);
    }
}
