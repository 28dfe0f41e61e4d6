//! The dealer against a naive model, and against books made to trouble it.

use allot_market::{Clearing, FAILURES_MAX, clear};
use ledger::{CurrencyId, Good, Offer, OfferId, Point, Terms, TicketKind};
use proptest::prelude::*;
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;

const NAMES: [&str; 4] = ["cpu", "memory", "disk:sda", "net:eth0"];

type Book = BTreeMap<OfferId, Offer>;
type Available = BTreeMap<(CurrencyId, Good), u64>;

fn good(index: usize) -> Good {
    Good { resource: NAMES[index].parse().expect("a resource"), kind: TicketKind::Soft }
}

/// An offer in parts, with use for twice what it asks.
fn line(party: u64, (gives, give): (usize, u64), (wants, want): (usize, u64)) -> Offer {
    let one = Terms::one(good(gives), give, good(wants), want);
    Offer {
        party: CurrencyId(party),
        terms: Terms { partial: true, most: want * 2, ..one },
        until_s: None,
        lease: None,
    }
}

fn book(offers: impl IntoIterator<Item = Offer>) -> Book {
    (1..).map(OfferId).zip(offers).collect()
}

fn clear_all(book: &Book) -> Clearing {
    clear(book, |_, _| 1 << 30)
}

/// What the broker will check: goes through a clearing leg by leg. Answers with what is left of
/// each offer and each party's stock.
fn check(book: &Book, available: &Available, clearing: &Clearing) -> (Book, Available) {
    let (mut book, mut available) = (book.clone(), available.clone());
    for exchange in &clearing.exchanges {
        let legs = &exchange.legs;
        let k = legs.len();
        assert!((2..=4).contains(&k), "{k} legs");
        let parties: Vec<CurrencyId> = legs.iter().map(|leg| book[&leg.giver].party).collect();
        for (place, leg) in legs.iter().enumerate() {
            let next = &legs[(place + 1) % k];
            assert_eq!(next.receiver, leg.giver, "who gives gets the next leg");
            assert!(!parties[..place].contains(&parties[place]), "nobody trades with itself");
            let offer = book[&leg.giver].clone();
            assert_eq!((&offer.terms.gives, &offer.terms.wants), (&leg.good, &next.good));
            assert!(
                offer.terms.accept(leg.amount, next.amount),
                "{:?} does not accept {} for {}",
                offer.terms,
                leg.amount,
                next.amount
            );
            let stock = available.entry((offer.party, leg.good.clone())).or_default();
            *stock = stock.checked_sub(leg.amount).expect("has what it gives");
            match offer.terms.after(leg.amount, next.amount) {
                Some(terms) => book.insert(leg.giver, Offer { terms, ..offer }),
                None => book.remove(&leg.giver),
            };
        }
    }
    (book, available)
}

/// Whether two offers could trade any amounts: every one is tried.
fn could_trade(a: &Offer, b: &Offer, available: &Available) -> bool {
    if a.party == b.party || a.terms.gives != b.terms.wants || a.terms.wants != b.terms.gives {
        return false;
    }
    let stock = |offer: &Offer| available[&(offer.party, offer.terms.gives.clone())];
    let most =
        |from: &Offer, to: &Offer| stock(from).min(from.terms.give_most()).min(to.terms.most);
    (1..=most(a, b)).any(|x| (1..=most(b, a)).any(|y| a.terms.accept(x, y) && b.terms.accept(y, x)))
}

/// Whether three offers could trade in a ring: the least that each wants is passed on.
fn ring_could_trade(ring: [&Offer; 3], available: &Available) -> bool {
    let fits = |from: &Offer, to: &Offer| from.terms.gives == to.terms.wants;
    let [a, b, c] = ring;
    let parties = a.party != b.party && b.party != c.party && c.party != a.party;
    if !parties || !fits(b, a) || !fits(c, b) || !fits(a, c) {
        return false;
    }
    let stock = |offer: &Offer| available[&(offer.party, offer.terms.gives.clone())];
    let may = |from: &Offer, amount: u64, to: &Offer| {
        amount <= stock(from).min(from.terms.give_most()).min(to.terms.most)
    };
    (1..=stock(a)).any(|x| {
        let from_b = a.terms.want_for(x).filter(|&y| may(a, x, c) && may(b, y, a));
        let from_c = from_b.and_then(|y| b.terms.want_for(y)).filter(|&z| may(c, z, b));
        from_c.and_then(|z| c.terms.want_for(z)).is_some_and(|back| back <= x)
    })
}

