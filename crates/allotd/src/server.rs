//! HTTP with JSON over a Unix socket. A view: it keeps no state and touches no ledger, it asks
//! the keeper. Who calls is what the kernel says of the connection.

use crate::doctor;
use crate::keeper::Request;
use crate::listener::{Caller, Gate};
use crate::trouble::trouble;
use crate::view::part;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, DefaultBodyLimit, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio_stream::wrappers::ReceiverStream;
use utoipa::OpenApi;
use wire::{
    CurrencyRef, Doctor, ErrorBody, Event, LedgerView, MarketView, Operations, OperationsDone,
    PolicyView, Sample, SetPolicy, Status, TraceKind, TraceLine, TradersView, Trouble,
};

/// The largest request.
const BODY_MAX_BYTES: usize = 1 << 20;
/// The most operations of one request.
const OPERATIONS_MAX: usize = 1000;

/// The most traders of one request.
const TRADERS_MAX: usize = 1000;

/// How often a trace is read.
const TRACE_PAUSE: Duration = Duration::from_millis(50);
/// So many of its events are written, then it is others' turn.
const TRACE_CHUNK: usize = 64;

/// What every request needs.
#[derive(Clone)]
pub struct Shared {
    /// To the keeper.
    pub keeper: Sender<Request>,
    /// From the keeper.
    pub events: broadcast::Sender<Event>,
    /// What was found out about the machine at the start.
    pub doctor: Arc<doctor::Findings>,
    /// Turns true when allotd ends.
    pub ending: watch::Receiver<bool>,
}

/// An answer that is not a success.
struct Failure(Trouble);

type Answer<T> = Result<Json<T>, Failure>;

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self.0.code.as_str() {
            "invalid" => StatusCode::BAD_REQUEST,
            "forbidden" => StatusCode::FORBIDDEN,
            "unknown" => StatusCode::NOT_FOUND,
            "conflict" | "cycle" => StatusCode::CONFLICT,
            "limit" => StatusCode::UNPROCESSABLE_ENTITY,
            "journal" => StatusCode::INSUFFICIENT_STORAGE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
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
        status, ledger, market, traders, sample, samples, events, trace, doctor_, policy,
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
        .route("/v1/trace", get(trace))
        .route("/v1/doctor", get(doctor_))
        .route("/v1/policy", get(policy).put(set_policy))
        .route("/v1/operations", post(operations))
        .route("/v1/openapi.json", get(openapi))
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
        .with_state(shared)
}

async fn nothing_here(uri: axum::http::Uri) -> Failure {
    let path = uri.path();
    Failure(trouble("unknown", format!("there is nothing at {path}; see /v1/openapi.json")))
}

async fn wrong_method(method: axum::http::Method, uri: axum::http::Uri) -> Response {
    let message = format!("{} does not take {method}; see /v1/openapi.json", uri.path());
    let body = Json(ErrorBody { error: trouble("invalid", message) });
    (StatusCode::METHOD_NOT_ALLOWED, body).into_response()
}

/// Ask the keeper.
async fn ask<T>(
    shared: &Shared,
    request: impl FnOnce(oneshot::Sender<T>) -> Request,
) -> Result<T, Failure> {
    let (reply, answer) = oneshot::channel();
    let ending = || Failure(trouble("internal", "allotd is ending"));
    shared.keeper.send(request(reply)).map_err(|_| ending())?;
    answer.await.map_err(|_| ending())
}

/// How allotd is set up.
#[utoipa::path(get, path = "/v1/status", responses((status = 200, body = Status)))]
async fn status(State(shared): State<Shared>) -> Answer<Status> {
    ask(&shared, Request::Status).await.map(Json)
}

/// The funding graph.
#[utoipa::path(get, path = "/v1/ledger", responses((status = 200, body = LedgerView)))]
async fn ledger(State(shared): State<Shared>) -> Answer<LedgerView> {
    ask(&shared, Request::Ledger).await.map(Json)
}

/// All that is offered, exchanged, and was paid in the last clearings.
#[utoipa::path(get, path = "/v1/market", responses((status = 200, body = MarketView)))]
async fn market(State(shared): State<Shared>) -> Answer<MarketView> {
    ask(&shared, Request::Market).await.map(Json)
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
    ConnectInfo(Caller(caller)): ConnectInfo<Caller>,
    query: Result<Query<TradersQuery>, axum::extract::rejection::QueryRejection>,
) -> Answer<TradersView> {
    let Query(TradersQuery { who }) = query.map_err(bad_query)?;
    let caller = known(caller)?;
    let who = who.unwrap_or_default();
    let who: Vec<CurrencyRef> =
        who.split(',').filter(|it| !it.is_empty()).map(CurrencyRef::from).collect();
    if who.len() > TRADERS_MAX {
        let message = format!("{} are asked for; at most {TRADERS_MAX} at a time", who.len());
        return Err(Failure(trouble("invalid", message)));
    }
    let found = ask(&shared, |reply| Request::Traders(caller, who, reply)).await?;
    found.map(Json).map_err(Failure)
}

