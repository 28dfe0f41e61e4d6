//! A live handle on one process.

use crate::error::ProcessError;
use crate::facts::ProcessFacts;
use crate::proc_dir::ProcDir;
use crate::run_state::{RunState, StateReader, thread_ids};
use identity::ProcessIdentity;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// A live handle on one process: a pidfd and the identity that it belongs to. It stays with
/// that process for ever; after the process has exited every reader says so, whoever has its
/// pid by then.
///
/// Costs one descriptor, and from the first [`run_state`](Self::run_state) on two more, plus one
/// for each of up to 64 threads when the process has several: a daemon that holds thousands
/// of handles must raise its `RLIMIT_NOFILE`.
#[derive(Debug)]
pub struct ProcessHandle {
    identity: ProcessIdentity,
    pidfd: OwnedFd,
    /// Opened at the first question for the run state.
    state_reader: Mutex<Option<StateReader>>,
}

impl std::fmt::Debug for StateReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StateReader")
    }
}

/// What a process waited for since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessWaits {
    /// Time for which its first thread waited for disks, in ns; 0 where the kernel does not count that.
    pub disk_ns: u64,
    /// Faults for which something was read, of all its threads.
    pub major_faults: u64,
}

impl ProcessHandle {
    /// Takes hold of whatever process has this pid now.
    ///
    /// # Errors
    /// [`ProcessError::Gone`] when no process has the pid, or one that has exited and only
    /// waits to be reaped; [`ProcessError::NotAProcess`] for a thread's number.
    pub fn open(pid: u32) -> Result<Self, ProcessError> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let number = number.ok_or(ProcessError::Gone { pid })?;
        let pidfd = rustix::process::pidfd_open(number, PidfdFlags::empty()).map_err(|errno| {
            match errno {
                // EINVAL, and ENOENT since Linux 6.9: the number is a thread's.
                rustix::io::Errno::INVAL | rustix::io::Errno::NOENT => {
                    ProcessError::NotAProcess { pid }
                }
                other => ProcessError::from_errno(pid, "pidfd_open", other),
            }
        })?;
        Self::from_pidfd(pid, pidfd)
    }

    /// A handle from a pidfd of the process that has this pid (or had it).
    pub(crate) fn from_pidfd(pid: u32, pidfd: OwnedFd) -> Result<Self, ProcessError> {
        let start = ProcDir::open(pid).and_then(|dir| dir.stat(|stat| stat.start_time_ticks));
        // Order matters: the pidfd came first, so if its process lives now, it had the pid all
        // the time and the start time is its own.
        if has_exited(pidfd.as_fd()) {
            return Err(ProcessError::Gone { pid });
        }
        let start_time_ticks = match start {
            Err(ProcessError::Gone { .. }) => return Err(ProcessError::Hidden { pid }),
            other => other?,
        };
        let identity = ProcessIdentity { pid, start_time_ticks };
        Ok(Self { identity, pidfd, state_reader: Mutex::new(None) })
    }

    /// Takes hold of this very process.
    ///
    /// # Errors
    /// [`ProcessError::Reused`] when another process has the pid now, else as [`Self::open`].
    pub fn open_identity(identity: ProcessIdentity) -> Result<Self, ProcessError> {
        let handle = Self::open(identity.pid)?;
        if handle.identity != identity {
            return Err(ProcessError::Reused {
                expected: identity,
                found_start_time_ticks: handle.identity.start_time_ticks,
            });
        }
        Ok(handle)
    }

    /// Which process this is.
    pub fn identity(&self) -> ProcessIdentity {
        self.identity
    }

    /// The pidfd: to signal the process, or to poll for its exit (readable from then on).
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// False once the last thread has exited. A zombie has exited, so it counts as dead,
    /// although its pid cannot be reused until its parent reaps it. A process whose leading
    /// thread has exited lives on while other threads do.
    pub fn is_alive(&self) -> bool {
        !has_exited(self.pidfd.as_fd())
    }

    /// The CPU time that all threads of the process, past ones included, have used, in
    /// nanoseconds. Answers until the process has been reaped, so a zombie's last account can
    /// still be read.
    ///
    /// It is the scheduler's own account (`CLOCK_PROCESS_CPUTIME_ID` of another process) and
    /// costs two system calls.
    ///
    /// # Errors
    /// [`ProcessError::Gone`] once the process has been reaped.
    pub fn cpu_time_ns(&self) -> Result<u64, ProcessError> {
        let pid = self.identity.pid;
        let read = read_clock(process_cpu_clock(pid));
        // A pid is not reused before its process is reaped: if that has not happened by now,
        // what was read is this process's clock.
        if has_been_reaped(self.pidfd.as_fd()) {
            return Err(ProcessError::Gone { pid });
        }
        read.map_err(|source| ProcessError::Os {
            pid,
            call: "clock_gettime of the CPU clock",
            source,
        })
    }

    /// As [`cpu_time_ns`](Self::cpu_time_ns), for one that mostly sleeps: a clock that has not moved since `last_ns` costs
    /// one system call.
    ///
    /// # Errors
    /// [`ProcessError::Gone`] once the process has been reaped, as far as the clock tells.
    pub fn cpu_time_since(&self, last_ns: u64) -> Result<u64, ProcessError> {
        match read_clock(process_cpu_clock(self.identity.pid)) {
            Ok(now) if now == last_ns => Ok(now),
            // Somebody else's clock, perhaps.
            _ => self.cpu_time_ns(),
        }
    }

    /// Whether the process competes for a processor now: [`RunState::Running`] when any of its
    /// threads does. One `pread` for a single-threaded process; for others at most one a
    /// thread, until a running one is found.
    ///
    /// # Errors
    /// Only when the kernel refuses or runs out of descriptors: an exited process is
    /// [`RunState::Dead`].
    pub fn run_state(&self) -> Result<RunState, ProcessError> {
        let mut slot = self.state_reader.lock().unwrap_or_else(PoisonError::into_inner);
        let looked = match &mut *slot {
            Some(reader) => reader.look(),
            None => StateReader::open(self.identity).and_then(|reader| slot.insert(reader).look()),
        };
        match looked {
            Err(error) if error.is_gone() => Ok(RunState::Dead),
            other => other,
        }
    }

    /// What it waited for disks and page faults since it began.
    ///
    /// # Errors
    /// [`ProcessError::Gone`] or [`ProcessError::Reused`] once the process has been reaped.
    pub fn waits(&self) -> Result<ProcessWaits, ProcessError> {
        let ticks_a_second = rustix::param::clock_ticks_per_second().max(1);
        ProcDir::open_identity(self.identity)?.stat(|stat| ProcessWaits {
            disk_ns: stat.disk_wait_ticks.saturating_mul(1_000_000_000 / ticks_a_second),
            major_faults: stat.major_faults,
        })
    }

    /// The real uid of its leading thread now. Costs one system call since Linux 6.13; ask each time before acting
    /// on what is one user's only.
    ///
    /// # Errors
    /// [`ProcessError::Gone`] or [`ProcessError::Reused`] once the process has been reaped.
    pub fn real_uid(&self) -> Result<u32, ProcessError> {
        crate::credentials::real_uid(self.pidfd(), self.identity)
    }

    /// Parent, ids, name and so on, as of now.
    ///
    /// # Errors
    /// [`ProcessError::Gone`] or [`ProcessError::Reused`] once the process has been reaped.
    pub fn facts(&self) -> Result<ProcessFacts, ProcessError> {
        ProcessFacts::read(&ProcDir::open_identity(self.identity)?)
    }

    /// Opens a file of the process's folder in /proc for reading, such as `smaps_rollup`. What is
    /// read there is this process's, or nothing once it is gone.
    ///
    /// # Errors
    /// [`ProcessError::Gone`] or [`ProcessError::Reused`] once the process has been reaped; what
    /// else the kernel says, where we may not look.
    pub fn proc_file(&self, file: &'static str) -> Result<OwnedFd, ProcessError> {
        ProcDir::open_identity(self.identity)?.open_file(file)
    }

    /// Thread ids now, ascending; the leader's is the pid.
    ///
    /// # Errors
    /// [`ProcessError::Gone`] or [`ProcessError::Reused`] once the process has been reaped.
    pub fn threads(&self) -> Result<Vec<u32>, ProcessError> {
        let tasks = ProcDir::open_identity(self.identity)?.open_directory("task")?;
        let tids = thread_ids(self.identity.pid, tasks.as_fd())?;
        if tids.is_empty() {
            return Err(ProcessError::Gone { pid: self.identity.pid });
        }
        Ok(tids)
    }
}

