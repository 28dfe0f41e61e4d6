//! The cgroups that we make, and settings of others that we change.
//!
//! **Invariant:** a setting that is not ours is in the record before it is changed; a process that is moved is noted on
//! its new cgroup, or in the record, before it is moved.

use crate::record::{Record, UndoEntry};
use crate::systemd::{Manager, UserScope, unit_name, units_of};
use crate::tree::{self, Moved};
use disk::{DeviceNumber, Notes};
use observe::{Hierarchy, ProcessHandle};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use undo::{Guardian, Restored};

/// The cgroup tree, as far as it is ours to change.
pub(crate) struct Cgroups {
    /// The tree.
    pub tree: Hierarchy,
    /// Folder of the cgroup around those of the hosts.
    pub top: PathBuf,
    /// Folder of the cgroup around those of the guests.
    pub guests: PathBuf,
    /// The manager of units, where systemd owns the tree.
    pub systemd: Option<Manager>,
    /// The scope that everything of ours is in, where a user's manager delegates it.
    pub scope: Option<UserScope>,
    /// Whether the CPU is shared out here.
    pub shares_cpu: bool,
    record: Record,
    /// Our cgroups below the top, with the CPU weight that each has to have.
    pub ours: BTreeMap<PathBuf, u32>,
    /// Controllers that our cgroups need.
    controllers: Vec<&'static str>,
    /// Controllers that are on in all our cgroups.
    complete: Vec<&'static str>,
    /// Cgroups that were made or removed since somebody asked: what was set on them is gone.
    renewed: Vec<PathBuf>,
}

/// Folders of the tree that a [`Cgroups`] works in.
#[derive(Debug)]
pub(crate) struct Folders {
    pub tree: Hierarchy,
    pub top: PathBuf,
    pub guests: PathBuf,
}

impl Cgroups {
    pub fn new(
        folders: Folders,
        (systemd, scope): (Option<Manager>, Option<UserScope>),
        shares_cpu: bool,
        record: Record,
    ) -> Cgroups {
        let Folders { tree, top, guests } = folders;
        Cgroups {
            tree,
            top,
            guests,
            systemd,
            scope,
            shares_cpu,
            record,
            ours: BTreeMap::new(),
            controllers: Vec::new(),
            complete: Vec::new(),
            renewed: Vec::new(),
        }
    }

    /// Returns the folder of a cgroup path.
    pub fn folder(&self, path: &str) -> PathBuf {
        self.tree.folder(path)
    }

    /// Returns the cgroup path of a folder.
    pub fn path_of(&self, folder: &Path) -> String {
        self.tree.path_of(folder)
    }

    /// Returns whether a cgroup path is below one of our own.
    pub fn is_ours(&self, path: &str) -> bool {
        self.is_our_folder(&self.folder(path))
    }

    /// Returns whether a folder is below one of our own.
    pub fn is_our_folder(&self, folder: &Path) -> bool {
        folder.starts_with(&self.top) || folder.starts_with(&self.guests)
    }

    /// Lists what gets a setting of its own for a process in a cgroup, outermost first: the cgroup and those around it,
    /// or systemd's units.
    pub fn around(&self, path: &str) -> Vec<String> {
        if self.systemd.is_some() { units_of(path) } else { tree::and_around(path) }
    }

    /// The guardian, to look after.
    pub fn guardian(&mut self) -> &mut Guardian {
        self.record.guardian()
    }

    /// The guardian's process; `None` while there is none on watch.
    pub fn guardian_pid(&self) -> Option<u32> {
        self.record.guardian_pid()
    }

    /// The record, for disks that are prepared.
    pub fn disk_notes(&mut self) -> &mut dyn Notes {
        &mut self.record
    }

    /// Gives back everything that is on record, and forgets our cgroups, which are removed.
    pub fn restore(&mut self) -> Restored {
        self.ours.clear();
        self.renewed.clear();
        self.complete.clear();
        self.record.restore()
    }

    // Our own cgroups.

    /// The controllers that our cgroups need.
    pub fn controllers(&self) -> &[&'static str] {
        &self.controllers
    }

    /// Has cgroups that are made from now on need these controllers.
    pub fn need(&mut self, controllers: Vec<&'static str>) {
        self.controllers = controllers;
    }

