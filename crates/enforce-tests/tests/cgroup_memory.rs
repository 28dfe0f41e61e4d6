//! Shares of memory on a real kernel: run by tests/lab-memory.sh in the lab, or on any machine whose
//! cgroup v2 tree nobody owns and has the memory controller.
#![allow(missing_docs)]

mod common;

use common::cgroups::{Lab, groups, read, write};
use common::{TestProcess, eventually, funds::Funds};
use enforce_cgroup::Cgroup;
use enforce_cgroup::MemoryOptions;
use enforcer::{Enforcer, Plan};
use ledger::{BASE, CurrencyId, Funding, Member, Resource, TicketKind};
use policy::idle::IdleOptions;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const KIB: u64 = 1024;

fn memory(kind: TicketKind, amount: u64) -> Funding {
    Funding { resource: Resource::MEMORY, kind, amount }
}

fn soft(amount: u64) -> Funding {
    memory(TicketKind::Soft, amount)
}

fn hard(amount: u64) -> Funding {
    memory(TicketKind::Hard, amount)
}

/// An enforcer of memory; of the CPU too, if asked for.
fn enforcer(lab: &Lab, shares_cpu: bool, options: MemoryOptions) -> Cgroup {
    let options =
        enforce_cgroup::CgroupOptions { shares_cpu, memory: Some(options), ..lab.options() };
    Cgroup::start(options).expect("an enforcer")
}

fn here(test: &str) -> Option<Lab> {
    let lab = Lab::here(test)?;
    if !read(&lab.mount, "cgroup.controllers").contains("memory") {
        eprintln!("SKIP {test}: there is no memory controller");
        return None;
    }
    Some(lab)
}

fn follow(enforcer: &mut Cgroup, plan: Plan) {
    enforcer.apply(&plan.into()).expect("a plan");
    let drift = enforcer.status().expect("it runs").drift;
    assert!(drift.is_empty(), "{drift:?}");
}

/// `memory.min` and `memory.low`, in KiB.
#[track_caller]
fn protection(group: &Path) -> (u64, u64) {
    let kib = |file: &str| {
        let text = read(group, file);
        text.parse::<u64>().unwrap_or_else(|_| panic!("{}/{file}: {text}", group.display())) / KIB
    };
    (kib("memory.min"), kib("memory.low"))
}

fn leaf(lab: &Lab, parents: &[CurrencyId], id: CurrencyId) -> PathBuf {
    let parents = parents.iter().map(|id| format!("c{}", id.0));
    parents.chain([format!("c{}", id.0)]).fold(lab.top(), |path, part| path.join(part))
}

fn doze(tag: &str) -> TestProcess {
    TestProcess::start(tag, &["doze", "1", "50"])
}

#[test]
#[ignore = "lab"]
fn amounts_and_their_subshares_protect_as_the_ledger_says() {
    let Some(lab) = here("amounts_and_their_subshares_protect_as_the_ledger_says") else { return };
    for shares_cpu in [true, false] {
        let processes = [doze("mem-a"), doze("mem-b"), doze("mem-c"), doze("mem-d")];
        let mut enforcer = enforcer(&lab, shares_cpu, MemoryOptions::default());
        let mut funds = Funds::new();
        funds.memory(100_000);
        let user = funds.currency("user", 100);
        let [a, b] =
            [funds.client(user, 1, processes[0].pid()), funds.client(user, 1, processes[1].pid())];
        let [c, d] =
            [funds.client(BASE, 1, processes[2].pid()), funds.client(BASE, 1, processes[3].pid())];
        funds.fund_of(user, BASE, hard(8000));
        funds.fund_of(a, user, hard(500));
        funds.fund_of(b, user, soft(1));
        funds.fund_of(c, BASE, hard(1400));
        follow(&mut enforcer, funds.plan(1));
        assert_eq!(protection(&leaf(&lab, &[user], a)), (4000, 4000));
        assert_eq!(protection(&leaf(&lab, &[user], b)), (4000, 4000));
        assert_eq!(protection(&leaf(&lab, &[], c)), (1400, 1400));
        assert_eq!(protection(&leaf(&lab, &[], d)), (0, 0), "who has not asked has none");
        assert_eq!(protection(&leaf(&lab, &[], user)), (8000, 8000), "what is below it");
        assert_eq!(protection(&lab.top()), (9400, 9400));
        // Tickets that are taken away protect nobody.
        funds.fund_of(c, BASE, hard(0));
        follow(&mut enforcer, funds.plan(2));
        assert_eq!(protection(&leaf(&lab, &[], c)), (0, 0));
        assert_eq!(protection(&lab.top()), (8000, 8000));
        drop(enforcer);
        lab.is_as_before();
    }
}

