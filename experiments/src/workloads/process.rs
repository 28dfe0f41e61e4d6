//! The main function of a workload process: it waits at a barrier, then does its work.

use crate::workloads::arithmetic::{SEED, inner_loops};
use crate::workloads::clock::monotonic_ns;
use crate::workloads::page::CounterPage;
use crate::workloads::spec::{Work, WorkloadSpec};
use crate::workloads::work::{PreparedWork, WorkContext};
use crate::workloads::{background, disk, interactive, locks, memory};
use rustix::io::Errno;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::ffi::{CString, OsString};
use std::io::{self, Read};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time that a workload goes on after its end if nobody ends it, in ns.
const GRACE_NS: u64 = 30_000_000_000;

/// Runs a workload process: `args` are the words after `workload`. An experiment starts it, and it
/// ends with that experiment, however the experiment ends.
///
/// Returns the exit status.
pub fn workload_main(args: &[OsString]) -> u8 {
    match WorkloadSpec::parse(args).and_then(|spec| run(&spec)) {
        Ok(()) => 0,
        Err(what) => {
            eprintln!("allot workload: {what}");
            2
        }
    }
}

fn run(spec: &WorkloadSpec) -> Result<(), String> {
    let failed = |what: &'static str| move |cause: io::Error| format!("cannot {what}: {cause}");
    let page =
        CounterPage::open(&spec.page, spec.slots).map_err(failed("open the page of counters"))?;
    take_identity(spec)?;
    if matches!(spec.work, Work::Disk(_) | Work::LookUp(_)) {
        without_huge_pages().map_err(failed("do without huge pages"))?;
    }
    let mut context = WorkContext { page, slot: spec.slot, start_ns: 0, last_ns: 0 };
    let begin = prepare(&spec.work).map_err(failed("prepare its work"))?;
    context.page.set_ready(spec.slot);
    // The barrier: the other end closes for all at once.
    let mut nothing = Vec::new();
    io::stdin().read_to_end(&mut nothing).map_err(failed("wait for the start"))?;
    context.start_ns = context.page.start_ns().load(Ordering::Acquire);
    if context.start_ns == 0 {
        return Ok(());
    }
    context.last_ns = context.start_ns + spec.end_ns + GRACE_NS;
    begin(&context).map_err(failed("do its work"))
}

/// Takes the CPUs, nice value, user and name of the specification, and binds its life to its
/// parent's.
fn take_identity(spec: &WorkloadSpec) -> Result<(), String> {
    let failed = |what: &'static str| move |cause: io::Error| format!("cannot {what}: {cause}");
    if !spec.cpus.is_empty() {
        pin_to(&spec.cpus).map_err(failed("keep to its CPUs"))?;
    }
    if spec.nice != 0 {
        rustix::process::setpriority_process(None, spec.nice)
            .map_err(|cause| failed("set its nice value")(cause.into()))?;
    }
    if let Some(uid) = spec.uid {
        become_user(uid).map_err(failed("become another user"))?;
    }
    if let Ok(name) = CString::new(spec.name.as_str()) {
        // For ps and top alone; the kernel cuts it to 15 bytes.
        let _ = rustix::thread::set_name(&name);
    }
    // After becoming another user, which clears it.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|cause| failed("ask to end with its parent")(cause.into()))?;
    let parent = getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u32);
    if parent != spec.parent {
        return Err("its parent ended before it began".to_owned());
    }
    Ok(())
}

/// Keeps the calling thread to these CPUs.
fn pin_to(cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu as usize));
    Ok(sched_setaffinity(None, &set)?)
}

/// Becomes a user, whose group has the same number. Supplementary groups go first, then the group,
/// then the user: afterwards the right to do so is gone.
fn become_user(uid: u32) -> io::Result<()> {
    use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
    let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
    setgroups(&[])?;
    setresgid(group, group, group)?;
    setresuid(user, user, user)?;
    Ok(())
}

/// Keeps khugepaged away. It makes huge pages of what is read of a mapped file: it locks them
/// meanwhile, reads those that are missing, and runs at nice 19, so that beside a full CPU a reader
/// waits long for it.
fn without_huge_pages() -> io::Result<()> {
    match rustix::thread::disable_transparent_huge_pages(true) {
        // A kernel without huge pages.
        Err(Errno::INVAL) => Ok(()),
        done => Ok(done?),
    }
}

/// Does what comes before the start.
fn prepare(work: &Work) -> io::Result<PreparedWork> {
    Ok(match work.clone() {
        Work::Burn(steps) => Box::new(move |context| {
            follow_schedule(&steps, context);
            Ok(())
        }),
        Work::Play { player, notes } => interactive::prepare(player, &notes)?,
        Work::Disk(work) => disk::prepare(&work)?,
        Work::LookUp(database) => prepare_look_ups(&database)?,
        Work::Hold(lock) => locks::prepare_hold(lock)?,
        Work::Wait { lock, holder, notes } => locks::prepare_wait(lock, holder, &notes)?,
        Work::ReadAtRandom { file, mib, buffer_mib, by } => {
            memory::prepare_reader(&file, mib, buffer_mib, by)?
        }
        Work::Allocate { mib } => memory::prepare_allocator(mib)?,
        Work::Spawn(words) => background::prepare_spawn(words),
        Work::ReadLines(path) => background::prepare_read_lines(path),
        Work::List { tree, to } => background::prepare_list(tree, to),
        Work::Memory => background::prepare_memory(),
        Work::Read { file, mib } => background::prepare_read(file, mib)?,
        Work::Write { file, mib } => background::prepare_write(file, mib),
        Work::Compile { source, object } => background::prepare_compile(source, object),
        Work::Build { dir, notes } => background::prepare_build(dir, &notes)?,
        Work::Script { script, folder } => background::prepare_script(script, folder),
    })
}

#[cfg(feature = "lmdb")]
use crate::workloads::lmdb::prepare as prepare_look_ups;

#[cfg(not(feature = "lmdb"))]
fn prepare_look_ups(_: &crate::workloads::database::Database) -> io::Result<PreparedWork> {
    Err(io::Error::other("this program was built without the cargo feature `lmdb`"))
}

/// Burns and sleeps by a schedule, in ns from the start.
fn follow_schedule(steps: &[(u64, bool)], context: &WorkContext) {
    let last_ns = context.last_ns - context.start_ns;
    // From the start, which moves on while all are paused. The clock is read before it: the other
    // way round, a pause between both would count.
    let since_start_ns =
        || monotonic_ns().saturating_sub(context.page.start_ns().load(Ordering::Acquire));
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
                context.count();
            }
        } else {
            // After a pause it wakes too early once, and sleeps on.
            std::thread::sleep(Duration::from_nanos(next_ns.saturating_sub(since_start_ns())));
        }
    }
}
