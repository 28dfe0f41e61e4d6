//! Stride scheduling (Waldspurger & Weihl, MIT/LCS/TM-528, 1995), on several seats.
//!
//! Units: a client's **stride** is [`STRIDE1`] / weight, what its **pass** grows by for one whole
//! quantum. [`STRIDE1`] is 2⁸⁰ (the paper's is 2²⁰), and a pass is a signed 128-bit number: with
//! the greatest weight, 2⁴⁸, a quantum still moves it by 2³² units, so every charge is exact to
//! 2⁻³² quanta (rounded down); with weight 1 and one busy seat it overflows after 2⁴⁷ quanta: 4 400
//! years at 1 ms.
//!
//! 1. **Draw** (1995, section 3). The client with the least pass wins; the lower key among
//!    equals. On s seats the s least win. Property on one seat: of any two clients that stay busy,
//!    neither is more than one quantum away from its part of what both got, two where one was
//!    new (rule 4).
//! 2. **Charge** (section 3.3). pass += stride · used / quantum, but not beyond
//!    [`MAX_DEBT_QUANTA`] strides after the **front**, the greatest pass that won in the last draw:
//!    who ran far ahead in left-over time that nobody else wanted waits for the others to go
//!    [`MAX_DEBT_QUANTA`] of its strides, no longer. (The bound is ours.) A winner starts at the
//!    front or before it, so whole quanta never meet the bound.
//! 3. **Global pass** (section 3.2). It grows by [`STRIDE1`] / total weight for a quantum that
//!    *any* client uses. (Of use, not of elapsed time as in the paper: on a machine with outside
//!    load all clients use less, and none may fall behind for that.) Each draw first lifts it to the
//!    least pass in the race, so clients that came, waited and went without running cannot leave
//!    the others ahead of it, to be overtaken by whoever comes next.
//! 4. **Leave and join** (section 3.2). remain = pass − global pass on leaving; pass = global pass +
//!    remain on return. Kept in quanta (times the weight), so a change of weight while away,
//!    remain · stride′ / stride, needs no work. The paper gives a new client a remain of one
//!    stride. Then sixty equal clients that come together run in one block, and one that is due
//!    as much as all of them waits for sixty quanta and holds the seat for sixty. So here the
//!    n-th new client's remain is 1 + frac(n · φ) strides, φ the golden ratio: those who come
//!    together are spread evenly, and nobody gains by being new.
//! 5. **Bound on remain** (ours). Between −[`MAX_CREDIT_QUANTA`] and +[`MAX_DEBT_QUANTA`] quanta. A
//!    sleeper banks nothing, since its remain does not move while it sleeps.
//! 6. **Change of weight** (section 3.2). pass = global pass + remain · stride′ / stride.
//! 7. **Several seats: cap** (Chandra et al. 2000). Clients that must have a whole seat
//!    ([`crate::feasible`]) are **certain**: they win each draw and do not race; their remain waits
//!    as if they were away. The others race for the seats that are left, with weights that are
//!    feasible there.
//! 8. **Unused offers lapse** (ours). A client that wins and wins but uses less than its part of
//!    what all use (its demand is less than its share) would fall behind the global pass without
//!    end, then hold the machine for as long when it gets busy. So over the quanta that it wins,
//!    the sum of (its part − what it used), never less than 0, may reach [`MAX_CREDIT_QUANTA`];
//!    what is beyond counts as used. A client that must wait for its turn uses more than its part
//!    when it gets it, so its sum stays near 0: compensation for short quanta is not touched.
//!
//! O(log n) for each operation, O(s log n) for a draw of s seats.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ClientKey, MAX_DEBT_QUANTA, MAX_WEIGHT, Policy, PolicyName, feasible,
    meter::{self, ONE_QUANTUM},
};

/// What a pass grows by for one quantum used with weight 1.
pub const STRIDE1: i128 = 1 << 80;

/// A client keeps a claim to at most this many quanta when it sleeps (rule 5), or does not use
/// what it wins (rule 8).
pub const MAX_CREDIT_QUANTA: u64 = 8;

const MAX_REMAIN: i128 = MAX_DEBT_QUANTA as i128 * STRIDE1;
const MAX_CREDIT: i128 = MAX_CREDIT_QUANTA as i128 * STRIDE1;

