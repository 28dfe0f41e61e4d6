//! The workload's own side: a process that burns CPU time by a schedule.

use crate::cpus::{parse_cpus, pin_to};
use crate::page::Page;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::ffi::{CString, OsString};
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Inner loops of one iteration, as in paper 3 (5.2): about 20 µs of a today's CPU.
const INNER_LOOPS: u32 = 5000;
/// How long a workload that nobody ended goes on after its time, ns.
const GRACE_NS: u64 = 30_000_000_000;

/// What a workload is to do; its command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Orders {
    /// The shared page.
    pub page: PathBuf,
    /// How many workloads share it.
    pub slots: usize,
    /// Which of them this is.
    pub slot: usize,
    /// Its name, shown by ps and top.
    pub name: String,
    /// Who started it; it ends with that one.
    pub parent: u32,
    /// Where it may run.
    pub cpus: Vec<u32>,
    /// Whom to run as.
    pub uid: Option<u32>,
    /// Its nice value.
    pub nice: i32,
    /// Its end, ns from the start.
    pub end_ns: u64,
    /// (ns from the start, whether it burns from then on).
    pub steps: Vec<(u64, bool)>,
}

impl Orders {
    /// As a command line, after `workload`.
    pub fn to_args(&self) -> Vec<OsString> {
        let steps: Vec<String> = self
            .steps
            .iter()
            .map(|(at, burn)| format!("{at}:{}", if *burn { "burn" } else { "sleep" }))
            .collect();
        let cpus: Vec<String> = self.cpus.iter().map(u32::to_string).collect();
        let mut args: Vec<OsString> = vec!["burn".into()];
        let mut option = |name: &str, value: OsString| args.extend([name.into(), value]);
        option("--page", self.page.clone().into());
        option("--slots", self.slots.to_string().into());
        option("--slot", self.slot.to_string().into());
        option("--name", self.name.clone().into());
        option("--parent", self.parent.to_string().into());
        option("--cpus", cpus.join(",").into());
        option("--nice", self.nice.to_string().into());
        option("--end-ns", self.end_ns.to_string().into());
        option("--steps", steps.join(",").into());
        if let Some(uid) = self.uid {
            option("--uid", uid.to_string().into());
        }
        args
    }

    fn parse(args: &[OsString]) -> Result<Orders, String> {
        let mut args = args.iter();
        if args.next().is_none_or(|kind| kind != "burn") {
            return Err("the only workload is `burn`".to_owned());
        }
        let mut orders = Orders {
            page: PathBuf::new(),
            slots: 1,
            slot: 0,
            name: "burn".to_owned(),
            parent: 0,
            cpus: Vec::new(),
            uid: None,
            nice: 0,
            end_ns: 0,
            steps: Vec::new(),
        };
        while let Some(option) = args.next() {
            let option = option.to_string_lossy();
            let value = args.next().ok_or_else(|| format!("{option} has no value"))?;
            if option == "--page" {
                orders.page = value.into();
                continue;
            }
            let text = value.to_str().ok_or_else(|| format!("{option} is not text"))?;
            let bad = || format!("{option} cannot be `{text}`");
            match &*option {
                "--slots" => orders.slots = text.parse().map_err(|_| bad())?,
                "--slot" => orders.slot = text.parse().map_err(|_| bad())?,
                "--name" => orders.name = text.to_owned(),
                "--parent" => orders.parent = text.parse().map_err(|_| bad())?,
                "--cpus" => orders.cpus = parse_cpus(text).map_err(|_| bad())?,
                "--uid" => orders.uid = Some(text.parse().map_err(|_| bad())?),
                "--nice" => orders.nice = text.parse().map_err(|_| bad())?,
                "--end-ns" => orders.end_ns = text.parse().map_err(|_| bad())?,
                "--steps" => {
                    for step in text.split(',') {
                        let (at, what) = step.split_once(':').ok_or_else(bad)?;
                        let burn = match what {
                            "burn" => true,
                            "sleep" => false,
                            _ => return Err(bad()),
                        };
                        orders.steps.push((at.parse().map_err(|_| bad())?, burn));
                    }
                }
                _ => return Err(format!("unknown option {option}")),
            }
        }
        if orders.slot >= orders.slots {
            return Err(format!("slot {} of {}", orders.slot, orders.slots));
        }
        Ok(orders)
    }
}

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
    page.set_ready(orders.slot);
    // The barrier: the other end closes for all at once.
    let mut nothing = Vec::new();
    io::stdin().read_to_end(&mut nothing).map_err(failed("wait for the start"))?;
    let start_ns = page.start_ns().load(Ordering::Acquire);
    if start_ns == 0 {
        return Ok(());
    }
    follow_schedule(orders, &page, start_ns)
}

fn follow_schedule(orders: &Orders, page: &Page, start_ns: u64) -> Result<(), String> {
    let counter = page.iterations(orders.slot);
    let last_ns = start_ns + orders.end_ns + GRACE_NS;
    let mut state = std::hint::black_box(0x9e37_79b9_7f4a_7c15_u64);
    let mut steps = orders.steps.iter().map(|(at, burn)| (start_ns + at, *burn)).peekable();
    let mut burn = true;
    loop {
        let now_ns = monotonic_ns();
        while let Some((_, what)) = steps.next_if(|(at, _)| *at <= now_ns) {
            burn = what;
        }
        let next_ns = steps.peek().map_or(last_ns, |(at, _)| (*at).min(last_ns));
        if now_ns >= last_ns {
            return Ok(());
        }
        if burn {
            while monotonic_ns() < next_ns {
                state = inner_loops(state);
                // Only this process writes it.
                counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
        } else {
            std::thread::sleep(Duration::from_nanos(next_ns.saturating_sub(monotonic_ns())));
        }
    }
}

/// Integer arithmetic that the compiler cannot leave out.
fn inner_loops(mut state: u64) -> u64 {
    for _ in 0..INNER_LOOPS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    std::hint::black_box(state)
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

fn timespec_ns(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_the_command_line() {
        let orders = Orders {
            page: "/tmp/p q".into(),
            slots: 3,
            slot: 2,
            name: "B3".into(),
            parent: 17,
            cpus: vec![0, 1],
            uid: Some(65533),
            nice: -5,
            end_ns: 30,
            steps: vec![(0, false), (15, true)],
        };
        assert_eq!(Orders::parse(&orders.to_args()), Ok(orders));
    }

    #[test]
    fn nonsense_is_refused() {
        for args in [
            &["read"][..],
            &["burn", "--slot"],
            &["burn", "--slot", "1"],
            &["burn", "--steps", "0:dance"],
            &["burn", "--cpus", "x"],
            &["burn", "--colour", "red"],
        ] {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            assert!(Orders::parse(&args).is_err(), "{args:?}");
        }
    }
}
