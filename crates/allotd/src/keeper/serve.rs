//! The loop of the keeper: rounds of requests, and a look around when nobody asks.

use super::processes::released;
use super::request::Request;
use super::state::{Keeper, Round, Running, Waiting};
use crate::clock::unix_ms;
use crate::elder::Elder;
use crate::exchange_desk::ExchangeDesk;
use crate::fair_queue::FairQueue;
use crate::members::{self, Cgroups, Commands};
use crate::names::Names;
use crate::others::Others;
use enforcement::Question;
use enforcement::message::LookedAfter;
use front::thread_time;
use ledger::operation::{Ensure, Exit, FollowPolicy, SetMemory};
use ledger::{Authority, Intent, JoinedAs, Resource};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use valuation::Graph;
use wire::{Event, EventKind};

/// The work of one round, in operations, so that nobody waits long to be acknowledged.
const ROUND_WORK: u64 = 128;

/// Interval between looks around when nobody asks for anything.
const HOUSEKEEPING: Duration = Duration::from_millis(500);

impl Keeper {
    /// Adopt what still lives, then serve until told to stop.
    pub fn run(mut self, requests: &Arc<FairQueue<Request>>) {
        let queue = Arc::clone(requests);
        let listens = self.enforcement.listen(move || {
            // Once the queue is closed nobody waits.
            let _ = queue.push_urgent(Request::Enforced);
        });
        if let Err(error) = listens {
            tracing::error!("nobody can hear the enforcing process: {error}");
            return;
        }
        let cpu = Graph::of(&self.ledger, Resource::CPU);
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
            desk: ExchangeDesk::new(),
            names: Names::default(),
            has_unnamed: false,
            commands: Commands::new(),
            cgroups,
            looked_at: None,
            released,
            joined_as: JoinedAs::new(),
            written: Default::default(),
            write_time: Duration::ZERO,
            owed: Vec::new(),
            failed: None,
            generation: 0,
            unseen: None,
            awaiting: Vec::new(),
            must_sweep: true,
            swept: None,
        };
        running.reserve_room();
        running.ensure_everybodys();
        running.tell_memory();
        running.follow_policy();
        running.sweep_if_needed();
        running.enforce();
        running.serve(requests);
        running.keeper.enforcement.end();
        running.keeper.audit.keep_up(&running.keeper.journal);
    }
}

impl Running {
    /// Where the kernel's scheduler has everybody, the kernel's threads and the processes that
    /// nobody manages are clients like others.
    fn ensure_everybodys(&mut self) {
        let Some(policy) = &self.keeper.policy else { return };
        if !self.keeper.enforcement.covers_everybody() {
            return;
        }
        let mut round = Round::default();
        for (member, funding) in policy.everybodys() {
            if self.keeper.ledger.founded_by(&member).is_none() {
                self.observe(Intent::from(Ensure { member, funding }), &mut round.entries);
            }
        }
        self.finish(round);
    }

    /// Says how much memory there is to promise, where that has changed.
    fn tell_memory(&mut self) {
        let Some(kib) = self.keeper.memory_kib else { return };
        let mut round = Round::default();
        let intent = Intent::from(SetMemory { kib });
        match self.change(Authority::System, intent, &mut round.entries) {
            Ok(_) => {
                // Nothing is written down when nothing changed.
                round.entries.retain(|entry| !entry.changes.is_empty());
                self.finish(round);
            }
            Err(refusal) => self.report(format!("memory: {refusal}")),
        }
    }

    /// Brings what an earlier funding policy gave up to date with this one.
    fn follow_policy(&mut self) {
        let Some(policy) = &self.keeper.policy else { return };
        let changed = policy.changed(&self.keeper.ledger);
        let mut round = Round::default();
        for level in &changed {
            let intent = FollowPolicy { level: level.clone() };
            self.observe(Intent::from(intent), &mut round.entries);
        }
        self.finish(round);
        changed.iter().for_each(|level| self.tell_shortfall(level));
    }

