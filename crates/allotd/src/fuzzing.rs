//! The fuzz target `policy_files`: the funding policy and the users' ranges of uids, as texts that may say anything.

use crate::people::{People, Who};
use crate::persons;
use crate::policy_file::FundingPolicy;
use ledger::operation::{Ensure, Place, SetMemory};
use ledger::{Authority, Intent, Ledger, NewClient, Persons, ProcessIdentity, decide};

/// Memory that base has to promise, in KiB.
const MEMORY_KIB: u64 = 8 << 20;

/// Reads a text as a policy and as ranges. A policy that is taken places whoever comes.
pub fn policy_files(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    ranges(text);
    let people = People::parse(text);
    let Ok(policy) = FundingPolicy::parse(text) else { return };
    let mut policies = vec![policy.clone()];
    policies.extend(policy.on_machine(people, MEMORY_KIB));
    for policy in policies {
        for resource in policy.resources() {
            assert_eq!(resource.to_string().parse().as_ref(), Ok(&resource));
        }
        place_all(&policy);
    }
}

fn ranges(text: &str) {
    let uid_of = |name: &str| name.parse().ok().or((name == "alice").then_some(1000));
    let ranges = persons::ranges(text, uid_of);
    let persons = Persons::of_ranges(ranges.iter().cloned());
    for (range, _) in ranges {
        for uid in [*range.start(), *range.end()] {
            // Whoever a uid's person is, it is one.
            let person = persons.of(uid);
            assert!(persons.of(person) == person || person == uid, "{uid} {person}");
        }
    }
}

fn place_all(policy: &FundingPolicy) {
    let mut ledger = Ledger::new(0, 0);
    let mut tell = |intent: Intent| {
        if let Ok(authorised) = decide(&ledger, Authority::System, intent) {
            ledger.apply(authorised);
        }
    };
    tell(Intent::from(SetMemory { kib: MEMORY_KIB }));
    for (member, funding) in policy.everybodys() {
        tell(Intent::from(Ensure { member, funding }));
    }
    for (number, who) in everybody().into_iter().enumerate() {
        let Some(placements) = policy.placements(&who) else { continue };
        assert!(!placements.levels.is_empty());
        for level in &placements.levels {
            let _ = policy.is_by_place(&level.key);
        }
        let process = ProcessIdentity { pid: 1 + number as u32, start_time_ticks: 1 };
        let client = NewClient::process(process, who.uid, who.gid);
        tell(Intent::from(Place { client, placements }));
    }
    Ledger::restore(ledger.snapshot()).expect("what a policy makes is sound");
}

fn everybody() -> Vec<Who> {
    let who = |uid: u32, user: &str, cgroup: &str| Who {
        uid,
        gid: uid,
        user: Some(user.to_owned()),
        group: Some(format!("{user}s")),
        groups: vec!["staff".to_owned()],
        cgroup: cgroup.to_owned(),
        ..Who::default()
    };
    vec![
        who(0, "root", ""),
        who(33, "www-data", "/system.slice/nginx.service"),
        who(1000, "alice", "/user.slice/user-1000.slice"),
        who(1001, "ci-7", "/batch.slice/night.service"),
        who(0, "root", "/system.slice/docker-ab12.scope"),
        Who { user: None, group: None, has_own_users: true, ..who(100_000, "", "/a/b") },
    ]
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[test]
fn the_corpus_of_policy_files_does_no_harm() {
    replay::replay("policy_files", 1_000, policy_files);
}
