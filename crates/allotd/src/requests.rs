//! Answers to what callers ask: who calls is what the kernel said of the connection, and what is asked came through the
//! front, so every number in it is checked here. Keeps no state and touches no ledger: it asks the keeper.

use crate::audit::read as read_audit;
use crate::doctor;
use crate::fair_queue::{FairQueue, Person, Refused};
use crate::keeper;
use crate::reader::{Answer as Rendered, Look, Read};
use crate::view::{Page, part};
use bytes::Bytes;
use front::{Meter, Request, Tally, thread_time};
use ledger::Caller;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use wire::{
    ApiError, CurrencyRef, ErrorBody, ErrorCode, Event, OPERATIONS_MAX, Operation, Sample, Status,
    TraceKind, TraceLine,
};

/// The most traders of one request.
const TRADERS_MAX: usize = 1000;

/// The most currencies of one page of the ledger.
const PAGE_MAX: u64 = 10_000;

/// The costs of answers that concern more than one thing, in operations.
mod work {
    pub(super) const STATUS: u64 = 5;
    pub(super) const SAMPLE: u64 = 10;
    pub(super) const EVENTS: u64 = 25;
    pub(super) const LEDGER: u64 = 500;
}

/// How often a trace is read.
const TRACE_PAUSE: Duration = Duration::from_millis(50);
/// So many of its events are written, then it is others' turn.
const TRACE_CHUNK: usize = 64;

/// Everything that all requests need.
pub struct Shared {
    /// To the keeper.
    pub keeper: Arc<FairQueue<keeper::Request>>,
    /// To those who only look.
    pub reader: Arc<FairQueue<Look>>,
    /// CPU time that both take for persons, and the thread of the sockets.
    pub served: Meter,
    /// The number of the last operation that was acknowledged.
    pub acknowledged: Arc<AtomicU64>,
    /// The person whose limits hold for a uid.
    pub persons: Arc<ledger::Persons>,
    /// Whether `/proc` shows users their own processes alone; then neither do we say what these run.
    pub hides_processes: bool,
    /// The uid that rules this allotd besides root.
    pub ruler: u32,
    /// The answers that callers have not taken.
    pub unread: Tally,
    /// From the keeper.
    pub events: broadcast::Sender<Event>,
    /// The findings about the machine.
    pub doctor: Arc<doctor::Findings>,
    /// Where the audit's files are.
    pub audit_dir: PathBuf,
    /// The persons for whom they are being read.
    pub audit_readers: Mutex<BTreeSet<u32>>,
    /// Turns true when allotd ends.
    pub ending: watch::Receiver<bool>,
}

/// An answer, as JSON.
pub enum Answer {
    /// One value.
    Whole {
        /// HTTP status.
        status: u16,
        body: Bytes,
    },
    /// Values as they come, each with the end of its line.
    Lines(mpsc::Receiver<Bytes>),
}

/// The status and the body of an answer that is no success.
pub fn failure(error: ApiError) -> (u16, Bytes) {
    (error.code.http_status(), json(&ErrorBody { error }))
}

fn invalid(message: String) -> ApiError {
    ApiError::new(ErrorCode::Invalid, message)
}

/// Answers a request of a caller; the kernel may not have said who that is.
pub async fn answer(shared: &Arc<Shared>, who: Option<Caller>, request: Request) -> Answer {
    let asking = Asking { shared, line: shared.line_of(who.as_ref()), who };
    asking.answer(request).await.unwrap_or_else(|error| {
        let (status, body) = failure(error);
        Answer::Whole { status, body }
    })
}

fn whole(value: &impl Serialize) -> Answer {
    Answer::Whole { status: 200, body: json(value) }
}

fn json(value: &impl Serialize) -> Bytes {
    Bytes::from(serde_json::to_vec(value).expect("a view can be written as JSON"))
}

fn line(value: &impl Serialize) -> Bytes {
    let mut text = serde_json::to_vec(value).expect("a view can be written as JSON");
    text.push(b'\n');
    Bytes::from(text)
}

