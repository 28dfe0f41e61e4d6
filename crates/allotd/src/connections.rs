//! The connections that the front serves: whose each is, and what it has asked for.

use crate::answer_flow::Credit;
use crate::listener::Admitted;
use front::Counted;
use ledger::Caller;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The most requests of a connection that are worked at. It has one, and those that were left may not have noticed yet.
const REQUESTS_MAX: usize = 4;

/// See the [module](self). A number is never used again, so no front is mistaken for another.
#[derive(Default)]
pub struct Connections {
    last: u64,
    open: BTreeMap<u64, Open>,
}

struct Open {
    admitted: Admitted,
    /// Held by each request that is worked at.
    working: Arc<()>,
    answering: Option<Answering>,
}

/// A request of a connection. Its answer ends when this is dropped.
struct Answering {
    number: u64,
    credit: Arc<Credit>,
    left: CancellationToken,
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.left.cancel();
    }
}

/// A request that a connection may make now.
pub struct Asking {
    /// The caller, as the kernel said when it connected.
    pub who: Option<Caller>,
    pub person: u32,
    pub credit: Arc<Credit>,
    /// Cancelled when nobody waits for the answer.
    pub left: CancellationToken,
    /// Counts the connection until the request was answered, though it may be gone before.
    pub held: Held,
}

/// The counts of a request while it is worked at.
pub struct Held {
    _working: Arc<()>,
    _counted: Option<Arc<Counted>>,
}

/// The reason why a connection may not ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAsked {
    /// No connection has that number, or its caller is gone.
    Unknown,
    /// It has asked for something else that is not answered.
    Busy,
}

impl Connections {
    /// Adds one. Answers its number.
    pub fn add(&mut self, admitted: Admitted) -> u64 {
        self.last += 1;
        let open = Open { admitted, working: Arc::new(()), answering: None };
        self.open.insert(self.last, open);
        self.last
    }

    /// The socket of a connection, and its person.
    pub fn socket(&self, connection: u64) -> Option<(BorrowedFd<'_>, u32)> {
        let open = self.open.get(&connection)?;
        Some((open.admitted.socket.as_fd(), open.admitted.person))
    }

    /// Notes that a connection asks for something.
    ///
    /// # Errors
    /// When it may not. A caller that has hung up asks for nothing more, whatever the front says: the kernel knows.
    pub fn ask(&mut self, connection: u64, number: u64) -> Result<Asking, NotAsked> {
        let open = self.open.get_mut(&connection).ok_or(NotAsked::Unknown)?;
        if has_hung_up(open.admitted.socket.as_fd()) {
            self.open.remove(&connection);
            return Err(NotAsked::Unknown);
        }
        if Arc::strong_count(&open.working) > REQUESTS_MAX {
            return Err(NotAsked::Busy);
        }
        let (credit, left) = (Arc::new(Credit::new()), CancellationToken::new());
        // Dropped is what it asked before: a connection has one answer at a time.
        let answering = Answering { number, credit: credit.clone(), left: left.clone() };
        open.answering = Some(answering);
        let Admitted { who, person, counted, .. } = &open.admitted;
        let held = Held { _working: open.working.clone(), _counted: counted.clone() };
        Ok(Asking { who: who.clone(), person: *person, credit, left, held })
    }

    /// The credit of an answer that is on its way.
    pub fn credit(&self, connection: u64, number: u64) -> Option<&Credit> {
        let answering = self.open.get(&connection)?.answering.as_ref()?;
        (answering.number == number).then_some(&*answering.credit)
    }

    /// Notes that nobody waits for an answer.
    pub fn leave(&mut self, connection: u64, number: u64) {
        if let Some(open) = self.open.get_mut(&connection) {
            open.answering.take_if(|answering| answering.number == number);
        }
    }

    /// Forgets a connection. Answers whether there was one.
    pub fn close(&mut self, connection: u64) -> bool {
        self.open.remove(&connection).is_some()
    }

    /// Forgets all of them.
    pub fn close_all(&mut self) {
        self.open.clear();
    }
}

/// Whether the other end of a socket is gone.
fn has_hung_up(socket: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(socket, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let found = poll(&mut polled, Some(&at_once));
    found.is_ok() && polled[0].revents().contains(PollFlags::HUP)
}
