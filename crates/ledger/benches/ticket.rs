//! What a ticket costs: a currency is funded and the ticket revoked again, in a ledger of 10², 10⁴ and 10⁶ tickets
//! (`wide`: one currency that funds so many), and in 16 000 between layers of 63 currencies that each fund all of the
//! next (`layers`), in the middle. It should cost the paths that become longer, not the graph.

use allot_ledger::operation::{Fund, Unfund};
use allot_ledger::{
    Authority, BASE, Caller, Change, CurrencyId, CurrencyKind, CurrencyRecord, Funding, Intent,
    Ledger, Mode, Resource, Ticket, TicketId, TicketKind, decide,
};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::Duration;

const LAYERS: u64 = 6;
const WIDTH: u64 = 63;

fn currency(number: u64) -> Change {
    Change::Currency {
        id: CurrencyId(number),
        before: None,
        after: Some(Box::new(CurrencyRecord {
            name: format!("c{number}"),
            owner: 0,
            group: 0,
            mode: Mode::PRIVATE,
            grants: Vec::new(),
            limits: Default::default(),
            kind: CurrencyKind::Pure,
        })),
    }
}

fn ticket(number: u64, issuer: u64, holder: u64) -> Change {
    let (issuer, holder) = (CurrencyId(issuer), CurrencyId(holder));
    let (resource, kind) = (Resource::CPU, TicketKind::Soft);
    let after = Some(Ticket { issuer, holder, resource, kind, amount: 1 });
    Change::Ticket { id: TicketId(number), before: None, after }
}

/// A currency with so many holders; the last two are not funded.
fn wide(tickets: u64) -> (Ledger, CurrencyId, CurrencyId) {
    let mut changes = vec![currency(1), ticket(1, BASE.0, 1)];
    for number in 2..=tickets + 2 {
        changes.push(currency(number));
        if number <= tickets {
            changes.push(ticket(number, 1, number));
        }
    }
    let mut ledger = Ledger::new(0, 0);
    ledger.replay(changes).expect("a graph");
    (ledger, CurrencyId(1), CurrencyId(tickets + 1))
}

fn layers() -> (Ledger, CurrencyId, CurrencyId) {
    let id = |layer: u64, place: u64| 1 + layer * WIDTH + place;
    let mut changes: Vec<Change> = (1..=LAYERS * WIDTH).map(currency).collect();
    let mut number = 1;
    for layer in 0..LAYERS - 1 {
        for (from, to) in (0..WIDTH).flat_map(|from| (0..WIDTH).map(move |to| (from, to))) {
            let own = (layer, from, to) == (2, 0, 0);
            if !own {
                changes.push(ticket(number, id(layer, from), id(layer + 1, to)));
                number += 1;
            }
        }
    }
    let mut ledger = Ledger::new(0, 0);
    ledger.replay(changes).expect("a graph");
    (ledger, CurrencyId(id(2, 0)), CurrencyId(id(3, 0)))
}

fn fund_and_revoke(ledger: &mut Ledger, issuer: CurrencyId, holder: CurrencyId) {
    let root = Authority::Caller(Caller { uid: 0, gid: 0, groups: vec![], process: None });
    let (resource, kind) = (Resource::CPU, TicketKind::Soft);
    let funding = Funding { resource: resource.clone(), kind, amount: 1 };
    let fund: Intent = Fund { holder, issuer, funding }.into();
    let unfund = Unfund { holder, issuer, resource, kind }.into();
    for intent in [fund, unfund] {
        let authorised = decide(ledger, root.clone(), intent).expect("allowed");
        black_box(ledger.apply(authorised));
    }
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ticket");
    group.measurement_time(Duration::from_secs(2)).sample_size(20);
    for tickets in [100, 10_000, 1_000_000] {
        let (mut ledger, issuer, holder) = wide(tickets);
        group.bench_function(BenchmarkId::new("wide", tickets), |bench| {
            bench.iter(|| fund_and_revoke(&mut ledger, issuer, holder));
        });
    }
    let (mut ledger, issuer, holder) = layers();
    group.bench_function(BenchmarkId::new("layers", ledger.tickets().count()), |bench| {
        bench.iter(|| fund_and_revoke(&mut ledger, issuer, holder));
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
