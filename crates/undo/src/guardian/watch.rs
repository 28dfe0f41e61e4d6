//! The guardian's own process.

use super::births::Births;
use super::protocol::{LEAVE, READY, SWEEP, SWEPT};
use crate::record::Record;
use crate::restore::{Restorers, free_inheritors, restore};
use crate::scheduling::raise_this_thread;
use nix::sys::mman::{MlockAllFlags, mlockall};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::PidfdFlags;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Watches over the parent: the work of `<program> guardian`. Standard input is the lifeline,
/// standard output the record. Never returns.
pub fn guardian_main(restorers: Restorers<'_>) -> ! {
    std::process::exit(match watch(restorers) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("allot guardian: {error}");
            1
        }
    })
}

fn watch(restorers: Restorers<'_>) -> io::Result<()> {
    let parent = rustix::process::getppid();
    ignore_signals();
    // Fails only for a leader of a process group, which is no session of ours either.
    let _ = rustix::process::setsid();
    close_from_3();
    let lifeline = io::stdin().as_fd().try_clone_to_owned()?;
    let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
    let _ = std::fs::write("/proc/self/comm", "allot-guardian");
    raise_this_thread();

    let mut record = Record::of(file)?.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "standard output is no record")
    })?;
    let watched = parent.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
    let mut births = Births::of(&record.processes);
    // Later than what is allocated above, earlier than what could be needed in an emergency.
    let _ = mlockall(MlockAllFlags::MCL_CURRENT);
    rustix::net::send(&lifeline, &[READY], SendFlags::NOSIGNAL)?;

    // The parent may have died before its pidfd was taken: then it is another's, and only the
    // lifeline counts.
    let watched = watched.filter(|_| rustix::process::getppid() == parent);
    let leaves = loop {
        wait(&lifeline, watched.as_ref(), births.poll_fd())?;
        births.take(&record.processes);
        match look(&lifeline) {
            Look::Sweep => {
                let table = &record.processes;
                free_inheritors(table, || births.lineage(table), &mut Vec::new());
                // The other end may be gone: then that is seen next.
                let _ = rustix::net::send(&lifeline, &[SWEPT], SendFlags::NOSIGNAL);
            }
            Look::Leave => break true,
            Look::Died => break false,
            Look::Nothing if watched.as_ref().is_some_and(has_exited) => break false,
            Look::Nothing => {}
        }
    };
    // Whoever told us to leave has given everything back; the children may be left to restore.
    let restored = restore(&record.contents(), restorers, || births.lineage(&record.processes));
    // The record of one that lives is its own to change.
    if !leaves && restored.failed.is_empty() {
        record.forget()?;
    }
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
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&now)) == Ok(1)
}

fn wait(
    lifeline: &OwnedFd,
    watched: Option<&OwnedFd>,
    source: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut fds = vec![PollFd::new(lifeline, PollFlags::IN)];
    fds.extend(watched.map(|pidfd| PollFd::new(pidfd, PollFlags::IN)));
    fds.extend(source.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
    // Now and then the connector must be asked whether it still hears.
    let timeout = source.is_some().then_some(Timespec { tv_sec: 5, tv_nsec: 0 });
    match rustix::event::poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
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
