//! A client's use of resources and its waiting times, from the kernel's accounts.
//!
//! 1. For processes that have a cgroup (v2) to themselves, and for cgroups: the cgroup's account. It includes
//!    the CPU time of processes that have ended, and its pressure files tell times for all three resources.
//! 2. For others: each thread's run delay, and its time of waiting for disks where the kernel counts that.
//!    The kernel does not tell their time of waiting for memory.

use crate::accounting::{Account, Seen, UsageAccumulator, Who};
use crate::paging::Paging;
use observe::{CgroupAccount, CgroupLayout, ProcessHandle};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use wire::{MemberView, ProcessView};

/// The accounts that this machine keeps.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Mount point of the cgroup tree (v2).
    cgroups: Option<PathBuf>,
    /// True if the kernel counts threads' times of waiting for disks.
    counts_disk_waits: bool,
    /// True if it counts their times of waiting for the CPU.
    counts_run_delay: bool,
}

impl Machine {
    /// Looks at this machine.
    pub fn look() -> Machine {
        let cgroups = match observe::machine().cgroup {
            CgroupLayout::V2 { mount, .. } | CgroupLayout::Hybrid { mount, .. } => {
                Some(mount.into())
            }
            CgroupLayout::None | CgroupLayout::V1 { .. } => None,
        };
        let own = ProcessHandle::open(std::process::id()).and_then(|own| own.thread_accounts());
        let counts = |account: &observe::ThreadAccount| account.run_ns > 0;
        Machine {
            cgroups,
            counts_disk_waits: observe::counts_disk_waits(),
            counts_run_delay: own.is_ok_and(|accounts| accounts.iter().any(counts)),
        }
    }

    /// The reason why a waiting time is not known.
    pub fn why_unknown(&self, what: &str) -> String {
        let own = "its processes have no cgroup (v2) of their own with pressure files";
        match what {
            "cpu" => format!("{own}, and this kernel keeps no schedstat"),
            "memory" => own.to_owned(),
            _ => format!("{own}, and kernel.task_delayacct is 0"),
        }
    }
}

/// Watches one client.
#[derive(Debug, Default)]
pub struct Watch {
    sums: UsageAccumulator,
    /// Time of the last look, in clock ticks since boot.
    looked_ticks: Option<u64>,
}

impl Watch {
    /// Looks at all members of the client. Returns the sums of their accounts.
    pub fn look(&mut self, machine: &Machine, members: &[MemberView], now_ticks: u64) -> Account {
        let since_ticks = self.looked_ticks.replace(now_ticks);
        let is_new = |start_ticks: u64| since_ticks.is_some_and(|since| start_ticks >= since);
        let mut seen = Vec::new();
        let own_threads: BTreeSet<u32> = members.iter().filter_map(thread_number).collect();
        let mut processes = Vec::new();
        for member in members {
            match member {
                MemberView::Process(process) => processes.extend(open(process)),
                MemberView::Thread { tid, process } => {
                    let Some(process) = open(process) else { continue };
                    seen.extend(threads(machine, &process, |other| other == *tid, is_new, true));
                }
                MemberView::Cgroup { path: Some(path), .. } => {
                    seen.extend(self::group(machine, path));
                }
                MemberView::Cgroup { path: None, .. } | MemberView::Kernel | MemberView::Rest => {}
            }
        }
        let groups = own_groups(machine, &processes);
        let mut told = BTreeSet::new();
        for process in &processes {
            match groups.get(&process.identity().pid) {
                Some((path, account)) => {
                    if told.insert(path.as_str()) {
                        seen.push(account.clone());
                    }
                    // Without the memory controller a cgroup counts no faults.
                    if account.account.faults == 0 {
                        seen.extend(faults(process, is_new));
                    }
                }
                None => {
                    let start_ticks = process.identity().start_time_ticks;
                    seen.extend(used(process, is_new(start_ticks)));
                    let other = |tid| !own_threads.contains(&tid);
                    seen.extend(threads(machine, process, other, is_new, false));
                }
            }
        }
        self.sums.add(&seen)
    }
}

fn thread_number(member: &MemberView) -> Option<u32> {
    match member {
        MemberView::Thread { tid, .. } => Some(*tid),
        _ => None,
    }
}

fn open(process: &ProcessView) -> Option<ProcessHandle> {
    let handle = ProcessHandle::open(process.pid).ok()?;
    (handle.identity().start_time_ticks == process.start_time_ticks).then_some(handle)
}

/// CPU time and faults of a whole process.
fn used(process: &ProcessHandle, is_new: bool) -> Option<Seen> {
    let identity = process.identity();
    let run_ns = process.cpu_time_ns().ok()?;
    let faults = process.waits().ok()?.major_faults;
    let who = Who::Process(identity.pid, identity.start_time_ticks);
    let account = Account { run_ns, faults, ..Account::default() };
    Some(Seen { who, is_new, account, paging: None })
}

fn faults(process: &ProcessHandle, is_new: impl Fn(u64) -> bool) -> Option<Seen> {
    let seen = used(process, is_new(process.identity().start_time_ticks))?;
    Some(Seen { account: Account { run_ns: 0, ..seen.account }, ..seen })
}

