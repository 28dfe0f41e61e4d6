//! HTTP with JSON over a Unix socket. A view: it keeps no state and touches no ledger, it asks
//! the keeper. Who calls is what the kernel says of the connection.

use crate::answers::{self, Unread};
use crate::audit::read as read_audit;
use crate::connection::Caller;
use crate::doctor;
use crate::fair_queue::{FairQueue, Person, Refused};
use crate::keeper::Request;
use crate::listener::Gate;
use crate::reader::{Answer as Rendered, Read};
use crate::view::{Page, part};
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio_stream::wrappers::ReceiverStream;
use utoipa::OpenApi;
use wire::{
    ApiError, CurrencyRef, Doctor, ErrorBody, ErrorCode, Event, LedgerView, MarketView, Operations,
    OperationsDone, PolicyView, Sample, SetPolicy, Status, TraceKind, TraceLine, TradersView,
};

/// The most operations of one request.
const OPERATIONS_MAX: usize = 1000;

/// The most traders of one request.
const TRADERS_MAX: usize = 1000;

/// The most currencies of one page of the ledger.
const PAGE_MAX: usize = 10_000;

/// What answers cost that concern more than one thing, in operations.
mod work {
    pub(super) const STATUS: u64 = 5;
    pub(super) const SAMPLE: u64 = 10;
    pub(super) const EVENTS: u64 = 100;
    pub(super) const LEDGER: u64 = 500;
}

/// How often a trace is read.
const TRACE_PAUSE: Duration = Duration::from_millis(50);
/// So many of its events are written, then it is others' turn.
const TRACE_CHUNK: usize = 64;

/// What every request needs.
#[derive(Clone)]
pub struct Shared {
    /// To the keeper.
    pub keeper: Arc<FairQueue<Request>>,
    /// To those who only look.
    pub reader: Arc<FairQueue<Read>>,
    /// Whose limits hold for whom.
    pub persons: Arc<ledger::Persons>,
    /// Whether `/proc` shows users their own processes alone; then neither do we say what these run.
    pub hides_processes: bool,
    /// The uid that rules this allotd besides root.
    pub ruler: u32,
    /// What callers have not taken.
    pub unread: Unread,
    /// From the keeper.
    pub events: broadcast::Sender<Event>,
    /// What was found out about the machine at the start.
    pub doctor: Arc<doctor::Findings>,
    /// Where the audit's files are.
    pub audit_dir: PathBuf,
    /// Turns true when allotd ends.
    pub ending: watch::Receiver<bool>,
}

/// An answer that is not a success.
pub struct Failure(pub ApiError);

type Answer<T> = Result<Json<T>, Failure>;

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.http_status());
        let status = status.expect("the table has HTTP statuses");
        (status, Json(ErrorBody { error: self.0 })).into_response()
    }
}

/// The interface, described.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "allot",
        description = "Shares a machine among its users by tickets. JSON over HTTP over a Unix \
                       socket; the caller is who the kernel says."
    ),
    paths(
        status, ledger, market, traders, sample, samples, events, audit, trace, doctor_, policy,
        set_policy, operations, openapi
    ),
    components(schemas(ErrorBody))
)]
pub struct Description;

/// All routes.
pub fn router(shared: Shared) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/ledger", get(ledger))
        .route("/v1/market", get(market))
        .route("/v1/traders", get(traders))
        .route("/v1/sample", get(sample))
        .route("/v1/samples", get(samples))
        .route("/v1/events", get(events))
        .route("/v1/audit", get(audit))
        .route("/v1/trace", get(trace))
        .route("/v1/doctor", get(doctor_))
        .route("/v1/policy", get(policy).put(set_policy))
        .route("/v1/operations", post(operations))
        .route("/v1/openapi.json", get(openapi))
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(axum::middleware::from_fn_with_state(shared.unread.clone(), answers::bounded))
        .with_state(shared)
}

async fn nothing_here(uri: axum::http::Uri) -> Failure {
    let path = uri.path();
    Failure(ApiError::new(
        ErrorCode::Unknown,
        format!("there is nothing at {path}; see /v1/openapi.json"),
    ))
}

