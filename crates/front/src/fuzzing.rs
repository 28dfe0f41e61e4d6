//! The fuzz target `front`: bytes of a connection, and messages on the line between the front and the keeper's process.

use crate::codec::{frame, frames, message};
use crate::connection::Peer;
use crate::door::{Door, NewConnection, pass};
use crate::link::Link;
use crate::message::{AnswerHead, BodyKind, FromFront, ToFront};
use crate::server::router;
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixDatagram, UnixStream};
use tokio::sync::watch;
use tokio_stream::StreamExt;

const CONNECTION: NewConnection = NewConnection { number: 7, person: 1000 };

/// Takes inputs whose first byte is even for a connection's bytes, the others for a message.
pub fn front(bytes: &[u8]) {
    match bytes.split_first() {
        Some((kind, rest)) if kind % 2 == 0 => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(connection(rest));
        }
        Some((_, rest)) => messages(rest),
        None => {}
    }
}

/// Reads a message as either end does: one that can be read can be sent again.
fn messages(bytes: &[u8]) {
    if let Ok(read) = message::<FromFront>(bytes) {
        let sent = frame(&read).expect("it is short");
        let again: FromFront = message(&sent[4..]).expect("what was sent can be read");
        assert_eq!(format!("{again:?}"), format!("{read:?}"));
    }
    if let Ok(read) = message::<ToFront>(bytes) {
        let sent = frame(&read).expect("it is short");
        message::<ToFront>(&sent[4..]).expect("what was sent can be read");
    }
}

/// Sends bytes to the front of a keeper that answers everything; what comes back is a proper answer, or the end.
async fn connection(bytes: &[u8]) {
    let (line, keeper) = UnixStream::pair().expect("a pair");
    let (door, porter) = UnixDatagram::pair().expect("a pair");
    let (mut caller, called) = UnixStream::pair().expect("a pair");
    pass(&porter, &called, CONNECTION).expect("there is room");
    drop(called);
    let (link, line) = Link::new(line);
    let (end, _ending) = watch::channel(false);
    let app = router(link.clone()).into_make_service_with_connect_info::<Peer>();
    let serving = axum::serve(Door::new(door, link.clone()), app);
    let calling = async {
        // It may have been closed by then.
        let _ = caller.write_all(bytes).await;
        let _ = caller.shutdown().await;
        let mut answer = Vec::new();
        let _ = caller.read_to_end(&mut answer).await;
        answer
    };
    tokio::select! {
        answer = calling => check(&answer),
        served = async { serving.await } => panic!("{served:?}"),
        gone = line.serve(link, end) => panic!("{gone}"),
        () = keep(keeper) => panic!("the front has left"),
    }
}

fn check(answer: &[u8]) {
    if answer.is_empty() {
        return;
    }
    let head = answer.strip_prefix(b"HTTP/1.").expect("an answer is HTTP");
    let status = head.get(2..5).and_then(|it| std::str::from_utf8(it).ok()?.parse::<u16>().ok());
    let status = status.expect("an answer has a status");
    assert!(matches!(status, 100 | 200 | 400..=499), "{status}");
}

/// The keeper's end: reads whatever comes, and answers what is asked.
async fn keep(keeper: UnixStream) {
    let (incoming, mut outgoing) = keeper.into_split();
    let mut incoming = frames(incoming);
    while let Some(Ok(asked)) = incoming.next().await {
        let asked = message::<FromFront>(&asked).expect("what the front sends can be read");
        let FromFront::Ask { connection, number, .. } = asked else { continue };
        assert_eq!(connection, CONNECTION.number);
        let bytes = Bytes::from_static(b"{}");
        let kind = BodyKind::Json { length: bytes.len() as u64 };
        let head = Some(AnswerHead { status: 200, kind });
        let answer = ToFront::Answer { number, head, bytes, is_last: true };
        let answer = frame(&answer).expect("it is short");
        outgoing.write_all(&answer).await.expect("the front reads");
    }
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[test]
fn the_corpus_of_connections_is_answered_or_closed() {
    replay::replay("front", 1_000, front);
}