impl AsFd for ProcessHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd()
    }
}

/// True once the last thread of the pidfd's process has exited, reaped or not: the kernel makes
/// a pidfd readable at that moment and leaves it so.
pub(crate) fn has_exited(pidfd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&now))) {
        Ok(ready) => ready > 0,
        // Out of kernel memory. Nobody may act on a process that we cannot vouch for.
        Err(_) => true,
    }
}

/// True once the pidfd's process has been reaped, so that its pid may be another's.
pub(crate) fn has_been_reaped(pidfd: BorrowedFd<'_>) -> bool {
    // SAFETY: the call reads no memory of ours (the siginfo pointer is null); signal 0 is only
    // the kernel's check that the process exists, and changes nothing.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            0,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    // EPERM: it exists and is another user's.
    result != 0 && std::io::Error::last_os_error().raw_os_error() != Some(libc::EPERM)
}

/// The CPU clock of a process: `MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED)` of
/// include/linux/posix-timers_types.h. Unlike `clock_getcpuclockid` this asks nothing of the
/// kernel.
fn process_cpu_clock(pid: u32) -> libc::clockid_t {
    const CPUCLOCK_SCHED: i32 = 2;
    (!pid.cast_signed() << 3) | CPUCLOCK_SCHED
}

/// The time of a clock, in nanoseconds.
fn read_clock(clock: libc::clockid_t) -> std::io::Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, and there is room for it.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Ok(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0))
}
