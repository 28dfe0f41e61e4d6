//! What becomes of processes: as the kernel tells it, and as a look at all of them finds it.

use super::{Round, Running};
use crate::resolve::{Found, look, placements};
use journal::Entry;
use ledger::{Intent, Placements, PolicyKey, ProcessIdentity};
use observe::{LifeEvent, ProcessHandle, ProcessRef, ticks_since_boot};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The least time between two looks at all processes.
const SWEEP_PAUSE: Duration = Duration::from_millis(250);

impl Running {
    pub(super) fn life(&mut self, happened: &LifeEvent, entries: &mut Vec<Entry>) {
        match happened {
            LifeEvent::Fork { parent, child } => {
                let known = parent.identity.is_some_and(|it| self.consumes(it));
                if (known || self.keeper.policy.is_some())
                    && let Some(child) = open(child)
                {
                    self.arrived(&child, parent.identity, entries);
                }
            }
            LifeEvent::Exec { process } => {
                let client = process.identity.filter(|it| self.client(*it));
                if let Some(identity) = client
                    && let Some(found) = open(process).and_then(|handle| look(&handle).ok())
                {
                    self.commands.insert(identity, found.command);
                }
            }
            LifeEvent::UidChanged { process, .. } | LifeEvent::GidChanged { process, .. } => {
                if let Some(handle) = open(process) {
                    self.user_changed(&handle, entries);
                }
            }
            LifeEvent::Exit { process } => {
                // A reaped process may have lost its start time; its number is good enough to
                // find it among the clients, since the number was its own until now.
                let gone = process.identity.or_else(|| self.client_numbered(process.pid));
                // What its threads were part of is found by the next look around.
                if let Some(process) = gone.filter(|it| self.consumes(*it)) {
                    self.observe(Intent::Exit { member: process.into() }, entries);
                    self.commands.remove(&process);
                }
                self.released.retain(|released| released.pid != process.pid);
            }
            LifeEvent::Lost { reason } => {
                tracing::warn!("looking at all processes: {reason}");
                self.must_sweep = true;
            }
        }
    }

    fn client(&self, process: ProcessIdentity) -> bool {
        self.keeper.ledger.client_of(process).is_some()
    }

    /// Whether a process has founded or joined a client.
    fn consumes(&self, process: ProcessIdentity) -> bool {
        self.keeper.ledger.client_of_member(&process.into()).is_some()
    }

    fn client_numbered(&self, pid: u32) -> Option<ProcessIdentity> {
        let members = self.keeper.ledger.clients().chain(self.keeper.ledger.joined());
        let numbered = members.filter_map(|(member, _)| member.within_process());
        let dead = |process: &ProcessIdentity| {
            ProcessHandle::open_identity(*process).is_ok_and(|handle| !handle.is_alive())
                || ProcessHandle::open_identity(*process).is_err()
        };
        numbered.filter(|process| process.pid == pid).find(dead)
    }

    /// A process that was born, or is seen for the first time.
    fn arrived(
        &mut self,
        handle: &ProcessHandle,
        parent: Option<ProcessIdentity>,
        entries: &mut Vec<Entry>,
    ) {
        let process = handle.identity();
        if self.client(process) || self.released.contains(&process) {
            return;
        }
        // The spared are never managed, even when the shell that started allotd is a client.
        let Ok(Found { client, command, spared: None }) = look(handle) else { return };
        let parent = parent.filter(|parent| self.consumes(*parent));
        let placements = self.place(client.uid, client.gid);
        // A child that became another user's before it was seen belongs to that user now.
        let intent = match (parent, placements) {
            (Some(parent), Some(placements)) if !self.is_owner(parent, client.uid) => {
                self.keeper.enforcer.note_fork(parent, process);
                Intent::Place { client, placements }
            }
            (Some(parent), _) => {
                self.keeper.enforcer.note_fork(parent, process);
                Intent::Fork { parent, child: client }
            }
            (None, Some(placements)) => Intent::Place { client, placements },
            (None, _) => return,
        };
        if self.observe(intent, entries) {
            self.commands.insert(process, command);
        }
    }

