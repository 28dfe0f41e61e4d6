//! The thread that gives the scheduler its plans, reads what it counts, and loads it again when
//! it was thrown out.

use crate::account::{Account, integrate};
use crate::backoff::{Backoff, Next};
use crate::encode::{Members, completed, encode, is_our_own};
use crate::loader::Loader;
use crate::released::Released;
use crate::session::Session;
use crate::slots::{Slots, debt_ns};
use crate::trace::Feed;
use crate::{LoadError, PolicyStep, ScxOptions, Totals, abi, facts};
use enforcer::clock::{now_ns, thread_cpu_ns};
use enforcer::{
    ClientState, ClientStatus, CpuClientSample, CpuSample, CpuStatus, Drift, DriftLog,
    EnforceError, GaveUp, Order, Plan, PlannedClient, ResourceStatus, Sample, Status, TraceEvent,
};
use ledger::{CurrencyId, ProcessIdentity, Resource};
use policy::PolicyName;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::time::Duration;
use undo::scheduling::{calls, raise_this_thread};

/// Orders that only this enforcer knows.
pub(crate) enum Own {
    SetPolicy(PolicyName),
    Trace(SyncSender<Vec<TraceEvent>>),
    Totals(Sender<Option<Totals>>),
    ProbeValue { id: CurrencyId, active: Option<bool>, reply: Sender<Option<u64>> },
    ProbePolicy { step: PolicyStep, reply: Sender<Option<u64>> },
    Retag { tid: u32, reply: Sender<Option<CurrencyId>> },
}

/// It is looked whether the scheduler said that it ends once in this time. That must cost little: this
/// thread is before all others.
const TICK_NS: u64 = 50_000_000;
/// And once in this time whether the kernel still runs it.
const STATE_NS: u64 = 1_000_000_000;
/// How often what clients used and were due is counted; more seldom where there are so many that it
/// takes more than a COUNT_COST-th of the time.
const COUNT_NS: u64 = 250_000_000;
const COUNT_COST: u64 = 100;
/// While somebody reads the trace, its buffer is emptied once in this time.
const TRACE_NS: u64 = 5_000_000;
/// Plans are given to the scheduler at most once in this time; of those between only the newest.
const PLAN_NS: u64 = 10_000_000;
/// So long after a plan, what raced with it is put right.
const SETTLE_NS: u64 = 10_000_000;
/// A scheduler that asks to be loaded anew gets so many tries at once.
const RESTART_TRIES: u32 = 40;
const RESTART_PAUSE: Duration = Duration::from_millis(25);

pub(crate) struct Worker {
    options: ScxOptions,
    loader: Arc<Loader>,
    orders: Receiver<Order<Own>>,
    gave_up: GaveUp,
    session: Option<Session>,
    slots: Slots,
    installed: Members,
    /// What is followed, completed; its graph knows who competes.
    plan: Option<Plan>,
    notes: BTreeMap<CurrencyId, String>,
    /// The newest that has still to be given to the scheduler.
    pending: Option<Arc<Plan>>,
    accounts: BTreeMap<CurrencyId, Account>,
    used_by_gone_ns: u64,
    released: Released,
    drift: DriftLog,
    backoff: Backoff,
    reload_at_ns: Option<u64>,
    plan_at_ns: u64,
    settle_at_ns: Option<u64>,
    tick_at_ns: u64,
    count_at_ns: u64,
    state_at_ns: u64,
    last_tick_ns: u64,
    draws: u64,
    late: u64,
    /// Draws of schedulers that are gone, and of this one at the last tick.
    draws_before: u64,
    feed: Option<Feed>,
    /// Values that were found wrong at the last tick, at this activity.
    suspects: (u64, BTreeSet<CurrencyId>),
    told_wrong: bool,
}

