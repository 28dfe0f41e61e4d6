//! The guardian: a small process that gives everything back, the moment that the one it watches
//! dies, however that dies.
//!
//! It is started before anything is touched. It shares the [`Record`] and one socket, the
//! **lifeline**, whose other end only the watched process has: end of file on it, or the watched
//! process's pidfd, means that it died. Both come only when all its threads are gone, so
//! nobody changes anything after the guardian begins.
//!
//! On the lifeline the guardian says `READY` once. It is told to [`SWEEP`] when processes were
//! released: then it takes the children that they made while they were held, and that have no
//! record of their own, out of SCHED_IDLE, and says [`SWEPT`]. Told to [`LEAVE`], it sweeps
//! once more and ends.

mod births;
mod guard;
mod protocol;
mod watch;

pub use guard::{Guard, Watch};
pub use watch::guardian_main;

use crate::record::{Record, RecordOptions};
use crate::restore::{Restored, Restorers, restore_leftovers};
use protocol::{LEAVE, SWEEP, SWEPT};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Timeout of a sweep, and of an end.
const SWEEP_WAIT: Duration = Duration::from_secs(10);

/// Timeout of a guardian's start, on a machine that is busy.
const START_WAIT: Duration = Duration::from_secs(20);

/// The reason why there is no guardian.
#[derive(Debug, thiserror::Error)]
pub enum GuardianError {
    /// Its program cannot be run.
    #[error("the guardian `{program}` cannot be started")]
    Start {
        /// The program.
        program: String,
        /// The reason.
        source: io::Error,
    },
    /// It ended, or did not begin in time.
    #[error("the guardian `{program}` did not begin its watch")]
    NotReady {
        /// The program.
        program: String,
    },
    /// The record of what was changed cannot be kept.
    #[error("the record of what was changed{0} cannot be used")]
    Record(String, #[source] io::Error),
}

/// A running guardian, and the record that it works from. Ends it when dropped: whoever owns it gives
/// everything back before.
pub struct Guardian {
    program: PathBuf,
    /// Everything that was changed.
    pub record: Record,
    path: Option<PathBuf>,
    restorers: Restorers<'static>,
    leftovers: Restored,
    /// Something could not be given back when that was last tried.
    failed: bool,
    running: Option<Running>,
}

/// A guardian's process.
struct Running {
    child: Child,
    lifeline: OwnedFd,
    ready: bool,
}

/// A message of a guardian.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heard {
    Byte(u8),
    Nothing,
    Died,
}

impl Running {
    /// Starts `<program> guardian`, which finds what to give back in `record`. Does not wait until
    /// it is on watch.
    fn spawn(program: &Path, record: &Record) -> Result<Self, GuardianError> {
        let failed =
            |source| GuardianError::Start { program: program.display().to_string(), source };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (lifeline, theirs) = pair.map_err(|errno| failed(errno.into()))?;
        let child = Command::new(program)
            .arg("guardian")
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::from(record.file().map_err(failed)?))
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        Ok(Running { child, lifeline, ready: false })
    }

    /// Waits until it is on watch; false when it died or took too long.
    fn wait_until_ready(&mut self) -> bool {
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
    fn is_ready(&mut self) -> Option<bool> {
        loop {
            match self.hear() {
                Heard::Byte(_) => {}
                Heard::Nothing => return Some(self.ready),
                Heard::Died => return None,
            }
        }
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
    fn end(mut self) {
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
    /// watch. The record is kept in the file `path` where one is given (best in /run): what a killed
    /// allotd and a killed guardian left there is restored first. `restorers` give back what the owner
    /// will note in the log; the program must give at least these to [`guardian_main`].
    ///
    /// # Errors
    /// When the program cannot be started or does not begin, or the file cannot be used.
    pub fn start(
        program: &Path,
        path: Option<&Path>,
        options: &RecordOptions,
        restorers: Restorers<'static>,
    ) -> Result<Guardian, GuardianError> {
        let failed = |error| {
            let path = path.map_or(String::new(), |path| format!(" in {}", path.display()));
            GuardianError::Record(path, error)
        };
        let leftovers = match path {
            Some(path) => restore_leftovers(path, restorers).map_err(failed)?,
            None => Restored::default(),
        };
        let record = Record::create(path, options).map_err(failed)?;
        let (program, path) = (program.to_owned(), path.map(Path::to_owned));
        let (failed, running) = (false, None);
        let mut guardian =
            Guardian { program, record, path, restorers, leftovers, failed, running };
        guardian.spawn()?;
        if guardian.running.as_mut().is_some_and(Running::wait_until_ready) {
            return Ok(guardian);
        }
        Err(guardian.not_ready())
    }

    /// The leftovers of an earlier allotd that were given back when this guardian was started.
    pub fn leftovers(&self) -> &Restored {
        &self.leftovers
    }

    /// The guardian's process; `None` while there is none on watch.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().filter(|running| running.ready).map(|running| running.child.id())
    }

    fn not_ready(&self) -> GuardianError {
        GuardianError::NotReady { program: self.program.display().to_string() }
    }

    /// Starts a guardian, without waiting for it to be on watch.
    pub fn spawn(&mut self) -> Result<(), GuardianError> {
        self.end();
        self.running = Some(Running::spawn(&self.program, &self.record)?);
        Ok(())
    }

    /// Gives back everything on record, and forgets it if that went well. The caller holds no process
    /// then.
    pub fn restore(&mut self) -> Restored {
        let restored = self.record.restore(self.restorers);
        self.failed = !restored.failed.is_empty();
        restored
    }

    /// The lifeline, to poll: readable when the guardian begins its watch or dies.
    pub fn lifeline(&self) -> Option<BorrowedFd<'_>> {
        self.running.as_ref().map(|running| running.lifeline.as_fd())
    }

    /// Lets the guardian free the children of processes that were released; waits for that if told
    /// to. False when there is none to do it.
    pub fn sweep(&mut self, wait: bool) -> bool {
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

    /// Reads a message of the guardian, if there is one. Notices when it has died.
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
    pub fn is_ready(&mut self) -> bool {
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
        // A record that could not be given back is tried again at the next start.
        if let Some(path) = &self.path
            && self.record.is_settled()
            && !self.failed
        {
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