/// Pass units, for weight 1, in one part of a quantum.
const STRIDE1_PER_PART: i128 = STRIDE1 / ONE_QUANTUM as i128;

#[derive(Clone, Copy, Debug)]
enum Place {
    /// Competes for the seats that are not certain.
    Racing { pass: i128 },
    /// Does not: it is away, or has weight 0, or wins for certain. (pass − global pass) · weight.
    Waiting { remain: i128 },
}

#[derive(Clone, Copy, Debug)]
struct Client {
    weight: u64,
    active: bool,
    place: Place,
    /// Raced when it last left, so its last charge may still come.
    left_race: bool,
    /// Parts used since its last win.
    used: u64,
    /// Rule 8's sum, in quanta · [`STRIDE1`].
    lapsing: i128,
}

/// The stride scheduler. See the [module](self).
pub struct Stride {
    clients: BTreeMap<ClientKey, Client>,
    /// Who races, by pass.
    race: BTreeSet<(i128, ClientKey)>,
    racing_weight: u128,
    /// All active clients with a weight.
    by_weight: BTreeSet<(u64, ClientKey)>,
    active_weight: u128,
    global_pass: i128,
    /// The greatest pass that won in the last draw (rule 2).
    front: i128,
    /// What the global pass grew by since the last draw because of use.
    advance: i128,
    /// The last draw's winners that raced, and their weights then.
    raced: Vec<(ClientKey, u64)>,
    /// Who wins for certain, heaviest first.
    certain: Vec<ClientKey>,
    /// How many clients were new so far.
    arrivals: u64,
}

/// The remain of the n-th new client (rule 4), in quanta · [`STRIDE1`].
fn first_remain(n: u64) -> i128 {
    /// The fraction of the golden ratio, in parts of 2⁶⁴.
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    STRIDE1 + (STRIDE1 >> 64) * i128::from(n.wrapping_mul(GOLDEN))
}

impl Default for Stride {
    fn default() -> Self {
        Self::new()
    }
}

impl Stride {
    /// A stride scheduler without clients.
    pub fn new() -> Self {
        Stride {
            clients: BTreeMap::new(),
            race: BTreeSet::new(),
            racing_weight: 0,
            by_weight: BTreeSet::new(),
            active_weight: 0,
            global_pass: 0,
            front: 0,
            advance: 0,
            raced: Vec::new(),
            certain: Vec::new(),
            arrivals: 0,
        }
    }

    /// The client joins the race at global pass + remain (rule 4). It has a weight.
    fn enter(&mut self, key: ClientKey) {
        let client = self.clients.get_mut(&key).expect("only known clients enter the race");
        let Place::Waiting { remain } = client.place else { unreachable!("client {key} races") };
        let pass = self.global_pass + remain.div_euclid(i128::from(client.weight));
        client.place = Place::Racing { pass };
        self.race.insert((pass, key));
        self.racing_weight += u128::from(client.weight);
    }

    /// The client leaves the race, if it is in it, with its remain (rules 4 and 5).
    fn exit(&mut self, key: ClientKey) {
        let client = self.clients.get_mut(&key).expect("only known clients exit the race");
        let Place::Racing { pass } = client.place else { return };
        let remain = (pass - self.global_pass).saturating_mul(i128::from(client.weight));
        client.place = Place::Waiting { remain: remain.clamp(-MAX_CREDIT, MAX_REMAIN) };
        self.race.remove(&(pass, key));
        self.racing_weight -= u128::from(client.weight);
    }

    /// Rule 3's lower bound.
    fn lift_global_pass(&mut self) {
        if let Some(&(least, _)) = self.race.first() {
            self.global_pass = self.global_pass.max(least);
        }
    }

    /// A racing client used `quanta` · [`STRIDE1`]: its pass and the global pass grow (rules 2
    /// and 3).
    fn advance(&mut self, key: ClientKey, quanta: i128) {
        let client = self.clients.get_mut(&key).expect("only known clients advance");
        let Place::Racing { pass } = &mut client.place else { unreachable!("{key} does not race") };
        let old = *pass;
        *pass += quanta / i128::from(client.weight);
        if *pass != old {
            let new = *pass;
            self.race.remove(&(old, key));
            self.race.insert((new, key));
        }
        let step = quanta / self.racing_weight as i128;
        self.global_pass += step;
        self.advance += step;
    }

