//! The thread that draws: one loop that owns everything.

use super::client::{Client, Presence};
use super::group::Grouping;
use super::process::{Hands, Trouble, Way, is_privileged};
use crate::scheduling::{SchedulingPolicy, count_calls, raise_this_thread};
use crate::{Applied, Drift, EnforceError, Guardian, Held, Hold, Plan, PlannedClient, Sample};
use ledger::{CurrencyId, ProcessIdentity};
use observe::RunState;
use policy::{Policy, PolicyName};
use rustix::event::epoll;
use rustix::event::epoll::{CreateFlags, Event, EventData, EventFlags};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
};
use std::collections::{BTreeMap, VecDeque};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use valuation::Graph;

/// What the thread is asked.
pub(super) enum Command {
    Apply(Box<Plan>),
    Fork { parent: ProcessIdentity, child: ProcessIdentity },
    ReadBack(Sender<Applied>),
    Sample(Sender<Sample>),
    Revert(Sender<()>),
    Quit,
}

/// What does not change while the thread runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub quantum_ns: u64,
    pub policy: PolicyName,
    pub seed: u64,
    pub seats: usize,
    pub hold: Hold,
}

/// A client that used less than this part of a time, and sleeps when we look, does not compete;
/// a sleeper that used more does.
const NEARLY_NOTHING: u64 = 16;
/// Held clients' CPU clocks are read once in so many quanta.
const CLOCK_SWEEP: u64 = 8;
/// And their run state, which is a longer read.
const STATE_SWEEP: u64 = 16;
/// Every so many quanta one client is looked at closely.
const CHECK_EVERY: u64 = 8;
/// At most so many processes are newly opened in one quantum, so that a storm of forks does not
/// delay a draw for long.
pub(super) const OPENED_AT_ONCE: usize = 32;
/// How long to wait before a guardian is started again, and between two looks for children that
/// inherited SCHED_IDLE and that no plan names.
const RETRY_NS: u64 = 1_000_000_000;
/// Most words on drift that wait for somebody to ask; later ones push the oldest out.
const KEPT_DRIFT: usize = 256;
/// Most children of held processes that are remembered until a plan names them.
pub(super) const KEPT_CHILDREN: usize = 16_384;

const TIMER: u64 = 0;
const WAKE: u64 = 1;
const LIFELINE: u64 = 2;
/// With a pid in the lower half.
pub(super) const PROCESS: u64 = 1 << 32;

pub(super) struct Lottery {
    pub(super) setting: Setting,
    pub(super) way: Way,
    pub(super) guardian: Guardian,
    pub(super) guarded: bool,
    pub(super) retry_at_ns: u64,
    pub(super) orders: Receiver<Command>,
    pub(super) wake: Arc<OwnedFd>,
    pub(super) timer: OwnedFd,
    pub(super) poll: OwnedFd,
    pub(super) policy: Box<dyn Policy>,
    pub(super) generation: Option<u64>,
    pub(super) graph: Option<Graph>,
    /// In order of id.
    pub(super) clients: Vec<Client>,
    /// Of the plan, but not yet opened.
    pub(super) waiting: VecDeque<PlannedClient>,
    /// Of the plan, but not managed, and why.
    pub(super) unmanaged: BTreeMap<CurrencyId, (PlannedClient, String)>,
    /// Of the plan, but nothing that can be managed here, and why.
    pub(super) beyond: Vec<(PlannedClient, String)>,
    pub(super) grouping: Grouping,
    pub(super) groups: Vec<String>,
    pub(super) children: BTreeMap<ProcessIdentity, SchedulingPolicy>,
    /// A process that was in SCHED_IDLE has left us: its children may still be there.
    pub(super) look_for_children: bool,
    pub(super) drift: Vec<Drift>,
    /// Who competes, or with what, has changed since values were computed.
    pub(super) changed: bool,
    pub(super) winners: Vec<u64>,
    /// Groups with a winner (kept for its storage).
    pub(super) winning_groups: Vec<bool>,
    pub(super) timer_is_on: bool,
    pub(super) due_ns: u64,
    pub(super) last_ns: u64,
    pub(super) draws: u64,
    pub(super) late: u64,
    pub(super) used_by_gone_ns: u64,
}

