//! What the funding policy keeps (paper 1, 5.2), when the policy itself changes.
use allot_ledger::operation::{FollowPolicy, Fund, LimitDisk, Place, SetBase};

use allot_ledger::{
    Authority, BASE, Caller, DiskLimit, Funding, Intent, Ledger, Mode, NewClient, Placement,
    Placements, PolicyKey, ProcessIdentity, Refusal, Resource, TicketKind, decide,
};
use std::collections::BTreeMap;

fn soft(amount: u64) -> Vec<Funding> {
    vec![Funding { resource: Resource::CPU, kind: TicketKind::Soft, amount }]
}

fn level(key: PolicyKey, name: &str, owner: u32, amount: u64) -> Placement {
    let (name, mode, limits) = (name.to_owned(), Mode::PRIVATE, BTreeMap::new());
    Placement { key, name, owner, group: owner, mode, funding: soft(amount), limits }
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

/// Reads of at most so many bytes a second.
fn reads(bytes: u64) -> DiskLimit {
    DiskLimit { read_bytes: Some(bytes), ..DiskLimit::default() }
}

fn follow(ledger: &mut Ledger, level: Placement) {
    let intent = Intent::from(FollowPolicy { level });
    let authorised = decide(ledger, Authority::System, intent).expect("a good policy");
    ledger.apply(authorised);
}

#[test]
fn limits_follow_the_policy_until_they_are_set_by_hand() {
    let mut ledger = Ledger::new(0, 0);
    let alice = PolicyKey::User(1000);
    let with = |limits: &[(&str, u64)]| {
        let limits = limits.iter().map(|(disk, bytes)| (Resource::disk(*disk), reads(*bytes)));
        Placement { limits: limits.collect(), ..level(alice.clone(), "alice", 1000, 1000) }
    };
    place(&mut ledger, 1, vec![with(&[("sda", 1 << 20), ("sdb", 1 << 20)])]);
    let id = ledger.home(&alice).expect("it is kept").currency;
    let limits = |ledger: &Ledger| -> Vec<(String, Option<u64>)> {
        let limits = &ledger.currency(id).expect("it exists").record.limits;
        let limit = |(disk, set): (&Resource, &allot_ledger::SetLimit)| {
            assert!(set.by_superuser, "it is no user's to take away");
            (disk.to_string(), set.limit.read_bytes)
        };
        limits.iter().map(limit).collect()
    };
    let of = |disk: &str, bytes| (format!("disk:{disk}"), Some(bytes));
    assert_eq!(limits(&ledger), [of("sda", 1 << 20), of("sdb", 1 << 20)]);
    // Changed, gone, and new.
    follow(&mut ledger, with(&[("sda", 2 << 20), ("sdc", 3 << 20)]));
    assert_eq!(limits(&ledger), [of("sda", 2 << 20), of("sdc", 3 << 20)]);
    // One that was set by hand stays, and so does one that was taken away by hand.
    for (disk, limit) in [("sda", reads(7 << 20)), ("sdc", DiskLimit::default())] {
        let resource = Resource::disk(disk);
        let by_hand = Intent::from(LimitDisk { currency: id, resource, limit });
        let authorised = decide(&ledger, Authority::System, by_hand).expect("allowed");
        ledger.apply(authorised);
    }
    follow(&mut ledger, with(&[("sda", 4 << 20), ("sdc", 4 << 20)]));
    assert_eq!(limits(&ledger), [of("sda", 7 << 20)]);
    follow(&mut ledger, with(&[]));
    assert_eq!(limits(&ledger), [of("sda", 7 << 20)]);
}

#[test]
fn what_a_policy_gives_besides_what_it_gave_is_given_to_those_who_are_there() {
    let mut ledger = Ledger::new(0, 0);
    let alice = PolicyKey::User(1000);
    let level = || level(alice.clone(), "alice", 1000, 1000);
    place(&mut ledger, 1, vec![level()]);
    let disk = |amount| {
        let resource = Resource::disk("sda");
        Funding { resource, kind: TicketKind::Soft, amount }
    };
    let amounts = |ledger: &Ledger| -> Vec<u64> {
        funding(ledger, &alice).into_iter().map(|(_, amount)| amount).collect()
    };
    let with = |amount| Placement { funding: [soft(1000), vec![disk(amount)]].concat(), ..level() };
    follow(&mut ledger, with(500));
    assert_eq!(amounts(&ledger), [1000, 500]);
    follow(&mut ledger, with(200));
    assert_eq!(amounts(&ledger), [1000, 200]);
    follow(&mut ledger, level());
    assert_eq!(amounts(&ledger), [1000]);
    // Who has tickets of it by hand has no others.
    let holder = ledger.home(&alice).expect("it is kept").currency;
    let by_hand = Intent::from(Fund { holder, issuer: BASE, funding: disk(70) });
    let authorised = decide(&ledger, Authority::System, by_hand).expect("allowed");
    ledger.apply(authorised);
    follow(&mut ledger, with(300));
    assert_eq!(amounts(&ledger), [1000, 70]);
    // A policy that knows nobody yet makes no currency by this.
    let bob = PolicyKey::User(1001);
    follow(&mut ledger, Placement { key: bob.clone(), ..level() });
    assert!(ledger.home(&bob).is_none());
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
