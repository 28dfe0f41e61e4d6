//! The fate of processes: as the kernel tells it, and as a look at all of them finds it.

use super::request::EVENTS_PAGE;
use super::state::{Round, Running};
use crate::policy_file::placements;
use crate::resolved_process::{ResolvedProcess, look};
use journal::{Entry, Journal};
use ledger::operation::{Exit, Fork, Join, Place, Release, UserChanged};
use ledger::{
    BASE, Change, CurrencyId, CurrencyKind, Funding, Intent, Placement, Placements,
    ProcessIdentity, Resource, Sighting, TicketKind, memory_size,
};
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
                    self.seen(&child, parent.identity, entries);
                }
            }
            LifeEvent::Exec { process } => {
                let client = process.identity.filter(|it| self.client(*it));
                if let Some(identity) = client
                    && let Some(found) = open(process).and_then(|handle| look(&handle).ok())
                {
                    self.commands.insert(identity, found.command);
                }
                if let Some(handle) = self.keeper.policy.as_ref().and_then(|_| open(process)) {
                    match client {
                        Some(_) => self.moved(&handle, entries),
                        None => self.seen(&handle, None, entries),
                    }
                }
            }
            LifeEvent::UidChanged { process, .. } | LifeEvent::GidChanged { process, .. } => {
                if let Some(handle) = open(process) {
                    self.seen(&handle, None, entries);
                }
            }
            LifeEvent::Exit { process } => {
                // A reaped process may have lost its start time; its number is good enough to
                // find it among the clients, since the number was its own until now.
                let gone = process.identity.or_else(|| self.client_numbered(process.pid));
                // The next look around finds what its threads were part of.
                if let Some(process) = gone.filter(|it| self.consumes(*it)) {
                    self.observe(Intent::from(Exit { member: process.into() }), entries);
                    self.commands.remove(&process);
                    self.joined_as.remove(&process);
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

    /// A process that was born, has changed, or is seen for the first time.
    fn seen(
        &mut self,
        handle: &ProcessHandle,
        parent: Option<ProcessIdentity>,
        entries: &mut Vec<Entry>,
    ) {
        let process = handle.identity();
        let is_known = self.consumes(process);
        if !is_known && self.released.contains(&process) {
            return;
        }
        let Ok(ResolvedProcess { client, command, spared }) = look(handle) else { return };
        // The spared are never managed, even when the shell that started allotd is a client.
        if !is_known && spared.is_some() {
            return;
        }
        let sighting = Sighting { client, parent };
        let (policy, names) = (self.keeper.policy.as_ref(), &mut self.names);
        let place = |uid, gid| {
            let at = handle.surroundings().unwrap_or_default();
            placements(policy?, names, uid, gid, at)
        };
        let meaning = sighting.meaning(&self.keeper.ledger, &self.joined_as, place);
        // It is looked at again when the system has said who that is.
        if self.names.take_late() {
            self.has_unnamed = true;
            return;
        }
        let Some(intent) = meaning else { return };
        if let Some(parent) = parent.filter(|parent| self.consumes(*parent)) {
            self.keeper.enforcement.note_fork(parent, process);
        }
        let placed = placements_of(&intent).cloned();
        if self.observe(intent, entries) && !is_known {
            self.commands.insert(process, command);
        }
        if let Some(placements) = placed {
            self.complete(&placements, entries);
        }
    }

    /// A process that runs a program may have come into another place since it was born: what runs
    /// in a container, or as a service, begins outside. Its funding follows where a rule names such
    /// places, and where it is still the policy that funds it.
    fn moved(&mut self, handle: &ProcessHandle, entries: &mut Vec<Entry>) {
        let Some(policy) = &self.keeper.policy else { return };
        let Ok(ResolvedProcess { client, spared: None, .. }) = look(handle) else { return };
        let at = handle.surroundings().unwrap_or_default();
        let wanted = placements(policy, &mut self.names, client.uid, client.gid, at);
        let Some(placements) = wanted else { return };
        let Some(key) = placements.levels.last().map(|level| &level.key) else { return };
        let ledger = &self.keeper.ledger;
        let Some(own) = ledger.client_of(handle.identity()) else { return };
        let issuers: BTreeSet<CurrencyId> = ledger.backing(own).map(|(_, it)| it.issuer).collect();
        let homes = ledger.homes().filter(|(_, home)| issuers.contains(&home.currency));
        let [now] = homes.map(|(now, _)| now).collect::<Vec<_>>()[..] else { return };
        if now != key && (policy.is_by_place(now) || policy.is_by_place(key)) {
            let intent = UserChanged { client, placements: Some(placements.clone()) };
            self.observe(Intent::from(intent), entries);
            self.complete(&placements, entries);
        }
    }

    /// Tells where there was less of an amount than the policy gives, once it has made a currency.
    fn complete(&mut self, placements: &Placements, entries: &[Entry]) {
        let Some(level) = placements.levels.first() else { return };
        let made = |change: &Change| matches!(change, Change::Home { key, before: None, .. } if *key == level.key);
        if !entries.last().is_some_and(|entry| entry.changes.iter().any(made)) {
            return;
        }
        self.tell_shortfall(level);
    }

    /// Tells where a currency has less of an amount than the policy gives it.
    pub(super) fn tell_shortfall(&mut self, level: &Placement) {
        let ledger = &self.keeper.ledger;
        let Some(currency) = ledger.home(&level.key).map(|home| home.currency) else { return };
        let mut lacking = Vec::new();
        for wanted in level.funding.iter().filter(|it| it.kind == TicketKind::Hard) {
            let held = ledger.held(currency, BASE, &wanted.resource, wanted.kind);
            let amount = held.map_or(0, |(_, ticket)| ticket.amount);
            if amount < wanted.amount {
                let Funding { resource, amount: wanted, .. } = wanted;
                let (has, of) = if *resource == Resource::MEMORY {
                    (memory_size(amount), format!("{} of memory", memory_size(*wanted)))
                } else {
                    (amount.to_string(), format!("{wanted} hard {resource} tickets"))
                };
                lacking.push(format!(
                    "{} has {has} of the {of} that the funding policy gives: others came first, and base has no more. \
                     `allot fund` sets it once there is more",
                    level.name
                ));
            }
        }
        lacking.into_iter().for_each(|what| self.report(what));
    }

    /// Remembers under which uid a process has joined a client, which the ledger does not know.
    pub(super) fn note_who_joined(&mut self, intent: &Intent, changes: &[Change]) {
        let joins = |change: &Change| matches!(change, Change::Member { after: Some(_), .. });
        if !changes.iter().any(joins) {
            return;
        }
        let who = Join::of(intent).map(|it| it.member).or(Fork::of(intent).map(|it| it.child));
        if let Some(client) = who
            && let Some(process) = client.member.within_process()
        {
            self.joined_as.insert(process, client.uid);
        }
    }

    /// Takes what happened to processes, as far as it was told or up to now. Answers until when that is whole, in
    /// ticks since boot.
    pub(super) fn take_lives(&mut self, until_now: bool, entries: &mut Vec<Entry>) -> Option<u64> {
        let lives = self.keeper.lives.clone()?;
        let told = if until_now { lives.catch_up() } else { lives.take() };
        for happened in &told.events {
            self.life(happened, entries);
        }
        told.whole_until_ticks
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
        let mut round = Round::default();
        let by_pid: BTreeMap<u32, ProcessIdentity> =
            scanned.iter().map(|process| (process.identity.pid, process.identity)).collect();
        let members = self.keeper.ledger.clients().chain(self.keeper.ledger.joined());
        let processes: BTreeSet<ProcessIdentity> =
            members.filter_map(|(member, _)| member.within_process()).collect();
        for process in processes {
            let lives = by_pid.get(&process.pid) == Some(&process)
                && ProcessHandle::open_identity(process).is_ok_and(|handle| handle.is_alive());
            if !lives {
                self.observe(Intent::from(Exit { member: process.into() }), &mut round.entries);
                self.commands.remove(&process);
            }
        }
        // Parents before their children.
        let mut scanned = scanned;
        scanned.sort_by_key(|process| (process.identity.start_time_ticks, process.identity.pid));
        for process in scanned {
            let Ok(handle) = ProcessHandle::open_identity(process.identity) else { continue };
            let born_since = process.identity.start_time_ticks >= seen_until;
            let parent = by_pid.get(&process.facts.parent_pid).copied();
            let parent = parent.filter(|_| born_since);
            if self.consumes(process.identity) {
                // Whoever joined before a restart did so as who they are: nobody was there to see them change.
                self.joined_as.entry(process.identity).or_insert(process.facts.real_uid);
            }
            self.seen(&handle, parent, &mut round.entries);
            if self.client(process.identity) {
                self.commands.entry(process.identity).or_insert(process.facts.comm);
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
        self.joined_as.retain(|process, _| theirs.contains(process));
    }
}

/// Where an operation places a process.
fn placements_of(intent: &Intent) -> Option<&Placements> {
    let changed = UserChanged::of(intent).and_then(|it| it.placements.as_ref());
    Place::of(intent).map(|it| &it.placements).or(changed)
}

fn open(process: &ProcessRef) -> Option<ProcessHandle> {
    ProcessHandle::open_identity(process.identity?).ok()
}

/// The processes that were released, as far back as the journal's entries are kept. Those that are
/// gone are forgotten by the first sweep.
pub(super) fn released(journal: &Journal) -> BTreeSet<ProcessIdentity> {
    let mut released = BTreeSet::new();
    let mut after = 0;
    loop {
        let page = journal.entries(after, EVENTS_PAGE).unwrap_or_else(|error| {
            tracing::warn!("who was released before is not known: {error}");
            Vec::new()
        });
        let Some(last) = page.last() else { return released };
        after = last.sequence;
        released.extend(page.iter().flat_map(released_by));
    }
}

/// The processes that an entry released.
pub(super) fn released_by(entry: &Entry) -> impl Iterator<Item = ProcessIdentity> {
    let changes = Release::of(&entry.intent).map(|_| entry.changes.iter());
    changes.into_iter().flatten().filter_map(|change| match change {
        Change::Currency { before: Some(record), after: None, .. } => match record.kind {
            CurrencyKind::Client { founder, .. } => founder.process(),
            _ => None,
        },
        _ => None,
    })
}
