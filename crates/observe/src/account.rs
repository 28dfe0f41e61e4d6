//! What threads have used and waited for, one by one: the kernel adds up for a process only what its
//! first thread waited.

use crate::error::ProcessError;
use crate::handle::ProcessHandle;
use crate::proc_dir::{ProcDir, STAT_BYTES, read_at};
use crate::run_state::thread_ids;
use crate::stat::Stat;
use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsFd, BorrowedFd};

/// What a thread has used and waited for since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadAccount {
    /// Its number.
    pub tid: u32,
    /// When it began, in clock ticks since boot.
    pub start_time_ticks: u64,
    /// Whether it runs, waits for a CPU, or sleeps uninterruptibly (`R`, `D`).
    pub is_busy: bool,
    /// CPU time used, in ns; 0 where the kernel keeps no such account of threads.
    pub run_ns: u64,
    /// Time for which it was ready and did not run, in ns; likewise.
    pub run_delay_ns: u64,
    /// Time for which it waited for disks, faults included, in ns; 0 where the kernel does not count that
    /// ([`counts_disk_waits`]).
    pub disk_wait_ns: u64,
}

/// Whether the kernel counts for how long threads wait for disks: it does by default before 5.14, then
/// where `kernel.task_delayacct` is on.
pub fn counts_disk_waits() -> bool {
    let setting = std::fs::read_to_string("/proc/sys/kernel/task_delayacct");
    setting.map_or(true, |text| text.trim() != "0")
}

impl ProcessHandle {
    /// Of all its threads that are there now, in order of their numbers.
    ///
    /// # Errors
    /// [`ProcessError::Gone`] or [`ProcessError::Reused`] once the process has been reaped.
    pub fn thread_accounts(&self) -> Result<Vec<ThreadAccount>, ProcessError> {
        let identity = self.identity();
        let tasks = ProcDir::open_identity(identity)?.open_directory("task")?;
        let ticks_a_second = rustix::param::clock_ticks_per_second().max(1);
        let mut accounts = Vec::new();
        for tid in thread_ids(identity.pid, tasks.as_fd())? {
            let mut stat = [0; STAT_BYTES];
            let mut schedstat = [0; 128];
            // A thread that ends meanwhile is left out.
            let Ok(length) = read(tasks.as_fd(), &format!("{tid}/stat"), &mut stat) else {
                continue;
            };
            let Some(stat) = Stat::parse(&stat[..length]) else { continue };
            let length = read(tasks.as_fd(), &format!("{tid}/schedstat"), &mut schedstat);
            let times = length.ok().and_then(|length| schedule_times(&schedstat[..length]));
            let (run_ns, run_delay_ns) = times.unwrap_or_default();
            accounts.push(ThreadAccount {
                tid,
                start_time_ticks: stat.start_time_ticks,
                is_busy: matches!(stat.state, b'R' | b'D'),
                run_ns,
                run_delay_ns,
                disk_wait_ns: stat.disk_wait_ticks.saturating_mul(1_000_000_000 / ticks_a_second),
            });
        }
        Ok(accounts)
    }
}

fn read(tasks: BorrowedFd<'_>, path: &str, buffer: &mut [u8]) -> rustix::io::Result<usize> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(tasks, path, flags, Mode::empty())?;
    read_at(file.as_fd(), buffer, 0)
}

/// Of a `schedstat`: time on a CPU, and time ready for one.
pub(crate) fn schedule_times(line: &[u8]) -> Option<(u64, u64)> {
    let mut numbers = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_is_read() {
        assert_eq!(schedule_times(b"12 34 5\n"), Some((12, 34)));
        for wrong in [&b""[..], b"12", b"x 1 2", b"\xff"] {
            assert_eq!(schedule_times(wrong), None);
        }
    }

    #[test]
    fn threads_are_told_apart() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let busy = std::thread::spawn(move || {
            let clock = rustix::time::ClockId::ThreadCPUTime;
            while rustix::time::clock_gettime(clock).tv_nsec < 30_000_000 {
                std::hint::spin_loop();
            }
            tell.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned())
                .expect("the test waits");
            let _ = ended.recv();
        });
        let tid = told.recv().expect("it started");
        let own = ProcessHandle::open(std::process::id()).expect("it lives");
        let accounts = own.thread_accounts().expect("it lives");
        let found = accounts.iter().find(|account| account.tid == tid).expect("among them");
        assert!(accounts.len() >= 2 && accounts.is_sorted_by_key(|account| account.tid));
        // It has used 30 ms by its own clock; where the kernel keeps no such accounts there is nothing to compare.
        let kept = std::fs::read_to_string("/proc/self/schedstat").is_ok_and(|it| it != "0 0 0\n");
        assert!(!kept || found.run_ns >= 30_000_000, "{found:?}");
        drop(end);
        busy.join().expect("it ends");
    }
}
