//! The thread that draws: one loop that owns everything.

use crate::accounting::STATE_SWEEP;
use crate::cells::{Cells, Place};
use crate::client::Client;
use crate::group::Grouping;
use crate::process::{Hands, HoldError, HoldSetting, is_privileged};
use enforcer::HoldMethod;
use enforcer::clock::now_ns;
use enforcer::{Drift, DriftLog, EnforceError, HoldState, Order, PlannedClient, Presence};
use ledger::{CurrencyId, ProcessIdentity};
use observe::RunState;
use policy::{Policy, PolicyName};
use rustix::event::epoll;
use rustix::event::epoll::{CreateFlags, Event, EventData, EventFlags};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use undo::Guardian;
use undo::scheduling::{SchedulingPolicy, count_calls, raise_this_thread};
use valuation::Graph;

/// A client's fork: the one order that only the lottery knows.
pub(crate) struct Fork {
    pub parent: ProcessIdentity,
    pub child: ProcessIdentity,
}

/// The settings, which do not change while the thread runs.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub quantum_ns: u64,
    pub policy: PolicyName,
    pub seed: u64,
    /// Ascending. There are as many seats.
    pub cpus: Vec<u32>,
    /// Never [`HoldMethod::Auto`].
    pub hold: HoldMethod,
    /// Where losers can be frozen.
    pub cells: Option<Place>,
    /// Why losers wait so.
    pub why: String,
}

impl Setting {
    pub fn seats(&self) -> usize {
        self.cpus.len()
    }
}

/// Every so many quanta one client is looked at closely.
const CHECK_EVERY: u64 = 8;
/// At most so many processes are newly opened in one quantum, so that a storm of forks does not
/// delay a draw for long.
pub(crate) const OPENED_AT_ONCE: usize = 32;
/// How long to wait before a guardian is started again, and between two looks for children that
/// inherited SCHED_IDLE and that no plan names.
const RETRY_NS: u64 = 1_000_000_000;
/// Most children of held processes that are remembered until a plan names them.
pub(crate) const KEPT_CHILDREN: usize = 16_384;

const TIMER: u64 = 0;
const WAKE: u64 = 1;
const LIFELINE: u64 = 2;
/// With a pid in the lower half.
pub(crate) const PROCESS: u64 = 1 << 32;

pub(crate) struct Lottery {
    pub(crate) setting: Setting,
    pub(crate) hold_setting: HoldSetting,
    pub(crate) guardian: Guardian,
    pub(crate) guarded: bool,
    pub(crate) retry_at_ns: u64,
    pub(crate) orders: Receiver<Order<Fork>>,
    pub(crate) wake: Arc<OwnedFd>,
    pub(crate) timer: OwnedFd,
    pub(crate) poll: OwnedFd,
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) generation: Option<u64>,
    pub(crate) graph: Option<Graph>,
    /// In order of id.
    pub(crate) clients: Vec<Client>,
    /// Their ids by process.
    pub(crate) ids: BTreeMap<ProcessIdentity, CurrencyId>,
    /// Those of them that a draw concerns, by index: all but sleepers that are free.
    pub(crate) awake: Vec<usize>,
    /// Who is a client, or awake, has changed since `awake` was filled.
    pub(crate) roster_changed: bool,
    /// The first sleeper of the next turn, by index.
    pub(crate) sleepers_from: usize,
    /// Time that was spent on users' sleepers, in ns, and that is not charged yet.
    pub(crate) owed: BTreeMap<u32, u64>,
    /// Of the plan, but not yet opened.
    pub(crate) waiting: VecDeque<PlannedClient>,
    /// Of the plan, but not managed, and why.
    pub(crate) unmanaged: BTreeMap<CurrencyId, (PlannedClient, String)>,
    /// Of the plan, but nothing that can be managed here, and why.
    pub(crate) unmanageable: Vec<(PlannedClient, String)>,
    pub(crate) grouping: Grouping,
    pub(crate) groups: Vec<String>,
    pub(crate) children: BTreeMap<ProcessIdentity, SchedulingPolicy>,
    /// A process that was in SCHED_IDLE has left us: its children may still be there.
    pub(crate) look_for_children: bool,
    pub(crate) drift: DriftLog,
    /// Where losers are frozen that SCHED_IDLE does not hold.
    pub(crate) cells: Option<Cells>,
    /// Users whose processes run although they are stopped, and those of whom one has won.
    pub(crate) defiant: BTreeSet<u32>,
    pub(crate) winning_owners: BTreeSet<u32>,
    /// Who competes, or with what, has changed since values were computed.
    pub(crate) changed: bool,
    pub(crate) winners: Vec<u64>,
    /// Groups with a winner (kept for its storage).
    pub(crate) winning_groups: Vec<bool>,
    pub(crate) timer_is_on: bool,
    pub(crate) due_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) draws: u64,
    pub(crate) late: u64,
    pub(crate) used_by_gone_ns: u64,
}

