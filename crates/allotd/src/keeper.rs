//! The keeper: the one thread that owns the ledger and its journal.
//!
//! Requests queue up; each round takes all that wait, decides and applies them one after the
//! other, and makes them durable together, with one sync. Only then are they acknowledged, shown
//! and enforced. If they cannot be made durable, the whole round is undone and refused.

mod processes;
mod trade;

use crate::bourse::{self, Bourse};
use crate::cpu::Cpu;
use crate::members::{self, Cgroups};
use crate::names::Names;
use crate::others::Others;
use crate::policy_file::FundingPolicy;
use crate::resolve::Resolver;
use crate::trouble::{not_durable, refused, trouble};
use crate::view::{Commands, currency_name, event, ledger_view};
use enforce::scx::Trace;
use journal::{Entry, Journal, JournalError};
use ledger::{
    Authority, Caller, Change, CurrencyId, ExchangeId, Intent, Ledger, Member, Nature, OfferId,
    ProcessIdentity, Resource,
};
use observe::LifeEvent;
use policy::PolicyName;
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{broadcast, oneshot};
use valuation::Graph;
use wire::{
    CurrencyRef, ErrorBody, Event, EventKind, LedgerView, MarketView, Operation, OperationResult,
    OperationsDone, PolicyView, Sample, Status, TradersView, Trouble,
};

/// The most requests of one round, so that nobody waits for ever to be acknowledged.
const ROUND_MAX: usize = 1024;

/// The most events of one answer: they are read from the journal while others wait.
const EVENTS_PAGE: usize = 500;

/// How often the keeper looks around when nobody asks for anything.
const HOUSEKEEPING: Duration = Duration::from_millis(500);

/// An answer on its way to who waits for it.
pub type Reply<T> = oneshot::Sender<T>;

/// What the keeper can be asked.
pub enum Request {
    /// Do these in one step, or none of them.
    Operate {
        /// Who asks, as the kernel says.
        caller: Caller,
        /// What.
        operations: Vec<Operation>,
        /// Where the answer goes.
        reply: Reply<Result<OperationsDone, Trouble>>,
    },
    /// This happened to processes.
    Life {
        /// In their order.
        events: Vec<LifeEvent>,
        /// When the source was asked, in ticks since boot: what was born before has been told.
        asked_ticks: u64,
    },
    /// How things are set up.
    Status(Reply<Status>),
    /// The funding graph.
    Ledger(Reply<LedgerView>),
    /// All that is offered, exchanged, and was paid.
    Market(Reply<MarketView>),
    /// Some of those who can trade, as one caller names them.
    Traders(Caller, Vec<CurrencyRef>, Reply<Result<TradersView, Trouble>>),
    /// The latest measurements.
    Sample(Reply<Sample>),
    /// The next [`EVENTS_PAGE`] events after a journal number, as far as they are kept.
    Events(u64, Reply<Result<Vec<Event>, ErrorBody>>),
    /// Who draws.
    Policy(Reply<PolicyView>),
    /// Let another draw.
    SetPolicy {
        /// Who asks.
        caller: Caller,
        /// From now on.
        policy: PolicyName,
        /// Where the answer goes.
        reply: Reply<Result<PolicyView, Trouble>>,
    },
    /// What the scheduler does from now on.
    Trace(Caller, Reply<Result<Trace, Trouble>>),
    /// Give everything back and end.
    Stop,
}

/// What the keeper starts with.
pub struct Keeper {
    /// What is known.
    pub ledger: Ledger,
    /// Where it is written down.
    pub journal: Journal,
    /// `None` in a private allotd: it touches only what it is given.
    pub policy: Option<FundingPolicy>,
    /// Who makes it so.
    pub enforcer: Cpu,
    /// The parts of the status that do not change.
    pub status: Status,
    /// Where events go.
    pub events: broadcast::Sender<Event>,
    /// How much memory base has to promise, in KiB; `None` where that is not known.
    pub memory_kib: Option<u64>,
    /// Processes older than this (ticks since boot) were seen before.
    pub watched_until_ticks: u64,
}

/// What a round did, until it is durable.
struct Round {
    entries: Vec<Entry>,
    waiting: Vec<Waiting>,
}

/// An answer that can be given once the round is durable.
struct Waiting {
    reply: Reply<Result<OperationsDone, Trouble>>,
    answer: Result<Vec<OperationResult>, Trouble>,
    // How many entries there were once this was done.
    upto: usize,
}

/// What an operation made.
#[derive(Default)]
struct Made {
    currency: Option<CurrencyId>,
    offer: Option<OfferId>,
    exchange: Option<ExchangeId>,
}

