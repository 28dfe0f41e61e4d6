//! What the funding policy keeps (paper 1, 5.2), when the policy itself changes.
use allot_ledger::operation::{Fund, Place, SetBase};

use allot_ledger::{
    Authority, BASE, Caller, Funding, Intent, Ledger, Mode, NewClient, Placement, Placements,
    PolicyKey, ProcessIdentity, Refusal, Resource, TicketKind, decide,
};

fn soft(amount: u64) -> Vec<Funding> {
    vec![Funding { resource: Resource::CPU, kind: TicketKind::Soft, amount }]
}

fn level(key: PolicyKey, name: &str, owner: u32, amount: u64) -> Placement {
    let (name, mode) = (name.to_owned(), Mode::PRIVATE);
    Placement { key, name, owner, group: owner, mode, funding: soft(amount) }
}

fn place(ledger: &mut Ledger, pid: u32, levels: Vec<Placement>) {
    let process = ProcessIdentity { pid, start_time_ticks: 1 };
    let client = NewClient::process(process, 1000, 1000);
    let placements = Placements { levels, process: soft(100) };
    let intent = Intent::from(Place { client, placements });
    let authorised = decide(ledger, Authority::System, intent).expect("a good policy");
    ledger.apply(authorised);
}

fn funding(ledger: &Ledger, key: &PolicyKey) -> Vec<(String, u64)> {
    let id = ledger.home(key).expect("it is kept").currency;
    let name = |id| ledger.currency(id).expect("it exists").record.name.clone();
    ledger.backing(id).map(|(_, ticket)| (name(ticket.issuer), ticket.amount)).collect()
}

#[test]
fn amounts_follow_the_policy_until_they_are_set_by_hand() {
    let mut ledger = Ledger::new(0, 0);
    let alice = PolicyKey::User(1000);
    place(&mut ledger, 1, vec![level(alice.clone(), "alice", 1000, 1000)]);
    place(&mut ledger, 2, vec![level(alice.clone(), "alice", 1000, 500)]);
    assert_eq!(funding(&ledger, &alice), [("base".to_owned(), 500)]);
    let holder = ledger.home(&alice).expect("it is kept").currency;
    let by_hand = Intent::from(Fund { holder, issuer: BASE, funding: soft(70).remove(0) });
    let authorised = decide(&ledger, Authority::System, by_hand).expect("allowed");
    ledger.apply(authorised);
    place(&mut ledger, 3, vec![level(alice.clone(), "alice", 1000, 900)]);
    assert_eq!(funding(&ledger, &alice), [("base".to_owned(), 70)]);
}

/// A user who runs with several group ids has one currency all the same: where a process's group
/// would put it elsewhere, the first place stands, or users could move their funding between
/// groups at will.
#[test]
fn a_user_of_several_groups_stays_where_the_policy_first_put_them() {
    let mut ledger = Ledger::new(0, 0);
    let (alice, staff, guests) =
        (PolicyKey::User(1000), PolicyKey::Group(50), PolicyKey::Group(60));
    let under = |group: &PolicyKey, name: &str| {
        vec![level(group.clone(), name, 0, 3000), level(alice.clone(), "alice", 1000, 10)]
    };
    place(&mut ledger, 1, under(&staff, "staff"));
    place(&mut ledger, 2, under(&guests, "guests"));
    assert_eq!(funding(&ledger, &alice), [("staff".to_owned(), 10)]);
    assert_eq!(funding(&ledger, &guests), [("base".to_owned(), 3000)]);
}

/// Paper 3, 3.1.3: 0 base tickets freeze a user. Nobody does that to themselves by mistake.
#[test]
fn only_the_superuser_freezes_a_user() {
    let mut ledger = Ledger::new(0, 0);
    let alice = PolicyKey::User(1000);
    let levels = vec![level(alice.clone(), "alice", 1000, 1000)];
    place(&mut ledger, 1, levels.clone());
    let set = |ledger: &Ledger, uid: u32, amount: u64| {
        let caller = Caller { uid, gid: uid, groups: Vec::new(), process: None };
        let placements = Placements { levels: levels.clone(), process: soft(100) };
        let intent = Intent::from(SetBase { uid: 1000, placements, amount });
        decide(ledger, Authority::Caller(caller), intent)
    };
    assert!(matches!(set(&ledger, 1000, 0), Err(Refusal::NotSuperuser(_))));
    assert!(set(&ledger, 1000, 1).is_ok());
    let authorised = set(&ledger, 0, 0).expect("root may");
    ledger.apply(authorised);
    assert_eq!(funding(&ledger, &alice), [("base".to_owned(), 0)]);
}
