//! Who is a client: following plans, taking processes in and letting them go.

use crate::client::Client;
use crate::lottery::{KEPT_CHILDREN, Lottery, OPENED_AT_ONCE, PROCESS};
use crate::process::{Hands, HoldError, Process};
use enforcer::clock::now_ns;
use enforcer::{CpuAccount, Drift, HoldState, Plan, PlannedClient, Presence, PresenceTracker};
use ledger::{CurrencyId, ProcessIdentity, Resource};
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::BTreeMap;
use undo::record::{IDLED, ProcessEntry};
use undo::restore::{Lineage, free_inheritors};
use undo::scheduling::{SchedulingPolicy, count_calls};

impl Lottery {
    pub(crate) fn follow(&mut self, plan: Plan) {
        let Plan { generation, mut graphs, clients: planned, .. } = plan;
        let mut graph = graphs.remove(&Resource::CPU).expect("every plan has the CPU's graph");
        let was_active: Vec<CurrencyId> = graph.active_clients().collect();
        for id in was_active {
            graph.set_active(id, false);
        }
        self.generation = Some(generation);
        self.waiting.clear();
        self.unmanaged.clear();
        let mut known: BTreeMap<CurrencyId, Client> = std::mem::take(&mut self.clients)
            .into_iter()
            .map(|client| (client.id, client))
            .collect();
        self.unmanageable.clear();
        for planned in planned {
            if planned.founder.process().is_none() {
                let reason = "the user-level lottery holds whole processes only".to_owned();
                self.unmanageable.push((planned, reason));
                continue;
            }
            let same =
                known.get(&planned.id).is_some_and(|it| planned.founder == it.identity().into());
            let Some(mut client) = same.then(|| known.remove(&planned.id)).flatten() else {
                self.waiting.push_back(planned);
                continue;
            };
            client.owners = planned.owners;
            // What it does now is only known when it is looked at; a thawed one wants to run.
            let frozen = client.presence == Presence::Frozen;
            if frozen != planned.frozen {
                if client.presence == Presence::Competing {
                    self.policy.leave(client.id.0);
                }
                client.won = false;
                client.value = 0;
                client.promised = 0;
                client.presence = if planned.frozen { Presence::Frozen } else { Presence::Asleep };
            }
            if client.presence == Presence::Competing {
                graph.set_active(client.id, true);
            }
            self.clients.push(client);
        }
        self.clients.sort_by_key(|client| client.id);
        self.roster_changed = true;
        self.take_turns();
        self.graph = Some(graph);
        self.changed = true;
        for client in known.into_values() {
            self.let_go(client);
        }
        let now = now_ns();
        self.open_waiting(now);
        self.free_the_thawed();
        self.tidy_groups();
    }

    /// Users' newcomers are opened in turn: who has many keeps nobody else's waiting.
    fn take_turns(&mut self) {
        let mut before: BTreeMap<Option<u32>, usize> = BTreeMap::new();
        let mut ranked: Vec<(usize, PlannedClient)> = Vec::with_capacity(self.waiting.len());
        for planned in self.waiting.drain(..) {
            let rank = before.entry(planned.owners.first().copied()).or_default();
            ranked.push((*rank, planned));
            *rank += 1;
        }
        ranked.sort_by_key(|(rank, planned)| (*rank, planned.id));
        self.waiting.extend(ranked.into_iter().map(|(_, planned)| planned));
    }

    pub(crate) fn free_the_thawed(&mut self) {
        let mut index = 0;
        while index < self.clients.len() {
            let client = &self.clients[index];
            let awake = client.presence == Presence::Asleep && client.held() != HoldState::Free;
            match if awake { self.hold(index, HoldState::Free) } else { Ok(()) } {
                Ok(()) => index += 1,
                Err(trouble) => self.drop_client(index, trouble),
            }
        }
    }

    /// Forgets group names that nobody has any more, once there are many.
    pub(crate) fn tidy_groups(&mut self) {
        if self.groups.len() <= 2 * self.clients.len() + 16 {
            return;
        }
        let old = std::mem::take(&mut self.groups);
        for index in 0..self.clients.len() {
            let name = old[self.clients[index].group].clone();
            self.clients[index].group = self.group(name);
        }
    }

