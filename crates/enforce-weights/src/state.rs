//! The state that follows plans: it owns everything.

use crate::carriers::{Carrier, Hands};
use crate::client::{Client, ManagedProcess, stranger};
use crate::houses::{self, Worth};
use crate::newborn::{Newborn, Newborns};
use crate::record::UndoEntry;
use crate::short_lives::{ShortLives, part_of_nursery};
use crate::steering::{Steering, Window};
use enforcer::clock::now_ns;
use enforcer::{
    Consequence, DriftLog, Followed, Periodic, PlannedClient, Presence, Sample, Status,
};
use ledger::{Class, CurrencyId, Member, ProcessIdentity};
use observe::{ProcessHandle, RunState};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use undo::Guardian;
use valuation::Graph;

/// Interval between two looks at who competes.
pub(crate) const PERIOD_NS: u64 = 100_000_000;
/// Clients that are checked for one status.
const CHECKED_AT_ONCE: usize = 64;
/// Sleepers that are looked at each time, in turn.
const WATCHED_AT_ONCE: usize = 256;
/// Looks in one window of the steering: half a second.
const LOOKS_A_WINDOW: u32 = 5;

/// Sleepers that are put into nurseries with one plan.
const NURSED_AT_ONCE: usize = 64;
/// A client that ends sooner without having competed was a short life, in ns.
const SHORT_LIFE_NS: u64 = 1_000_000_000;

/// A client's fork: the one order that only this enforcer knows.
pub(crate) struct Fork {
    pub parent: ProcessIdentity,
    pub child: ProcessIdentity,
}

/// All that the enforcer's thread owns.
pub(crate) struct State {
    pub(crate) guardian: Guardian,
    pub(crate) followed: Followed,
    pub(crate) carrier: Box<dyn Carrier>,
    /// CPUs shared out.
    pub(crate) seats: usize,
    pub(crate) graph: Option<Graph>,
    /// In order of id.
    pub(crate) clients: Vec<Client>,
    /// Clients of the plan that cannot be managed, and why.
    pub(crate) unmanageable: Vec<(PlannedClient, String)>,
    steering: Steering,
    short_lives: ShortLives,
    newborns: Newborns,
    /// The part of its house's weight that each nursery has.
    nurseries: BTreeMap<CurrencyId, f64>,
    pub(crate) drift: DriftLog,
    pub(crate) used_by_gone_ns: u64,
    /// When accounts were last brought up to date.
    counted_ns: u64,
    /// When the window of the steering began.
    window_ns: u64,
    looks: u32,
    /// The client that was checked last.
    checked: usize,
    /// The sleeper that was looked at last.
    watched: usize,
    /// Who competes, or with what, has changed since weights were set.
    changed: bool,
}

impl State {
    pub fn new(guardian: Guardian, carrier: Box<dyn Carrier>) -> State {
        let now_ns = now_ns();
        State {
            guardian,
            followed: Followed::default(),
            carrier,
            seats: std::thread::available_parallelism().map_or(1, usize::from),
            graph: None,
            clients: Vec::new(),
            unmanageable: Vec::new(),
            steering: Steering::default(),
            short_lives: ShortLives::default(),
            newborns: Newborns::default(),
            nurseries: BTreeMap::new(),
            drift: DriftLog::default(),
            used_by_gone_ns: 0,
            counted_ns: now_ns,
            window_ns: now_ns,
            looks: 0,
            checked: 0,
            watched: 0,
            changed: false,
        }
    }

    // Members of clients.

