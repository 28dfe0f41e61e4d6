//! Each policy against a naive model of its numbered rules: lists and walks, no trees, no caches.
//! The same random calls must give the very same winners.

use allot_policy::{
    ClientKey, MAX_COMPENSATION, MAX_DEBT_QUANTA, MAX_SURPLUS_QUANTA, Policy, PolicyName, build,
    stride::{MAX_CREDIT_QUANTA, STRIDE1},
};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64;

const ONE: u128 = 1 << 32;

/// Rules of `meter`.
#[derive(Clone, Copy)]
struct Use {
    parts: i128,
    unknown: bool,
}

impl Use {
    const NEW: Use = Use { parts: ONE as i128, unknown: false };
    const WON: Use = Use { parts: 0, unknown: true };

    fn add(&mut self, used_ns: u64, quantum_ns: u64) {
        let sum = self.parts + (u128::from(used_ns) * ONE / u128::from(quantum_ns)) as i128;
        let most = (u128::from(MAX_DEBT_QUANTA) * ONE) as i128;
        *self = Use { parts: sum.min(most), unknown: false };
    }

    fn owed(&self) -> i128 {
        self.parts + if self.unknown { ONE as i128 } else { 0 }
    }
}

/// The heaviest that get a whole seat, heaviest first; `list` is (weight, name).
fn capped<T: Copy>(list: &[(u128, T)], mut seats: usize) -> Vec<T> {
    let mut list = list.to_vec();
    list.retain(|&(weight, _)| weight > 0);
    let mut heavy = Vec::new();
    while !list.is_empty() {
        let total: u128 = list.iter().map(|&(weight, _)| weight).sum();
        let (at, &(weight, name)) = list.iter().enumerate().rev().max_by_key(|(_, c)| c.0).unwrap();
        if seats == 0 || weight * (seats as u128) < total {
            break;
        }
        heavy.push(name);
        list.remove(at);
        seats -= 1;
    }
    heavy
}

struct LotteryClient {
    key: ClientKey,
    weight: u64,
    used: Use,
    active: bool,
}

struct NaiveLottery {
    chance: Pcg64,
    clients: Vec<LotteryClient>,
    slots: Vec<Option<ClientKey>>,
    freed: Vec<usize>,
}

impl NaiveLottery {
    fn new(seed: u64) -> Self {
        let chance = Pcg64::seed_from_u64(seed);
        NaiveLottery { chance, clients: vec![], slots: vec![], freed: vec![] }
    }

    fn find(&mut self, key: ClientKey) -> Option<&mut LotteryClient> {
        self.clients.iter_mut().find(|client| client.key == key)
    }
}

