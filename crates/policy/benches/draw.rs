//! One quantum, a draw and its winners' charges, against the number of clients: O(log n).
//!
//! Quanta are used in turn whole and by a third, so that compensation moves the trees.

use std::{hint::black_box, time::Duration};

use allot_policy::{PolicyName, build};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

const QUANTUM_NS: u64 = 10_000_000;

fn draw(criterion: &mut Criterion) {
    for name in PolicyName::ALL {
        let mut group = criterion.benchmark_group(format!("draw and charge/{name}"));
        group
            .sample_size(20)
            .warm_up_time(Duration::from_millis(300))
            .measurement_time(Duration::from_secs(1));
        for seats in [1, 2] {
            for clients in [10u64, 1_000, 100_000] {
                let mut policy = build(name, 1);
                for client in 0..clients {
                    policy.join(client, 1 + client % 100);
                }
                let mut winners = Vec::new();
                let mut quantum = 0u64;
                group.bench_function(
                    BenchmarkId::new(format!("seats={seats}"), clients),
                    |bench| {
                        bench.iter(|| {
                            policy.draw(seats, &mut winners);
                            quantum += 1;
                            let used_ns =
                                if quantum.is_multiple_of(2) { QUANTUM_NS } else { QUANTUM_NS / 3 };
                            for &winner in &winners {
                                policy.charge(winner, used_ns, QUANTUM_NS);
                            }
                            black_box(&winners);
                        });
                    },
                );
            }
        }
        group.finish();
    }
}

criterion_group!(benches, draw);
criterion_main!(benches);
