//! MTR-LS, move to rear list scheduling (Bruno, Gabber, Özden & Silberschatz, USENIX 1998; the CPU
//! scheduler of paper 2), on several seats.
//!
//! 1. **List**. All clients stand in a list, those that do not compete too; a new one stands at the
//!    rear. On one seat, the first that competes wins.
//! 2. **Quota**. A client's quota is its part α of a round, [`ROUND_QUANTA`] quanta. What it uses
//!    is taken from it. When it is used up the client gets another and moves to the rear. α is
//!    weight · seats / total weight, where all that compete count. (The paper's α is fixed; here it
//!    changes, so what is left is counted in parts of a quota, each use by the α that it had.)
//! 3. **Sleep**. Who leaves keeps place and quota.
//! 4. **Places are times** (ours), counted in rounds: a round passes when all seats have been held for
//!    one. A new client's place is one round from now; who moves to the rear, one round from where
//!    it stood, or from one round ago where that is later. When all that compete are busy this is the
//!    order of the list, for everybody moves once in a round. On several seats it is not: those with
//!    small quotas would move while one with a great quota holds its seat, and be served a second
//!    time before that one is served again.
//! 5. **Several seats: the first so many win; cap** (ours; Chandra et al. 2000). Who is due a whole
//!    seat ([`crate::feasible`]) wins for certain; its quota is a whole round, so that it keeps its
//!    place among the others, who share what is left.
//! 6. **Whole quanta** (ours). A quota shorter than a quantum is overrun by a win. What was used
//!    too much is paid by missing rounds, as many as it takes.
//! 7. **Bounds**. A client owes at most [`MAX_DEBT_QUANTA`].
//!
//! Property: what a client gets in any time for which it competes is at least α times that time,
//! less a constant: its quota, and what others that woke nearer the front had left of theirs.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ClientKey, MAX_DEBT_QUANTA, MAX_WEIGHT, Policy, PolicyName, feasible,
    meter::{self, ONE_QUANTUM},
};

/// The length of a round.
pub const ROUND_QUANTA: u64 = 10;

/// A round, in parts of a quantum.
const ROUND: u128 = ROUND_QUANTA as u128 * ONE_QUANTUM as u128;

/// A whole round or quota, in parts of it.
const ONE: i128 = 1 << 40;

struct Client {
    weight: u64,
    active: bool,
    /// Won for certain in the last draw in which it competed.
    certain: bool,
    /// In parts of a round.
    place: i128,
    /// Where it goes when its quota is used up, known once it has begun it.
    next_place: Option<i128>,
    /// What is left of its quota, in parts of it.
    left: i128,
}

/// The MTR-LS scheduler. See the [module](self).
#[derive(Default)]
pub struct MtrLs {
    clients: BTreeMap<ClientKey, Client>,
    /// Who competes with a weight, in the order of the list.
    list: BTreeSet<(i128, ClientKey)>,
    by_weight: BTreeSet<(u64, ClientKey)>,
    active_weight: u128,
    /// Rounds that have passed, in parts (rule 4).
    now: i128,
    /// Seats in the last draw.
    seats: u128,
    /// Seats, and the weight of those that shared them, in the last draw (without rule 5's).
    shared: (u128, u128),
    /// Who won for certain in the last draw.
    certain: Vec<ClientKey>,
}

impl MtrLs {
    /// A scheduler with an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    fn enter(&mut self, key: ClientKey) {
        let client = &self.clients[&key];
        self.list.insert((client.place, key));
        self.by_weight.insert((client.weight, key));
        self.active_weight += u128::from(client.weight);
    }

    fn exit(&mut self, key: ClientKey) {
        let client = &self.clients[&key];
        self.list.remove(&(client.place, key));
        self.by_weight.remove(&(client.weight, key));
        self.active_weight -= u128::from(client.weight);
    }
}

/// A client's quota (rule 2) in parts of a quantum, at least one.
fn quota(weight: u64, (seats, total): (u128, u128)) -> u128 {
    let part = ROUND * u128::from(weight) * seats.max(1) / total.max(1);
    part.clamp(1, ROUND)
}

