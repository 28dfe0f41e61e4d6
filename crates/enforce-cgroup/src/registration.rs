//! The registration of cgroup v2, for the CPU, memory and disks in one tree.

use crate::controllers::{DiskOptions, MemoryOptions};
use crate::handle::Cgroup;
use crate::options::CgroupOptions;
use crate::record::CgroupRestorer;
use crate::root::{CgroupRoot, NoCgroup, available_for, available_to_user};
use disk::{KeptDisks, Places};
use enforcer::{
    CapabilitySet, Check, EnforceError, Enforcer, Needs, Registration, ResourceStatus, Settings,
    Survey,
};
use ledger::{KindName, Resource, ResourceKind};
use observe::{CgroupLayout, Hierarchy};
use policy::IdleOptions;
use reclaim::ReclaimPolicy;
use std::path::PathBuf;

/// Suffixes of its records: of a tree that shares the CPU too, and of one that does not.
const RECORD_WITH_CPU: &str = ".cgroups";
const RECORD: &str = ".shares";

/// Weights of cgroups, for the CPU, memory and disks.
pub const REGISTRATION: Registration = Registration {
    name: "cgroup",
    kinds: || vec![ResourceKind::cpu(), ResourceKind::memory(), ResourceKind::disk()],
    serves_private: true,
    summary: "The kernel's own weights, by cgroup v2",
    merit: |_| "the kernel's own weights",
    available: |settings, kind| root_for(settings, kind).map(|root| root.to_string()),
    start,
    needs,
    helper: None,
    records: &[RECORD_WITH_CPU, RECORD],
    restorer: Some(&CgroupRestorer),
    survey,
};

/// The controller that shares a kind of resource.
fn controller(kind: KindName) -> &'static str {
    match kind {
        KindName::MEMORY => "memory",
        KindName::DISK => "io",
        _ => "cpu",
    }
}

fn root_for(settings: &Settings, kind: KindName) -> Result<CgroupRoot, String> {
    let root = match (settings.is_private, kind) {
        (false, _) => available_for(controller(kind)),
        (true, KindName::CPU) => available_to_user(controller(kind)),
        // Guarantees do not hold beyond those of the cgroups around, which are not the user's to give.
        (true, _) => return Err("a private allotd shares the CPU only".to_owned()),
    };
    root.map_err(|why| format!("{}; {}", with_causes(&why), advice(&why)))
}

/// An error with all its causes, the innermost of which is what the kernel said.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn advice(why: &NoCgroup) -> &'static str {
    match why {
        NoCgroup::NoTree => "mount -t cgroup2 none /sys/fs/cgroup",
        NoCgroup::BoundToV1(_) => {
            "boot with systemd.unified_cgroup_hierarchy=1 or cgroup_no_v1=all"
        }
        NoCgroup::NoController(..) => "it takes a kernel that was built with it",
        NoCgroup::NotRoot => "start allotd as root, without --user",
        NoCgroup::ReadOnly(_) => "give the container a tree that it may write",
        NoCgroup::Occupied(_) => "move its processes into a cgroup below it first",
        NoCgroup::BuiltWithoutBus => "build allotd with that feature",
        NoCgroup::NoBus(_) => "start D-Bus, or see why `busctl status` fails",
        NoCgroup::NoUserManager(_) => {
            "log in by systemd's logind, with a bus of the user's (dbus-user-session)"
        }
        NoCgroup::NotDelegated(..) => {
            "as root: `systemctl edit user@.service`, [Service] Delegate=cpu memory pids"
        }
        NoCgroup::Kernel(_) => "see the kernel's log",
    }
}

/// To note in an attribute that only the superuser can change (`trusted.*`) where the processes of a cgroup came from.
/// Before Linux 5.19 no cgroup has `memory.reclaim`, and memory is paged out of processes.
fn needs(settings: &Settings) -> Needs {
    let reclaims = ReclaimPolicy::of(settings).is_some();
    let groups = Hierarchy::unified().map(|tree| observe::cgroups_in(tree.mount()));
    let is_old = |group: &PathBuf| {
        group.join("memory.stat").exists() && !group.join("memory.reclaim").exists()
    };
    let reads_memory = reclaims && groups.iter().flatten().any(is_old);
    Needs { run: CapabilitySet::SYS_ADMIN, reads_memory, ..Needs::NOTHING }
}

