//! The line to the keeper's process: requests go out under their connection's number, answers come back in pieces.

use crate::codec::{Frames, frame, frames, message, write_frames};
use crate::message::{AnswerHead, FromFront, Request, ToFront};
use bytes::Bytes;
use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio_stream::{Stream, StreamExt};
use wire::{ApiError, ErrorCode};

/// The most frames that are taken from the queue to be written at once.
const BATCH_FRAMES: usize = 32;

/// A piece of an answer.
struct Piece {
    head: Option<AnswerHead>,
    bytes: Bytes,
    is_last: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Link {
    out: mpsc::UnboundedSender<Bytes>,
    waiting: Mutex<Waiting>,
}

/// The requests that are being answered.
#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    answers: HashMap<u64, mpsc::UnboundedSender<Piece>>,
}

/// The halves of the line that are served while the front runs.
pub struct Line {
    incoming: Frames<OwnedReadHalf>,
    outgoing: OwnedWriteHalf,
    frames: mpsc::UnboundedReceiver<Bytes>,
}

/// The reason why there is no answer.
fn ending() -> ApiError {
    ApiError::new(ErrorCode::Internal, "allotd is ending")
}

impl Link {
    /// Splits a line into what requests need and what has to be [served](Line::serve).
    pub fn new(line: UnixStream) -> (Arc<Link>, Line) {
        let (incoming, outgoing) = line.into_split();
        // Bounded by the keeper: a connection has one request, and an answer a window.
        let (out, waiting_frames) = mpsc::unbounded_channel();
        let link = Link { out, waiting: Mutex::default() };
        let line = Line { incoming: frames(incoming), outgoing, frames: waiting_frames };
        (Arc::new(link), line)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what is always short enough.
    pub fn tell(&self, told: &FromFront) {
        // Where the line has ended, so does this process.
        let _ = self.out.send(frame(told).expect("it is short"));
    }

    /// Returns what tells of a connection's end when it is dropped.
    pub fn closing(self: &Arc<Self>, connection: u64) -> Closing {
        Closing { link: Some(Arc::clone(self)), connection }
    }

    /// Asks for something, and waits for the first piece of the answer.
    ///
    /// # Errors
    /// When the request is too long, or allotd ends.
    pub async fn ask(
        self: &Arc<Self>,
        connection: u64,
        request: Request,
    ) -> Result<Answer, ApiError> {
        let (pieces, rest) = mpsc::unbounded_channel();
        let number = {
            let mut waiting = self.waiting();
            waiting.last += 1;
            waiting.last
        };
        let asked = frame(&FromFront::Ask { connection, number, request });
        let asked = asked.map_err(|error| ApiError::new(ErrorCode::Invalid, error.to_string()))?;
        self.waiting().answers.insert(number, pieces);
        let link = Arc::clone(self);
        let mut body =
            AnswerBody { link, connection, number, first: None, pieces: rest, has_ended: false };
        self.out.send(asked).map_err(|_| ending())?;
        let first = body.pieces.recv().await.ok_or_else(ending)?;
        body.has_ended = first.is_last;
        body.first = Some(first.bytes).filter(|bytes| !bytes.is_empty());
        Ok(Answer { head: first.head.ok_or_else(ending)?, body })
    }

    fn arrived(&self, arrived: ToFront) -> bool {
        let ToFront::Answer { number, head, bytes, is_last } = arrived else { return true };
        let mut waiting = self.waiting();
        // Where nobody waits any more the keeper has been told.
        if let Some(answer) = waiting.answers.get(&number) {
            let _ = answer.send(Piece { head, bytes, is_last });
        }
        if is_last {
            waiting.answers.remove(&number);
        }
        false
    }
}

impl Line {
    /// Carries messages both ways; turns `ending` true when the keeper says that everything ends.
    ///
    /// # Errors
    /// When the keeper's process is gone.
    pub async fn serve(self, link: Arc<Link>, ending: watch::Sender<bool>) -> io::Error {
        let Line { mut incoming, outgoing, mut frames } = self;
        let reading = async {
            while let Some(next) = incoming.next().await {
                if link.arrived(message(&next?).map_err(io::Error::other)?) {
                    let _ = ending.send(true);
                }
            }
            Err(io::ErrorKind::UnexpectedEof.into())
        };
        let ended: io::Result<()> = tokio::select! {
            read = reading => read,
            written = write_frames(outgoing, |context, all| {
                frames.poll_recv_many(context, all, BATCH_FRAMES)
            }) => written,
        };
        ended.err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

/// Tells the keeper of a connection's end when it is dropped.
#[derive(Debug)]
pub struct Closing {
    link: Option<Arc<Link>>,
    connection: u64,
}

impl Closing {
    #[cfg(test)]
    pub fn of_nothing() -> Closing {
        Closing { link: None, connection: 0 }
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(link) = &self.link {
            link.tell(&FromFront::Closed { connection: self.connection });
        }
    }
}

/// An answer that has begun.
pub struct Answer {
    pub head: AnswerHead,
    pub body: AnswerBody,
}

/// The pieces of an answer. The keeper is told of each that is taken, and when this is dropped before its end.
pub struct AnswerBody {
    link: Arc<Link>,
    connection: u64,
    number: u64,
    first: Option<Bytes>,
    pieces: mpsc::UnboundedReceiver<Piece>,
    /// The last piece has come.
    has_ended: bool,
}

impl AnswerBody {
    /// Notes that the caller takes a piece. The keeper waits for no word of the last one.
    fn takes(&self, bytes: Bytes) -> Poll<Option<io::Result<Bytes>>> {
        if !self.has_ended {
            let AnswerBody { connection, number, .. } = *self;
            let bytes = u32::try_from(bytes.len()).expect("a piece is short");
            self.link.tell(&FromFront::Taken { connection, number, bytes });
        }
        Poll::Ready(Some(Ok(bytes)))
    }
}

impl Stream for AnswerBody {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return self.takes(first);
        }
        if self.has_ended {
            return Poll::Ready(None);
        }
        let Some(piece) = ready!(self.pieces.poll_recv(context)) else {
            self.has_ended = true;
            return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
        };
        self.has_ended = piece.is_last;
        match piece.is_last && piece.bytes.is_empty() {
            true => Poll::Ready(None),
            false => self.takes(piece.bytes),
        }
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.link.waiting().answers.remove(&self.number);
        if !self.has_ended {
            let AnswerBody { connection, number, .. } = *self;
            self.link.tell(&FromFront::Left { connection, number });
        }
    }
}
