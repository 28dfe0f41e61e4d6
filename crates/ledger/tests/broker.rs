//! What brokers allow (paper 1, 3.2 and table 1), told as examples.

mod common;
use allot_ledger::operation::{Adopt, ChangeMode, ChangeOwner, DestroyCurrency, Grant, Unfund};

use allot_ledger::{Authority, BASE, Intent, Ledger, Refusal, RefusalKind, Rights, Subject};
use common::*;

/// Alice (1) and Bob (2) own one currency each, funded from base by root.
fn alice_and_bob() -> (Ledger, allot_ledger::CurrencyId, allot_ledger::CurrencyId) {
    let mut ledger = Ledger::new(0, 0);
    let alice = perform(&mut ledger, &user(1), create("alice", 1)).unwrap();
    let bob = perform(&mut ledger, &user(2), create("bob", 2)).unwrap();
    perform(&mut ledger, &root(), fund(alice, BASE, soft(100)));
    perform(&mut ledger, &root(), fund(bob, BASE, soft(100)));
    (ledger, alice, bob)
}

#[test]
fn a_new_currency_has_the_uid_and_a_gid_of_its_maker() {
    let mut ledger = Ledger::new(0, 0);
    let refused = refusal(&mut ledger, &user(1), create("c", 2));
    assert_eq!(refused, Refusal::NotSelf { owner: 2, group: 2 });
    assert!(perform(&mut ledger, &root(), create("c", 2)).is_some(), "the superuser may");
}

#[test]
fn funding_needs_f_on_the_holder_and_i_on_the_issuer() {
    let (mut ledger, alice, bob) = alice_and_bob();
    for (holder, issuer) in [(bob, alice), (alice, bob), (alice, BASE)] {
        let refused = refusal(&mut ledger, &user(1), fund(holder, issuer, soft(101)));
        assert_eq!(refused.kind(), RefusalKind::Forbidden, "{refused}");
    }
    let rights = "f".parse().unwrap();
    let grant = Intent::from(Grant { currency: bob, subject: Subject::Uid(1), rights });
    perform(&mut ledger, &user(2), grant);
    perform(&mut ledger, &user(1), fund(bob, alice, soft(1)));
}

#[test]
fn taking_needs_c_on_the_holder_or_i_on_the_issuer() {
    let (mut ledger, alice, bob) = alice_and_bob();
    let grant =
        Intent::from(Grant { currency: bob, subject: Subject::Uid(1), rights: Rights::FUND });
    perform(&mut ledger, &user(2), grant);
    perform(&mut ledger, &user(1), fund(bob, alice, soft(5)));
    assert_eq!(refusal(&mut ledger, &user(3), unfund(bob, alice)).kind(), RefusalKind::Forbidden);
    assert_eq!(refusal(&mut ledger, &user(1), unfund(bob, BASE)).kind(), RefusalKind::Forbidden);
    // Alice by i on the issuer, less of it; then Bob by c on the holder, all of it.
    perform(&mut ledger, &user(1), fund(bob, alice, soft(4)));
    perform(&mut ledger, &user(2), unfund(bob, alice));
    assert_eq!(tickets(&ledger, bob, alice), None);
}

#[test]
fn an_owner_has_the_owners_rights_and_no_others() {
    let (mut ledger, alice, _) = alice_and_bob();
    let mode = "f-----fci".parse().unwrap();
    perform(&mut ledger, &user(1), Intent::from(ChangeMode { currency: alice, mode }));
    let child = perform(&mut ledger, &user(1), create("child", 1)).unwrap();
    let refused = refusal(&mut ledger, &user(1), fund(child, alice, soft(1)));
    assert_eq!(refused.kind(), RefusalKind::Forbidden, "as with files: {refused}");
}

#[test]
fn a_process_right_is_of_that_process_alone() {
    let (mut ledger, alice, bob) = alice_and_bob();
    let adopt = |pid| {
        Intent::from(Adopt { client: new_client(pid, 2), issuer: bob, funding: vec![soft(1)] })
    };
    perform(&mut ledger, &user(2), adopt(10));
    perform(&mut ledger, &user(2), adopt(11));
    let subject = Subject::Process(process(10));
    let rights = Rights::ISSUE;
    perform(&mut ledger, &user(1), Intent::from(Grant { currency: alice, subject, rights }));
    let with = |pid| match user(2) {
        Authority::Caller(caller) => {
            Authority::Caller(allot_ledger::Caller { process: Some(process(pid)), ..caller })
        }
        system => system,
    };
    assert_eq!(
        refusal(&mut ledger, &with(11), fund(bob, alice, soft(1))).kind(),
        RefusalKind::Forbidden
    );
    perform(&mut ledger, &with(10), fund(bob, alice, soft(1)));
}

