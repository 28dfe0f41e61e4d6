//! Members of clients: processes, threads, cgroups, the kernel's threads and the rest; who may
//! tag them (paper 2, 2.5), and that nobody uses another's share so.

mod common;
use allot_ledger::operation::{Adopt, Ensure, Grant, Release, SetClass, Unfund, UserChanged};

use allot_ledger::{
    Authority, BASE, Class, CurrencyId, Intent, Ledger, Member, NewClient, Refusal, RefusalKind,
    Rights, Subject, ThreadIdentity, TicketKind,
};
use common::*;

fn thread(tid: u32, of: u32) -> Member {
    Member::Thread(ThreadIdentity { process: process(of), tid, start_time_ticks: 2 })
}

fn owned(member: Member, uid: u32) -> NewClient {
    NewClient { member, uid, gid: uid }
}

fn adopt(client: NewClient, issuer: CurrencyId) -> Intent {
    Intent::from(Adopt { client, issuer, funding: vec![soft(7)] })
}

fn where_is(ledger: &Ledger, member: impl Into<Member>) -> Option<CurrencyId> {
    ledger.client_of_member(&member.into())
}

/// Processes 1 and 2 of uid 1, process 3 of uid 2, all placed by the policy.
fn three() -> (Ledger, [CurrencyId; 3]) {
    let mut ledger = Ledger::new(0, 0);
    let clients = [(1, 1), (2, 1), (3, 2)].map(|(pid, uid)| place(&mut ledger, pid, per_user(uid)));
    // They may give to each other.
    for client in clients {
        [1, 2].into_iter().for_each(|uid| let_give(&mut ledger, uid, client));
    }
    (ledger, clients)
}

#[test]
fn a_tag_moves_a_process_and_leaving_puts_it_back() {
    let (mut ledger, [own, other, _]) = three();
    let start = ledger.clone();
    perform(&mut ledger, &user(1), join(new_client(1, 1), other));
    assert_eq!(where_is(&ledger, process(1)), Some(other));
    assert_eq!(ledger.client_of(process(1)), Some(own), "its own is kept for it");
    assert_eq!(ledger.members(other).collect::<Vec<_>>(), [process(1).into()]);
    let refused = refusal(&mut ledger, &user(1), nice(1, 1, 3));
    assert!(matches!(refused, Refusal::BadMember { .. }), "{refused}");
    perform(&mut ledger, &user(1), leave(new_client(1, 1)));
    assert_eq!(where_is(&ledger, process(1)), Some(own));
    assert_eq!(ledger, start);
    let refused = refusal(&mut ledger, &user(1), leave(new_client(1, 1)));
    assert_eq!(refused, Refusal::NotJoined(process(1).into()));
    let refused = refusal(&mut ledger, &user(1), join(new_client(1, 1), own));
    assert!(matches!(refused, Refusal::BadMember { .. }), "{refused}");
    let home = home(&ledger, 1);
    let refused = refusal(&mut ledger, &user(1), join(new_client(1, 1), home));
    assert_eq!(refused, Refusal::NotClient(home));
}

/// To use a share is to spend its tickets: its owner may, and who may issue them.
#[test]
fn nobody_joins_what_they_may_not_spend_nor_moves_what_is_not_theirs() {
    let (mut ledger, [own, _, theirs]) = three();
    let refused = refusal(&mut ledger, &user(1), join(new_client(1, 1), theirs));
    assert_eq!(refused.kind(), RefusalKind::Forbidden);
    let refused = refusal(&mut ledger, &user(1), join(new_client(3, 2), own));
    assert!(matches!(refused, Refusal::NotYours { owner: 2, uid: 1, .. }), "{refused}");
    for (rights, allowed) in [(Rights::FUND, false), (Rights::CHANGE, false), (Rights::ISSUE, true)]
    {
        let grant = Intent::from(Grant { currency: theirs, subject: Subject::Uid(1), rights });
        perform(&mut ledger, &user(2), grant);
        let joined = attempt(&mut ledger, &user(1), join(new_client(1, 1), theirs));
        assert_eq!(joined.is_ok(), allowed, "{rights}");
    }
    // The owner of the client may send it away, the owner of the process may take it away.
    let refused = refusal(&mut ledger, &user(3), leave(new_client(1, 1)));
    assert_eq!(refused.kind(), RefusalKind::Forbidden);
    perform(&mut ledger, &user(2), leave(new_client(1, 1)));
    perform(&mut ledger, &user(1), join(new_client(1, 1), theirs));
    perform(&mut ledger, &user(1), leave(new_client(1, 1)));
}

