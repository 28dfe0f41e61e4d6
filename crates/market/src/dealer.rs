//! The dealer (paper 1, 4.2): which offers are exchanged, and how much.
//!
//! 1. **Queues.** Offers that give one good and want another wait in one queue, lowest rate first
//!    (what they want for one ticket), the older one where rates are equal: price priority, then
//!    time priority, as in a call auction. A curve's rate is its lowest.
//! 2. **Rings.** Who trades are two to four offers, each of which gives what the one before it
//!    wants: two-party exchanges, and cycles over three and four goods (as in exchanges of kidneys,
//!    Roth, Sönmez & Ünver 2007, where rings are short because one who drops out undoes all).
//!    Different parties, different goods.
//! 3. **Slack** of a ring is the product of give / want at the lowest rates; below 1 nobody can
//!    satisfy all. Of k offers each gains the k-th root of it (how: `fit`), so all members of a
//!    ring gain the same.
//! 4. **Best first.** The ring whose members gain most trades first, whether it has two members or
//!    four; of equals the shorter, then the one with the oldest offer. As members of a ring gain
//!    alike, they agree on which ring is best, and nobody is left who would rather have traded with
//!    others that would rather have traded with it: the outcome is stable (partnerships that share
//!    equally: Farrell & Scotchmer 1988). Two-party exchanges first would not be.
//! 5. **As much as all accept**: see `fit`. What is left of an offer stays in its queue at
//!    the rate of what is left. What a party can give is used up across all its offers; what it
//!    gets in this clearing it cannot give in it.
//! 6. **What does not fit** (all or nothing, too small a part, the same party twice) is passed over
//!    for the next best. Offers that want more than the others can give are charged a failure; after
//!    [`FAILURES_MAX`] an offer is set aside until the next clearing, so that big offers which
//!    nobody can fill hold up nobody else. A walk ends after [`WALK_MAX`] rings by setting one
//!    aside.
//! 7. **Bounds.** At most [`CYCLES_MAX`] cycles of goods are looked at, shortest first, and
//!    [`EXCHANGES_PER_OFFER`] times as many exchanges made as there are offers.
//!
//! Properties: every leg is accepted by its offer, ticket for ticket; every good is balanced; nobody
//! gives more than it has; the same book gives the same clearing; if nothing was set aside, no two
//! and no three offers of the rest could still trade.

pub(crate) mod conflicts;
mod cycles;
mod fit;
mod rate;

use crate::prices::{Price, price_all};
use fit::{Amounts, Side, fit};
use ledger::{CurrencyId, Good, Offer, OfferId, Terms};
use rate::{LOG_ERROR, Rate};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Bound;

/// The most offers in a ring.
pub const RING_MAX: usize = 4;
/// The most cycles of goods that are looked at.
pub const CYCLES_MAX: usize = 4096;
/// Failures after which an offer is set aside.
pub const FAILURES_MAX: u32 = 32;
/// Rings that are looked at for one exchange before an offer is set aside.
pub const WALK_MAX: usize = 256;
/// Exchanges for each offer, in all.
pub const EXCHANGES_PER_OFFER: usize = 4;

/// Some tickets that change hands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leg {
    /// The offer whose party gives.
    pub giver: OfferId,
    /// The offer whose party gets.
    pub receiver: OfferId,
    /// Tickets of what.
    pub good: Good,
    /// How many, at least 1.
    pub amount: u64,
}

/// An exchange: 2 to [`RING_MAX`] legs in a ring, each given by who receives the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// Each offer of the ring gives in one and receives in one.
    pub legs: Vec<Leg>,
}

/// What is to be exchanged. To be checked and done in this order: later exchanges fill what
/// earlier ones left of an offer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clearing {
    /// In the order in which they were found.
    pub exchanges: Vec<Match>,
    /// What was paid, by pair of goods.
    pub prices: Vec<Price>,
    /// Offers that were set aside (rule 6), which another clearing may fill.
    pub set_aside: Vec<OfferId>,
}

/// Index of an offer, in order of age.
type Index = u32;

