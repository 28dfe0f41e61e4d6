//! What an operation costs in memory and what its durability adds, by the size of a batch.
//! Elements per second are operations per second; the ratios are printed at the end.

use allot_journal::Journal;
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use ledger::operation::{Adopt, CreateCurrency, DestroyCurrency, Exit, Fork, Fund};
use ledger::{
    Authority, BASE, Change, CurrencyId, Funding, Intent, Ledger, Mode, NewClient, ProcessIdentity,
    Resource, TicketKind, decide,
};
use std::path::Path;
use std::time::{Duration, Instant};

const USERS: u32 = 100;

fn root() -> Authority {
    let caller = ledger::Caller { uid: 0, gid: 0, groups: Vec::new(), process: None };
    Authority::Caller(caller)
}

fn apply(ledger: &mut Ledger, authority: Authority, intent: Intent) -> Vec<Change> {
    let authorised = decide(ledger, authority, intent).expect("allowed");
    ledger.apply(authorised)
}

fn create(name: String, owner: u32) -> Intent {
    Intent::from(CreateCurrency { name, owner, group: owner, mode: Mode::PRIVATE })
}

fn cpu(amount: u64) -> Funding {
    Funding { resource: Resource::CPU, kind: TicketKind::Soft, amount }
}

fn client(pid: u32) -> NewClient {
    let process = ProcessIdentity { pid, start_time_ticks: 7 };
    NewClient::process(process, 1000, 1000)
}

/// Users with a funded currency and ten clients each; their currencies and the clients' pids.
fn populated() -> (Ledger, Vec<CurrencyId>) {
    let mut ledger = Ledger::new(0, 0);
    let mut currencies = Vec::new();
    for user in 0..USERS {
        let uid = 1000 + user;
        apply(&mut ledger, root(), create("home".to_owned(), uid));
        let holder = ledger.named(uid, "home").expect("just made");
        let funding = cpu(1000);
        apply(&mut ledger, root(), Intent::from(Fund { holder, issuer: BASE, funding }));
        for number in 0..10 {
            let client = client(1 + user * 10 + number);
            let funding = vec![cpu(100)];
            apply(&mut ledger, root(), Intent::from(Adopt { client, issuer: holder, funding }));
        }
        currencies.push(holder);
    }
    (ledger, currencies)
}

fn fund(currencies: &[CurrencyId], number: u64) -> Intent {
    let holder = currencies[(number % u64::from(USERS)) as usize];
    Intent::from(Fund { holder, issuer: BASE, funding: cpu(1 + number % 1000) })
}

/// A journal with the users' currencies in it.
struct Durable {
    journal: Journal,
    ledger: Ledger,
    currencies: Vec<CurrencyId>,
    number: u64,
}

impl Durable {
    fn new(dir: &Path) -> Durable {
        let (mut journal, recovered) = Journal::open(dir, "a boot", 0, 0).expect("a journal");
        let mut ledger = recovered.ledger;
        let mut batch = journal.begin().expect("a batch");
        for uid in 1000..1000 + USERS {
            let intent = create("home".to_owned(), uid);
            let changes = apply(&mut ledger, root(), intent.clone());
            batch.append(0, &root(), &intent, &changes).expect("appended");
        }
        batch.commit().expect("committed");
        let named = |uid| ledger.named(uid, "home").expect("made above");
        let currencies = (1000..1000 + USERS).map(named).collect();
        Durable { journal, ledger, currencies, number: 0 }
    }

    /// Decide, apply and append `size` operations, and commit them.
    fn batch(&mut self, size: u64) {
        let mut batch = self.journal.begin().expect("a batch");
        for _ in 0..size {
            self.number += 1;
            let intent = fund(&self.currencies, self.number);
            let changes = apply(&mut self.ledger, root(), intent.clone());
            batch.append(self.number, &root(), &intent, &changes).expect("appended");
        }
        batch.commit().expect("committed");
        self.journal.snapshot_if_due(&self.ledger).expect("a snapshot");
    }
}

fn in_memory(criterion: &mut Criterion) {
    let (ledger, currencies) = populated();
    let mut group = criterion.benchmark_group("ledger_in_memory");
    group.throughput(Throughput::Elements(1));
    let mut number = 0;
    let mut live = ledger.clone();
    group.bench_function("fund", |bencher| {
        bencher.iter(|| {
            number += 1;
            apply(&mut live, root(), fund(&currencies, number))
        });
    });
    let mut number = 0;
    let mut live = ledger.clone();
    group.bench_function("create_destroy", |bencher| {
        bencher.iter(|| {
            number += 1;
            let uid = 5000 + number % 100;
            apply(&mut live, root(), create("new".to_owned(), uid));
            let currency = live.named(uid, "new").expect("just made");
            apply(&mut live, root(), Intent::from(DestroyCurrency { currency }))
        });
    });
    let mut live = ledger.clone();
    let mut number = 0;
    group.bench_function("fork_exit", |bencher| {
        bencher.iter(|| {
            number += 1;
            let parent = client(1 + number % (USERS * 10)).member.process().expect("a process");
            let child = client(1_000_000);
            apply(&mut live, Authority::System, Intent::from(Fork { parent, child }));
            apply(&mut live, Authority::System, Intent::from(Exit { member: child.member }))
        });
    });
    group.throughput(Throughput::Elements(1000));
    group.bench_function("create_1000", |bencher| {
        bencher.iter_batched(
            || Ledger::new(0, 0),
            |mut ledger| {
                for number in 0..1000 {
                    apply(&mut ledger, root(), create(format!("c{number}"), 1000));
                }
                ledger
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

fn on_disk(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ledger_durable");
    for size in [1, 10, 100, 1000] {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let mut durable = Durable::new(dir.path());
        group.throughput(Throughput::Elements(size));
        group.bench_with_input(BenchmarkId::new("fund_batch", size), &size, |bencher, size| {
            bencher.iter(|| durable.batch(*size));
        });
    }
    group.finish();
}

/// The same once more, plainly, so that the ratios can be read off.
fn ratios() {
    let (mut ledger, currencies) = populated();
    let operations = 100_000;
    let started = Instant::now();
    for number in 0..operations {
        apply(&mut ledger, root(), fund(&currencies, number));
    }
    let memory = operations as f64 / started.elapsed().as_secs_f64();
    println!("\nfund: operations per second\nin memory    {memory:>12.0}    1");
    for size in [1, 10, 100, 1000] {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let mut durable = Durable::new(dir.path());
        let batches = (20_000 / size).clamp(50, 300);
        let started = Instant::now();
        (0..batches).for_each(|_| durable.batch(size));
        let rate = (batches * size) as f64 / started.elapsed().as_secs_f64();
        println!("batch {size:>4}   {rate:>12.0}    1/{:.0}", memory / rate);
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    in_memory(&mut criterion);
    on_disk(&mut criterion);
    criterion.final_summary();
    if std::env::args().any(|argument| argument == "--bench") {
        ratios();
    }
}