/// A child is tagged as its parent and falls back to what its parent would.
#[test]
fn a_child_is_tagged_as_its_parent() {
    let (mut ledger, [_, other, _]) = three();
    perform(&mut ledger, &user(1), join(new_client(1, 1), other));
    perform(&mut ledger, &Authority::System, fork(1, 10, 1));
    assert_eq!(where_is(&ledger, process(10)), Some(other));
    let own = ledger.client_of(process(10)).expect("its own");
    assert_eq!(tickets(&ledger, own, home(&ledger, 1)), Some(10));
    perform(&mut ledger, &user(1), leave(new_client(10, 1)));
    assert_eq!(where_is(&ledger, process(10)), Some(own));
    // One who was somebody else's before it was seen is not.
    perform(&mut ledger, &Authority::System, fork(1, 11, 2));
    assert_eq!(ledger.joined_by(&process(11).into()), None);
    // A process that is a client by its tag alone: so is its child.
    perform(&mut ledger, &root(), join(new_client(20, 5), other));
    perform(&mut ledger, &Authority::System, fork(20, 21, 5));
    assert_eq!(where_is(&ledger, process(21)), None, "uid 5 may not use it themselves");
    perform(&mut ledger, &Authority::System, fork(20, 22, 1));
    assert_eq!(where_is(&ledger, process(22)), Some(other));
    assert_eq!(ledger.client_of(process(22)), None);
    perform(&mut ledger, &Authority::System, exit(22));
    assert_eq!(where_is(&ledger, process(22)), None);
}

#[test]
fn what_a_client_had_ends_with_its_founder() {
    let (mut ledger, [own, other, _]) = three();
    perform(&mut ledger, &user(1), join(new_client(1, 1), other));
    perform(&mut ledger, &user(1), join(owned(thread(101, 1), 1), other));
    let home = home(&ledger, 1);
    perform(&mut ledger, &user(1), adopt(owned(thread(102, 1), 1), home));
    let of_thread = where_is(&ledger, thread(102, 1)).expect("a client");
    // The client's founder goes: its members are where they belong.
    perform(&mut ledger, &Authority::System, exit(2));
    assert!(ledger.currency(other).is_none());
    assert_eq!(where_is(&ledger, process(1)), Some(own));
    assert_eq!(where_is(&ledger, thread(101, 1)), None, "with its process");
    // A process goes: its threads with it.
    perform(&mut ledger, &user(1), join(owned(thread(101, 1), 1), own));
    perform(&mut ledger, &Authority::System, exit(1));
    assert!(ledger.currency(own).is_none() && ledger.currency(of_thread).is_none());
    assert_eq!(ledger.joined().count(), 0);
}

/// Setuid is no way into another's share, nor out of one's own.
#[test]
fn another_user_takes_no_arrangement_along() {
    let (mut ledger, [own, other, theirs]) = three();
    perform(&mut ledger, &user(1), join(new_client(2, 1), own));
    perform(&mut ledger, &user(1), join(owned(thread(101, 1), 1), other));
    perform(&mut ledger, &user(1), transfer(own, theirs));
    perform(&mut ledger, &user(2), transfer(theirs, other));
    let placements = Some(per_user(2));
    let changed = Intent::from(UserChanged { client: new_client(1, 2), placements });
    perform(&mut ledger, &Authority::System, changed);
    assert_eq!(where_is(&ledger, process(2)), Some(other), "who had joined it is sent back");
    assert_eq!(where_is(&ledger, thread(101, 1)), None);
    assert_eq!(ledger.issued(own).count(), 0, "what it had lent is its new owner's");
    assert_eq!(ledger.issued(theirs).count(), 1);
    assert_eq!(ledger.currency(own).unwrap().record.owner, 2);
    // A process that is a client by its tag alone.
    perform(&mut ledger, &user(1), join(new_client(30, 1), other));
    let changed = Intent::from(UserChanged { client: new_client(30, 2), placements: None });
    perform(&mut ledger, &Authority::System, changed);
    assert_eq!(where_is(&ledger, process(30)), None);
}