    fn is_owner(&self, process: ProcessIdentity, uid: u32) -> bool {
        let id = self.keeper.ledger.client_of(process);
        let currency = id.and_then(|id| self.keeper.ledger.currency(id));
        currency.is_some_and(|currency| currency.record.owner == uid)
    }

    fn user_changed(&mut self, handle: &ProcessHandle, entries: &mut Vec<Entry>) {
        let process = handle.identity();
        let Ok(Found { client, .. }) = look(handle) else { return };
        let Some(id) = self.keeper.ledger.client_of(process) else {
            // What the former user had joined ends.
            if self.consumes(process) {
                self.observe(Intent::UserChanged { client, placements: None }, entries);
            }
            self.arrived(handle, None, entries);
            return;
        };
        let record = &self.keeper.ledger.currency(id).expect("a client exists").record;
        let (uid, gid) = (record.owner, record.group);
        if (uid, gid) == (client.uid, client.gid) {
            return;
        }
        let mut placements = self.place(client.uid, client.gid);
        // Another group that the policy funds alike is no way out of a freeze or of a nice job.
        if uid == client.uid {
            let keys = |it: &Placements| it.levels.iter().map(|it| it.key.clone()).collect();
            let before: Option<Vec<PolicyKey>> = self.place(uid, gid).as_ref().map(keys);
            placements = placements.filter(|now| Some(keys(now)) != before);
        }
        self.observe(Intent::UserChanged { client, placements }, entries);
    }

    fn place(&mut self, uid: u32, gid: u32) -> Option<Placements> {
        placements(self.keeper.policy.as_ref()?, &mut self.names, uid, gid)
    }

    /// Look at all processes: drop clients that are gone, take up those that are new.
    pub(super) fn sweep_if_needed(&mut self) {
        if !self.must_sweep || self.swept.is_some_and(|swept| swept.elapsed() < SWEEP_PAUSE) {
            return;
        }
        self.must_sweep = false;
        self.swept = Some(Instant::now());
        let seen_until = self.keeper.watched_until_ticks;
        let now = ticks_since_boot();
        let scanned = match observe::scan() {
            Ok(scanned) => scanned,
            Err(error) => {
                tracing::error!("cannot look at the processes: {error}");
                self.must_sweep = true;
                return;
            }
        };
        let mut round = Round { entries: Vec::new(), waiting: Vec::new() };
        let by_pid: BTreeMap<u32, ProcessIdentity> =
            scanned.iter().map(|process| (process.identity.pid, process.identity)).collect();
        let members = self.keeper.ledger.clients().chain(self.keeper.ledger.joined());
        let processes: BTreeSet<ProcessIdentity> =
            members.filter_map(|(member, _)| member.within_process()).collect();
        for process in processes {
            let lives = by_pid.get(&process.pid) == Some(&process)
                && ProcessHandle::open_identity(process).is_ok_and(|handle| handle.is_alive());
            if !lives {
                self.observe(Intent::Exit { member: process.into() }, &mut round.entries);
                self.commands.remove(&process);
            }
        }
        // Parents before their children.
        let mut scanned = scanned;
        scanned.sort_by_key(|process| (process.identity.start_time_ticks, process.identity.pid));
        for process in scanned {
            let Ok(handle) = ProcessHandle::open_identity(process.identity) else { continue };
            if self.client(process.identity) {
                self.user_changed(&handle, &mut round.entries);
                self.commands.entry(process.identity).or_insert(process.facts.comm);
            } else {
                let born_since = process.identity.start_time_ticks >= seen_until;
                let parent = by_pid.get(&process.facts.parent_pid).copied();
                let parent = parent.filter(|_| born_since);
                self.arrived(&handle, parent, &mut round.entries);
            }
        }
        self.released.retain(|process| by_pid.get(&process.pid) == Some(process));
        self.finish(round);
        if !self.must_sweep {
            self.keeper.watched_until_ticks = now;
        }
        let ledger = &self.keeper.ledger;
        let threads = ledger.clients().chain(ledger.joined()).map(|(member, _)| member);
        let theirs: BTreeSet<ProcessIdentity> =
            threads.filter_map(|member| member.within_process()).collect();
        self.commands.retain(|process, _| theirs.contains(process));
    }
}

fn open(process: &ProcessRef) -> Option<ProcessHandle> {
    ProcessHandle::open_identity(process.identity?).ok()
}