/// The waiting times of some threads of a process; with their CPU time if `with_run`.
fn threads(
    machine: &Machine,
    process: &ProcessHandle,
    wanted: impl Fn(u32) -> bool,
    is_new: impl Fn(u64) -> bool,
    with_run: bool,
) -> Vec<Seen> {
    let accounts = process.thread_accounts().unwrap_or_default();
    let wanted = accounts.into_iter().filter(|account| wanted(account.tid));
    wanted
        .map(|it| Seen {
            who: Who::Thread(it.tid, it.start_time_ticks),
            is_new: is_new(it.start_time_ticks),
            account: Account {
                run_ns: if with_run { it.run_ns } else { 0 },
                faults: 0,
                cpu_ns: machine.counts_run_delay.then_some(it.run_delay_ns),
                disk_ns: machine.counts_disk_waits.then_some(it.disk_wait_ns),
                memory_ns: None,
            },
            paging: None,
        })
        .collect()
}

/// A cgroup's account; `None` where it has no pressure files.
fn group(machine: &Machine, path: &str) -> Option<Seen> {
    let directory = machine.cgroups.as_ref()?.join(path.trim_start_matches('/'));
    let found = CgroupAccount::read(&directory);
    found.cpu_stalled_ns?;
    let account = Account {
        run_ns: found.run_ns?,
        faults: found.major_faults.unwrap_or(0),
        cpu_ns: found.cpu_stalled_ns,
        disk_ns: found.io_stalled_ns,
        memory_ns: found.memory_stalled_ns,
    };
    // Without the memory controller it is not known what was lost.
    let paging =
        found.refaulted_pages.zip(found.held_pages).map(|(refaulted_pages, held_pages)| {
            // A page of swap may be no page of a disk.
            let read_pages = found.read_pages.max(found.major_faults).unwrap_or(0);
            Paging { read_pages, refaulted_pages, held_pages }
        });
    Some(Seen { who: Who::Cgroup(path.to_owned()), is_new: false, account, paging })
}

/// The cgroups that some processes have to themselves, by pid.
fn own_groups(machine: &Machine, processes: &[ProcessHandle]) -> BTreeMap<u32, (String, Seen)> {
    let mut found = BTreeMap::new();
    let Some(mount) = &machine.cgroups else { return found };
    let pids: BTreeSet<u32> = processes.iter().map(|process| process.identity().pid).collect();
    let mut looked: BTreeMap<String, Option<Seen>> = BTreeMap::new();
    for pid in &pids {
        let Some(path) = observe::cgroup_of(*pid).filter(|path| path != "/") else { continue };
        let account = looked.entry(path.clone()).or_insert_with(|| {
            let below = observe::processes_below(&mount.join(path.trim_start_matches('/')));
            let own = below.is_ok_and(|below| below.iter().all(|pid| pids.contains(pid)));
            own.then(|| group(machine, &path)).flatten()
        });
        if let Some(account) = account {
            found.insert(*pid, (path, account.clone()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> MemberView {
        let handle = ProcessHandle::open(std::process::id()).expect("it lives");
        let identity = handle.identity();
        MemberView::Process(ProcessView {
            pid: identity.pid,
            start_time_ticks: identity.start_time_ticks,
            command: String::new(),
        })
    }

    fn burn() {
        // On our own clock: what is stolen from a virtual machine is no work of ours.
        let spent = || rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let own = || std::time::Duration::try_from(spent()).expect("a time");
        let began = own();
        while own() - began < std::time::Duration::from_millis(30) {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn own_work_is_seen() {
        let machine = Machine { cgroups: None, ..Machine::look() };
        let mut watch = Watch::default();
        let first = watch.look(&machine, &[own()], 0);
        assert_eq!((first.run_ns, first.memory_ns), (0, None), "from now on");
        burn();
        let second = watch.look(&machine, &[own()], 0);
        let waited_ns = second.cpu_ns.unwrap_or(30_000_000);
        assert!(second.run_ns + waited_ns >= 20_000_000, "{second:?}");
    }

    #[test]
    fn who_is_gone_or_another_is_not_looked_at() {
        let MemberView::Process(process) = own() else { unreachable!() };
        let other = ProcessView { start_time_ticks: process.start_time_ticks + 1, ..process };
        let machine = Machine::look();
        let total = Watch::default().look(&machine, &[MemberView::Process(other)], 0);
        assert_eq!((total.run_ns, total.cpu_ns), (0, None));
    }

    /// A directory stands for a cgroup tree.
    #[test]
    fn a_cgroup_tells_for_itself() {
        let mount = tempfile::tempdir().expect("a directory");
        let put = |file: &str, text: &str| {
            std::fs::write(mount.path().join("a").join(file), text).expect("written");
        };
        std::fs::create_dir(mount.path().join("a")).expect("a directory");
        let write = |us: u64| {
            put("cpu.stat", &format!("usage_usec {us}\n"));
            for file in ["cpu.pressure", "io.pressure", "memory.pressure"] {
                let of = if file == "memory.pressure" { us / 4 } else { us };
                put(file, &format!("some avg10=0 avg60=0 avg300=0 total={of}\n"));
            }
        };
        write(100);
        let machine = Machine { cgroups: Some(mount.path().to_owned()), ..Machine::look() };
        let member = [MemberView::Cgroup { id: 1, path: Some("/a".to_owned()) }];
        let mut watch = Watch::default();
        watch.look(&machine, &member, 0);
        write(300);
        let total = watch.look(&machine, &member, 0);
        let expected = Account {
            run_ns: 200_000,
            faults: 0,
            cpu_ns: Some(200_000),
            disk_ns: Some(150_000),
            memory_ns: Some(50_000),
        };
        assert_eq!(total, expected);
    }
}
