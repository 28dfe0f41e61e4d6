//! The guardian: a small process that gives every process back what it had, the moment that
//! the one it watches dies, however that dies.
//!
//! It is started before any process is touched. It shares the [`Registry`] and one socket, the
//! **lifeline**, whose other end only the watched process has: end of file on it, or the watched
//! process's pidfd, means that it died. Both come only when all its threads are gone, so
//! nobody touches a process after the guardian begins.
//!
//! On the lifeline the guardian says [`READY`] once. It is told to [`SWEEP`] when processes were
//! released: then it takes the children that they made while they were held, and that have no
//! record of their own, out of SCHED_IDLE, and says [`SWEPT`]. Told to [`LEAVE`], it sweeps
//! once more and ends.

mod process;

pub use process::guardian_main;

use crate::registry::Registry;
use crate::restore::{Restored, restore_leftovers};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const READY: u8 = b'r';
const LEAVE: u8 = b'l';
const SWEEP: u8 = b's';
const SWEPT: u8 = b'd';

/// How long a sweep is waited for.
const SWEEP_WAIT: Duration = Duration::from_secs(10);

/// How long a guardian may take to begin, on a machine that is busy.
const START_WAIT: Duration = Duration::from_secs(20);

/// Why there is no guardian.
#[derive(Debug, thiserror::Error)]
pub enum GuardianError {
    /// Its program cannot be run.
    #[error("the guardian `{program}` cannot be started")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It ended, or did not begin in time.
    #[error("the guardian `{program}` did not begin its watch")]
    NotReady {
        /// The program.
        program: String,
    },
    /// The table of what was changed cannot be kept.
    #[error("the registry of touched processes{0} cannot be used")]
    Registry(String, #[source] io::Error),
}

/// A running guardian, and the registry that it works from. Ends it when dropped: whoever owns
/// it gives everything back before.
pub struct Guardian {
    program: PathBuf,
    pub(crate) registry: Registry,
    path: Option<PathBuf>,
    leftovers: Restored,
    running: Option<Running>,
}

/// A guardian's process.
pub(crate) struct Running {
    child: Child,
    lifeline: OwnedFd,
    ready: bool,
}

/// What a guardian says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heard {
    Byte(u8),
    Nothing,
    Died,
}

