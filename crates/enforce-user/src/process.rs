//! One managed process: what it had, and how it is held.

use crate::cells::{Cell, Cells};
use enforcer::HoldMethod;
use enforcer::{Drift, DriftLog};
use ledger::ProcessIdentity;
use observe::{ProcessError, ProcessFacts, ProcessHandle, RunState};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::process::Signal;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use undo::record::{IDLED, OriginalState, ProcessTable, STOPPED, Slot};
use undo::scheduling::{SchedulingPolicy, count_calls, nice_of, policy_of, set_policy};

/// Why something could not be done to a process.
#[derive(Debug)]
pub(crate) enum HoldError {
    /// It has exited.
    Gone,
    /// It may not or cannot be managed, for this reason.
    Unmanaged(String),
}

impl HoldError {
    fn from_io(error: &io::Error) -> HoldError {
        match error.raw_os_error() {
            Some(libc::ESRCH | libc::ENOENT) => HoldError::Gone,
            Some(libc::EPERM | libc::EACCES) => {
                HoldError::Unmanaged("we have no right over it".to_owned())
            }
            _ => HoldError::Unmanaged(error.to_string()),
        }
    }
}

impl From<ProcessError> for HoldError {
    fn from(error: ProcessError) -> HoldError {
        if error.is_gone() { HoldError::Gone } else { HoldError::Unmanaged(error.to_string()) }
    }
}

/// What a process needs of the enforcer to be switched.
pub(crate) struct Hands<'a> {
    pub table: &'a mut ProcessTable,
    /// Where losers can be made to stand still whatever they do; `None` where they are stopped.
    pub cells: Option<&'a mut Cells>,
    pub drift: &'a mut DriftLog,
}

/// How processes can be held here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HoldSetting {
    /// [`HoldMethod::Idle`] or [`HoldMethod::Stop`].
    pub hold: HoldMethod,
    /// Every process may come back from SCHED_IDLE.
    pub privileged: bool,
}

/// A thread and the policy that it has of its own.
#[derive(Debug)]
struct Thread {
    tid: u32,
    own: SchedulingPolicy,
    /// Where its own policy is noted; the leader's is in the process's record.
    slot: Option<Slot>,
}

/// A process that is managed.
pub(crate) struct Process {
    handle: ProcessHandle,
    /// `/proc/<pid>/task`.
    tasks: OwnedFd,
    /// The leader first.
    threads: Vec<Thread>,
    original: OriginalState,
    slot: Slot,
    idled: bool,
    stopped: bool,
    cell: Option<Cell>,
    /// No cell can be made for it.
    cell_refused: bool,
    /// It could not come back from SCHED_IDLE, so it must be stopped instead.
    pub stop_only: bool,
}

impl Process {
    /// Takes a process under management, without changing anything. `inherited` tells what policy
    /// an ancestor that we held had, for a process that is found in SCHED_IDLE.
    pub fn open(
        identity: ProcessIdentity,
        setting: HoldSetting,
        table: &mut ProcessTable,
        inherited: impl FnOnce(&ProcessFacts) -> Option<SchedulingPolicy>,
    ) -> Result<Process, HoldError> {
        let handle = ProcessHandle::open_identity(identity)?;
        let facts = handle.facts()?;
        if facts.is_kernel_thread {
            return Err(HoldError::Unmanaged("it is a thread of the kernel".to_owned()));
        }
        let pid = identity.pid;
        let tasks = rustix::fs::open(
            format!("/proc/{pid}/task"),
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(|errno| HoldError::from_io(&errno.into()))?;
        let found = policy_of(pid).map_err(|error| HoldError::from_io(&error))?;
        let nice = nice_of(pid).map_err(|error| HoldError::from_io(&error))?;
        if !found.is_ordinary() {
            return Err(HoldError::Unmanaged(format!("its policy is {found}, which goes first")));
        }
        let inherited = if found.is_idle() { inherited(&facts) } else { None };
        let original = OriginalState {
            process: identity,
            policy: inherited.unwrap_or(found),
            nice,
            session: facts.session,
            process_group: facts.process_group,
            uid: facts.real_uid,
        };
        // All that was read by pid was its own if it lives now.
        if !handle.is_alive() {
            return Err(HoldError::Gone);
        }
        let slot = table.register(&original).ok_or_else(|| {
            HoldError::Unmanaged("the record of touched processes is full".to_owned())
        })?;
        if inherited.is_some() {
            table.set_flag(slot, IDLED);
        }
        let mut process = Process {
            handle,
            tasks,
            threads: Vec::new(),
            original,
            slot,
            idled: inherited.is_some(),
            stopped: false,
            cell: None,
            cell_refused: false,
            stop_only: setting.hold == HoldMethod::Stop
                || !(setting.privileged || may_come_back(pid, nice)),
        };
        match process.list_threads(table) {
            Ok(()) => Ok(process),
            Err(trouble) => {
                table.release(slot);
                Err(trouble)
            }
        }
    }

    pub fn identity(&self) -> ProcessIdentity {
        self.original.process
    }

    /// The policy that it has of its own.
    pub fn own_policy(&self) -> SchedulingPolicy {
        self.original.policy
    }

    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.handle.pidfd()
    }