/// Paper 1, 5.4: "a more complete implementation would probably benefit from deactivating the memory
/// tickets of clients who are idle for a sufficiently long period of time".
#[test]
#[ignore = "lab"]
fn who_is_idle_for_long_leaves_its_share_to_those_beside_it() {
    let Some(lab) = here("who_is_idle_for_long_leaves_its_share_to_those_beside_it") else {
        return;
    };
    let busy = TestProcess::start("idle-a", &["burn", "1"]);
    let idle = TestProcess::start("idle-b", &["doze", "1", "5000"]);
    let options = IdleOptions { idle_ns: 2_000_000_000, ..IdleOptions::default() };
    let options = MemoryOptions { idle: options, ..MemoryOptions::default() };
    let mut enforcer = enforcer(&lab, false, options);
    let mut funds = Funds::new();
    funds.memory(100_000);
    let user = funds.currency("user", 1);
    funds.fund_of(user, BASE, hard(8000));
    let [a, b] = [funds.client(user, 1, busy.pid()), funds.client(user, 1, idle.pid())];
    for id in [a, b] {
        funds.fund_of(id, user, soft(1));
    }
    follow(&mut enforcer, funds.plan(1));
    let (of_a, of_b) = (leaf(&lab, &[user], a), leaf(&lab, &[user], b));
    assert_eq!((protection(&of_a), protection(&of_b)), ((4000, 4000), (4000, 4000)));
    eventually("the idle one has none", || protection(&of_b) == (0, 0));
    assert_eq!(protection(&of_a), (4000, 8000), "sure of its own, and now of what is left to it");
    // It is known to be idle by the next plan too.
    follow(&mut enforcer, funds.plan(2));
    assert_eq!(protection(&of_b), (0, 0));
    drop(enforcer);
    lab.is_as_before();
}

/// A cgroup that is a client's member stays where it is; what is above it has to have as much.
#[test]
#[ignore = "lab"]
fn what_is_set_on_cgroups_that_are_not_ours_is_set_back() {
    let Some(lab) = here("what_is_set_on_cgroups_that_are_not_ours_is_set_back") else { return };
    let outer = lab.mount.join("outer-of-somebody");
    let inner = outer.join("inner");
    std::fs::create_dir_all(&inner).expect("a cgroup");
    write(&lab.mount, "cgroup.subtree_control", "+memory");
    write(&outer, "cgroup.subtree_control", "+memory");
    write(&outer, "memory.low", &(KIB * 512).to_string());
    let mut enforcer = enforcer(&lab, false, MemoryOptions::default());
    let mut funds = Funds::new();
    funds.memory(100_000);
    let member = Member::Cgroup(inner.metadata().expect("it is there").ino());
    let id = funds.member(BASE, 1, member);
    funds.fund_of(id, BASE, hard(3000));
    follow(&mut enforcer, funds.plan(1));
    assert_eq!(protection(&inner), (3000, 3000));
    assert_eq!(protection(&outer), (3000, 3000));
    // What somebody changes is put right.
    write(&inner, "memory.min", "4096");
    eventually("it is as before", || protection(&inner) == (3000, 3000));
    drop(enforcer);
    assert_eq!((protection(&inner), protection(&outer)), ((0, 0), (0, 512)));
    std::fs::remove_dir(&inner).expect("empty");
    std::fs::remove_dir(&outer).expect("empty");
    write(&lab.mount, "cgroup.subtree_control", "-memory");
    lab.is_as_before();
}

#[test]
#[ignore = "lab"]
fn all_clients_together_stay_within_the_limit() {
    let Some(lab) = here("all_clients_together_stay_within_the_limit") else { return };
    let process = doze("limit-a");
    let limit_bytes = Some(64 << 20);
    let options = MemoryOptions { limit_bytes, ..MemoryOptions::default() };
    let mut enforcer = enforcer(&lab, false, options);
    let mut funds = Funds::new();
    funds.memory(50_000);
    let a = funds.client(BASE, 1, process.pid());
    follow(&mut enforcer, funds.plan(1));
    let limited = |lab: &Lab| read(&lab.top(), "memory.max");
    assert_eq!(groups(&lab.top()), [leaf(&lab, &[], a)]);
    assert_eq!(limited(&lab), "", "nobody has asked for memory: it is left alone");
    funds.fund_of(a, BASE, hard(1000));
    follow(&mut enforcer, funds.plan(2));
    assert_eq!(limited(&lab), (64 << 20).to_string());
    drop(enforcer);
    lab.is_as_before();
}