fn start(settings: &Settings, kinds: &[KindName]) -> Result<Box<dyn Enforcer>, EnforceError> {
    let shares_cpu = kinds.contains(&KindName::CPU);
    let first = kinds.first().copied().unwrap_or(KindName::CPU);
    let available = if settings.is_private { available_to_user } else { available_for };
    let root = available(controller(first)).map_err(EnforceError::refused)?;
    let record = settings.record(if shares_cpu { RECORD_WITH_CPU } else { RECORD });
    let memory = MemoryOptions {
        reclaim: ReclaimPolicy::of(settings),
        idle: IdleOptions { idle_ns: settings.memory.idle_ns, ..IdleOptions::default() },
        limit_bytes: settings.memory.limit_bytes,
        most_bytes: settings.memory.most_bytes,
    };
    let disks = DiskOptions { file: Some(settings.disks_file.clone()) };
    let cgroup = Cgroup::start(CgroupOptions {
        shares_cpu,
        memory: kinds.contains(&KindName::MEMORY).then_some(memory),
        disks: kinds.contains(&KindName::DISK).then_some(disks),
        ..CgroupOptions::new(root, settings.program.clone(), record)
    })?;
    Ok(Box::new(cgroup))
}

fn survey(settings: &Settings) -> Survey {
    let mut survey = Survey::default();
    let (ok, says) = match root_for(settings, KindName::CPU) {
        Ok(root) => (true, root.to_string()),
        Err(says) => (false, says),
    };
    survey.checks.push(Check { name: "cgroup weights".to_owned(), ok, says });
    survey.checks.push(layout());
    survey.resources.push(match root_for(settings, KindName::MEMORY) {
        Ok(root) => {
            found(Resource::MEMORY, Some("cgroup"), format!("{root}, once anybody has tickets"))
        }
        Err(no) => found(Resource::MEMORY, None, no),
    });
    survey_disks(settings, &mut survey);
    survey
}

fn found(resource: Resource, by: Option<&str>, why: String) -> ResourceStatus {
    ResourceStatus { resource, by: by.map(str::to_owned), why, active: Vec::new() }
}

/// Adds every disk, what its shares would be kept by, and what no share can hold.
fn survey_disks(settings: &Settings, survey: &mut Survey) {
    let io = root_for(settings, KindName::DISK);
    let kept = KeptDisks::load(&settings.disks_file);
    if let Err(error) = &kept {
        let (name, says) = ("disk speeds".to_owned(), with_causes(error));
        survey.checks.push(Check { name, ok: false, says });
    }
    let kept = kept.unwrap_or_default();
    let names = disk::names(&Places::of_this_machine());
    for facts in names.iter().filter_map(|name| disk::look(name).ok()) {
        let speed = kept.get(&facts).map(|kept| &kept.speed);
        let report = disk::report(&facts, speed);
        let resource = Resource::disk(facts.name.as_str());
        survey.resources.push(match (&io, &report.controller) {
            (Err(no), _) => found(resource.clone(), None, no.clone()),
            (Ok(_), Ok(controller)) => {
                let line = format!("once anybody has tickets; {}", report.line);
                found(resource.clone(), Some(controller.name()), line)
            }
            (Ok(_), Err(no)) => found(resource.clone(), None, no.to_string()),
        });
        for says in report.gaps {
            survey.checks.push(Check { name: resource.to_string(), ok: false, says });
        }
    }
}

/// Tells the version of the tree that is mounted, and its controllers.
fn layout() -> Check {
    let (ok, says) = match &observe::machine().cgroup {
        CgroupLayout::None => (false, "no cgroup tree is mounted".to_owned()),
        CgroupLayout::V2 { mount, controllers } => {
            (true, format!("version 2 at {mount} with {}", controllers.join(", ")))
        }
        CgroupLayout::V1 { controllers } => {
            (false, format!("version 1 only, with {}", controllers.join(", ")))
        }
        CgroupLayout::Hybrid { mount, v1_controllers, .. } => (
            false,
            format!("version 2 at {mount}, but {} are version 1's", v1_controllers.join(", ")),
        ),
    };
    Check { name: "cgroup".to_owned(), ok, says }
}
