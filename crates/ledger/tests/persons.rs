//! What a user may do to another's room, and how often one person may have what everybody may have once.

mod common;

use allot_ledger::operation::{Grant, MakeExchange};
use allot_ledger::{
    CURRENCIES_PER_OWNER_MAX, Good, Intent, Ledger, Leg, Persons, Refusal, RefusalKind, Resource,
    Rights, Subject, TicketKind,
};
use common::{attempt, create, per_user, perform, place, refusal, transfer, user};

#[test]
fn nobody_is_given_anything_unasked() {
    let mut ledger = Ledger::new(0, 0);
    let (giver, victim) = (place(&mut ledger, 1, per_user(1)), place(&mut ledger, 2, per_user(2)));
    let good = Good { resource: Resource::CPU, kind: TicketKind::Soft };
    let leg = Leg { giver, receiver: victim, good, amount: 1 };
    let loan = Intent::from(MakeExchange { legs: vec![leg], until_s: None });
    for gift in [transfer(giver, victim), loan.clone()] {
        assert_eq!(refusal(&mut ledger, &user(1), gift).kind(), RefusalKind::Forbidden);
    }
    assert_eq!(ledger.backing(victim).count(), 1, "its own");
    // Its owner lets whom it will.
    let rights = Rights::FUND;
    let grant = Intent::from(Grant { currency: victim, subject: Subject::Uid(1), rights });
    perform(&mut ledger, &user(2), grant);
    perform(&mut ledger, &user(1), loan);
    perform(&mut ledger, &user(1), transfer(giver, victim));
}

#[test]
fn subordinate_uids_have_no_limits_of_their_own() {
    let mut ledger = Ledger::new(0, 0);
    ledger.set_persons(Persons::of_ranges([(100_000..=165_535, 1)]));
    for number in 0..CURRENCIES_PER_OWNER_MAX {
        let uid = if number % 2 == 0 { 1 } else { 100_000 + number as u32 };
        attempt(&mut ledger, &user(uid), create(&format!("c{number}"), uid)).expect("room");
    }
    for uid in [1, 100_000, 165_535] {
        let full = refusal(&mut ledger, &user(uid), create("another", uid));
        assert_eq!(full, Refusal::TooManyCurrencies(1), "uid {uid}");
    }
    perform(&mut ledger, &user(2), create("theirs", 2));
    perform(&mut ledger, &user(165_536), create("theirs", 165_536));
}