    pub fn is_alive(&self) -> bool {
        count_calls(1);
        self.handle.is_alive()
    }

    pub fn is_idled(&self) -> bool {
        self.idled
    }

    /// Whether it stands still by our doing.
    pub fn stands(&self) -> bool {
        self.stopped || self.cell.as_ref().is_some_and(Cell::is_frozen)
    }

    /// Whether it stands still by a signal, which others can undo.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether no cell can be made for it.
    pub fn is_cell_refused(&self) -> bool {
        self.cell_refused
    }

    /// CPU time used so far, in ns; `None` once it has been reaped.
    pub fn cpu_time_ns(&self) -> Option<u64> {
        count_calls(2);
        self.handle.cpu_time_ns().ok()
    }

    /// CPU time used so far, in ns, of one that mostly sleeps and had used so much.
    pub fn cpu_time_since(&self, last_ns: u64) -> Option<u64> {
        count_calls(1);
        self.handle.cpu_time_since(last_ns).ok()
    }

    /// Its real uid now.
    pub fn real_uid(&self) -> Result<u32, HoldError> {
        count_calls(1);
        Ok(self.handle.real_uid()?)
    }

    pub fn run_state(&self) -> RunState {
        count_calls(1);
        self.handle.run_state().unwrap_or(RunState::Running)
    }

    /// Whether a shell runs it in the foreground of a terminal: the shell would take a stop for
    /// its user's own, and take the terminal back.
    pub fn is_foreground_job(&self) -> bool {
        fn stat(pid: u32) -> Option<Vec<i64>> {
            let line = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
            let end = line.iter().rposition(|byte| *byte == b')')?;
            let rest = std::str::from_utf8(line.get(end + 4..)?).ok()?;
            Some(rest.split(' ').take(5).filter_map(|field| field.parse().ok()).collect())
        }
        // Parent, process group, session, terminal, the terminal's foreground process group.
        let Some(&[parent, group, _, terminal, foreground]) =
            stat(self.original.process.pid).as_deref()
        else {
            return false;
        };
        let parents_group =
            u32::try_from(parent).ok().and_then(stat).and_then(|fields| fields.get(1).copied());
        terminal != 0 && group == foreground && parents_group != Some(group)
    }

    /// Brings it out of or into SCHED_IDLE, with all its threads.
    pub fn set_idle(&mut self, idle: bool, hands: &mut Hands<'_>) -> Result<(), HoldError> {
        if !self.is_alive() {
            return Err(HoldError::Gone);
        }
        if idle {
            hands.table.set_flag(self.slot, IDLED);
            self.idled = true;
        }
        if self.thread_count()? != self.threads.len() {
            self.list_threads(hands.table)?;
        }
        // A thread that is not switched yet can start another meanwhile.
        const PASSES: u32 = 8;
        for _ in 0..PASSES {
            for index in 0..self.threads.len() {
                self.switch_thread(index, idle, hands)?;
            }
            if self.threads.len() == 1 && self.is_alive() && self.thread_count()? == 1 {
                break;
            }
            let known = self.threads.len();
            let added = self.list_threads_anew(hands.table)?;
            if !added && known == self.threads.len() {
                break;
            }
        }
        self.idled = idle;
        Ok(())
    }