impl Lottery {
    pub fn new(
        setting: Setting,
        guardian: Guardian,
        orders: Receiver<Order<Fork>>,
        wake: Arc<OwnedFd>,
    ) -> Result<Lottery, EnforceError> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(EnforceError::os("make a timer"))?;
        let poll = epoll::create(CreateFlags::CLOEXEC)
            .map_err(EnforceError::os("make an epoll instance"))?;
        let add = |fd: &OwnedFd, token| {
            epoll::add(&poll, fd, EventData::new_u64(token), EventFlags::IN)
                .map_err(EnforceError::os("poll a descriptor"))
        };
        add(&timer, TIMER)?;
        add(&wake, WAKE)?;
        let lottery = Lottery {
            hold_setting: HoldSetting { hold: setting.hold, privileged: is_privileged() },
            guarded: guardian.pid().is_some(),
            retry_at_ns: 0,
            orders,
            wake,
            timer,
            poll,
            policy: policy::build(setting.policy, setting.seed),
            generation: None,
            graph: None,
            clients: Vec::new(),
            ids: BTreeMap::new(),
            awake: Vec::new(),
            roster_changed: false,
            sleepers_from: 0,
            owed: BTreeMap::new(),
            waiting: VecDeque::new(),
            unmanaged: BTreeMap::new(),
            unmanageable: Vec::new(),
            grouping: Grouping::here(),
            groups: Vec::new(),
            children: BTreeMap::new(),
            look_for_children: false,
            drift: DriftLog::default(),
            cells: setting.cells.clone().and_then(|place| Cells::of(&guardian.record, place)),
            defiant: BTreeSet::new(),
            winning_owners: BTreeSet::new(),
            changed: false,
            winners: Vec::with_capacity(setting.seats()),
            setting,
            winning_groups: Vec::new(),
            timer_is_on: false,
            due_ns: 0,
            last_ns: now_ns(),
            draws: 0,
            late: 0,
            used_by_gone_ns: 0,
            guardian,
        };
        lottery.poll_lifeline()?;
        Ok(lottery)
    }

    fn poll_lifeline(&self) -> Result<(), EnforceError> {
        let Some(lifeline) = self.guardian.lifeline() else { return Ok(()) };
        epoll::add(&self.poll, lifeline, EventData::new_u64(LIFELINE), EventFlags::IN)
            .map_err(EnforceError::os("poll the guardian's lifeline"))
    }

    /// Until told to quit. Gives everything back at the end, also when it panics.
    pub fn run(mut self) {
        let priority = raise_this_thread();
        tracing::debug!(priority, "the lottery begins");
        loop {
            let mut events = [const { MaybeUninit::<Event>::uninit() }; 64];
            count_calls(1);
            let ready = match epoll::wait(&self.poll, &mut events, None) {
                Ok((ready, _)) => ready,
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => {
                    tracing::error!(%errno, "the lottery cannot wait and ends");
                    return;
                }
            };
            let mut due = false;
            for event in ready.iter() {
                match event.data.u64() {
                    TIMER => due = true,
                    WAKE => {}
                    LIFELINE => self.look_at_guardian(),
                    token => self.drop_the_dead((token & u64::from(u32::MAX)) as u32),
                }
            }
            if !self.obey() {
                return;
            }
            if due {
                self.quantum();
            }
            self.set_timer();
        }
    }

    /// False: quit.
    fn obey(&mut self) -> bool {
        let mut count = [0; 8];
        // Nothing to read: the timer woke us.
        let _ = rustix::io::read(&*self.wake, &mut count);
        count_calls(1);
        while let Ok(command) = self.orders.try_recv() {
            // Whoever asked may have gone away; then the answer is of no use.
            match command {
                Order::Apply(plan) => self.follow(Arc::unwrap_or_clone(plan)),
                Order::Own(Fork { parent, child }) => self.note_fork(parent, child),
                Order::Status(reply) => drop(reply.send(self.status())),
                Order::Sample(reply) => drop(reply.send(self.sample())),
                Order::Revert(reply) => {
                    self.revert();
                    let _ = reply.send(());
                }
                Order::Quit => return false,
            }
        }
        true
    }

    /// The timer ticks only while there is somebody to manage or a guardian to start.
    fn set_timer(&mut self) {
        let wanted = !self.clients.is_empty()
            || !self.waiting.is_empty()
            || !self.unmanaged.is_empty()
            || !self.guarded;
        if wanted == self.timer_is_on {
            return;
        }
        self.last_ns = now_ns();
        let first = if wanted { self.last_ns + self.setting.quantum_ns } else { 0 };
        let spec = Itimerspec {
            it_interval: timespec(self.setting.quantum_ns),
            it_value: timespec(first),
        };
        count_calls(1);
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec)
            .expect("a valid time for our own timer");
        self.due_ns = first;
        self.timer_is_on = wanted;
    }

    /// One quantum has passed: account for it, draw, switch.
    fn quantum(&mut self) {
        let mut expirations = [0; 8];
        count_calls(1);
        if rustix::io::read(&self.timer, &mut expirations) != Ok(8) {
            return;
        }
        let now = now_ns();
        let passed = u64::from_ne_bytes(expirations);
        if now.saturating_sub(self.due_ns) > self.setting.quantum_ns / 2 {
            self.late += 1;
        }
        self.due_ns += passed * self.setting.quantum_ns;
        self.integrate(now);
        if self.guarded && self.guardian.lifeline().is_none() {
            // Its death was noticed while it was told something.
            self.look_at_guardian();
        }
        if !self.guarded && now >= self.retry_at_ns {
            self.start_guardian(now);
        }
        self.account(now);
        self.open_waiting(now);
        self.look_closer(now);
        self.revalue();
        self.draw();
        self.switch();
    }

    pub(crate) fn set_presence(&mut self, index: usize, presence: Presence) {
        let client = &mut self.clients[index];
        if client.presence == presence {
            return;
        }
        let competed = client.presence == Presence::Competing;
        client.presence = presence;
        self.roster_changed = true;
        client.won &= presence == Presence::Competing;
        if competed {
            client.value = 0;
            client.promised = 0;
            self.policy.leave(client.id.0);
        }
        if competed || presence == Presence::Competing {
            self.changed = true;
            if let Some(graph) = &mut self.graph {
                graph.set_active(client.id, !competed);
            }
            if !competed {
                // Its weight follows when all values are computed anew.
                self.policy.join(client.id.0, 0);
            }
        }
    }

    pub(crate) fn revalue(&mut self) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        self.call_the_roll();
        let Some(graph) = &mut self.graph else { return };
        let (clients, awake) = (&mut self.clients, &self.awake);
        let active = |index: &&usize| clients[**index].presence == Presence::Competing;
        let active: Vec<usize> = awake.iter().filter(active).copied().collect();
        for index in &active {
            let client = &mut clients[*index];
            let value = graph.value(client.id);
            if client.value != value {
                client.value = value;
                self.policy.reweigh(client.id.0, value);
            }
        }
        let promised = self.policy.promised(self.setting.seats());
        for (index, (key, promised)) in active.iter().zip(promised) {
            let client = &mut clients[*index];
            assert_eq!(client.id.0, key, "the policy knows exactly those who compete");
            client.promised = promised;
        }
    }

    fn draw(&mut self) {
        self.policy.draw(self.setting.seats(), &mut self.winners);
        self.draws += 1;
        self.winning_groups.clear();
        self.winning_groups.resize(self.groups.len(), false);
        self.winning_owners.clear();
        self.call_the_roll();
        for index in &self.awake {
            let client = &mut self.clients[*index];
            client.won = false;
            if client.presence == Presence::Competing {
                client.account.draws += 1;
            }
        }
        for key in &self.winners {
            let place = self.clients.binary_search_by_key(key, |client| client.id.0);
            let client = &mut self.clients[place.expect("who competes is a client")];
            client.won = true;
            client.account.wins += 1;
            self.winning_groups[client.group] = true;
            self.winning_owners.extend(client.owner().filter(|it| self.defiant.contains(it)));
        }
    }

    /// Lets the winners run, then holds the losers.
    fn switch(&mut self) {
        for is_freeing in [true, false] {
            while let Err((index, trouble)) = self.switch_all(is_freeing) {
                self.drop_client(index, trouble);
            }
        }
    }

    /// Frees or holds all that must be, until one cannot be.
    fn switch_all(&mut self, is_freeing: bool) -> Result<(), (usize, HoldError)> {
        self.call_the_roll();
        for place in 0..self.awake.len() {
            let index = self.awake[place];
            let wanted = self.wanted(index);
            if (wanted == HoldState::Free) == is_freeing && self.clients[index].held() != wanted {
                self.hold(index, wanted).map_err(|trouble| (index, trouble))?;
            }
        }
        Ok(())
    }

    /// How a client should be held now.
    fn wanted(&self, index: usize) -> HoldState {
        let client = &self.clients[index];
        if !self.guarded {
            return HoldState::Free;
        }
        match client.presence {
            Presence::Frozen => HoldState::Stopped,
            Presence::Asleep if self.waits_with_its_user(client) => HoldState::Stopped,
            Presence::Asleep | Presence::StoppedByOthers => HoldState::Free,
            Presence::Competing if client.won => HoldState::Free,
            // A guest, or one that has lent its tickets: it has no part in the draws and runs on
            // seats that nobody won.
            Presence::Competing
                if client.value == 0 && self.winners.len() < self.setting.seats() =>
            {
                if client.process.stop_only { HoldState::Free } else { HoldState::Idle }
            }
            Presence::Competing if self.waits_with_its_user(client) => HoldState::Stopped,
            Presence::Competing if client.process.stop_only => {
                if self.must_not_stop(client) {
                    HoldState::Free
                } else {
                    HoldState::Stopped
                }
            }
            // In SCHED_IDLE it waits for the winners of its own scheduling group only, and on their CPU.
            Presence::Competing if !self.waits_in_idle(client) => {
                if self.must_not_stop(client) {
                    HoldState::Idle
                } else {
                    HoldState::Stopped
                }
            }
            Presence::Competing => HoldState::Idle,
        }
    }

    /// Whether SCHED_IDLE holds a loser: in the only scheduling group, or beside a winner of its group where it cannot
    /// be frozen. A winner that sleeps, or is on another CPU, leaves its group's part to the losers.
    fn waits_in_idle(&self, client: &Client) -> bool {
        let can_freeze = self.cells.is_some() && !client.process.is_cell_refused();
        match can_freeze {
            true => self.groups.len() <= 1,
            false => self.winning_groups.get(client.group) != Some(&false),
        }
    }

    /// A shell would take a signal for its user's own; of a cgroup it sees nothing.
    fn must_not_stop(&self, client: &Client) -> bool {
        client.foreground && (self.cells.is_none() || client.process.is_cell_refused())
    }

    /// Whether its user's processes run while they are stopped, and none of them has won.
    fn waits_with_its_user(&self, client: &Client) -> bool {
        client.owner().is_some_and(|owner| {
            self.defiant.contains(&owner) && !self.winning_owners.contains(&owner)
        })
    }

    pub(crate) fn hold(&mut self, index: usize, wanted: HoldState) -> Result<(), HoldError> {
        let mut hands = Hands {
            table: &mut self.guardian.record.processes,
            cells: self.cells.as_mut(),
            drift: &mut self.drift,
        };
        let held = self.clients[index].hold(wanted, &mut hands)?;
        if !held && self.clients[index].presence != Presence::Frozen {
            self.set_presence(index, Presence::StoppedByOthers);
        }
        Ok(())
    }

    /// Now and then one client is looked at closely: whether it is as it was set, in which group it
    /// is, whether a shell waits for it. So is one that is not managed.
    fn look_closer(&mut self, now: u64) {
        if !self.clients.is_empty() && self.draws.is_multiple_of(CHECK_EVERY) {
            let index = (self.draws / CHECK_EVERY) as usize % self.clients.len();
            if let Err(trouble) = self.check(index) {
                self.drop_client(index, trouble);
            }
        }
        if self.draws.is_multiple_of(STATE_SWEEP)
            && let Some((&id, _)) = self.unmanaged.iter().next()
        {
            // The one that has waited longest is first: ids grow, and who fails again is put
            // back behind the others below.
            let turn = (self.draws / STATE_SWEEP) as usize % self.unmanaged.len();
            let id = self.unmanaged.keys().nth(turn).copied().unwrap_or(id);
            if let Some((planned, _)) = self.unmanaged.remove(&id) {
                self.open(planned, now);
            }
        }
        if self.look_for_children && now >= self.retry_at_ns {
            self.look_for_children = false;
            self.retry_at_ns = now + RETRY_NS;
            self.free_children(false);
        }
    }

    fn check(&mut self, index: usize) -> Result<(), HoldError> {
        let mut hands = Hands {
            table: &mut self.guardian.record.processes,
            cells: self.cells.as_mut(),
            drift: &mut self.drift,
        };
        let client = &mut self.clients[index];
        client.must_be_theirs()?;
        if client.process.check(&mut hands)? && self.guarded {
            // Once for each time that it was found: never fought more than that.
            let idle = client.process.is_idled();
            client.process.set_idle(idle, &mut hands)?;
        }
        if client.process.waits_to_die() {
            client.process.go_on(hands.table)?;
        }
        if client.process.is_stopped() && client.process.run_state() != RunState::Stopped {
            let what = "somebody continued it; it was stopped again".to_owned();
            self.drift.push(Drift { process: Some(client.identity()), what });
            client.process.stop_again()?;
        }
        client.foreground = client.process.is_foreground_job();
        let pid = client.identity().pid;
        let can_freeze = self.cells.is_some();
        let name = self.grouping.of(pid);
        count_calls(12);
        let group = self.group(name);
        let several = self.groups.len() > 1;
        let client = &mut self.clients[index];
        client.group = group;
        client.note = if !client.foreground || (can_freeze && !client.process.is_cell_refused()) {
            None
        } else if client.process.stop_only {
            Some(
                "not held: a shell runs it in the foreground and would take a stop for its \
                 user's own"
                    .to_owned(),
            )
        } else if several {
            Some(
                "as a loser it may still run beside winners of other scheduling groups: a shell \
                 runs it in the foreground and would take a stop for its user's own"
                    .to_owned(),
            )
        } else {
            None
        };
        Ok(())
    }

    pub(crate) fn group(&mut self, name: String) -> usize {
        let known = self.groups.iter().position(|group| *group == name);
        known.unwrap_or_else(|| {
            self.groups.push(name);
            self.winning_groups.push(false);
            self.groups.len() - 1
        })
    }

    // The guardian.

    fn look_at_guardian(&mut self) {
        if self.guardian.is_ready() {
            if !self.guarded {
                self.guarded = true;
                let what = "a guardian is on watch again".to_owned();
                self.drift.push(Drift { process: None, what });
            }
        } else if self.guardian.lifeline().is_none() {
            self.guarded = false;
            let what = "the guardian died; nobody is held until there is another".to_owned();
            tracing::warn!("{what}");
            self.drift.push(Drift { process: None, what });
            self.switch();
            self.free_children(false);
            self.start_guardian(now_ns());
        }
    }

    fn start_guardian(&mut self, now: u64) {
        self.retry_at_ns = now + RETRY_NS;
        if self.guardian.lifeline().is_some() {
            return;
        }
        let started = self.guardian.spawn().map_err(EnforceError::refused);
        if let Err(error) = started.and_then(|()| self.poll_lifeline()) {
            tracing::error!(%error, "no guardian");
            self.drift.push(Drift { process: None, what: error.to_string() });
        }
    }
}

impl Drop for Lottery {
    fn drop(&mut self) {
        self.revert();
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / 1_000_000_000).cast_signed(),
        tv_nsec: (ns % 1_000_000_000).cast_signed(),
    }
}
