//! Frames on the line between the keeper's process and the front: a length of four bytes, the greatest first, and a message
//! as CBOR.
//!
//! The operations of the interface name themselves by a field (`"operation": "fund"`), which a format that describes
//! itself can carry and `postcard` cannot.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufWriter};
use tokio_util::codec::{FramedRead, LengthDelimitedCodec};

/// The longest message. A request of 1 MiB of JSON is shorter as CBOR but for defaults that are written out.
const FRAME_MAX_BYTES: usize = 2 << 20;

/// The bytes of a frame's length.
const LENGTH_BYTES: usize = size_of::<u32>();

/// Messages as they come over a line, each without its length.
pub type Frames<R> = FramedRead<R, LengthDelimitedCodec>;

/// The reason why a message cannot be sent or read.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The message is too long.
    #[error("a message of {0} bytes; the longest has {FRAME_MAX_BYTES}")]
    TooLong(usize),
    /// The message cannot be written as CBOR.
    #[error("a message cannot be written: {0}")]
    Write(String),
    /// The bytes are no such message.
    #[error("a message cannot be read: {0}")]
    Read(String),
    /// More bytes follow the message.
    #[error("{0} bytes too many in a message")]
    Rest(usize),
}

/// Returns a message as a frame.
///
/// # Errors
/// When it is too long.
pub fn frame(message: &impl Serialize) -> Result<Bytes, CodecError> {
    let mut text = vec![0; LENGTH_BYTES];
    ciborium::into_writer(message, &mut text)
        .map_err(|error| CodecError::Write(error.to_string()))?;
    let length = text.len() - LENGTH_BYTES;
    let short = u32::try_from(length).ok().filter(|_| length <= FRAME_MAX_BYTES);
    let short = short.ok_or(CodecError::TooLong(length))?;
    text[..LENGTH_BYTES].copy_from_slice(&short.to_be_bytes());
    Ok(Bytes::from(text))
}

/// Reads a message from a frame without its length.
///
/// # Errors
/// When the frame is not one message.
pub fn message<T: DeserializeOwned>(mut frame: &[u8]) -> Result<T, CodecError> {
    let message = ciborium::from_reader(&mut frame);
    let message = message.map_err(|error| CodecError::Read(error.to_string()))?;
    match frame.len() {
        0 => Ok(message),
        rest => Err(CodecError::Rest(rest)),
    }
}

/// Returns the frames that come over a line. One that is too long is an error.
pub fn frames<R: AsyncRead>(line: R) -> Frames<R> {
    LengthDelimitedCodec::builder().max_frame_length(FRAME_MAX_BYTES).new_read(line)
}

/// Writes frames to a line until there are no more; those that are ready at once go in one write. `ready` adds them to
/// what it is given and returns how many, as a channel's `poll_recv_many` does; 0 is the end.
///
/// # Errors
/// When the line fails.
pub async fn write_frames(
    line: impl AsyncWrite + Unpin,
    mut ready: impl FnMut(&mut Context<'_>, &mut Vec<Bytes>) -> Poll<usize>,
) -> io::Result<()> {
    let mut line = BufWriter::new(line);
    let mut frames = Vec::new();
    while poll_fn(|context| ready(context, &mut frames)).await > 0 {
        for frame in frames.drain(..) {
            line.write_all(&frame).await?;
        }
        line.flush().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{FromFront, Request};
    use wire::Operations;

    /// Operations of every shape: with fields that are left out, flattened, renamed, nested.
    const OPERATIONS: &str = r##"{"operations": [
        {"operation": "create_currency", "name": "ä\u0000\"", "owner": 4294967295},
        {"operation": "fund", "currency": "a", "from": "base", "resource": "cpu", "kind": "hard",
         "amount": 18446744073709551615},
        {"operation": "fund", "currency": "a", "from": "base", "resource": "cpu", "amount": 0},
        {"operation": "unfund", "currency": "a", "from": "base", "resource": "disk:sda"},
        {"operation": "adopt"},
        {"operation": "adopt_cgroup", "cgroup": "/build", "funding":
         [{"resource": "cpu", "amount": 7}, {"resource": "memory", "kind": "hard", "amount": 8}]},
        {"operation": "join", "member": {"thread": 4}, "client": "#7"},
        {"operation": "leave", "member": {"cgroup": "/a"}},
        {"operation": "set_class", "class": "guest"},
        {"operation": "limit_disk", "currency": "a", "disk": "sda", "reads": 100},
        {"operation": "offer", "for": "a", "gives": {"resource": "cpu"}, "wants":
         {"resource": "memory", "kind": "hard"}, "points": [{"give": 1, "want": 2}], "lease":
         {"offer_until_s": 1, "exchange_until_s": 2}},
        {"operation": "exchange", "legs": [{"from": "a", "to": "b", "good": {"resource": "cpu"},
         "amount": 3}], "until_s": 4},
        {"operation": "renew_exchange", "exchange": 9, "for": "b"},
        {"operation": "set_base", "uid": 1000, "amount": 5}
    ]}"##;

    fn ask() -> FromFront {
        let Operations { operations } = serde_json::from_str(OPERATIONS).expect("operations");
        FromFront::Ask { connection: 1, number: u64::MAX, request: Request::Operate { operations } }
    }

    #[test]
    fn operations_of_every_shape_arrive_as_they_were() {
        let FromFront::Ask { request: sent, .. } = ask() else { unreachable!() };
        let frame = frame(&ask()).expect("short");
        assert_eq!(frame[..4], u32::to_be_bytes(frame.len() as u32 - 4));
        let FromFront::Ask { connection, number, request } =
            message(&frame[4..]).expect("a message")
        else {
            panic!("another message")
        };
        assert_eq!((connection, number, request), (1, u64::MAX, sent));
    }

    #[test]
    fn what_is_cut_too_long_or_nonsense_is_refused() {
        let whole = frame(&ask()).expect("short");
        for end in 4..whole.len() {
            assert!(message::<FromFront>(&whole[4..end]).is_err(), "cut at {end}");
        }
        let more = [&whole[4..], b"\0"].concat();
        assert!(matches!(message::<FromFront>(&more), Err(CodecError::Rest(1))));
        let much = vec![0u64; FRAME_MAX_BYTES];
        assert!(matches!(frame(&much), Err(CodecError::TooLong(_))));
        // Deep nesting, and a length that is a lie.
        assert!(message::<FromFront>(&vec![0x81; FRAME_MAX_BYTES]).is_err());
        assert!(
            message::<FromFront>(&[0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).is_err()
        );
    }

    #[test]
    fn the_most_that_a_caller_may_send_fits() {
        // Defaults are written out: of all operations these grow most.
        let amount = r#"{"resource":"cpu","amount":1}"#;
        let amounts = vec![amount; (1 << 20) / (amount.len() + 1)].join(",");
        let text = format!(r#"{{"operations":[{{"operation":"adopt","funding":[{amounts}]}}]}}"#);
        let Operations { operations } = serde_json::from_str(&text).expect("operations");
        let request = Request::Operate { operations };
        let ask = FromFront::Ask { connection: u64::MAX, number: u64::MAX, request };
        assert!(frame(&ask).is_ok());
    }
}
