//! Processes that were in a client and are in none any more, and live: the rest's, whoever made
//! them, until they are gone.

use crate::encode::Members;
use ledger::ProcessIdentity;
use std::collections::BTreeSet;

/// See above.
#[derive(Debug, Default)]
pub(crate) struct Released {
    processes: BTreeSet<ProcessIdentity>,
}

impl Released {
    /// These are in no client any more; those that are gone are left out.
    pub fn add(&mut self, processes: impl Iterator<Item = ProcessIdentity>) {
        self.processes.extend(processes.filter(lives));
    }

    /// Those that are members again.
    pub fn take_back(&mut self, mut is_member: impl FnMut(&ProcessIdentity) -> bool) {
        self.processes.retain(|process| !is_member(process));
    }

    /// They are the rest's, with entries of their own: without, a fork's child would go to the
    /// client that it was made in.
    pub fn place(&self, members: &mut Members) {
        for process in &self.processes {
            let entry = (process.start_time_ticks, members.rest);
            members.processes.entry(process.pid).or_insert(entry);
        }
    }

    /// Leaves out who is gone; their entries go with the next plan.
    pub fn forget_dead(&mut self) {
        self.processes.retain(lives);
    }
}

fn lives(process: &ProcessIdentity) -> bool {
    observe::ProcessHandle::open_identity(*process).is_ok_and(|handle| handle.is_alive())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lives_is_the_rests_until_it_is_gone_or_a_member_again() {
        let me = observe::ProcessHandle::open(std::process::id()).unwrap().identity();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let other = observe::ProcessHandle::open(child.id()).unwrap().identity();
        let nobody = ProcessIdentity { start_time_ticks: other.start_time_ticks + 1, ..other };
        let mut released = Released::default();
        released.add([me, other, nobody].into_iter());
        let placed = |released: &Released| {
            let mut members = Members { rest: 9, ..Members::default() };
            released.place(&mut members);
            members.processes.into_iter().collect::<Vec<_>>()
        };
        let entry = |process: ProcessIdentity| (process.pid, (process.start_time_ticks, 9));
        let mut both = vec![entry(me), entry(other)];
        both.sort();
        assert_eq!(placed(&released), both);
        child.kill().unwrap();
        child.wait().unwrap();
        released.forget_dead();
        assert_eq!(placed(&released), [entry(me)]);
        released.take_back(|process| *process == me);
        assert_eq!(placed(&released), []);
    }
}