async fn wrong_method(method: axum::http::Method, uri: axum::http::Uri) -> Response {
    let message = format!("{} does not take {method}; see /v1/openapi.json", uri.path());
    let body = Json(ErrorBody { error: ApiError::new(ErrorCode::Invalid, message) });
    (StatusCode::METHOD_NOT_ALLOWED, body).into_response()
}

impl Shared {
    /// Whose line a caller's requests wait in.
    fn line_of(&self, who: Option<&ledger::Caller>) -> Person {
        Person(who.map_or(u32::MAX, |who| self.persons.of(who.uid)))
    }
}

/// Ask the keeper for so much work.
async fn ask<T>(
    shared: &Shared,
    person: Person,
    work: u64,
    request: impl FnOnce(oneshot::Sender<T>) -> Request,
) -> Result<T, Failure> {
    let (reply, answer) = oneshot::channel();
    shared.keeper.push(person, work, request(reply)).map_err(refused)?;
    answer.await.map_err(|_| refused(Refused::Closed))
}

fn refused(why: Refused) -> Failure {
    Failure(match why {
        Refused::Closed => ApiError::new(ErrorCode::Internal, "allotd is ending"),
        Refused::Full => {
            ApiError::new(ErrorCode::Limit, "too many of your requests wait; send fewer at a time")
        }
    })
}