/// What was measured last.
#[utoipa::path(get, path = "/v1/sample", responses((status = 200, body = Sample)))]
async fn sample(State(shared): State<Shared>) -> Answer<Sample> {
    ask(&shared, Request::Sample).await.map(Json)
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
    query: Result<Query<SamplesQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Failure> {
    let Query(SamplesQuery { interval_ms }) = query.map_err(bad_query)?;
    let interval_ms = interval_ms.unwrap_or(1000);
    if !(100..=60_000).contains(&interval_ms) {
        let message = format!("interval_ms is {interval_ms}; it must be 100 to 60000");
        return Err(Failure(trouble("invalid", message)));
    }
    let mut every = tokio::time::interval(Duration::from_millis(interval_ms));
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (lines, body) = line_stream();
    tokio::spawn(async move {
        let mut ending = shared.ending.clone();
        loop {
            tokio::select! {
                _ = every.tick() => {}
                _ = ending.wait_for(|ending| *ending) => return,
                () = lines.closed() => return,
            }
            let Ok(sample) = ask(&shared, Request::Sample).await else { return };
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
    query: Result<Query<EventsQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Failure> {
    let Query(EventsQuery { after, follow }) = query.map_err(bad_query)?;
    // Subscribe first, so that nothing falls between what is kept and what comes.
    let mut coming = shared.events.subscribe();
    let mut kept = match after {
        Some(after) => kept_events(&shared, after).await?,
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
                match kept_events(&shared, end).await {
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
                    match kept_events(&shared, seen).await {
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

/// The next page of those that are kept.
async fn kept_events(shared: &Shared, after: u64) -> Result<Vec<Event>, Failure> {
    let page = ask(shared, |reply| Request::Events(after, reply)).await?;
    page.map_err(|body| Failure(body.error))
}

/// What this machine offers, and what allot makes of it.
#[utoipa::path(get, path = "/v1/doctor", responses((status = 200, body = Doctor)))]
async fn doctor_(State(shared): State<Shared>) -> Answer<Doctor> {
    let status = ask(&shared, Request::Status).await?;
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
    ConnectInfo(Caller(caller)): ConnectInfo<Caller>,
    query: Result<Query<TraceQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Failure> {
    let Query(TraceQuery { client }) = query.map_err(bad_query)?;
    let caller = known(caller)?;
    let traced = ask(&shared, |reply| Request::Trace(caller, reply)).await?;
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

/// Who draws.
#[utoipa::path(get, path = "/v1/policy", responses((status = 200, body = PolicyView)))]
async fn policy(State(shared): State<Shared>) -> Answer<PolicyView> {
    ask(&shared, Request::Policy).await.map(Json)
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
    ConnectInfo(Caller(caller)): ConnectInfo<Caller>,
    body: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> Answer<PolicyView> {
    let invalid = |message: String| Failure(trouble("invalid", message));
    let caller = known(caller)?;
    let body = body.map_err(|error| invalid(format!("the request cannot be read: {error}")))?;
    let SetPolicy { policy } = serde_json::from_slice(&body)
        .map_err(|error| invalid(format!("the request names no policy: {error}")))?;
    let policy =
        policy.parse().map_err(|error: policy::UnknownPolicy| invalid(error.to_string()))?;
    let set = ask(&shared, |reply| Request::SetPolicy { caller, policy, reply }).await?;
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
    ConnectInfo(Caller(caller)): ConnectInfo<Caller>,
    body: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> Answer<OperationsDone> {
    let invalid = |message: String| Failure(trouble("invalid", message));
    let caller = known(caller)?;
    let body = body.map_err(|error| {
        invalid(format!("the request cannot be read (at most {BODY_MAX_BYTES} bytes): {error}"))
    })?;
    let Operations { operations } = serde_json::from_slice(&body)
        .map_err(|error| invalid(format!("the request is no list of operations: {error}")))?;
    if operations.is_empty() || operations.len() > OPERATIONS_MAX {
        let count = operations.len();
        return Err(invalid(format!("{count} operations; a request has 1 to {OPERATIONS_MAX}")));
    }
    let done = ask(&shared, |reply| Request::Operate { caller, operations, reply }).await?;
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
        Failure(trouble("forbidden", "the kernel does not say who you are; connect anew"))
    })
}

fn trace_line(event: &enforce::scx::Event) -> TraceLine {
    use enforce::scx::EventKind;
    TraceLine {
        at_ns: event.at_ns,
        kind: match event.kind {
            EventKind::Join => TraceKind::Join,
            EventKind::Queue => TraceKind::Queue,
            EventKind::Win => TraceKind::Win,
            EventKind::Charge => TraceKind::Charge,
            EventKind::Leave => TraceKind::Leave,
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
    Failure(trouble("invalid", error.to_string()))
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
