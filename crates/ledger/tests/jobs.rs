//! nice, forks and funding by policy (paper 1, 4.4, 5.2, 5.6; paper 3, 3.1.3), told as examples.

mod common;
use allot_ledger::operation::{ChangeMode, ChangeOwner, Exit, Grant, SetBase, UserChanged};

use allot_ledger::{
    Authority, BASE, Funding, Intent, JOB_SHARE, Ledger, Placement, Placements, PolicyKey, Refusal,
    RefusalKind, Resource, Subject, TicketKind,
};
use common::*;

/// Paper 1, 5.6: the job's base tickets are taken out of the caller's own currency.
#[test]
fn nice_takes_from_the_callers_currency_and_its_end_gives_back() {
    let mut ledger = Ledger::new(0, 0);
    place(&mut ledger, 1, per_user(1));
    place(&mut ledger, 2, per_user(2));
    let before = ledger.clone();
    perform(&mut ledger, &user(1), nice(10, 1, 30));
    let hog = ledger.client_of(process(10)).unwrap();
    let job = ledger.backing(hog).next().unwrap().1.issuer;
    assert_eq!(tickets(&ledger, home(&ledger, 1), BASE), Some(70));
    assert_eq!(tickets(&ledger, job, BASE), Some(30));
    assert_eq!(base_total(&ledger), 200, "what users have in all is unchanged");
    // Its children share the job's funding, and it lives as long as the last of them.
    perform(&mut ledger, &Authority::System, fork(10, 11, 1));
    let child = ledger.client_of(process(11)).unwrap();
    assert_eq!(tickets(&ledger, child, job), Some(JOB_SHARE));
    assert_eq!(tickets(&ledger, job, BASE), Some(30));
    perform(&mut ledger, &Authority::System, Intent::from(Exit { member: process(10).into() }));
    assert_eq!(tickets(&ledger, job, BASE), Some(30));
    perform(&mut ledger, &Authority::System, Intent::from(Exit { member: process(11).into() }));
    assert_eq!(ledger, before, "all is as it was");
}

#[test]
fn nice_leaves_one_ticket_and_lends_no_more_than_there_is() {
    let mut ledger = Ledger::new(0, 0);
    place(&mut ledger, 1, per_user(1));
    let refused = refusal(&mut ledger, &user(1), nice(10, 1, 100));
    assert!(matches!(refused, Refusal::NothingToLend { available: 99, asked: 100, .. }));
    assert_eq!(refusal(&mut ledger, &user(1), nice(10, 1, 0)), Refusal::NiceNothing);
    assert_eq!(refusal(&mut ledger, &user(2), nice(10, 1, 1)).kind(), RefusalKind::Forbidden);
    perform(&mut ledger, &user(1), nice(10, 1, 99));
    let job = ledger.backing(ledger.client_of(process(10)).unwrap()).next().unwrap().1.issuer;
    for attempt in [unfund(job, BASE), fund(job, BASE, soft(5000))] {
        assert_eq!(refusal(&mut ledger, &root(), attempt), Refusal::Lent(job));
    }
}

/// Paper 1, 5.6: "it would probably not be appropriate to take away funding from the group
/// currency": not even for whom the policy made its owner.
#[test]
fn nice_takes_nothing_from_a_group() {
    let mut ledger = Ledger::new(0, 0);
    let group = Placement { key: PolicyKey::Group(7), ..user_level(1) };
    place(&mut ledger, 1, Placements { levels: vec![group], process: vec![soft(10)] });
    let refused = refusal(&mut ledger, &user(1), nice(10, 1, 1));
    assert!(matches!(refused, Refusal::NothingToLend { available: 0, .. }));
}

/// Paper 1, footnote 3: "if a client holds tickets from more than one pure currency, its
/// children should be funded by all of these currencies".
#[test]
fn a_child_is_funded_by_every_issuer_of_its_parent() {
    let mut ledger = Ledger::new(0, 0);
    let parent = place(&mut ledger, 1, per_user(1));
    let own = home(&ledger, 1);
    let project = perform(&mut ledger, &user(1), create("project", 1)).unwrap();
    perform(&mut ledger, &user(1), fund(parent, project, soft(7)));
    perform(&mut ledger, &Authority::System, fork(1, 2, 1));
    let child = ledger.client_of(process(2)).unwrap();
    assert_eq!(tickets(&ledger, child, own), Some(10));
    assert_eq!(tickets(&ledger, child, project), Some(7));
    assert_eq!(tickets(&ledger, parent, project), Some(7), "the parent keeps its own");
}

