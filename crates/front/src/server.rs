//! HTTP with JSON: parses what callers send, and shows them what the keeper answers. It knows neither who calls nor what is
//! true of the ledger.

use crate::answers;
use crate::connection::Peer;
use crate::link::{Answer, Link};
use crate::message::Request;
use crate::tally::Tally;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use utoipa::OpenApi;
use wire::{
    ApiError, CurrencyRef, Doctor, ErrorBody, ErrorCode, Event, LedgerView, MarketView, Operations,
    OperationsDone, PolicyView, Sample, SetPolicy, Status, TradersView,
};

/// An answer that is not a success.
pub struct Failure(pub ApiError);

/// The keeper's answer, or why it was not asked.
type Answered = Result<Answer, Failure>;

type Asked<T> = Result<Query<T>, QueryRejection>;

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.http_status());
        let status = status.expect("the table has HTTP statuses");
        (status, Json(ErrorBody { error: self.0 })).into_response()
    }
}

fn invalid(message: String) -> Failure {
    Failure(ApiError::new(ErrorCode::Invalid, message))
}

/// The keeper, asked for one connection.
async fn ask(link: &Arc<Link>, peer: &Peer, request: Request) -> Answered {
    link.ask(peer.number, request).await.map_err(Failure)
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
        status, ledger, market, traders, sample, samples, events, audit, trace, doctor, policy,
        set_policy, operations, openapi
    ),
    components(schemas(ErrorBody))
)]
pub struct Description;

/// All routes.
pub fn router(link: Arc<Link>) -> Router {
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
        .route("/v1/doctor", get(doctor))
        .route("/v1/policy", get(policy).put(set_policy))
        .route("/v1/operations", post(operations))
        .route("/v1/openapi.json", get(openapi))
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(axum::middleware::from_fn_with_state(Tally::default(), answers::bounded))
        .with_state(link)
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

/// How allotd is set up.
#[utoipa::path(get, path = "/v1/status", responses((status = 200, body = Status)))]
async fn status(State(link): State<Arc<Link>>, ConnectInfo(peer): ConnectInfo<Peer>) -> Answered {
    ask(&link, &peer, Request::Status).await
}

#[derive(Deserialize)]
struct LedgerQuery {
    after: Option<u64>,
    limit: Option<u64>,
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
    State(link): State<Arc<Link>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    query: Asked<LedgerQuery>,
) -> Answered {
    let Query(LedgerQuery { after, limit }) = query.map_err(bad_query)?;
    ask(&link, &peer, Request::Ledger { after, limit }).await
}

/// All that is offered, exchanged, and was paid in the last clearings.
#[utoipa::path(get, path = "/v1/market", responses((status = 200, body = MarketView)))]
async fn market(State(link): State<Arc<Link>>, ConnectInfo(peer): ConnectInfo<Peer>) -> Answered {
    ask(&link, &peer, Request::Market).await
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
    State(link): State<Arc<Link>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    query: Asked<TradersQuery>,
) -> Answered {
    let Query(TradersQuery { who }) = query.map_err(bad_query)?;
    let who = who.unwrap_or_default();
    // Each once.
    let who: BTreeSet<&str> = who.split(',').filter(|it| !it.is_empty()).collect();
    ask(&link, &peer, Request::Traders { who: who.into_iter().map(CurrencyRef::from).collect() })
        .await
}

/// The last measurements.
#[utoipa::path(get, path = "/v1/sample", responses((status = 200, body = Sample)))]
async fn sample(State(link): State<Arc<Link>>, ConnectInfo(peer): ConnectInfo<Peer>) -> Answered {
    ask(&link, &peer, Request::Sample).await
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
    State(link): State<Arc<Link>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    query: Asked<SamplesQuery>,
) -> Answered {
    let Query(SamplesQuery { interval_ms }) = query.map_err(bad_query)?;
    ask(&link, &peer, Request::Samples { interval_ms }).await
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
    State(link): State<Arc<Link>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    query: Asked<EventsQuery>,
) -> Answered {
    let Query(EventsQuery { after, follow }) = query.map_err(bad_query)?;
    ask(&link, &peer, Request::Events { after, follow }).await
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
    State(link): State<Arc<Link>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    query: Asked<AuditQuery>,
) -> Answered {
    let Query(AuditQuery { since_unix_ms }) = query.map_err(bad_query)?;
    ask(&link, &peer, Request::Audit { since_unix_ms }).await
}

/// The report on this machine: its resources, and how allot shares them.
#[utoipa::path(get, path = "/v1/doctor", responses((status = 200, body = Doctor)))]
async fn doctor(State(link): State<Arc<Link>>, ConnectInfo(peer): ConnectInfo<Peer>) -> Answered {
    ask(&link, &peer, Request::Doctor).await
}

#[derive(Deserialize)]
struct TraceQuery {
    client: Option<u64>,
}

/// The choices of the scheduler, one a line (paper 3, table 4). It makes every choice
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
    State(link): State<Arc<Link>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    query: Asked<TraceQuery>,
) -> Answered {
    let Query(TraceQuery { client }) = query.map_err(bad_query)?;
    ask(&link, &peer, Request::Trace { client }).await
}

/// The current scheduling policy.
#[utoipa::path(get, path = "/v1/policy", responses((status = 200, body = PolicyView)))]
async fn policy(State(link): State<Arc<Link>>, ConnectInfo(peer): ConnectInfo<Peer>) -> Answered {
    ask(&link, &peer, Request::Policy).await
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
    State(link): State<Arc<Link>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    body: Bytes,
) -> Answered {
    let SetPolicy { policy } = serde_json::from_slice(&body)
        .map_err(|error| invalid(format!("the request names no policy: {error}")))?;
    ask(&link, &peer, Request::SetPolicy { policy }).await
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
    State(link): State<Arc<Link>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    body: Bytes,
) -> Answered {
    let Operations { operations } = serde_json::from_slice(&body)
        .map_err(|error| invalid(format!("the request is no list of operations: {error}")))?;
    ask(&link, &peer, Request::Operate { operations }).await
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

fn bad_query(error: QueryRejection) -> Failure {
    invalid(error.to_string())
}
