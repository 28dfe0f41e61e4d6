//! A connection: its number, and how long it may wait for its caller.

use crate::door::NewConnection;
use crate::link::Closing;
use crate::meter::{Meter, thread_time};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::time::{Instant, Sleep};

/// How long a connection waits for its caller.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// From the first byte of a request to the end of its head.
    head: Duration,
    /// From an answer to the next request.
    idle: Duration,
    /// For the caller to take some of an answer.
    write: Duration,
}

const PATIENCE: Patience = Patience {
    head: Duration::from_secs(10),
    idle: Duration::from_secs(300),
    write: Duration::from_secs(30),
};

/// How many requests of a connection are being answered.
#[derive(Clone, Debug, Default)]
pub struct Activity(Arc<AtomicUsize>);

/// A request that is being answered, until it is dropped.
#[derive(Debug)]
pub struct Answering(Activity);

impl Activity {
    /// A request has come as a whole, but for its body.
    pub fn begin(&self) -> Answering {
        self.0.fetch_add(1, Ordering::Relaxed);
        Answering(self.clone())
    }

    fn is_answering(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The facts of a connection that the server is told.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The number by which the keeper knows who it is.
    pub number: u64,
    /// The person whose limits hold for it.
    pub person: u32,
    /// Its requests that are being answered.
    pub activity: Activity,
    /// Tells the keeper of its end.
    _closing: Arc<Closing>,
}

impl Peer {
    pub fn new(new: NewConnection, closing: Closing) -> Peer {
        let NewConnection { number, person } = new;
        Peer { number, person, activity: Activity::default(), _closing: Arc::new(closing) }
    }
}

/// A connection that ends when its caller does not go on.
pub struct Connection {
    stream: UnixStream,
    pub peer: Peer,
    patience: Patience,
    /// Since when its caller has been expected to go on: a head that has begun, or the next request.
    waits_since: Instant,
    head_begun: bool,
    was_answering: bool,
    reading: Option<Pin<Box<Sleep>>>,
    writing: Option<Pin<Box<Sleep>>>,
    meter: Meter,
    /// The rest of a person who has used much of the front.
    resting: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    /// A new one.
    pub fn new(stream: UnixStream, peer: Peer, meter: Meter) -> Connection {
        Connection {
            stream,
            peer,
            patience: PATIENCE,
            waits_since: Instant::now(),
            head_begun: false,
            was_answering: false,
            reading: None,
            writing: None,
            meter,
            resting: None,
        }
    }

    /// Whether its person has to rest before more is read; wakes the task when that is over.
    fn rests(&mut self, context: &mut Context<'_>) -> bool {
        if self.resting.is_none() {
            let rest = self.meter.rest(self.peer.person, std::time::Instant::now());
            self.resting = rest.map(|rest| Box::pin(tokio::time::sleep(rest)));
        }
        let rests =
            self.resting.as_mut().is_some_and(|rest| rest.as_mut().poll(context).is_pending());
        if !rests && self.resting.take().is_some() {
            // Bytes that we left unread were not late.
            self.waits_since = Instant::now();
        }
        rests
    }

    /// Notes where a request begins and ends. Answers when the caller has to have gone on; `None` while it waits for us.
    fn deadline(&mut self, has_read: bool) -> Option<Instant> {
        if self.peer.activity.is_answering() {
            self.was_answering = true;
            return None;
        }
        if std::mem::take(&mut self.was_answering) {
            self.waits_since = Instant::now();
            self.head_begun = false;
        }
        if has_read && !self.head_begun {
            self.waits_since = Instant::now();
            self.head_begun = true;
        }
        let patience = if self.head_begun { self.patience.head } else { self.patience.idle };
        Some(self.waits_since + patience)
    }
}

/// Whether a moment has come; wakes the task when it does.
fn is_over(timer: &mut Option<Pin<Box<Sleep>>>, at: Instant, context: &mut Context<'_>) -> bool {
    let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
    if timer.deadline() != at {
        timer.as_mut().reset(at);
    }
    timer.as_mut().poll(context).is_ready()
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.rests(context) {
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        let has_read = buffer.filled().len() > before;
        if has_read {
            this.meter.serves(this.peer.person, thread_time(), std::time::Instant::now());
        }
        if let Some(at) = this.deadline(has_read)
            && is_over(&mut this.reading, at, context)
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        this.meter.serves(this.peer.person, thread_time(), std::time::Instant::now());
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        if written.is_ready() {
            this.writing = None;
            return written;
        }
        let at = this.writing.as_ref().map(|timer| timer.deadline());
        let at = at.unwrap_or_else(|| Instant::now() + this.patience.write);
        match is_over(&mut this.writing, at, context) {
            true => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            false => Poll::Pending,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const FEW: Duration = Duration::from_millis(40);
    const EVER: Duration = Duration::from_secs(1 << 30);

    fn pair(patience: Patience) -> (Connection, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let peer = Peer::new(NewConnection { number: 0, person: 0 }, Closing::of_nothing());
        (Connection { patience, ..Connection::new(ours, peer, Meter::default()) }, theirs)
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(test);
    }

    #[test]
    fn a_head_in_drops_ends_a_connection() {
        run(async {
            let (mut connection, mut theirs) =
                pair(Patience { head: FEW, idle: EVER, write: EVER });
            let began = Instant::now();
            let mut buffer = [0; 64];
            let drops = async {
                while theirs.write_all(b"G").await.is_ok() {
                    tokio::time::sleep(FEW / 8).await;
                }
            };
            let reads = async {
                loop {
                    if let Err(error) = connection.read(&mut buffer).await {
                        return error.kind();
                    }
                }
            };
            tokio::select! {
                () = drops => panic!("it ended before its time"),
                ended = reads => assert_eq!(ended, io::ErrorKind::TimedOut),
            }
            assert!(began.elapsed() >= FEW);
        });
    }

    #[test]
    fn silence_ends_a_connection_and_waiting_for_an_answer_does_not() {
        run(async {
            let (mut connection, _theirs) = pair(Patience { head: EVER, idle: FEW, write: EVER });
            let mut buffer = [0; 64];
            let answering = connection.peer.activity.begin();
            let read = tokio::time::timeout(FEW * 3, connection.read(&mut buffer)).await;
            assert!(read.is_err(), "it waits for us");
            drop(answering);
            let began = Instant::now();
            let ended = connection.read(&mut buffer).await.expect_err("silence");
            assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
            assert!(began.elapsed() >= FEW);
        });
    }

    #[test]
    fn a_reader_that_takes_nothing_is_left() {
        run(async {
            let (mut connection, _theirs) = pair(Patience { head: EVER, idle: EVER, write: FEW });
            let much = vec![0; 16 << 20];
            let ended = connection.write_all(&much).await.expect_err("nobody reads");
            assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
        });
    }
}