/// Where the child's user may not issue, parent and child share what the parent had: a fork
/// must not dilute the issuer's others.
#[test]
fn a_fork_on_anothers_tickets_shares_them_in_a_family() {
    let mut ledger = Ledger::new(0, 0);
    let pool = perform(&mut ledger, &user(2), create("pool", 2)).unwrap();
    let guest = place(&mut ledger, 1, per_user(1));
    perform(&mut ledger, &root(), fund(guest, pool, soft(40)));
    for child in 2..5 {
        perform(&mut ledger, &Authority::System, fork(1, child, 1));
    }
    let issued: Vec<_> = ledger.issued(pool).map(|(_, t)| (t.holder, t.amount)).collect();
    let [(family, 40)] = issued[..] else { panic!("one ticket of 40, not {issued:?}") };
    assert_eq!(ledger.issued(family).count(), 4, "all four share it, however often it forked");
    let before = ledger.currency_count();
    for pid in 1..5 {
        perform(
            &mut ledger,
            &Authority::System,
            Intent::from(Exit { member: process(pid).into() }),
        );
    }
    assert!(ledger.currency(family).is_none(), "a family ends with its last member");
    assert_eq!(ledger.currency_count(), before - 5);
}

/// A job is its owner's: whom they let in cannot multiply there.
#[test]
fn a_guest_in_a_job_does_not_dilute_it_by_forking() {
    let mut ledger = Ledger::new(0, 0);
    place(&mut ledger, 1, per_user(1));
    perform(&mut ledger, &user(1), nice(10, 1, 30));
    let member = ledger.client_of(process(10)).unwrap();
    let job = ledger.backing(member).next().unwrap().1.issuer;
    let guest = place(&mut ledger, 2, per_user(2));
    let rights = "f".parse().unwrap();
    let grant = Intent::from(Grant { currency: guest, subject: Subject::Uid(1), rights });
    perform(&mut ledger, &user(2), grant);
    perform(&mut ledger, &user(1), fund(guest, job, soft(JOB_SHARE)));
    perform(&mut ledger, &Authority::System, fork(2, 3, 2));
    let issued = ledger.currency(job).unwrap().issued_of(&Resource::CPU);
    assert_eq!(issued.soft, 2 * JOB_SHARE);
}

/// Whether a child may have tickets of its own does not hang on groups that nobody knows.
#[test]
fn a_fork_takes_no_right_that_supplementary_groups_might_deny() {
    let mut ledger = Ledger::new(0, 0);
    let pool = perform(&mut ledger, &user(2), create("pool", 2)).unwrap();
    let mode = "fci-----i".parse().unwrap();
    perform(&mut ledger, &user(2), Intent::from(ChangeMode { currency: pool, mode }));
    let guest = place(&mut ledger, 1, per_user(1));
    perform(&mut ledger, &root(), fund(guest, pool, soft(40)));
    perform(&mut ledger, &Authority::System, fork(1, 2, 1));
    // Others may issue, the group may not; the child may be of the group.
    assert_eq!(ledger.currency(pool).unwrap().issued_of(&Resource::CPU).soft, 40);
}

/// Paper 1, 5.2: "the process' existing funding is revoked and replaced".
#[test]
fn a_process_whose_user_changes_is_funded_anew() {
    let mut ledger = Ledger::new(0, 0);
    let login = place(&mut ledger, 1, per_user(1));
    let client = new_client(1, 2);
    let changed = Intent::from(UserChanged { client, placements: Some(per_user(2)) });
    perform(&mut ledger, &Authority::System, changed);
    assert_eq!(tickets(&ledger, login, home(&ledger, 1)), None);
    assert_eq!(tickets(&ledger, login, home(&ledger, 2)), Some(10));
    assert_eq!(ledger.currency(login).unwrap().record.owner, 2);
    perform(&mut ledger, &Authority::System, fork(1, 3, 2));
    let child = ledger.client_of(process(3)).unwrap();
    assert_eq!(tickets(&ledger, child, home(&ledger, 2)), Some(10));
}

/// Paper 3, 3.1.3: users set their own base tickets up to the default; only root goes beyond.
#[test]
fn base_tickets_are_set_within_the_default_and_kept() {
    let mut ledger = Ledger::new(0, 0);
    place(&mut ledger, 1, per_user(1));
    let set = |uid, amount| Intent::from(SetBase { uid, placements: per_user(uid), amount });
    perform(&mut ledger, &user(1), set(1, 40));
    assert_eq!(refusal(&mut ledger, &user(1), set(1, 101)), Refusal::AboveDefault { given: 100 });
    assert_eq!(refusal(&mut ledger, &user(2), set(1, 1)).kind(), RefusalKind::Forbidden);
    // Logging out and in again changes nothing.
    perform(&mut ledger, &Authority::System, Intent::from(Exit { member: process(1).into() }));
    place(&mut ledger, 2, per_user(1));
    assert_eq!(tickets(&ledger, home(&ledger, 1), BASE), Some(40));
    perform(&mut ledger, &root(), set(1, 500));
    assert_eq!(tickets(&ledger, home(&ledger, 1), BASE), Some(500));
}

/// Once root has given a user's currency to somebody else, it is theirs.
#[test]
fn base_tickets_of_a_currency_that_changed_hands_are_not_set() {
    let mut ledger = Ledger::new(0, 0);
    place(&mut ledger, 1, per_user(1));
    let currency = home(&ledger, 1);
    let to = Intent::from(ChangeOwner { currency, owner: Some(2), group: None });
    perform(&mut ledger, &root(), to);
    let set = Intent::from(SetBase { uid: 1, placements: per_user(1), amount: 5 });
    assert_eq!(refusal(&mut ledger, &user(1), set).kind(), RefusalKind::Forbidden);
}

