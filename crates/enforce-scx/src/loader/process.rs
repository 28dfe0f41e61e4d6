//! The loader's process: the far end, which has the rights and nothing else.

use super::message::{Answer, Constants, Handles, Request};
use crate::abi::skeleton::{SchedSkel, SchedSkelBuilder};
use crate::abi::{CPUS_MAX, DOMAINS_MAX};
use crate::libbpf_log;
use enforcer::frame::{self, FrameError};
use enforcer::{CapabilitySet, Check};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject};
use sandbox::{Files, Part, Restriction, SystemCalls};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

/// Rights to load programs that know the kernel's types.
pub(crate) const RIGHTS: CapabilitySet =
    CapabilitySet::SYS_ADMIN.union(CapabilitySet::BPF).union(CapabilitySet::PERFMON);

/// The files that libbpf reads: the kernel's types, its version, its number of CPUs.
const READ: [&str; 4] =
    ["/sys/kernel/btf", "/sys/devices/system/cpu", "/proc/version", "/proc/version_signature"];

/// Loads schedulers for the parent: the work of `<program> helper sched-ext`. Standard input is the connection, and the
/// process ends with it.
pub fn loader_main() -> ExitCode {
    let _ = std::fs::write("/proc/self/comm", "allot-loader");
    // On a busy machine the scheduler must not be long in coming back.
    let _ = undo::scheduling::raise_this_thread();
    let Ok(line) = frame::take_standard_input() else { return ExitCode::FAILURE };
    match serve(&line, walls()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_end() => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Gives up all but the rights to load.
fn walls() -> Vec<Check> {
    let hardened = sandbox::make_undumpable().and_then(|()| sandbox::forgo_new_privileges());
    let read = READ.map(Into::into).into();
    let files = Files { read, signals_own_only: true, ..Files::default() }.keep_only();
    let rights = hardened.and_then(|()| sandbox::capabilities::keep(RIGHTS));
    let calls = SystemCalls::of(Part::Loader).keep_only();
    let files = match files {
        Ok(Restriction::Full) => {
            (true, "landlock(7): of files it reads the kernel's types alone".to_owned())
        }
        Ok(Restriction::Partial) => {
            (true, "landlock(7), of which this kernel has a part".to_owned())
        }
        Ok(Restriction::No) => (false, "this kernel has no landlock(7)".to_owned()),
        Err(error) => (false, format!("does not stand: {error}")),
    };
    let rights = match rights {
        Ok(()) => (true, "none but CAP_SYS_ADMIN, CAP_BPF and CAP_PERFMON".to_owned()),
        Err(error) => (false, format!("does not stand: {error}")),
    };
    let calls = match calls {
        Ok(()) => (true, "seccomp(2): a list; it runs, signals and makes no process".to_owned()),
        Err(error) => (false, format!("does not stand: {error}")),
    };
    let named = [("files", files), ("capabilities", rights), ("system calls", calls)];
    let check = |(name, (ok, says))| Check { name: format!("loader: {name}"), ok, says };
    named.map(check).into()
}

pub(super) fn serve(line: &UnixStream, walls: Vec<Check>) -> Result<(), FrameError> {
    frame::write(line, &Answer::Ready(walls))?;
    let mut loaded: Option<Object> = None;
    let mut number = 0;
    loop {
        match frame::read(line)? {
            Request::Load(constants) => {
                // The one before gives its memory back first.
                drop(loaded.take());
                number += 1;
                match Object::load(&constants) {
                    Ok(object) => {
                        frame::write(line, &Answer::Loaded(number))?;
                        frame::send_descriptors(line, &object.handles().into_list())?;
                        loaded = Some(object);
                    }
                    Err(refused) => frame::write(line, &refused)?,
                }
            }
            Request::Attach(asked) => match loaded.take().filter(|_| asked == number) {
                Some(mut object) => attach(line, &mut object)?,
                None => frame::write(line, &refused("attach the scheduler", "it is not loaded"))?,
            },
            Request::Forget(asked) => loaded = loaded.filter(|_| asked != number),
        }
    }
}

/// Attaches a scheduler and hands its links over: they alone keep it then.
fn attach(line: &UnixStream, object: &mut Object) -> Result<(), FrameError> {
    let scheduler = match object.skeleton.maps.allot_ops.attach_struct_ops() {
        Ok(link) => link,
        Err(error) => {
            return frame::write(line, &refused_by_libbpf("attach the scheduler", &error));
        }
    };
    let locks = object.attach_to_locks();
    let told = locks.as_ref().map(drop).map_err(Clone::clone);
    frame::write(line, &Answer::Attached(told))?;
    frame::send_descriptors(line, &[scheduler.as_fd()])?;
    match locks {
        Ok(Some([begin, end])) => frame::send_descriptors(line, &[begin.as_fd(), end.as_fd()]),
        _ => Ok(()),
    }
}

/// A scheduler that the verifier has accepted.
struct Object {
    // Goes before its storage.
    skeleton: SchedSkel<'static>,
    _storage: Box<MaybeUninit<OpenObject>>,
    transfers: bool,
}

impl Object {
    fn load(constants: &Constants) -> Result<Object, Answer> {
        libbpf_log::collect();
        let mut storage = Box::new(MaybeUninit::<OpenObject>::uninit());
        let place: *mut MaybeUninit<OpenObject> = &raw mut *storage;
        // SAFETY: the box outlives the skeleton: both move together, and it is dropped later.
        let place: &'static mut MaybeUninit<OpenObject> = unsafe { &mut *place };
        let mut open = SchedSkelBuilder::default()
            .open(place)
            .map_err(|error| refused_by_libbpf("open the scheduler", &error))?;
        let rodata = open.maps.rodata_data.as_deref_mut().expect("the object has constants");
        let Constants { seed, horizon_ns, guest_grace_ns, transfers, .. } = *constants;
        let Constants { watchdog_ms, domains, cpus_end, .. } = *constants;
        let is_within = |(cpu, domain): &(u32, u8)| *cpu < cpus_end && u32::from(*domain) < domains;
        if cpus_end as usize > CPUS_MAX
            || domains as usize > DOMAINS_MAX
            || !constants.cpu_domain.iter().all(is_within)
        {
            return Err(refused("open the scheduler", "there are no such CPUs"));
        }
        (rodata.nr_cpus, rodata.nr_domains) = (cpus_end, domains);
        for (cpu, domain) in &constants.cpu_domain {
            rodata.cpu_domain[*cpu as usize] = *domain;
        }
        rodata.seed = seed;
        rodata.horizon_ns = horizon_ns;
        rodata.guest_grace_ns = guest_grace_ns;
        rodata.transfers = transfers;
        open.struct_ops.allot_ops_mut().timeout_ms = watchdog_ms;
        if !transfers {
            open.progs.on_contention_begin.set_autoload(false);
            open.progs.on_contention_end.set_autoload(false);
        }
        let loaded = open.load();
        let skeleton = loaded.map_err(|error| refused_by_libbpf("load the scheduler", &error))?;
        Ok(Object { skeleton, _storage: storage, transfers })
    }

    fn handles(&self) -> Handles<BorrowedFd<'_>> {
        let (maps, programs) = (&self.skeleton.maps, &self.skeleton.progs);
        Handles {
            data: maps.data.as_fd(),
            nodes: maps.bss_nodes.as_fd(),
            edges: maps.bss_edges.as_fd(),
            paths: maps.bss_paths.as_fd(),
            givers: maps.bss_givers.as_fd(),
            clients: maps.bss_clients.as_fd(),
            processes: maps.processes.as_fd(),
            threads: maps.threads.as_fd(),
            cgroups: maps.cgroups.as_fd(),
            events: maps.events.as_fd(),
            switch_plan: programs.switch_plan.as_fd(),
            reconcile: programs.reconcile.as_fd(),
            retag: programs.retag.as_fd(),
            probe_value: programs.probe_value.as_fd(),
            probe_policy: programs.probe_policy.as_fd(),
        }
    }

    /// `None` where nobody lends. The scheduler works without, so an error is told in words.
    fn attach_to_locks(&self) -> Result<Option<[Link; 2]>, String> {
        if !self.transfers {
            return Ok(None);
        }
        let programs = &self.skeleton.progs;
        let why = |error| format!("who waits for a lock does not lend: {error}");
        let begin = programs.on_contention_begin.attach().map_err(why)?;
        Ok(Some([begin, programs.on_contention_end.attach().map_err(why)?]))
    }
}

fn refused(what: &str, why: &str) -> Answer {
    Answer::Refused { what: what.to_owned(), why: why.to_owned(), said: String::new() }
}

fn refused_by_libbpf(what: &str, error: &libbpf_rs::Error) -> Answer {
    Answer::Refused { what: what.to_owned(), why: error.to_string(), said: libbpf_log::take() }
}