struct Running {
    keeper: Keeper,
    cpu: Graph,
    others: Others,
    bourse: Bourse,
    names: Names,
    commands: Commands,
    cgroups: Cgroups,
    // The last thread or cgroup whose life was looked at.
    looked_at: Option<Member>,
    released: BTreeSet<ProcessIdentity>,
    generation: u64,
    must_sweep: bool,
    // When the last sweep began. They cost a look at every process, and who makes events get
    // lost, or fills the disk, must not make allotd do nothing else.
    swept: Option<Instant>,
}

impl Keeper {
    /// Adopt what still lives, then serve until told to stop.
    pub fn run(self, requests: Receiver<Request>) {
        let cpu = Graph::of(&self.ledger, Resource::Cpu);
        let others = Others::of(&self.ledger);
        // A private allotd takes up nobody on its own.
        let released = match &self.policy {
            Some(_) => released(&self.journal),
            None => BTreeSet::new(),
        };
        let cgroups = Cgroups::look(&self.ledger);
        let mut running = Running {
            keeper: self,
            cpu,
            others,
            bourse: Bourse::new(),
            names: Names::default(),
            commands: Commands::new(),
            cgroups,
            looked_at: None,
            released,
            generation: 0,
            must_sweep: true,
            swept: None,
        };
        running.ensure_everybodys();
        running.tell_memory();
        running.sweep_if_needed();
        running.enforce();
        running.serve(&requests);
        running.keeper.enforcer.end();
    }
}

impl Running {
    /// Where the kernel's scheduler has everybody, the kernel's threads and the processes that
    /// nobody manages are clients like others.
    fn ensure_everybodys(&mut self) {
        let Some(policy) = &self.keeper.policy else { return };
        if !self.keeper.enforcer.has_everybody() {
            return;
        }
        let mut round = Round { entries: Vec::new(), waiting: Vec::new() };
        for (member, funding) in policy.everybodys() {
            if self.keeper.ledger.founded_by(&member).is_none() {
                self.observe(Intent::Ensure { member, funding }, &mut round.entries);
            }
        }
        self.finish(round);
    }

    /// Says how much memory there is to promise, where that has changed.
    fn tell_memory(&mut self) {
        let Some(kib) = self.keeper.memory_kib else { return };
        let mut round = Round { entries: Vec::new(), waiting: Vec::new() };
        let intent = Intent::SetMemory { kib };
        match self.change(Authority::System, intent, &mut round.entries) {
            Ok(_) => {
                // Nothing is written down when nothing changed.
                round.entries.retain(|entry| !entry.changes.is_empty());
                self.finish(round);
            }
            Err(refusal) => self.report(format!("memory: {refusal}")),
        }
    }

