//! Hard caps on disks: who may set them, what they may be, and who has them.

mod common;
use allot_ledger::operation::LimitDisk;

use allot_ledger::{
    BASE, CurrencyId, DiskLimit, Intent, LIMIT_BYTES, LIMIT_REQUESTS, LIMITS_MAX, Ledger, Refusal,
    RefusalKind, Resource, SetLimit, Snapshot,
};
use common::*;

fn disk(name: &str) -> Resource {
    Resource::disk(name)
}

fn reads(count: u64) -> DiskLimit {
    DiskLimit { reads: Some(count), ..DiskLimit::default() }
}

fn limit(currency: CurrencyId, name: &str, limit: DiskLimit) -> Intent {
    Intent::from(LimitDisk { currency, resource: disk(name), limit })
}

fn limit_of(ledger: &Ledger, currency: CurrencyId) -> Option<SetLimit> {
    ledger.currency(currency).expect("it exists").record.limits.get(&disk("sda")).copied()
}

#[test]
fn who_owns_a_currency_limits_it_and_takes_that_back() {
    let mut ledger = Ledger::new(0, 0);
    let client = place(&mut ledger, 1, per_user(1));
    let home = home(&ledger, 1);
    let start = ledger.clone();
    for currency in [client, home] {
        let theirs = refusal(&mut ledger, &user(2), limit(currency, "sda", reads(100)));
        assert_eq!(theirs.kind(), RefusalKind::Forbidden, "{theirs}");
        perform(&mut ledger, &user(1), limit(currency, "sda", reads(100)));
        let set = SetLimit { limit: reads(100), by_superuser: false };
        assert_eq!(limit_of(&ledger, currency), Some(set));
        perform(&mut ledger, &user(1), limit(currency, "sda", reads(200)));
        assert_eq!(limit_of(&ledger, currency).map(|set| set.limit), Some(reads(200)), "replaced");
        perform(&mut ledger, &user(1), limit(currency, "sda", DiskLimit::default()));
    }
    assert_eq!(ledger, start);
}

#[test]
fn what_the_superuser_has_set_only_the_superuser_changes() {
    let mut ledger = Ledger::new(0, 0);
    let client = place(&mut ledger, 1, per_user(1));
    perform(&mut ledger, &user(1), limit(client, "sda", reads(100)));
    perform(&mut ledger, &root(), limit(client, "sda", reads(50)));
    for other in [reads(1000), DiskLimit::default()] {
        let refused = refusal(&mut ledger, &user(1), limit(client, "sda", other));
        assert!(matches!(refused, Refusal::NotSuperuser(_)), "{refused}");
    }
    perform(&mut ledger, &user(1), limit(client, "sdb", reads(100)));
    perform(&mut ledger, &root(), limit(client, "sda", DiskLimit::default()));
    perform(&mut ledger, &user(1), limit(client, "sda", reads(1000)));
}

#[test]
fn what_cannot_be_a_limit_is_refused() {
    let mut ledger = Ledger::new(0, 0);
    let client = place(&mut ledger, 1, per_user(1));
    let mut all = Vec::new();
    for bytes in [0, *LIMIT_BYTES.start() - 1, *LIMIT_BYTES.end() + 1, u64::MAX] {
        all.push(DiskLimit { read_bytes: Some(bytes), ..DiskLimit::default() });
        all.push(DiskLimit { written_bytes: Some(bytes), ..DiskLimit::default() });
    }
    for requests in [0, *LIMIT_REQUESTS.start() - 1, *LIMIT_REQUESTS.end() + 1, u64::MAX] {
        all.push(reads(requests));
        all.push(DiskLimit { writes: Some(requests), ..DiskLimit::default() });
    }
    for wrong in all {
        let refused = refusal(&mut ledger, &root(), limit(client, "sda", wrong));
        assert_eq!(refused.kind(), RefusalKind::Invalid, "{wrong:?}: {refused}");
    }
    let right = DiskLimit {
        read_bytes: Some(*LIMIT_BYTES.start()),
        written_bytes: Some(*LIMIT_BYTES.end()),
        reads: Some(*LIMIT_REQUESTS.start()),
        writes: Some(*LIMIT_REQUESTS.end()),
    };
    perform(&mut ledger, &root(), limit(client, "sda", right));
    let refused = refusal(&mut ledger, &root(), limit(BASE, "sda", right));
    assert_eq!(refused.kind(), RefusalKind::Invalid, "{refused}");
    let cpu = Intent::from(LimitDisk { currency: client, resource: Resource::CPU, limit: right });
    assert_eq!(refusal(&mut ledger, &root(), cpu).kind(), RefusalKind::Invalid);
}

#[test]
fn nobody_fills_the_ledger_with_limits() {
    let mut ledger = Ledger::new(0, 0);
    let client = place(&mut ledger, 1, per_user(1));
    for number in 0..LIMITS_MAX {
        perform(&mut ledger, &user(1), limit(client, &format!("d{number}"), reads(20)));
    }
    let refused = refusal(&mut ledger, &user(1), limit(client, "sda", reads(20)));
    assert_eq!(refused.kind(), RefusalKind::Invalid, "{refused}");
    perform(&mut ledger, &user(1), limit(client, "sda", DiskLimit::default()));
    perform(&mut ledger, &user(1), limit(client, "d0", DiskLimit::default()));
    perform(&mut ledger, &user(1), limit(client, "sda", reads(20)));
}

#[test]
fn a_child_has_the_same_limits_and_they_are_written_and_read() {
    let mut ledger = Ledger::new(0, 0);
    let client = place(&mut ledger, 1, per_user(1));
    perform(&mut ledger, &root(), limit(client, "sda", reads(50)));
    perform(&mut ledger, &allot_ledger::Authority::System, fork(1, 10, 1));
    let child = ledger.client_of(process(10)).expect("a client");
    assert_eq!(limit_of(&ledger, child), limit_of(&ledger, client));
    let text = serde_json::to_string(&ledger.snapshot()).expect("it is written");
    let snapshot: Snapshot = serde_json::from_str(&text).expect("it is read");
    assert_eq!(Ledger::restore(snapshot).expect("it fits"), ledger);
}

#[test]
fn limits_are_parted_and_the_stricter_counts() {
    let limits = DiskLimit { read_bytes: Some(100), reads: Some(1), ..DiskLimit::default() };
    let third = DiskLimit { read_bytes: Some(33), reads: Some(1), ..DiskLimit::default() };
    assert_eq!(limits.part(3), third);
    assert_eq!(limits.part(0), limits);
    let other = DiskLimit { read_bytes: Some(7), writes: Some(5), ..DiskLimit::default() };
    let both =
        DiskLimit { read_bytes: Some(7), reads: Some(1), writes: Some(5), ..DiskLimit::default() };
    assert_eq!(limits.stricter(other), both);
    assert_eq!(limits.stricter(DiskLimit::default()), limits);
}