impl Worker {
    /// On the thread that serves it: loads the scheduler, so that what is wrong is known at once;
    /// nothing runs by it yet.
    pub fn new(
        options: ScxOptions,
        loader: Arc<Loader>,
        orders: Receiver<Order<Own>>,
        gave_up: GaveUp,
    ) -> Result<Worker, EnforceError> {
        // The thread must run when the scheduler does not let anybody run; and on a busy machine
        // the scheduler must not be long in coming back.
        let priority = raise_this_thread();
        tracing::debug!(priority, "the scheduler's thread begins");
        let session = Session::load(&loader, &options)?;
        let now = now_ns();
        Ok(Worker {
            options,
            loader,
            orders,
            gave_up,
            session: Some(session),
            slots: Slots::new(abi::SLOTS_MAX),
            installed: Members::default(),
            plan: None,
            notes: BTreeMap::new(),
            pending: None,
            accounts: BTreeMap::new(),
            used_by_gone_ns: 0,
            released: Released::default(),
            drift: DriftLog::default(),
            backoff: Backoff::default(),
            reload_at_ns: None,
            plan_at_ns: 0,
            settle_at_ns: None,
            tick_at_ns: now + TICK_NS,
            count_at_ns: now + COUNT_NS,
            state_at_ns: now + STATE_NS,
            last_tick_ns: now,
            draws: 0,
            late: 0,
            draws_before: 0,
            feed: None,
            suspects: (0, BTreeSet::new()),
            told_wrong: false,
        })
    }

