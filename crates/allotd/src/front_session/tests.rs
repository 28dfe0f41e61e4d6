//! A front that somebody has taken over: the other end of the line says whatever it likes.

use super::*;
use crate::doctor::Findings;
use crate::fair_queue::FairQueue;
use crate::keeper;
use crate::options::Options;
use crate::reader::Read;
use clap::Parser;
use front::{AnswerHead, Meter, Tally, WINDOW_BYTES, take};
use ledger::Persons;
use sandbox::Restriction;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{broadcast, watch};
use wire::{ErrorBody, ErrorCode, Operation, OperationsDone};

/// Users of these tests.
const SOMEBODY: u32 = 64_051;
const SOMEBODY_ELSE: u32 = 64_052;

/// The length of each funding graph that the tests ask for.
const LEDGER_BYTES: usize = 20 << 20;

/// The uids that asked the keeper to operate, as it was told.
type Heard = Arc<Mutex<Vec<u32>>>;

/// An allotd but for its keeper, which is a thread that notes who asks.
struct World {
    dir: tempfile::TempDir,
    gate: Gate,
    shared: Arc<Shared>,
    connections: RefCell<Connections>,
    heard: Heard,
    /// While this is locked the keeper answers nobody.
    keeper_waits: Arc<tokio::sync::Mutex<()>>,
    end: watch::Sender<bool>,
}

impl World {
    /// Must be called within a runtime.
    fn new() -> World {
        let dir = tempfile::tempdir().expect("a directory");
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).expect("a mode");
        let gate = Gate::open(&dir.path().join("sock"), None, Persons::default()).expect("a gate");
        let (end, ending) = watch::channel(false);
        let settings = Options::parse_from(["allotd"]).settings(PathBuf::new(), PathBuf::new(), 0);
        let shared = Shared {
            keeper: Arc::new(FairQueue::new(Meter::default())),
            reader: Arc::new(FairQueue::new(Meter::default())),
            served: Meter::default(),
            acknowledged: Arc::default(),
            persons: Arc::new(Persons::default()),
            hides_processes: false,
            ruler: 0,
            unread: Tally::default(),
            events: broadcast::channel(1).0,
            doctor: Arc::new(Findings::of(enforcement::Surveyed::look(&[], &settings))),
            ending,
            audit_dir: PathBuf::new(),
            audit_readers: Default::default(),
        };
        let shared = Arc::new(shared);
        let (heard, keeper_waits) = (Heard::default(), Arc::new(tokio::sync::Mutex::new(())));
        let connections = RefCell::new(Connections::default());
        let world = World { dir, gate, shared, connections, heard, keeper_waits, end };
        world.start_keeper();
        world
    }

    fn start_keeper(&self) {
        let (queue, heard) = (Arc::clone(&self.shared.keeper), Arc::clone(&self.heard));
        let waits = Arc::clone(&self.keeper_waits);
        let ends = self.shared.ending.clone();
        std::thread::spawn(move || {
            while !*ends.borrow() {
                for request in queue.take(Duration::from_millis(20), 1) {
                    drop(waits.blocking_lock());
                    let keeper::Request::Operate { caller, reply, .. } = request else { continue };
                    heard.lock().expect("a lock").push(caller.uid);
                    let sequence = u64::from(caller.uid);
                    let _ = reply.send(Ok(OperationsDone { sequence, results: Vec::new() }));
                }
            }
        });
        let (queue, ends) = (Arc::clone(&self.shared.reader), self.shared.ending.clone());
        std::thread::spawn(move || {
            while !*ends.borrow() {
                for look in queue.take(Duration::from_millis(20), 1) {
                    let Read::Ledger(_, _, reply) = look.read else { continue };
                    let _ = reply.send(Ok(Bytes::from(vec![b' '; LEDGER_BYTES])));
                }
            }
        });
    }

    /// Serves by a front whose end is in the test's hand. Answers how it ended, and with what the test found.
    async fn with_front<T>(&self, test: impl AsyncFnOnce(FalseFront) -> T) -> (SessionEnd, T) {
        let (line, their_line) = UnixStream::pair().expect("a pair");
        let (door, their_door) = UnixDatagram::pair().expect("a pair");
        let session =
            Session::run(&self.gate, &self.shared, &self.connections, (line, door), || {});
        let (incoming, outgoing) = their_line.into_split();
        let mut front = FalseFront {
            incoming: frames(incoming),
            outgoing,
            door: their_door,
            socket: self.dir.path().join("sock"),
        };
        let test = async {
            front.say(&FromFront::Ready { files: Restriction::Full }).await;
            test(front).await
        };
        let ended = async { tokio::join!(session, test) };
        tokio::time::timeout(Duration::from_secs(60), ended).await.expect("it ends")
    }

    fn heard(&self) -> Vec<u32> {
        self.heard.lock().expect("a lock").clone()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.end.send(true);
    }
}