/// Twelve times the logarithm of what each member of a ring gains (12: divided by two to four
/// members in integers).
type Gain = i64;

/// Offers of a ring in its order; [`Index::MAX`] beyond them.
type Ring = [Index; RING_MAX];

struct Entry<'a> {
    id: OfferId,
    party: usize,
    queue: usize,
    /// What is left of it.
    terms: Cow<'a, Terms>,
    rate: Rate,
    log: i64,
    /// Counts what it traded.
    version: u32,
    failures: u32,
}

/// The order of rings, and of cycles by what their best ring can gain: the greatest gain, then the
/// shortest, then the oldest offer; last the cycle itself.
type Rank = (Gain, Reverse<usize>, Reverse<Index>, Reverse<usize>);

/// A ring that can trade.
struct FoundRing {
    gain: Gain,
    ring: Ring,
    amounts: Amounts,
}

enum Walked {
    Found(FoundRing),
    /// An offer is to be set aside before the walk goes on.
    SetAside(Index),
    Nothing,
}

/// One clearing under way.
struct Book<'a> {
    entries: Vec<Entry<'a>>,
    /// By queue, in price and time priority.
    queues: Vec<BTreeSet<(Rate, Index)>>,
    /// By queue: the good that it gives.
    gives: Vec<usize>,
    /// Of a party (row) per good.
    available: Vec<u64>,
    goods: usize,
    /// By cycle, its queues.
    cycles: Vec<Vec<usize>>,
    /// By queue, the cycles that it is in.
    cycles_of: Vec<Vec<usize>>,
    /// Rings that did not fit, with the versions of their offers: they will not fit later, since
    /// what is available only shrinks.
    failed: BTreeSet<(Ring, [u32; RING_MAX])>,
    /// Cycles by the most that a ring of theirs can gain, or could when it was put here.
    waiting: BinaryHeap<(Rank, u64)>,
    /// By cycle: which of its entries in `waiting` counts, the one put there last.
    stamps: Vec<u64>,
    set_aside: BTreeSet<OfferId>,
}

/// Clears a book of offers. `available` says what a party can still give of a good; it is asked
/// once for each party and good that it offers. Offers whose terms make no sense are passed over.
pub fn clear(
    offers: &BTreeMap<OfferId, Offer>,
    available: impl Fn(CurrencyId, &Good) -> u64,
) -> Clearing {
    let mut goods: Vec<&Good> = Vec::new();
    for good in offers.values().flat_map(|offer| [&offer.terms.gives, &offer.terms.wants]) {
        if let Err(place) = goods.binary_search(&good) {
            goods.insert(place, good);
        }
    }
    let mut book = Book::new(offers, &goods, available);
    let exchanges_max = offers.len().saturating_mul(EXCHANGES_PER_OFFER);
    let mut exchanges = Vec::new();
    while exchanges.len() < exchanges_max
        && let Some(found) = book.best()
    {
        exchanges.push(book.legs(&found, &goods));
        book.trade(&found);
    }
    let prices = price_all(&exchanges);
    Clearing { exchanges, prices, set_aside: book.set_aside.into_iter().collect() }
}