    /// Until told to quit, or until it is given up.
    pub fn run(mut self) {
        loop {
            let wait = Duration::from_nanos(self.due_ns().saturating_sub(now_ns()));
            match self.orders.recv_timeout(wait) {
                Err(RecvTimeoutError::Disconnected) => return,
                Ok(order) => {
                    if !self.obey(order) {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.work(now_ns());
            if self.gave_up.get().is_some() {
                return;
            }
        }
    }

    fn due_ns(&self) -> u64 {
        let trace = self.feed.as_ref().map(|_| self.last_tick_ns.max(now_ns()) + TRACE_NS);
        let pending = self.pending.as_ref().map(|_| self.plan_at_ns + PLAN_NS);
        [self.settle_at_ns, self.reload_at_ns, pending, trace]
            .into_iter()
            .flatten()
            .fold(self.tick_at_ns.min(self.count_at_ns), u64::min)
    }

    /// False: quit.
    fn obey(&mut self, order: Order<Own>) -> bool {
        // Who asked may have gone: then nobody needs the answer.
        match order {
            Order::Apply(plan) => self.pending = Some(plan),
            Order::Status(reply) => {
                self.take_pending();
                let _ = reply.send(self.status());
            }
            Order::Sample(reply) => {
                self.take_pending();
                self.tick(now_ns());
                let _ = reply.send(self.sample());
            }
            Order::Revert(reply) => {
                self.revert();
                let _ = reply.send(());
            }
            Order::Own(own) => self.obey_own(own),
            Order::Quit => return false,
        }
        true
    }

    fn obey_own(&mut self, own: Own) {
        match own {
            Own::SetPolicy(policy) => {
                self.options.policy = policy;
                if let Some(session) = &self.session {
                    session.set_policy(policy);
                }
            }
            Own::Trace(reader) => self.begin_trace(Feed::new(reader)),
            Own::Totals(reply) => {
                let _ = reply.send(self.session.as_ref().map(|session| session.totals().into()));
            }
            Own::ProbeValue { id, active, reply } => {
                self.take_pending();
                let _ = reply.send(self.probe_value(id, active));
            }
            Own::ProbePolicy { step, reply } => {
                self.take_pending();
                let _ = reply.send(self.probe_policy(step));
            }
            Own::Retag { tid, reply } => {
                self.take_pending();
                let _ = reply.send(self.retag(tid));
            }
        }
    }

    fn work(&mut self, now: u64) {
        if self.pending.is_some() && now >= self.plan_at_ns + PLAN_NS {
            self.take_pending();
        }
        if self.reload_at_ns.is_some_and(|at| now >= at) {
            self.reload_at_ns = None;
            self.reload();
        }
        if self.settle_at_ns.is_some_and(|at| now >= at) {
            self.settle_at_ns = None;
            self.reconcile();
        }
        if let (Some(feed), Some(session)) = (&mut self.feed, &self.session)
            && !feed.pump(session)
        {
            session.set_traced(false);
            self.feed = None;
        }
        if now >= self.tick_at_ns {
            if now > self.tick_at_ns + TICK_NS / 2 {
                self.late += 1;
            }
            self.tick_at_ns = now + TICK_NS;
            self.watch(now);
        }
        if now >= self.count_at_ns {
            self.tick(now);
            let took_ns = now_ns().saturating_sub(now);
            self.count_at_ns = now + COUNT_NS.max(took_ns.saturating_mul(COUNT_COST));
        }
    }

    fn tell(&mut self, process: Option<ProcessIdentity>, what: String) {
        tracing::warn!("{what}");
        self.drift.push(Drift { process, what });
    }

    // Plans.

    fn take_pending(&mut self) {
        let Some(plan) = self.pending.take() else { return };
        self.plan_at_ns = now_ns();
        self.told_wrong = false;
        self.plan = Some(completed(Arc::unwrap_or_clone(plan)));
        if self.reload_at_ns.is_some() {
            // It comes with the scheduler, when that comes back.
            return;
        }
        if self.session.is_none()
            && let Err(error) = self.load()
        {
            return self.failed(error.to_string());
        }
        self.follow();
    }

    fn load(&mut self) -> Result<(), LoadError> {
        self.forget_session();
        self.session = Some(Session::load(&self.loader, &self.options)?);
        Ok(())
    }

    /// The scheduler and its memory are gone; what it counted is kept.
    fn forget_session(&mut self) {
        if let Some(session) = self.session.take().filter(Session::is_attached) {
            for account in self.accounts.values_mut() {
                account.read(&session.client(account.slot));
            }
        }
        self.feed = self.feed.take().map(Feed::without_buffer);
        self.slots = Slots::new(abi::SLOTS_MAX);
        self.installed = Members::default();
        self.draws_before = self.draws;
        for account in self.accounts.values_mut() {
            account.carry_over();
        }
    }

    /// Gives the plan to the scheduler, and attaches it if it is not yet.
    fn follow(&mut self) {
        if let Err(error) = self.install() {
            return self.failed(format!("the plan could not be given to the scheduler: {error}"));
        }
        self.settle_at_ns = Some(now_ns() + SETTLE_NS);
        let transfers = self.options.transfers;
        let Some(session) = &mut self.session else { return };
        if session.is_attached() || !self.options.attach {
            return;
        }
        match session.attach(transfers) {
            Ok(lacking) => {
                self.backoff.runs(now_ns());
                if let Some(lacking) = lacking {
                    self.tell(None, lacking);
                }
                if let Some(feed) = self.feed.take() {
                    self.begin_trace(feed);
                }
            }
            Err(error) => self.failed(error.to_string()),
        }
    }

    fn install(&mut self) -> std::io::Result<()> {
        let (Some(session), Some(plan)) = (&self.session, &mut self.plan) else { return Ok(()) };
        let now = now_ns();
        self.slots.begin_plan();
        let gone_ns = free_gone(&mut self.slots, &mut self.accounts, session, plan, now);
        self.used_by_gone_ns = self.used_by_gone_ns.saturating_add(gone_ns);
        let bank = session.control().bank;
        let graph = plan.graphs.get_mut(&Resource::CPU).expect("every plan has the CPU's graph");
        for client in &plan.clients {
            let active = self.slots.of(client.id).is_some_and(|slot| session.is_active(bank, slot));
            graph.set_active(client.id, active);
        }
        let without = give_slots(&mut self.slots, session, plan, now);
        let encoded = encode(plan, &self.slots);
        let members = Members::of(plan, &self.slots);
        for client in &plan.clients {
            let Some(slot) = self.slots.of(client.id) else { continue };
            let account = self.accounts.entry(client.id).or_insert_with(|| Account::new(slot));
            account.slot = slot;
        }
        for view in plan.cpu().nodes() {
            if let Some(account) = self.accounts.get_mut(&view.id) {
                account.first_issuer = view.backing().next().map(|backing| backing.issuer);
            }
        }
        // Who has left us and lives is the rest's, also if a parent's client lives on.
        self.released.take_back(|process| members.processes.contains_key(&process.pid));
        let left =
            self.installed.processes.iter().filter(|(pid, _)| !members.processes.contains_key(pid));
        self.released.add(
            left.map(|(pid, (start, _))| ProcessIdentity { pid: *pid, start_time_ticks: *start }),
        );
        let mut members = members;
        self.released.place(&mut members);
        session.add_members(&self.installed, &members)?;
        let arguments = abi::types::switch_args {
            generation: plan.generation,
            kernel_slot: members.kernel,
            rest_slot: members.rest,
            has_cgroups: u32::from(!members.cgroups.is_empty()),
            ..abi::types::switch_args::default()
        };
        session.switch(&encoded, arguments)?;
        session.remove_members(&self.installed, &members)?;
        self.installed = members;
        self.notes = encoded.notes;
        for id in without {
            let why =
                format!("there are more than {} currencies: it runs with the rest", abi::SLOTS_MAX);
            self.notes.insert(id, why);
        }
        Ok(())
    }

    fn reconcile(&mut self) {
        // Nothing races with who is not attached: only tests say who competes then.
        let Some(session) = self.session.as_ref().filter(|session| session.is_attached()) else {
            return;
        };
        if let Err(error) = session.reconcile() {
            self.tell(None, format!("who competes could not be put right: {error}"));
        }
    }

    fn revert(&mut self) {
        self.pending = None;
        self.plan = None;
        self.notes.clear();
        self.accounts.clear();
        self.released = Released::default();
        self.reload_at_ns = None;
        self.settle_at_ns = None;
        self.forget_session();
    }

    // Life and death.

    /// Notices when the kernel has thrown the scheduler out.
    fn watch(&mut self, now: u64) {
        let Some(session) = &self.session else { return };
        if !session.is_attached() {
            return;
        }
        if let Some(exit) = session.exit() {
            if exit.wants_restart() {
                return self.restart(&exit.to_string());
            }
            return self.failed(format!("the kernel threw the scheduler out: {exit}"));
        }
        if now < self.state_at_ns {
            return;
        }
        self.state_at_ns = now + STATE_NS;
        if facts::state().is_some_and(|state| state == "disabled") {
            return self.failed("the kernel no longer runs the scheduler".to_owned());
        }
        self.released.forget_dead();
    }

    /// The CPUs are others than those it was loaded for.
    fn restart(&mut self, why: &str) {
        let mut last = String::new();
        for _ in 0..RESTART_TRIES {
            let tried = self.load().map_err(|error| error.to_string());
            match tried.and_then(|()| self.install_and_attach()) {
                Ok(()) => {
                    let cpus = self.session.as_ref().map_or(0, |session| session.topology.cpus());
                    return self
                        .tell(None, format!("{why}: the scheduler was loaded for {cpus} CPUs"));
                }
                Err(error) => last = error,
            }
            std::thread::sleep(RESTART_PAUSE);
        }
        self.failed(format!("{why}: {last}"));
    }

    fn reload(&mut self) {
        let tried = self.load().map_err(|error| error.to_string());
        match tried.and_then(|()| self.install_and_attach()) {
            Ok(()) => self.tell(None, "the scheduler is back".to_owned()),
            Err(error) => self.failed(error),
        }
    }

    fn install_and_attach(&mut self) -> Result<(), String> {
        self.install().map_err(|error| error.to_string())?;
        let transfers = self.options.transfers;
        let Some(session) = &mut self.session else { return Err("it is not loaded".to_owned()) };
        session.attach(transfers).map_err(|error| error.to_string())?;
        self.backoff.runs(now_ns());
        self.settle_at_ns = Some(now_ns() + SETTLE_NS);
        if let Some(feed) = self.feed.take() {
            self.begin_trace(feed);
        }
        Ok(())
    }

    /// The scheduler does not run: try again later, or give up.
    fn failed(&mut self, why: String) {
        self.forget_session();
        let now = now_ns();
        match self.backoff.failed(now) {
            Next::At(at) => {
                self.reload_at_ns = Some(at);
                let seconds = (at - now) / 1_000_000_000;
                let what = format!(
                    "{why}; all run under the kernel's own scheduler, and it is tried again in \
                     {seconds} s"
                );
                self.tell(None, what);
            }
            Next::GiveUp => {
                let what = format!("{why}; that was too often: given up");
                self.tell(None, what.clone());
                self.loader.end();
                let _ = self.gave_up.set(what);
            }
        }
    }

    fn begin_trace(&mut self, mut feed: Feed) {
        let Some(session) = &self.session else {
            self.feed = Some(feed);
            return;
        };
        match feed.open(session) {
            Ok(()) => {
                session.set_traced(true);
                self.feed = Some(feed);
            }
            Err(error) => self.tell(None, format!("no trace: {error}")),
        }
    }

    // Answers.

    /// Reads what the scheduler counts, and what follows from it since the last time.
    fn tick(&mut self, now: u64) {
        self.reconcile();
        let (Some(session), Some(plan)) = (&self.session, &mut self.plan) else {
            self.last_tick_ns = now;
            return;
        };
        if !session.is_attached() {
            self.last_tick_ns = now;
            return;
        }
        let elapsed = now.saturating_sub(self.last_tick_ns);
        self.last_tick_ns = now;
        let activity = session.activity();
        let bank = session.control().bank;
        let mut wrong = BTreeSet::new();
        let mut read = BTreeMap::new();
        let graph = plan.cpu_mut();
        for (id, account) in &mut self.accounts {
            let client = session.client(account.slot);
            account.read(&client);
            graph.set_active(*id, session.is_active(bank, account.slot));
            read.insert(*id, client);
        }
        let draws = self.draws_before.saturating_add(session.totals().draws);
        let made = draws.saturating_sub(self.draws);
        self.draws = draws;
        integrate(&mut self.accounts, session.topology.cpus(), elapsed, made, |id, _| {
            graph.is_active(id).then(|| graph.value(id))
        });
        // Both value by the same rules: where nothing moved they must agree.
        for (id, account) in &self.accounts {
            let client = &read[id];
            if account.value > 0
                && session.stamp(bank, account.slot) == activity
                && client.value != account.value
                && !self.notes.contains_key(id)
            {
                wrong.insert(*id);
            }
        }
        if session.activity() != activity {
            wrong.clear();
        }
        let again = self.suspects.0 == activity;
        let sure = wrong.iter().find(|id| again && self.suspects.1.contains(id)).copied();
        self.suspects = (activity, wrong);
        if let Some(id) = sure
            && !std::mem::replace(&mut self.told_wrong, true)
        {
            let what = format!(
                "the scheduler values client {id} at {}, and it is worth {}",
                read[&id].value, self.accounts[&id].value
            );
            self.tell(None, what);
        }
    }

    fn clients(&self) -> impl Iterator<Item = (&PlannedClient, ClientState, Option<&Account>)> {
        let plan = self.plan.as_ref();
        let clients = plan.map_or(&[][..], |plan| &plan.clients);
        clients.iter().filter(|client| !is_our_own(client.id)).map(|client| {
            let account = self.accounts.get(&client.id);
            let state = match account {
                None => ClientState::Unmanaged,
                Some(_) if client.frozen => ClientState::Frozen,
                Some(account) if !account.is_runnable => ClientState::Sleeping,
                Some(account) if account.won => ClientState::Running,
                Some(_) => ClientState::Waiting,
            };
            (client, state, account)
        })
    }

    fn is_attached(&self) -> bool {
        self.session.as_ref().is_some_and(Session::is_attached)
    }

    fn status(&mut self) -> Status {
        let clients = self.clients().map(|(client, state, _)| ClientStatus {
            id: client.id,
            founder: client.founder,
            state,
            note: self.notes.get(&client.id).cloned(),
        });
        let clients = clients.collect();
        let competes = |account: &Account| account.is_runnable;
        let active = self.accounts.iter().filter(|(_, account)| competes(account));
        let resource = ResourceStatus {
            resource: Resource::CPU,
            by: Some("sched-ext".to_owned()),
            why: "the scheduler in the kernel chooses at every wake-up and every quantum"
                .to_owned(),
            active: active.map(|(id, _)| *id).collect(),
        };
        let cpus = self.session.as_ref().map_or(0, |session| session.topology.cpus());
        let cpu = CpuStatus {
            algorithm: Some(self.options.policy),
            seed: self.options.seed,
            quantum_ns: self.options.quantum_ns,
            cpus: (0..u32::MAX).take(cpus).collect(),
            hold: None,
            held: BTreeMap::new(),
        };
        Status {
            generation: self.plan.as_ref().filter(|_| self.is_attached()).map(|p| p.generation),
            guarded: self.is_attached(),
            guardian_pid: None,
            resources: vec![resource],
            clients,
            drift: self.drift.take(),
            cpu: Some(cpu),
        }
    }

    fn sample(&self) -> Sample {
        let clients = self.clients().filter_map(|(client, state, account)| {
            let account = account?;
            Some(CpuClientSample {
                id: client.id,
                founder: client.founder,
                state,
                value: account.value,
                promised: account.promised(),
                promised_ns: account.promised_ns(),
                used_ns: account.used_ns(),
                active_ns: account.active_ns(),
                wins: account.wins(),
                draws: account.draws(),
            })
        });
        let clients: Vec<CpuClientSample> = clients.collect();
        let ours = self.accounts.values().map(Account::used_ns);
        let cpu = CpuSample {
            at_ns: now_ns(),
            seats: self.session.as_ref().map_or(0, |session| session.topology.cpus()),
            generation: self.plan.as_ref().map_or(0, |plan| plan.generation),
            draws: self.draws,
            late: self.late,
            own_cpu_ns: thread_cpu_ns(),
            system_calls: calls(),
            used_ns: ours.fold(self.used_by_gone_ns, u64::saturating_add),
            clients,
        };
        Sample { cpu: Some(cpu), ..Sample::default() }
    }

    fn probe_value(&mut self, id: CurrencyId, active: Option<bool>) -> Option<u64> {
        let session = self.session.as_ref()?;
        session.probe_value(self.slots.of(id)?, active).ok()
    }

    fn probe_policy(&mut self, step: PolicyStep) -> Option<u64> {
        let session = self.session.as_ref()?;
        session.probe_policy(step.arguments(self.slots.of(step.client)?)).ok()
    }

    fn retag(&mut self, tid: u32) -> Option<CurrencyId> {
        let session = self.session.as_ref()?;
        session.currency_in(session.retag(tid).ok()?)
    }
}

/// Frees the slots of what the plan no longer has; answers what its clients had used, in ns.
fn free_gone(
    slots: &mut Slots,
    accounts: &mut BTreeMap<CurrencyId, Account>,
    session: &Session,
    plan: &Plan,
    now: u64,
) -> u64 {
    let there: BTreeSet<CurrencyId> = plan.cpu().nodes().map(|view| view.id).collect();
    let gone: Vec<_> = slots.all().filter(|(id, _)| !there.contains(id)).collect();
    let mut used_ns = 0_u64;
    for (id, slot) in &gone {
        let Some(mut account) = accounts.remove(id) else { continue };
        let client = session.client(*slot);
        account.read(&client);
        used_ns = used_ns.saturating_add(account.used_ns());
        if let Some(issuer) = account.first_issuer {
            slots.owe(issuer, debt_ns(client.charged_ns, client.due_ns));
        }
    }
    for (id, _) in gone {
        slots.free(id, now);
    }
    used_ns
}

/// Gives a slot to every currency of the plan that has none; answers the clients for which there
/// was none left.
fn give_slots(slots: &mut Slots, session: &Session, plan: &Plan, now: u64) -> Vec<CurrencyId> {
    let clients: BTreeSet<CurrencyId> = plan.clients.iter().map(|client| client.id).collect();
    let mut without = Vec::new();
    for view in plan.cpu().nodes() {
        if slots.of(view.id).is_some() {
            continue;
        }
        let is_client = clients.contains(&view.id);
        let is_quiet = |slot| {
            let client = session.client(slot);
            client.runnable == 0 && client.lingers == 0
        };
        let Some(given) = slots.give(view.id, now, is_quiet) else {
            without.extend(is_client.then_some(view.id));
            continue;
        };
        let issuer = view.backing().next().map(|backing| backing.issuer);
        let debt = issuer.filter(|_| is_client).map_or(0, |issuer| slots.take_debt(issuer));
        session.write_client(
            given.slot,
            abi::types::client {
                id: view.id.0,
                birth: given.birth,
                charged_ns: debt,
                ..abi::types::client::default()
            },
        );
    }
    without
}
