//! The guardian's own process.

use super::{LEAVE, READY, SWEEP, SWEPT};
use crate::registry::{IDLED, Registry};
use crate::restore::{Lineage, free_inheritors, restore_all};
use crate::scheduling::{SchedulingPolicy, raise_this_thread};
use nix::sys::mman::{MlockAllFlags, mlockall};
use observe::{LifeEvent, LifeSource, ProcConnector};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::PidfdFlags;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Room for some thousand events; what is lost is made up for by looking at all processes.
const EVENT_BUFFER_BYTES: usize = 4 << 20;

/// What `<program> guardian` does: watches over its parent. Standard input is the lifeline,
/// standard output the registry's file. Never returns.
pub fn guardian_main() -> ! {
    std::process::exit(match watch() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("allot guardian: {error}");
            1
        }
    })
}

fn watch() -> std::io::Result<()> {
    let parent = rustix::process::getppid();
    ignore_signals();
    // Fails only for a leader of a process group, which is no session of ours either.
    let _ = rustix::process::setsid();
    close_from_3();
    let lifeline = std::io::stdin().as_fd().try_clone_to_owned()?;
    let registry = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
    let _ = std::fs::write("/proc/self/comm", "allot-guardian");
    raise_this_thread();

    let mut registry = registry;
    if crate::cgroup::is_record(&mut registry) {
        return watch_cgroups(&lifeline, parent, registry);
    }
    let registry = Registry::of(registry)?.ok_or_else(|| {
        std::io::Error::new(std::io::ErrorKind::InvalidInput, "standard output is no registry")
    })?;
    let watched = parent.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
    let mut births = Births::new();
    // Later than what is allocated above, earlier than what could be needed in an emergency.
    let _ = mlockall(MlockAllFlags::MCL_CURRENT);
    rustix::net::send(&lifeline, &[READY], SendFlags::NOSIGNAL)?;

    // The parent may have died before its pidfd was taken: then it is another's, and only the
    // lifeline counts.
    let watched = watched.filter(|_| rustix::process::getppid() == parent);
    loop {
        wait(&lifeline, watched.as_ref(), &births)?;
        births.take(&registry);
        match look(&lifeline) {
            Look::Sweep => {
                free_inheritors(&registry, || births.lineage(&registry), &mut Vec::new());
                // The other end may be gone: then that is seen next.
                let _ = rustix::net::send(&lifeline, &[SWEPT], SendFlags::NOSIGNAL);
            }
            // What leaves has given everything back, so only the children are left to restore.
            Look::Leave | Look::Died => break,
            Look::Nothing if watched.as_ref().is_some_and(has_exited) => break,
            Look::Nothing => {}
        }
    }
    restore_all(&registry, || births.lineage(&registry));
    Ok(())
}

/// The same for whoever changed cgroups: they say themselves who is in them, so there is nothing
/// to follow.
fn watch_cgroups(
    lifeline: &OwnedFd,
    parent: Option<rustix::process::Pid>,
    mut record: File,
) -> std::io::Result<()> {
    let watched = parent.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
    let _ = mlockall(MlockAllFlags::MCL_CURRENT);
    rustix::net::send(lifeline, &[READY], SendFlags::NOSIGNAL)?;
    let watched = watched.filter(|_| rustix::process::getppid() == parent);
    loop {
        poll(lifeline, watched.as_ref(), None)?;
        match look(lifeline) {
            Look::Leave | Look::Died => break,
            Look::Nothing if watched.as_ref().is_some_and(has_exited) => break,
            Look::Nothing | Look::Sweep => {}
        }
    }
    crate::cgroup::restore_from(&mut record);
    Ok(())
}

enum Look {
    Nothing,
    Leave,
    Sweep,
    Died,
}

fn look(lifeline: &OwnedFd) -> Look {
    let mut byte = [0];
    match rustix::net::recv(lifeline, &mut byte, RecvFlags::DONTWAIT) {
        Ok((1, _)) if byte == [LEAVE] => Look::Leave,
        Ok((1, _)) if byte == [SWEEP] => Look::Sweep,
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Look::Nothing,
        _ => Look::Died,
    }
}

fn has_exited(pidfd: &OwnedFd) -> bool {
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&now)) == Ok(1)
}

