//! One client: its members, whether it competes, and its account.

use super::members::{ManagedProcess, MemberCgroup, Place};
use super::waits::Waits;
use crate::tree;
use enforcer::{
    ClientState, ClientStatus, CpuAccount, CpuClientSample, HoldState, Looks, Presence,
    PresenceTracker,
};
use ledger::{CurrencyId, Member};
use observe::RunState;
use policy::Use;
use std::path::PathBuf;

/// A client of the plan.
#[derive(Debug)]
pub(crate) struct Client {
    pub id: CurrencyId,
    pub founder: Member,
    pub processes: Vec<ManagedProcess>,
    pub groups: Vec<MemberCgroup>,
    /// Its own cgroup.
    pub leaf: Option<PathBuf>,
    /// CPU time that its own cgroup had used when that was last read.
    leaf_ns: u64,
    /// Waits in its own cgroup when they were last read.
    leaf_waits: Waits,
    /// Waits since the client was made.
    waits: Waits,
    pub presence: Presence,
    /// It competes only for what is left over: a guest, or one that has lent its tickets.
    pub is_guest: bool,
    /// The plan says that it is to be frozen; it is not where that cannot be.
    pub is_to_freeze: bool,
    tracker: PresenceTracker,
    pub account: CpuAccount,
    pub value: u64,
    pub promised: u64,
    /// Things that cannot be done for it, in words.
    pub notes: Vec<String>,
}

impl Client {
    pub fn new(id: CurrencyId, founder: Member, now_ns: u64) -> Client {
        Client {
            id,
            founder,
            processes: Vec::new(),
            groups: Vec::new(),
            leaf: None,
            leaf_ns: 0,
            leaf_waits: Waits::default(),
            waits: Waits::default(),
            presence: Presence::Asleep,
            is_guest: false,
            is_to_freeze: false,
            tracker: PresenceTracker::new(now_ns),
            account: CpuAccount::default(),
            value: 0,
            promised: 0,
            notes: Vec::new(),
        }
    }

    /// Returns whether a process of it is in its own cgroup.
    pub fn has_leaf(&self) -> bool {
        self.processes.iter().any(ManagedProcess::is_in_leaf)
    }

    /// Returns whether nothing of it can be managed, and why is in its notes.
    pub fn is_unmanageable(&self) -> bool {
        self.processes.is_empty() && self.groups.is_empty() && !self.notes.is_empty()
    }

    /// Freezes or thaws it, in our books.
    pub fn set_frozen(&mut self, frozen: bool) {
        if frozen != self.is_frozen() {
            self.presence = if frozen { Presence::Frozen } else { Presence::Asleep };
        }
    }

    pub fn is_frozen(&self) -> bool {
        self.presence == Presence::Frozen
    }

    pub fn competes(&self) -> bool {
        self.presence == Presence::Competing
    }

    /// Lists the cgroups that are not ours in which it is scheduled, each once.
    pub fn foreign(&self) -> Vec<&str> {
        let places = self.processes.iter().filter_map(|process| match &process.place {
            Place::Foreign(path) => Some(path.as_str()),
            Place::Leaf => None,
        });
        let mut paths: Vec<&str> =
            places.chain(self.groups.iter().map(|group| group.path.as_str())).collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// Returns whether a process of it is in a cgroup that is not its own.
    pub fn is_among_others(&self) -> bool {
        self.processes.iter().any(|process| !process.is_in_leaf())
    }

    /// Gives it another cgroup of its own, from which it has used nothing yet.
    pub fn set_leaf(&mut self, leaf: Option<PathBuf>) {
        if self.leaf != leaf {
            self.read_leaf();
            self.leaf = leaf;
            self.leaf_ns = self.leaf.as_deref().and_then(tree::usage_ns).unwrap_or(0);
            self.leaf_waits = self.leaf.as_deref().map(Waits::of_group).unwrap_or_default();
        }
    }

    fn read_leaf(&mut self) {
        let Some(used) = self.leaf.as_deref().and_then(tree::usage_ns) else { return };
        self.account.used_ns += used.saturating_sub(self.leaf_ns);
        self.leaf_ns = used;
    }

    /// Brings its account up to date. The use of processes in its own cgroup is read from the cgroup, children that came
    /// and went included.
    pub fn measure(&mut self) {
        self.read_leaf();
        self.read_clocks();
    }

    /// Measures what it has done in all, waits included.
    pub fn measure_use(&mut self) -> Use {
        self.measure();
        if let Some(leaf) = &self.leaf {
            let waits = Waits::of_group(leaf);
            self.waits.add(waits.since(self.leaf_waits));
            self.leaf_waits = waits;
        }
        for process in self.processes.iter_mut().filter(|process| !process.is_in_leaf()) {
            self.waits.add(process.read_waits());
        }
        for group in &mut self.groups {
            self.waits.add(group.read_waits());
        }
        let Waits { waited_ns, requests } = self.waits;
        Use { cpu_ns: self.account.used_ns, waited_ns, requests }
    }

    /// Reads the clocks of processes and cgroups.
    fn read_clocks(&mut self) {
        let (mut all, mut foreign) = (0, 0);
        for process in &mut self.processes {
            let Some(used) = process.read_clock() else { continue };
            all += used;
            if !process.is_in_leaf() {
                foreign += used;
            }
        }
        for used in self.groups.iter_mut().filter_map(MemberCgroup::read_clock) {
            all += used;
            foreign += used;
        }
        self.account.used_ns += foreign;
        self.tracker.add(all);
    }

    /// Finds out whether it competes.
    pub fn look(&mut self, now_ns: u64) -> Presence {
        self.read_clocks();
        let look = self.tracker.take(now_ns);
        let mut any_dead = false;
        let found =
            self.tracker.find(&Looks::OF_WEIGHTS, look, self.presence, self.is_guest, || {
                let state = |process: &ManagedProcess| process.handle.run_state();
                let states = self.processes.iter().map(|it| state(it).unwrap_or(RunState::Dead));
                let states: Vec<RunState> = states.collect();
                any_dead = states.contains(&RunState::Dead);
                let busiest = states.into_iter().max().unwrap_or(RunState::Dead);
                let wants = busiest == RunState::Running
                    || self.groups.iter().any(MemberCgroup::wants_the_cpu);
                Some(if wants { RunState::Running } else { busiest })
            });
        if any_dead {
            self.bury();
        }
        found
    }

    /// Forgets processes that have exited.
    fn bury(&mut self) {
        self.measure();
        self.processes.retain(|process| process.handle.is_alive());
    }

    /// Adds a time in which nothing changed to what it was promised.
    pub fn integrate(&mut self, elapsed_ns: u64) {
        if self.competes() {
            self.account.integrate(self.promised, elapsed_ns);
        }
    }

    fn state(&self) -> ClientState {
        self.presence.state(self.tracker.has_run())
    }

    /// How it is held.
    pub fn held(&self) -> HoldState {
        match self.presence {
            Presence::Frozen => HoldState::Stopped,
            _ if self.is_guest && self.has_leaf() => HoldState::Idle,
            _ => HoldState::Free,
        }
    }

    pub fn status(&self) -> ClientStatus {
        let note = (!self.notes.is_empty()).then(|| self.notes.join("; "));
        ClientStatus { id: self.id, founder: self.founder, state: self.state(), note }
    }

    pub fn sample(&self) -> CpuClientSample {
        let now = (self.value, self.promised);
        CpuClientSample::of((self.id, self.founder), self.state(), now, self.account)
    }
}