/// "If an attempt to fund a currency would lead to a cycle in the currency graph, the attempt is
/// rejected" (paper 1, 3.2): theorem 4, and not even the superuser may.
#[test]
fn a_cycle_is_refused() {
    let (mut ledger, alice, bob) = alice_and_bob();
    perform(&mut ledger, &root(), fund(bob, alice, soft(1)));
    let refused = refusal(&mut ledger, &root(), fund(alice, bob, soft(1)));
    assert_eq!(refused, Refusal::Cycle { holder: alice, issuer: bob });
    assert_eq!(refusal(&mut ledger, &root(), fund(bob, bob, soft(1))).kind(), RefusalKind::Cycle);
    assert_eq!(refusal(&mut ledger, &root(), fund(BASE, bob, soft(1))), Refusal::BaseHolds);
    perform(&mut ledger, &root(), unfund(bob, alice));
    perform(&mut ledger, &root(), fund(alice, bob, soft(1)));
}

/// Paper 1, figure 4: a currency's hard tickets always total 1000.
#[test]
fn hard_tickets_run_out() {
    let (mut ledger, alice, bob) = alice_and_bob();
    perform(&mut ledger, &root(), fund(alice, BASE, hard(700)));
    let refused = refusal(&mut ledger, &root(), fund(bob, BASE, hard(301)));
    assert!(matches!(refused, Refusal::HardExhausted { left: 300, amount: 301, .. }), "{refused}");
    perform(&mut ledger, &root(), fund(alice, BASE, hard(1000)));
}

#[test]
fn amounts_and_depth_have_limits() {
    let (mut ledger, alice, _) = alice_and_bob();
    let many = allot_ledger::AMOUNT_MAX + 1;
    let refused = refusal(&mut ledger, &root(), fund(alice, BASE, soft(many)));
    assert_eq!(refused, Refusal::AmountTooLarge(many));
    let mut last = alice;
    for number in 2..=allot_ledger::DEPTH_MAX {
        let next = perform(&mut ledger, &user(1), create(&format!("d{number}"), 1)).unwrap();
        perform(&mut ledger, &user(1), fund(next, last, soft(1)));
        last = next;
    }
    let deeper = perform(&mut ledger, &user(1), create("deeper", 1)).unwrap();
    let refused = refusal(&mut ledger, &user(1), fund(deeper, last, soft(1)));
    assert_eq!(refused, Refusal::TooDeep(deeper));
    // Nor does adoption make it deeper.
    let client = new_client(10, 1);
    let adopt = Intent::from(Adopt { client, issuer: last, funding: vec![soft(1)] });
    assert!(matches!(refusal(&mut ledger, &user(1), adopt), Refusal::TooDeep(_)));
}

/// The system's hard ticket, the floor of root and system services, is out of users' reach.
#[test]
fn users_cannot_touch_the_floor() {
    let (mut ledger, alice, bob) = alice_and_bob();
    let system = perform(&mut ledger, &root(), create("system", 0)).unwrap();
    perform(&mut ledger, &root(), fund(system, BASE, hard(200)));
    let take = || {
        Intent::from(Unfund {
            holder: system,
            issuer: BASE,
            resource: allot_ledger::Resource::CPU,
            kind: allot_ledger::TicketKind::Hard,
        })
    };
    let attempts = [
        take(),
        fund(system, BASE, hard(0)),
        fund(alice, BASE, hard(900)),
        fund(bob, system, soft(1)),
        Intent::from(DestroyCurrency { currency: system }),
        Intent::from(ChangeMode { currency: system, mode: "fcifcifci".parse().unwrap() }),
        Intent::from(ChangeOwner { currency: system, owner: Some(1), group: None }),
        Intent::from(Grant { currency: BASE, subject: Subject::Uid(1), rights: Rights::ALL }),
    ];
    for attempt in attempts {
        let refused = refusal(&mut ledger, &user(1), attempt.clone());
        assert_eq!(refused.kind(), RefusalKind::Forbidden, "{attempt:?}: {refused}");
    }
}
