//! Many clients with [needs](super::needs) and equal rights, who trade through the dealer by what they truly need.
//!
//! 1. In a round each client makes one offer, for the pair of goods at whose rate it gives most for what it
//!    gets, in the next round for the second best pair, and so on by turns of [`TURNS`]: a curve of what makes
//!    up for it exactly, for up to a fifth of what it has of the good. So nobody loses by any exchange.
//! 2. The dealer clears; then the next round, until nothing was exchanged in a turn or there were enough rounds.
//! 3. What was got cannot be given: each gives of its own only.

use super::needs::{Bundle, GOODS, Needs};
use ledger::{CurrencyId, Good, Offer, OfferId, Point, Terms, TicketKind};
use market::clear;
use std::collections::BTreeMap;

/// Pairs of goods that take turns.
const TURNS: usize = 3;
/// Points of a curve.
const POINTS: u64 = 4;

/// What trade came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traded {
    /// What each client has in the end.
    pub bundles: Vec<Bundle>,
    /// Rounds until nothing was exchanged, or there were enough.
    pub rounds: usize,
    /// Offers in all.
    pub offers: usize,
    /// Exchanges in all, and how many of them were of three or four.
    pub exchanges: usize,
    /// Rings of three and four among them.
    pub rings: usize,
}

fn goods() -> [Good; GOODS] {
    ["cpu", "memory", "disk:sda"]
        .map(|name| Good { resource: name.parse().expect("a resource"), kind: TicketKind::Soft })
}

/// The curve of what makes up for giving (rule 1), and its rate at the end.
fn terms(
    needs: &Needs,
    bundle: &Bundle,
    own: f64,
    (gives, wants): (usize, usize),
    goods: &[Good; GOODS],
) -> Option<(f64, Terms)> {
    let most = (bundle[gives] / 5.0).min(own).floor() as u64;
    let mut points: Vec<Point> = Vec::new();
    for place in 1..=POINTS {
        let give = most * place / POINTS;
        let want = needs.indifferent(bundle, gives, give as f64, wants);
        let before = points.last().copied().unwrap_or(Point { give: 0, want: 0 });
        if want > 1e6 {
            break;
        }
        if give > before.give {
            // Rounded up, and a bit: what is computed in floating point is no ticket short.
            let want = ((want + 1e-6).ceil() as u64).max(before.want + 1);
            points.push(Point { give, want });
        }
    }
    let last = *points.last()?;
    let (gives, wants) = (goods[gives].clone(), goods[wants].clone());
    let terms = Terms { gives, wants, points, partial: true, least: 0, most: last.want.max(1) * 4 };
    Some((last.want as f64 / last.give as f64, terms))
}

/// Trade among clients who have `own` of each good.
pub fn trade(needs: &[Needs], own: u64, rounds_max: usize) -> Traded {
    let goods = goods();
    let mut bundles: Vec<Bundle> = vec![[own as f64; GOODS]; needs.len()];
    let mut given: Vec<[u64; GOODS]> = vec![[0; GOODS]; needs.len()];
    let mut traded = Traded::default();
    let index = |good: &Good| goods.iter().position(|other| other == good).expect("one of ours");
    let mut idle = 0;
    while traded.rounds < rounds_max && idle < TURNS {
        let mut book: BTreeMap<OfferId, Offer> = BTreeMap::new();
        for (client, needs) in needs.iter().enumerate() {
            let mut found: Vec<(f64, Terms)> = Vec::new();
            for (gives, given) in given[client].iter().enumerate() {
                for wants in (0..GOODS).filter(|wants| *wants != gives) {
                    let own = (own - given) as f64;
                    found.extend(terms(needs, &bundles[client], own, (gives, wants), &goods));
                }
            }
            found.sort_by(|one, other| one.0.total_cmp(&other.0));
            let party = CurrencyId(client as u64);
            for (_, terms) in found.into_iter().skip(traded.rounds % TURNS).take(1) {
                book.insert(
                    OfferId(book.len() as u64),
                    Offer { party, terms, until_s: None, lease: None },
                );
            }
        }
        let free = |party: CurrencyId, good: &Good| own - given[party.0 as usize][index(good)];
        let clearing = clear(&book, free);
        traded.rounds += 1;
        traded.offers += book.len();
        idle = if clearing.exchanges.is_empty() { idle + 1 } else { 0 };
        for leg in clearing.exchanges.iter().flat_map(|found| &found.legs) {
            let (from, to) =
                (book[&leg.giver].party.0 as usize, book[&leg.receiver].party.0 as usize);
            let good = index(&leg.good);
            bundles[from][good] -= leg.amount as f64;
            bundles[to][good] += leg.amount as f64;
            given[from][good] += leg.amount;
        }
        traded.exchanges += clearing.exchanges.len();
        traded.rings += clearing.exchanges.iter().filter(|found| found.legs.len() > 2).count();
    }
    traded.bundles = bundles;
    traded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::chance::Chance;

    #[test]
    fn what_there_is_stays_and_nobody_loses() {
        let mut chance = Chance::new(5, 0);
        let needs: Vec<Needs> = (0..300).map(|_| Needs::draw(&mut chance)).collect();
        let traded = trade(&needs, 1000, 30);
        for good in 0..GOODS {
            let sum: f64 = traded.bundles.iter().map(|bundle| bundle[good]).sum();
            assert!((sum - 300_000.0).abs() < 1e-6);
        }
        let gains: Vec<f64> = needs
            .iter()
            .zip(&traded.bundles)
            .map(|(needs, bundle)| needs.utility(bundle) / needs.utility(&[1000.0; GOODS]))
            .collect();
        assert!(gains.iter().all(|gain| *gain > 1.0 - 1e-9), "{gains:?}");
        assert!(traded.exchanges > 100 && gains.iter().sum::<f64>() / 300.0 > 1.1);
    }
}
