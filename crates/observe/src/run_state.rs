//! Whether a process competes for the processor now.

use crate::error::ProcessError;
use crate::proc_dir::{ProcDir, STAT_BYTES, read_at};
use crate::stat::state_and_thread_count;
use identity::ProcessIdentity;
use rustix::fs::{Dir, Mode, OFlags};
use serde::Serialize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What a process is doing, over all its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// All threads have exited (`Z`, `X`).
    Dead,
    /// No thread can run until someone continues it (`T`, `t`).
    Stopped,
    /// Waits for something else than the processor (`S`, `D`, `I`, `P`).
    Sleeping,
    /// At least one thread runs or waits for a processor (`R`).
    Running,
}

impl RunState {
    /// From field 3 of `stat`. Letters that a later kernel may add count as sleeping: only `R`
    /// competes for the processor.
    pub(crate) fn from_letter(letter: u8) -> Self {
        match letter {
            b'R' => Self::Running,
            b'T' | b't' => Self::Stopped,
            b'Z' | b'X' | b'x' => Self::Dead,
            _ => Self::Sleeping,
        }
    }
}

/// Descriptors kept open per process for its threads; those beyond are opened at each look.
const KEPT_THREADS: usize = 64;

/// Keeps the `stat` files of one process open, so that a look is one `pread` a thread.
pub(crate) struct StateReader {
    pid: u32,
    stat: OwnedFd,
    tasks: OwnedFd,
    threads: Vec<ThreadFile>,
    /// Where the last running thread was found: the place to look first.
    last_running: usize,
}

struct ThreadFile {
    tid: u32,
    kept: Option<OwnedFd>,
}

impl StateReader {
    pub fn open(identity: ProcessIdentity) -> Result<Self, ProcessError> {
        let directory = ProcDir::open_identity(identity)?;
        Ok(Self {
            pid: identity.pid,
            stat: directory.open_file("stat")?,
            tasks: directory.open_directory("task")?,
            threads: Vec::new(),
            last_running: 0,
        })
    }

    /// Looks now.
    pub fn look(&mut self) -> Result<RunState, ProcessError> {
        let Some((leader, thread_count)) = self.read(self.stat.as_fd())? else {
            return Ok(RunState::Dead);
        };
        if thread_count <= 1 {
            self.threads.clear();
            return Ok(leader);
        }
        if leader == RunState::Running {
            return Ok(leader);
        }
        if self.threads.len() == thread_count as usize {
            let (state, all_there) = self.look_at_threads()?;
            if all_there || state == RunState::Running {
                return Ok(state);
            }
        }
        // Threads came or went since the last look.
        self.list_threads()?;
        Ok(self.look_at_threads()?.0.max(leader))
    }

    /// The most awake of the known threads, and whether all of them are still there: if not,
    /// the list may lack a newer one.
    fn look_at_threads(&mut self) -> Result<(RunState, bool), ProcessError> {
        let count = self.threads.len();
        let mut combined = RunState::Dead;
        let mut all_there = true;
        for step in 0..count {
            let index = (self.last_running + step) % count;
            match self.look_at_thread(&self.threads[index])? {
                Some(RunState::Running) => {
                    self.last_running = index;
                    return Ok((RunState::Running, all_there));
                }
                Some(state) => combined = combined.max(state),
                None => all_there = false,
            }
        }
        Ok((combined, all_there))
    }

    fn look_at_thread(&self, thread: &ThreadFile) -> Result<Option<RunState>, ProcessError> {
        let state = match &thread.kept {
            Some(file) => self.read(file.as_fd())?,
            None => match self.open_thread(thread.tid)? {
                Some(file) => self.read(file.as_fd())?,
                None => None,
            },
        };
        Ok(state.map(|(state, _)| state))
    }

    fn list_threads(&mut self) -> Result<(), ProcessError> {
        self.threads.clear();
        self.last_running = 0;
        for tid in thread_ids(self.pid, self.tasks.as_fd())? {
            let kept =
                if self.threads.len() < KEPT_THREADS { self.open_thread(tid)? } else { None };
            self.threads.push(ThreadFile { tid, kept });
        }
        Ok(())
    }

    fn open_thread(&self, tid: u32) -> Result<Option<OwnedFd>, ProcessError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.tasks, format!("{tid}/stat"), flags, Mode::empty()) {
            Ok(file) => Ok(Some(file)),
            Err(errno) => match ProcessError::from_errno(self.pid, "open task stat", errno) {
                ProcessError::Gone { .. } => Ok(None),
                other => Err(other),
            },
        }
    }

    /// State and thread count; `None` when the process or thread has been reaped.
    fn read(&self, file: BorrowedFd<'_>) -> Result<Option<(RunState, u32)>, ProcessError> {
        let mut buffer = [0; STAT_BYTES];
        let length = match read_at(file, &mut buffer, 0) {
            Ok(length) => length,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            Err(errno) => return Err(ProcessError::from_errno(self.pid, "read stat", errno)),
        };
        let (letter, thread_count) = state_and_thread_count(&buffer[..length])
            .ok_or(ProcessError::Malformed { pid: self.pid, file: "stat" })?;
        Ok(Some((RunState::from_letter(letter), thread_count)))
    }
}

/// The thread ids in an open `/proc/<pid>/task`; empty once the process has been reaped.
pub(crate) fn thread_ids(pid: u32, tasks: BorrowedFd<'_>) -> Result<Vec<u32>, ProcessError> {
    let failed = |errno| match ProcessError::from_errno(pid, "read /proc/<pid>/task", errno) {
        ProcessError::Gone { .. } => None,
        other => Some(other),
    };
    let entries = match Dir::read_from(tasks) {
        Ok(entries) => entries,
        Err(errno) => return failed(errno).map_or(Ok(Vec::new()), Err),
    };
    let mut tids = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => {
                let name = entry.file_name().to_str().ok();
                tids.extend(name.and_then(|name| name.parse::<u32>().ok()));
            }
            Err(errno) => return failed(errno).map_or(Ok(Vec::new()), Err),
        }
    }
    tids.sort_unstable();
    Ok(tids)
}
