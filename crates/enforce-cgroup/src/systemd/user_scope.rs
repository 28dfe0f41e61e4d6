//! A scope of systemd's user manager: the cgroups in it are ours, and so are processes of the user's that are moved there.
//!
//! The guardian is in it from the beginning, in a cgroup of its own, so it lasts while anybody is to be given back. When its
//! last process is gone the manager removes it, with everything in it.

use super::units::Scope;
use super::{BusError, Manager};
use crate::root::CgroupRoot;
use crate::tree;
use observe::{Hierarchy, ProcessHandle};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use undo::cgroup::{Moved, move_process_by};

/// The slice of users' programs.
const SLICE: &str = "app.slice";
/// The weight of all clients beside the user's other programs: that of any of these.
const WEIGHT: u64 = 100;
/// The cgroup of the guardian.
const GUARDIAN: &str = "guardian";
/// Timeout of the scope's start, on a machine that is busy.
const START_WAIT: Duration = Duration::from_secs(20);
/// Interval between two looks whether it has started.
const PAUSE: Duration = Duration::from_millis(20);

/// Connects to the manager of the user whom we run as.
pub(crate) fn connect_user() -> Result<Manager, BusError> {
    let uid = rustix::process::getuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let runtime = runtime.map_or_else(|| format!("/run/user/{uid}").into(), PathBuf::from);
    Manager::connect_user(&runtime.join("bus"))
}

/// The scope of one enforcer.
#[derive(Debug)]
pub(crate) struct UserScope {
    manager: Manager,
    scope: Scope,
    /// Its folder in the tree, which is there while somebody is in it.
    folder: PathBuf,
}

impl UserScope {
    /// Names the scope, and connects to the manager that is to make it.
    pub fn new(root: &CgroupRoot) -> io::Result<UserScope> {
        let manager = connect_user().map_err(io::Error::other)?;
        let name = format!("allot-{}.scope", std::process::id());
        let folder = root.base.join(SLICE).join(&name);
        Ok(UserScope { manager, scope: Scope { name, slice: SLICE, weight: WEIGHT }, folder })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Sees to it that the scope is there, kept by the guardian.
    pub fn hold(&self, tree: &Hierarchy, guardian: u32) -> io::Result<()> {
        let home = self.folder.join(GUARDIAN);
        let is_in = |folder: &Path| {
            tree.cgroup_of(guardian).is_some_and(|path| tree.folder(&path) == folder)
        };
        if is_in(&home) {
            return Ok(());
        }
        if !self.folder.is_dir() {
            self.start(guardian, &|| is_in(&self.folder))?;
        }
        tree::create(&home)?;
        match tree::write(&home, "cgroup.procs", &guardian.to_string()) {
            Err(error) if is_denied(&error) => self.attach(guardian, &home),
            done => done,
        }
    }

    fn start(&self, guardian: u32, has_started: &dyn Fn() -> bool) -> io::Result<()> {
        let until = Instant::now() + START_WAIT;
        let mut asked = self.manager.start_scope(&self.scope, guardian);
        while !has_started() {
            if Instant::now() >= until {
                let why = asked.err().map_or("it does not start".to_owned(), |it| it.to_string());
                return Err(io::Error::other(format!("{}: {why}", self.scope.name)));
            }
            std::thread::sleep(PAUSE);
            // One of the same name may still be about to end.
            if asked.is_err() {
                asked = self.manager.start_scope(&self.scope, guardian);
            }
        }
        Ok(())
    }

    /// Moves a process into a cgroup of the scope. One from outside of what the manager has, as from a session, is moved by
    /// the manager, which asks the system's: both see to it that the process is the user's.
    pub fn take_in(
        &self,
        process: &ProcessHandle,
        tree: &Hierarchy,
        group: &Path,
    ) -> io::Result<Moved> {
        match tree::move_process(process, tree, group) {
            Err(error) if is_denied(&error) => {
                move_process_by(process, tree, |pid| self.attach(pid, group))
            }
            moved => moved,
        }
    }

    fn attach(&self, pid: u32, group: &Path) -> io::Result<()> {
        let below = group.strip_prefix(&self.folder).map_err(io::Error::other)?;
        let below = Path::new("/").join(below);
        let below = below.to_str().unwrap_or("/");
        self.manager.attach(&self.scope.name, below, pid).map_err(io::Error::other)
    }
}

/// Returns whether a move was refused for want of rights.
fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}
