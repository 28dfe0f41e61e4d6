//! The thread that follows plans: one loop that owns everything.

use super::client::{Client, Presence};
use super::disks::{DiskOptions, DiskShares};
use super::layout::{Layout, Weights};
use super::limits::DiskLimits;
use super::memory::{MemoryOptions, MemoryShares};
use super::record::Record;
use super::systemd::Manager;
use super::{CgroupRoot, OtherResource};
use crate::guardian::Running;
use crate::scheduling::{calls, raise_this_thread};
use crate::{Applied, AppliedClient, ClientSample, Drift, Hold, Plan, PlannedClient, Sample};
use ledger::Resource;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;
use valuation::Graph;

/// What the thread is asked.
pub(super) enum Command {
    Apply(Box<Plan>),
    ReadBack(Sender<Applied>),
    Sample(Sender<Sample>),
    Others(Sender<Vec<OtherResource>>),
    Revert(Sender<()>),
    Quit,
}

/// What does not change while the thread runs.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub root: CgroupRoot,
    /// Folder of the cgroup that holds those of the hosts.
    pub top: PathBuf,
    /// Folder of the cgroup that holds those of the guests.
    pub guests: PathBuf,
    pub period: Duration,
    /// Whether the CPU is shared out here.
    pub shares_cpu: bool,
    pub memory: Option<MemoryOptions>,
    pub disks: Option<DiskOptions>,
    pub seats: usize,
    pub program: PathBuf,
}

/// A weight that is set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Set {
    pub weight: u32,
    /// When, on the monotonic clock.
    pub at_ns: u64,
}

/// How long to wait before a guardian is started again.
const RETRY_NS: u64 = 1_000_000_000;
/// Most words on drift that wait for somebody to ask; later ones push the oldest out.
const KEPT_DRIFT: usize = 256;

pub(super) struct State {
    pub(super) setting: Setting,
    pub(super) record: Record,
    pub(super) guardian: Option<Running>,
    pub(super) guarded: bool,
    retry_at_ns: u64,
    orders: Receiver<Command>,
    /// Where systemd owns the tree.
    pub(super) manager: Option<Manager>,
    /// The plan that is followed, or that will be once there is a guardian.
    pub(super) plan: Option<Plan>,
    pub(super) graph: Option<Graph>,
    pub(super) layout: Option<Layout>,
    pub(super) weights: Option<Weights>,
    /// Shares of memory, once a plan has some.
    pub(super) memory: Option<MemoryShares>,
    /// Shares of disks, in order of name.
    pub(super) disks: Vec<DiskShares>,
    /// Hard caps on disks.
    pub(super) limits: DiskLimits,
    /// Some disk has been shared since the last revert.
    pub(super) shares_disks: bool,
    /// Some cgroup could not be made as it should be.
    pub(super) leaf_failed: bool,
    /// The plan is to be followed anew: there is something more to share.
    pub(super) must_follow: bool,
    /// It was told that there are no shares of memory.
    pub(super) memory_refused: bool,
    /// Some controllers are not on in our cgroups yet.
    pub(super) new_controllers: bool,
    /// In order of id.
    pub(super) clients: Vec<Client>,
    /// Of the plan, but not managed, and why.
    pub(super) beyond: Vec<(PlannedClient, String)>,
    /// Weights of our own cgroups below the top.
    pub(super) ours: BTreeMap<PathBuf, u32>,
    /// Weights of cgroups that are not ours, and of our top, by path.
    pub(super) foreign: BTreeMap<String, Set>,
    pub(super) drift: Vec<Drift>,
    /// Who competes, or with what, has changed since weights were set.
    pub(super) changed: bool,
    /// A weight that is not ours has to follow, now or when it may be set again.
    pub(super) foreign_due: bool,
    looks: usize,
    last_ns: u64,
    used_by_gone_ns: u64,
}

impl State {
    pub fn new(
        setting: Setting,
        record: Record,
        guardian: Running,
        manager: Option<Manager>,
        orders: Receiver<Command>,
    ) -> State {
        State {
            setting,
            record,
            guardian: Some(guardian),
            guarded: true,
            retry_at_ns: 0,
            orders,
            manager,
            plan: None,
            graph: None,
            layout: None,
            weights: None,
            memory: None,
            disks: Vec::new(),
            limits: DiskLimits::default(),
            shares_disks: false,
            leaf_failed: false,
            must_follow: false,
            memory_refused: false,
            new_controllers: false,
            clients: Vec::new(),
            beyond: Vec::new(),
            ours: BTreeMap::new(),
            foreign: BTreeMap::new(),
            drift: Vec::new(),
            changed: false,
            foreign_due: false,
            looks: 0,
            last_ns: now_ns(),
            used_by_gone_ns: 0,
        }
    }

