//! What a user may do to another's room, and how often one person may have what everybody may have once.

mod common;

use allot_ledger::operation::{
    Adopt, CancelOffer, ChangeOwner, DestroyCurrency, EndExchange, Grant, MakeExchange, MakeOffer,
    Release,
};
use allot_ledger::{
    BASE, CurrencyId, Good, Intent, Ledger, Leg, Member, NewClient, Part, Persons, Quota, Refusal,
    RefusalKind, Resource, Rights, Subject, TicketKind,
};
use common::trades::{disk, funded, leg, offer};
use common::*;

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
    let most = Part::Currency.quota().per_person;
    for number in 0..most {
        let uid = if number % 2 == 0 { 1 } else { 100_000 + number as u32 };
        attempt(&mut ledger, &user(uid), create(&format!("c{number}"), uid)).expect("room");
    }
    for uid in [1, 100_000, 165_535] {
        let full = refusal(&mut ledger, &user(uid), create("another", uid));
        assert_eq!(
            full,
            Refusal::QuotaOfPerson { uid: 1, part: Part::Currency, most },
            "uid {uid}"
        );
    }
    perform(&mut ledger, &user(2), create("theirs", 2));
    perform(&mut ledger, &user(165_536), create("theirs", 165_536));
}

fn quota(part: Part, per_person: usize, in_all: usize) -> Ledger {
    let mut ledger = Ledger::new(0, 0);
    ledger.set_quota(part, Quota { per_person, in_all });
    ledger
}

/// The most that one person may have, then all, each tried by one who asks.
fn is_full(ledger: &mut Ledger, part: Part, uid: u32, intent: Intent) {
    let most = ledger.quota(part).per_person;
    let full = Refusal::QuotaOfPerson { uid, part, most };
    assert_eq!(refusal(ledger, &user(uid), intent), full);
}

fn is_full_in_all(ledger: &mut Ledger, part: Part, uid: u32, intent: Intent) {
    let most = ledger.quota(part).in_all;
    let full = refusal(ledger, &user(uid), intent);
    assert_eq!(full, Refusal::QuotaInAll { part, most });
    assert_eq!(full.kind(), RefusalKind::Limit);
}

#[test]
fn offers_have_a_total() {
    let mut ledger = quota(Part::Offer, 2, 3);
    let [a, b] = [1, 2].map(|uid| funded(&mut ledger, uid));
    let offers =
        |party| Intent::from(MakeOffer { offer: offer(party, disk(), 1, Resource::CPU, 1) });
    perform(&mut ledger, &user(1), offers(a));
    perform(&mut ledger, &user(1), offers(a));
    is_full(&mut ledger, Part::Offer, 1, offers(a));
    perform(&mut ledger, &user(2), offers(b));
    is_full_in_all(&mut ledger, Part::Offer, 2, offers(b));
    perform(&mut ledger, &root(), offers(b));
    // The superuser's own count for nobody.
    perform(
        &mut ledger,
        &root(),
        Intent::from(ChangeOwner { currency: b, owner: Some(0), group: None }),
    );
    assert_eq!(ledger.owned_in_all(Part::Offer), 2);
    let first = ledger.offers().next().expect("an offer").0;
    perform(&mut ledger, &user(1), Intent::from(CancelOffer { offer: first }));
    perform(&mut ledger, &user(1), offers(a));
}

#[test]
fn exchanges_have_a_total() {
    let mut ledger = quota(Part::Exchange, 2, 3);
    let [a, b, c] = [1, 2, 3].map(|uid| funded(&mut ledger, uid));
    for giver in [1, 2] {
        let_give(&mut ledger, giver, c);
    }
    let loan =
        |giver| Intent::from(MakeExchange { legs: vec![leg(giver, c, disk(), 1)], until_s: None });
    perform(&mut ledger, &user(1), loan(a));
    perform(&mut ledger, &user(1), loan(a));
    is_full(&mut ledger, Part::Exchange, 1, loan(a));
    perform(&mut ledger, &user(2), loan(b));
    let most = 3;
    let full = Refusal::QuotaInAll { part: Part::Exchange, most };
    assert_eq!(refusal(&mut ledger, &user(2), loan(b)), full);
    assert!(!ledger.may_exchange(b), "the dealer does not try");
    let first = ledger.exchanges().next().expect("an exchange").0;
    perform(&mut ledger, &user(1), Intent::from(EndExchange { exchange: first }));
    assert!(ledger.may_exchange(b));
    perform(&mut ledger, &user(2), loan(b));
}

