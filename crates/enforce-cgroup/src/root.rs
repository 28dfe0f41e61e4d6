//! The machine's cgroup tree: whether it can be used, and who owns it.

use crate::systemd::BusError;
use observe::CgroupLayout;
use rustix::fs::{Access, StatVfsMountFlags};
use std::path::{Path, PathBuf};

/// A cgroup v2 tree with the CPU controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupRoot {
    /// Where it is mounted.
    pub mount: PathBuf,
    /// The folder of what is ours to share out: all of it, or what a user's manager has.
    pub base: PathBuf,
    /// Its owner.
    pub owner: CgroupOwner,
}

/// The owner of the cgroup tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupOwner {
    /// Nobody else: we make cgroups of our own and move processes there.
    Nobody,
    /// systemd: we ask it for weights of its units, and move nobody.
    Systemd,
    /// A user's systemd, for a private allotd: it delegates a scope, and we make cgroups there.
    UserManager,
}

impl std::fmt::Display for CgroupRoot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mount = self.mount.display();
        match self.owner {
            CgroupOwner::Nobody => write!(f, "cgroup v2 in {mount}, one cgroup a client"),
            CgroupOwner::Systemd => {
                write!(f, "cgroup v2 in {mount}, which systemd owns: one weight a unit")
            }
            CgroupOwner::UserManager => write!(
                f,
                "cgroup v2 in {}, which systemd delegates: one cgroup a client, in a scope",
                self.base.display()
            ),
        }
    }
}

/// The reason why cgroups cannot be used here.
#[derive(Debug, thiserror::Error)]
pub enum NoCgroup {
    /// No tree is mounted.
    #[error("no cgroup v2 tree is mounted")]
    NoTree,
    /// The controller belongs to a version 1 tree.
    #[error("the {0} controller is bound to a cgroup v1 tree")]
    BoundToV1(&'static str),
    /// The tree has none, or its owner kept it.
    #[error("the cgroup v2 tree in {0} offers no {1} controller")]
    NoController(PathBuf, &'static str),
    /// Cgroups need root.
    #[error("only root may use the cgroup tree (CAP_SYS_ADMIN)")]
    NotRoot,
    /// As in most containers.
    #[error("the cgroup tree in {0} is mounted read-only")]
    ReadOnly(PathBuf),
    /// A container's tree, whose processes all live where only cgroups may.
    #[error("processes live in {0} itself, so it cannot have cgroups with weights")]
    Occupied(PathBuf),
    /// systemd owns the tree, and this build cannot ask it.
    #[error("systemd owns the cgroup tree, and this build has no D-Bus (cargo feature `systemd`)")]
    BuiltWithoutBus,
    /// systemd owns the tree and cannot be asked.
    #[error("systemd owns the cgroup tree and cannot be reached over D-Bus: {0}")]
    NoBus(String),
    /// There is no manager of a user's units.
    #[error("systemd's user manager cannot be reached: {0}")]
    NoUserManager(String),
    /// The user's manager may not make cgroups, or not with this controller.
    #[error("systemd's user manager was not given the {1} controller in {0}")]
    NotDelegated(PathBuf, &'static str),
    /// The kernel could not be asked.
    #[error("{0}")]
    Kernel(String),
}

/// Checks whether this machine's cgroups can share out the CPU.
///
/// # Errors
/// The reason, for `allot doctor`.
pub fn available() -> Result<CgroupRoot, NoCgroup> {
    available_for("cpu")
}

/// Checks whether this machine's cgroups can share out the resource of a controller (`cpu`, `memory`, `io`).
///
/// # Errors
/// The reason, for `allot doctor`.
pub fn available_for(controller: &'static str) -> Result<CgroupRoot, NoCgroup> {
    let mount = mount_with(controller)?;
    if !may_use(&mount)? {
        return Err(NoCgroup::NotRoot);
    }
    let base = mount.clone();
    if observe::machine().is_systemd_running {
        if !cfg!(feature = "systemd") {
            return Err(NoCgroup::BuiltWithoutBus);
        }
        crate::systemd::Manager::connect().map_err(|error| NoCgroup::NoBus(error.to_string()))?;
        return Ok(CgroupRoot { mount, base, owner: CgroupOwner::Systemd });
    }
    // The root of the machine may hold processes beside cgroups; that of a namespace may not.
    let is_namespace = mount.join("cgroup.type").exists();
    let occupied = is_namespace
        && !crate::tree::controls_children(&mount, controller)
        && !crate::tree::processes_in(&mount).is_empty();
    if occupied {
        return Err(NoCgroup::Occupied(mount));
    }
    Ok(CgroupRoot { mount, base, owner: CgroupOwner::Nobody })
}

/// Checks whether systemd's manager of the user whom we run as delegates cgroups that can share out the resource of a
/// controller.
///
/// # Errors
/// The reason, for `allot doctor`.
pub fn available_to_user(controller: &'static str) -> Result<CgroupRoot, NoCgroup> {
    let mount = mount_with(controller)?;
    let unreachable = |error: BusError| NoCgroup::NoUserManager(error.to_string());
    let manager = crate::systemd::connect_user().map_err(unreachable)?;
    let path = manager.control_group().map_err(unreachable)?;
    let base = mount.join(path.trim_start_matches('/'));
    let writable = rustix::fs::access(base.join("cgroup.procs"), Access::WRITE_OK).is_ok();
    let controllers = crate::tree::read(&base, "cgroup.controllers").unwrap_or_default();
    if !writable || !controllers.split_whitespace().any(|name| name == controller) {
        return Err(NoCgroup::NotDelegated(base, controller));
    }
    Ok(CgroupRoot { mount, base, owner: CgroupOwner::UserManager })
}

/// Finds the mounted tree that has a controller.
fn mount_with(controller: &'static str) -> Result<PathBuf, NoCgroup> {
    let facts = observe::machine();
    let offers = |controllers: &[String]| controllers.iter().any(|name| name == controller);
    match facts.cgroup {
        CgroupLayout::V2 { mount, controllers } if offers(&controllers) => Ok(mount.into()),
        CgroupLayout::V2 { mount, .. } => Err(NoCgroup::NoController(mount.into(), controller)),
        CgroupLayout::Hybrid { controllers, mount, .. } if offers(&controllers) => Ok(mount.into()),
        CgroupLayout::Hybrid { v1_controllers, .. }
        | CgroupLayout::V1 { controllers: v1_controllers }
            if offers(&v1_controllers) =>
        {
            Err(NoCgroup::BoundToV1(controller))
        }
        CgroupLayout::Hybrid { mount, .. } => Err(NoCgroup::NoController(mount.into(), controller)),
        CgroupLayout::V1 { .. } | CgroupLayout::None => Err(NoCgroup::NoTree),
    }
}

fn may_use(mount: &Path) -> Result<bool, NoCgroup> {
    let flags = rustix::fs::statvfs(mount)
        .map_err(|error| NoCgroup::Kernel(format!("{}: {error}", mount.display())))?
        .f_flag;
    if flags.contains(StatVfsMountFlags::RDONLY) {
        return Err(NoCgroup::ReadOnly(mount.to_owned()));
    }
    let writable = rustix::fs::access(mount.join("cgroup.procs"), Access::WRITE_OK).is_ok();
    Ok(writable && has_sys_admin())
}

/// Returns whether we may set trusted attributes: the record of where processes were found is one.
fn has_sys_admin() -> bool {
    rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN))
}