    /// Rule 8, for the quanta that were won in the last draw.
    fn lapse(&mut self) {
        let advance = std::mem::take(&mut self.advance);
        let mut raced = std::mem::take(&mut self.raced);
        for (key, weight) in raced.drain(..) {
            let Some(client) = self.clients.get_mut(&key) else { continue };
            let Place::Racing { .. } = client.place else { continue };
            // Nobody can use more than one quantum of an offer, whatever the others did.
            let part = advance.saturating_mul(i128::from(weight)).min(STRIDE1);
            let used = i128::from(client.used) * STRIDE1_PER_PART;
            let sum = (client.lapsing + part - used).max(0);
            client.lapsing = sum.min(MAX_CREDIT);
            if sum > MAX_CREDIT {
                // It counts as used, so the global pass grows by it too: into the next
                // quantum's `advance`.
                self.advance(key, sum - MAX_CREDIT);
            }
        }
        self.raced = raced;
    }

    /// Rule 7: finds who is certain now, and moves those for whom that changed.
    fn cap(&mut self, seats: usize) {
        let heaviest = self.by_weight.iter().rev();
        let count = feasible::capped(self.active_weight, seats, heaviest.clone().map(|&(w, _)| w));
        let same = count == self.certain.len()
            && heaviest.clone().zip(&self.certain).all(|(&(_, key), &was)| key == was);
        if same {
            return;
        }
        let now: Vec<ClientKey> = heaviest.take(count).map(|&(_, key)| key).collect();
        for &key in &now {
            self.exit(key);
        }
        for key in std::mem::replace(&mut self.certain, now) {
            if self.should_race(key) && !self.certain.contains(&key) {
                self.enter(key);
            }
        }
    }

    fn should_race(&self, key: ClientKey) -> bool {
        self.clients.get(&key).is_some_and(|client| {
            client.active && client.weight > 0 && matches!(client.place, Place::Waiting { .. })
        })
    }
}

