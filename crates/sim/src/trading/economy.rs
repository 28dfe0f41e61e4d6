//! A model economy: clients that do one thing after the other, on resources shared by tickets.
//!
//! 1. A unit of progress needs the time n_r of each resource r, one after the other, as a program that
//!    computes, then waits for the disk (Leontief's fixed proportions, in series).
//! 2. A client gets of a resource t / Σ t_j u_j, at most all of it: t its tickets, u_j the part of the
//!    time for which client j uses or waits for it. Nothing idles that somebody wants; what somebody
//!    does not use others divide by tickets. With fixed shares it is t / Σ t instead: what somebody
//!    does not use is nobody's (memory under guarantees, hard shares of a rate).
//! 3. So a unit takes Σ n_r / rate_r, and u_r = progress · n_r / rate_r: both are found together by
//!    iteration.
//! 4. What is seen has noise: each window's progress is multiplied by 1 + σ·z, z nearly normal from
//!    the seed.

use crate::machine::chance::Chance;
use ledger::{CurrencyId, Good};
use market::Negotiator;
use market::negotiator::{Observation, Options, Seen};

use super::TradingSession;

/// Iterations of rule 3.
const ITERATIONS: usize = 40;

/// A client of the economy.
pub struct Client {
    /// Its name on the session.
    pub id: CurrencyId,
    /// Time that a unit of progress needs of each good, in seconds.
    pub needs: Vec<f64>,
    /// Tickets of its own, of each good.
    pub own: Vec<u64>,
    /// Who trades for it.
    pub negotiator: Option<Negotiator>,
    /// Progress in all.
    pub done: f64,
    waited_s: Vec<f64>,
}

/// The economy.
pub struct Economy {
    /// What is shared.
    pub goods: Vec<Good>,
    /// Who shares it.
    pub clients: Vec<Client>,
    /// Where they trade.
    pub session: TradingSession,
    /// σ of rule 4.
    pub noise: f64,
    /// Whether shares are fixed (rule 2).
    pub fixed: bool,
    /// Tickets of bystanders who always want everything, of each good.
    pub others: Vec<u64>,
    now_ns: u64,
    chance: Chance,
}

impl Economy {
    /// Nobody yet.
    pub fn new(goods: Vec<Good>, noise: f64, seed: u64) -> Economy {
        let others = vec![0; goods.len()];
        let chance = Chance::new(seed, 0);
        let session = TradingSession::default();
        let clients = Vec::new();
        Economy { goods, clients, session, noise, fixed: false, others, now_ns: 0, chance }
    }

    /// A client, with a negotiator if there are options for one.
    pub fn add(&mut self, needs: Vec<f64>, own: Vec<u64>, options: Option<Options>) {
        let id = CurrencyId(self.clients.len() as u64 + 1);
        let waited_s = vec![0.0; needs.len()];
        let negotiator = options.map(Negotiator::new);
        self.clients.push(Client { id, needs, own, negotiator, done: 0.0, waited_s });
    }

    /// The time, in seconds.
    pub fn now_s(&self) -> f64 {
        self.now_ns as f64 / 1e9
    }

    /// The tickets that each client has the use of.
    pub fn held(&self) -> Vec<Vec<u64>> {
        let of = |client: &Client| {
            let goods = self.goods.iter().zip(&client.own);
            goods.map(|(good, &own)| self.session.held(client.id, good, own)).collect()
        };
        self.clients.iter().map(of).collect()
    }

    /// Progress a second of each client with so many tickets, and the part of each resource that it
    /// gets while it wants it (rules 1 to 3).
    pub fn rates(&self, held: &[Vec<u64>]) -> Vec<(f64, Vec<f64>)> {
        let goods = self.goods.len();
        let mut using: Vec<Vec<f64>> = vec![vec![1.0; goods]; held.len()];
        let mut answer = Vec::new();
        for _ in 0..ITERATIONS {
            let total = |good: usize| {
                let busy =
                    held.iter().zip(&using).map(|(held, using)| held[good] as f64 * using[good]);
                busy.sum::<f64>() + self.others[good] as f64
            };
            let totals: Vec<f64> = (0..goods).map(total).collect();
            answer.clear();
            for ((client, held), using) in self.clients.iter().zip(held).zip(&mut using) {
                let part = |good: usize| {
                    let own = held[good] as f64;
                    // While it wants it, all of its own tickets compete.
                    let beside = totals[good] - own * using[good];
                    if own <= 0.0 { 1e-6 } else { own / (own + beside) }
                };
                let parts: Vec<f64> = (0..goods).map(part).collect();
                let unit_s: f64 =
                    client.needs.iter().zip(&parts).map(|(need, part)| need / part).sum();
                for good in 0..goods {
                    let now = client.needs[good] / parts[good] / unit_s;
                    if !self.fixed {
                        using[good] = (using[good] + now) / 2.0;
                    }
                }
                answer.push((1.0 / unit_s, parts));
            }
        }
        answer
    }

    /// A window of so many nanoseconds passes; then all negotiators have their turn, and the dealer.
    pub fn pass(&mut self, window_ns: u64) {
        self.now_ns += window_ns;
        let seconds = window_ns as f64 / 1e9;
        let held = self.held();
        let rates = self.rates(&held);
        for ((client, (rate, parts)), held) in self.clients.iter_mut().zip(rates).zip(held) {
            let z: f64 =
                (0..12).map(|_| self.chance.below(1 << 32) as f64 / 4_294_967_296.0).sum::<f64>()
                    - 6.0;
            let done = rate * seconds * (1.0 + self.noise * z).max(0.0);
            client.done += done;
            for (good, part) in parts.iter().enumerate() {
                client.waited_s[good] += done * client.needs[good] * (1.0 / part - 1.0);
            }
            let Some(negotiator) = &mut client.negotiator else { continue };
            let seen = self.goods.iter().enumerate().map(|(good, name)| Seen {
                good: name.clone(),
                waited_ns: (client.waited_s[good] * 1e9) as u64,
                held: held[good],
                free: self.session.free(client.id, name, client.own[good]),
            });
            let observation = Observation {
                now_ns: self.now_ns,
                progress: Some((client.done * 1e6) as u64),
                due_ns: self.now_ns / 100,
                cost_ns: self.now_ns / window_ns * 10_000,
                seen: seen.collect(),
                events: self.session.events(client.id),
                ..Observation::default()
            };
            let actions = negotiator.step(&observation);
            self.session.act(client.id, actions);
        }
        let own = |party: CurrencyId, good: &Good| {
            let client = &self.clients[party.0 as usize - 1];
            let place = self.goods.iter().position(|other| other == good);
            place.map_or(0, |place| client.own[place])
        };
        self.session.clear(self.now_ns / 1_000_000_000, own);
    }

    /// The geometric mean of what clients gain: of progress with what they hold now, by progress with
    /// what is their own.
    pub fn gain(&self) -> f64 {
        let own: Vec<Vec<u64>> = self.clients.iter().map(|client| client.own.clone()).collect();
        let (before, now) = (self.rates(&own), self.rates(&self.held()));
        let logs = before.iter().zip(&now).map(|(before, now)| (now.0 / before.0).ln());
        (logs.sum::<f64>() / self.clients.len().max(1) as f64).exp()
    }
}
