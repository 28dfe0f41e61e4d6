//! What a look at a process costs.

use allot_observe::{ProcessHandle, scan};
use criterion::{Criterion, criterion_group, criterion_main};
use std::time::Duration;

fn readers(criterion: &mut Criterion) {
    let single = ProcessHandle::open(std::os::unix::process::parent_id()).expect("our parent");
    let threads: Vec<_> = (0..16)
        .map(|_| std::thread::spawn(|| std::thread::sleep(Duration::from_secs(600))))
        .collect();
    let several = ProcessHandle::open(std::process::id()).expect("ourselves");
    criterion.bench_function("is_alive", |b| b.iter(|| single.is_alive()));
    criterion.bench_function("cpu_time_ns", |b| b.iter(|| single.cpu_time_ns().expect("alive")));
    criterion.bench_function("cpu_time_ns, 17 threads", |b| {
        b.iter(|| several.cpu_time_ns().expect("alive"));
    });
    criterion.bench_function("run_state", |b| b.iter(|| single.run_state().expect("alive")));
    // The leader is the one that runs here, and is looked at first.
    criterion.bench_function("run_state, 17 threads, leader running", |b| {
        b.iter(|| several.run_state().expect("alive"));
    });
    criterion.bench_function("facts", |b| b.iter(|| single.facts().expect("alive")));
    criterion.bench_function("scan", |b| b.iter(|| scan().expect("/proc")));
    drop(threads);
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800));
    targets = readers
}
criterion_main!(benches);
