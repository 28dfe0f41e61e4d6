//! What one activation costs: a client leaves the competition, comes back and is valued, at
//! 10², 10⁴ and 10⁶ currencies, with paths of equal length. It should cost its path, not the
//! graph.
//!
//! `same` does so with one client again and again; `random` with another each time, so that its
//! path comes from memory rather than from the processor's caches.

use allot_valuation::Graph;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use ledger::{
    BASE, Change, CurrencyId, CurrencyKind, CurrencyRecord, Ledger, Mode, ProcessIdentity,
    Resource, Ticket, TicketId, TicketKind,
};
use std::hint::black_box;
use std::time::Duration;

/// Tickets between base and each client.
const DEPTH: usize = 6;

/// A tree of which every level is as many times wider than the one above.
fn graph(currencies: usize) -> (Graph, Vec<CurrencyId>) {
    let mut ledger = Ledger::new(0, 0);
    let fits = |fan: usize| (1..=DEPTH as u32).map(|level| fan.pow(level)).sum::<usize>();
    let fan = (2..).take_while(|fan| fits(*fan) <= currencies).last().unwrap_or(2);
    let mut above = vec![BASE];
    let mut changes = Vec::new();
    let mut number = 0;
    for level in 1..=DEPTH {
        // The last level takes what is missing to the number asked for.
        let last = level == DEPTH;
        let count = if last { currencies - number } else { above.len() * fan };
        let mut here = Vec::with_capacity(count);
        for index in 0..count {
            number += 1;
            let id = CurrencyId(number as u64);
            here.push(id);
            let process = ProcessIdentity { pid: number as u32, start_time_ticks: 1 };
            changes.push(Change::Currency {
                id,
                before: None,
                after: Some(Box::new(CurrencyRecord {
                    name: if last { String::new() } else { format!("c{number}") },
                    owner: 1,
                    group: 1,
                    mode: Mode::PRIVATE,
                    grants: Vec::new(),
                    limits: Default::default(),
                    kind: if last { CurrencyKind::client(process) } else { CurrencyKind::Pure },
                })),
            });
            let ticket = Ticket {
                issuer: above[index % above.len()],
                holder: id,
                resource: Resource::CPU,
                kind: TicketKind::Soft,
                amount: 100 + (number % 7) as u64,
            };
            let id = TicketId(number as u64);
            changes.push(Change::Ticket { id, before: None, after: Some(ticket) });
        }
        above = here;
    }
    ledger.replay(changes).expect("it was made to fit");
    let mut graph = Graph::of(&ledger, Resource::CPU);
    for client in &above {
        graph.set_active(*client, true);
    }
    (graph, above)
}

fn revalue(graph: &mut Graph, client: CurrencyId) -> u64 {
    graph.set_active(client, false);
    graph.set_active(client, true);
    graph.value(client)
}

fn revaluation(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("revaluation");
    for currencies in [100, 10_000, 1_000_000] {
        let (mut graph, clients) = graph(currencies);
        group.bench_function(BenchmarkId::new("same", currencies), |bench| {
            bench.iter(|| revalue(&mut graph, black_box(clients[clients.len() / 2])));
        });
        // A full-period generator is enough to jump about with.
        let mut state = 1_u64;
        group.bench_function(BenchmarkId::new("random", currencies), |bench| {
            bench.iter(|| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let client = clients[(state >> 33) as usize % clients.len()];
                revalue(&mut graph, client)
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = revaluation
}
criterion_main!(benches);