    pub(crate) fn open_waiting(&mut self, now: u64) {
        for _ in 0..OPENED_AT_ONCE {
            let Some(planned) = self.waiting.pop_front() else { return };
            self.open(planned, now);
        }
    }

    pub(crate) fn open(&mut self, planned: PlannedClient, now: u64) {
        let (id, frozen) = (planned.id, planned.frozen);
        let identity = planned.founder.process().expect("others were put aside");
        let pid = identity.pid;
        if pid == std::process::id() || Some(pid) == self.guardian.pid() {
            let reason = "it is allotd itself or its guardian".to_owned();
            self.unmanaged.insert(id, (planned, reason));
            return;
        }
        count_calls(24);
        // Found out before the table is borrowed; most processes are not in SCHED_IDLE.
        let inherited = self.inherited(identity);
        let opened =
            Process::open(identity, self.hold_setting, &mut self.guardian.record.processes, |_| {
                inherited
            });
        let process = match opened {
            Ok(process) => process,
            Err(HoldError::Gone) => return,
            Err(HoldError::Unmanaged(reason)) => {
                self.unmanaged.insert(id, (planned, reason));
                return;
            }
        };
        let Some(clock_ns) = process.cpu_time_ns() else {
            process.close(&mut self.guardian.record.processes);
            return;
        };
        let token = EventData::new_u64(PROCESS | u64::from(pid));
        if let Err(errno) = epoll::add(&self.poll, process.pidfd(), token, EventFlags::IN) {
            process.close(&mut self.guardian.record.processes);
            self.unmanaged.insert(id, (planned, errno.to_string()));
            return;
        }
        let group = self.group(self.grouping.of(pid));
        let foreground = process.is_foreground_job();
        let state = process.run_state();
        self.children.remove(&identity);
        let place = self.clients.partition_point(|client| client.id < id);
        let client = Client {
            id,
            process,
            owners: planned.owners,
            presence: if frozen { Presence::Frozen } else { Presence::Asleep },
            group,
            foreground,
            defied: 0,
            won: false,
            clock_ns,
            tracker: PresenceTracker::new(now),
            account: CpuAccount::default(),
            value: 0,
            promised: 0,
            note: None,
        };
        self.clients.insert(place, client);
        self.ids.insert(identity, id);
        self.roster_changed = true;
        self.leave_the_parents_cell(place);
        if !frozen {
            self.set_presence(place, Presence::of(state));
        }
    }

    /// What was born in another's cell would stand still with that.
    fn leave_the_parents_cell(&mut self, index: usize) {
        let pid = self.clients[index].identity().pid;
        if !self.cells.as_ref().is_some_and(|cells| cells.has_made_any() && cells.is_in_one(pid)) {
            return;
        }
        let mut hands = Hands {
            table: &mut self.guardian.record.processes,
            cells: self.cells.as_mut(),
            drift: &mut self.drift,
        };
        if let Some(Err(error)) = self.clients[index].process.enter_cell(&mut hands) {
            let what = format!("it stays in the cell where it was born: {error}");
            self.drift.push(Drift { process: Some(self.clients[index].identity()), what });
        }
    }

    /// The own policy of the held process that this one inherited SCHED_IDLE from; `None` for
    /// one that is not in SCHED_IDLE, or of itself.
    pub(crate) fn inherited(&self, identity: ProcessIdentity) -> Option<SchedulingPolicy> {
        let table = &self.guardian.record.processes;
        if identity.start_time_ticks < table.made_ticks()
            || !undo::scheduling::policy_of(identity.pid).is_ok_and(SchedulingPolicy::is_idle)
        {
            return None;
        }
        if let Some(policy) = self.children.get(&identity) {
            return Some(*policy);
        }
        let facts = observe::ProcessHandle::open_identity(identity).ok()?.facts().ok()?;
        let kin = |entry: &ProcessEntry| {
            let original = &entry.original;
            entry.flags & IDLED != 0
                && (original.process.pid == facts.parent_pid
                    || original.session == facts.session
                    || original.process_group == facts.process_group)
        };
        table
            .entries()
            .filter(|entry| entry.tid.is_none())
            .find(kin)
            .map(|entry| entry.original.policy)
    }

