//! One client: its processes and cgroups, whether it competes, and its account.

use super::tree;
use super::waits::Waits;
use crate::{AppliedClient, ClientSample, ClientState, Held};
use ledger::{CurrencyId, Member, ProcessIdentity};
use observe::{ProcessHandle, RunState};
use policy::{ONE_SEAT, Use};
use std::path::PathBuf;

/// Whether a client takes part in the competition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// It wants the CPU, and used some since the last look or not.
    Competing { ran: bool },
    /// It does not.
    Asleep,
    /// Somebody else has stopped it.
    StoppedByOthers,
    /// The plan has frozen it.
    Frozen,
}

/// Where a process is scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the client's own cgroup.
    Leaf,
    /// In a cgroup that is not ours, where it was found.
    Foreign(String),
}

/// A process of a client.
#[derive(Debug)]
pub(super) struct Body {
    pub process: ProcessHandle,
    pub place: Place,
    /// Its CPU clock when it was last read.
    clock_ns: u64,
    /// What it had waited for when that was last read.
    waits: Waits,
}

/// A cgroup that is a client's member.
#[derive(Debug)]
pub(super) struct Group {
    pub path: String,
    pub folder: PathBuf,
    clock_ns: u64,
    waits: Waits,
}

/// A client of the plan.
#[derive(Debug)]
pub(super) struct Client {
    pub id: CurrencyId,
    pub founder: Member,
    pub bodies: Vec<Body>,
    pub groups: Vec<Group>,
    /// Its own cgroup.
    pub leaf: Option<PathBuf>,
    /// What its own cgroup had used when that was last read.
    leaf_ns: u64,
    /// What had been waited for there when that was last read.
    leaf_waits: Waits,
    /// What was waited for since it was made.
    waits: Waits,
    pub presence: Presence,
    /// It competes for what is left over only: a guest, or one that has lent its tickets.
    pub guest: bool,
    /// The plan says that it is to be frozen; it is not where that cannot be.
    pub to_freeze: bool,
    /// What it used when it was last asked whether it competes, and when that was.
    seen_ns: u64,
    seen_at_ns: u64,
    looks: u32,
    pub account: Account,
    pub value: u64,
    pub promised: u64,
    /// What cannot be done for it.
    pub notes: Vec<String>,
}

/// What a client was promised and got.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    pub used_ns: u64,
    pub promised_ns: u64,
    pub active_ns: u64,
}

/// A client that used less than this part of a time, and sleeps when we look, does not compete;
/// a sleeper that used more does.
const NEARLY_NOTHING: u64 = 16;
/// A sleeper that used nothing is asked each so many looks whether it wants the CPU.
const ASK_SLEEPERS: u32 = 16;
/// Most processes of a cgroup that are asked whether they want the CPU.
const ASKED_OF_A_GROUP: usize = 64;

impl Body {
    pub fn new(process: ProcessHandle, place: Place) -> Body {
        let clock_ns = process.cpu_time_ns().unwrap_or(0);
        let waits = Waits::of_process(&process);
        Body { process, place, clock_ns, waits }
    }

    pub fn identity(&self) -> ProcessIdentity {
        self.process.identity()
    }

    /// Notes where it is, if that is not for us to say. Answers whether it has moved.
    pub fn follow(&mut self) -> bool {
        let pid = self.process.identity().pid;
        let Place::Foreign(place) = &mut self.place else { return false };
        match tree::cgroup_of(pid) {
            Some(found) if found != *place && self.process.is_alive() => {
                *place = found;
                true
            }
            _ => false,
        }
    }
}

impl Group {
    pub fn new(path: String, folder: PathBuf) -> Group {
        let clock_ns = tree::usage_ns(&folder).unwrap_or(0);
        let waits = Waits::of_group(&folder);
        Group { path, folder, clock_ns, waits }
    }

    fn wants_the_cpu(&self) -> bool {
        let inner = tree::inner_first(&self.folder);
        let pids = inner.iter().flat_map(|group| tree::processes(group));
        pids.take(ASKED_OF_A_GROUP).any(|pid| {
            let state = ProcessHandle::open(pid).and_then(|process| process.run_state());
            matches!(state, Ok(RunState::Running))
        })
    }
}

impl Client {
    pub fn new(id: CurrencyId, founder: Member, now_ns: u64) -> Client {
        Client {
            id,
            founder,
            bodies: Vec::new(),
            groups: Vec::new(),
            leaf: None,
            leaf_ns: 0,
            leaf_waits: Waits::default(),
            waits: Waits::default(),
            presence: Presence::Asleep,
            guest: false,
            to_freeze: false,
            seen_ns: 0,
            seen_at_ns: now_ns,
            looks: 0,
            account: Account::default(),
            value: 0,
            promised: 0,
            notes: Vec::new(),
        }
    }

    /// Whether one of its processes is in its own cgroup.
    pub fn has_leaf(&self) -> bool {
        self.bodies.iter().any(|body| body.place == Place::Leaf)
    }

    pub fn competes(&self) -> bool {
        matches!(self.presence, Presence::Competing { .. })
    }

