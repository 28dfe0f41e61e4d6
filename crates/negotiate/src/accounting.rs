//! Sums of the accounts of many processes, threads and cgroups, each of which may end.
//!
//! 1. A sum only grows: the account of one that is gone stays in it.
//! 2. One that is seen for the first time counts from then on; one born since the last look counts from
//!    its birth.
//! 3. A counter that decreases was reset, and counts from then on.
//! 4. Time in which a cgroup waited for memory is no time in which it waited for disks: the kernel
//!    counts what it reads for memory's sake as both. It is what the kernel says, or the part of the time of waiting for
//!    disks that is for want of memory ([`Paging`]) if that is more.
//! 5. A sum is known if it is known of each of them.

use crate::paging::Paging;
use std::collections::BTreeMap;

/// The counters of one of them, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// CPU time, in ns.
    pub run_ns: u64,
    /// Major faults.
    pub faults: u64,
    /// Time waited for the CPU, in ns, where that is known.
    pub cpu_ns: Option<u64>,
    /// Time waited for disks, in ns, where that is known.
    pub disk_ns: Option<u64>,
    /// Time waited for memory, in ns, where that is known.
    pub memory_ns: Option<u64>,
}

/// The identity of one of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// A cgroup, by its path; its time waited for disks includes that for memory (rule 4).
    Cgroup(String),
    /// A process, by its pid and start: what its threads do together.
    Process(u32, u64),
    /// A thread, by its number and start.
    Thread(u32, u64),
}

/// One of them, as a look shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub who: Who,
    /// True if it was born since the last look.
    pub is_new: bool,
    pub account: Account,
    /// A cgroup's reads, where they are known.
    pub paging: Option<Paging>,
}

/// Adds accounts up.
#[derive(Debug, Default)]
pub struct UsageAccumulator {
    last: BTreeMap<Who, (Account, Option<Paging>)>,
    total: Account,
}

