//! One client: its processes, whether it competes, what it used and waited for.

use crate::carriers::{Carrier, Hands};
use enforcer::{
    ClientState, ClientStatus, CpuAccount, CpuClientSample, HoldState, Looks, Presence,
    PresenceTracker,
};
use ledger::{CurrencyId, Member, ProcessIdentity};
use observe::{ProcessHandle, RunState};
use std::collections::BTreeMap;

/// The rule by which a client competes. One that waits for its turn and for its own clients in turns may be found asleep
/// now and then, and its house would be divided among fewer: so it lingers.
const LOOKS: Looks = Looks { lingers: 5, ..Looks::OF_WEIGHTS };

/// A process of a client.
#[derive(Debug)]
pub(crate) struct ManagedProcess {
    pub handle: ProcessHandle,
    /// Its CPU clock when that was last read.
    clock_ns: u64,
    /// Time for which each thread had waited for a CPU when that was last read.
    waited_ns: BTreeMap<u32, u64>,
    /// When that was; 0 for never.
    waits_at_ns: u64,
    /// It was put into a nursery, or is elsewhere in a cgroup of ours: so its children are born there.
    pub is_nursed: bool,
}

impl ManagedProcess {
    pub fn new(handle: ProcessHandle) -> ManagedProcess {
        let clock_ns = handle.cpu_time_ns().unwrap_or(0);
        ManagedProcess {
            handle,
            clock_ns,
            waited_ns: BTreeMap::new(),
            waits_at_ns: 0,
            is_nursed: false,
        }
    }

    pub fn identity(&self) -> ProcessIdentity {
        self.handle.identity()
    }

    /// The uid that it has now, if that is none of its client's owners.
    pub fn strange_uid(&self, owners: &[u32]) -> Option<u32> {
        // Of one that is gone there is nothing to say.
        let uid = self.handle.real_uid().ok().filter(|_| !owners.is_empty())?;
        (!owners.contains(&uid)).then_some(uid)
    }

    /// Puts it into the nursery of its house, unless it belongs to somebody else by now.
    pub fn nurse(
        &mut self,
        house: CurrencyId,
        owners: &[u32],
        carrier: &mut dyn Carrier,
        hands: &mut Hands<'_>,
    ) {
        if self.strange_uid(owners).is_none() {
            self.is_nursed = carrier.nurse(&self.handle, house, hands);
        }
    }

    /// Reads the CPU time used since the last call, in ns.
    fn read_clock(&mut self) -> u64 {
        // A zombie's clock can be read; of one that was reaped nothing is left.
        let Ok(clock) = self.handle.cpu_time_ns() else { return 0 };
        clock.saturating_sub(std::mem::replace(&mut self.clock_ns, clock))
    }

    /// Reads for how long its threads waited for a CPU in a time that ends now, in ns; `None` where the kernel keeps no
    /// such account. A thread that is seen for the first time counts from now on.
    fn read_waits(&mut self, now_ns: u64, length_ns: u64) -> Option<u64> {
        let accounts = self.handle.thread_accounts().ok()?;
        let has_run = self.clock_ns > 10_000_000;
        if has_run && accounts.iter().all(|it| it.run_ns == 0 && it.run_delay_ns == 0) {
            return None;
        }
        let before = std::mem::take(&mut self.waited_ns);
        let mut waited_ns = 0;
        for account in accounts {
            let earlier = before.get(&account.tid).copied().unwrap_or(account.run_delay_ns);
            // Less than before: the number is another thread's now.
            waited_ns += account.run_delay_ns.saturating_sub(earlier);
            self.waited_ns.insert(account.tid, account.run_delay_ns);
        }
        // What it waited in earlier windows, in which nobody asked, is no part of this one.
        let elapsed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.waits_at_ns, now_ns));
        let part = length_ns as f64 / elapsed_ns.max(length_ns).max(1) as f64;
        Some((waited_ns as f64 * part) as u64)
    }
}

/// What a client did in the window that the steering learns from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowAccount {
    /// The integral of its value.
    pub due: f64,
    pub used_ns: u64,
}