    /// Gives a client a member, opened unless the plan before had it.
    fn gather(
        &mut self,
        member: Member,
        client: &mut Client,
        known: &mut BTreeMap<ProcessIdentity, ManagedProcess>,
    ) {
        let Member::Process(identity) = member else {
            client.notes.push("only whole processes are given weights here".to_owned());
            return;
        };
        if let Some(process) = known.remove(&identity).or_else(|| self.newborns.take(identity)) {
            if process.strange_uid(&client.owners).is_some() {
                client.notes.push(stranger(identity));
                self.let_go(&process);
                return;
            }
            client.processes.push(process);
            if client.processes.last().is_some_and(|process| !process.handle.is_alive()) {
                // A last look at its clock, which a zombie still has.
                client.measure();
                client.processes.pop().iter().for_each(|process| self.let_go(process));
            }
            return;
        }
        if identity.pid == std::process::id() || Some(identity.pid) == self.guardian.pid() {
            client.notes.push("it is allotd itself or its guardian".to_owned());
            return;
        }
        let handle = match ProcessHandle::open_identity(identity) {
            Ok(handle) => handle,
            Err(error) if error.is_gone() => return,
            Err(error) => return client.notes.push(error.to_string()),
        };
        let is_kernels = handle.facts().is_ok_and(|facts| facts.is_kernel_thread);
        let admitted = match is_kernels {
            true => Err("it is a thread of the kernel".to_owned()),
            false => self.carrier.admit(&handle),
        };
        let mut process = ManagedProcess::new(handle);
        match admitted {
            Ok(()) => {
                // At once: it may be gone before all of the plan is followed.
                if self.short_lives.has_nursery(client.house) {
                    let (carrier, mut hands) = self.hands();
                    process.nurse(client.house, &client.owners, carrier, &mut hands);
                }
                if process.strange_uid(&client.owners).is_some() {
                    client.notes.push(stranger(identity));
                    self.let_go(&process);
                    return;
                }
                client.processes.push(process);
            }
            Err(_) if !process.handle.is_alive() => {}
            Err(why) => client.notes.push(why),
        }
    }

    fn hands(&mut self) -> (&mut dyn Carrier, Hands<'_>) {
        let hands = Hands { record: &mut self.guardian.record, drift: &mut self.drift };
        (self.carrier.as_mut(), hands)
    }

    /// Gives a process that is no client's any more back what it had.
    fn let_go(&mut self, process: &ManagedProcess) {
        let (carrier, mut hands) = self.hands();
        go_on(process, &mut hands);
        carrier.release(&process.handle, &mut hands);
    }

    /// Stops or continues a client as the plan says.
    fn freeze(&mut self, client: &mut Client, frozen: bool) {
        let (_, mut hands) = self.hands();
        if client.is_frozen() && !frozen {
            client.presence = Presence::Asleep;
            client.processes.iter().for_each(|process| go_on(process, &mut hands));
        } else if frozen {
            client.presence = Presence::Frozen;
            stop(client, &mut hands);
        }
    }

    // Accounts, values and weights.