/// The front's end of a line and a door.
struct FalseFront {
    incoming: Frames<OwnedReadHalf>,
    outgoing: OwnedWriteHalf,
    door: UnixDatagram,
    socket: PathBuf,
}

/// A piece of an answer.
struct Piece {
    number: u64,
    head: Option<AnswerHead>,
    bytes: Bytes,
    is_last: bool,
}

impl FalseFront {
    async fn say(&mut self, said: &FromFront) {
        self.send(&frame(said).expect("short")).await;
    }

    async fn send(&mut self, bytes: &[u8]) {
        // Its end may come before the last byte.
        let _ = self.outgoing.write_all(bytes).await;
    }

    async fn ask(&mut self, connection: u64, number: u64, request: Request) {
        self.say(&FromFront::Ask { connection, number, request }).await;
    }

    async fn operate(&mut self, connection: u64, number: u64) {
        let operations = vec![Operation::Leave { member: None }];
        self.ask(connection, number, Request::Operate { operations }).await;
    }

    /// Answers with a caller's end of a new connection, ours, and its number.
    async fn connect(&mut self, uid: u32) -> (StdUnixStream, OwnedFd, u64) {
        let theirs = connect_as(uid, &self.socket);
        let taken = self.door.async_io(Interest::READABLE, || take(&self.door)).await;
        let (NewConnection { number, person }, descriptor) = taken.expect("a connection");
        assert_eq!(person, uid);
        (theirs, descriptor.expect("a descriptor"), number)
    }

    async fn piece(&mut self) -> Piece {
        let frame = self.incoming.next().await.expect("an answer").expect("a frame");
        match message(&frame).expect("a message") {
            ToFront::Answer { number, head, bytes, is_last } => {
                Piece { number, head, bytes, is_last }
            }
            ToFront::End => panic!("it is to end"),
        }
    }
}

fn connect_as(uid: u32, socket: &Path) -> StdUnixStream {
    let connect = || {
        let id = libc::c_long::from(uid);
        // SAFETY: changes the credentials of this thread, which ends with the connection.
        let failed = unsafe {
            libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>())
                | libc::syscall(libc::SYS_setresgid, id, id, id)
                | libc::syscall(libc::SYS_setresuid, id, id, id)
        };
        assert_eq!(failed, 0, "root may become uid {uid}");
        StdUnixStream::connect(socket).expect("it listens")
    };
    std::thread::scope(|scope| scope.spawn(connect).join().expect("it does not panic"))
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(test);
}

fn is_root(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        eprintln!("SKIP {test}: needs root, to act as other users");
    }
    root
}

#[test]
fn a_request_has_the_rights_of_its_connection_and_no_others() {
    if !is_root("a_request_has_the_rights_of_its_connection_and_no_others") {
        return;
    }
    run(async {
        let world = World::new();
        let (end, ()) = world
            .with_front(async |mut front| {
                let (_one, _, somebody) = front.connect(SOMEBODY).await;
                let (_other, _, else_) = front.connect(SOMEBODY_ELSE).await;
                for (number, connection) in [(1, somebody), (2, else_), (3, somebody)] {
                    front.operate(connection, number).await;
                    let piece = front.piece().await;
                    assert_eq!((piece.number, piece.is_last), (number, true));
                    assert_eq!(piece.head.expect("the first").status, 200);
                }
            })
            .await;
        assert!(matches!(end, SessionEnd::Died), "{end}");
        assert_eq!(world.heard(), [SOMEBODY, SOMEBODY_ELSE, SOMEBODY]);
    });
}

