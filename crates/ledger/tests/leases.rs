//! What a program traded ends when the program does: leases and their renewal.

mod common;
use allot_ledger::operation::{Clear, Renew};

use allot_ledger::{
    Authority, Clearing, CurrencyId, Intent, Lease, Ledger, Offer, Refusal, RefusalKind, Resource,
};
use common::trades::*;
use common::*;

#[test]
fn leases_are_renewed_by_their_party_alone() {
    let mut ledger = Ledger::new(0, 0);
    let (a, b) = (funded(&mut ledger, 1), funded(&mut ledger, 2));
    let leased = |party: CurrencyId, until_s: u64, offer: Offer| Offer {
        party,
        lease: Some(Lease { offer_until_s: 5, exchange_until_s: until_s }),
        ..offer
    };
    let mut first = leased(a, 100, offer(a, disk(), 60, Resource::CPU, 30));
    first.until_s = Some(900);
    assert_eq!(first.ends_s(), Some(5));
    let from_a = place_offer(&mut ledger, 1, first);
    let from_b = leased(b, 200, offer(b, Resource::CPU, 30, disk(), 60));
    let from_b = place_offer(&mut ledger, 2, from_b);
    let legs = vec![leg(a, b, disk(), 60), leg(b, a, Resource::CPU, 30)];
    let clear =
        Intent::from(Clear { exchanges: vec![Clearing { offers: vec![from_a, from_b], legs }] });
    perform(&mut ledger, &Authority::System, clear);
    let exchange = newest(&ledger);
    let ends = |ledger: &Ledger| ledger.exchange(exchange).expect("it stands").ends_s();
    assert_eq!(ends(&ledger), Some(100), "the first that has to be renewed");
    let renew = |party, until_s| Intent::from(Renew { exchange, party, until_s });
    let before = ledger.clone();
    let changes = attempt(&mut ledger, &user(1), renew(a, Some(300))).expect("its own");
    assert_eq!(ends(&ledger), Some(200), "the other's");
    ledger.undo(changes);
    assert_eq!(ledger, before);
    perform(&mut ledger, &user(1), renew(a, Some(300)));
    assert_eq!(refusal(&mut ledger, &user(1), renew(b, Some(300))).kind(), RefusalKind::Forbidden);
    perform(&mut ledger, &user(2), renew(b, None));
    assert_eq!(ends(&ledger), Some(300));
    let none = Refusal::NoLease { exchange, party: b };
    assert_eq!(refusal(&mut ledger, &user(2), renew(b, Some(300))), none);
    perform(&mut ledger, &user(1), renew(a, None));
    assert_eq!(ends(&ledger), Some(900), "what the offer said stays");
    assert_eq!((ledger.given(a, &good(disk())), ledger.received(b, &good(disk()))), (60, 60));
    let again = Ledger::restore(ledger.snapshot()).expect("it fits");
    assert_eq!(again, ledger);
    // Nobody has a lease on what others exchanged.
    let mut spoilt = ledger.snapshot();
    spoilt.exchanges[0].1.leases.insert(CurrencyId(99), 1);
    let misfit = Ledger::restore(spoilt).expect_err("it does not fit");
    assert!(misfit.why.contains("a lease of somebody"), "{misfit}");
}