    /// Adds the time since the last call, in which nothing changed, to what clients were promised.
    pub(crate) fn integrate(&mut self, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.counted_ns, now_ns));
        for client in &mut self.clients {
            client.integrate(elapsed_ns);
        }
    }

    /// Finds out who competes: of those who did, and of some sleepers in turn.
    fn look(&mut self, now_ns: u64) {
        let count = self.clients.len();
        let first = self.watched % count.max(1);
        self.watched = first + WATCHED_AT_ONCE;
        for (index, client) in self.clients.iter_mut().enumerate() {
            let is_in_turn = (index + count - first) % count < WATCHED_AT_ONCE;
            if !client.competes() && !is_in_turn {
                continue;
            }
            let competed = client.competes();
            client.presence = client.look(now_ns);
            client.has_competed |= client.competes();
            let competes = client.competes();
            if competed != competes {
                self.changed = true;
                if let Some(graph) = &mut self.graph {
                    graph.set_active(client.id, competes);
                }
            }
        }
    }

    /// Values and promises anew, if somebody came or left.
    fn revalue(&mut self) {
        let Some(graph) = self.graph.as_mut().filter(|_| self.changed) else { return };
        for client in &mut self.clients {
            client.value = if client.competes() { graph.value(client.id) } else { 0 };
        }
        let values: Vec<(u64, u64)> =
            self.clients.iter().map(|client| (client.id.0, client.value)).collect();
        let promised = policy::feasible::promised(&values, self.seats);
        for (client, (_, promised)) in self.clients.iter_mut().zip(promised) {
            client.promised = promised;
        }
    }

    /// Counts the life of a client that has ended, if it was a short one.
    fn count_life(&mut self, client: &Client, now_ns: u64) {
        if !client.has_competed && now_ns.saturating_sub(client.born_ns) < SHORT_LIFE_NS {
            self.short_lives.add(client.house, now_ns);
        }
    }

    /// Receives the child of a house of short lives into its nursery.
    fn receive(&mut self, parent: ProcessIdentity, child: ProcessIdentity) {
        let Some(mut newborn) = self.newborns.get(parent).map(|it| it.child(now_ns())) else {
            return;
        };
        if !newborn.is_inside
            && let Ok(handle) = ProcessHandle::open_identity(child)
            && self.carrier.admit(&handle).is_ok()
        {
            let mut process = ManagedProcess::new(handle);
            let (carrier, mut hands) = self.hands();
            process.nurse(newborn.house, &newborn.owners, carrier, &mut hands);
            if process.strange_uid(&newborn.owners).is_some() {
                self.let_go(&process);
                return;
            }
            newborn.is_inside = process.is_nursed;
            newborn.process = Some(process);
        }
        self.newborns.insert(child, newborn);
    }

    /// Makes the processes of houses of short lives known as parents, and lets those go whom no plan has named.
    fn know_parents(&mut self, now_ns: u64) {
        for process in self.newborns.forget(now_ns) {
            self.let_go(&process);
        }
        for client in &self.clients {
            let house = client.house;
            if !self.short_lives.has_nursery(house) {
                continue;
            }
            let owners: Arc<[u32]> = client.owners.as_slice().into();
            for process in &client.processes {
                let (owners, is_inside) = (Arc::clone(&owners), process.is_nursed);
                let parent = Newborn { house, owners, is_inside, process: None, at_ns: now_ns };
                self.newborns.insert(process.identity(), parent);
            }
        }
    }

    /// Puts those of houses of short lives into nurseries who are in no cgroup of ours yet, and so beget children outside.
    fn nurse(&mut self) {
        let hands = &mut Hands { record: &mut self.guardian.record, drift: &mut self.drift };
        let mut left = NURSED_AT_ONCE;
        for client in self.clients.iter_mut().filter(|it| !it.is_guest && !it.competes()) {
            if !self.short_lives.has_nursery(client.house) {
                continue;
            }
            for process in client.processes.iter_mut().filter(|it| !it.is_nursed).take(left) {
                process.nurse(client.house, &client.owners, self.carrier.as_mut(), hands);
                left -= 1;
            }
        }
    }

    /// Ends a window: the steering learns from what was measured.
    fn steer(&mut self, now_ns: u64) {
        let length_ns = now_ns.saturating_sub(std::mem::replace(&mut self.window_ns, now_ns));
        let mut windows: BTreeMap<CurrencyId, Window> = BTreeMap::new();
        for client in &mut self.clients {
            let (account, wanted_ns) = client.end_window(now_ns, length_ns);
            if client.is_guest {
                continue;
            }
            let empty = Window { due: 0.0, used_ns: 0, wanted_ns: 0 };
            let window = windows.entry(client.house).or_insert(empty);
            // The nursery has a part of what the house is due, and nobody counts what is used there.
            let counted = 1.0 - self.nurseries.get(&client.house).copied().unwrap_or(0.0);
            window.due += account.due * counted;
            window.used_ns += account.used_ns;
            window.wanted_ns += wanted_ns;
        }
        self.steering.learn(&windows.into_iter().collect::<Vec<_>>());
    }

    /// Gives everybody the weight that they are to have now.
    fn set(&mut self) {
        self.changed = false;
        self.nurseries.clear();
        let Some(graph) = &mut self.graph else { return };
        let mut members: BTreeMap<CurrencyId, Vec<usize>> = BTreeMap::new();
        let worth: Vec<Worth> = self
            .clients
            .iter()
            .map(|client| Worth { active: client.value, sure: graph.guaranteed(client.id) })
            .collect();
        for (index, client) in self.clients.iter().enumerate().filter(|(_, it)| !it.is_guest) {
            members.entry(client.house).or_default().push(index);
        }
        let together = |all: &Vec<usize>| {
            let add = |sum: Worth, index: &usize| Worth {
                active: sum.active + worth[*index].active,
                sure: sum.sure + worth[*index].sure,
            };
            all.iter().fold(Worth::default(), add)
        };
        let weights = houses::weights(&members.values().map(together).collect::<Vec<_>>());
        for ((id, all), weight) in members.iter().zip(weights) {
            let weight = weight * self.steering.factor(*id);
            let worth: Vec<Worth> = all.iter().map(|index| worth[*index]).collect();
            let mut parts = houses::parts(&worth);
            if self.short_lives.has_nursery(*id) {
                let competes = |index: &usize| self.clients[*index].competes();
                let nursery = part_of_nursery(all.iter().map(competes).zip(parts.iter().copied()));
                let awake = parts.iter_mut().zip(all).filter(|(_, index)| competes(index));
                awake.for_each(|(part, _)| *part *= 1.0 - nursery);
                self.nurseries.insert(*id, nursery);
            }
            for (index, part) in all.iter().zip(parts) {
                self.clients[*index].part = weight * part;
            }
        }
        // One may have become another user's since it was looked at, and while it is given a weight.
        self.expel();
        let hands = &mut Hands { record: &mut self.guardian.record, drift: &mut self.drift };
        self.carrier.set(&self.clients, hands);
        self.expel();
    }

    /// Gives those back what they had who belong to somebody else by now.
    fn expel(&mut self) {
        let weighed =
            |client: &&mut Client| client.competes() || client.is_frozen() || client.is_guest;
        let strangers: Vec<ManagedProcess> =
            self.clients.iter_mut().filter(weighed).flat_map(Client::take_strangers).collect();
        for process in &strangers {
            self.drift.tell_of(process.identity(), stranger(process.identity()));
            self.let_go(process);
        }
    }

    // Checks.

    /// Checks whether a client is as it was set; what is not is put right with the next weights.
    fn check(&mut self, index: usize) {
        let Some(client) = self.clients.get_mut(index) else { return };
        let hands = &mut Hands { record: &mut self.guardian.record, drift: &mut self.drift };
        self.carrier.check(client, hands);
        if client.is_frozen() {
            stop(client, hands);
        }
    }

    /// Checks some in turn, all where there are few.
    fn check_some(&mut self) {
        if !self.followed.is_on_watch() || self.clients.is_empty() {
            return;
        }
        for _ in 0..self.clients.len().min(CHECKED_AT_ONCE) {
            self.check_next();
        }
        self.set();
    }

    fn check_next(&mut self) {
        self.checked = (self.checked + 1) % self.clients.len().max(1);
        self.check(self.checked);
    }
}

