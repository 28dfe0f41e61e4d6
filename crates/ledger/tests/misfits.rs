//! A snapshot or journal that contradicts itself is told from a good one: what would break a
//! theorem, or an index, does not get in by that door either.

mod common;

use allot_ledger::{
    BASE, CurrencyKind, CurrencyRecord, Ledger, Loan, Resource, Snapshot, TicketId, TicketKind,
};
use common::*;

fn snapshot() -> Snapshot {
    let mut ledger = Ledger::new(0, 0);
    let lender = place(&mut ledger, 1, per_user(1));
    let holder = place(&mut ledger, 2, per_user(2));
    place(&mut ledger, 4, per_user(3));
    let_give(&mut ledger, 1, holder);
    perform(&mut ledger, &user(1), transfer(lender, holder));
    perform(&mut ledger, &root(), join(new_client(3, 0), holder));
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
    assert_misfit("name or founder", |snapshot| {
        let name = snapshot.currencies[0].1.name.clone();
        snapshot.currencies.last_mut().unwrap().1.name = name;
        snapshot.currencies.last_mut().unwrap().1.owner = 0;
    });
    assert_misfit("not the one base", |snapshot| {
        snapshot.currencies.last_mut().unwrap().1.kind = CurrencyKind::Base;
    });
    assert_misfit("lends what cannot be lent", |snapshot| {
        let lent = snapshot.tickets.iter().find(|(_, t)| t.kind == TicketKind::Transfer);
        let mut again = lent.unwrap().1.clone();
        let client = |(_, it): &&(_, CurrencyRecord)| it.name.is_empty() && it.owner == 3;
        again.holder = snapshot.currencies.iter().find(client).unwrap().0;
        snapshot.tickets.push((nothing_of, again));
    });
    assert_misfit("joins what is no client", |snapshot| snapshot.joined[0].1 = BASE);
    assert_misfit("joins the client that it founded", |snapshot| {
        snapshot.joined[0].0 = process(2).into();
    });
    assert_misfit("not in the client that it was in", |snapshot| {
        let again = snapshot.joined[0];
        snapshot.joined.push(again);
    });
    assert_misfit("no ledger reaches", |snapshot| {
        snapshot.currencies.last_mut().unwrap().0 = allot_ledger::CurrencyId(u64::MAX);
    });
    assert_misfit("no ledger reaches", |snapshot| {
        snapshot.tickets.last_mut().unwrap().0 = TicketId(u64::MAX);
    });
    assert_misfit("no ledger reaches", |snapshot| snapshot.next_currency = u64::MAX);
    assert_misfit("no ledger reaches", |snapshot| snapshot.next_offer = u64::MAX);
    assert_misfit("lent more than anybody has", |snapshot| {
        let (lender, resource) = (BASE, Resource::CPU);
        let loan = Loan { lender, resource, amount: u64::MAX };
        let (kind, name) = (CurrencyKind::Job { loans: vec![loan] }, String::new());
        let job = CurrencyRecord { kind, name, ..snapshot.currencies[0].1.clone() };
        snapshot.currencies.push((allot_ledger::CurrencyId(100), job));
    });
    assert_misfit("unknown", |snapshot| {
        snapshot.homes[0].1.currency = allot_ledger::CurrencyId(999);
    });
}
