//! `enforce-weights CARRIER NAME RECORD PID...`: gives the n-th process n tickets, by weights, with cgroups called NAME,
//! until standard input ends. To each line it answers with one that tells its status and sample.

use crate::funds::Funds;
use enforce_weights::{Weights, WeightsOptions};
use enforcer::Enforcer;

pub fn enforce_until_told(arguments: &[String]) {
    let [carrier, name, record, pids @ ..] = arguments else { panic!("too few arguments") };
    let mut enforcer = Weights::start(WeightsOptions {
        carrier: carrier.parse().expect("a carrier"),
        name: name.clone(),
        program: std::env::current_exe().expect("our program"),
        record: record.into(),
    })
    .expect("an enforcer");
    let mut funds = Funds::new();
    for (index, pid) in pids.iter().enumerate() {
        funds.client(ledger::BASE, index as u64 + 1, pid.parse().expect("a pid"));
    }
    enforcer.apply(&funds.plan(1).into()).expect("a plan");
    let applied = enforcer.status().expect("it runs");
    println!("{}", applied.guardian_pid.expect("on watch"));
    for asked in std::io::stdin().lines() {
        asked.expect("text");
        println!("{:?} {:?}", enforcer.status(), enforcer.sample());
    }
}
