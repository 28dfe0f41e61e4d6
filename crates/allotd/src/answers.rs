//! Rules of every request and answer: a body comes in time, and nobody lets answers pile up that they do not take.

use crate::connection::{Answering, Caller, Counted, Tally};
use crate::server::Failure;
use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio_stream::Stream;
use wire::{ApiError, ErrorCode};

/// The largest request.
pub const BODY_MAX_BYTES: usize = 1 << 20;
/// From a request's head to the end of its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of answers that wait for an ordinary person to take them.
const UNREAD_MAX_BYTES: usize = 32 << 20;
/// The most for all of them together.
const UNREAD_IN_ALL_BYTES: usize = 256 << 20;
/// An answer is handed to its connection in such pieces, so that no connection holds a whole one.
const PIECE_BYTES: usize = 64 << 10;

/// Bytes of answers that persons have not taken.
pub type Unread = Tally;

/// Lets a request through once it is there as a whole, and its answer as its caller takes it.
pub async fn bounded(State(unread): State<Unread>, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<ConnectInfo<Caller>>().map(|it| it.0.clone());
    let answering = caller.as_ref().map(|caller| caller.activity.begin());
    let (parts, body) = request.into_parts();
    let invalid = |message| Failure(ApiError::new(ErrorCode::Invalid, message)).into_response();
    let body = match tokio::time::timeout(BODY_TIMEOUT, whole(body)).await {
        Ok(Ok(body)) => body,
        Ok(Err(why)) => {
            return invalid(format!(
                "the request cannot be read (at most {BODY_MAX_BYTES} bytes): {why}"
            ));
        }
        Err(_) => {
            let seconds = BODY_TIMEOUT.as_secs();
            return invalid(format!("the request's body did not come within {seconds} s"));
        }
    };
    let (mut parts, body) = next.run(Request::from_parts(parts, body.into())).await.into_parts();
    let Some(length) = body.size_hint().exact() else {
        let stream = AnswerStream { stream: body.into_data_stream(), _answering: answering };
        return Response::from_parts(parts, Body::from_stream(stream));
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let unread = match caller.map_or(u32::MAX, |caller| caller.person) {
        0 => None,
        person => match unread.count(person, length, UNREAD_MAX_BYTES, UNREAD_IN_ALL_BYTES) {
            Some(counted) => Some(counted),
            None => return too_much_unread(person, length),
        },
    };
    let rest = axum::body::to_bytes(body, length).await.unwrap_or_default();
    parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(rest.len()));
    let pieces = Pieces { rest, _answering: answering, _unread: unread };
    Response::from_parts(parts, Body::from_stream(pieces))
}

async fn whole(body: Body) -> Result<Bytes, axum::Error> {
    axum::body::to_bytes(body, BODY_MAX_BYTES).await
}

fn too_much_unread(uid: u32, length: usize) -> Response {
    let message = format!(
        "answers of more than {UNREAD_MAX_BYTES} bytes would wait for uid {uid}, with this one of {length}: take those \
         that were asked for, or ask for a page (GET /v1/ledger?after=0&limit=1000)"
    );
    Failure(ApiError::new(ErrorCode::Limit, message)).into_response()
}

/// An answer of known length, a piece at a time.
struct Pieces {
    rest: Bytes,
    _answering: Option<Answering>,
    _unread: Option<Counted>,
}

impl Stream for Pieces {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.rest.len().min(PIECE_BYTES);
        Poll::Ready((next > 0).then(|| Ok(self.rest.split_to(next))))
    }
}

/// An answer that goes on.
struct AnswerStream {
    stream: BodyDataStream,
    _answering: Option<Answering>,
}

impl Stream for AnswerStream {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.stream).poll_next(context)
    }
}
