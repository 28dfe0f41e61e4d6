//! `enforce-cgroup NAME RECORD PID...`: gives the n-th process n tickets, by cgroups called NAME,
//! until standard input ends. With `ENFORCE_DISK` in its environment also shares that disk, and 1 MiB of
//! memory for each; with `ENFORCE_LIMIT` the cgroup of that folder is a client, limited to 100 reads a second of it.

use crate::funds::Funds;
use enforce_cgroup as cgroup;
use enforce_cgroup::{Cgroup, CgroupOptions};
use enforcer::Enforcer;
use ledger::{Funding, Resource, TicketKind};

pub fn enforce_until_told(arguments: &[String]) {
    let [name, record, pids @ ..] = arguments else { panic!("too few arguments") };
    let root = cgroup::available().expect("a cgroup tree");
    let program = std::env::current_exe().expect("our program");
    let mut options = CgroupOptions::new(root, program, record.into());
    options.period_ns = 10_000_000;
    options.name.clone_from(name);
    let disk = std::env::var("ENFORCE_DISK").ok();
    if disk.is_some() {
        options.memory = Some(Default::default());
        options.disks = Some(Default::default());
    }
    let mut enforcer = Cgroup::start(options).expect("an enforcer");
    let mut funds = Funds::new();
    for (index, pid) in pids.iter().enumerate() {
        let client = funds.client(ledger::BASE, index as u64 + 1, pid.parse().expect("a pid"));
        if let Some(disk) = &disk {
            funds.memory(100_000);
            let funding = |resource, kind, amount| Funding { resource, kind, amount };
            let memory = funding(Resource::MEMORY, TicketKind::Hard, 1024);
            let disk = funding(Resource::disk(disk.clone()), TicketKind::Soft, index as u64 + 1);
            funds.fund_of(client, ledger::BASE, memory);
            funds.fund_of(client, ledger::BASE, disk);
        }
    }
    if let (Some(disk), Ok(folder)) = (&disk, std::env::var("ENFORCE_LIMIT")) {
        use std::os::unix::fs::MetadataExt;
        let inode = std::fs::metadata(folder).expect("a cgroup").ino();
        let client = funds.member(ledger::BASE, 1, ledger::Member::Cgroup(inode));
        funds.limit_reads(client, disk, Some(100));
    }
    enforcer.apply(&funds.plan(1).into()).expect("a plan");
    let applied = enforcer.status().expect("it runs");
    println!("{}", applied.guardian_pid.expect("on watch"));
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
}