#[test]
fn grants_have_a_total() {
    let mut ledger = quota(Part::Grant, 2, 3);
    let make = |ledger: &mut Ledger, name, uid| {
        perform(ledger, &user(uid), create(name, uid)).expect("made")
    };
    let (a, b, c) =
        (make(&mut ledger, "a", 1), make(&mut ledger, "b", 1), make(&mut ledger, "c", 2));
    let grant =
        |currency, to, rights| Intent::from(Grant { currency, subject: Subject::Uid(to), rights });
    perform(&mut ledger, &user(1), grant(a, 7, Rights::FUND));
    perform(&mut ledger, &user(1), grant(b, 7, Rights::FUND));
    is_full(&mut ledger, Part::Grant, 1, grant(b, 8, Rights::FUND));
    // To change one, or to take it back, needs no room.
    perform(&mut ledger, &user(1), grant(b, 7, Rights::ISSUE));
    perform(&mut ledger, &user(1), grant(b, 9, Rights::NONE));
    perform(&mut ledger, &user(2), grant(c, 7, Rights::FUND));
    is_full_in_all(&mut ledger, Part::Grant, 2, grant(c, 8, Rights::FUND));
    perform(&mut ledger, &user(1), Intent::from(DestroyCurrency { currency: a }));
    perform(&mut ledger, &user(1), grant(b, 8, Rights::FUND));
}

#[test]
fn tickets_have_a_total() {
    let mut ledger = quota(Part::Ticket, 2, 3);
    let make = |ledger: &mut Ledger, name: String, uid| {
        perform(ledger, &user(uid), create(&name, uid)).expect("made")
    };
    let mut currencies = |uid: u32| -> Vec<CurrencyId> {
        (0..4).map(|number| make(&mut ledger, format!("c{number}"), uid)).collect()
    };
    let (own, theirs) = (currencies(1), currencies(2));
    let fund_by_first = |all: &[CurrencyId], number: usize| fund(all[number], all[0], soft(1));
    perform(&mut ledger, &user(1), fund_by_first(&own, 1));
    perform(&mut ledger, &user(1), fund_by_first(&own, 2));
    is_full(&mut ledger, Part::Ticket, 1, fund_by_first(&own, 3));
    // Another amount is no other ticket.
    perform(&mut ledger, &user(1), fund(own[2], own[0], soft(5)));
    perform(&mut ledger, &user(2), fund_by_first(&theirs, 1));
    is_full_in_all(&mut ledger, Part::Ticket, 2, fund_by_first(&theirs, 2));
    perform(&mut ledger, &user(1), unfund(own[1], own[0]));
    perform(&mut ledger, &user(1), fund_by_first(&own, 3));
}

#[test]
fn cgroups_that_are_clients_have_a_total() {
    let mut ledger = quota(Part::Member, 2, 3);
    let homes = [1, 2].map(|uid| {
        place(&mut ledger, uid, per_user(uid));
        home(&ledger, uid)
    });
    let cgroup =
        |number: u64, uid: u32| NewClient { member: Member::Cgroup(number), uid, gid: uid };
    let adopt = |number, uid: u32| {
        let (client, issuer) = (cgroup(number, uid), homes[uid as usize - 1]);
        Intent::from(Adopt { client, issuer, funding: vec![soft(1)] })
    };
    let first = perform(&mut ledger, &user(1), adopt(1, 1)).expect("a client");
    perform(&mut ledger, &user(1), join(cgroup(2, 1), first));
    is_full(&mut ledger, Part::Member, 1, adopt(3, 1));
    is_full(&mut ledger, Part::Member, 1, join(cgroup(3, 1), first));
    // A process is not counted: nobody makes it for the asking.
    perform(&mut ledger, &user(1), join(new_client(1, 1), first));
    perform(&mut ledger, &user(2), adopt(4, 2));
    is_full_in_all(&mut ledger, Part::Member, 2, adopt(5, 2));
    perform(&mut ledger, &user(1), Intent::from(Release { client: first, named: false }));
    assert_eq!(ledger.owned_by(1, Part::Member), 0);
    assert_eq!(ledger.backing(first).count() + ledger.issued(BASE).count(), 2, "two homes");
    perform(&mut ledger, &user(1), adopt(3, 1));
}

#[test]
fn a_cgroup_that_moves_to_ones_own_client_counts_as_one_more() {
    let mut ledger = quota(Part::Member, 1, 2);
    let cgroup = |number| NewClient { member: Member::Cgroup(number), uid: 1, gid: 1 };
    let [own, sibling, other] =
        [(1, 1), (2, 1), (3, 2)].map(|(pid, uid)| place(&mut ledger, pid, per_user(uid)));
    // Only the superuser puts what is one person's into a client of another's.
    perform(&mut ledger, &root(), join(cgroup(1), other));
    perform(&mut ledger, &user(1), join(cgroup(2), own));
    is_full(&mut ledger, Part::Member, 1, join(cgroup(1), own));
    perform(&mut ledger, &user(1), leave(cgroup(2)));
    perform(&mut ledger, &user(1), join(cgroup(1), own));
    // From one of a person's clients to another it is no more than before.
    perform(&mut ledger, &user(1), join(cgroup(1), sibling));
    assert_eq!((ledger.owned_by(1, Part::Member), ledger.owned_by(2, Part::Member)), (1, 0));
}