/// Ask for a look at the ledger that is so much work.
async fn look(
    shared: &Shared,
    person: Person,
    work: u64,
    read: impl FnOnce(oneshot::Sender<Rendered>) -> Read,
) -> Result<Response, Failure> {
    let (reply, answer) = oneshot::channel();
    shared.reader.push(person, work, read(reply)).map_err(refused)?;
    let text = answer.await.map_err(|_| refused(Refused::Closed))?.map_err(Failure)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// How allotd is set up.
#[utoipa::path(get, path = "/v1/status", responses((status = 200, body = Status)))]
async fn status(
    State(shared): State<Shared>,
    ConnectInfo(Caller { who, .. }): ConnectInfo<Caller>,
) -> Answer<Status> {
    let status = ask(&shared, shared.line_of(who.as_ref()), work::STATUS, Request::Status).await?;
    Ok(Json(shared.status_for(who.as_ref(), status)))
}

fn uid_of(who: Option<&ledger::Caller>) -> Option<u32> {
    who.map(|who| who.uid)
}

impl Shared {
    fn is_ruled_by(&self, who: Option<&ledger::Caller>) -> bool {
        who.is_some_and(|who| who.uid == 0 || who.uid == self.ruler)
    }

    /// Whoever does not rule this allotd is not told where its state is, nor what its next draws follow from.
    fn status_for(&self, who: Option<&ledger::Caller>, mut status: Status) -> Status {
        if !self.is_ruled_by(who) {
            status.state_dir.clear();
            status.cpu.seed = 0;
        }
        status
    }

    /// A measurement, without what others run where that is hidden.
    fn sample_for(&self, who: Option<&ledger::Caller>, mut sample: Sample) -> Sample {
        if self.hides_processes && !self.is_ruled_by(who) {
            for client in &mut sample.clients {
                client.command = format!("#{}", client.id);
            }
        }
        sample
    }
}

#[derive(Deserialize)]
struct LedgerQuery {
    after: Option<u64>,
    limit: Option<usize>,
}

/// The funding graph; with `after` or `limit` a page of it: so many currencies, and the tickets that they hold.
#[utoipa::path(
    get,
    path = "/v1/ledger",
    params(
        ("after" = Option<u64>, Query, description = "Currencies with greater ids; all where it is left out"),
        ("limit" = Option<usize>, Query, description = "The most currencies, 1 to 10000; a page with fewer is the last")
    ),
    responses((status = 200, body = LedgerView), (status = 400, body = ErrorBody))
)]
async fn ledger(
    State(shared): State<Shared>,
    ConnectInfo(Caller { who, .. }): ConnectInfo<Caller>,
    query: Result<Query<LedgerQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Failure> {
    let Query(LedgerQuery { after, limit }) = query.map_err(bad_query)?;
    let limit = match (after, limit) {
        (None, None) => None,
        (_, limit) => Some(limit.unwrap_or(PAGE_MAX)),
    };
    if let Some(limit) = limit.filter(|limit| !(1..=PAGE_MAX).contains(limit)) {
        let message = format!("limit is {limit}; it must be 1 to {PAGE_MAX}");
        return Err(Failure(ApiError::new(ErrorCode::Invalid, message)));
    }
    let cost = limit.map_or(work::LEDGER, |limit| (limit as u64 / 8).max(1));
    let page = limit.map(|limit| Page { after, limit });
    look(&shared, shared.line_of(who.as_ref()), cost, |reply| {
        Read::Ledger(page, uid_of(who.as_ref()), reply)
    })
    .await
}

/// All that is offered, exchanged, and was paid in the last clearings.
#[utoipa::path(get, path = "/v1/market", responses((status = 200, body = MarketView)))]
async fn market(
    State(shared): State<Shared>,
    ConnectInfo(Caller { who, .. }): ConnectInfo<Caller>,
) -> Result<Response, Failure> {
    let market = |reply| Read::Market(uid_of(who.as_ref()), reply);
    look(&shared, shared.line_of(who.as_ref()), work::LEDGER, market).await
}

#[derive(Deserialize)]
struct TradersQuery {
    who: Option<String>,
}

/// Some of those who can trade: what consumes as them, what they hold, offer and have exchanged. For
/// programs that trade for others: it costs by what is asked for, not by all that there is.
#[utoipa::path(
    get,
    path = "/v1/traders",
    params(("who" = Option<String>, Query, description = "References to currencies or clients, with commas \
                                                  between; those by an id that are gone are left out, and \
                                                  without any nobody is shown")),
    responses((status = 200, body = TradersView), (status = 404, body = ErrorBody))
)]
async fn traders(
    State(shared): State<Shared>,
    ConnectInfo(Caller { who, .. }): ConnectInfo<Caller>,
    query: Result<Query<TradersQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Failure> {
    let Query(TradersQuery { who: asked }) = query.map_err(bad_query)?;
    let caller = known(who)?;
    let asked = asked.unwrap_or_default();
    // Each once.
    let asked: BTreeSet<&str> = asked.split(',').filter(|it| !it.is_empty()).collect();
    if asked.len() > TRADERS_MAX {
        let message = format!("{} are asked for; at most {TRADERS_MAX} at a time", asked.len());
        return Err(Failure(ApiError::new(ErrorCode::Invalid, message)));
    }
    let (person, work) = (shared.line_of(Some(&caller)), 1 + asked.len() as u64);
    let asked = asked.into_iter().map(CurrencyRef::from).collect();
    look(&shared, person, work, |reply| Read::Traders(caller, asked, reply)).await
}

/// What was measured last.
#[utoipa::path(get, path = "/v1/sample", responses((status = 200, body = Sample)))]
async fn sample(
    State(shared): State<Shared>,
    ConnectInfo(Caller { who, .. }): ConnectInfo<Caller>,
) -> Answer<Sample> {
    let sample = ask(&shared, shared.line_of(who.as_ref()), work::SAMPLE, Request::Sample).await?;
    Ok(Json(shared.sample_for(who.as_ref(), sample)))
}

#[derive(Deserialize)]
struct SamplesQuery {
    interval_ms: Option<u64>,
}

/// Samples as they are taken, one a line.
#[utoipa::path(
    get,
    path = "/v1/samples",
    params(("interval_ms" = Option<u64>, Query, description = "Between samples; 100 to 60000, \
                                                               1000 where it is left out")),
    responses(
        (status = 200, body = Sample, content_type = "application/x-ndjson"),
        (status = 400, body = ErrorBody)
    )
)]
async fn samples(
    State(shared): State<Shared>,
    ConnectInfo(Caller { who, .. }): ConnectInfo<Caller>,
    query: Result<Query<SamplesQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Failure> {
    let Query(SamplesQuery { interval_ms }) = query.map_err(bad_query)?;
    let interval_ms = interval_ms.unwrap_or(1000);
    if !(100..=60_000).contains(&interval_ms) {
        let message = format!("interval_ms is {interval_ms}; it must be 100 to 60000");
        return Err(Failure(ApiError::new(ErrorCode::Invalid, message)));
    }
    let mut every = tokio::time::interval(Duration::from_millis(interval_ms));
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let person = shared.line_of(who.as_ref());
    let (lines, body) = line_stream();
    tokio::spawn(async move {
        let mut ending = shared.ending.clone();
        loop {
            tokio::select! {
                _ = every.tick() => {}
                _ = ending.wait_for(|ending| *ending) => return,
                () = lines.closed() => return,
            }
            let asked = ask(&shared, person, work::SAMPLE, Request::Sample).await;
            let Ok(sample) = asked else { return };
            let sample = shared.sample_for(who.as_ref(), sample);
            if lines.send(Ok(line(&sample))).await.is_err() {
                return;
            }
        }
    });
    Ok(body)
}

#[derive(Deserialize)]
struct EventsQuery {
    after: Option<u64>,
    follow: Option<bool>,
}

/// Events as they happen, one a line; with `after`, those that are kept since then first.
#[utoipa::path(
    get,
    path = "/v1/events",
    params(
        ("after" = Option<u64>, Query, description = "A journal number"),
        ("follow" = Option<bool>, Query, description = "false: end with what is kept")
    ),
    responses(
        (status = 200, body = Event, content_type = "application/x-ndjson"),
        (status = 400, body = ErrorBody)
    )
)]
async fn events(
    State(shared): State<Shared>,
    ConnectInfo(Caller { who, .. }): ConnectInfo<Caller>,
    query: Result<Query<EventsQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Failure> {
    let Query(EventsQuery { after, follow }) = query.map_err(bad_query)?;
    let person = shared.line_of(who.as_ref());
    // Subscribe first, so that nothing falls between what is kept and what comes.
    let mut coming = shared.events.subscribe();
    let mut kept = match after {
        Some(after) => kept_events(&shared, person, after).await?,
        None => Vec::new(),
    };
    let (lines, body) = line_stream();
    tokio::spawn(async move {
        let mut ending = shared.ending.clone();
        let mut last = after;
        loop {
            // A page at a time, so that a reader that takes nothing costs one page.
            while let Some(end) = kept.last().and_then(|event| event.sequence) {
                for event in kept {
                    if lines.send(Ok(line(&event))).await.is_err() {
                        return;
                    }
                }
                last = Some(end);
                match kept_events(&shared, person, end).await {
                    Ok(page) => kept = page,
                    Err(_) => return,
                }
            }
            if follow == Some(false) {
                return;
            }
            let event = tokio::select! {
                event = coming.recv() => event,
                _ = ending.wait_for(|ending| *ending) => return,
                () = lines.closed() => return,
            };
            kept = Vec::new();
            match (event, last) {
                (Ok(event), _) => {
                    let old = |number: u64| last.is_some_and(|last| number <= last);
                    if event.sequence.is_some_and(old) {
                        continue;
                    }
                    last = event.sequence.or(last);
                    if lines.send(Ok(line(&event))).await.is_err() {
                        return;
                    }
                }
                // Too slow a reader: what it missed is read from the journal.
                (Err(broadcast::error::RecvError::Lagged(_)), Some(seen)) => {
                    match kept_events(&shared, person, seen).await {
                        Ok(page) => kept = page,
                        Err(_) => return,
                    }
                }
                (Err(broadcast::error::RecvError::Lagged(_)), None) => {}
                (Err(broadcast::error::RecvError::Closed), _) => return,
            }
        }
    });
    Ok(body)
}

#[derive(Deserialize)]
struct AuditQuery {
    since_unix_ms: Option<u64>,
}

/// The audit: who changed what, one event a line, oldest first: kept for a year, apart from what happens to
/// processes.
#[utoipa::path(
    get,
    path = "/v1/audit",
    params(("since_unix_ms" = Option<u64>, Query, description = "Unix time, ms")),
    responses(
        (status = 200, body = Event, content_type = "application/x-ndjson"),
        (status = 400, body = ErrorBody)
    )
)]
async fn audit(
    State(shared): State<Shared>,
    query: Result<Query<AuditQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Failure> {
    let Query(AuditQuery { since_unix_ms }) = query.map_err(bad_query)?;
    let (lines, body) = line_stream();
    tokio::task::spawn_blocking(move || {
        let since_unix_ms = since_unix_ms.unwrap_or(0);
        let take = |text: String| lines.blocking_send(Ok((text + "\n").into())).is_ok();
        if let Err(error) = read_audit(&shared.audit_dir, since_unix_ms, take) {
            tracing::error!("the audit cannot be read: {error}");
        }
    });
    Ok(body)
}

/// The next page of those that are kept.
async fn kept_events(shared: &Shared, person: Person, after: u64) -> Result<Vec<Event>, Failure> {
    let page = ask(shared, person, work::EVENTS, |reply| Request::Events(after, reply)).await?;
    page.map_err(|body| Failure(body.error))
}

/// What this machine offers, and what allot makes of it.
#[utoipa::path(get, path = "/v1/doctor", responses((status = 200, body = Doctor)))]
async fn doctor_(
    State(shared): State<Shared>,
    ConnectInfo(Caller { who, .. }): ConnectInfo<Caller>,
) -> Answer<Doctor> {
    let status = ask(&shared, shared.line_of(who.as_ref()), work::STATUS, Request::Status).await?;
    Ok(Json(shared.doctor.report(Some(&status))))
}

#[derive(Deserialize)]
struct TraceQuery {
    client: Option<u64>,
}

/// What the scheduler does, choice by choice, one a line (paper 3, table 4). It makes every choice
/// cost more: for the superuser, and the owner of a private allotd. A second reader ends the
/// first's.
#[utoipa::path(
    get,
    path = "/v1/trace",
    params(("client" = Option<u64>, Query, description = "Of this client only")),
    responses(
        (status = 200, body = wire::TraceLine, content_type = "application/x-ndjson"),
        (status = 403, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "This enforcer has no trace")
    )
)]
async fn trace(
    State(shared): State<Shared>,
    ConnectInfo(Caller { who, .. }): ConnectInfo<Caller>,
    query: Result<Query<TraceQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Failure> {
    let Query(TraceQuery { client }) = query.map_err(bad_query)?;
    let caller = known(who)?;
    let person = shared.line_of(Some(&caller));
    let traced = ask(&shared, person, 1, |reply| Request::Trace(caller, reply)).await?;
    let mut trace = traced.map_err(Failure)?;
    let (lines, body) = line_stream();
    tokio::spawn(async move {
        let mut ending = shared.ending.clone();
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
                if !text.is_empty() && lines.send(Ok(Bytes::from(text))).await.is_err() {
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
    Ok(body)
}

/// The current scheduling policy.
#[utoipa::path(get, path = "/v1/policy", responses((status = 200, body = PolicyView)))]
async fn policy(
    State(shared): State<Shared>,
    ConnectInfo(Caller { who, .. }): ConnectInfo<Caller>,
) -> Answer<PolicyView> {
    ask(&shared, shared.line_of(who.as_ref()), 1, Request::Policy).await.map(Json)
}

/// Let another draw from now on, without a stop. For the superuser, and the owner of a private
/// allotd.
#[utoipa::path(
    put,
    path = "/v1/policy",
    request_body = SetPolicy,
    responses(
        (status = 200, body = PolicyView),
        (status = 400, body = ErrorBody, description = "No such policy"),
        (status = 403, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "The enforcer cannot while it runs")
    )
)]
async fn set_policy(
    State(shared): State<Shared>,
    ConnectInfo(Caller { who, .. }): ConnectInfo<Caller>,
    body: Bytes,
) -> Answer<PolicyView> {
    let invalid = |message: String| Failure(ApiError::new(ErrorCode::Invalid, message));
    let caller = known(who)?;
    let person = shared.line_of(Some(&caller));
    let SetPolicy { policy } = serde_json::from_slice(&body)
        .map_err(|error| invalid(format!("the request names no policy: {error}")))?;
    let policy =
        policy.parse().map_err(|error: policy::UnknownPolicy| invalid(error.to_string()))?;
    let set = ask(&shared, person, 1, |reply| Request::SetPolicy { caller, policy, reply }).await?;
    set.map(Json).map_err(Failure)
}

/// Do things in one step: all, or none.
#[utoipa::path(
    post,
    path = "/v1/operations",
    request_body = Operations,
    responses(
        (status = 200, body = OperationsDone, description = "All was done and is durable"),
        (status = 400, body = ErrorBody, description = "Malformed or out of range"),
        (status = 403, body = ErrorBody, description = "The broker refuses"),
        (status = 404, body = ErrorBody, description = "No such currency, process or ticket"),
        (status = 409, body = ErrorBody, description = "Not as things are: a cycle, a name taken"),
        (status = 422, body = ErrorBody, description = "A limit"),
        (status = 507, body = ErrorBody, description = "It could not be made durable")
    )
)]
async fn operations(
    State(shared): State<Shared>,
    ConnectInfo(Caller { who, .. }): ConnectInfo<Caller>,
    body: Bytes,
) -> Answer<OperationsDone> {
    let invalid = |message: String| Failure(ApiError::new(ErrorCode::Invalid, message));
    let caller = known(who)?;
    let person = shared.line_of(Some(&caller));
    let Operations { operations } = serde_json::from_slice(&body)
        .map_err(|error| invalid(format!("the request is no list of operations: {error}")))?;
    if operations.is_empty() || operations.len() > OPERATIONS_MAX {
        let count = operations.len();
        return Err(invalid(format!("{count} operations; a request has 1 to {OPERATIONS_MAX}")));
    }
    let work = operations.len() as u64;
    let operate = |reply| Request::Operate { caller, operations, reply };
    let done = ask(&shared, person, work, operate).await?;
    done.map(Json).map_err(Failure)
}

