//! The workload's own side: a process that waits at a barrier, then does its work.

use crate::cpus::pin_to;
use crate::orders::{Orders, Work};
use crate::page::Page;
use crate::{disk_loads, loads, locks, look_ups, paging, players};
use rustix::io::Errno;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::ffi::{CString, OsString};
use std::io::{self, Read};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Inner loops of one iteration, as in paper 3 (5.2): about 20 µs of a today's CPU.
const INNER_LOOPS: u32 = 5000;
/// How long a workload that nobody ended goes on after its time, ns.
const GRACE_NS: u64 = 30_000_000_000;

/// The main function of a workload process: `args` are the words after `workload`. Hidden: an
/// experiment starts it, and it ends with that experiment, however that one ends.
///
/// Answers the exit status.
pub fn workload_main(args: &[OsString]) -> u8 {
    match Orders::parse(args).and_then(|orders| work(&orders)) {
        Ok(()) => 0,
        Err(what) => {
            eprintln!("allot workload: {what}");
            2
        }
    }
}

/// What every kind of work needs.
pub(crate) struct Workplace {
    /// The shared page.
    pub page: Page,
    /// Its own place there.
    pub slot: usize,
    /// CLOCK_MONOTONIC at the start, ns; 0 before.
    pub start_ns: u64,
    /// When it ends by itself, on that clock.
    pub last_ns: u64,
}

impl Workplace {
    /// One iteration more. Only this process writes its counter.
    pub fn count(&self) {
        let counter = self.page.iterations(self.slot);
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Whether its time is over.
    pub fn over(&self) -> bool {
        monotonic_ns() >= self.last_ns
    }
}

fn work(orders: &Orders) -> Result<(), String> {
    let failed = |what: &'static str| move |cause: io::Error| format!("cannot {what}: {cause}");
    let page =
        Page::open(&orders.page, orders.slots).map_err(failed("open the page of counters"))?;
    if !orders.cpus.is_empty() {
        pin_to(&orders.cpus).map_err(failed("keep to its CPUs"))?;
    }
    if orders.nice != 0 {
        rustix::process::setpriority_process(None, orders.nice)
            .map_err(|cause| failed("set its nice value")(cause.into()))?;
    }
    if let Some(uid) = orders.uid {
        become_user(uid).map_err(failed("become another user"))?;
    }
    if let Ok(name) = CString::new(orders.name.as_str()) {
        // Only for those who look; the kernel cuts it to 15 bytes.
        let _ = rustix::thread::set_name(&name);
    }
    // After becoming another user, which clears it.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|cause| failed("ask to end with its parent")(cause.into()))?;
    let parent = getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u32);
    if parent != orders.parent {
        return Err("its parent ended before it began".to_owned());
    }
    if matches!(orders.work, Work::Disk(_) | Work::LookUp(_)) {
        without_huge_pages().map_err(failed("do without huge pages"))?;
    }
    let mut place = Workplace { page, slot: orders.slot, start_ns: 0, last_ns: 0 };
    let begin = prepared(&orders.work).map_err(failed("prepare its work"))?;
    place.page.set_ready(orders.slot);
    // The barrier: the other end closes for all at once.
    let mut nothing = Vec::new();
    io::stdin().read_to_end(&mut nothing).map_err(failed("wait for the start"))?;
    place.start_ns = place.page.start_ns().load(Ordering::Acquire);
    if place.start_ns == 0 {
        return Ok(());
    }
    place.last_ns = place.start_ns + orders.end_ns + GRACE_NS;
    begin(&place).map_err(failed("do its work"))
}

/// khugepaged makes huge pages of what is read of a mapped file. It locks them meanwhile, reads those that are missing
/// itself, and runs at nice 19: beside a full CPU a reader waits for it for long.
fn without_huge_pages() -> io::Result<()> {
    match rustix::thread::disable_transparent_huge_pages(true) {
        // A kernel that has none.
        Err(Errno::INVAL) => Ok(()),
        done => Ok(done?),
    }
}