#[test]
fn a_number_that_is_closed_or_guessed_or_whose_caller_hung_up_asks_for_nothing() {
    if !is_root("a_number_that_is_closed_or_guessed_or_whose_caller_hung_up_asks_for_nothing") {
        return;
    }
    run(async {
        let world = World::new();
        let (_, still_connected) = world
            .with_front(async |mut front| {
                let (_one, _ours, closed) = front.connect(SOMEBODY).await;
                front.say(&FromFront::Closed { connection: closed }).await;
                let (two, _ours, left) = front.connect(SOMEBODY).await;
                // The front keeps its end and says nothing of it.
                drop(two);
                let (three, _ours, open) = front.connect(SOMEBODY_ELSE).await;
                for (number, connection) in
                    [closed, left, 0, open + 1, u64::MAX].into_iter().enumerate()
                {
                    front.operate(connection, number as u64).await;
                    front.say(&FromFront::Taken { connection, number: 7, bytes: u32::MAX }).await;
                    front.say(&FromFront::Left { connection, number: 7 }).await;
                }
                front.operate(open, 99).await;
                assert_eq!(front.piece().await.number, 99, "no other is answered");
                three
            })
            .await;
        assert_eq!(world.heard(), [SOMEBODY_ELSE]);
        // As after a front's death. A number is not given twice, to another front neither.
        world.connections.borrow_mut().close_all();
        world
            .with_front(async |mut front| {
                let (_stream, _, number) = front.connect(SOMEBODY).await;
                assert_eq!(number, 4);
                front.operate(3, 1).await;
                front.operate(number, 2).await;
                assert_eq!(front.piece().await.number, 2);
            })
            .await;
        assert_eq!(world.heard(), [SOMEBODY_ELSE, SOMEBODY]);
        drop(still_connected);
    });
}

#[test]
fn what_no_front_says_ends_it_and_the_next_one_serves() {
    if !is_root("what_no_front_says_ends_it_and_the_next_one_serves") {
        return;
    }
    run(async {
        let world = World::new();
        let garbage: [&[u8]; 5] = [
            b"\xff\xff\xff\xffmuch too long",
            b"\0\0\0\x05hello",
            b"\0\0\0\0",
            b"\0\0\0\x01\x9b",
            // An operation that there is not.
            b"\0\0\0\x18\xa1cAsk\xa3jconnection\x01fnumber\x01",
        ];
        for bytes in garbage {
            let sent = async |mut front: FalseFront| {
                front.send(bytes).await;
                // The line is closed at the other end.
                assert!(front.incoming.next().await.is_none());
            };
            let (end, ()) = world.with_front(sent).await;
            assert!(matches!(end, SessionEnd::Broke(_)), "{bytes:?}: {end}");
        }
        let waits = world.keeper_waits.lock().await;
        let many = async |mut front: FalseFront| {
            let (_stream, _ours, number) = front.connect(SOMEBODY).await;
            for request in 0..10 {
                front.operate(number, request).await;
            }
            assert!(front.incoming.next().await.is_none());
        };
        let (end, ()) = world.with_front(many).await;
        assert!(matches!(end, SessionEnd::Broke(Breach::Busy(_))), "{end}");
        drop(waits);
        let (end, ()) = world.with_front(async |_| ()).await;
        assert!(matches!(end, SessionEnd::Died), "{end}");
        let again = async |mut front: FalseFront| {
            front.say(&FromFront::Ready { files: Restriction::No }).await;
            assert!(front.incoming.next().await.is_none());
        };
        let (end, ()) = world.with_front(again).await;
        assert!(matches!(end, SessionEnd::Broke(Breach::ReadyTwice)), "{end}");
        let served = async |mut front: FalseFront| {
            let (_stream, _, number) = front.connect(SOMEBODY_ELSE).await;
            front.operate(number, 1).await;
            front.piece().await.head.expect("the first").status
        };
        let (_, status) = world.with_front(served).await;
        assert_eq!((status, world.heard().last()), (200, Some(&SOMEBODY_ELSE)));
    });
}

