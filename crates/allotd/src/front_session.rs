//! One life of a front: connections go to it, requests and answers come and go. Nothing that it says is believed but what its
//! callers ask for: who calls is looked up under the connection's number, and a front that does not keep to the protocol
//! is ended.

use crate::answer_flow::{AnswerFlow, TookTooMuch};
use crate::connections::{Asking, Connections, NotAsked};
use crate::fair_queue::Person;
use crate::listener::Gate;
use crate::requests::{Shared, answer};
use bytes::Bytes;
use front::{
    CodecError, Frames, FromFront, NewConnection, Request, ToFront, frame, frames, message, pass,
    thread_time, write_frames,
};
use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixDatagram, UnixStream};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_util::time::DelayQueue;

#[cfg(test)]
mod tests;

/// The most frames that wait to be written; answers wait before they are made into frames.
const FRAMES_MAX: usize = 32;

/// How long a front has to give up its rights and say that it serves, on a machine that is busy.
const READY_WAIT: Duration = Duration::from_secs(20);

/// The end of a front's life.
#[derive(Debug, thiserror::Error)]
pub enum SessionEnd {
    /// It was told to end, and did.
    #[error("it ended in order")]
    InOrder,
    /// It did not say that it serves.
    #[error("it did not begin to serve")]
    NotReady,
    /// It died, or closed its line.
    #[error("it died")]
    Died,
    /// Its line or its door failed.
    #[error("it cannot be reached: {0}")]
    Lost(#[from] io::Error),
    /// It sent what no front sends.
    #[error("it broke the protocol: {0}")]
    Broke(#[from] Breach),
}

/// A breach of the protocol.
#[derive(Debug, thiserror::Error)]
pub enum Breach {
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error("a frame that is too long")]
    TooLong,
    #[error("connection {0} asks for more than one thing at a time")]
    Busy(u64),
    #[error(transparent)]
    Credit(#[from] TookTooMuch),
    #[error("it said twice that it serves")]
    ReadyTwice,
}

/// The main process's end of a front.
pub struct Session<'a> {
    gate: &'a Gate,
    shared: &'a Arc<Shared>,
    connections: &'a RefCell<Connections>,
    /// Frames to the front.
    out: mpsc::Sender<Bytes>,
    is_ending: Cell<bool>,
    /// Something was asked under a number that no connection has: said once.
    has_guessed: Cell<bool>,
}

impl<'a> Session<'a> {
    /// Serves by a front until it ends. `ready` is called once it serves.
    pub async fn run(
        gate: &'a Gate,
        shared: &'a Arc<Shared>,
        connections: &'a RefCell<Connections>,
        (line, door): (UnixStream, UnixDatagram),
        ready: impl FnOnce(),
    ) -> SessionEnd {
        let (incoming, outgoing) = line.into_split();
        let (out, mut waiting) = mpsc::channel(FRAMES_MAX);
        let (is_ending, has_guessed) = (Cell::new(false), Cell::new(false));
        let session = Session { gate, shared, connections, out, is_ending, has_guessed };
        let mut incoming = frames(incoming);
        match tokio::time::timeout(READY_WAIT, next(&mut incoming)).await {
            Ok(Ok((FromFront::Ready { files }, _))) => {
                tracing::debug!("the front serves, landlock(7): {files:?}");
                shared.doctor.front_serves(files);
                ready();
            }
            Ok(Err(SessionEnd::Died)) | Ok(Ok(_)) | Err(_) => return SessionEnd::NotReady,
            Ok(Err(end)) => return end,
        }
        let ended = tokio::select! {
            ended = session.hear(incoming) => ended,
            lost = session.admit(&door) => lost,
            written = write_frames(outgoing, |context, all| {
                waiting.poll_recv_many(context, all, FRAMES_MAX)
            }) => written.map_err(SessionEnd::from),
        };
        match ended {
            // It ends as soon as nobody is left to serve, before the last word was heard or after.
            Err(SessionEnd::Died | SessionEnd::Lost(_)) if session.is_ending.get() => {
                SessionEnd::InOrder
            }
            Err(end) => end,
            Ok(()) => SessionEnd::Died,
        }
    }