/// Work that is ready to begin.
pub(crate) type Begin = Box<dyn FnOnce(&Workplace) -> io::Result<()>>;

/// What is done before the start.
fn prepared(work: &Work) -> io::Result<Begin> {
    Ok(match work.clone() {
        Work::Burn(steps) => Box::new(move |place| {
            follow_schedule(&steps, place);
            Ok(())
        }),
        Work::Play { player, notes } => players::prepare(player, &notes)?,
        Work::Disk(work) => disk_loads::prepare(&work)?,
        Work::LookUp(database) => look_ups::prepare(&database)?,
        Work::Hold(lock) => locks::prepare_hold(lock)?,
        Work::Wait { lock, holder, notes } => locks::prepare_wait(lock, holder, &notes)?,
        load @ (Work::ReadAtRandom { .. } | Work::Allocate { .. }) => paging::prepare(&load)?,
        load => loads::prepare(&load)?,
    })
}

fn follow_schedule(steps: &[(u64, bool)], place: &Workplace) {
    let last_ns = place.last_ns - place.start_ns;
    // From the start, which moves on while all are paused. The clock is read before it: the other
    // way round, a pause between both would count.
    let since_start_ns =
        || monotonic_ns().saturating_sub(place.page.start_ns().load(Ordering::Acquire));
    let mut state = SEED;
    let mut steps = steps.iter().copied().peekable();
    let mut burn = true;
    loop {
        let now_ns = since_start_ns();
        while let Some((_, what)) = steps.next_if(|(at, _)| *at <= now_ns) {
            burn = what;
        }
        let next_ns = steps.peek().map_or(last_ns, |(at, _)| (*at).min(last_ns));
        if now_ns >= last_ns {
            return;
        }
        if burn {
            while since_start_ns() < next_ns {
                state = inner_loops(state);
                place.count();
            }
        } else {
            // After a pause it wakes too early once, and sleeps on.
            std::thread::sleep(Duration::from_nanos(next_ns.saturating_sub(since_start_ns())));
        }
    }
}

/// What [`inner_loops`] begins with.
pub(crate) const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Integer arithmetic that the compiler cannot leave out.
pub(crate) fn inner_loops(mut state: u64) -> u64 {
    for _ in 0..INNER_LOOPS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    std::hint::black_box(state)
}

/// Uses so much of the CPU, ns, as the thread's own clock counts.
pub(crate) fn burn_ns(amount_ns: u64) {
    let until_ns = thread_cpu_ns() + amount_ns;
    let mut state = SEED;
    while thread_cpu_ns() < until_ns {
        // A tenth of an iteration: bursts are short.
        for _ in 0..INNER_LOOPS / 10 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        state = std::hint::black_box(state);
    }
}

/// The group has the user's number. Supplementary groups go first, then the group, then the user:
/// afterwards the right to do so is gone.
fn become_user(uid: u32) -> io::Result<()> {
    use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
    let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
    setgroups(&[])?;
    setresgid(group, group, group)?;
    setresuid(user, user, user)?;
    Ok(())
}

/// CLOCK_MONOTONIC, in ns.
pub(crate) fn monotonic_ns() -> u64 {
    timespec_ns(clock_gettime(ClockId::Monotonic))
}

/// CPU time of the calling thread, in ns.
pub(crate) fn thread_cpu_ns() -> u64 {
    timespec_ns(clock_gettime(ClockId::ThreadCPUTime))
}

fn timespec_ns(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until a moment of CLOCK_MONOTONIC, in ns.
pub(crate) fn sleep_until(until_ns: u64) {
    let until = Timespec {
        tv_sec: (until_ns / 1_000_000_000) as i64,
        tv_nsec: (until_ns % 1_000_000_000) as i64,
    };
    while let Err(rustix::io::Errno::INTR) =
        rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &until)
    {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burning_uses_what_it_says() {
        let before = thread_cpu_ns();
        burn_ns(3_000_000);
        assert!(thread_cpu_ns() - before >= 3_000_000);
        let until = monotonic_ns() + 2_000_000;
        sleep_until(until);
        assert!(monotonic_ns() >= until);
    }
}