#[test]
fn cgroups_and_threads_are_clients_like_any() {
    let (mut ledger, _) = three();
    let home = home(&ledger, 1);
    let group = Member::Cgroup(4711);
    let refused = refusal(&mut ledger, &user(1), adopt(owned(group, 0), home));
    assert!(matches!(refused, Refusal::NotYours { .. }), "{refused}");
    perform(&mut ledger, &user(1), adopt(owned(group, 1), home));
    perform(&mut ledger, &user(1), adopt(owned(thread(101, 3), 1), home));
    let client = where_is(&ledger, group).expect("a client");
    assert_eq!(ledger.currency(client).unwrap().founder(), Some(group));
    assert_eq!(tickets(&ledger, client, home), Some(7));
    let refused = refusal(&mut ledger, &user(1), adopt(owned(group, 1), home));
    assert_eq!(refused, Refusal::AlreadyClient { member: group, client });
    assert_eq!(ledger.processes().count(), 3);
    assert_eq!(ledger.clients().count(), 5);
    perform(&mut ledger, &user(1), Intent::from(Release { client, named: false }));
    assert_eq!(where_is(&ledger, group), None);
}

#[test]
fn kernel_and_rest_are_ensured_once() {
    let mut ledger = Ledger::new(0, 0);
    for member in [Member::Kernel, Member::Rest] {
        let ensure = |funding| Intent::from(Ensure { member, funding });
        let refused = refusal(&mut ledger, &user(1), ensure(vec![soft(1)]));
        assert_eq!(refused.kind(), RefusalKind::Forbidden);
        perform(&mut ledger, &Authority::System, ensure(vec![soft(500)]));
        let client = where_is(&ledger, member).expect("a client");
        let record = &ledger.currency(client).unwrap().record;
        assert_eq!((record.owner, tickets(&ledger, client, BASE)), (0, Some(500)));
        // Root's own setting stays.
        perform(&mut ledger, &root(), fund(client, BASE, soft(300)));
        perform(&mut ledger, &Authority::System, ensure(vec![soft(500)]));
        assert_eq!(tickets(&ledger, client, BASE), Some(300));
        let refused = refusal(&mut ledger, &root(), adopt(owned(member, 0), BASE));
        assert!(matches!(refused, Refusal::BadMember { .. }), "{refused}");
        let refused = refusal(&mut ledger, &user(1), join(owned(member, 1), client));
        assert_ne!(refused.kind(), RefusalKind::Conflict, "{refused}");
    }
    let what = Intent::from(Ensure { member: process(1).into(), funding: vec![] });
    assert!(matches!(refusal(&mut ledger, &root(), what), Refusal::BadMember { .. }));
    let bad = Intent::from(Ensure { member: Member::Rest, funding: vec![hard(1001)] });
    assert_eq!(refusal(&mut ledger, &root(), bad).kind(), RefusalKind::Invalid);
}

/// Paper 4: a guest's children are guests; its owner may always make it a host again.
#[test]
fn guests_are_made_by_who_may_change_them() {
    let (mut ledger, [own, _, theirs]) = three();
    let set = |client, class| Intent::from(SetClass { client, class });
    assert_eq!(
        refusal(&mut ledger, &user(1), set(theirs, Class::Guest)).kind(),
        RefusalKind::Forbidden
    );
    let home = home(&ledger, 1);
    assert_eq!(
        refusal(&mut ledger, &user(1), set(home, Class::Guest)).kind(),
        RefusalKind::Conflict
    );
    perform(&mut ledger, &user(1), set(own, Class::Guest));
    perform(&mut ledger, &Authority::System, fork(1, 10, 1));
    let child = ledger.client_of(process(10)).expect("a client");
    assert_eq!(ledger.currency(child).unwrap().class(), Class::Guest);
    assert_eq!(tickets(&ledger, child, home), Some(10), "it holds its tickets all the same");
    // Another user's by placement: still a guest.
    let placements = Some(per_user(2));
    let changed = Intent::from(UserChanged { client: new_client(10, 2), placements });
    perform(&mut ledger, &Authority::System, changed);
    assert_eq!(ledger.currency(child).unwrap().class(), Class::Guest);
    perform(&mut ledger, &user(2), set(child, Class::Host));
    assert_eq!(ledger.currency(child).unwrap().class(), Class::Host);
}

