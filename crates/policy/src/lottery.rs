//! Lottery scheduling (Waldspurger & Weihl, OSDI 1994), on several seats.
//!
//! 1. **Draw** (1994, section 2.2). On one seat, each draw is uniform among the tickets of all
//!    that compete. Property: the wins of clients that use whole quanta are binomial with
//!    p = weight / total.
//! 2. **Compensation** (1994, section 4.5; paper 1 section 5.3, paper 3 section 4.2). A client that
//!    used the fraction f of its quantum has its tickets multiplied by 1/f until it next wins. Here
//!    f is all that the client used since it last won ([`crate::meter`]): a quantum that ran long,
//!    or left-over time that it ran in as a loser, makes f greater than 1 and its tickets fewer.
//!    So each win pays for the use since the win before: a draw is won with probability
//!    (weight/f) / total, and the win pays f, so the *expected payment of each draw is
//!    weight / total*, however long the quanta were. Property: CPU time, not wins, is in
//!    proportion to weights. It holds on one seat for any use between the bounds of `meter`,
//!    varying or not, since total is the same for all in each draw.
//! 3. **Bounds**. f counts as at least 1/[`MAX_COMPENSATION`] and at most [`MAX_DEBT_QUANTA`].
//! 4. **Several seats: cap** (Chandra et al. 2000). The tickets of rule 2 are capped first
//!    ([`crate::feasible`]): a capped client wins for certain. After compensating, not before:
//!    a compensated client can need more than one seat, and cannot have it in one draw. What it
//!    lacks is carried over (ours): had it been drawn like the others, with s seats for a total of
//!    tickets, a win with probability 1 would have been worth s · weight / total quanta. What its
//!    win paid less than that makes its next win cheaper ([`crate::meter`], rule 3). Without this,
//!    clients that get little of some quanta that they win (of a busy machine) lose by it. Nothing
//!    is carried over for who is due a whole seat by weight alone: more than that nobody can get.
//! 5. **Several seats: systematic sampling** (Madow 1949). The others' tickets lie end to end in
//!    the order of slots, each stretched s times for the s seats that are left; one random start,
//!    then a step of the unstretched total from point to point. Nobody is longer than a step, so
//!    nobody is drawn twice; client i is drawn with probability exactly s · tickets_i / total.
//!    Wins of different clients in one draw depend on each other (neighbours rarely win together);
//!    draws do not.
//! 6. **Chance**. PCG XSL RR 128/64 (O'Neill 2014), one stream from the seed; a number below a
//!    bound that is not a power of two comes from rejection, so there is no modulo bias (paper 3
//!    section 4.4 has `rand % total`).
//! 7. **Slots**. A client that joins takes the slot that was freed last, else a new one. Slots
//!    decide only which random number means whom.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64;

use crate::{
    ClientKey, MAX_WEIGHT, Policy, PolicyName, feasible, fenwick::Fenwick, meter::Meter,
    tournament::Tournament,
};

#[cfg(doc)]
use crate::{MAX_COMPENSATION, MAX_DEBT_QUANTA};

/// Tickets in one unit of weight, when its holder uses whole quanta: 2 to this power. What it
/// buys is that a compensated value's rounding is below 2⁻²¹ even for weight 1.
const TICKETS_LOG2: u32 = 24;

/// `log2` of [`crate::meter::ONE_QUANTUM`].
const QUANTUM_LOG2: u32 = crate::meter::ONE_QUANTUM.trailing_zeros();

struct Client {
    weight: u64,
    meter: Meter,
    /// Where its tickets lie, while it competes.
    slot: Option<usize>,
}

impl Client {
    /// What it holds in the draw: weight / f (rules 2 and 3), rounded down. At most
    /// 2^(48 + 24 + 7), so 2³² clients on 2¹⁶ seats stay within 128 bits.
    fn tickets(&self) -> u128 {
        self.stretched_weight() / u128::from(self.meter.price())
    }

    /// What it would hold at a price of one part.
    fn stretched_weight(&self) -> u128 {
        u128::from(self.weight) << (TICKETS_LOG2 + QUANTUM_LOG2)
    }
}

/// The lottery. See the [module](self).
pub struct Lottery {
    chance: Pcg64,
    clients: BTreeMap<ClientKey, Client>,
    /// Who holds each slot; a free slot's entry is stale.
    slots: Vec<ClientKey>,
    free: Vec<usize>,
    /// Tickets by slot, twice: to find a point, and to find the greatest.
    places: Fenwick,
    tickets: Tournament,
    /// Of all that compete.
    active_weight: u128,
    /// Winners that were capped in the current draw: slot and tickets (kept for its storage).
    capped: Vec<(usize, u128)>,
    /// The other winners' slots (likewise).
    drawn: Vec<usize>,
}

impl Lottery {
    /// A lottery without clients; `seed` decides all draws.
    pub fn new(seed: u64) -> Self {
        Lottery {
            chance: Pcg64::seed_from_u64(seed),
            clients: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            places: Fenwick::new(),
            tickets: Tournament::new(),
            active_weight: 0,
            capped: Vec::new(),
            drawn: Vec::new(),
        }
    }

    fn put(&mut self, slot: usize, tickets: u128) {
        let old = self.tickets.get(slot);
        if old != tickets {
            self.places.change(slot, old, tickets);
            self.tickets.set(slot, tickets);
        }
    }

    fn take_slot(&mut self, client: ClientKey) -> usize {
        if let Some(slot) = self.free.pop() {
            self.slots[slot] = client;
            return slot;
        }
        let slot = self.slots.len();
        self.slots.push(client);
        if slot == self.places.capacity() {
            self.places.grow();
            self.tickets.grow();
        }
        slot
    }

