//! The way of an answer to the front: in pieces, as fast as its caller takes them, and counted until they are taken.

use crate::requests::{Answer, failure};
use bytes::{Bytes, BytesMut};
use front::{AnswerHead, BodyKind, Counted, PIECE_BYTES, Tally, ToFront, WINDOW_BYTES, frame};
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};
use wire::{ApiError, ErrorCode};

/// The most bytes of answers that wait for an ordinary person to take them.
const UNREAD_MAX_BYTES: usize = 32 << 20;
/// The most for all of them together.
const UNREAD_IN_ALL_BYTES: usize = 256 << 20;

/// The bytes of an answer that may be sent before its caller takes any.
pub struct Credit(Semaphore);

/// More was taken than was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more of an answer was taken than was sent")]
pub struct TookTooMuch;

impl Credit {
    pub fn new() -> Credit {
        Credit(Semaphore::new(WINDOW_BYTES))
    }

    /// Notes that so many bytes were taken.
    ///
    /// # Errors
    /// When so many have not been sent.
    pub fn took(&self, bytes: u32) -> Result<(), TookTooMuch> {
        let bytes = usize::try_from(bytes).map_err(|_| TookTooMuch)?;
        if self.0.available_permits() + bytes > WINDOW_BYTES {
            return Err(TookTooMuch);
        }
        self.0.add_permits(bytes);
        Ok(())
    }
}

/// The front is gone.
#[derive(Clone, Copy, Debug)]
pub struct FrontGone;

/// See the [module](self).
pub struct AnswerFlow {
    /// The number of the request.
    pub number: u64,
    pub credit: Arc<Credit>,
    /// Frames to the front.
    pub out: mpsc::Sender<Bytes>,
}

impl AnswerFlow {
    /// Sends an answer to a person as a whole.
    ///
    /// # Errors
    /// When the front is gone.
    pub async fn send(self, answer: Answer, person: u32, unread: &Tally) -> Result<(), FrontGone> {
        match answer {
            Answer::Whole { status, body } => {
                let (status, body, _counted) = counted(status, body, person, unread);
                self.send_whole(status, body).await
            }
            Answer::Lines(lines) => self.send_lines(lines).await,
        }
    }

    async fn send_whole(&self, status: u16, mut rest: Bytes) -> Result<(), FrontGone> {
        let kind = BodyKind::Json { length: rest.len() as u64 };
        let mut head = Some(AnswerHead { status, kind });
        loop {
            let piece = rest.split_to(rest.len().min(PIECE_BYTES));
            let is_last = rest.is_empty();
            self.send_piece(head.take(), piece, is_last).await?;
            if is_last {
                return Ok(());
            }
        }
    }

    async fn send_lines(&self, mut lines: mpsc::Receiver<Bytes>) -> Result<(), FrontGone> {
        // Before the first line, which may be long in coming.
        let head = AnswerHead { status: 200, kind: BodyKind::Lines };
        self.send_piece(Some(head), Bytes::new(), false).await?;
        while let Some(line) = lines.recv().await {
            let mut ready = BytesMut::from(line);
            while ready.len() < PIECE_BYTES
                && let Ok(line) = lines.try_recv()
            {
                ready.extend_from_slice(&line);
            }
            while !ready.is_empty() {
                let piece = ready.split_to(ready.len().min(PIECE_BYTES)).freeze();
                self.send_piece(None, piece, false).await?;
            }
        }
        self.send_piece(None, Bytes::new(), true).await
    }

    async fn send_piece(
        &self,
        head: Option<AnswerHead>,
        bytes: Bytes,
        is_last: bool,
    ) -> Result<(), FrontGone> {
        if !is_last {
            let length = u32::try_from(bytes.len()).expect("a piece is short");
            self.credit.0.acquire_many(length).await.map_err(|_| FrontGone)?.forget();
        }
        let answer = ToFront::Answer { number: self.number, head, bytes, is_last };
        let frame = frame(&answer).expect("a piece is short");
        self.out.send(frame).await.map_err(|_| FrontGone)
    }
}

/// An answer with its count, or the refusal of one that is too much.
fn counted(status: u16, body: Bytes, person: u32, unread: &Tally) -> (u16, Bytes, Option<Counted>) {
    let length = body.len();
    if person == 0 {
        return (status, body, None);
    }
    if let Some(counted) = unread.count(person, length, UNREAD_MAX_BYTES, UNREAD_IN_ALL_BYTES) {
        return (status, body, Some(counted));
    }
    let message = format!(
        "answers of more than {UNREAD_MAX_BYTES} bytes would wait for uid {person}, with this one of {length}: take those \
         that were asked for, or ask for a page (GET /v1/ledger?after=0&limit=1000)"
    );
    let (status, body) = failure(ApiError::new(ErrorCode::Limit, message));
    (status, body, None)
}