impl Periodic for State {
    type Own = Fork;

    fn period(&self) -> Duration {
        Duration::from_nanos(PERIOD_NS)
    }

    fn followed(&mut self) -> &mut Followed {
        &mut self.followed
    }

    fn look_at_guardian(&mut self, now_ns: u64) -> Consequence {
        self.followed.look_at_guardian(&mut self.guardian, &mut self.drift, now_ns)
    }

    /// Makes clients of the plan's, and gives back what those have who are in it no more.
    fn follow(&mut self) {
        let Some(plan) = self.followed.plan.clone() else { return };
        let now_ns = now_ns();
        self.integrate(now_ns);
        let mut graph = plan.cpu().clone();
        for id in graph.active_clients().collect::<Vec<_>>() {
            graph.set_active(id, false);
        }
        let before = std::mem::take(&mut self.clients);
        let mut known: BTreeMap<CurrencyId, Client> =
            before.into_iter().map(|client| (client.id, client)).collect();
        let mut processes: BTreeMap<ProcessIdentity, ManagedProcess> = BTreeMap::new();
        for client in known.values_mut() {
            let all = std::mem::take(&mut client.processes).into_iter();
            processes.extend(all.map(|process| (process.identity(), process)));
        }
        let away: BTreeSet<Member> =
            plan.clients.iter().flat_map(|client| client.members.iter().copied()).collect();
        self.unmanageable.clear();
        for planned in &plan.clients {
            let mut client = match known.remove(&planned.id) {
                Some(client) if client.founder == planned.founder => client,
                other => {
                    self.used_by_gone_ns += other.map_or(0, |client| client.account.used_ns);
                    Client::new(planned.id, planned.founder, now_ns)
                }
            };
            client.notes.clear();
            client.house = houses::house_of(&graph, planned.id);
            client.owners.clone_from(&planned.owners);
            client.is_guest = planned.class == Class::Guest || planned.lent;
            let founder = Some(planned.founder).filter(|founder| !away.contains(founder));
            for member in founder.into_iter().chain(planned.members.iter().copied()) {
                self.gather(member, &mut client, &mut processes);
            }
            if client.processes.is_empty() && !client.notes.is_empty() {
                self.unmanageable.push((planned.clone(), client.notes.join("; ")));
                self.used_by_gone_ns += client.account.used_ns;
                continue;
            }
            self.freeze(&mut client, planned.frozen);
            graph.set_active(client.id, client.competes());
            self.clients.push(client);
        }
        self.clients.sort_by_key(|client| client.id);
        for client in known.into_values() {
            self.count_life(&client, now_ns);
            self.used_by_gone_ns += client.account.used_ns;
        }
        for process in processes.into_values() {
            self.let_go(&process);
        }
        self.graph = Some(graph);
        self.changed = true;
        self.revalue();
        self.nurse();
        self.know_parents(now_ns);
        self.set();
    }