    fn weight_in(&self, slot: usize) -> u64 {
        self.clients[&self.slots[slot]].weight
    }

    /// How many of those who win for certain are due a whole seat by weight alone: they are put
    /// first.
    fn due_whole_seats(&self, capped: &mut [(usize, u128)], seats: usize) -> usize {
        capped.sort_unstable_by_key(|&(slot, _)| (Reverse(self.weight_in(slot)), slot));
        let weights = capped.iter().map(|&(slot, _)| self.weight_in(slot));
        feasible::capped(self.active_weight, seats, weights)
    }

    /// The client in `slot` won: its compensation ends here (rule 2). `others` are the seats and
    /// the tickets that the others shared, where it won for certain (rule 4).
    fn win(&mut self, slot: usize, others: Option<(usize, u128)>, winners: &mut Vec<ClientKey>) {
        let key = self.slots[slot];
        let client = self.clients.get_mut(&key).expect("a slot with tickets has a client");
        let due = match others {
            Some((seats, total)) if total > 0 => seats as u128 * client.stretched_weight() / total,
            _ => 0,
        };
        client.meter.win(u64::try_from(due).unwrap_or(u64::MAX));
        let tickets = client.tickets();
        self.put(slot, tickets);
        winners.push(key);
    }
}

impl Policy for Lottery {
    fn name(&self) -> &'static str {
        PolicyName::Lottery.as_str()
    }

    fn join(&mut self, client: ClientKey, weight: u64) {
        assert!(weight <= MAX_WEIGHT, "weight {weight} of client {client} is out of range");
        let slot = self.take_slot(client);
        let entry = self.clients.entry(client).or_insert(Client {
            weight,
            meter: Meter::new(),
            slot: None,
        });
        assert!(entry.slot.is_none(), "client {client} joined twice");
        entry.slot = Some(slot);
        entry.weight = weight;
        self.active_weight += u128::from(weight);
        let tickets = entry.tickets();
        self.put(slot, tickets);
    }

    fn leave(&mut self, client: ClientKey) {
        let Some(entry) = self.clients.get_mut(&client) else { return };
        let Some(slot) = entry.slot.take() else { return };
        self.active_weight -= u128::from(entry.weight);
        self.put(slot, 0);
        self.free.push(slot);
    }

    fn forget(&mut self, client: ClientKey) {
        self.leave(client);
        self.clients.remove(&client);
    }

    fn reweigh(&mut self, client: ClientKey, weight: u64) {
        assert!(weight <= MAX_WEIGHT, "weight {weight} of client {client} is out of range");
        let Some(entry) = self.clients.get_mut(&client) else { return };
        let Some(slot) = entry.slot else { return };
        self.active_weight = self.active_weight - u128::from(entry.weight) + u128::from(weight);
        entry.weight = weight;
        let tickets = entry.tickets();
        self.put(slot, tickets);
    }

    fn draw(&mut self, seats: usize, winners: &mut Vec<ClientKey>) {
        winners.clear();
        // Rule 4. The capped ones are taken out of the trees while the others are drawn.
        let mut left = seats;
        let mut capped = std::mem::take(&mut self.capped);
        loop {
            let (slot, tickets) = self.tickets.greatest();
            if !feasible::is_capped(tickets, self.places.total(), left) {
                break;
            }
            self.put(slot, 0);
            capped.push((slot, tickets));
            left -= 1;
        }
        // Rule 5. A stretched point x lies in the client into whose unstretched part x / left
        // falls, since that part's ends are whole numbers.
        let total = self.places.total();
        let mut drawn = std::mem::take(&mut self.drawn);
        if total > 0 && left > 0 {
            let start = below(&mut self.chance, total);
            drawn.extend(
                (0..left as u128).map(|k| self.places.find((start + k * total) / left as u128)),
            );
        }
        let whole = self.due_whole_seats(&mut capped, seats);
        for (index, (slot, tickets)) in capped.drain(..).enumerate() {
            self.put(slot, tickets);
            self.win(slot, (index >= whole).then_some((left, total)), winners);
        }
        self.capped = capped;
        for slot in drawn.drain(..) {
            self.win(slot, None, winners);
        }
        self.drawn = drawn;
    }

    fn charge(&mut self, client: ClientKey, used_ns: u64, quantum_ns: u64) {
        let Some(entry) = self.clients.get_mut(&client) else { return };
        entry.meter.charge(used_ns, quantum_ns);
        if let Some(slot) = entry.slot {
            let tickets = entry.tickets();
            self.put(slot, tickets);
        }
    }

    fn promised(&self, seats: usize) -> Vec<(ClientKey, u64)> {
        let active: Vec<_> = self
            .clients
            .iter()
            .filter(|(_, client)| client.slot.is_some())
            .map(|(&key, client)| (key, client.weight))
            .collect();
        feasible::promised(&active, seats)
    }
}

/// A number from 0 to `bound - 1`, each equally likely: random bits, as many as `bound - 1` has,
/// until they are below the bound (rule 6). On average less than two tries. `bound` is above 0.
pub(crate) fn below(chance: &mut impl RngCore, bound: u128) -> u128 {
    let bits = u128::BITS - (bound - 1).leading_zeros();
    if bits == 0 {
        return 0;
    }
    let mask = u128::MAX >> (u128::BITS - bits);
    loop {
        let mut number = u128::from(chance.next_u64());
        if bits > u64::BITS {
            number |= u128::from(chance.next_u64()) << u64::BITS;
        }
        if number & mask < bound {
            return number & mask;
        }
    }
}