impl Policy for MtrLs {
    fn name(&self) -> &'static str {
        PolicyName::MtrLs.as_str()
    }

    fn join(&mut self, client: ClientKey, weight: u64) {
        assert!(weight <= MAX_WEIGHT, "weight {weight} of client {client} is out of range");
        let place = self.now + ONE;
        let entry = self.clients.entry(client).or_insert_with(|| Client {
            weight,
            active: false,
            certain: false,
            place,
            next_place: None,
            left: ONE,
        });
        assert!(!entry.active, "client {client} joined twice");
        entry.active = true;
        entry.weight = weight;
        if weight > 0 {
            self.enter(client);
        }
    }

    fn leave(&mut self, client: ClientKey) {
        let Some(&Client { weight, active: true, .. }) = self.clients.get(&client) else { return };
        if weight > 0 {
            self.exit(client);
        }
        self.clients.get_mut(&client).expect("it is there").active = false;
    }

    fn forget(&mut self, client: ClientKey) {
        self.leave(client);
        self.clients.remove(&client);
    }

    fn reweigh(&mut self, client: ClientKey, weight: u64) {
        assert!(weight <= MAX_WEIGHT, "weight {weight} of client {client} is out of range");
        let Some(&Client { weight: old, active: true, .. }) = self.clients.get(&client) else {
            return;
        };
        if old > 0 {
            self.exit(client);
        }
        self.clients.get_mut(&client).expect("it is there").weight = weight;
        if weight > 0 {
            self.enter(client);
        }
    }

    fn draw(&mut self, seats: usize, winners: &mut Vec<ClientKey>) {
        winners.clear();
        for key in self.certain.drain(..) {
            if let Some(client) = self.clients.get_mut(&key).filter(|client| client.active) {
                client.certain = false;
            }
        }
        let heaviest = self.by_weight.iter().rev();
        let count = feasible::capped(self.active_weight, seats, heaviest.clone().map(|&(w, _)| w));
        let mut total = self.active_weight;
        for &(weight, key) in heaviest.take(count) {
            total -= u128::from(weight);
            self.certain.push(key);
            self.clients.get_mut(&key).expect("it competes").certain = true;
        }
        self.seats = seats as u128;
        self.shared = ((seats - count) as u128, total);
        winners.extend_from_slice(&self.certain);
        let others = self.list.iter().filter(|(_, key)| !self.clients[key].certain);
        winners.extend(others.take(seats - count).map(|&(_, key)| key));
    }

    fn charge(&mut self, client: ClientKey, used_ns: u64, quantum_ns: u64) {
        let key = client;
        let Some(client) = self.clients.get_mut(&key) else { return };
        let used = u128::from(meter::parts(used_ns, quantum_ns));
        if client.weight == 0 || used == 0 {
            return;
        }
        let quota = if client.certain { ROUND } else { quota(client.weight, self.shared) };
        // Rounding up: when a quota was used in so many parts as it has, nothing is left.
        let of_quota = |parts: u128| (parts * ONE as u128).div_ceil(quota) as i128;
        let next = *client.next_place.get_or_insert(client.place.max(self.now - ONE) + ONE);
        self.now += (used * ONE as u128 / (ROUND * self.seats.max(1))) as i128;
        client.left -= of_quota(used);
        if client.left > 0 {
            return;
        }
        let debt = (-client.left).min(of_quota(u128::from(MAX_DEBT_QUANTA * ONE_QUANTUM)));
        client.left = ONE - debt % ONE;
        client.next_place = None;
        let (old, new) = (client.place, next + debt / ONE * ONE);
        client.place = new;
        if client.active {
            self.list.remove(&(old, key));
            self.list.insert((new, key));
        }
    }

    fn promised(&self, seats: usize) -> Vec<(ClientKey, u64)> {
        let active = self.clients.iter().filter(|(_, client)| client.active);
        let weights: Vec<_> = active.map(|(&key, client)| (key, client.weight)).collect();
        feasible::promised(&weights, seats)
    }
}
