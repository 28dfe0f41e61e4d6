//! Plans' memory tickets where there is no cgroup v2 for memory: each client is its processes.
#![allow(missing_docs)]

mod common;

use common::{TestProcess, funds::Funds};
use enforcer::Enforcer;
use ledger::{BASE, Funding, Resource, TicketKind};
use policy::MinFunding;
use reclaim::MemoryByProcesses;

const KIB: u64 = 1024;

#[test]
fn clients_are_followed_with_what_their_tickets_are_worth() {
    let test = "clients_are_followed_with_what_their_tickets_are_worth";
    let mut shares = match MemoryByProcesses::start(Box::new(MinFunding::default())) {
        Ok(shares) => shares,
        Err(why) => {
            eprintln!("SKIP {test}: {why}");
            return;
        }
    };
    let processes = ["mbp-a", "mbp-b"].map(|tag| TestProcess::start(tag, &["doze", "1", "1000"]));
    let mut funds = Funds::new();
    funds.memory(100_000);
    let user = funds.currency("user", 1);
    let hard = |amount| Funding { resource: Resource::MEMORY, kind: TicketKind::Hard, amount };
    let [a, b] = [0, 1].map(|index: usize| funds.client(user, 1, processes[index].pid()));
    // Nobody has asked for memory: nobody is looked at.
    shares.apply(&funds.plan(1).into()).expect("it runs");
    assert_eq!(shares.held(), []);
    funds.fund_of(user, BASE, hard(8000));
    funds.fund_of(a, user, hard(250));
    shares.apply(&funds.plan(2).into()).expect("it runs");
    let sample = shares.held();
    let guaranteed: Vec<_> = sample.iter().map(|it| (it.id, it.guaranteed_bytes)).collect();
    assert_eq!(guaranteed, [(a, 2000 * KIB), (b, 0)]);
    for client in &sample {
        let held = client.held_bytes.expect("it lives");
        assert!(held > 0 && held < 64 << 20, "{held} bytes");
    }
    // Who is gone is nobody's any more.
    let [first, second] = processes;
    drop(first);
    shares.apply(&funds.plan(3).into()).expect("it runs");
    assert_eq!(shares.held().iter().map(|it| it.id).collect::<Vec<_>>(), [b]);
    drop(second);
}
