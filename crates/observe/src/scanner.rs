//! Life events found by looking at `/proc` again and again.

use crate::facts::ProcessFacts;
use crate::life::{LifeError, LifeEvent, LifeSource, ProcessRef};
use crate::proc_dir::ProcDir;
use crate::run_state::RunState;
use crate::scan::pids;
use identity::ProcessIdentity;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Life events found by comparing scans of `/proc`: for machines where the kernel tells none.
///
/// What a scanner cannot see: processes that live and die between two scans, the first parent
/// of an orphan, the exec of a process that it first sees afterwards, an id that changes and
/// changes back. Within one scan it tells births first (older processes first), then changes,
/// then exits.
#[derive(Debug)]
pub struct Scanner {
    period: Duration,
    last_look: Instant,
    seen: BTreeMap<u32, Seen>,
}

#[derive(Clone, Debug)]
struct Seen {
    identity: ProcessIdentity,
    facts: ProcessFacts,
    image: Image,
    has_exited: bool,
}

/// What tells one program image of a process from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Image {
    /// Device and inode of the program file.
    program: Option<(u64, u64)>,
    /// Where the stack begins: drawn anew by every exec. 0 where we may not look.
    start_stack: u64,
}

impl Seen {
    fn read(pid: u32) -> Option<Self> {
        let directory = ProcDir::open(pid).ok()?;
        let facts = ProcessFacts::read(&directory).ok()?;
        let program = directory.program();
        let (start_time_ticks, start_stack) =
            directory.stat(|stat| (stat.start_time_ticks, stat.start_stack)).ok()?;
        let has_exited = facts.leader_state == RunState::Dead && facts.thread_count <= 1;
        let identity = ProcessIdentity { pid, start_time_ticks };
        Some(Self { identity, facts, image: Image { program, start_stack }, has_exited })
    }

    fn has_run_exec_since(&self, before: &Self) -> bool {
        let (new, old) = (self.image, before.image);
        if new.start_stack != 0 && old.start_stack != 0 {
            return new.start_stack != old.start_stack;
        }
        match (new.program, old.program) {
            (Some(new), Some(old)) if new != old => true,
            // Kernel threads rename themselves; a process may too, but without the right to
            // look closer its name is all that there is.
            _ => {
                !self.facts.is_kernel_thread
                    && (&self.facts.comm, &self.facts.cmdline)
                        != (&before.facts.comm, &before.facts.cmdline)
            }
        }
    }
}

impl Scanner {
    /// Takes a first scan, to compare with. `period` is the time between scans; each costs some
    /// tens of microseconds a process.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn new(period: Duration) -> Result<Self, LifeError> {
        let last_look = Instant::now();
        Ok(Self { period, last_look, seen: look()? })
    }

    /// Scans now and compares.
    fn compare(&mut self) -> Result<Vec<LifeEvent>, LifeError> {
        self.last_look = Instant::now();
        let now = look()?;
        let before = std::mem::replace(&mut self.seen, now);
        let now = &self.seen;
        let mut births = Vec::new();
        let mut changes = Vec::new();
        let mut exits = Vec::new();
        for (pid, seen) in now {
            let process = ProcessRef::from(seen.identity);
            match before.get(pid).filter(|old| old.identity == seen.identity) {
                None => {
                    births.push(seen);
                    if seen.has_exited {
                        exits.push(process);
                    }
                }
                Some(old) if seen.has_exited => {
                    if !old.has_exited {
                        exits.push(process);
                    }
                }
                Some(old) => tell_changes(old, seen, &mut changes),
            }
        }
        for old in before.values().filter(|old| !old.has_exited) {
            if now.get(&old.identity.pid).is_none_or(|seen| seen.identity != old.identity) {
                exits.push(old.identity.into());
            }
        }
        births.sort_by_key(|seen| (seen.identity.start_time_ticks, seen.identity.pid));
        let births = births.into_iter().map(|seen| LifeEvent::Fork {
            parent: parent_of(seen, now),
            child: seen.identity.into(),
        });
        let exits = exits.into_iter().map(|process| LifeEvent::Exit { process });
        Ok(births.chain(changes).chain(exits).collect())
    }
}

fn look() -> Result<BTreeMap<u32, Seen>, LifeError> {
    let pids = pids().map_err(|source| LifeError::Os { call: "read /proc", source })?;
    Ok(pids.into_iter().filter_map(|pid| Some((pid, Seen::read(pid)?))).collect())
}

fn parent_of(child: &Seen, now: &BTreeMap<u32, Seen>) -> ProcessRef {
    let pid = child.facts.parent_pid;
    let identity = now
        .get(&pid)
        .map(|parent| parent.identity)
        .filter(|parent| parent.start_time_ticks <= child.identity.start_time_ticks);
    ProcessRef { pid, identity }
}

fn tell_changes(old: &Seen, new: &Seen, changes: &mut Vec<LifeEvent>) {
    let process = ProcessRef::from(new.identity);
    if new.has_run_exec_since(old) {
        changes.push(LifeEvent::Exec { process });
    }
    let (real_uid, effective_uid) = (new.facts.real_uid, new.facts.effective_uid);
    if (real_uid, effective_uid) != (old.facts.real_uid, old.facts.effective_uid) {
        changes.push(LifeEvent::UidChanged { process, real_uid, effective_uid });
    }
    let (real_gid, effective_gid) = (new.facts.real_gid, new.facts.effective_gid);
    if (real_gid, effective_gid) != (old.facts.real_gid, old.facts.effective_gid) {
        changes.push(LifeEvent::GidChanged { process, real_gid, effective_gid });
    }
}

impl LifeSource for Scanner {
    fn next(&mut self, timeout: Duration) -> Result<Vec<LifeEvent>, LifeError> {
        let deadline = Instant::now() + timeout;
        loop {
            let due = self.last_look + self.period;
            let wake = due.min(deadline);
            std::thread::sleep(wake.saturating_duration_since(Instant::now()));
            if wake < due {
                return Ok(Vec::new());
            }
            let events = self.compare()?;
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }

    fn catch_up(&mut self) -> Result<Vec<LifeEvent>, LifeError> {
        self.compare()
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn name(&self) -> &'static str {
        "scanner"
    }
}