    fn serve(&mut self, requests: &Receiver<Request>) {
        let mut looked = Instant::now();
        loop {
            let mut round = Vec::new();
            match requests.recv_timeout(HOUSEKEEPING) {
                Ok(request) => round.push(request),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while round.len() < ROUND_MAX
                && let Ok(request) = requests.try_recv()
            {
                round.push(request);
            }
            let stop = self.round(round);
            self.sweep_if_needed();
            self.clear_if_due();
            if looked.elapsed() >= HOUSEKEEPING {
                looked = Instant::now();
                self.look_around();
            }
            if stop {
                return;
            }
        }
    }

    /// Writes first, then, when they are durable, reads.
    fn round(&mut self, requests: Vec<Request>) -> bool {
        let mut stop = false;
        let mut reads = Vec::new();
        let mut watched_until_ticks = None;
        let mut round = Round { entries: Vec::new(), waiting: Vec::new() };
        for request in requests {
            match request {
                Request::Operate { caller, operations, reply } => {
                    let answer = self.operate(&caller, operations, &mut round.entries);
                    round.waiting.push(Waiting { reply, answer, upto: round.entries.len() });
                }
                Request::Life { events, asked_ticks } => {
                    for happened in events {
                        self.life(&happened, &mut round.entries);
                    }
                    watched_until_ticks = Some(asked_ticks);
                }
                Request::Stop => stop = true,
                read => reads.push(read),
            }
        }
        self.finish(round);
        // While a sweep is due, what was born since the last sound word is still to be found.
        if let Some(ticks) = watched_until_ticks.filter(|_| !self.must_sweep) {
            self.keeper.watched_until_ticks = ticks;
        }
        reads.into_iter().for_each(|request| self.read(request));
        stop
    }

    /// Make a round durable and acknowledge it, or undo it. Answers whether it is durable.
    fn finish(&mut self, round: Round) -> bool {
        let Round { mut entries, waiting } = round;
        match self.write_down(&mut entries) {
            Ok(()) => {
                let numbers: Vec<u64> = entries.iter().map(|entry| entry.sequence).collect();
                for Waiting { reply, answer, upto } in waiting {
                    let last = upto.checked_sub(1).and_then(|index| numbers.get(index));
                    let sequence = last.copied().unwrap_or_else(|| self.keeper.journal.sequence());
                    let done = answer.map(|results| OperationsDone { sequence, results });
                    let _ = reply.send(done);
                }
                if entries.is_empty() {
                    return true;
                }
                self.enforce();
                for entry in &entries {
                    self.bourse.note(&entry.changes);
                    let _ = self.keeper.events.send(event(entry));
                }
                if let Err(error) = self.keeper.journal.snapshot_if_due(&self.keeper.ledger) {
                    tracing::warn!("no snapshot was taken: {error}");
                    self.read_again(&error);
                }
                true
            }
            Err(error) => {
                tracing::error!("{} operations undone: {error}", entries.len());
                for entry in entries.into_iter().rev() {
                    self.bourse.note(&entry.changes);
                    self.undo(entry.changes);
                }
                self.read_again(&error);
                // What was observed is still so; look again when there may be room.
                self.must_sweep = true;
                let trouble = not_durable(&error);
                for Waiting { reply, answer, .. } in waiting {
                    let _ = reply.send(answer.and(Err(trouble.clone())));
                }
                false
            }
        }
    }

    /// Where it is not known what the journal holds, find out: that is what counts.
    fn read_again(&mut self, error: &JournalError) {
        if !matches!(error, JournalError::Unknown { .. } | JournalError::Stopped { .. }) {
            return;
        }
        match self.keeper.journal.reopen() {
            Ok(recovered) => {
                self.keeper.ledger = recovered.ledger;
                self.cpu = Graph::of(&self.keeper.ledger, Resource::Cpu);
                self.others = Others::of(&self.keeper.ledger);
                self.enforce();
            }
            Err(error) => tracing::error!("the journal cannot be read again: {error}"),
        }
    }

    fn write_down(&mut self, entries: &mut [Entry]) -> Result<(), JournalError> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut batch = self.keeper.journal.begin()?;
        for entry in entries.iter_mut() {
            entry.sequence =
                batch.append(entry.at_unix_ms, &entry.authority, &entry.intent, &entry.changes)?;
        }
        match batch.commit() {
            // A sync failed: what the journal holds when it is read again is what counts.
            Err(JournalError::Unknown { last, .. })
                if self.keeper.journal.reopen().is_ok_and(|found| found.sequence >= last) =>
            {
                Ok(())
            }
            done => done.map(drop),
        }
    }

    fn operate(
        &mut self,
        caller: &Caller,
        operations: Vec<Operation>,
        entries: &mut Vec<Entry>,
    ) -> Result<Vec<OperationResult>, Trouble> {
        let start = entries.len();
        let mut results = Vec::with_capacity(operations.len());
        for (index, operation) in operations.into_iter().enumerate() {
            match self.operate_one(caller, operation, entries) {
                Ok(made) => results.push(self.result(&made)),
                Err(mut trouble) => {
                    for entry in entries.drain(start..).rev().collect::<Vec<_>>() {
                        self.undo(entry.changes);
                    }
                    trouble.operation = Some(index);
                    return Err(trouble);
                }
            }
        }
        Ok(results)
    }

    fn resolver<'a>(&'a mut self, caller: &'a Caller) -> Resolver<'a> {
        Resolver {
            ledger: &self.keeper.ledger,
            caller,
            policy: self.keeper.policy.as_ref(),
            names: &mut self.names,
            cgroups: &mut self.cgroups,
        }
    }

    fn operate_one(
        &mut self,
        caller: &Caller,
        operation: Operation,
        entries: &mut Vec<Entry>,
    ) -> Result<Made, Trouble> {
        let (intent, command) = self.resolver(caller).intent(operation)?;
        let releases = match &intent {
            Intent::Release { client } => {
                self.keeper.ledger.currency(*client).and_then(|currency| currency.process())
            }
            _ => None,
        };
        let authority = Authority::Caller(caller.clone());
        let made = self.change(authority, intent, entries).map_err(|no| refused(&no))?;
        self.commands.extend(command);
        self.released.extend(releases);
        Ok(made)
    }