/// What is lent stays lent: base tickets are set with it counted, and come to that when it is
/// back.
#[test]
fn base_tickets_count_what_is_lent() {
    let mut ledger = Ledger::new(0, 0);
    place(&mut ledger, 1, per_user(1));
    perform(&mut ledger, &user(1), nice(10, 1, 30));
    let set = |amount| Intent::from(SetBase { uid: 1, placements: per_user(1), amount });
    assert_eq!(refusal(&mut ledger, &user(1), set(30)), Refusal::BelowLent { uid: 1, lent: 30 });
    perform(&mut ledger, &user(1), set(80));
    assert_eq!(tickets(&ledger, home(&ledger, 1), BASE), Some(50));
    perform(&mut ledger, &Authority::System, Intent::from(Exit { member: process(10).into() }));
    assert_eq!(tickets(&ledger, home(&ledger, 1), BASE), Some(80));
}

/// A policy's new amounts reach what nobody has set by hand; a loan is no such setting, and it
/// counts against soft base tickets only.
#[test]
fn a_changed_policy_is_followed_around_a_loan() {
    let mut ledger = Ledger::new(0, 0);
    let policy = |soft_amount, hard_amount| {
        let funding = vec![soft(soft_amount), hard(hard_amount)];
        let level = Placement { funding, ..user_level(1) };
        Placements { levels: vec![level], process: vec![soft(10)] }
    };
    place(&mut ledger, 1, policy(100, 200));
    perform(&mut ledger, &user(1), nice(10, 1, 30));
    place(&mut ledger, 2, policy(150, 300));
    let own = home(&ledger, 1);
    assert_eq!(tickets(&ledger, own, BASE), Some(120));
    let reserved = ledger.held(own, BASE, &Resource::CPU, TicketKind::Hard).unwrap().1;
    assert_eq!(reserved.amount, 300);
}

/// A policy's raise that does not fit gives what there is, and never takes.
#[test]
fn a_raise_in_a_full_issuer_is_no_cut() {
    let mut ledger = Ledger::new(0, 0);
    let policy = |uid, amount: u64| {
        let level = Placement { funding: vec![hard(amount)], ..user_level(uid) };
        Placements { levels: vec![level], process: vec![soft(10)] }
    };
    place(&mut ledger, 1, policy(1, 300));
    place(&mut ledger, 2, policy(2, 600));
    place(&mut ledger, 3, policy(1, 500));
    let held = ledger.held(home(&ledger, 1), BASE, &Resource::CPU, TicketKind::Hard);
    assert_eq!(held.unwrap().1.amount, 400);
}

/// Paper 3, future work: 0 tickets freeze a client until it gets some. Setting them is no
/// removal, so the ticket stays.
#[test]
fn zero_tickets_are_tickets() {
    let mut ledger = Ledger::new(0, 0);
    let client = place(&mut ledger, 1, per_user(1));
    let own = home(&ledger, 1);
    perform(&mut ledger, &user(1), fund(client, own, soft(0)));
    assert_eq!(tickets(&ledger, client, own), Some(0));
    perform(&mut ledger, &user(1), fund(client, own, soft(5)));
    assert_eq!(tickets(&ledger, client, own), Some(5));
}

/// What one batch did is undone whole (theorem 4's means, and theorem 6's).
#[test]
fn changes_undo_and_replay() {
    let mut ledger = Ledger::new(0, 0);
    place(&mut ledger, 1, per_user(1));
    let start = ledger.clone();
    let mut changes = Vec::new();
    for intent in [nice(10, 1, 30), fund(home(&ledger, 1), BASE, soft(50))] {
        changes.extend(attempt(&mut ledger, &user(1), intent).unwrap());
    }
    changes.extend(attempt(&mut ledger, &Authority::System, fork(10, 11, 1)).unwrap());
    let end = ledger.clone();
    ledger.undo(changes.clone());
    assert_eq!(ledger, start);
    ledger.replay(changes.clone()).unwrap();
    assert_eq!(ledger, end);
    assert_eq!(Ledger::restore(ledger.snapshot()).unwrap(), end);
    ledger.replay(changes).expect_err("what was done is not done twice");
}

/// A soft ticket of memory never competes for the processor (paper 1, 3.1 and figure 3).
#[test]
fn tickets_are_good_for_one_resource() {
    let mut ledger = Ledger::new(0, 0);
    place(&mut ledger, 1, per_user(1));
    let own = home(&ledger, 1);
    let memory = Funding { resource: Resource::MEMORY, kind: TicketKind::Soft, amount: 9 };
    perform(&mut ledger, &root(), fund(own, BASE, memory));
    assert_eq!(base_total(&ledger), 100);
    assert_eq!(ledger.backing(own).count(), 2);
}