fn refused(why: Refused) -> ApiError {
    match why {
        Refused::Closed => ApiError::new(ErrorCode::Internal, "allotd is ending"),
        Refused::Full => {
            ApiError::new(ErrorCode::Limit, "too many of your requests wait; send fewer at a time")
        }
    }
}

impl Shared {
    /// The line that a caller's requests wait in.
    fn line_of(&self, who: Option<&Caller>) -> Person {
        Person(who.map_or(u32::MAX, |who| self.persons.of(who.uid)))
    }

    /// Does something for a person, who is charged with the CPU time that it takes.
    fn for_person<T>(&self, person: Person, act: impl FnOnce() -> T) -> T {
        let began = thread_time();
        let done = act();
        self.served.charge(person.0, thread_time() - began, Instant::now());
        done
    }

    /// Waits as long as a person has to rest, no longer than allotd runs. Whoever need not does not wait for a tick of the
    /// timer either.
    pub(crate) async fn rest(&self, person: Person) {
        if let Some(rest) = self.served.rest(person.0, Instant::now()) {
            let mut ending = self.ending.clone();
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                _ = ending.wait_for(|ending| *ending) => {}
            }
        }
    }

    fn is_ruled_by(&self, who: Option<&Caller>) -> bool {
        who.is_some_and(|who| who.uid == 0 || who.uid == self.ruler)
    }

    /// Whoever does not rule this allotd is not told where its state is, nor what its next draws follow from.
    fn status_for(&self, who: Option<&Caller>, mut status: Status) -> Status {
        if !self.is_ruled_by(who) {
            status.state_dir.clear();
            status.cpu.seed = 0;
        }
        status
    }

    /// A measurement, without what others run where that is hidden.
    fn sample_for(&self, who: Option<&Caller>, mut sample: Sample) -> Sample {
        if self.hides_processes && !self.is_ruled_by(who) {
            for client in &mut sample.clients {
                client.command = format!("#{}", client.id);
            }
        }
        sample
    }
}

/// One caller's request.
struct Asking<'a> {
    shared: &'a Arc<Shared>,
    who: Option<Caller>,
    line: Person,
}