fn tiny_offer() -> impl Strategy<Value = Offer> {
    let points = prop::collection::vec((1u64..12, 1u64..12), 1..4);
    let goods = (0usize..3, 1usize..3);
    (1u64..6, goods, points, any::<bool>(), 0u64..6, 0u64..25).prop_map(
        |(party, (gives, step), steps, partial, least, more)| {
            let mut point = Point { give: 0, want: 0 };
            let mut points = Vec::new();
            for (give, want) in steps {
                point = Point { give: point.give + give, want: point.want + want };
                points.push(point);
            }
            let (gives, wants) = (good(gives), good((gives + step) % 3));
            let most = (least + more).max(1);
            let terms = Terms { gives, wants, points, partial, least, most };
            Offer { party: CurrencyId(party), terms, until_s: None, lease: None }
        },
    )
}

fn tiny_world() -> impl Strategy<Value = (Book, Available)> {
    let offers = prop::collection::vec(tiny_offer(), 0..10);
    (offers, prop::collection::vec(0u64..40, 15)).prop_map(|(offers, stocks)| {
        let cells =
            (1..6).flat_map(|party| (0..3).map(move |index| (CurrencyId(party), good(index))));
        (book(offers), cells.zip(stocks).collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn all_accept_nobody_gives_what_it_has_not_and_nothing_is_left((book, available) in tiny_world()) {
        let clearing = clear(&book, |party, good| available[&(party, good.clone())]);
        let (rest, left) = check(&book, &available, &clearing);
        if clearing.set_aside.is_empty() {
            for (a_id, a) in &rest {
                for (b_id, b) in &rest {
                    prop_assert!(!could_trade(a, b, &left), "{} and {} could trade", a_id, b_id);
                    for (c_id, c) in &rest {
                        let ring = ring_could_trade([a, b, c], &left);
                        prop_assert!(!ring, "{}, {} and {} could trade", a_id, b_id, c_id);
                    }
                }
            }
        }
    }

    #[test]
    fn the_same_book_in_any_order_gives_the_same_clearing(
        (book, available) in tiny_world(), seed in any::<u64>(),
    ) {
        let mut draws = Pcg64Mcg::seed_from_u64(seed);
        let mut shuffled: Vec<(u64, OfferId)> =
            book.keys().map(|&id| (draws.next_u64(), id)).collect();
        shuffled.sort_unstable();
        let again: Book = shuffled.iter().map(|(_, id)| (*id, book[id].clone())).collect();
        let stock = |party: CurrencyId, good: &Good| available[&(party, good.clone())];
        prop_assert_eq!(clear(&book, stock), clear(&again, stock));
    }

    /// Of two straight offers that differ in rate alone, the one that asks less is never left while
    /// the one that asks more trades.
    #[test]
    fn who_asks_less_comes_first(
        rates in prop::collection::vec(50u64..200, 2..8), others in prop::collection::vec(50u64..200, 1..4),
    ) {
        let askers = rates.iter().zip(0..).map(|(&want, party)| line(party, (0, 100), (1, want)));
        let givers = others.iter().zip(100..).map(|(&want, party)| line(party, (1, 100), (0, want)));
        let all = book(askers.chain(givers));
        let (rest, _) = check(&all, &stock_of(&all), &clear_all(&all));
        let untouched = |place: usize| {
            let id = OfferId(place as u64 + 1);
            rest.get(&id) == Some(&all[&id])
        };
        for (one, &rate) in rates.iter().enumerate() {
            for (other, &higher) in rates.iter().enumerate() {
                if rate < higher && !untouched(other) {
                    prop_assert!(!untouched(one), "{} waits, {} trades", rate, higher);
                }
            }
        }
    }
}

fn stock_of(book: &Book) -> Available {
    let cell = |offer: &Offer| (offer.party, offer.terms.gives.clone());
    book.values().map(|offer| (cell(offer), 1 << 30)).collect()
}

#[test]
fn surplus_is_split_in_the_same_proportion() {
    // One asks 1 memory for 1 CPU, the other would give 4: each gains a factor of 2.
    let book = book([line(1, (0, 100), (1, 100)), line(2, (1, 400), (0, 100))]);
    let clearing = clear_all(&book);
    let amounts: Vec<u64> = clearing.exchanges[0].legs.iter().map(|leg| leg.amount).collect();
    assert_eq!(amounts, [100, 200]);
}

#[test]
fn the_older_of_equals_comes_first() {
    let equal = |party| line(party, (0, 100), (1, 100));
    let book = book([equal(1), equal(2), line(3, (1, 100), (0, 100))]);
    let clearing = clear_all(&book);
    assert_eq!(clearing.exchanges.len(), 1);
    assert!(clearing.exchanges[0].legs.iter().any(|leg| leg.giver == OfferId(1)));
}

#[test]
fn nobody_can_trade_but_three_or_four_in_a_ring() {
    for k in 3..=4 {
        let ring = (0..k).map(|place| line(place as u64, (place, 100), ((place + 1) % k, 80)));
        let book = book(ring);
        let clearing = clear_all(&book);
        check(&book, &stock_of(&book), &clearing);
        assert_eq!(clearing.exchanges.len(), 1, "{k}");
        let amounts: Vec<u64> = clearing.exchanges[0].legs.iter().map(|leg| leg.amount).collect();
        assert_eq!(amounts, vec![100; k], "each wants 80 for 100, and each gains the same");
    }
}

#[test]
fn the_ring_that_gains_more_comes_before_the_pair() {
    // 1 and 2 would gain a factor of √1.21 = 1.1 each; 1, 3 and 4 a factor of 2.
    let book = book([
        line(1, (0, 100), (1, 100)),
        line(2, (1, 121), (0, 100)),
        line(3, (1, 200), (2, 100)),
        line(4, (2, 400), (0, 100)),
    ]);
    let clearing = clear_all(&book);
    let lengths: Vec<usize> = clearing.exchanges.iter().map(|one| one.legs.len()).collect();
    assert_eq!(lengths[0], 3, "{clearing:?}");
}

#[test]
fn a_party_gives_no_more_than_it_has_over_all_its_offers() {
    let offers = (0..5).map(|_| line(1, (0, 100), (1, 50)));
    let takers = (0..5).map(|party| line(10 + party, (1, 100), (0, 50)));
    let all = book(offers.chain(takers));
    let available: Available = (0..20)
        .flat_map(|party| {
            [((CurrencyId(party), good(0)), 120), ((CurrencyId(party), good(1)), 1000)]
        })
        .collect();
    let clearing = clear(&all, |party, good| available[&(party, good.clone())]);
    let (_, left) = check(&all, &available, &clearing);
    assert_eq!(left[&(CurrencyId(1), good(0))], 0);
}

#[test]
fn offers_that_nobody_can_fill_hold_up_nobody() {
    // Hundreds that ask for little but all or nothing, and for more than anybody has.
    let junk = (0..300).map(|party| Offer {
        party: CurrencyId(party),
        terms: Terms::one(good(0), 1_000_000, good(1), 1000 + party),
        until_s: None,
        lease: None,
    });
    let askers = (0..100).map(|party| line(1000 + party, (0, 100), (1, 100)));
    let givers = (0..100).map(|party| line(2000 + party, (1, 100), (0, 90)));
    let all = book(junk.chain(askers).chain(givers));
    let clearing = clear_all(&all);
    check(&all, &stock_of(&all), &clearing);
    assert_eq!(clearing.set_aside.len(), 300, "the junk, after {FAILURES_MAX} failures each");
    let given: u64 = clearing
        .exchanges
        .iter()
        .flat_map(|one| &one.legs)
        .filter(|leg| leg.good == good(1))
        .map(|leg| leg.amount)
        .sum();
    assert!(given > 9_900, "{given} of 10000");
}

#[test]
fn a_party_that_offers_both_ways_holds_up_nobody() {
    let own = (0..300).map(|place| match place % 2 {
        0 => line(1, (0, 1000), (1, 1)),
        _ => line(1, (1, 1000), (0, 1)),
    });
    let others = [line(2, (0, 100), (1, 100)), line(3, (1, 100), (0, 100))];
    // Its own tickets are all it has: nothing, so that only the walk past it is tested.
    let all = book(own.chain(others));
    let clearing = clear(&all, |party, _| if party == CurrencyId(1) { 1 } else { 1000 });
    let parties = |one: &allot_market::Match| {
        one.legs.iter().map(|leg| all[&leg.giver].party.0).collect::<Vec<u64>>()
    };
    let traded: Vec<Vec<u64>> = clearing.exchanges.iter().map(parties).collect();
    assert!(traded.iter().all(|ring| ring.len() == 2 && ring[0] != ring[1]), "{traded:?}");
    let with_others = |party| traded.iter().any(|ring| ring.contains(&party));
    assert!(with_others(2) && with_others(3), "{traded:?}");
}

#[test]
fn nonsense_is_passed_over() {
    let mut bad = line(1, (0, 10), (1, 10));
    bad.terms.points.clear();
    let book = book([bad, line(2, (1, 10), (0, 10))]);
    assert_eq!(clear_all(&book), Clearing::default());
}