#[test]
fn numbers_that_the_front_should_have_checked_are_checked() {
    if !is_root("numbers_that_the_front_should_have_checked_are_checked") {
        return;
    }
    run(async {
        let world = World::new();
        let asked = async |mut front: FalseFront| {
            let (_stream, _, number) = front.connect(SOMEBODY).await;
            let leave = Operation::Leave { member: None };
            let requests = [
                Request::Operate { operations: vec![leave; 1001] },
                Request::Operate { operations: Vec::new() },
                Request::Ledger { after: None, limit: Some(u64::MAX) },
                Request::Ledger { after: None, limit: Some(0) },
                Request::Samples { interval_ms: Some(0) },
                Request::Traders { who: vec!["base".into(); 1001] },
                Request::SetPolicy { policy: "chaos".to_owned() },
            ];
            for (place, request) in requests.into_iter().enumerate() {
                front.ask(number, place as u64, request).await;
                let piece = front.piece().await;
                assert_eq!(piece.head.expect("the first").status, 400, "{place}");
            }
        };
        world.with_front(asked).await;
        assert!(world.heard().is_empty());
    });
}

#[test]
fn an_answer_that_nobody_takes_waits_and_is_counted() {
    if !is_root("an_answer_that_nobody_takes_waits_and_is_counted") {
        return;
    }
    run(async {
        let world = World::new();
        let ledger = || Request::Ledger { after: None, limit: None };
        let test = async |mut front: FalseFront| {
            let (_one, _ours, slow) = front.connect(SOMEBODY).await;
            let (_two, _ours, other) = front.connect(SOMEBODY).await;
            front.ask(slow, 1, ledger()).await;
            let mut got = 0;
            while got < WINDOW_BYTES {
                let piece = front.piece().await;
                assert_eq!((piece.number, piece.is_last), (1, false));
                got += piece.bytes.len();
            }
            assert_eq!(got, WINDOW_BYTES);
            // Two of them are more than waits for one person. Nothing more of the first has come before.
            front.ask(other, 2, ledger()).await;
            let refused = front.piece().await;
            assert_eq!((refused.number, refused.is_last), (2, true));
            let body: ErrorBody = serde_json::from_slice(&refused.bytes).expect("an error");
            assert_eq!(body.error.code, ErrorCode::Limit);
            // The rest of the first comes as it is taken.
            let bytes = WINDOW_BYTES as u32;
            front.say(&FromFront::Taken { connection: slow, number: 1, bytes }).await;
            loop {
                let piece = front.piece().await;
                assert_eq!(piece.number, 1);
                got += piece.bytes.len();
                if piece.is_last {
                    break;
                }
                let bytes = piece.bytes.len() as u32;
                front.say(&FromFront::Taken { connection: slow, number: 1, bytes }).await;
            }
            assert_eq!(got, LEDGER_BYTES);
            // A reader that leaves makes room, and takes no more than was sent.
            front.ask(slow, 3, ledger()).await;
            assert_eq!(front.piece().await.number, 3);
            front.say(&FromFront::Left { connection: slow, number: 3 }).await;
            front.ask(other, 4, ledger()).await;
            while front.piece().await.number != 4 {}
            front.say(&FromFront::Taken { connection: other, number: 4, bytes: 1 << 30 }).await;
            while let Some(Ok(_)) = front.incoming.next().await {}
        };
        let (end, ()) = world.with_front(test).await;
        assert!(matches!(end, SessionEnd::Broke(Breach::Credit(_))), "{end}");
    });
}

#[test]
fn at_the_end_the_front_is_told_and_finishes() {
    if !is_root("at_the_end_the_front_is_told_and_finishes") {
        return;
    }
    run(async {
        let world = World::new();
        let waits = world.keeper_waits.lock().await;
        let mut waits = Some(waits);
        let test = async |mut front: FalseFront| {
            let (_stream, _ours, number) = front.connect(SOMEBODY).await;
            front.operate(number, 1).await;
            world.end.send(true).expect("it listens");
            let frame = front.incoming.next().await.expect("a message").expect("a frame");
            assert!(matches!(message(&frame).expect("a message"), ToFront::End));
            // An answer that is on its way is given.
            drop(waits.take());
            assert_eq!(front.piece().await.number, 1);
        };
        let (end, ()) = world.with_front(test).await;
        assert!(matches!(end, SessionEnd::InOrder), "{end}");
    });
}