impl Lottery {
    pub fn new(
        setting: Setting,
        guardian: Guardian,
        orders: Receiver<Command>,
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
            setting,
            way: Way { hold: setting.hold, privileged: is_privileged() },
            guarded: guardian.pid().is_some(),
            guardian,
            retry_at_ns: 0,
            orders,
            wake,
            timer,
            poll,
            policy: policy::build(setting.policy, setting.seed),
            generation: None,
            graph: None,
            clients: Vec::new(),
            waiting: VecDeque::new(),
            unmanaged: BTreeMap::new(),
            beyond: Vec::new(),
            grouping: Grouping::here(),
            groups: Vec::new(),
            children: BTreeMap::new(),
            look_for_children: false,
            drift: Vec::new(),
            changed: false,
            winners: Vec::with_capacity(setting.seats),
            winning_groups: Vec::new(),
            timer_is_on: false,
            due_ns: 0,
            last_ns: now_ns(),
            draws: 0,
            late: 0,
            used_by_gone_ns: 0,
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
                Command::Apply(plan) => self.follow(*plan),
                Command::Fork { parent, child } => self.note_fork(parent, child),
                Command::ReadBack(reply) => drop(reply.send(self.applied())),
                Command::Sample(reply) => drop(reply.send(self.sample())),
                Command::Revert(reply) => {
                    self.revert();
                    let _ = reply.send(());
                }
                Command::Quit => return false,
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

    pub(super) fn integrate(&mut self, now: u64) {
        let elapsed = now.saturating_sub(self.last_ns);
        self.last_ns = now;
        for client in &mut self.clients {
            client.integrate(elapsed);
        }
    }

    /// Charges what was used, and finds out who still or again competes.
    fn account(&mut self, now: u64) {
        let turn = self.draws;
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            // A stopped one uses nothing and tells nothing by its state.
            let is_held = client.presence == Presence::Competing && !client.won;
            let its_turn = (turn + index as u64).is_multiple_of(CLOCK_SWEEP);
            if client.presence == Presence::Frozen || (is_held && !its_turn) {
                continue;
            }
            let Some(used) = client.measure() else { continue };
            // A winner that others kept from its CPU used nothing: the policy has to know.
            if used > 0 || client.won {
                self.policy.charge(client.id.0, used, self.setting.quantum_ns);
            }
            let (used, elapsed) = client.activity(now);
            let hardly = used < elapsed / NEARLY_NOTHING;
            let presence = match client.presence {
                Presence::Competing if !hardly || client.process.is_stopped() => continue,
                Presence::Competing => {
                    if is_held && !(turn + index as u64).is_multiple_of(STATE_SWEEP) {
                        continue;
                    }
                    presence_from(client.process.run_state())
                }
                Presence::Asleep if used == 0 => continue,
                Presence::Asleep if !hardly => Presence::Competing,
                // It wants more than it gets, or nothing any more.
                Presence::Asleep => presence_from(client.process.run_state()),
                Presence::StoppedByOthers => {
                    if used == 0 && !(turn + index as u64).is_multiple_of(STATE_SWEEP) {
                        continue;
                    }
                    presence_from(client.process.run_state())
                }
                Presence::Frozen => continue,
            };
            self.set_presence(index, presence);
        }
    }

    pub(super) fn set_presence(&mut self, index: usize, presence: Presence) {
        let client = &mut self.clients[index];
        if client.presence == presence {
            return;
        }
        let competed = client.presence == Presence::Competing;
        client.presence = presence;
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

    pub(super) fn revalue(&mut self) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        let Some(graph) = &mut self.graph else { return };
        let active = |client: &&mut Client| client.presence == Presence::Competing;
        for client in self.clients.iter_mut().filter(active) {
            let value = graph.value(client.id);
            if client.value != value {
                client.value = value;
                self.policy.reweigh(client.id.0, value);
            }
        }
        let promised = self.policy.promised(self.setting.seats);
        let active = self.clients.iter_mut().filter(active);
        for (client, (key, promised)) in active.zip(promised) {
            assert_eq!(client.id.0, key, "the policy knows exactly those who compete");
            client.promised = promised;
        }
    }

