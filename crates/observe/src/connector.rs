//! Life events from the kernel's process event connector.

use crate::connector_wire::{CN_IDX_PROC, KernelEvent, KernelEventKind, MESSAGE_BYTES, Request};
use crate::life::{LifeError, LifeEvent, LifeSource, ProcessRef};
use crate::proc_dir::ProcDir;
use crate::run_state::RunState;
use crate::scan::pids;
use identity::ProcessIdentity;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// Default size of the receive buffer: some ten thousand events.
const RECEIVE_BUFFER_BYTES: usize = 16 << 20;
/// Most events taken in one call, so that a storm cannot hold the reader for ever.
const BATCH: usize = 4096;
/// Most batches of one catching up: more events than the receive buffer holds, so that all that waited
/// have been read, and a storm that goes on holds nobody.
const BATCHES: usize = 2 * RECEIVE_BUFFER_BYTES / LEAST_EVENT_BYTES / BATCH + 1;
/// The least that an event takes of the receive buffer, as the kernel counts.
const LEAST_EVENT_BYTES: usize = 256;
/// After this long without any event the connector makes one itself, to see that it hears.
const QUIET: Duration = Duration::from_secs(5);
/// How often to try when the kernel counts too few listeners: each try makes it one more.
const ATTEMPTS: u32 = 16;
/// `PROC_PID_INIT_INO` and `PROC_USER_INIT_INO` of include/linux/proc_ns.h: the inodes of the
/// first pid and user namespaces.
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;
const FIRST_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// Life events from the kernel's process event connector (netlink, `CN_IDX_PROC`), which tells
/// of every fork, exec, change of ids and exit as it happens.
///
/// Needs `CAP_NET_ADMIN`, or Linux 6.6 and later, and the first pid and user namespaces, for
/// the kernel tells pids and uids as those see them.
///
/// The kernel counts listeners in one number for the whole machine, and since Linux 6.6 any user
/// can make it too low, which silences the connector for everybody without notice. So when no
/// event came for five seconds the connector starts a thread, which the kernel must tell of; if
/// it does not, the connector listens anew and tells [`LifeEvent::Lost`].
#[derive(Debug)]
pub struct ProcConnector {
    socket: Socket,
    receive_buffer_bytes: usize,
    /// Start times of living processes by pid, to name those that have exited.
    start_times: HashMap<u32, u64>,
    /// Processes whose leading thread has exited before the others.
    leaderless: HashSet<u32>,
    last_heard: Instant,
}

impl ProcConnector {
    /// Starts to listen.
    ///
    /// # Errors
    /// [`LifeError::Unavailable`] with the reason when the kernel will not tell us.
    pub fn open() -> Result<Self, LifeError> {
        Self::with_receive_buffer(RECEIVE_BUFFER_BYTES)
    }