    fn own(&mut self, Fork { parent, child }: Fork) {
        self.carrier.note_fork(parent, child);
        self.receive(parent, child);
    }

    fn status(&mut self) -> Status {
        self.check_some();
        self.answer_status()
    }

    fn sample(&mut self) -> Sample {
        self.answer_sample()
    }

    fn revert(&mut self) {
        self.integrate(now_ns());
        for mut client in std::mem::take(&mut self.clients) {
            client.measure();
            self.used_by_gone_ns += client.account.used_ns;
        }
        self.unmanageable.clear();
        (self.graph, self.steering) = (None, Steering::default());
        self.short_lives = ShortLives::default();
        // The guardian's record has them.
        self.newborns = Newborns::default();
        self.carrier.clear();
        for what in self.guardian.restore().failed {
            tracing::error!("{what}");
            self.drift.tell(what);
        }
    }

    fn tick(&mut self, now_ns: u64) {
        if self.clients.is_empty() || !self.followed.is_on_watch() {
            (self.counted_ns, self.window_ns) = (now_ns, now_ns);
            return;
        }
        if self.guardian.record.is_half_full() {
            // Entries that were given back are still in it; once everything is, it is empty again.
            self.revert();
            self.follow();
        }
        self.integrate(now_ns);
        self.looks = self.looks.wrapping_add(1);
        self.check_next();
        self.look(now_ns);
        self.revalue();
        if self.looks.is_multiple_of(LOOKS_A_WINDOW) {
            self.steer(now_ns);
            self.short_lives.forget(now_ns);
            self.changed = true;
        }
        if self.changed {
            self.set();
        }
    }
}

/// Stops the processes of a client, noting them before. One that is stopped already is left to who did that.
fn stop(client: &mut Client, hands: &mut Hands<'_>) {
    for process in &client.processes {
        let identity = process.identity();
        if process.strange_uid(&client.owners).is_some() {
            continue;
        }
        if process.handle.run_state().is_ok_and(|state| state == RunState::Stopped) {
            continue;
        }
        if hands.record.knows(&UndoEntry::stop_key(identity)) {
            let what = "somebody continued it; it was stopped again".to_owned();
            hands.drift.tell_of(identity, what);
        }
        let noted = UndoEntry::Stop { process: identity }.note(hands.record);
        let stopped = noted.and_then(|()| {
            Ok(rustix::process::pidfd_send_signal(process.handle.pidfd(), Signal::STOP)?)
        });
        match stopped {
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => {
                client.notes.push(format!("not stopped: {error}"));
            }
            _ => {}
        }
    }
}

/// Continues a process that we have stopped.
fn go_on(process: &ManagedProcess, hands: &mut Hands<'_>) {
    let key = UndoEntry::stop_key(process.identity());
    if hands.record.knows(&key) {
        // Fails for one that is gone only.
        let _ = rustix::process::pidfd_send_signal(process.handle.pidfd(), Signal::CONT);
        let _ = hands.record.note_given_back(&key);
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.revert();
    }
}
