//! The fuzz target `enforcement`: frames between the keeper and the enforcing process, as bytes that may be anything, and
//! which of the plans in them are followed.

use crate::admission::{Admission, ProcessOwner, WhoseIs};
use crate::message::{Answer, Request};
use crate::reach::Reach;
use enforcer::frame;
use enforcer::{Plan, PlannedClient, TraceEvent};
use identity::ProcessIdentity;
use ledger::Member;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The enforcing process and its keeper.
const OWN: [u32; 2] = [100, 101];

/// Takes inputs whose first byte is a multiple of three for frames of requests, then of answers, then of a trace.
pub fn enforcement(bytes: &[u8]) {
    match bytes.split_first() {
        Some((kind, rest)) if kind % 3 == 0 => requests(rest),
        Some((kind, rest)) if kind % 3 == 1 => frames::<Answer>(rest, |_| {}),
        Some((_, rest)) => frames::<Vec<TraceEvent>>(rest, |_| {}),
        None => {}
    }
}

/// Reads frames until one is none. A message that was read is written as it was read.
fn frames<T: Serialize + DeserializeOwned>(mut bytes: &[u8], mut take: impl FnMut(T)) {
    while let Ok(message) = frame::read::<T>(&mut bytes) {
        let written = written(&message);
        let again: T = frame::read(&written[..]).expect("what was written can be read");
        assert_eq!(self::written(&again), written);
        take(message);
    }
}

fn written(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write(&mut bytes, message).expect("it was short enough to be read");
    bytes
}

/// Admits every plan that is asked for, as far as the last task reaches.
fn requests(bytes: &[u8]) {
    let whose = WhoseIs { process: owner_of, cgroup: owner_of_cgroup };
    let mut reach = Reach::of([0..=0, 1000..=1999]);
    let mut admission = Admission::asking(whose, reach.clone(), OWN);
    frames(bytes, |request| match request {
        Request::Begin(task) => {
            reach = task.reach;
            admission = Admission::asking(whose, reach.clone(), OWN);
        }
        Request::Apply(plan) => admit(&mut admission, &reach, &plan),
        _ => {}
    });
}

/// Admits a plan twice: both times what is followed is within reach, and the second time nothing is new.
fn admit(admission: &mut Admission, reach: &Reach, asked: &Plan) {
    let mut plan = asked.clone();
    admission.admit(&mut plan);
    for client in &plan.clients {
        check(client, reach);
    }
    let refused: Vec<Member> = admission.refused().map(|status| status.founder).collect();
    for client in &asked.clients {
        let is_told = |member: &Member| {
            let follows = |it: &PlannedClient| it.founder == *member || it.members.contains(member);
            plan.clients.iter().any(follows) || refused.contains(member)
        };
        assert!(is_told(&client.founder), "{} is forgotten", client.founder);
    }
    let mut again = asked.clone();
    let news = admission.admit(&mut again);
    assert!(news.is_empty(), "{news:?}");
    assert_eq!(again.clients, plan.clients);
}

fn check(client: &PlannedClient, reach: &Reach) {
    assert!(client.owners.iter().all(|uid| reach.has(*uid)), "{client:?}");
    for member in client.members.iter().chain([&client.founder]) {
        if let Member::Cgroup(id) = member {
            assert!(owner_of_cgroup(*id).is_none_or(|uid| reach.has(uid)), "{member}");
        }
        let Some(process) = member.within_process() else { continue };
        let Some(owner) = owner_of(process).expect("a process that cannot be seen is refused")
        else {
            continue;
        };
        assert!(reach.has(owner.real_uid), "{process} is out of reach");
        assert!(!client.owners.is_empty(), "{process} may be anybody's");
        let is_allotd = OWN.contains(&process.pid) || OWN.contains(&owner.parent_pid);
        assert!(process.pid != 1 && !owner.is_kernel_thread && !is_allotd, "{process}");
    }
}

/// A machine whose processes differ by the number alone.
fn owner_of(process: ProcessIdentity) -> Result<Option<ProcessOwner>, String> {
    let real_uid = if process.pid.is_multiple_of(2) { 1000 } else { process.pid };
    let parent_pid = if process.pid % 16 == 10 { OWN[1] } else { 1 };
    match process.pid % 16 {
        3 => Ok(None),
        5 => Err("it cannot be seen".to_owned()),
        kind => Ok(Some(ProcessOwner { real_uid, parent_pid, is_kernel_thread: kind == 7 })),
    }
}

fn owner_of_cgroup(id: u64) -> Option<u32> {
    u32::try_from(id).ok().filter(|id| id % 16 != 3)
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[test]
fn the_corpus_of_frames_is_refused_or_followed_within_reach() {
    replay::replay("enforcement", 2_000, enforcement);
}