    /// Starts to listen, with a receive buffer of about this many bytes (the kernel doubles it,
    /// and has a least size of its own; without `CAP_NET_ADMIN` also a largest).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with_receive_buffer(bytes: usize) -> Result<Self, LifeError> {
        require_first_namespaces()?;
        let mut connector = Self {
            socket: Socket::listen(bytes)?,
            receive_buffer_bytes: bytes,
            start_times: HashMap::new(),
            leaderless: HashSet::new(),
            last_heard: Instant::now(),
        };
        connector.learn_start_times()?;
        Ok(connector)
    }

    /// True when the kernel leaves out the kinds of events that are not told on.
    pub fn is_filtered(&self) -> bool {
        self.socket.filtered
    }

    fn learn_start_times(&mut self) -> Result<(), LifeError> {
        let pids = pids().map_err(|source| LifeError::Os { call: "read /proc", source })?;
        self.start_times = pids
            .into_iter()
            .filter_map(|pid| Some((pid, Glimpse::of(pid)?.start_time_ticks)))
            .collect();
        self.leaderless.clear();
        Ok(())
    }

    /// Takes what waits in the socket, without waiting.
    fn drain(&mut self) -> Result<Vec<LifeEvent>, LifeError> {
        let mut events = Vec::new();
        self.drain_batch(&mut events)?;
        Ok(events)
    }

    /// Takes a batch of what waits. Answers whether that was all.
    fn drain_batch(&mut self, events: &mut Vec<LifeEvent>) -> Result<bool, LifeError> {
        let clock = EventClock::now();
        for _ in 0..BATCH {
            match self.socket.receive()? {
                Received::Nothing => return Ok(true),
                Received::Foreign => {}
                Received::Event(event) => {
                    self.last_heard = Instant::now();
                    self.tell(event, clock.ticks(event.timestamp_ns), events);
                }
                Received::Overflow => {
                    self.last_heard = Instant::now();
                    self.lost("the kernel's queue of process events overflowed", events)?;
                }
            }
        }
        Ok(false)
    }

    fn lost(&mut self, reason: &str, events: &mut Vec<LifeEvent>) -> Result<(), LifeError> {
        tracing::warn!(reason, "process events were lost");
        self.learn_start_times()?;
        events.push(LifeEvent::Lost { reason: reason.to_owned() });
        Ok(())
    }

    /// Turns one kernel event into at most one of ours. `now` is the time of the event in clock
    /// ticks since boot.
    fn tell(&mut self, event: KernelEvent, now: u64, events: &mut Vec<LifeEvent>) {
        match event.what {
            KernelEventKind::Fork { parent_tgid, child_pid, child_tgid } => {
                if child_pid != child_tgid {
                    return;
                }
                // Whatever had this pid before is gone, even if we missed its exit.
                self.start_times.remove(&child_tgid);
                self.leaderless.remove(&child_tgid);
                let parent = self.name(parent_tgid, now);
                let child = self.name(child_tgid, now);
                events.push(LifeEvent::Fork { parent, child });
            }
            KernelEventKind::Exec { tgid } => {
                // The thread that calls exec takes the leader's place.
                self.leaderless.remove(&tgid);
                events.push(LifeEvent::Exec { process: self.name(tgid, now) });
            }
            KernelEventKind::Uid { pid, tgid, real, effective } if pid == tgid => {
                let process = self.name(tgid, now);
                events.push(LifeEvent::UidChanged {
                    process,
                    real_uid: real,
                    effective_uid: effective,
                });
            }
            KernelEventKind::Gid { pid, tgid, real, effective } if pid == tgid => {
                let process = self.name(tgid, now);
                events.push(LifeEvent::GidChanged {
                    process,
                    real_gid: real,
                    effective_gid: effective,
                });
            }
            KernelEventKind::Exit { pid, tgid } => {
                if pid != tgid && !self.leaderless.contains(&tgid) {
                    return;
                }
                if self.is_over(tgid, now) {
                    let process = self.known(tgid, now);
                    self.start_times.remove(&tgid);
                    self.leaderless.remove(&tgid);
                    events.push(LifeEvent::Exit { process });
                } else {
                    self.leaderless.insert(tgid);
                }
            }
            KernelEventKind::Uid { .. } | KernelEventKind::Gid { .. } | KernelEventKind::Other => {}
        }
    }

    /// Names a process from what is known, else from `/proc`.
    fn name(&mut self, pid: u32, now: u64) -> ProcessRef {
        let known = self.known(pid, now);
        if known.identity.is_some() || pid == 0 {
            return known;
        }
        match Glimpse::of(pid) {
            // One that began after the event only got the pid of the one that it tells of.
            Some(glimpse) if glimpse.start_time_ticks <= now => {
                self.start_times.insert(pid, glimpse.start_time_ticks);
                self.known(pid, now)
            }
            _ => known,
        }
    }

    /// Names a process from what is known, which after a loss may be a later one's start time.
    fn known(&self, pid: u32, now: u64) -> ProcessRef {
        let start_time_ticks = self.start_times.get(&pid).copied().filter(|start| *start <= now);
        let identity =
            start_time_ticks.map(|start_time_ticks| ProcessIdentity { pid, start_time_ticks });
        ProcessRef { pid, identity }
    }

    /// Has the process that exited (in part) at `now` no thread left?
    fn is_over(&self, pid: u32, now: u64) -> bool {
        let Some(glimpse) = Glimpse::of(pid) else { return true };
        let is_another = match self.known(pid, now).identity {
            Some(identity) => identity.start_time_ticks != glimpse.start_time_ticks,
            None => glimpse.start_time_ticks > now,
        };
        is_another || (glimpse.leader_state == RunState::Dead && glimpse.thread_count <= 1)
    }

    /// Makes the kernel send an event and looks whether it came.
    fn check_hearing(&mut self) -> Result<Vec<LifeEvent>, LifeError> {
        let asked = Instant::now();
        make_an_event()?;
        let mut events = self.drain()?;
        if self.last_heard >= asked {
            return Ok(events);
        }
        self.socket.is_counted = false;
        self.socket = Socket::listen(self.receive_buffer_bytes)
            .map_err(|error| LifeError::Deaf { reason: format!("listening anew: {error}") })?;
        self.last_heard = Instant::now();
        self.lost("the kernel had stopped telling of process events", &mut events)?;
        Ok(events)
    }
}