/// This description.
#[utoipa::path(
    get,
    path = "/v1/openapi.json",
    responses((status = 200, content_type = "application/json"))
)]
async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(Description::openapi())
}

/// Who calls, where it matters.
fn known(caller: Option<ledger::Caller>) -> Result<ledger::Caller, Failure> {
    caller.ok_or_else(|| {
        Failure(ApiError::new(
            ErrorCode::Forbidden,
            "the kernel does not say who you are; connect anew",
        ))
    })
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

fn bad_query(error: axum::extract::rejection::QueryRejection) -> Failure {
    Failure(ApiError::new(ErrorCode::Invalid, error.to_string()))
}

/// A response of newline-delimited JSON.
fn line_stream() -> (mpsc::Sender<Result<Bytes, Infallible>>, Response) {
    let (lines, stream) = mpsc::channel(64);
    let body = Body::from_stream(ReceiverStream::new(stream));
    let response = ([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response();
    (lines, response)
}

fn line(value: &impl Serialize) -> Bytes {
    let mut text = serde_json::to_vec(value).expect("a view can be written as JSON");
    text.push(b'\n');
    Bytes::from(text)
}

/// Serve until told to end.
///
/// # Errors
/// When the socket can no longer be listened to.
pub async fn serve(gate: Gate, shared: Shared) -> std::io::Result<()> {
    let mut ending = shared.ending.clone();
    let app = router(shared).into_make_service_with_connect_info::<Caller>();
    axum::serve(gate, app)
        .with_graceful_shutdown(async move {
            let _ = ending.wait_for(|ending| *ending).await;
        })
        .await
}