    /// The cgroups that are not ours in which it is scheduled, each once.
    pub fn foreign(&self) -> Vec<&str> {
        let places = self.bodies.iter().filter_map(|body| match &body.place {
            Place::Foreign(path) => Some(path.as_str()),
            Place::Leaf => None,
        });
        let mut paths: Vec<&str> =
            places.chain(self.groups.iter().map(|group| group.path.as_str())).collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// Whether a process of it is in a cgroup that is not its own.
    pub fn is_among_others(&self) -> bool {
        self.bodies.iter().any(|body| body.place != Place::Leaf)
    }

    /// Its own cgroup is another one now, which has used nothing.
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

    /// Brings its account up to date. What processes in its own cgroup use is read there, children
    /// that came and went included.
    pub fn measure(&mut self) {
        self.read_leaf();
        self.read_clocks();
    }

    /// What it has done in all, waits included.
    pub fn measure_use(&mut self) -> Use {
        self.measure();
        if let Some(leaf) = &self.leaf {
            let waits = Waits::of_group(leaf);
            self.waits.add(waits.since(self.leaf_waits));
            self.leaf_waits = waits;
        }
        for body in self.bodies.iter_mut().filter(|body| body.place != Place::Leaf) {
            let waits = Waits::of_process(&body.process);
            self.waits.add(waits.since(body.waits));
            body.waits = waits;
        }
        for group in &mut self.groups {
            let waits = Waits::of_group(&group.folder);
            self.waits.add(waits.since(group.waits));
            group.waits = waits;
        }
        let Waits { waited_ns, requests } = self.waits;
        Use { cpu_ns: self.account.used_ns, waited_ns, requests }
    }

    /// Reads the clocks of processes and cgroups.
    fn read_clocks(&mut self) {
        let (mut all, mut foreign) = (0, 0);
        for body in &mut self.bodies {
            let Ok(clock) = body.process.cpu_time_ns() else { continue };
            let used = clock.saturating_sub(body.clock_ns);
            body.clock_ns = clock;
            all += used;
            if body.place != Place::Leaf {
                foreign += used;
            }
        }
        for group in &mut self.groups {
            let Some(clock) = tree::usage_ns(&group.folder) else { continue };
            let used = clock.saturating_sub(group.clock_ns);
            group.clock_ns = clock;
            all += used;
            foreign += used;
        }
        self.account.used_ns += foreign;
        self.seen_ns += all;
    }

    /// Looks whether it competes.
    pub fn look(&mut self, now_ns: u64) -> Presence {
        self.read_clocks();
        let used = std::mem::take(&mut self.seen_ns);
        let elapsed = now_ns.saturating_sub(self.seen_at_ns);
        self.seen_at_ns = now_ns;
        if self.presence == Presence::Frozen {
            return Presence::Frozen;
        }
        // Whoever wakes is given some CPU time soon, whatever it weighs; only a guest may not be.
        let asks = self.looks.is_multiple_of(ASK_SLEEPERS) || self.guest;
        self.looks = self.looks.wrapping_add(1);
        if self.presence == Presence::Asleep && used == 0 && !asks {
            return Presence::Asleep;
        }
        if used > elapsed / NEARLY_NOTHING {
            return Presence::Competing { ran: true };
        }
        let state = |body: &Body| body.process.run_state().unwrap_or(RunState::Dead);
        let states: Vec<RunState> = self.bodies.iter().map(state).collect();
        if states.contains(&RunState::Dead) {
            self.bury();
        }
        match states.into_iter().max() {
            Some(RunState::Running) => Presence::Competing { ran: used > 0 },
            _ if self.groups.iter().any(Group::wants_the_cpu) => {
                Presence::Competing { ran: used > 0 }
            }
            Some(RunState::Stopped) => Presence::StoppedByOthers,
            _ => Presence::Asleep,
        }
    }

    /// Forgets processes that have exited.
    fn bury(&mut self) {
        self.measure();
        self.bodies.retain(|body| body.process.is_alive());
    }

    /// Adds to what it was promised, for a time in which nothing changed.
    pub fn integrate(&mut self, elapsed_ns: u64) {
        if self.competes() {
            let promised = u128::from(self.promised) * u128::from(elapsed_ns);
            self.account.promised_ns += (promised / u128::from(ONE_SEAT)) as u64;
            self.account.active_ns += elapsed_ns;
        }
    }

    fn state(&self) -> ClientState {
        match self.presence {
            Presence::Competing { ran: true } => ClientState::Running,
            Presence::Competing { ran: false } => ClientState::Waiting,
            Presence::Asleep => ClientState::Sleeping,
            Presence::StoppedByOthers => ClientState::Stopped,
            Presence::Frozen => ClientState::Frozen,
        }
    }

    pub fn applied(&self) -> AppliedClient {
        let held = match self.presence {
            Presence::Frozen => Held::Stopped,
            _ if self.guest && self.has_leaf() => Held::Idle,
            _ => Held::Free,
        };
        let note = (!self.notes.is_empty()).then(|| self.notes.join("; "));
        AppliedClient { id: self.id, founder: self.founder, state: self.state(), held, note }
    }

    pub fn sample(&self) -> ClientSample {
        let Account { used_ns, promised_ns, active_ns } = self.account;
        ClientSample {
            id: self.id,
            founder: self.founder,
            state: self.state(),
            value: self.value,
            promised: self.promised,
            promised_ns,
            used_ns,
            active_ns,
            wins: 0,
            draws: 0,
        }
    }
}
