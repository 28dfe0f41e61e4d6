//! Rules of every request and answer: a body comes in time, nobody sends more of them at once than they may, and an answer
//! is fetched as its caller takes it.

use crate::connection::{Answering, Peer};
use crate::link::Answer;
use crate::message::{AnswerHead, BodyKind};
use crate::server::Failure;
use crate::tally::Tally;
use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio_stream::Stream;
use wire::{ApiError, ErrorCode};

/// The largest request.
const BODY_MAX_BYTES: usize = 1 << 20;
/// From a request's head to the end of its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of requests of an ordinary person that are on their way in.
const BODIES_MAX_BYTES: usize = 32 << 20;
/// The most of all of them together.
const BODIES_IN_ALL_BYTES: usize = 256 << 20;

/// Lets a request through once it is there as a whole. Its connection waits for us until the answer is taken.
pub async fn bounded(State(bodies): State<Tally>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<Peer>>().map(|it| it.0.clone());
    let answering = peer.as_ref().map(|peer| peer.activity.begin());
    let person = peer.map_or(u32::MAX, |peer| peer.person);
    let request = match whole(&bodies, person, request).await {
        Ok(request) => request,
        Err(error) => return Failure(error).into_response(),
    };
    let (mut parts, body) = next.run(request).await.into_parts();
    if let Some(length) = body.size_hint().exact() {
        parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    let taken = Taken { stream: body.into_data_stream(), _answering: answering };
    Response::from_parts(parts, Body::from_stream(taken))
}

/// Waits for a request's body.
async fn whole(bodies: &Tally, person: u32, request: Request) -> Result<Request, ApiError> {
    let invalid = |message| Err(ApiError::new(ErrorCode::Invalid, message));
    let (parts, body) = request.into_parts();
    let length = body.size_hint().upper().and_then(|most| usize::try_from(most).ok());
    let length = length.unwrap_or(usize::MAX).min(BODY_MAX_BYTES);
    let counted = bodies.count(person, length, BODIES_MAX_BYTES, BODIES_IN_ALL_BYTES);
    if counted.is_none() && person != 0 && length > 0 {
        let message = format!(
            "requests of more than {BODIES_MAX_BYTES} bytes of uid {person} are on their way; send fewer at a time"
        );
        return Err(ApiError::new(ErrorCode::Limit, message));
    }
    let collected = axum::body::to_bytes(body, BODY_MAX_BYTES);
    match tokio::time::timeout(BODY_TIMEOUT, collected).await {
        Ok(Ok(body)) => Ok(Request::from_parts(parts, body.into())),
        Ok(Err(why)) => {
            invalid(format!("the request cannot be read (at most {BODY_MAX_BYTES} bytes): {why}"))
        }
        Err(_) => {
            let seconds = BODY_TIMEOUT.as_secs();
            invalid(format!("the request's body did not come within {seconds} s"))
        }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let Answer { head: AnswerHead { status, kind }, body } = self;
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let (content_type, length) = match kind {
            BodyKind::Json { length } => ("application/json", Some(length)),
            BodyKind::Lines => ("application/x-ndjson", None),
        };
        let mut response =
            (status, [(header::CONTENT_TYPE, content_type)], Body::from_stream(body))
                .into_response();
        if let Some(length) = length {
            response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        response
    }
}

/// An answer whose connection waits for us until it is taken.
struct Taken {
    stream: BodyDataStream,
    _answering: Option<Answering>,
}

impl Stream for Taken {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.stream).poll_next(context)
    }
}
