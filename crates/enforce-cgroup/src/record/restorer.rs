//! Gives back what was changed on cgroups, units, disks and settings.

use super::entry::{UNDO, UndoEntry};
use crate::systemd::{BusError, Manager};
use crate::tree;
use ledger::ProcessIdentity;
use observe::{CgroupVersion, Hierarchy, ProcessHandle};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use undo::cgroup::Dissolved;
use undo::{LogEntry, Restored, Restorer};

/// Processes moved to where they were found.
pub const PROCESSES_MOVED: &str = "processes moved";
/// Cgroups of ours that were removed.
pub const CGROUPS_REMOVED: &str = "cgroups removed";
/// Weights of cgroups and units that are not ours, and settings.
pub const SETTINGS_RESTORED: &str = "settings restored";

/// The restorer of what a [`Cgroup`](crate::Cgroup) changes: processes go to where they were found, our cgroups are
/// removed, then settings are set back.
#[derive(Clone, Copy, Debug)]
pub struct CgroupRestorer;

impl Restorer for CgroupRestorer {
    fn name(&self) -> &'static str {
        UNDO
    }

    fn restore(&self, kept: &[LogEntry], restored: &mut Restored) {
        let entries: Vec<UndoEntry> = restored.read(kept);
        let tree = entries.iter().find_map(Tree::of);
        match &tree {
            Some(tree) => {
                tree.restore_processes(&entries, restored);
                tree.dissolve(restored);
            }
            None => restored.left.push("the cgroup tree is not on record: it is left".to_owned()),
        }
        let manager = connect(&entries, tree.as_ref(), restored);
        for entry in &entries {
            match give_back(entry, tree.as_ref(), manager.as_ref(), restored) {
                Ok(number) => restored.count(SETTINGS_RESTORED, number),
                Err(why) => restored.failed.push(why),
            }
        }
    }
}

/// The tree, and our own cgroups in it.
struct Tree {
    tree: Hierarchy,
    ours: Vec<String>,
    has_systemd: bool,
}

impl Tree {
    fn of(entry: &UndoEntry) -> Option<Tree> {
        let UndoEntry::Tree { mount, ours, systemd } = entry else { return None };
        let tree = Hierarchy::new(mount.clone(), CgroupVersion::V2);
        Some(Tree { tree, ours: ours.clone(), has_systemd: *systemd })
    }

    fn is_ours(&self, path: &str) -> bool {
        let path = Path::new(path.trim_start_matches('/'));
        self.ours.iter().any(|ours| path.starts_with(ours))
    }

    /// The cgroup for those who cannot go back to where they were found.
    fn refuge(&self) -> Option<PathBuf> {
        tree::refuge(&self.tree, &self.tree.folder(self.ours.first()?))
    }

    /// Takes those back who have an entry of their own. The others' places are on their cgroups.
    fn restore_processes(&self, entries: &[UndoEntry], restored: &mut Restored) {
        let refuge = self.refuge();
        let move_back = |process: ProcessIdentity, cgroup: &str| {
            ProcessHandle::open_identity(process).is_ok_and(|handle| {
                tree::cgroup_of(process.pid).is_some_and(|path| self.is_ours(&path))
                    && tree::bring_home(&handle, &self.tree, cgroup, refuge.as_deref()).is_ok()
            })
        };
        for entry in entries {
            if let UndoEntry::Process { process, cgroup } = entry {
                restored.count(PROCESSES_MOVED, usize::from(move_back(*process, cgroup)));
            }
        }
    }

    /// Removes our cgroups.
    fn dissolve(&self, restored: &mut Restored) {
        let refuge = self.refuge();
        for name in &self.ours {
            match tree::dissolve(&self.tree, &self.tree.folder(name), refuge.as_deref()) {
                Ok(Dissolved { moved, removed }) => {
                    restored.count(PROCESSES_MOVED, moved);
                    restored.count(CGROUPS_REMOVED, removed);
                }
                Err(why) => restored.failed.push(why),
            }
        }
    }
}