    /// Until told to quit. Gives everything back at the end, also when it panics.
    pub fn run(mut self) {
        let priority = raise_this_thread();
        tracing::debug!(priority, "the cgroup enforcer begins");
        let period_ns = u64::try_from(self.setting.period.as_nanos()).unwrap_or(u64::MAX);
        let mut due_ns = now_ns() + period_ns;
        loop {
            let left = Duration::from_nanos(due_ns.saturating_sub(now_ns()));
            match self.orders.recv_timeout(left) {
                Ok(command) => {
                    if !self.obey(command) {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.tick();
                    due_ns = now_ns() + period_ns;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// False: quit.
    fn obey(&mut self, command: Command) -> bool {
        // Whoever asked may have gone away; then the answer is of no use.
        match command {
            Command::Apply(plan) => {
                self.plan = Some(*plan);
                if self.guarded {
                    self.follow();
                }
            }
            Command::ReadBack(reply) => {
                self.check_all();
                let _ = reply.send(self.applied());
            }
            Command::Sample(reply) => drop(reply.send(self.sample())),
            Command::Others(reply) => drop(reply.send(self.others())),
            Command::Revert(reply) => {
                self.plan = None;
                self.revert();
                let _ = reply.send(());
            }
            Command::Quit => return false,
        }
        true
    }

    /// Follows the plan that was given.
    fn follow(&mut self) {
        let now = now_ns();
        self.integrate(now);
        self.plan_memory();
        self.plan_disks(now);
        self.plan_limits();
        self.place_all(now);
        self.share(now);
    }

    /// Brings all that is set up to date with who competes.
    fn share(&mut self, now: u64) {
        if self.setting.shares_cpu {
            self.look(now);
            self.revalue();
            self.weigh(now);
        }
        self.keep_memory(now);
        self.weigh_disks(now);
        self.keep_limits(now);
    }

    /// The controllers that our cgroups need.
    pub(super) fn controllers(&self) -> Vec<&'static str> {
        let cpu = self.setting.shares_cpu.then_some("cpu");
        let memory = self.memory.is_some().then_some("memory");
        let disks = (self.shares_disks || self.limits.is_on).then_some("io");
        cpu.into_iter().chain(memory).chain(disks).collect()
    }

    fn tick(&mut self) {
        let now = now_ns();
        self.look_at_guardian(now);
        if self.clients.is_empty() || !self.guarded {
            self.last_ns = now;
            return;
        }
        if std::mem::take(&mut self.must_follow) {
            self.follow();
            return;
        }
        self.integrate(now);
        self.looks = self.looks.wrapping_add(1);
        let index = self.looks % self.clients.len();
        self.check(index);
        self.share(now);
    }

    fn integrate(&mut self, now: u64) {
        let elapsed = now.saturating_sub(self.last_ns);
        self.last_ns = now;
        for client in &mut self.clients {
            client.integrate(elapsed);
        }
    }

    /// Finds out who competes.
    fn look(&mut self, now: u64) {
        for client in &mut self.clients {
            let competed = client.competes();
            client.presence = client.look(now);
            let competes = client.competes();
            if competed != competes {
                self.changed = true;
                if let Some(graph) = &mut self.graph {
                    graph.set_active(client.id, competes);
                }
            }
        }
    }

    /// What everybody is worth and promised.
    fn revalue(&mut self) {
        let Some(graph) = &mut self.graph else { return };
        if !self.changed {
            return;
        }
        for client in &mut self.clients {
            client.value = if client.competes() { graph.value(client.id) } else { 0 };
        }
        let values: Vec<(u64, u64)> =
            self.clients.iter().map(|client| (client.id.0, client.value)).collect();
        let promised = policy::feasible::promised(&values, self.setting.seats);
        for (client, (_, promised)) in self.clients.iter_mut().zip(promised) {
            client.promised = promised;
        }
    }

    /// Forgets a client, but not what it used.
    pub(super) fn forget(&mut self, mut client: Client) {
        client.measure();
        self.used_by_gone_ns += client.account.used_ns;
    }

    pub(super) fn tell(&mut self, drift: Drift) {
        tracing::info!("{drift}");
        self.drift.push(drift);
        if self.drift.len() > KEPT_DRIFT {
            self.drift.remove(0);
        }
    }

    /// Gives everything back. The plan stays, for when there is a guardian again.
    fn revert(&mut self) {
        self.integrate(now_ns());
        for client in std::mem::take(&mut self.clients) {
            self.forget(client);
        }
        self.beyond.clear();
        self.ours.clear();
        self.foreign.clear();
        self.graph = None;
        self.layout = None;
        self.weights = None;
        // Its thread may be taking memory at this moment: it is waited for when all is given back.
        let memory = self.memory.take();
        self.revert_disks();
        self.limits = DiskLimits::default();
        let restored = self.record.restore();
        for what in restored.failed {
            tracing::error!("{what}");
            self.tell(Drift { process: None, what });
        }
        drop(memory);
    }

    // The guardian.

    fn look_at_guardian(&mut self, now: u64) {
        match self.guardian.as_mut().map(Running::is_ready) {
            Some(Some(true)) if !self.guarded => {
                self.guarded = true;
                let what = "a guardian is on watch again".to_owned();
                self.tell(Drift { process: None, what });
                if self.plan.is_some() {
                    self.follow();
                }
            }
            Some(Some(_)) => {}
            Some(None) => {
                if let Some(dead) = self.guardian.take() {
                    dead.end();
                }
                if std::mem::replace(&mut self.guarded, false) {
                    let what = "the guardian died; everything is as it was found until there is \
                                another"
                        .to_owned();
                    self.tell(Drift { process: None, what });
                    self.revert();
                }
            }
            None if now >= self.retry_at_ns => {
                self.retry_at_ns = now + RETRY_NS;
                match Running::spawn(&self.setting.program, self.record.file()) {
                    Ok(running) => self.guardian = Some(running),
                    Err(error) => self.tell(Drift { process: None, what: error.to_string() }),
                }
            }
            None => {}
        }
    }

    // Answers.

    fn others(&self) -> Vec<OtherResource> {
        let memory = self.memory.as_ref().map(|memory| OtherResource {
            resource: Resource::Memory,
            enforcer: Some("cgroup"),
            why: memory.says(),
            active: memory.graph.active_clients().collect(),
        });
        let disks = self.disks.iter().map(|disk| {
            let (enforcer, why) = disk.says();
            let resource = Resource::Disk(disk.name().to_owned());
            let active = disk.graph.active_clients().collect();
            OtherResource { resource, enforcer, why, active }
        });
        memory.into_iter().chain(disks).collect()
    }

    fn unmanaged(&self) -> Vec<(PlannedClient, String)> {
        if self.guarded {
            return self.beyond.clone();
        }
        let planned = self.plan.iter().flat_map(|plan| plan.clients.iter().cloned());
        planned.map(|client| (client, "there is no guardian".to_owned())).collect()
    }

    fn applied(&mut self) -> Applied {
        let unmanaged = self.unmanaged().into_iter();
        let unmanaged = unmanaged.map(|(planned, why)| AppliedClient::unmanaged(&planned, why));
        let mut clients: Vec<AppliedClient> =
            self.clients.iter().map(Client::applied).chain(unmanaged).collect();
        clients.sort_by_key(|client| client.id);
        Applied {
            generation: self.plan.as_ref().map(|plan| plan.generation),
            hold: Hold::Auto,
            guarded: self.guarded,
            guardian_pid: self.guardian.as_ref().filter(|_| self.guarded).map(Running::pid),
            clients,
            drift: std::mem::take(&mut self.drift),
        }
    }

    fn sample(&mut self) -> Sample {
        let now = now_ns();
        self.integrate(now);
        for client in &mut self.clients {
            client.measure();
        }
        let unmanaged = self.unmanaged().into_iter();
        let unmanaged = unmanaged.map(|(planned, _)| ClientSample::unmanaged(&planned));
        let mut clients: Vec<ClientSample> =
            self.clients.iter().map(Client::sample).chain(unmanaged).collect();
        clients.sort_by_key(|client| client.id);
        Sample {
            at_ns: now,
            seats: self.setting.seats,
            generation: self.plan.as_ref().map_or(0, |plan| plan.generation),
            draws: 0,
            late: 0,
            own_cpu_ns: ns(clock_gettime(ClockId::ThreadCPUTime)),
            system_calls: calls(),
            used_ns: self.used_by_gone_ns
                + clients.iter().map(|client| client.used_ns).sum::<u64>(),
            clients,
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.revert();
        if let Some(guardian) = self.guardian.take() {
            guardian.end();
        }
    }
}

/// What a client is before it was looked at.
pub(super) fn presence_when_new(frozen: bool) -> Presence {
    if frozen { Presence::Frozen } else { Presence::Asleep }
}

fn ns(time: Timespec) -> u64 {
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

pub(super) fn now_ns() -> u64 {
    ns(clock_gettime(ClockId::Monotonic))
}