impl LifeSource for ProcConnector {
    fn next(&mut self, timeout: Duration) -> Result<Vec<LifeEvent>, LifeError> {
        let deadline = Instant::now() + timeout;
        loop {
            let events = self.drain()?;
            if !events.is_empty() {
                return Ok(events);
            }
            if self.last_heard.elapsed() >= QUIET {
                let events = self.check_hearing()?;
                if !events.is_empty() {
                    return Ok(events);
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Vec::new());
            }
            let until_check = QUIET.saturating_sub(self.last_heard.elapsed());
            wait_readable(self.socket.descriptor.as_fd(), left.min(until_check))?;
        }
    }

    fn catch_up(&mut self) -> Result<Vec<LifeEvent>, LifeError> {
        let mut events = Vec::new();
        for _ in 0..BATCHES {
            if self.drain_batch(&mut events)? {
                break;
            }
        }
        Ok(events)
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.descriptor.as_fd())
    }

    fn name(&self) -> &'static str {
        "connector"
    }
}

/// A listening netlink socket.
#[derive(Debug)]
struct Socket {
    descriptor: OwnedFd,
    filtered: bool,
    /// False once the kernel's count of listeners does not hold us any more: taking ourselves off
    /// would then take off another listener.
    is_counted: bool,
}

enum Received {
    Event(KernelEvent),
    Overflow,
    /// Not from the kernel, or not a process event.
    Foreign,
    Nothing,
}

impl Socket {
    fn listen(receive_buffer_bytes: usize) -> Result<Self, LifeError> {
        for _ in 0..ATTEMPTS {
            let mut socket = Self::bind(receive_buffer_bytes)?;
            if socket.begin()? {
                return Ok(socket);
            }
            // Somebody has made the count of listeners too low. Leave it one higher.
            socket.is_counted = false;
        }
        Err(LifeError::Unavailable {
            reason:
                "the kernel tells nothing of process events (built without CONFIG_PROC_EVENTS, \
                     or another user has made it deaf)"
                    .to_owned(),
        })
    }

    fn bind(receive_buffer_bytes: usize) -> Result<Self, LifeError> {
        let descriptor = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            Some(netlink::CONNECTOR),
        )
        .map_err(|errno| LifeError::Unavailable {
            reason: format!("this kernel has no connector: {errno}"),
        })?;
        sockopt::set_socket_recv_buffer_size_force(&descriptor, receive_buffer_bytes)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&descriptor, receive_buffer_bytes))
            .map_err(LifeError::os("set the receive buffer of the connector"))?;
        rustix::net::bind(&descriptor, &SocketAddrNetlink::new(0, CN_IDX_PROC)).map_err(
            |errno| match errno {
                Errno::PERM | Errno::ACCESS => LifeError::Unavailable {
                    reason: "before Linux 6.6 only CAP_NET_ADMIN may hear of process events"
                        .to_owned(),
                },
                other => LifeError::os("bind the connector")(other),
            },
        )?;
        Ok(Self { descriptor, filtered: true, is_counted: true })
    }

    /// Asks for events, with the filter if the kernel has it. True when they come.
    fn begin(&mut self) -> Result<bool, LifeError> {
        self.filtered = true;
        self.ask(Request::ListenFiltered)?;
        // Twice: the first thread's name is an event that the filter drops, and that must not
        // end the listening.
        if self.hears()? && self.hears()? {
            return Ok(true);
        }
        self.filtered = false;
        self.ask(Request::Listen)?;
        self.hears()
    }

    fn ask(&self, request: Request) -> Result<(), LifeError> {
        rustix::net::send(&self.descriptor, &request.encode(), SendFlags::empty())
            .map(drop)
            .map_err(LifeError::os("send to the connector"))
    }

    /// Drops what waits, makes the kernel send an event and looks whether it came.
    fn hears(&self) -> Result<bool, LifeError> {
        while !matches!(self.receive()?, Received::Nothing) {}
        make_an_event()?;
        let mut heard = false;
        loop {
            match self.receive()? {
                Received::Nothing => return Ok(heard),
                Received::Foreign => {}
                Received::Event(KernelEvent { what: KernelEventKind::Other, .. }) => {}
                Received::Event(_) | Received::Overflow => heard = true,
            }
        }
    }

    fn receive(&self) -> Result<Received, LifeError> {
        let mut buffer = [0; MESSAGE_BYTES];
        let received = rustix::io::retry_on_intr(|| {
            rustix::net::recvfrom(&self.descriptor, &mut buffer, RecvFlags::empty())
        });
        match received {
            Ok((length, _, sender)) => {
                let from_kernel = sender
                    .and_then(|sender| SocketAddrNetlink::try_from(sender).ok())
                    .is_some_and(|sender| sender.pid() == 0);
                let event = if from_kernel { KernelEvent::decode(&buffer[..length]) } else { None };
                Ok(event.map_or(Received::Foreign, Received::Event))
            }
            Err(Errno::AGAIN) => Ok(Received::Nothing),
            Err(Errno::NOBUFS) => Ok(Received::Overflow),
            Err(errno) => Err(LifeError::os("receive from the connector")(errno)),
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Without it the kernel would count us as a listener for ever. Nobody is left to tell
        // of a failure.
        if self.is_counted {
            let _ = self.ask(Request::Ignore);
        }
    }
}