impl UsageAccumulator {
    /// Adds the changes since the last look. Returns the sums; one is `None` unless it is known of all that
    /// can tell it (a process's waiting times are told by its threads).
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn add(&mut self, seen: &[Seen]) -> Account {
        let mut last = BTreeMap::new();
        for Seen { who, is_new, account, paging } in seen {
            let (before, paged_before) = match self.last.get(who) {
                Some(before) => *before,
                None if *is_new => {
                    let (zero, none) = (Some(0), Account::default());
                    (Account { cpu_ns: zero, disk_ns: zero, memory_ns: zero, ..none }, None)
                }
                None => (*account, None),
            };
            let wait = |before: Option<u64>, now: Option<u64>| match (before, now) {
                (Some(before), Some(now)) => now.saturating_sub(before),
                _ => 0,
            };
            let memory_ns = wait(before.memory_ns, account.memory_ns);
            let disk_ns = wait(before.disk_ns, account.disk_ns);
            let is_group = matches!(who, Who::Cgroup(_));
            let wanting =
                paging.zip(paged_before).map(|(now, before)| now.for_want_of_memory(&before));
            let memory_ns = memory_ns.max((disk_ns as f64 * wanting.unwrap_or(0.0)) as u64);
            let disk_ns = if is_group { disk_ns.saturating_sub(memory_ns) } else { disk_ns };
            let total = &mut self.total;
            total.run_ns += account.run_ns.saturating_sub(before.run_ns);
            total.faults += account.faults.saturating_sub(before.faults);
            *total.cpu_ns.get_or_insert(0) += wait(before.cpu_ns, account.cpu_ns);
            *total.disk_ns.get_or_insert(0) += disk_ns;
            *total.memory_ns.get_or_insert(0) += memory_ns;
            last.insert(who.clone(), (*account, *paging));
        }
        self.last = last;
        // Processes tell of their threads' CPU time, and nothing of their waits.
        let telling = || seen.iter().filter(|it| !matches!(it.who, Who::Process(..)));
        let known = |of: fn(&Account) -> Option<u64>| {
            telling().next().is_some() && telling().all(|it| of(&it.account).is_some())
        };
        let told = |of: fn(&Account) -> Option<u64>| of(&self.total).filter(|_| known(of));
        Account {
            cpu_ns: told(|it| it.cpu_ns),
            disk_ns: told(|it| it.disk_ns),
            memory_ns: told(|it| it.memory_ns),
            ..self.total
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(ns: u64) -> Account {
        let (cpu_ns, disk_ns, memory_ns) = (Some(ns), Some(ns), Some(0));
        Account { run_ns: ns, faults: ns, cpu_ns, disk_ns, memory_ns }
    }

    fn seen(tid: u32, is_new: bool, ns: u64) -> Seen {
        Seen { who: Who::Thread(tid, 1), is_new, account: account(ns), paging: None }
    }

    #[test]
    fn sums_only_grow() {
        let mut sums = UsageAccumulator::default();
        assert_eq!(sums.add(&[seen(1, false, 100)]), account(0), "from now on");
        assert_eq!(sums.add(&[seen(1, false, 130), seen(2, true, 5)]), account(35));
        assert_eq!(sums.add(&[seen(2, false, 6), seen(3, false, 50)]), account(36), "1 has ended");
        assert_eq!(sums.add(&[seen(2, false, 2), seen(3, false, 51)]), account(37), "2 began anew");
        let nobody = sums.add(&[]);
        assert_eq!((nobody.run_ns, nobody.faults), (37, 37));
        // It comes back: another, for all that is known.
        assert_eq!(sums.add(&[seen(3, false, 70)]), account(37));
    }

    #[test]
    fn waiting_for_memory_is_not_waiting_for_disks() {
        let group = |io_ns, memory_ns| Seen {
            who: Who::Cgroup("/a".to_owned()),
            is_new: false,
            account: Account { disk_ns: Some(io_ns), memory_ns: Some(memory_ns), ..account(0) },
            paging: None,
        };
        let mut sums = UsageAccumulator::default();
        sums.add(&[group(10, 10)]);
        let total = sums.add(&[group(50, 30)]);
        assert_eq!((total.disk_ns, total.memory_ns), (Some(20), Some(20)));
        // More for memory than for disks: to zero, not below.
        let total = sums.add(&[group(55, 80)]);
        assert_eq!((total.disk_ns, total.memory_ns), (Some(20), Some(70)));
    }

    #[test]
    fn reading_back_what_was_lost_is_waiting_for_memory() {
        let group = |disk_ns, read_pages, refaulted_pages| Seen {
            who: Who::Cgroup("/a".to_owned()),
            is_new: false,
            account: Account { disk_ns: Some(disk_ns), memory_ns: Some(1), ..account(0) },
            paging: Some(Paging { read_pages, refaulted_pages, held_pages: 100 }),
        };
        let mut sums = UsageAccumulator::default();
        sums.add(&[group(0, 150, 0)]);
        let total = sums.add(&[group(80, 170, 15)]);
        assert_eq!((total.disk_ns, total.memory_ns), (Some(20), Some(60)));
        let total = sums.add(&[group(100, 190, 15)]);
        assert_eq!((total.disk_ns, total.memory_ns), (Some(40), Some(60)));
    }

    #[test]
    fn what_one_does_not_tell_is_not_known_of_all() {
        let silent = Seen {
            who: Who::Thread(9, 1),
            is_new: false,
            account: Account { memory_ns: None, ..account(0) },
            paging: None,
        };
        let process = Seen {
            who: Who::Process(9, 1),
            is_new: false,
            account: Account { cpu_ns: None, disk_ns: None, memory_ns: None, ..account(0) },
            paging: None,
        };
        let mut sums = UsageAccumulator::default();
        let total = sums.add(&[seen(1, false, 0), silent, process]);
        assert_eq!((total.cpu_ns, total.disk_ns, total.memory_ns), (Some(0), Some(0), None));
    }
}