/// A client of the plan.
#[derive(Debug)]
pub(crate) struct Client {
    pub id: CurrencyId,
    pub founder: Member,
    pub house: CurrencyId,
    /// The real uids that its processes may have; anybody's where there are none.
    pub owners: Vec<u32>,
    pub processes: Vec<ManagedProcess>,
    pub presence: Presence,
    /// It competes only for what is left over: a guest, or one that has lent its tickets.
    pub is_guest: bool,
    /// When the plan first had it.
    pub born_ns: u64,
    /// A look has found it competing.
    pub has_competed: bool,
    tracker: PresenceTracker,
    pub account: CpuAccount,
    pub window: WindowAccount,
    pub value: u64,
    pub promised: u64,
    /// Its weight on the machine, in parts of the mean of active houses.
    pub part: f64,
    /// Number of its threads that want a CPU at once, on average; at least 1.
    pub parallel: f64,
    /// Things that cannot be done for it, in words.
    pub notes: Vec<String>,
}

impl Client {
    pub fn new(id: CurrencyId, founder: Member, now_ns: u64) -> Client {
        Client {
            id,
            founder,
            house: id,
            owners: Vec::new(),
            processes: Vec::new(),
            presence: Presence::Asleep,
            is_guest: false,
            born_ns: now_ns,
            has_competed: false,
            tracker: PresenceTracker::new(now_ns),
            account: CpuAccount::default(),
            window: WindowAccount::default(),
            value: 0,
            promised: 0,
            part: 0.0,
            parallel: 1.0,
            notes: Vec::new(),
        }
    }

    pub fn competes(&self) -> bool {
        self.presence == Presence::Competing
    }

    /// Takes those processes out that belong to somebody else by now, and notes why.
    pub fn take_strangers(&mut self) -> Vec<ManagedProcess> {
        let strange = |process: &ManagedProcess| process.strange_uid(&self.owners);
        if !self.processes.iter().any(|process| strange(process).is_some()) {
            return Vec::new();
        }
        let (strangers, own): (Vec<_>, Vec<_>) = std::mem::take(&mut self.processes)
            .into_iter()
            .partition(|process| process.strange_uid(&self.owners).is_some());
        self.processes = own;
        self.notes.extend(strangers.iter().map(|process| stranger(process.identity())));
        strangers
    }

    pub fn is_frozen(&self) -> bool {
        self.presence == Presence::Frozen
    }

    /// Brings its account up to date.
    pub fn measure(&mut self) {
        let used: u64 = self.processes.iter_mut().map(ManagedProcess::read_clock).sum();
        self.account.used_ns += used;
        self.window.used_ns += used;
        self.tracker.add(used);
    }

    /// Adds a time in which nothing changed to what it was due.
    pub fn integrate(&mut self, elapsed_ns: u64) {
        if self.competes() {
            self.account.integrate(self.promised, elapsed_ns);
            self.window.due += self.value as f64 * elapsed_ns as f64;
        }
    }

    /// Finds out whether it competes.
    pub fn look(&mut self, now_ns: u64) -> Presence {
        self.measure();
        let look = self.tracker.take(now_ns);
        let state = |process: &ManagedProcess| process.handle.run_state().unwrap_or(RunState::Dead);
        self.tracker.find(&LOOKS, look, self.presence, self.is_guest, || {
            Some(self.processes.iter().map(state).max().unwrap_or(RunState::Dead))
        })
    }

    /// Ends the window of this length: what it was due, what it used, and what it wanted: that, and the time for which
    /// its threads waited.
    pub fn end_window(&mut self, now_ns: u64, length_ns: u64) -> (WindowAccount, u64) {
        if self.window.used_ns == 0 && !self.competes() {
            return (std::mem::take(&mut self.window), 0);
        }
        self.measure();
        let window = std::mem::take(&mut self.window);
        let mut waits = Some(0);
        for process in &mut self.processes {
            let waited = process.read_waits(now_ns, length_ns);
            waits = waits.zip(waited).map(|(sum, waited)| sum + waited);
        }
        // Where nobody counts the waits, one thread wants all the time.
        let wanted_ns = match waits {
            Some(waited_ns) => window.used_ns + waited_ns,
            None => window.used_ns.max(length_ns),
        };
        self.parallel = (wanted_ns as f64 / length_ns.max(1) as f64).max(1.0);
        (window, wanted_ns)
    }

    fn state(&self) -> ClientState {
        self.presence.state(self.tracker.has_run())
    }

    /// How it is held.
    pub fn held(&self) -> HoldState {
        if self.is_frozen() { HoldState::Stopped } else { HoldState::Free }
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

/// Why a process is not managed that belongs to somebody else by now.
pub(crate) fn stranger(process: ProcessIdentity) -> String {
    format!("{process} belongs to another user now, who has no part in its client")
}