fn wait(lifeline: &OwnedFd, watched: Option<&OwnedFd>, births: &Births) -> std::io::Result<()> {
    poll(lifeline, watched, births.source.as_ref().and_then(|source| source.poll_fd()))
}

fn poll(
    lifeline: &OwnedFd,
    watched: Option<&OwnedFd>,
    source: Option<BorrowedFd<'_>>,
) -> std::io::Result<()> {
    let mut fds = vec![PollFd::new(lifeline, PollFlags::IN)];
    fds.extend(watched.map(|pidfd| PollFd::new(pidfd, PollFlags::IN)));
    fds.extend(source.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
    // Now and then the connector must be asked whether it still hears.
    let timeout = source.is_some().then_some(rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 });
    match rustix::event::poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Follows who is born of a process that was held.
struct Births {
    source: Option<ProcConnector>,
    lineage: Lineage,
    /// What the registry said when it was last read, and the time before.
    held: BTreeMap<u32, SchedulingPolicy>,
    held_before: BTreeMap<u32, SchedulingPolicy>,
    epoch: u64,
}

impl Births {
    fn new() -> Births {
        let source = ProcConnector::with_receive_buffer(EVENT_BUFFER_BYTES).ok();
        let lineage = Lineage { complete: source.is_some(), ..Lineage::default() };
        let (held, held_before) = (BTreeMap::new(), BTreeMap::new());
        Births { source, lineage, held, held_before, epoch: 0 }
    }

    /// Who descends from whom, as of now.
    fn lineage(&mut self, registry: &Registry) -> Lineage {
        self.take(registry);
        self.lineage.clone()
    }

    /// Takes what the kernel has told. The order matters: a child that inherited something was
    /// born after its parent was noted in the registry, so the registry is read after the
    /// events.
    fn take(&mut self, registry: &Registry) {
        let Some(source) = &mut self.source else { return };
        loop {
            match source.next(Duration::ZERO) {
                Ok(events) if events.is_empty() => return,
                Ok(events) => {
                    if registry.epoch() != self.epoch {
                        self.epoch = registry.epoch();
                        let held = registry
                            .entries()
                            .filter(|entry| entry.tid.is_none() && entry.flags & IDLED != 0)
                            .map(|entry| (entry.before.process.pid, entry.before.policy))
                            .collect();
                        self.held_before = std::mem::replace(&mut self.held, held);
                    }
                    for event in events {
                        follow(&mut self.lineage, &self.held, &self.held_before, &event);
                    }
                }
                Err(_) => {
                    self.source = None;
                    self.lineage.complete = false;
                    return;
                }
            }
        }
    }
}

fn follow(
    lineage: &mut Lineage,
    held: &BTreeMap<u32, SchedulingPolicy>,
    held_before: &BTreeMap<u32, SchedulingPolicy>,
    event: &LifeEvent,
) {
    match event {
        LifeEvent::Fork { parent, child } => {
            let policy = held
                .get(&parent.pid)
                .or_else(|| held_before.get(&parent.pid))
                .copied()
                .or_else(|| lineage.born.get(&parent.pid).map(|(_, policy)| *policy));
            match policy {
                Some(policy) => {
                    let start = child.identity.map(|identity| identity.start_time_ticks);
                    lineage.born.insert(child.pid, (start, policy));
                }
                None => {
                    lineage.born.remove(&child.pid);
                }
            }
        }
        LifeEvent::Exit { process } => {
            lineage.born.remove(&process.pid);
        }
        LifeEvent::Lost { .. } => lineage.complete = false,
        LifeEvent::Exec { .. } | LifeEvent::UidChanged { .. } | LifeEvent::GidChanged { .. } => {}
    }
}

fn ignore_signals() {
    for number in 1..=libc::SIGRTMAX() {
        // SAFETY: no handler is installed, only the disposition to ignore. KILL and STOP refuse,
        // as do the numbers that the C library keeps for itself.
        unsafe { libc::signal(number, libc::SIG_IGN) };
    }
}

/// Closes what was inherited by mistake. Before anything is opened here.
fn close_from_3() {
    // SAFETY: nothing in this process owns these numbers yet. Where the call is missing, nothing
    // is closed, and what was inherited is at most held open.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}