impl Policy for NaiveLottery {
    fn name(&self) -> &'static str {
        "naive lottery"
    }

    fn join(&mut self, key: ClientKey, weight: u64) {
        match self.find(key) {
            Some(client) => {
                client.weight = weight;
                client.active = true;
            }
            None => self.clients.push(LotteryClient { key, weight, used: Use::NEW, active: true }),
        }
        match self.freed.pop() {
            Some(slot) => self.slots[slot] = Some(key),
            None => self.slots.push(Some(key)),
        }
    }

    fn leave(&mut self, key: ClientKey) {
        if let Some(slot) = self.slots.iter().position(|&held| held == Some(key)) {
            self.slots[slot] = None;
            self.freed.push(slot);
            self.find(key).unwrap().active = false;
        }
    }

    fn forget(&mut self, key: ClientKey) {
        self.leave(key);
        self.clients.retain(|client| client.key != key);
    }

    fn reweigh(&mut self, key: ClientKey, weight: u64) {
        if let Some(client) = self.find(key).filter(|client| client.active) {
            client.weight = weight;
        }
    }

    fn draw(&mut self, seats: usize, winners: &mut Vec<ClientKey>) {
        let mut line: Vec<(u128, ClientKey)> = vec![];
        for key in self.slots.clone().into_iter().flatten() {
            let client = self.find(key).unwrap();
            let least = ONE / u128::from(MAX_COMPENSATION);
            let price = client.used.owed().max(least as i128) as u128;
            line.push(((u128::from(client.weight) << 24) * ONE / price, key));
        }
        *winners = capped(&line, seats);
        line.retain(|(tickets, key)| *tickets > 0 && !winners.contains(key));
        let certain = winners.len();
        let stretch = (seats - certain) as u128;
        let total: u128 = line.iter().map(|&(tickets, _)| tickets).sum();
        if total > 0 && stretch > 0 {
            // As many random bits as total - 1 has, until they are less than total.
            let mut bits = 0;
            while bits < 128 && (total - 1) >> bits > 0 {
                bits += 1;
            }
            let start = loop {
                if bits == 0 {
                    break 0;
                }
                let mut number = u128::from(self.chance.next_u64());
                if bits > 64 {
                    number += u128::from(self.chance.next_u64()) << 64;
                }
                let number = if bits == 128 { number } else { number % (1 << bits) };
                if number < total {
                    break number;
                }
            };
            let mut end = 0;
            for &(tickets, key) in &line {
                let begin = end;
                end += tickets * stretch;
                let points = (0..stretch).map(|k| start + k * total);
                match points.filter(|point| (begin..end).contains(point)).count() {
                    0 => {}
                    1 => winners.push(key),
                    _ => panic!("drawn twice: the tickets were infeasible"),
                }
            }
        }
        // The certain ones, heaviest first; those due a whole seat by weight alone.
        let weight_of = |key: ClientKey| self.clients.iter().find(|c| c.key == key).unwrap().weight;
        let mut heaviest = winners[..certain].to_vec();
        heaviest.sort_by_key(|&key| {
            let slot = self.slots.iter().position(|&held| held == Some(key)).unwrap();
            (std::cmp::Reverse(weight_of(key)), slot)
        });
        winners[..certain].copy_from_slice(&heaviest);
        let (mut weight_left, mut seats_left, mut whole) = (0, seats as u128, 0);
        for client in self.clients.iter().filter(|client| client.active) {
            weight_left += u128::from(client.weight);
        }
        for &key in &heaviest {
            let weight = u128::from(weight_of(key));
            if seats_left == 0 || weight * seats_left < weight_left {
                break;
            }
            weight_left -= weight;
            seats_left -= 1;
            whole += 1;
        }
        for (place, &key) in winners.iter().enumerate() {
            let client = self.find(key).unwrap();
            let mut used = Use::WON;
            // What a certain win was worth beyond what it paid comes over.
            if (whole..certain).contains(&place) && total > 0 {
                let worth = stretch * (u128::from(client.weight) << 24) * ONE / total;
                let most = (u128::from(MAX_SURPLUS_QUANTA) * ONE) as i128;
                used.parts = -(worth as i128 - client.used.owed()).clamp(0, most);
            }
            client.used = used;
        }
    }

    fn charge(&mut self, key: ClientKey, used_ns: u64, quantum_ns: u64) {
        if let Some(client) = self.find(key) {
            client.used.add(used_ns, quantum_ns);
        }
    }

    fn promised(&self, _: usize) -> Vec<(ClientKey, u64)> {
        unreachable!("tested on its own")
    }
}

struct StrideClient {
    key: ClientKey,
    weight: i128,
    used: i128,
    active: bool,
    racing: bool,
    raced_when_it_left: bool,
    pass: i128,
    remain: i128,
    unused: i128,
}

#[derive(Default)]
struct NaiveStride {
    clients: Vec<StrideClient>,
    global: i128,
    front: i128,
    grown: i128,
    offered: Vec<(ClientKey, i128)>,
    arrivals: i128,
}

impl NaiveStride {
    fn find(&mut self, key: ClientKey) -> Option<&mut StrideClient> {
        self.clients.iter_mut().find(|client| client.key == key)
    }

    fn racing_weight(&self) -> i128 {
        self.clients.iter().filter(|c| c.racing).map(|c| c.weight).sum()
    }

    fn enter(&mut self, key: ClientKey) {
        let global = self.global;
        let client = self.find(key).unwrap();
        client.pass = global + client.remain.div_euclid(client.weight);
        client.racing = true;
    }