impl Policy for Stride {
    fn name(&self) -> &'static str {
        PolicyName::Stride.as_str()
    }

    fn join(&mut self, client: ClientKey, weight: u64) {
        assert!(weight <= MAX_WEIGHT, "weight {weight} of client {client} is out of range");
        let entry = self.clients.entry(client).or_insert_with(|| {
            let place = Place::Waiting { remain: first_remain(self.arrivals) };
            self.arrivals += 1;
            Client { weight, active: false, place, left_race: false, used: 0, lapsing: 0 }
        });
        assert!(!entry.active, "client {client} joined twice");
        entry.active = true;
        entry.left_race = false;
        entry.weight = weight;
        if weight > 0 {
            self.by_weight.insert((weight, client));
            self.active_weight += u128::from(weight);
            self.enter(client);
        }
    }

    fn leave(&mut self, client: ClientKey) {
        let Some(&Client { weight, active: true, place, .. }) = self.clients.get(&client) else {
            return;
        };
        if weight > 0 {
            self.exit(client);
            self.by_weight.remove(&(weight, client));
            self.active_weight -= u128::from(weight);
            self.certain.retain(|&key| key != client);
        }
        let entry = self.clients.get_mut(&client).expect("it is there");
        entry.active = false;
        entry.left_race = matches!(place, Place::Racing { .. });
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
        if weight == old {
            return;
        }
        if old > 0 {
            self.by_weight.remove(&(old, client));
            self.active_weight -= u128::from(old);
        }
        if weight > 0 {
            self.by_weight.insert((weight, client));
            self.active_weight += u128::from(weight);
        } else {
            self.exit(client);
            self.certain.retain(|&key| key != client);
        }
        let entry = self.clients.get_mut(&client).expect("it is there");
        entry.weight = weight;
        match &mut entry.place {
            Place::Racing { pass } => {
                self.race.remove(&(*pass, client));
                *pass = self.global_pass + scale(*pass - self.global_pass, old, weight);
                self.race.insert((*pass, client));
                self.racing_weight = self.racing_weight - u128::from(old) + u128::from(weight);
            }
            // Its remain is in quanta: no work. A certain client stays so until the next draw.
            Place::Waiting { .. } if old == 0 => self.enter(client),
            Place::Waiting { .. } => {}
        }
    }

    fn draw(&mut self, seats: usize, winners: &mut Vec<ClientKey>) {
        winners.clear();
        self.lapse();
        self.lift_global_pass();
        self.cap(seats);
        winners.extend_from_slice(&self.certain);
        self.front = self.global_pass;
        for &(pass, key) in self.race.iter().take(seats - self.certain.len()) {
            self.front = pass;
            winners.push(key);
            self.raced.push((key, self.clients[&key].weight));
        }
        for key in winners.iter() {
            self.clients.get_mut(key).expect("winners are known").used = 0;
        }
    }

    fn charge(&mut self, client: ClientKey, used_ns: u64, quantum_ns: u64) {
        let Some(entry) = self.clients.get_mut(&client) else { return };
        let parts = meter::parts(used_ns, quantum_ns);
        entry.used = entry.used.saturating_add(parts);
        let quanta = i128::from(parts) * STRIDE1_PER_PART;
        match &mut entry.place {
            Place::Racing { pass } => {
                let weight = i128::from(entry.weight);
                let room = (self.front + MAX_REMAIN / weight - *pass).max(0);
                let quanta = if quanta / weight > room { room * weight } else { quanta };
                self.advance(client, quanta);
            }
            Place::Waiting { remain } if entry.left_race => {
                // As if it had been charged just before it left.
                let weight = i128::from(entry.weight);
                let step = quanta / (self.racing_weight as i128 + weight);
                *remain = (*remain + quanta - step * weight).min(MAX_REMAIN);
                self.global_pass += step;
                self.advance += step;
            }
            // Certain, or without weight: nobody else could have had that seat.
            Place::Waiting { .. } => {}
        }
    }

    fn promised(&self, seats: usize) -> Vec<(ClientKey, u64)> {
        let active: Vec<_> = self
            .clients
            .iter()
            .filter(|(_, client)| client.active)
            .map(|(&key, client)| (key, client.weight))
            .collect();
        feasible::promised(&active, seats)
    }
}

/// `lag` · `old` / `new`, towards zero; the product may need 192 bits. Saturates far out of reach
/// of a lag that means something.
fn scale(lag: i128, old: u64, new: u64) -> i128 {
    const FAR: u128 = 1 << 120;
    let magnitude = lag.unsigned_abs();
    let (old, new) = (u128::from(old), u128::from(new));
    let low = (magnitude & u128::from(u64::MAX)) * old;
    let high = (magnitude >> 64) * old + (low >> 64);
    let (quotient, remainder) = (high / new, high % new);
    let scaled = if quotient >> 56 != 0 {
        FAR
    } else {
        (quotient << 64) + ((remainder << 64) + (low & u128::from(u64::MAX))) / new
    };
    if lag < 0 { -(scaled as i128) } else { scaled as i128 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn scaling_is_exact_where_the_product_fits(
            lag in -(1i128 << 78)..(1i128 << 78), old in 1..=MAX_WEIGHT, new in 1..=MAX_WEIGHT
        ) {
            prop_assert_eq!(scale(lag, old, new), lag * i128::from(old) / i128::from(new));
        }

        #[test]
        fn scaling_there_and_back_loses_less_than_a_unit_a_weight(
            lag in -(1i128 << 80)..(1i128 << 80), old in 1..=MAX_WEIGHT, new in 1..=MAX_WEIGHT
        ) {
            let back = scale(scale(lag, old, new), new, old);
            prop_assert!((lag - back).unsigned_abs() <= u128::from(new / old) + 1, "{lag} {back}");
        }
    }

    #[test]
    fn scaling_saturates_instead_of_overflowing() {
        assert_eq!(scale(-(1 << 100), MAX_WEIGHT, 1), -(1 << 120));
        assert_eq!(scale(1 << 100, MAX_WEIGHT, MAX_WEIGHT), 1 << 100);
    }
}