impl Asking<'_> {
    async fn answer(self, request: Request) -> Result<Answer, ApiError> {
        match request {
            Request::Status => self.status().await,
            Request::Ledger { after, limit } => self.ledger(after, limit).await,
            Request::Market => {
                let uid = self.uid();
                self.look(work::LEDGER, |reply| Read::Market(uid, reply)).await
            }
            Request::Traders { who } => self.traders(who).await,
            Request::Sample => {
                let sample = self.ask(work::SAMPLE, keeper::Request::Sample).await?;
                let tell = || whole(&self.shared.sample_for(self.who.as_ref(), sample));
                Ok(self.shared.for_person(self.line, tell))
            }
            Request::Samples { interval_ms } => self.samples(interval_ms),
            Request::Events { after, follow } => self.events(after, follow).await,
            Request::Audit { since_unix_ms } => self.audit(since_unix_ms),
            Request::Trace { client } => self.trace(client).await,
            Request::Doctor => {
                let status = self.ask(work::STATUS, keeper::Request::Status).await?;
                let tell = || whole(&self.shared.doctor.report(Some(&status)));
                Ok(self.shared.for_person(self.line, tell))
            }
            Request::Policy => self.ask(1, keeper::Request::Policy).await.map(|view| whole(&view)),
            Request::SetPolicy { policy } => self.set_policy(&policy).await,
            Request::Operate { operations } => self.operate(operations).await,
        }
    }

    /// The keeper's answer to a request of so much work.
    async fn ask<T>(
        &self,
        work: u64,
        request: impl FnOnce(oneshot::Sender<T>) -> keeper::Request,
    ) -> Result<T, ApiError> {
        ask(self.shared, self.line, work, request).await
    }

    /// A look at the ledger that is so much work.
    async fn look(
        &self,
        work: u64,
        read: impl FnOnce(oneshot::Sender<Rendered>) -> Read,
    ) -> Result<Answer, ApiError> {
        let (reply, answer) = oneshot::channel();
        let since = self.shared.acknowledged.load(Ordering::Acquire);
        let look = Look { read: read(reply), since };
        self.shared.reader.push(self.line, work, look).map_err(refused)?;
        let body = answer.await.map_err(|_| refused(Refused::Closed))??;
        Ok(Answer::Whole { status: 200, body })
    }

    fn uid(&self) -> Option<u32> {
        self.who.as_ref().map(|who| who.uid)
    }

    /// The caller, where it matters.
    fn known(&self) -> Result<Caller, ApiError> {
        self.who.clone().ok_or_else(|| {
            let message = "the kernel does not say who you are; connect anew";
            ApiError::new(ErrorCode::Forbidden, message)
        })
    }

    async fn status(&self) -> Result<Answer, ApiError> {
        let status = self.ask(work::STATUS, keeper::Request::Status).await?;
        let tell = || whole(&self.shared.status_for(self.who.as_ref(), status));
        Ok(self.shared.for_person(self.line, tell))
    }

    async fn ledger(&self, after: Option<u64>, limit: Option<u64>) -> Result<Answer, ApiError> {
        let limit = match (after, limit) {
            (None, None) => None,
            (_, limit) => Some(limit.unwrap_or(PAGE_MAX)),
        };
        if let Some(limit) = limit.filter(|limit| !(1..=PAGE_MAX).contains(limit)) {
            return Err(invalid(format!("limit is {limit}; it must be 1 to {PAGE_MAX}")));
        }
        let work = limit.map_or(work::LEDGER, |limit| (limit / 8).max(1));
        let page = limit.map(|limit| Page { after, limit: limit as usize });
        let uid = self.uid();
        self.look(work, |reply| Read::Ledger(page, uid, reply)).await
    }

    async fn traders(&self, who: Vec<CurrencyRef>) -> Result<Answer, ApiError> {
        let caller = self.known()?;
        if who.len() > TRADERS_MAX {
            let asked = who.len();
            return Err(invalid(format!("{asked} are asked for; at most {TRADERS_MAX} at a time")));
        }
        let work = 1 + who.len() as u64;
        self.look(work, |reply| Read::Traders(caller, who, reply)).await
    }

    fn samples(self, interval_ms: Option<u64>) -> Result<Answer, ApiError> {
        let interval_ms = interval_ms.unwrap_or(1000);
        if !(100..=60_000).contains(&interval_ms) {
            let message = format!("interval_ms is {interval_ms}; it must be 100 to 60000");
            return Err(invalid(message));
        }
        let mut every = tokio::time::interval(Duration::from_millis(interval_ms));
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (lines, answer) = lines();
        let Asking { shared, who, line: person } = self;
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            let mut ending = shared.ending.clone();
            loop {
                tokio::select! {
                    _ = every.tick() => {}
                    _ = ending.wait_for(|ending| *ending) => return,
                    () = lines.closed() => return,
                }
                let asked = ask(&shared, person, work::SAMPLE, keeper::Request::Sample).await;
                let Ok(sample) = asked else { return };
                let tell = || line(&shared.sample_for(who.as_ref(), sample));
                let told = shared.for_person(person, tell);
                if lines.send(told).await.is_err() {
                    return;
                }
                shared.rest(person).await;
            }
        });
        Ok(answer)
    }

    async fn events(self, after: Option<u64>, follow: Option<bool>) -> Result<Answer, ApiError> {
        // Subscribe first, so that nothing falls between what is kept and what comes.
        let coming = self.shared.events.subscribe();
        let kept = match after {
            Some(after) => kept_events(self.shared, self.line, after).await?,
            None => Vec::new(),
        };
        let (lines, answer) = lines();
        let telling =
            Telling { shared: Arc::clone(self.shared), person: self.line, lines, last: after };
        tokio::spawn(telling.tell(kept, coming, follow != Some(false)));
        Ok(answer)
    }

    /// The audit, read by a thread that ends when the caller leaves. A person has one at a time: what it takes is
    /// charged when it ends, and the next request waits for that. The superuser may have more.
    fn audit(&self, since_unix_ms: Option<u64>) -> Result<Answer, ApiError> {
        let person = self.line.0;
        let readers = || self.shared.audit_readers.lock().unwrap_or_else(PoisonError::into_inner);
        if person != 0 && !readers().insert(person) {
            let message = "you read the audit already: one at a time";
            return Err(ApiError::new(ErrorCode::Limit, message));
        }
        let (lines, answer) = lines();
        let shared = Arc::clone(self.shared);
        tokio::task::spawn_blocking(move || {
            let since = since_unix_ms.unwrap_or(0);
            let is_wanted = || !lines.is_closed();
            let take = |text: String| lines.blocking_send((text + "\n").into()).is_ok();
            let read = || read_audit(&shared.audit_dir, since, is_wanted, take);
            if let Err(error) = shared.for_person(Person(person), read) {
                tracing::error!("the audit cannot be read: {error}");
            }
            let mut readers = shared.audit_readers.lock().unwrap_or_else(PoisonError::into_inner);
            readers.remove(&person);
        });
        Ok(answer)
    }

    async fn trace(&self, client: Option<u64>) -> Result<Answer, ApiError> {
        let caller = self.known()?;
        let traced = self.ask(1, |reply| keeper::Request::Trace(caller, reply)).await?;
        let mut trace = traced?;
        let (lines, answer) = lines();
        let mut ending = self.shared.ending.clone();
        tokio::spawn(async move {
            let mut every = tokio::time::interval(TRACE_PAUSE);
            loop {
                tokio::select! {
                    _ = every.tick() => {}
                    _ = ending.wait_for(|ending| *ending) => return,
                    () = lines.closed() => return,
                }
                let events = trace.ready();
                for events in events.chunks(TRACE_CHUNK) {
                    let wanted =
                        events.iter().filter(|event| client.is_none_or(|id| id == event.client.0));
                    let text: Vec<u8> = wanted.flat_map(|event| line(&trace_line(event))).collect();
                    if !text.is_empty() && lines.send(Bytes::from(text)).await.is_err() {
                        return;
                    }
                    if lines.is_closed() || *ending.borrow() {
                        return;
                    }
                    // A busy machine makes more of them than can be told, and others ask too.
                    tokio::task::yield_now().await;
                }
            }
        });
        Ok(answer)
    }

    async fn set_policy(&self, policy: &str) -> Result<Answer, ApiError> {
        let caller = self.known()?;
        let policy = policy.parse().map_err(|it: policy::UnknownPolicy| invalid(it.to_string()))?;
        let set = |reply| keeper::Request::SetPolicy { caller, policy, reply };
        Ok(whole(&self.ask(1, set).await??))
    }

    async fn operate(&self, operations: Vec<Operation>) -> Result<Answer, ApiError> {
        let caller = self.known()?;
        let count = operations.len();
        if count == 0 || count > OPERATIONS_MAX {
            let message = format!("{count} operations; a request has 1 to {OPERATIONS_MAX}");
            return Err(invalid(message));
        }
        let operate = |reply| keeper::Request::Operate { caller, operations, reply };
        Ok(whole(&self.ask(count as u64, operate).await??))
    }
}

