//! A clearing against the number of offers.
//!
//! Offers are in parts, between three goods at random, of 1 to 200 tickets, at rates that differ
//! by up to a factor of two in either direction; every tenth is all or nothing. In the other book
//! nothing crosses, and in the third hundreds of offers that nobody can fill ask for the least.

use allot_market::clear;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use ledger::{CurrencyId, Good, Offer, OfferId, Terms, TicketKind};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::{collections::BTreeMap, hint::black_box, time::Duration};

fn good(index: u64) -> Good {
    let name = ["cpu", "memory", "disk:sda"][usize::try_from(index).expect("small")];
    Good { resource: name.parse().expect("a resource"), kind: TicketKind::Soft }
}

fn book(offers: u64, seed: u64, least_percent: u64) -> BTreeMap<OfferId, Offer> {
    let mut draws = Pcg64Mcg::seed_from_u64(seed);
    let mut below = |bound: u64| draws.next_u64() % bound;
    let one = |id: u64, below: &mut dyn FnMut(u64) -> u64| {
        let (gives, step) = (below(3), 1 + below(2));
        let give = 1 + below(200);
        let want = (give * (least_percent + below(150))).div_ceil(100);
        let terms = Terms::one(good(gives), give, good((gives + step) % 3), want);
        let partial = below(10) > 0;
        let most = want * 2;
        let party = CurrencyId(below(offers / 2 + 1));
        (
            OfferId(id),
            Offer { party, terms: Terms { partial, most, ..terms }, until_s: None, lease: None },
        )
    };
    (0..offers).map(|id| one(id, &mut below)).collect()
}

fn with_junk(offers: u64, seed: u64) -> BTreeMap<OfferId, Offer> {
    let mut all = book(offers, seed, 50);
    for (_, offer) in all.iter_mut().step_by(10) {
        let terms = &offer.terms;
        let one = Terms::one(terms.gives.clone(), 1_000_000, terms.wants.clone(), 1000);
        offer.terms = one;
    }
    all
}

fn clearing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("clear");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2));
    for offers in [1_000u64, 10_000, 100_000] {
        let books = [
            ("crossing", book(offers, 1, 50)),
            ("nothing crosses", book(offers, 1, 101)),
            ("junk in front", with_junk(offers, 1)),
        ];
        for (name, book) in books {
            let exchanges = clear(&book, |_, _| 1000).exchanges.len();
            println!("{name}: {offers} offers, {exchanges} exchanges");
            group.bench_function(BenchmarkId::new(name, offers), |bench| {
                bench.iter(|| black_box(clear(&book, |_, _| 1000)));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, clearing);
criterion_main!(benches);