impl<'a> Book<'a> {
    fn new(
        offers: &'a BTreeMap<OfferId, Offer>,
        goods: &[&Good],
        available: impl Fn(CurrencyId, &Good) -> u64,
    ) -> Book<'a> {
        let good_index = |good: &Good| goods.binary_search(&good).expect("collected");
        let mut parties: Vec<CurrencyId> = offers.values().map(|offer| offer.party).collect();
        parties.sort_unstable();
        parties.dedup();
        let mut queues: Vec<Vec<(Rate, Index)>> = Vec::new();
        let mut queues_by_pair: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        let mut asked = vec![false; parties.len() * goods.len()];
        let mut book = Book {
            entries: Vec::new(),
            queues: Vec::new(),
            gives: Vec::new(),
            available: vec![0; parties.len() * goods.len()],
            goods: goods.len(),
            cycles: Vec::new(),
            cycles_of: Vec::new(),
            failed: BTreeSet::new(),
            waiting: BinaryHeap::new(),
            stamps: Vec::new(),
            set_aside: BTreeSet::new(),
        };
        for (&id, offer) in offers {
            if offer.terms.check().is_err() {
                continue;
            }
            let Some(rate) = Rate::lowest(&offer.terms) else { continue };
            let party = parties.binary_search(&offer.party).expect("collected");
            let gives = good_index(&offer.terms.gives);
            let pair = (gives, good_index(&offer.terms.wants));
            let queue = *queues_by_pair.entry(pair).or_insert(queues.len());
            if queue == queues.len() {
                queues.push(Vec::new());
                book.gives.push(gives);
            }
            let cell = party * goods.len() + gives;
            if !std::mem::replace(&mut asked[cell], true) {
                book.available[cell] = available(offer.party, &offer.terms.gives);
            }
            let index = Index::try_from(book.entries.len()).expect("fewer than 2³² offers");
            queues[queue].push((rate, index));
            let (terms, log) = (Cow::Borrowed(&offer.terms), rate.log());
            let entry = Entry { id, party, queue, terms, rate, log, version: 0, failures: 0 };
            book.entries.push(entry);
        }
        book.queues = queues.into_iter().map(BTreeSet::from_iter).collect();
        book.cycles = cycles::cycles(&queues_by_pair, goods.len());
        book.cycles_of = vec![Vec::new(); book.queues.len()];
        for (cycle, queues) in book.cycles.iter().enumerate() {
            for &queue in queues {
                book.cycles_of[queue].push(cycle);
            }
        }
        book.stamps = vec![0; book.cycles.len()];
        for cycle in 0..book.cycles.len() {
            book.wait(cycle);
        }
        book
    }

    fn entry(&self, index: Index) -> &Entry<'a> {
        &self.entries[index as usize]
    }

    fn cell(&self, entry: &Entry) -> usize {
        entry.party * self.goods + self.gives[entry.queue]
    }

    fn gain(&self, members: &[Index]) -> Gain {
        let logs: i64 = members.iter().map(|&member| self.entry(member).log).sum();
        -logs * (12 / i64::try_from(members.len()).expect("at most four"))
    }

    /// The heads of a cycle's queues; `None` where one is empty. Whoever has nothing to give is
    /// dropped on the way.
    fn heads(&mut self, cycle: usize) -> Option<Ring> {
        let mut heads = [Index::MAX; RING_MAX];
        let queues = self.cycles[cycle].clone();
        for (head, queue) in heads.iter_mut().zip(queues) {
            *head = loop {
                let &(rate, index) = self.queues[queue].first()?;
                if self.available[self.cell(self.entry(index))] > 0 {
                    break index;
                }
                self.queues[queue].remove(&(rate, index));
            };
        }
        Some(heads)
    }

    /// Puts a cycle where its heads belong, if they cross.
    fn wait(&mut self, cycle: usize) {
        let Some(heads) = self.heads(cycle) else { return };
        let k = self.cycles[cycle].len();
        let gain = self.gain(&heads[..k]);
        if gain >= -12 * LOG_ERROR {
            let oldest = *heads.iter().min().expect("heads");
            self.put((gain, Reverse(k), Reverse(oldest), Reverse(cycle)));
        }
    }

    /// Puts a cycle where it belongs, instead of where it was.
    fn put(&mut self, rank: Rank) {
        let (_, _, _, Reverse(cycle)) = rank;
        self.stamps[cycle] += 1;
        self.waiting.push((rank, self.stamps[cycle]));
    }

    /// The ring to trade next (rule 4).
    fn best(&mut self) -> Option<FoundRing> {
        while let Some(((_, _, _, Reverse(cycle)), stamp)) = self.waiting.pop() {
            if stamp != self.stamps[cycle] {
                continue;
            }
            let found = loop {
                match self.walk(cycle) {
                    Walked::Found(found) => break Some(found),
                    Walked::SetAside(index) => self.put_aside(index),
                    Walked::Nothing => break None,
                }
            };
            let Some(found) = found else { continue };
            let k = self.cycles[cycle].len();
            let oldest = *found.ring.iter().min().expect("members");
            let rank = (found.gain, Reverse(k), Reverse(oldest), Reverse(cycle));
            if self.waiting.peek().is_some_and(|(next, _)| *next > rank) {
                self.put(rank);
                continue;
            }
            return Some(found);
        }
        None
    }

    fn put_aside(&mut self, index: Index) {
        let entry = &self.entries[index as usize];
        self.queues[entry.queue].remove(&(entry.rate, index));
        self.set_aside.insert(entry.id);
    }

    /// The rings of a cycle of goods in descending order of gain, up to the first one that fits.
    fn walk(&mut self, cycle: usize) -> Walked {
        let Some(heads) = self.heads(cycle) else { return Walked::Nothing };
        let k = self.cycles[cycle].len();
        let mut next: BinaryHeap<(Gain, Reverse<[usize; RING_MAX]>, Ring)> = BinaryHeap::new();
        next.push((self.gain(&heads[..k]), Reverse([0; RING_MAX]), heads));
        // What was read of each queue so far.
        let mut read: Vec<Vec<Index>> = heads[..k].iter().map(|&head| vec![head]).collect();
        let mut steps = 0;
        while let Some((gain, Reverse(places), ring)) = next.pop() {
            if gain < -12 * LOG_ERROR {
                break;
            }
            match self.attempt(&ring, k) {
                Ok(Some(amounts)) => return Walked::Found(FoundRing { gain, ring, amounts }),
                Ok(None) => {}
                Err(index) => return Walked::SetAside(index),
            }
            steps += 1;
            if steps > WALK_MAX {
                return Walked::SetAside(self.hindrance(&heads[..k]));
            }
            // Each combination is reached once: only places from the last one moved on are moved.
            let moved = places[..k].iter().rposition(|&place| place > 0).unwrap_or(0);
            for position in moved..k {
                let mut places = places;
                places[position] += 1;
                let have = read[position].len();
                if places[position] == have {
                    let last = read[position][have - 1];
                    let Some(next) = self.after(self.cycles[cycle][position], last) else {
                        continue;
                    };
                    read[position].push(next);
                }
                let mut ring = ring;
                ring[position] = read[position][places[position]];
                next.push((self.gain(&ring[..k]), Reverse(places), ring));
            }
        }
        Walked::Nothing
    }

    /// Who comes after `last` in a queue and has something to give.
    fn after(&self, queue: usize, last: Index) -> Option<Index> {
        let behind = (Bound::Excluded((self.entry(last).rate, last)), Bound::Unbounded);
        let has_some = |index: &Index| self.available[self.cell(self.entry(*index))] > 0;
        self.queues[queue].range(behind).map(|&(_, index)| index).find(has_some)
    }

    /// The amounts at which a ring can trade. An offer that has failed too often is the error.
    fn attempt(&mut self, ring: &Ring, k: usize) -> Result<Option<Amounts>, Index> {
        let members = &ring[..k];
        let parties = members.iter().map(|&member| self.entry(member).party);
        if parties.collect::<BTreeSet<_>>().len() < k {
            return Ok(None);
        }
        let mut versions = [0; RING_MAX];
        for (version, &member) in versions.iter_mut().zip(members) {
            *version = self.entry(member).version;
        }
        if !self.failed.is_empty() && self.failed.contains(&(*ring, versions)) {
            return Ok(None);
        }
        let sides: Vec<Side> = members
            .iter()
            .map(|&member| {
                let entry = self.entry(member);
                Side { terms: entry.terms.as_ref(), available: self.available[self.cell(entry)] }
            })
            .collect();
        if let Some(amounts) = fit(&sides) {
            return Ok(Some(amounts));
        }
        let blamed = blame(&sides);
        self.failed.insert((*ring, versions));
        for (&member, _) in members.iter().zip(blamed).filter(|(_, blamed)| *blamed) {
            let entry = &mut self.entries[member as usize];
            entry.failures += 1;
            if entry.failures >= FAILURES_MAX {
                return Err(member);
            }
        }
        Ok(None)
    }

    /// Whom to set aside when a walk has become too long: of a party that is there twice the
    /// younger offer, or else who failed most, the younger of equals.
    fn hindrance(&self, heads: &[Index]) -> Index {
        let twice = |&&head: &&Index| {
            let same = |&&other: &&Index| self.entry(other).party == self.entry(head).party;
            heads.iter().filter(same).count() > 1
        };
        let failures = |&&head: &&Index| (self.entry(head).failures, head);
        let found = heads.iter().filter(twice).max();
        *found.or_else(|| heads.iter().max_by_key(failures)).expect("a cycle has queues")
    }

    fn legs(&self, found: &FoundRing, goods: &[&Good]) -> Match {
        let k = found.ring.iter().take_while(|&&index| index != Index::MAX).count();
        let leg = |place: usize| {
            let (giver, receiver) = (found.ring[place], found.ring[(place + k - 1) % k]);
            let (giver, receiver) = (self.entry(giver), self.entry(receiver));
            let good = goods[self.gives[giver.queue]].clone();
            Leg { giver: giver.id, receiver: receiver.id, good, amount: found.amounts[place] }
        };
        Match { legs: (0..k).map(leg).collect() }
    }

    fn trade(&mut self, found: &FoundRing) {
        let k = found.ring.iter().take_while(|&&index| index != Index::MAX).count();
        let mut cheaper = Vec::new();
        for place in 0..k {
            let index = found.ring[place];
            let (give, get) = (found.amounts[place], found.amounts[(place + 1) % k]);
            let cell = self.cell(self.entry(index));
            assert!(self.entry(index).terms.accept(give, get), "only what is accepted is traded");
            self.available[cell] =
                self.available[cell].checked_sub(give).expect("no more is given than there is");
            let entry = &mut self.entries[index as usize];
            self.queues[entry.queue].remove(&(entry.rate, index));
            let rest = entry.terms.after(give, get);
            let Some((terms, rate)) = rest.and_then(|rest| {
                let rate = Rate::lowest(&rest)?;
                Some((rest, rate))
            }) else {
                continue;
            };
            if rate < entry.rate {
                cheaper.push(entry.queue);
            }
            (entry.terms, entry.rate, entry.log) = (Cow::Owned(terms), rate, rate.log());
            entry.version += 1;
            self.queues[entry.queue].insert((rate, index));
        }
        // The cycle itself was taken out; others stand where they stood, at most too high, but
        // for those that have become better.
        for queue in cheaper {
            for position in 0..self.cycles_of[queue].len() {
                self.wait(self.cycles_of[queue][position]);
            }
        }
        let own = self.cycle_of(&found.ring, k);
        self.wait(own);
    }

    fn cycle_of(&self, ring: &Ring, k: usize) -> usize {
        let queues: Vec<usize> = ring[..k].iter().map(|&member| self.entry(member).queue).collect();
        let found = self.cycles_of[queues[0]].iter().find(|&&cycle| self.cycles[cycle] == queues);
        *found.expect("a ring is of a cycle")
    }
}

/// Whose fault it is that a ring does not fit: who wants more at least than the one after it can
/// give; where nobody does, who takes no part of its offer; where all do, everybody.
fn blame(sides: &[Side]) -> Vec<bool> {
    let least = |terms: &Terms| match terms.partial {
        true => terms.least.max(1),
        false => terms.least.max(terms.points[0].want),
    };
    let too_much = |place: usize| {
        let after = &sides[(place + 1) % sides.len()];
        least(sides[place].terms) > after.available.min(after.terms.give_most())
    };
    let whole = |place: usize| least(sides[place].terms) > 1;
    let all = |test: &dyn Fn(usize) -> bool| (0..sides.len()).map(test).collect::<Vec<bool>>();
    let answers = [all(&too_much), all(&whole)];
    let found = answers.into_iter().find(|answer| answer.contains(&true));
    found.unwrap_or_else(|| vec![true; sides.len()])
}