/// The kernel tells of a new thread before the call that makes it returns.
fn make_an_event() -> Result<(), LifeError> {
    let thread = std::thread::Builder::new()
        .name("hearing".to_owned())
        .spawn(|| ())
        .map_err(|source| LifeError::Os { call: "start a thread", source })?;
    thread.join().expect("an empty thread does not panic");
    Ok(())
}

fn wait_readable(descriptor: BorrowedFd<'_>, timeout: Duration) -> Result<(), LifeError> {
    let mut fds = [PollFd::new(&descriptor, PollFlags::IN)];
    let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    match rustix::event::poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(LifeError::os("poll the connector")(errno)),
    }
}

fn require_first_namespaces() -> Result<(), LifeError> {
    for (file, first, name) in [
        ("/proc/self/ns/pid", FIRST_PID_NAMESPACE, "pid"),
        ("/proc/self/ns/user", FIRST_USER_NAMESPACE, "user"),
    ] {
        let inode = std::fs::metadata(file)
            .map_err(|source| LifeError::Os { call: "look at our namespaces", source })?
            .ino();
        if inode != first {
            return Err(LifeError::Unavailable {
                reason: format!(
                    "we are in a {name} namespace of our own (a container), and the kernel \
                     tells process events to the first one only"
                ),
            });
        }
    }
    Ok(())
}

/// What one look at `/proc/<pid>/stat` shows of whoever has that pid.
struct Glimpse {
    start_time_ticks: u64,
    leader_state: RunState,
    thread_count: u32,
}

impl Glimpse {
    fn of(pid: u32) -> Option<Self> {
        let directory = ProcDir::open(pid).ok()?;
        directory
            .stat(|stat| Self {
                start_time_ticks: stat.start_time_ticks,
                leader_state: RunState::from_letter(stat.state),
                thread_count: stat.thread_count,
            })
            .ok()
    }
}

/// Turns event times (`CLOCK_MONOTONIC`) into start times (ticks of `CLOCK_BOOTTIME`).
pub(crate) struct EventClock {
    boot_ahead_ns: u64,
    tick_ns: u64,
}

impl EventClock {
    pub(crate) fn now() -> Self {
        // In this order an interruption between the two makes events look later, which only
        // widens what is believed.
        let monotonic = nanoseconds(clock_gettime(ClockId::Monotonic));
        let boot = nanoseconds(clock_gettime(ClockId::Boottime));
        Self {
            boot_ahead_ns: boot.saturating_sub(monotonic),
            tick_ns: 1_000_000_000 / rustix::param::clock_ticks_per_second(),
        }
    }

    pub(crate) fn ticks(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.saturating_add(self.boot_ahead_ns) / self.tick_ns
    }
}

fn nanoseconds(time: Timespec) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}
