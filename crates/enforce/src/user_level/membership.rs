//! Who is a client: following plans, taking processes in and letting them go.

use super::client::{Account, Client, Presence};
use super::lottery::{KEPT_CHILDREN, Lottery, OPENED_AT_ONCE, PROCESS, now_ns, presence_from};
use super::process::{Hands, Process, Trouble};
use crate::restore::{Lineage, free_inheritors};
use crate::scheduling::{SchedulingPolicy, count_calls};
use crate::{Drift, Held, Plan, PlannedClient};
use ledger::{CurrencyId, ProcessIdentity};
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::BTreeMap;

impl Lottery {
    pub(super) fn follow(&mut self, plan: Plan) {
        let Plan { generation, mut graph, clients: planned, .. } = plan;
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
        self.beyond.clear();
        for planned in planned {
            if planned.founder.process().is_none() {
                let reason = "the user-level lottery holds whole processes only".to_owned();
                self.beyond.push((planned, reason));
                continue;
            }
            let same =
                known.get(&planned.id).is_some_and(|it| planned.founder == it.identity().into());
            let Some(mut client) = same.then(|| known.remove(&planned.id)).flatten() else {
                self.waiting.push_back(planned);
                continue;
            };
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

    pub(super) fn free_the_thawed(&mut self) {
        let mut index = 0;
        while index < self.clients.len() {
            let client = &self.clients[index];
            let awake = client.presence == Presence::Asleep && client.held() != Held::Free;
            match if awake { self.hold(index, Held::Free) } else { Ok(()) } {
                Ok(()) => index += 1,
                Err(trouble) => self.drop_client(index, trouble),
            }
        }
    }

    /// Forgets group names that nobody has any more, once there are many.
    pub(super) fn tidy_groups(&mut self) {
        if self.groups.len() <= 2 * self.clients.len() + 16 {
            return;
        }
        let old = std::mem::take(&mut self.groups);
        for index in 0..self.clients.len() {
            let name = old[self.clients[index].group].clone();
            self.clients[index].group = self.group(name);
        }
    }

    pub(super) fn open_waiting(&mut self, now: u64) {
        for _ in 0..OPENED_AT_ONCE {
            let Some(planned) = self.waiting.pop_front() else { return };
            self.open(planned, now);
        }
    }

    pub(super) fn open(&mut self, planned: PlannedClient, now: u64) {
        let (id, frozen) = (planned.id, planned.frozen);
        let identity = planned.founder.process().expect("others were put aside");
        let pid = identity.pid;
        if pid == std::process::id() || Some(pid) == self.guardian.pid() {
            let reason = "it is allotd itself or its guardian".to_owned();
            self.unmanaged.insert(id, (planned, reason));
            return;
        }
        count_calls(24);
        // Found out before the registry is borrowed; most processes are not in SCHED_IDLE.
        let inherited = self.inherited(identity);
        let opened = Process::open(identity, self.way, &mut self.guardian.registry, |_| inherited);
        let process = match opened {
            Ok(process) => process,
            Err(Trouble::Gone) => return,
            Err(Trouble::Unmanaged(reason)) => {
                self.unmanaged.insert(id, (planned, reason));
                return;
            }
        };
        let Some(clock_ns) = process.cpu_time_ns() else {
            process.close(&mut self.guardian.registry);
            return;
        };
        let token = EventData::new_u64(PROCESS | u64::from(pid));
        if let Err(errno) = epoll::add(&self.poll, process.pidfd(), token, EventFlags::IN) {
            process.close(&mut self.guardian.registry);
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
            presence: if frozen { Presence::Frozen } else { Presence::Asleep },
            group,
            foreground,
            won: false,
            clock_ns,
            seen_clock_ns: clock_ns,
            seen_at_ns: now,
            account: Account::default(),
            value: 0,
            promised: 0,
            note: None,
        };
        self.clients.insert(place, client);
        if !frozen {
            self.set_presence(place, presence_from(state));
        }
    }

    /// The own policy of the held process that this one inherited SCHED_IDLE from; `None` for
    /// one that is not in SCHED_IDLE, or of itself.
    pub(super) fn inherited(&self, identity: ProcessIdentity) -> Option<SchedulingPolicy> {
        let registry = &self.guardian.registry;
        if identity.start_time_ticks < registry.made_ticks()
            || !crate::scheduling::policy_of(identity.pid).is_ok_and(SchedulingPolicy::is_idle)
        {
            return None;
        }
        if let Some(policy) = self.children.get(&identity) {
            return Some(*policy);
        }
        let facts = observe::ProcessHandle::open_identity(identity).ok()?.facts().ok()?;
        let kin = |entry: &crate::registry::Entry| {
            let before = &entry.before;
            entry.flags & crate::registry::IDLED != 0
                && (before.process.pid == facts.parent_pid
                    || before.session == facts.session
                    || before.process_group == facts.process_group)
        };
        registry
            .entries()
            .filter(|entry| entry.tid.is_none())
            .find(kin)
            .map(|entry| entry.before.policy)
    }

    pub(super) fn note_fork(&mut self, parent: ProcessIdentity, child: ProcessIdentity) {
        let of_client = self
            .clients
            .iter()
            .find(|client| client.identity() == parent)
            .map(|client| client.process.own_policy());
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
    pub(super) fn let_go(&mut self, mut client: Client) {
        self.look_for_children |= client.process.is_idled() || client.account.draws > 0;
        self.policy.forget(client.id.0);
        if let Some(graph) = &mut self.graph {
            graph.set_active(client.id, false);
        }
        self.changed = true;
        // A last look at its clock, which a zombie still has.
        client.measure();
        self.used_by_gone_ns += client.account.used_ns;
        let mut hands = Hands { registry: &mut self.guardian.registry, drift: &mut self.drift };
        match client.process.give_back(&mut hands) {
            Ok(()) | Err(Trouble::Gone) => {}
            Err(Trouble::Unmanaged(reason)) => {
                let what = format!("it could not be given back what it had: {reason}");
                self.drift.push(Drift { process: Some(client.identity()), what });
            }
        }
        let _ = epoll::delete(&self.poll, client.process.pidfd());
        client.process.close(&mut self.guardian.registry);
    }

    pub(super) fn drop_client(&mut self, index: usize, trouble: Trouble) {
        let client = self.clients.remove(index);
        if let Trouble::Unmanaged(reason) = trouble {
            let planned = PlannedClient {
                frozen: client.presence == Presence::Frozen,
                ..PlannedClient::of(client.id, client.identity().into())
            };
            self.drift.push(Drift { process: Some(client.identity()), what: reason.clone() });
            self.unmanaged.insert(planned.id, (planned, reason));
        }
        self.let_go(client);
    }

    /// The process of this pid has exited.
    pub(super) fn drop_the_dead(&mut self, pid: u32) {
        for index in (0..self.clients.len()).rev() {
            let process = &self.clients[index].process;
            if process.identity().pid == pid && !process.is_alive() {
                self.drop_client(index, Trouble::Gone);
            }
        }
    }

    pub(super) fn revert(&mut self) {
        self.generation = None;
        self.graph = None;
        self.waiting.clear();
        self.unmanaged.clear();
        self.beyond.clear();
        let mut any = false;
        for client in std::mem::take(&mut self.clients) {
            any = true;
            self.let_go(client);
        }
        if any || self.look_for_children {
            self.free_children(true);
        }
        self.look_for_children = false;
    }

    /// Takes children of processes that were held out of SCHED_IDLE, if no plan names them. The
    /// guardian does it, who saw them born; where there is none, it is done here with what is
    /// known.
    pub(super) fn free_children(&mut self, wait: bool) {
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
        free_inheritors(&self.guardian.registry, || lineage.clone(), &mut failed);
        self.drift.extend(failed.into_iter().map(|what| Drift { process: None, what }));
    }
}