    /// Decide and apply. Answers what was made.
    fn change(
        &mut self,
        authority: Authority,
        intent: Intent,
        entries: &mut Vec<Entry>,
    ) -> Result<Made, ledger::Refusal> {
        let ledger = &mut self.keeper.ledger;
        let authorised = ledger::decide(ledger, authority.clone(), intent.clone())?;
        let changes = ledger.apply(authorised);
        changes.iter().for_each(|change| self.cpu.follow(change));
        self.others.follow(&changes, &self.keeper.ledger);
        let mut made = Made::default();
        for change in &changes {
            match change {
                Change::Currency { id, before: None, .. } => {
                    made.currency.get_or_insert(*id);
                }
                Change::Offer { id, before: None, .. } => made.offer = Some(*id),
                Change::Exchange { id, before: None, .. } => made.exchange = Some(*id),
                _ => {}
            }
        }
        entries.push(Entry { sequence: 0, at_unix_ms: unix_ms(), authority, intent, changes });
        Ok(made)
    }

    /// What an operation made, as it is told.
    fn result(&self, made: &Made) -> OperationResult {
        let ledger = &self.keeper.ledger;
        let offer = made.offer.and_then(|id| ledger.offer(id));
        let name = |id| currency_name(ledger, id, &self.commands, &self.cgroups);
        OperationResult {
            created: made.currency.map(|id| id.0),
            offer: made.offer.map(|id| id.0),
            exchange: made.exchange.map(|id| id.0),
            conflicts: offer.map_or_else(Vec::new, |offer| bourse::conflicts(ledger, offer, name)),
        }
    }

    fn undo(&mut self, changes: Vec<Change>) {
        for change in changes.iter().rev() {
            self.cpu.follow(&change.clone().inverse());
        }
        self.keeper.ledger.undo(changes.clone());
        self.others.follow_back(&changes, &self.keeper.ledger);
    }

    /// As `change`, for what was observed: a refusal means that it does not concern the ledger.
    fn observe(&mut self, intent: Intent, entries: &mut Vec<Entry>) -> bool {
        self.change(Authority::System, intent, entries)
            .inspect_err(|refusal| tracing::debug!("not taken up: {refusal}"))
            .is_ok()
    }

    /// Tell the enforcer how things are now.
    fn enforce(&mut self) {
        if !self.keeper.enforcer.is_enforced() {
            return;
        }
        self.generation += 1;
        let ledger = &self.keeper.ledger;
        let mut clients: Vec<enforce::PlannedClient> = ledger
            .clients()
            .map(|(founder, id)| enforce::PlannedClient {
                id,
                founder,
                members: ledger.members(id).collect(),
                class: ledger.currency(id).expect("a client exists").class(),
                frozen: !self.cpu.is_funded(id),
                lent: self.cpu.has_lent(id),
            })
            .collect();
        clients.sort_by_key(|client| client.id);
        let (generation, graph) = (self.generation, self.cpu.clone());
        let others = self.others.all();
        let limits = enforce::PlannedLimit::all(ledger);
        let plan = enforce::Plan { generation, graph, others, clients, limits };
        if let Err(error) = self.keeper.enforcer.apply(plan) {
            self.report(format!("plan {} cannot be enforced: {error}", self.generation));
        }
    }

    fn look_around(&mut self) {
        self.end_what_is_over();
        let gone = members::gone(&self.keeper.ledger, &self.cgroups, &mut self.looked_at);
        if !gone.is_empty() {
            let mut round = Round { entries: Vec::new(), waiting: Vec::new() };
            for member in gone {
                self.observe(Intent::Exit { member }, &mut round.entries);
            }
            self.finish(round);
            self.cgroups.retain(&self.keeper.ledger);
        }
        if let Some(what) = self.keeper.enforcer.replace_if_it_gave_up() {
            self.report(what);
            self.enforce();
        }
        for drift in self.keeper.enforcer.new_drift() {
            self.report(drift);
        }
    }

    fn report(&self, text: String) {
        tracing::warn!("{text}");
        let (sequence, uid) = (None, None);
        let (at_unix_ms, kind) = (unix_ms(), EventKind::Daemon);
        let (offers, exchanges) = (Vec::new(), Vec::new());
        let event = Event { sequence, at_unix_ms, kind, uid, text, offers, exchanges };
        let _ = self.keeper.events.send(event);
    }

    fn set_policy(&mut self, caller: &Caller, policy: PolicyName) -> Result<PolicyView, Trouble> {
        self.must_rule(caller, "change the policy")?;
        let before = self.keeper.enforcer.policy().policy;
        self.keeper.enforcer.set_policy(policy).map_err(|why| trouble("conflict", why))?;
        if before != policy.as_str() {
            self.report(format!(
                "uid {} changed the policy: {policy} in place of {before}",
                caller.uid
            ));
        }
        Ok(self.keeper.enforcer.policy())
    }