impl Running {
    /// Starts `<program> guardian`, which finds what to give back in `record`. Does not wait until
    /// it is on watch.
    pub(crate) fn spawn(program: &Path, record: io::Result<File>) -> Result<Self, GuardianError> {
        let failed =
            |source| GuardianError::Start { program: program.display().to_string(), source };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (lifeline, theirs) = pair.map_err(|errno| failed(errno.into()))?;
        let child = Command::new(program)
            .arg("guardian")
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::from(record.map_err(failed)?))
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        Ok(Running { child, lifeline, ready: false })
    }

    /// Waits until it is on watch; false when it died or took too long.
    pub(crate) fn wait_until_ready(&mut self) -> bool {
        let deadline = Instant::now() + START_WAIT;
        loop {
            match self.is_ready() {
                Some(true) => return true,
                None => return false,
                Some(false) => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            wait_readable(self.lifeline.as_fd(), left);
        }
    }

    /// Whether it is on watch; `None` when it has died.
    pub(crate) fn is_ready(&mut self) -> Option<bool> {
        loop {
            match self.hear() {
                Heard::Byte(_) => {}
                Heard::Nothing => return Some(self.ready),
                Heard::Died => return None,
            }
        }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn hear(&mut self) -> Heard {
        let mut byte = [0];
        match rustix::net::recv(&self.lifeline, &mut byte, RecvFlags::DONTWAIT) {
            Ok((1, _)) => {
                self.ready = true;
                Heard::Byte(byte[0])
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Heard::Nothing,
            _ => Heard::Died,
        }
    }

    /// Ends it. It gives back what is left to give back first.
    pub(crate) fn end(mut self) {
        let _ = rustix::net::send(&self.lifeline, &[LEAVE], SendFlags::NOSIGNAL);
        // It leaves soon; one that cannot (it was stopped) must not hold us up for ever.
        let deadline = Instant::now() + SWEEP_WAIT;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Guardian {
    /// Starts `<program> guardian`, which must call [`guardian_main`], and waits until it is on
    /// watch. The registry is kept in the file `registry` where one is given (best in /run): what
    /// a killed allotd and a killed guardian left there is restored first.
    ///
    /// # Errors
    /// When the program cannot be started or does not begin, or the file cannot be used.
    pub fn start(program: &Path, registry: Option<&Path>) -> Result<Guardian, GuardianError> {
        let failed = |error| {
            let path = registry.map_or(String::new(), |path| format!(" in {}", path.display()));
            GuardianError::Registry(path, error)
        };
        let leftovers = match registry {
            Some(path) => restore_leftovers(path).map_err(failed)?,
            None => Restored::default(),
        };
        let table = Registry::create(registry).map_err(failed)?;
        let mut guardian = Guardian {
            program: program.to_owned(),
            registry: table,
            path: registry.map(Path::to_owned),
            leftovers,
            running: None,
        };
        guardian.spawn()?;
        if guardian.running.as_mut().is_some_and(Running::wait_until_ready) {
            return Ok(guardian);
        }
        Err(guardian.not_ready())
    }

    /// What was found in the registry's file and given back when this guardian was started.
    pub fn leftovers(&self) -> &Restored {
        &self.leftovers
    }

    /// The guardian's process; `None` while there is none on watch.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().filter(|running| running.ready).map(Running::pid)
    }

    fn not_ready(&self) -> GuardianError {
        GuardianError::NotReady { program: self.program.display().to_string() }
    }

    /// Starts a guardian, without waiting for it to be on watch.
    pub(crate) fn spawn(&mut self) -> Result<(), GuardianError> {
        self.end();
        self.running = Some(Running::spawn(&self.program, self.registry.file())?);
        Ok(())
    }

    /// The lifeline, to poll: readable when the guardian begins its watch or dies.
    pub(crate) fn lifeline(&self) -> Option<BorrowedFd<'_>> {
        self.running.as_ref().map(|running| running.lifeline.as_fd())
    }

    /// Lets the guardian free the children of processes that were released; waits for that if told
    /// to. False when there is none to do it.
    pub(crate) fn sweep(&mut self, wait: bool) -> bool {
        if self.pid().is_none() {
            return false;
        }
        let deadline = Instant::now() + SWEEP_WAIT;
        // Answers to sweeps that nobody waited for.
        while let Some(SWEPT) = self.hear() {}
        let Some(running) = &self.running else { return false };
        if rustix::net::send(&running.lifeline, &[SWEEP], SendFlags::NOSIGNAL).is_err() {
            return false;
        }
        if !wait {
            return true;
        }
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(running) = &self.running else { return false };
            if left.is_zero() {
                return false;
            }
            wait_readable(running.lifeline.as_fd(), left);
            if self.hear() == Some(SWEPT) {
                return true;
            }
        }
    }

    /// What the guardian says, if anything. Notices when it has died.
    fn hear(&mut self) -> Option<u8> {
        match self.running.as_mut()?.hear() {
            Heard::Byte(byte) => Some(byte),
            Heard::Nothing => None,
            Heard::Died => {
                self.end();
                None
            }
        }
    }

    /// Whether the guardian is on watch. Reads the lifeline: notices that it began or died.
    pub(crate) fn is_ready(&mut self) -> bool {
        while self.hear().is_some() {}
        self.running.as_ref().is_some_and(|running| running.ready)
    }

    /// Ends the guardian, which first sweeps.
    fn end(&mut self) {
        if let Some(running) = self.running.take() {
            running.end();
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.end();
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn wait_readable(fd: BorrowedFd<'_>, timeout: Duration) {
    let timeout = Timespec {
        tv_sec: timeout.as_secs().cast_signed(),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // An error or an early end is seen by whoever looks next.
    let _ = rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout));
}