    /// Notes that the controllers are on in all our cgroups, or that some cgroup could not be made.
    pub fn set_complete(&mut self, complete: bool) {
        self.complete = if complete { self.controllers.clone() } else { Vec::new() };
    }

    /// Takes the list of cgroups that were made or removed since the last call.
    pub fn take_renewed(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.renewed)
    }

    /// Makes a cgroup of ours, and those around it.
    pub fn make(&mut self, leaf: &Path) -> io::Result<()> {
        let is_complete = self.controllers.iter().all(|name| self.complete.contains(name));
        if self.ours.contains_key(leaf) && leaf.is_dir() && is_complete {
            return Ok(());
        }
        if let (Some(scope), Some(guardian)) = (&self.scope, self.record.guardian_pid()) {
            scope.hold(&self.tree, guardian)?;
        }
        self.turn_on_controllers()?;
        let is_guest = leaf.starts_with(&self.guests);
        let top = if is_guest { &self.guests } else { &self.top }.clone();
        tree::create(&top)?;
        if is_guest && self.shares_cpu && tree::read(&top, "cpu.idle")? != "1" {
            tree::write(&top, "cpu.idle", "1")?;
        }
        let below = leaf.strip_prefix(&top).map_err(io::Error::other)?;
        let mut group = top;
        for part in below {
            for controller in &self.controllers {
                if !tree::controls_children(&group, controller) {
                    tree::write(&group, "cgroup.subtree_control", &format!("+{controller}"))?;
                }
            }
            group.push(part);
            if tree::create(&group)? {
                self.renewed.push(group.clone());
            }
            let weight = tree::weight(&group).unwrap_or(0);
            self.ours.entry(group.clone()).or_insert(weight);
        }
        Ok(())
    }

    /// The folder of the cgroup around ours: the root, or our scope.
    fn base(&self) -> &Path {
        self.scope.as_ref().map_or(self.tree.mount(), UserScope::folder)
    }

    /// The cgroup for processes that cannot go back to where they were found.
    pub fn refuge(&self) -> Option<PathBuf> {
        tree::refuge(&self.tree, &self.top)
    }

    /// Turns the controllers on around our cgroups.
    fn turn_on_controllers(&mut self) -> io::Result<()> {
        let base = self.base().to_owned();
        for controller in &self.controllers {
            if !tree::controls_children(&base, controller) {
                let (cgroup, controller) = (self.tree.path_of(&base), (*controller).to_owned());
                let turn_on = format!("+{controller}");
                self.record.note(&UndoEntry::NoController { cgroup, controller })?;
                tree::write(&base, "cgroup.subtree_control", &turn_on)?;
            }
        }
        Ok(())
    }

    /// Removes our cgroups that nobody needs any more, and takes back the processes in them. Returns what went wrong,
    /// in words.
    pub fn prune<'a>(&mut self, leaves: impl Iterator<Item = &'a Path>) -> Vec<String> {
        let needed: BTreeSet<&Path> = leaves.flat_map(Path::ancestors).collect();
        let is_stale = |path: &&PathBuf| !needed.contains(path.as_path());
        let stale: Vec<PathBuf> = self.ours.keys().filter(is_stale).cloned().collect();
        let mut failed = Vec::new();
        let refuge = self.refuge();
        // Inner ones first: a longer path is greater.
        for path in stale.into_iter().rev() {
            match tree::dissolve(&self.tree, &path, refuge.as_deref()) {
                Ok(_) => {
                    self.ours.remove(&path);
                    self.renewed.push(path);
                }
                Err(what) => failed.push(what),
            }
        }
        failed
    }

    /// Moves a process into a cgroup of ours, noting where it was found.
    pub fn move_in(&mut self, process: &ProcessHandle, leaf: &Path) -> io::Result<Moved> {
        let Some(found) = tree::cgroup_of(process.identity().pid) else { return Ok(Moved::Gone) };
        let here = self.folder(&found);
        if here == leaf {
            return Ok(Moved::There);
        }
        let home = if self.is_ours(&found) {
            tree::origin(&here).unwrap_or_else(|| "/".to_owned())
        } else {
            found
        };
        match tree::origin(leaf) {
            None => tree::set_origin(leaf, &home)?,
            Some(origin) if origin == home => {}
            Some(_) => {
                let process = process.identity();
                self.record.note(&UndoEntry::Process { process, cgroup: home })?;
            }
        }
        match &self.scope {
            Some(scope) => scope.take_in(process, &self.tree, leaf),
            None => tree::move_process(process, &self.tree, leaf),
        }
    }

    // Settings of others. Errors are in words.

    /// Sets the CPU weight of a cgroup that is not below our top.
    pub fn set_weight(&mut self, path: &str, weight: u32) -> Result<(), String> {
        let group = self.folder(path);
        if group != self.top && !self.record.knows(&UndoEntry::weight_key(path)) {
            let found = tree::weight(&group).ok_or("it has no CPU controller")?;
            self.note(&UndoEntry::Weight { cgroup: path.to_owned(), weight: found })?;
        }
        tree::write(&group, "cpu.weight", &weight.to_string()).map_err(|error| error.to_string())
    }

    /// Writes a file of a cgroup; if the cgroup is not ours, notes before what brings the file back: `undo` makes that
    /// from what the file says.
    pub fn set_file(
        &mut self,
        path: &str,
        file: &str,
        text: &str,
        undo: impl FnOnce(String) -> String,
    ) -> Result<(), String> {
        let group = self.folder(path);
        if !self.is_ours(path) && !self.knows_file(&group.join(file)) {
            let found = tree::read(&group, file).map_err(|error| error.to_string())?;
            self.note(&UndoEntry::Setting { path: group.join(file), text: undo(found) })?;
        }
        tree::write(&group, file, text).map_err(|error| error.to_string())
    }

    /// Returns whether a file is on record: what it said comes back at the end.
    pub fn knows_file(&self, file: &Path) -> bool {
        self.record.knows(&UndoEntry::setting_key(file))
    }

    /// Sets a number of the unit at a path, by systemd's name of it.
    pub fn set_unit(&mut self, path: &str, property: &str, value: u64) -> Result<(), String> {
        let Some(manager) = &self.systemd else { return Ok(()) };
        let unit = unit_name(path);
        if !self.record.knows(&UndoEntry::unit_key(&unit, property)) {
            let found = manager.get(&unit, property).map_err(|error| error.to_string())?;
            let (unit, property) = (unit.clone(), property.to_owned());
            let found = UndoEntry::Unit { unit, property, value: found };
            self.record.note(&found).map_err(|error| error.to_string())?;
        }
        manager.set(&unit, property, value).map_err(|error| error.to_string())
    }

    /// Sets the weight of the unit at a path on a device.
    pub fn set_unit_disk_weight(
        &mut self,
        path: &str,
        number: DeviceNumber,
        weight: u32,
    ) -> Result<(), String> {
        let Some(manager) = &self.systemd else { return Ok(()) };
        let unit = unit_name(path);
        if !self.record.knows(&UndoEntry::unit_disks_key(&unit)) {
            let weights = manager.disk_weights(&unit).map_err(|error| error.to_string())?;
            let found = UndoEntry::UnitDisks { unit: unit.clone(), weights };
            self.record.note(&found).map_err(|error| error.to_string())?;
        }
        let device = format!("/dev/block/{number}");
        manager
            .set_disk_weights(&unit, &[(device, u64::from(weight))])
            .map_err(|error| error.to_string())
    }

    /// Notes that a disk was given back.
    pub fn note_disk_given_back(&mut self, name: &str) -> io::Result<()> {
        self.record.note_given_back(name)
    }

    /// Notes what brings a limit of a cgroup on a disk back.
    pub fn note_limit(
        &mut self,
        file: PathBuf,
        number: DeviceNumber,
        text: String,
    ) -> io::Result<()> {
        self.record.note(&UndoEntry::Limit { path: file, number, text })
    }

    /// Notes that a limit was given back.
    pub fn note_limit_given_back(&mut self, file: &Path, number: DeviceNumber) -> io::Result<()> {
        self.record.note_limit_given_back(file, number)
    }

    fn note(&mut self, found: &UndoEntry) -> Result<(), String> {
        self.record.note(found).map_err(|error| error.to_string())
    }
}