    /// What concerns everybody is the superuser's, or whose allotd it is.
    fn must_rule(&self, caller: &Caller, what: &str) -> Result<(), Trouble> {
        match caller.uid == 0 || caller.uid == self.keeper.status.uid {
            true => Ok(()),
            false => Err(trouble("forbidden", format!("only the superuser may {what}"))),
        }
    }

    /// In the graph of the CPU.
    fn see_who_competes(&mut self) {
        let active: BTreeSet<CurrencyId> = self.keeper.enforcer.active().into_iter().collect();
        for (_, id) in self.keeper.ledger.clients() {
            self.cpu.set_active(id, active.contains(&id));
        }
    }

    fn read(&mut self, request: Request) {
        match request {
            Request::Status(reply) => {
                let ledger = &self.keeper.ledger;
                let mut status = self.keeper.status.clone();
                status.sequence = self.keeper.journal.sequence();
                status.currencies = ledger.currency_count() as u64;
                status.tickets = ledger.tickets().count() as u64;
                status.clients = ledger.clients().count() as u64;
                status.cpu = self.keeper.enforcer.view();
                status.others = self.keeper.enforcer.others();
                let _ = reply.send(status);
            }
            Request::Ledger(reply) => {
                self.see_who_competes();
                let others = self.others.with_active(self.keeper.enforcer.enforced_others());
                let sequence = self.keeper.journal.sequence();
                let view = ledger_view(
                    &self.keeper.ledger,
                    &mut self.cpu,
                    others,
                    sequence,
                    &mut self.names,
                    &self.commands,
                    &self.cgroups,
                );
                let _ = reply.send(view);
            }
            Request::Market(reply) => {
                let ledger = &self.keeper.ledger;
                let name = |id| currency_name(ledger, id, &self.commands, &self.cgroups);
                let sequence = self.keeper.journal.sequence();
                let _ = reply.send(self.bourse.view(ledger, sequence, name));
            }
            Request::Traders(caller, who, reply) => {
                let _ = reply.send(self.traders(&caller, &who));
            }
            Request::Sample(reply) => {
                let mut sample = self.keeper.enforcer.sample();
                for client in &mut sample.clients {
                    let currency = self.keeper.ledger.currency(CurrencyId(client.id));
                    if let Some(Nature::Client { founder, .. }) =
                        currency.map(|currency| &currency.record.nature)
                    {
                        client.command =
                            members::member_name(founder, &self.commands, &self.cgroups);
                    }
                }
                let _ = reply.send(sample);
            }
            Request::Events(after, reply) => {
                let kept = self.keeper.journal.entries(after, EVENTS_PAGE);
                let kept = kept
                    .map(|entries| entries.iter().map(event).collect())
                    .map_err(|error| ErrorBody { error: not_durable(&error) });
                let _ = reply.send(kept);
            }
            Request::Policy(reply) => {
                let _ = reply.send(self.keeper.enforcer.policy());
            }
            Request::SetPolicy { caller, policy, reply } => {
                let _ = reply.send(self.set_policy(&caller, policy));
            }
            Request::Trace(caller, reply) => {
                let traced = self.must_rule(&caller, "trace every choice").and_then(|()| {
                    self.keeper.enforcer.trace().map_err(|why| trouble("conflict", why))
                });
                let _ = reply.send(traced);
            }
            Request::Operate { .. } | Request::Life { .. } | Request::Stop => {
                unreachable!("not a read")
            }
        }
    }
}

/// Who was released, as far back as the journal's entries are kept. Those that are gone are
/// forgotten by the first sweep.
fn released(journal: &Journal) -> BTreeSet<ProcessIdentity> {
    let mut released = BTreeSet::new();
    let mut after = 0;
    loop {
        let page = journal.entries(after, EVENTS_PAGE).unwrap_or_else(|error| {
            tracing::warn!("who was released before is not known: {error}");
            Vec::new()
        });
        let Some(last) = page.last() else { return released };
        after = last.sequence;
        for entry in page.iter().filter(|it| matches!(it.intent, Intent::Release { .. })) {
            released.extend(entry.changes.iter().filter_map(|change| match change {
                Change::Currency { before: Some(record), after: None, .. } => match record.nature {
                    Nature::Client { founder, .. } => founder.process(),
                    _ => None,
                },
                _ => None,
            }));
        }
    }
}

/// Now, in milliseconds since 1970.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