    pub(crate) fn note_fork(&mut self, parent: ProcessIdentity, child: ProcessIdentity) {
        let of_client = self.ids.get(&parent).and_then(|id| {
            let place = self.clients.binary_search_by_key(id, |client| client.id).ok()?;
            Some(self.clients[place].process.own_policy())
        });
        let Some(policy) = of_client.or_else(|| self.children.get(&parent).copied()) else {
            return;
        };
        if self.children.len() >= KEPT_CHILDREN {
            // The oldest are the least: identities begin with the pid, but any one will do, for
            // whoever is forgotten is still known by parent, session or group.
            self.children.pop_first();
        }
        self.children.insert(child, policy);
    }

    // Leaving.

    /// Takes a client out, after giving it back what it had.
    pub(crate) fn let_go(&mut self, mut client: Client) {
        self.look_for_children |= client.process.is_idled() || client.account.draws > 0;
        self.policy.forget(client.id.0);
        self.ids.remove(&client.identity());
        self.roster_changed = true;
        if let Some(graph) = &mut self.graph {
            graph.set_active(client.id, false);
        }
        self.changed = true;
        // A last look at its clock, which a zombie still has.
        client.measure();
        self.used_by_gone_ns += client.account.used_ns;
        let mut hands = Hands {
            table: &mut self.guardian.record.processes,
            cells: self.cells.as_mut(),
            drift: &mut self.drift,
        };
        match client.process.give_back(&mut hands) {
            Ok(()) | Err(HoldError::Gone) => {}
            Err(HoldError::Unmanaged(reason)) => {
                let what = format!("it could not be given back what it had: {reason}");
                self.drift.push(Drift { process: Some(client.identity()), what });
            }
        }
        let _ = epoll::delete(&self.poll, client.process.pidfd());
        client.process.close(&mut self.guardian.record.processes);
    }

    pub(crate) fn drop_client(&mut self, index: usize, trouble: HoldError) {
        let client = self.clients.remove(index);
        if let HoldError::Unmanaged(reason) = trouble {
            let planned = PlannedClient {
                owners: client.owners.clone(),
                frozen: client.presence == Presence::Frozen,
                ..PlannedClient::of(client.id, client.identity().into())
            };
            self.drift.push(Drift { process: Some(client.identity()), what: reason.clone() });
            self.unmanaged.insert(planned.id, (planned, reason));
        }
        self.let_go(client);
    }

    /// The process of this pid has exited.
    pub(crate) fn drop_the_dead(&mut self, pid: u32) {
        let first = ProcessIdentity { pid, start_time_ticks: 0 };
        let last = ProcessIdentity { pid, start_time_ticks: u64::MAX };
        let ids: Vec<CurrencyId> = self.ids.range(first..=last).map(|(_, id)| *id).collect();
        for id in ids {
            if let Ok(index) = self.clients.binary_search_by_key(&id, |client| client.id)
                && !self.clients[index].process.is_alive()
            {
                self.drop_client(index, HoldError::Gone);
            }
        }
    }

    pub(crate) fn revert(&mut self) {
        self.generation = None;
        self.graph = None;
        self.waiting.clear();
        self.unmanaged.clear();
        self.unmanageable.clear();
        let mut any = false;
        for client in std::mem::take(&mut self.clients) {
            any = true;
            self.let_go(client);
        }
        if any || self.look_for_children {
            self.free_children(true);
        }
        self.look_for_children = false;
        if let Some(cells) = &mut self.cells {
            cells.remove_all();
        }
    }

    /// Takes children of processes that were held out of SCHED_IDLE, if no plan names them. The
    /// guardian does it, who saw them born; where there is none, it is done here with what is
    /// known.
    pub(crate) fn free_children(&mut self, wait: bool) {
        if self.guardian.sweep(wait) {
            return;
        }
        let born = self
            .children
            .iter()
            .map(|(child, policy)| (child.pid, (Some(child.start_time_ticks), *policy)))
            .collect();
        let lineage = Lineage { born, complete: false };
        let mut failed = Vec::new();
        free_inheritors(&self.guardian.record.processes, || lineage.clone(), &mut failed);
        for what in failed {
            self.drift.push(Drift { process: None, what });
        }
    }
}