/// The manager of units, where some were changed.
fn connect(entries: &[UndoEntry], tree: Option<&Tree>, restored: &mut Restored) -> Option<Manager> {
    let of_units =
        |entry: &UndoEntry| matches!(entry, UndoEntry::Unit { .. } | UndoEntry::UnitDisks { .. });
    if !entries.iter().any(of_units) || tree.is_some_and(|tree| !tree.has_systemd) {
        return None;
    }
    let connected = Manager::connect();
    connected.map_err(|error| restored.failed.push(format!("systemd: {error}"))).ok()
}

/// Sets something back that is not ours. Answers how many settings that were.
fn give_back(
    entry: &UndoEntry,
    tree: Option<&Tree>,
    manager: Option<&Manager>,
    restored: &mut Restored,
) -> Result<usize, String> {
    match (entry, tree, manager) {
        (UndoEntry::Weight { cgroup, weight }, Some(tree), _) => {
            let group = tree.tree.folder(cgroup);
            match tree::write(&group, "cpu.weight", &weight.to_string()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(format!("the weight of {cgroup} stays changed: {error}"))
                }
                done => Ok(usize::from(done.is_ok())),
            }
        }
        (UndoEntry::NoController { cgroup, controller }, Some(tree), _) => {
            take_controller(&tree.tree.folder(cgroup), controller);
            Ok(0)
        }
        (UndoEntry::Unit { unit, property, value }, _, Some(manager)) => {
            let what = || format!("{property} of {unit} stays");
            of_unit(manager.set(unit, property, *value), what)
        }
        (UndoEntry::UnitDisks { unit, weights }, _, Some(manager)) => {
            let what = || format!("weights of {unit} stay");
            of_unit(manager.restore_disk_weights(unit, weights), what)
        }
        (UndoEntry::Disk(disk), _, _) => {
            let given = disk.give_back();
            restored.left.extend(given.left);
            restored.failed.extend(given.failed);
            Ok(given.restored)
        }
        (UndoEntry::Limit { path, text, .. } | UndoEntry::Setting { path, text }, _, _) => {
            match write_setting(path, text) {
                Err(error) if !is_gone(&error) => {
                    Err(format!("{} stays changed: {error}", path.display()))
                }
                done => Ok(usize::from(done.is_ok())),
            }
        }
        // Given back before the others; or there is nobody to ask, as was said.
        (UndoEntry::Tree { .. } | UndoEntry::Process { .. }, _, _)
        | (UndoEntry::Weight { .. } | UndoEntry::NoController { .. }, None, _)
        | (UndoEntry::Unit { .. } | UndoEntry::UnitDisks { .. }, _, None) => Ok(0),
    }
}

/// A unit that is gone took its settings along.
fn of_unit(done: Result<(), BusError>, what: impl FnOnce() -> String) -> Result<usize, String> {
    match done {
        Ok(()) => Ok(1),
        Err(error) if error.is_gone() => Ok(0),
        Err(error) => Err(format!("{} changed: {error}", what())),
    }
}

fn write_setting(path: &Path, text: &str) -> io::Result<()> {
    // Never created: what is not there is gone.
    File::options().write(true).open(path)?.write_all(text.as_bytes())
}

/// A device or a cgroup that has vanished takes what was set with it.
fn is_gone(error: &io::Error) -> bool {
    // The last: weights of a scheduler that the device has no more.
    let gone = [libc::ENOENT, libc::ENODEV, libc::ENXIO, libc::EOPNOTSUPP];
    error.raw_os_error().is_some_and(|code| gone.contains(&code))
}

/// Turns a controller off for a cgroup's children again, unless somebody else has begun to use it
/// meanwhile.
fn take_controller(group: &Path, controller: &str) {
    let in_use = tree::cgroups_in(group).iter().any(|child| {
        tree::controls_children(child, controller) || !tree::is_as_made(child, &[controller])
    });
    if !in_use {
        // Best effort: that it stays on changes nobody's share.
        let _ = tree::write(group, "cgroup.subtree_control", &format!("-{controller}"));
    }
}