    fn exit(&mut self, key: ClientKey) {
        let global = self.global;
        let client = self.find(key).unwrap();
        if client.racing {
            let most = i128::from(MAX_DEBT_QUANTA) * STRIDE1;
            let least = -i128::from(MAX_CREDIT_QUANTA) * STRIDE1;
            client.remain = ((client.pass - global) * client.weight).max(least).min(most);
            client.racing = false;
        }
    }

    fn grow(&mut self, key: ClientKey, quanta: i128) {
        let step = quanta / self.racing_weight();
        let client = self.find(key).unwrap();
        client.pass += quanta / client.weight;
        self.global += step;
        self.grown += step;
    }
}

impl Policy for NaiveStride {
    fn name(&self) -> &'static str {
        "naive stride"
    }

    fn join(&mut self, key: ClientKey, weight: u64) {
        if self.find(key).is_none() {
            // The n-th newcomer waits for 1 + frac(n · φ) strides.
            let frac = self.arrivals * 0x9e37_79b9_7f4a_7c15 % (1 << 64);
            self.arrivals += 1;
            self.clients.push(StrideClient {
                key,
                weight: 0,
                used: 0,
                active: false,
                racing: false,
                raced_when_it_left: false,
                pass: 0,
                remain: STRIDE1 + STRIDE1 / (1 << 64) * frac,
                unused: 0,
            });
        }
        let client = self.find(key).unwrap();
        client.weight = i128::from(weight);
        client.active = true;
        client.raced_when_it_left = false;
        if weight > 0 {
            self.enter(key);
        }
    }

    fn leave(&mut self, key: ClientKey) {
        let Some(client) = self.find(key).filter(|client| client.active) else { return };
        let raced = client.racing;
        if client.weight > 0 {
            self.exit(key);
        }
        let client = self.find(key).unwrap();
        client.active = false;
        client.raced_when_it_left = raced;
    }

    fn forget(&mut self, key: ClientKey) {
        self.leave(key);
        self.clients.retain(|client| client.key != key);
    }

    fn reweigh(&mut self, key: ClientKey, weight: u64) {
        let weight = i128::from(weight);
        let Some(client) = self.find(key).filter(|c| c.active && c.weight != weight) else {
            return;
        };
        let old = client.weight;
        if weight == 0 {
            self.exit(key);
        }
        let global = self.global;
        let client = self.find(key).unwrap();
        client.weight = weight;
        if client.racing {
            client.pass = global + (client.pass - global) * old / weight;
        } else if old == 0 {
            self.enter(key);
        }
    }

    fn draw(&mut self, seats: usize, winners: &mut Vec<ClientKey>) {
        let grown = std::mem::take(&mut self.grown);
        for (key, weight) in std::mem::take(&mut self.offered) {
            let Some(client) = self.find(key).filter(|client| client.racing) else { continue };
            let used = client.used;
            let unused = client.unused + (grown * weight).min(STRIDE1) - used;
            let most = i128::from(MAX_CREDIT_QUANTA) * STRIDE1;
            client.unused = unused.clamp(0, most);
            if unused > most {
                self.grow(key, unused - most);
            }
        }
        let least = self.clients.iter().filter(|c| c.racing).map(|c| c.pass).min();
        self.global = self.global.max(least.unwrap_or(self.global));
        let mut list: Vec<_> = self
            .clients
            .iter()
            .filter(|client| client.active)
            .map(|client| (client.weight as u128, client.key))
            .collect();
        // Equal weights: the higher key is capped first.
        list.sort_by_key(|&(_, key)| std::cmp::Reverse(key));
        let certain = capped(&list, seats);
        for &key in &certain {
            self.exit(key);
        }
        let back: Vec<ClientKey> = self
            .clients
            .iter()
            .filter(|c| c.active && c.weight > 0 && !c.racing && !certain.contains(&c.key))
            .map(|c| c.key)
            .collect();
        for key in back {
            self.enter(key);
        }
        let mut race: Vec<_> =
            self.clients.iter().filter(|c| c.racing).map(|c| (c.pass, c.key, c.weight)).collect();
        race.sort_unstable();
        race.truncate(seats - certain.len());
        self.front = race.last().map_or(self.global, |&(pass, _, _)| pass);
        self.offered = race.iter().map(|&(_, key, weight)| (key, weight)).collect();
        *winners = certain;
        winners.extend(race.iter().map(|&(_, key, _)| key));
        for &key in winners.iter() {
            self.find(key).unwrap().used = 0;
        }
    }

    fn charge(&mut self, key: ClientKey, used_ns: u64, quantum_ns: u64) {
        let (total, front) = (self.racing_weight(), self.front);
        let Some(client) = self.find(key) else { return };
        let parts = (i128::from(used_ns) << 32) / i128::from(quantum_ns);
        let quanta = parts * (STRIDE1 >> 32);
        client.used += quanta;
        if client.racing {
            let most = front + i128::from(MAX_DEBT_QUANTA) * STRIDE1 / client.weight;
            let fits = client.pass + quanta / client.weight <= most;
            let room = (most - client.pass).max(0) * client.weight;
            self.grow(key, if fits { quanta } else { room });
        } else if client.raced_when_it_left {
            let step = quanta / (total + client.weight);
            let most = i128::from(MAX_DEBT_QUANTA) * STRIDE1;
            client.remain = (client.remain + quanta - step * client.weight).min(most);
            self.global += step;
            self.grown += step;
        }
    }

    fn promised(&self, _: usize) -> Vec<(ClientKey, u64)> {
        unreachable!("tested on its own")
    }
}