    fn serve(&mut self, requests: &FairQueue<Request>) {
        let mut looked = Instant::now();
        loop {
            let patience = self.patience().min(HOUSEKEEPING);
            let round = requests.take(patience, ROUND_WORK);
            let (stop, spent) = self.round(round);
            requests.charge(spent);
            self.do_what_is_due();
            if self.has_unnamed && self.names.has_caught_up() {
                (self.has_unnamed, self.must_sweep) = (false, true);
            }
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

    /// Writes first, then, when they are durable, reads. Answers whether to stop, and the CPU time that was taken for
    /// those who asked together: what an operation took by itself is charged at once.
    fn round(&mut self, requests: Vec<Request>) -> (bool, Duration) {
        let mut stop = false;
        let mut reads = Vec::new();
        let mut round = Round::default();
        // Events that the kernel has told by now come before what anybody asks: an operation finds the ledger as if
        // it had been asked after all that happened before it.
        let operates = requests.iter().any(|it| matches!(it, Request::Operate { .. }));
        let watched_until_ticks =
            match operates || requests.iter().any(|it| matches!(it, Request::Life)) {
                true => self.take_lives(operates, &mut round.entries),
                false => None,
            };
        if operates && self.must_sweep {
            self.finish(std::mem::take(&mut round));
            self.sweep_if_needed();
        }
        for request in requests {
            match request {
                Request::Operate { caller, operations, reply } => {
                    let began = thread_time();
                    let answer = self.operate(&caller, operations, &mut round.entries);
                    round.waiting.push(Waiting { reply, answer, upto: round.entries.len() });
                    let (person, spent) = (self.person(caller.uid), thread_time() - began);
                    self.keeper.served.charge(person, spent, Instant::now());
                }
                Request::Life => {}
                Request::Stop => stop = true,
                read => reads.push(read),
            }
        }
        self.finish(round);
        // A plan or a snapshot, which follow from the whole ledger, are nobody's.
        let mut spent = if operates { self.write_time } else { Duration::ZERO };
        // While a sweep is due, what was born since the last sound word is still to be found.
        if let Some(ticks) = watched_until_ticks.filter(|_| !self.must_sweep) {
            self.keeper.watched_until_ticks = ticks;
        }
        for request in reads {
            let began = thread_time();
            let is_asked = !matches!(request, Request::Renew { .. } | Request::Enforced);
            self.read(request);
            spent += if is_asked { thread_time() - began } else { Duration::ZERO };
        }
        (stop, spent)
    }

    fn look_around(&mut self) {
        self.write_owed();
        self.end_what_is_over();
        self.keeper.audit.keep_up(&self.keeper.journal);
        self.defer_or_go_on();
        let gone = members::gone(&self.keeper.ledger, &self.cgroups, &mut self.looked_at);
        if !gone.is_empty() {
            let mut round = Round::default();
            for member in gone {
                self.observe(Intent::from(Exit { member }), &mut round.entries);
            }
            self.finish(round);
            self.cgroups.retain(&self.keeper.ledger);
        }
        self.keeper.enforcement.want(Question::LookAfter);
    }

    /// Tells what happened to enforcers, and gives those a plan that came in the place of others.
    pub(super) fn follow_looked_after(&mut self) {
        let LookedAfter { replaced, drift } = self.keeper.enforcement.take_looked_after();
        if !replaced.is_empty() {
            replaced.into_iter().for_each(|what| self.report(what));
            self.enforce();
        }
        drift.into_iter().for_each(|what| self.report(what));
    }

    /// Lets everything go while the machine's allotd does the same work, and takes it up again after.
    fn defer_or_go_on(&mut self) {
        let why = self.keeper.elder.as_ref().and_then(Elder::why_defer);
        if let Some(what) = self.keeper.enforcement.defer(why) {
            self.report(what);
            self.enforce();
        }
    }

    pub(super) fn report(&self, text: String) {
        tracing::warn!("{text}");
        let (sequence, uid) = (None, None);
        let (at_unix_ms, kind) = (unix_ms(), EventKind::Daemon);
        let (offers, exchanges) = (Vec::new(), Vec::new());
        let event = Event { sequence, at_unix_ms, kind, uid, text, offers, exchanges };
        let _ = self.keeper.events.send(event);
    }
}
