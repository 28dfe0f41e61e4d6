//! The walls around the enforcing process: what it gives up, before it starts enforcers and after.

use crate::kinds::resource_kinds;
use crate::message::{Choice, Task};
use enforcer::{CapabilitySet, Check, Registration};
use ledger::KindName;
use sandbox::{Files, Part, Restriction, SystemCalls, capabilities};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A wall around a part of allotd, as `doctor` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wall {
    /// The part, and what is walled off.
    pub name: String,
    /// Whether it stands.
    pub stands: bool,
    /// The means, or why it does not stand.
    pub says: String,
}

/// A wall by what came of building it.
pub fn wall<E: std::error::Error>(name: &str, built: Result<String, E>) -> Wall {
    let name = name.to_owned();
    match built {
        Ok(says) => Wall { name, stands: true, says },
        Err(error) => {
            let says = format!("does not stand: {}", crate::with_causes(&error));
            tracing::warn!("{name} {says}");
            Wall { name, stands: false, says }
        }
    }
}

/// The capabilities that every enforcer and guardian has: to signal processes, set how they are scheduled, write to
/// their cgroups, hear of their lives, and have descriptors for all of them.
const EVERY_ENFORCERS: CapabilitySet = CapabilitySet::KILL
    .union(CapabilitySet::SYS_NICE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::SYS_RESOURCE);

/// Gives up what no guardian needs. One that an enforcing process has started before it gave up anything has all its
/// rights; whatever an enforcer may have noted is given back with these.
///
/// # Errors
/// When the kernel refuses.
pub fn restrict_guardian() -> std::io::Result<()> {
    let more = CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_PTRACE;
    capabilities::keep(EVERY_ENFORCERS.union(more))
}

/// The enforcers that can be used behind a wall of files, and the wall. Threads that are made later are behind it, so
/// it is built before there are any.
pub fn restrict_files(enforcers: &[Registration], task: &Task) -> (Vec<Registration>, Wall) {
    let name = "enforcing process: files";
    let open = |says: &str| {
        let (name, says) = (name.to_owned(), says.to_owned());
        (enforcers.to_vec(), Wall { name, stands: false, says })
    };
    if observe::hides_processes() {
        return open("does not stand: /proc hides processes from whom landlock(7) restricts");
    }
    if is_memory_read(enforcers, task) {
        return open(
            "does not stand: memory is shared by looking into processes, which landlock(7) does not let whom it \
             restricts; with --others none it stands",
        );
    }
    let built = files(task).keep_only();
    let blind = enforcers.iter().filter(|it| !(it.needs)(&task.settings).reads_memory);
    let blind = blind.copied().collect();
    let says = |restriction| match restriction {
        Restriction::Full => "landlock(7): of /etc and users' files it can open none".to_owned(),
        Restriction::Partial => "landlock(7), of which this kernel has a part".to_owned(),
        Restriction::No => "this kernel has no landlock(7)".to_owned(),
    };
    let mut stands = wall(name, built.as_ref().map(|restriction| says(*restriction)));
    stands.stands &= !matches!(built, Ok(Restriction::No));
    (if stands.stands { blind } else { enforcers.to_vec() }, stands)
}

/// The capability to look into others' processes, where that is needed: to see them at all, or to share memory.
pub fn to_look_into_processes(enforcers: &[Registration], task: &Task) -> CapabilitySet {
    match observe::hides_processes() || is_memory_read(enforcers, task) {
        true => CapabilitySet::SYS_PTRACE,
        false => CapabilitySet::empty(),
    }
}

/// Whether the best enforcer of some kind that may be wanted looks into processes.
fn is_memory_read(enforcers: &[Registration], task: &Task) -> bool {
    let settings = &task.settings;
    let is_wanted = |kind: &KindName| *kind == KindName::CPU || task.shares_others;
    let best = |kind: KindName| {
        let can = |it: &&Registration| {
            it.serves(kind)
                && (!settings.is_private || it.serves_private)
                && (it.available)(settings, kind).is_ok()
        };
        enforcers.iter().find(can)
    };
    task.choice != Choice::Nobody
        && resource_kinds(enforcers)
            .names()
            .filter(is_wanted)
            .filter_map(best)
            .any(|it| (it.needs)(settings).reads_memory)
}

/// The files that enforcers and guardians use.
fn files(task: &Task) -> Files {
    let settings = &task.settings;
    let parent = |path: &Path| path.parent().map(Path::to_owned);
    let mut write: Vec<PathBuf> = ["/proc", "/sys", "/dev/null"].map(PathBuf::from).into();
    write.extend(parent(&settings.records));
    write.extend(task.socket.as_deref().and_then(parent));
    let mounts = observe::mounts().unwrap_or_default();
    let cgroups = mounts.into_iter().filter(|it| it.kind.starts_with("cgroup"));
    write.extend(cgroups.map(|it| it.mount_point));
    let mut read: Vec<PathBuf> = LIBRARIES.map(PathBuf::from).into();
    read.extend(parent(&settings.disks_file));
    // A guardian is started anew when one was killed.
    let run = Files::own_program();
    Files { read, write, run, signals_own_only: false }
}

/// Where programs' libraries are, and what says where.
const LIBRARIES: [&str; 9] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/nix/store",
    "/gnu/store",
];

/// The walls that enforcers' own processes have told of.
pub fn of_helpers(enforcers: &[Registration]) -> impl Iterator<Item = Wall> {
    let told = enforcers.iter().filter_map(|it| it.helper).flat_map(|helper| (helper.walls)());
    told.map(|Check { name, ok, says }| Wall { name, stands: ok, says })
}

/// Gives up, for all threads, what the enforcers that were started need no longer.
pub fn give_up_the_rest(needs: CapabilitySet) -> Vec<Wall> {
    let kept = EVERY_ENFORCERS.union(needs);
    let given = capabilities::keep_in_all_threads(kept);
    let says = match kept.contains(CapabilitySet::SYS_ADMIN) {
        true => {
            "CAP_BPF and CAP_PERFMON are given up; CAP_SYS_ADMIN is kept: cgroups note in an attribute of root's where \
             processes came from"
        }
        false => "CAP_SYS_ADMIN, CAP_BPF and CAP_PERFMON are given up",
    };
    let calls = SystemCalls::of(Part::Enforcing).keep_only();
    let listed = "seccomp(2): a list, of bpf(2) what uses what is loaded";
    vec![
        wall("enforcing process: capabilities", given.map(|()| says.to_owned())),
        wall("enforcing process: system calls", calls.map(|()| listed.to_owned())),
    ]
}
