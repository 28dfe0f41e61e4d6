//! A snapshot or journal that contradicts itself is told from a good one: what would break a
//! theorem, or an index, does not get in by that door either.

mod common;

use allot_ledger::{BASE, Ledger, Nature, Snapshot, TicketId};
use common::*;

fn snapshot() -> Snapshot {
    let mut ledger = Ledger::new(0, 0);
    place(&mut ledger, 1, per_user(1));
    place(&mut ledger, 2, per_user(2));
    let own = home(&ledger, 1);
    let below = perform(&mut ledger, &user(1), create("below", 1)).unwrap();
    perform(&mut ledger, &user(1), fund(below, own, soft(5)));
    perform(&mut ledger, &root(), fund(own, BASE, hard(400)));
    ledger.snapshot()
}

fn assert_misfit(what: &str, spoil: impl FnOnce(&mut Snapshot)) {
    let mut spoilt = snapshot();
    Ledger::restore(spoilt.clone()).expect("unspoilt it fits");
    spoil(&mut spoilt);
    let misfit = Ledger::restore(spoilt).expect_err("spoilt it does not");
    assert!(misfit.why.contains(what), "{misfit}");
}

#[test]
fn spoilt_snapshots_do_not_fit() {
    let nothing_of = TicketId(1000);
    assert_misfit("closes a cycle", |snapshot| {
        let below = snapshot.tickets.iter().find(|(_, t)| t.amount == 5).unwrap().1.clone();
        let (issuer, holder) = (below.holder, below.issuer);
        let back = allot_ledger::Ticket { issuer, holder, ..below };
        snapshot.tickets.push((nothing_of, back));
    });
    assert_misfit("second of its kind", |snapshot| {
        let again = snapshot.tickets[0].1.clone();
        snapshot.tickets.push((nothing_of, again));
    });
    assert_misfit("more than its issuer may", |snapshot| {
        let mut more = snapshot.tickets.last().unwrap().1.clone();
        more.amount = 700;
        more.holder = snapshot.currencies.last().unwrap().0;
        snapshot.tickets.push((nothing_of, more));
    });
    assert_misfit("cannot be joined", |snapshot| snapshot.tickets[0].1.holder = BASE);
    assert_misfit("cannot be joined", |snapshot| {
        let client = snapshot.currencies.iter().find(|(_, record)| record.name.is_empty());
        snapshot.tickets[0].1.issuer = client.unwrap().0;
    });
    assert_misfit("name or process", |snapshot| {
        let name = snapshot.currencies[0].1.name.clone();
        snapshot.currencies.last_mut().unwrap().1.name = name;
        snapshot.currencies.last_mut().unwrap().1.owner = 0;
    });
    assert_misfit("not the one base", |snapshot| {
        snapshot.currencies.last_mut().unwrap().1.nature = Nature::Base;
    });
    assert_misfit("unknown", |snapshot| {
        snapshot.homes[0].1.currency = allot_ledger::CurrencyId(999);
    });
}