/// Drives both with the same random calls; `seed` decides the calls and the draws.
fn audit(mut policy: Box<dyn Policy>, mut model: Box<dyn Policy>, seed: u64, calls: usize) {
    let mut dice = Pcg64::seed_from_u64(!seed);
    let mut roll = |sides: u64| dice.next_u64() % sides;
    // Each run has its own flavour: few or many clients, steady or wild.
    let keys = 2 + roll(14);
    let most_weight = [3, 10, 1000, 1 << 20][roll(4) as usize];
    let wildness = 1 + roll(8);
    let most_seats = 1 + roll(6);
    let mut active = vec![false; keys as usize];
    let (mut winners, mut expected) = (vec![], vec![]);
    let mut draws = 0;
    for call in 0..calls {
        let key = roll(keys);
        let weight = if roll(10) == 0 { 0 } else { 1 + roll(most_weight) };
        if roll(10) < wildness {
            match roll(8) {
                0..=2 if !active[key as usize] => {
                    active[key as usize] = true;
                    policy.join(key, weight);
                    model.join(key, weight);
                }
                3 | 4 => {
                    active[key as usize] = false;
                    policy.leave(key);
                    model.leave(key);
                }
                5 => {
                    active[key as usize] = false;
                    policy.forget(key);
                    model.forget(key);
                }
                6 => {
                    policy.reweigh(key, weight);
                    model.reweigh(key, weight);
                }
                _ => {
                    let used = roll(30_000_000);
                    policy.charge(key, used, 10_000_000);
                    model.charge(key, used, 10_000_000);
                }
            }
            continue;
        }
        let seats = roll(most_seats + 1) as usize;
        policy.draw(seats, &mut winners);
        model.draw(seats, &mut expected);
        assert_eq!(winners, expected, "seed {seed}, call {call}, {seats} seats");
        draws += winners.len();
        for &winner in &winners {
            let used = match roll(4) {
                0 => roll(10_000_001),
                1 => roll(100_000),
                _ => 10_000_000,
            };
            if roll(20) > 0 {
                policy.charge(winner, used, 10_000_000);
                model.charge(winner, used, 10_000_000);
            }
        }
    }
    assert!(draws > calls / 100, "seed {seed}: nothing was tested");
}

#[test]
fn lottery_draws_what_its_rules_say() {
    for seed in 0..400 {
        let policy = build(PolicyName::Lottery, seed);
        audit(policy, Box::new(NaiveLottery::new(seed)), seed, 2_000);
    }
}

#[test]
fn stride_draws_what_its_rules_say() {
    for seed in 0..400 {
        let policy = build(PolicyName::Stride, seed);
        audit(policy, Box::new(NaiveStride::default()), seed, 2_000);
    }
}