    fn switch_thread(
        &mut self,
        index: usize,
        idle: bool,
        hands: &mut Hands<'_>,
    ) -> Result<(), HoldError> {
        let Thread { tid, own, .. } = self.threads[index];
        let now = match policy_of(tid) {
            Ok(now) => now,
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
            Err(error) => return Err(HoldError::from_io(&error)),
        };
        if !now.is_ordinary() {
            if index == 0 {
                return Err(HoldError::Unmanaged(format!(
                    "its policy became {now}, which goes first"
                )));
            }
            return Ok(());
        }
        if now != own && now != own.held() {
            let what = format!("thread {tid} was given {now}; that is now its own policy");
            hands.drift.push(Drift { process: Some(self.original.process), what });
            if !self.note_own_policy(index, now, hands.table) {
                return Ok(());
            }
        }
        let own = self.threads[index].own;
        let wanted = if idle { own.held() } else { own };
        if now == wanted {
            return Ok(());
        }
        match set_policy(tid, wanted) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
            Err(error) => return Err(HoldError::from_io(&error)),
        }
        if !self.has_thread(tid) {
            // It ended before or after that call. If before, the number may name another's
            // thread: give that back what it had.
            let _ = set_policy(tid, now);
        }
        Ok(())
    }

    /// Whether a thread is (still) one of ours: its number means no other then.
    fn has_thread(&self, tid: u32) -> bool {
        if tid == self.original.process.pid {
            return self.is_alive();
        }
        count_calls(1);
        rustix::fs::statat(&self.tasks, tid.to_string(), AtFlags::empty()).is_ok()
    }

    /// Notes that a thread's own policy is now this. False when there is no room to note it: then
    /// it must not be changed.
    fn note_own_policy(
        &mut self,
        index: usize,
        policy: SchedulingPolicy,
        table: &mut ProcessTable,
    ) -> bool {
        let thread = &mut self.threads[index];
        thread.own = policy;
        if index == 0 {
            self.original.policy = policy;
            table.set_policy(self.slot, policy);
            return true;
        }
        match thread.slot {
            Some(slot) => table.set_policy(slot, policy),
            None => thread.slot = table.register_thread(&self.original, thread.tid, policy),
        }
        thread.slot.is_some()
    }

    fn thread_count(&self) -> Result<usize, HoldError> {
        count_calls(1);
        // The kernel counts `.`, `..` and every thread as a link.
        match rustix::fs::fstat(&self.tasks) {
            Ok(stat) if stat.st_nlink > 2 => Ok(stat.st_nlink as usize - 2),
            Ok(_) => Err(HoldError::Gone),
            Err(errno) => Err(HoldError::from_io(&errno.into())),
        }
    }

    fn list_threads(&mut self, table: &mut ProcessTable) -> Result<(), HoldError> {
        self.list_threads_anew(table).map(drop)
    }

    /// Looks which threads there are. Answers whether there is one that was not known.
    fn list_threads_anew(&mut self, table: &mut ProcessTable) -> Result<bool, HoldError> {
        count_calls(4);
        let mut tids = self.handle.threads()?;
        let leader = self.original.process.pid;
        // The leader leads the list even when it has exited before the others.
        tids.retain(|tid| *tid != leader);
        tids.insert(0, leader);
        let mut old = std::mem::take(&mut self.threads);
        let mut added = false;
        for tid in tids {
            if let Some(known) = old.iter().position(|thread| thread.tid == tid) {
                self.threads.push(old.swap_remove(known));
                continue;
            }
            added = true;
            let found = policy_of(tid).unwrap_or(self.original.policy);
            // A new thread of a process that is or was held inherited that from its maker.
            let own = if found.is_idle() { self.original.policy } else { found };
            self.threads.push(Thread { tid, own, slot: None });
            let index = self.threads.len() - 1;
            if own != self.original.policy && own.is_ordinary() {
                self.note_own_policy(index, own, table);
            }
        }
        for gone in old {
            if let Some(slot) = gone.slot {
                table.release(slot);
            }
        }
        Ok(added)
    }

    /// Looks whether it is as we have set it. Answers what was found instead, and whether that
    /// must be set again.
    pub fn check(&mut self, hands: &mut Hands<'_>) -> Result<bool, HoldError> {
        if self.thread_count()? != 1 || self.threads.len() != 1 {
            self.list_threads(hands.table)?;
        }
        let mut again = false;
        for index in 0..self.threads.len() {
            let Thread { tid, own, .. } = self.threads[index];
            let Ok(now) = policy_of(tid) else { continue };
            if !now.is_ordinary() {
                if index == 0 {
                    return Err(HoldError::Unmanaged(format!(
                        "its policy became {now}, which goes first"
                    )));
                }
                continue;
            }
            let wanted = if self.idled { own.held() } else { own };
            if now == wanted {
                continue;
            }
            again = true;
            let what = format!("thread {tid} was found in {now} where {wanted} was set");
            hands.drift.push(Drift { process: Some(self.original.process), what });
            if !now.is_idle() {
                self.note_own_policy(index, now, hands.table);
            }
        }
        Ok(again)
    }

    /// Makes it stand still: in a cell where there can be one, else by a signal. `Ok(false)`: somebody else has stopped
    /// it already.
    pub fn halt(&mut self, hands: &mut Hands<'_>) -> Result<bool, HoldError> {
        if self.stands() {
            return Ok(true);
        }
        if self.run_state() == RunState::Stopped {
            return Ok(false);
        }
        match self.freeze(hands) {
            Some(Ok(())) => Ok(true),
            Some(Err(error)) => {
                if !self.is_alive() {
                    return Err(HoldError::Gone);
                }
                self.cell_refused = true;
                let what = format!("it cannot be frozen, so it is stopped: {error}");
                hands.drift.push(Drift { process: Some(self.original.process), what });
                self.stop(hands.table)
            }
            None => self.stop(hands.table),
        }
    }

    /// Freezes it in a cell. `None` where there can be none.
    pub fn freeze(&mut self, hands: &mut Hands<'_>) -> Option<io::Result<()>> {
        if self.cell_refused {
            return None;
        }
        self.enter_cell(hands)?.err().map(Err).or_else(|| {
            count_calls(1);
            Some(self.cell.as_mut().expect("just entered").set(true))
        })
    }

    /// Puts it into a cell of its own, thawed, unless it is there. `None` where there are no cells.
    pub fn enter_cell(&mut self, hands: &mut Hands<'_>) -> Option<io::Result<()>> {
        let cells = hands.cells.as_deref_mut()?;
        if self.cell.is_some() {
            return Some(Ok(()));
        }
        count_calls(4);
        Some(cells.make(&self.handle).map(|cell| self.cell = Some(cell)))
    }

    /// Stops it. `Ok(false)`: somebody else has stopped it already.
    pub fn stop(&mut self, table: &mut ProcessTable) -> Result<bool, HoldError> {
        if self.stopped {
            return Ok(true);
        }
        if self.run_state() == RunState::Stopped {
            return Ok(false);
        }
        table.set_flag(self.slot, STOPPED);
        self.stopped = true;
        self.signal(Signal::STOP).map(|()| true)
    }

    /// Sends the stop once more, for one that somebody has continued.
    pub fn stop_again(&mut self) -> Result<(), HoldError> {
        self.signal(Signal::STOP)
    }

    /// Continues it if it stands by our doing.
    pub fn go_on(&mut self, table: &ProcessTable) -> Result<(), HoldError> {
        if let Some(cell) = self.cell.as_mut().filter(|cell| cell.is_frozen()) {
            count_calls(1);
            cell.set(false).map_err(|error| HoldError::from_io(&error))?;
        }
        if !self.stopped {
            return Ok(());
        }
        self.signal(Signal::CONT)?;
        self.stopped = false;
        table.clear_flag(self.slot, STOPPED);
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<(), HoldError> {
        count_calls(1);
        rustix::process::pidfd_send_signal(self.handle.pidfd(), signal)
            .map_err(|errno| HoldError::from_io(&errno.into()))
    }

    /// Gives it back what it had.
    pub fn give_back(&mut self, hands: &mut Hands<'_>) -> Result<(), HoldError> {
        let freed = if self.idled { self.set_idle(false, hands) } else { Ok(()) };
        // Also where it has exited: what was born in its cell has not.
        if let (Some(cell), Some(cells)) = (self.cell.take(), hands.cells.as_deref_mut()) {
            cells.dissolve(cell);
        }
        self.go_on(hands.table)?;
        freed
    }

    /// Whether somebody has killed it while it is frozen: of version 1 a frozen process does not even die.
    pub fn waits_to_die(&self) -> bool {
        const SIGKILL_BIT: u64 = 1 << 8;
        self.cell.as_ref().is_some_and(Cell::is_frozen)
            && self.handle.proc_file("status").ok().is_some_and(|file| {
                let text = io::read_to_string(std::fs::File::from(file)).unwrap_or_default();
                let masks = text.lines().filter_map(|line| {
                    line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"))
                });
                masks
                    .filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok())
                    .any(|mask| mask & SIGKILL_BIT != 0)
            })
    }

    /// Ends management: notes that nothing needs to be given back any more.
    pub fn close(self, table: &mut ProcessTable) {
        for slot in self.threads.iter().filter_map(|thread| thread.slot) {
            table.release(slot);
        }
        table.release(self.slot);
    }
}

/// Whether a process of this nice value may be taken out of SCHED_IDLE again by somebody without
/// CAP_SYS_NICE: the kernel asks whether *its* RLIMIT_NICE allows its nice value.
fn may_come_back(pid: u32, nice: i32) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let pid = pid.cast_signed();
    // SAFETY: no new limit is given, and the old one is written to a live rlimit.
    let result = unsafe { libc::prlimit(pid, libc::RLIMIT_NICE, std::ptr::null(), &raw mut limit) };
    result == 0 && limit.rlim_cur >= u64::from((20 - nice).unsigned_abs())
}

/// CAP_SYS_NICE in this process.
pub(crate) fn is_privileged() -> bool {
    const CAP_SYS_NICE: u32 = 23;
    std::fs::read_to_string("/proc/thread-self/status")
        .ok()
        .and_then(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?.trim();
            u64::from_str_radix(line, 16).ok()
        })
        .is_some_and(|set| set & (1 << CAP_SYS_NICE) != 0)
}