async fn ask<T>(
    shared: &Shared,
    person: Person,
    work: u64,
    request: impl FnOnce(oneshot::Sender<T>) -> keeper::Request,
) -> Result<T, ApiError> {
    let (reply, answer) = oneshot::channel();
    shared.keeper.push(person, work, request(reply)).map_err(refused)?;
    answer.await.map_err(|_| refused(Refused::Closed))
}

/// The next page of those that are kept.
async fn kept_events(shared: &Shared, person: Person, after: u64) -> Result<Vec<Event>, ApiError> {
    let events = |reply| keeper::Request::Events(after, reply);
    ask(shared, person, work::EVENTS, events).await?.map_err(|body| body.error)
}

/// Lines that an answer is made of, as they come.
fn lines() -> (mpsc::Sender<Bytes>, Answer) {
    let (lines, coming) = mpsc::channel(64);
    (lines, Answer::Lines(coming))
}

/// Events on their way to one caller.
struct Telling {
    shared: Arc<Shared>,
    person: Person,
    lines: mpsc::Sender<Bytes>,
    /// The last that was told.
    last: Option<u64>,
}

/// Nobody listens any more, or there is no more to tell.
struct Over;

impl Telling {
    async fn tell(
        mut self,
        kept: Vec<Event>,
        mut coming: broadcast::Receiver<Event>,
        follows: bool,
    ) {
        let mut ending = self.shared.ending.clone();
        let mut told = self.all_of(kept).await;
        while told.is_ok() && follows {
            let event = tokio::select! {
                event = coming.recv() => event,
                _ = ending.wait_for(|ending| *ending) => return,
                () = self.lines.closed() => return,
            };
            told = match (event, self.last) {
                (Ok(event), _) => self.one(event).await,
                // Too slow a reader: what it missed is read from the journal.
                (Err(broadcast::error::RecvError::Lagged(_)), Some(seen)) => self.from(seen).await,
                (Err(broadcast::error::RecvError::Lagged(_)), None) => Ok(()),
                (Err(broadcast::error::RecvError::Closed), _) => return,
            };
        }
    }

