//! Threads, named so that a reused number is never mistaken for one.

use crate::error::ProcessError;
use crate::handle::ProcessHandle;
use crate::proc_dir::{ProcDir, STAT_BYTES, read_at};
use crate::stat::Stat;
use identity::{ProcessIdentity, ThreadIdentity};
use rustix::fs::{Mode, OFlags};
use std::os::fd::AsFd;

/// The thread that has this number now, and the process that it belongs to.
///
/// # Errors
/// [`ProcessError::Gone`] when there is none, else as [`ProcessHandle::open`].
pub fn thread(tid: u32) -> Result<ThreadIdentity, ProcessError> {
    let pid = ProcDir::open(tid)?.thread_group()?;
    let process = ProcessHandle::open(pid)?.identity();
    let start_time_ticks = start_of(process, tid)?;
    Ok(ThreadIdentity { process, tid, start_time_ticks })
}

/// Whether this very thread is still there.
pub fn is_thread_alive(thread: &ThreadIdentity) -> bool {
    start_of(thread.process, thread.tid).is_ok_and(|start| start == thread.start_time_ticks)
}

/// When a thread of a process began: read below the directory of this very process, so that a
/// thread of another is not found.
fn start_of(process: ProcessIdentity, tid: u32) -> Result<u64, ProcessError> {
    let tasks = ProcDir::open_identity(process)?.open_directory("task")?;
    let failed = |errno| ProcessError::from_errno(tid, "read the stat of a thread", errno);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let stat = rustix::fs::openat(&tasks, format!("{tid}/stat"), flags, Mode::empty());
    let stat = stat.map_err(failed)?;
    let mut line = [0; STAT_BYTES];
    let length = read_at(stat.as_fd(), &mut line, 0).map_err(failed)?;
    let stat = Stat::parse(&line[..length]);
    Ok(stat.ok_or(ProcessError::Malformed { pid: tid, file: "stat" })?.start_time_ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_known_as_long_as_it_lives() {
        let (send_tid, tid) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let running = std::thread::spawn(move || {
            send_tid
                .send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned())
                .expect("the test waits");
            let _ = ended.recv();
        });
        let tid = tid.recv().expect("it started");
        let found = thread(tid).expect("it lives");
        assert_eq!((found.process.pid, found.tid), (std::process::id(), tid));
        assert_ne!(tid, found.process.pid);
        assert!(is_thread_alive(&found));
        let later = ThreadIdentity { start_time_ticks: found.start_time_ticks + 1, ..found };
        assert!(!is_thread_alive(&later), "another thread of that number");
        drop(end);
        running.join().expect("it ends");
        // The kernel lets go of a thread a moment after it can be joined.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while is_thread_alive(&found) {
            assert!(std::time::Instant::now() < until, "it has ended");
            std::thread::yield_now();
        }
        assert!(thread(0).is_err());
    }

    #[test]
    fn a_leader_is_a_thread_too() {
        let own = std::process::id();
        assert_eq!(thread(own).expect("it lives").process.pid, own);
    }
}