    /// Lets callers in until allotd ends, and then tells the front.
    async fn admit(&self, door: &UnixDatagram) -> Result<(), SessionEnd> {
        let mut ending = self.shared.ending.clone();
        let mut resting = DelayQueue::new();
        loop {
            let admitted = tokio::select! {
                admitted = self.gate.accept() => {
                    self.shared.served.charge(admitted.person, admitted.cost, Instant::now());
                    match self.shared.served.rest(admitted.person, Instant::now()) {
                        Some(rest) => {
                            resting.insert(admitted, rest);
                            continue;
                        }
                        None => admitted,
                    }
                }
                Some(rested) = resting.next(), if !resting.is_empty() => rested.into_inner(),
                _ = ending.wait_for(|ending| *ending) => break,
            };
            let (person, began) = (admitted.person, thread_time());
            let number = self.connections.borrow_mut().add(admitted);
            door.async_io(Interest::WRITABLE, || {
                let connections = self.connections.borrow();
                let (socket, person) = connections.socket(number).expect("it was just added");
                pass(door, socket, NewConnection { number, person })
            })
            .await?;
            self.shared.served.charge(person, thread_time() - began, Instant::now());
        }
        self.is_ending.set(true);
        let end = frame(&ToFront::End).expect("it is short");
        let _ = self.out.send(end).await;
        // The front closes the line once all answers are given.
        std::future::pending().await
    }

    /// Does what the front says, until it says something that no front says.
    async fn hear(&self, mut incoming: Frames<OwnedReadHalf>) -> Result<(), SessionEnd> {
        loop {
            let (message, cost) = next(&mut incoming).await?;
            match message {
                FromFront::Ready { .. } => return Err(Breach::ReadyTwice.into()),
                FromFront::Ask { connection, number, request } => {
                    self.asked((connection, number), request, cost)?;
                }
                FromFront::Taken { connection, number, bytes } => {
                    // An answer that has ended needs no credit.
                    if let Some(credit) = self.connections.borrow().credit(connection, number) {
                        credit.took(bytes).map_err(Breach::from)?;
                    }
                }
                FromFront::Left { connection, number } => {
                    self.connections.borrow_mut().leave(connection, number);
                }
                FromFront::Closed { connection } => {
                    self.connections.borrow_mut().close(connection);
                }
            }
        }
    }

    /// Has a request answered that took so much CPU time to read.
    fn asked(
        &self,
        (connection, number): (u64, u64),
        request: Request,
        cost: Duration,
    ) -> Result<(), Breach> {
        let asking = match self.connections.borrow_mut().ask(connection, number) {
            Ok(asking) => asking,
            Err(NotAsked::Busy) => return Err(Breach::Busy(connection)),
            Err(NotAsked::Unknown) => {
                // Somebody who hung up a moment ago, or a guess. Nobody waits for an answer.
                if !self.has_guessed.replace(true) {
                    tracing::info!(
                        "a request of connection {connection}, which is closed or never was, is refused; \
                         more of them are not told"
                    );
                }
                return Ok(());
            }
        };
        let Asking { who, person, credit, left, held } = asking;
        self.shared.served.charge(person, cost, Instant::now());
        let shared = Arc::clone(self.shared);
        let flow = AnswerFlow { number, credit, out: self.out.clone() };
        tokio::spawn(async move {
            shared.rest(Person(person)).await;
            // Whoever leaves is counted until this is answered: nobody makes the keeper's work pile up by leaving.
            let answer = answer(&shared, who, request).await;
            let sending = flow.send(answer, person, &shared.unread);
            // Where the front is gone there is nobody to tell.
            let _ = left.run_until_cancelled(sending).await;
            drop(held);
        });
        Ok(())
    }
}

/// The next message of a front, and the CPU time that it took to read.
async fn next(incoming: &mut Frames<OwnedReadHalf>) -> Result<(FromFront, Duration), SessionEnd> {
    match incoming.next().await {
        None => Err(SessionEnd::Died),
        Some(Ok(frame)) => {
            let began = thread_time();
            let message = message(&frame).map_err(Breach::from)?;
            Ok((message, thread_time() - began))
        }
        Some(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
            Err(Breach::TooLong.into())
        }
        // Killed while its last word was on its way.
        Some(Err(_)) => Err(SessionEnd::Died),
    }
}