    /// Tells a page of events that are kept, and all that follow.
    async fn all_of(&mut self, mut kept: Vec<Event>) -> Result<(), Over> {
        // A page at a time, so that a reader that takes nothing costs one page.
        while let Some(end) = kept.last().and_then(|event| event.sequence) {
            for event in kept {
                self.send(&event).await?;
            }
            self.last = Some(end);
            kept = kept_events(&self.shared, self.person, end).await.map_err(|_| Over)?;
        }
        Ok(())
    }

    async fn from(&mut self, seen: u64) -> Result<(), Over> {
        let kept = kept_events(&self.shared, self.person, seen).await.map_err(|_| Over)?;
        self.all_of(kept).await
    }

    /// Tells an event that has just happened, unless it was among those that are kept.
    async fn one(&mut self, event: Event) -> Result<(), Over> {
        let last = self.last;
        if event.sequence.is_some_and(|number| last.is_some_and(|last| number <= last)) {
            return Ok(());
        }
        self.last = event.sequence.or(last);
        self.send(&event).await
    }

    async fn send(&self, event: &Event) -> Result<(), Over> {
        let told = self.shared.for_person(self.person, || line(event));
        self.lines.send(told).await.map_err(|_| Over)?;
        self.shared.rest(self.person).await;
        Ok(())
    }
}

fn trace_line(event: &enforcer::TraceEvent) -> TraceLine {
    use enforcer::TraceEventKind;
    TraceLine {
        at_ns: event.at_ns,
        kind: match event.kind {
            TraceEventKind::Join => TraceKind::Join,
            TraceEventKind::Queue => TraceKind::Queue,
            TraceEventKind::Win => TraceKind::Win,
            TraceEventKind::Charge => TraceKind::Charge,
            TraceEventKind::Leave => TraceKind::Leave,
        },
        client: event.client.0,
        tid: event.tid,
        cpu: event.cpu,
        key: event.key,
        value: part(event.value),
        used_ns: event.used_ns,
        due_ns: event.due_ns,
        charged_ns: event.charged_ns,
        drawn: event.drawn as f64 / f64::from(1 << 16),
        virtual_ns: event.now,
        number: event.seq,
    }
}