    fn draw(&mut self) {
        self.policy.draw(self.setting.seats, &mut self.winners);
        self.draws += 1;
        self.winning_groups.clear();
        self.winning_groups.resize(self.groups.len(), false);
        for client in &mut self.clients {
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
        }
    }

    /// Lets the winners run, then holds the losers.
    fn switch(&mut self) {
        for pass in [true, false] {
            let mut index = 0;
            while index < self.clients.len() {
                let wanted = self.wanted(index);
                let client = &self.clients[index];
                let frees = wanted == Held::Free;
                if frees != pass || client.held() == wanted {
                    index += 1;
                    continue;
                }
                match self.hold(index, wanted) {
                    Ok(()) => index += 1,
                    Err(trouble) => self.drop_client(index, trouble),
                }
            }
        }
    }

    /// How a client should be held now.
    fn wanted(&self, index: usize) -> Held {
        let client = &self.clients[index];
        if !self.guarded {
            return Held::Free;
        }
        match client.presence {
            Presence::Frozen => Held::Stopped,
            Presence::Asleep | Presence::StoppedByOthers => Held::Free,
            Presence::Competing if client.won => Held::Free,
            // A guest, or one that has lent its tickets: it has no part in the draws and runs on
            // seats that nobody won.
            Presence::Competing if client.value == 0 && self.winners.len() < self.setting.seats => {
                if client.process.stop_only {
                    Held::Free
                } else {
                    Held::Idle
                }
            }
            Presence::Competing if client.process.stop_only => {
                if client.foreground {
                    Held::Free
                } else {
                    Held::Stopped
                }
            }
            // In SCHED_IDLE it waits for the winners of its own scheduling group only.
            Presence::Competing if self.winning_groups.get(client.group) == Some(&false) => {
                if client.foreground {
                    Held::Idle
                } else {
                    Held::Stopped
                }
            }
            Presence::Competing => Held::Idle,
        }
    }

    pub(super) fn hold(&mut self, index: usize, wanted: Held) -> Result<(), Trouble> {
        let mut hands = Hands { registry: &mut self.guardian.registry, drift: &mut self.drift };
        let held = self.clients[index].hold(wanted, &mut hands)?;
        if !held && self.clients[index].presence != Presence::Frozen {
            self.set_presence(index, Presence::StoppedByOthers);
        }
        if self.drift.len() > KEPT_DRIFT {
            self.drift.drain(..self.drift.len() - KEPT_DRIFT);
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

    fn check(&mut self, index: usize) -> Result<(), Trouble> {
        let mut hands = Hands { registry: &mut self.guardian.registry, drift: &mut self.drift };
        let client = &mut self.clients[index];
        if client.process.check(&mut hands)? && self.guarded {
            // Once for each time that it was found: never fought more than that.
            let idle = client.process.is_idled();
            client.process.set_idle(idle, &mut hands)?;
        }
        if client.process.is_stopped() && client.process.run_state() != RunState::Stopped {
            let what = "somebody continued it; it was stopped again".to_owned();
            self.drift.push(Drift { process: Some(client.identity()), what });
            client.process.stop_again()?;
        }
        client.foreground = client.process.is_foreground_job();
        let pid = client.identity().pid;
        let name = self.grouping.of(pid);
        count_calls(12);
        let group = self.group(name);
        let several = self.groups.len() > 1;
        let client = &mut self.clients[index];
        client.group = group;
        client.note = if !client.foreground {
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

    pub(super) fn group(&mut self, name: String) -> usize {
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
        let started = self.guardian.spawn().map_err(EnforceError::from);
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

pub(super) fn presence_from(state: RunState) -> Presence {
    match state {
        RunState::Running => Presence::Competing,
        RunState::Stopped => Presence::StoppedByOthers,
        // The dead are dropped when their pidfd says so.
        _ => Presence::Asleep,
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / 1_000_000_000).cast_signed(),
        tv_nsec: (ns % 1_000_000_000).cast_signed(),
    }
}

pub(super) fn ns(time: Timespec) -> u64 {
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

pub(super) fn now_ns() -> u64 {
    ns(clock_gettime(ClockId::Monotonic))
}