#[test]
fn tickets_are_lent_once_and_in_no_circle() {
    let (mut ledger, [a, b, c]) = three();
    assert_eq!(refusal(&mut ledger, &user(1), transfer(c, a)).kind(), RefusalKind::Forbidden);
    perform(&mut ledger, &user(1), transfer(a, b));
    perform(&mut ledger, &user(1), transfer(b, c));
    let refused = refusal(&mut ledger, &user(1), transfer(a, c));
    assert!(matches!(refused, Refusal::AlreadyLent { .. }), "{refused}");
    let refused = refusal(&mut ledger, &user(2), transfer(c, a));
    assert!(matches!(refused, Refusal::Cycle { .. }), "{refused}");
    let refused = refusal(&mut ledger, &user(2), transfer(c, c));
    assert!(matches!(refused, Refusal::Cycle { .. }), "{refused}");
    let home = home(&ledger, 2);
    let refused = refusal(&mut ledger, &user(2), transfer(c, home));
    assert_eq!(refused, Refusal::NotClient(home));
    // No other way to make or end one.
    let kind = TicketKind::Transfer;
    let lend = allot_ledger::Funding { kind, ..soft(1) };
    assert_eq!(refusal(&mut ledger, &root(), fund(c, a, lend)), Refusal::TransferKind);
    let resource = allot_ledger::Resource::CPU;
    let unfund = Intent::from(Unfund { holder: b, issuer: a, resource, kind });
    assert_eq!(refusal(&mut ledger, &root(), unfund), Refusal::TransferKind);
    assert_eq!(refusal(&mut ledger, &user(1), fund(b, a, soft(1))), Refusal::ClientIssues(a));
    // The holder's end is the transfer's; a child is lent nothing.
    perform(&mut ledger, &Authority::System, fork(2, 20, 1));
    let child = ledger.client_of(process(20)).expect("a client");
    assert_eq!(ledger.backing(child).count(), 1);
    perform(&mut ledger, &Authority::System, exit(2));
    assert_eq!(ledger.issued(a).count() + ledger.backing(c).count(), 1, "c's own ticket is left");
    perform(&mut ledger, &user(1), transfer(a, c));
    assert_eq!(refusal(&mut ledger, &user(2), take_back(a)).kind(), RefusalKind::Forbidden);
    perform(&mut ledger, &user(1), take_back(a));
    let refused = refusal(&mut ledger, &user(1), take_back(a));
    assert!(matches!(refused, Refusal::NotLent { .. }), "{refused}");
}

/// Whoever lends to somebody cannot keep their owner from funding them.
#[test]
fn transfers_use_up_no_room_for_tickets() {
    let (mut ledger, [_, _, server]) = three();
    let lend = |ledger: &mut Ledger, pid| {
        let lender = place(ledger, pid, per_user(1));
        attempt(ledger, &user(1), transfer(lender, server))
    };
    for pid in 100..100 + allot_ledger::TRANSFERS_MAX as u32 {
        lend(&mut ledger, pid).expect("there is room");
    }
    let refused = lend(&mut ledger, 1000).expect_err("there is none left");
    assert_eq!(refused, Refusal::TooManyTransfers(server));
    let own = perform(&mut ledger, &user(2), create("own", 2)).unwrap();
    perform(&mut ledger, &user(2), fund(server, own, soft(1)));
    perform(&mut ledger, &user(2), nice(3, 2, 5));
    let lent = ledger.backing(server).filter(|(_, t)| t.kind == TicketKind::Transfer).count();
    assert_eq!(lent, allot_ledger::TRANSFERS_MAX, "nice takes nothing that others lend");
}
