//! Processes in their clients' cgroups: moved there, and back when somebody moved them away.

use super::client::Client;
use super::members::Place;
use crate::cgroups::Cgroups;
use crate::tree::{self, Moved};
use enforcer::DriftLog;
use observe::ProcessHandle;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// The result of a check of one client's place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checked {
    /// A process that is not in a cgroup of ours is in another one than before.
    pub has_moved: bool,
    /// The client's own cgroup.
    pub leaf: Option<PathBuf>,
    /// Its own cgroup was removed, and is made again.
    pub is_leaf_gone: bool,
}

/// Brings a client's processes into its own cgroup. Returns false when that cannot be made.
pub(super) fn settle(client: &mut Client, leaf: Option<PathBuf>, cgroups: &mut Cgroups) -> bool {
    let old = client.leaf.clone();
    if let Some(leaf) = &leaf
        && let Err(error) = cgroups.make(leaf)
    {
        client.notes.push(format!("its cgroup cannot be made: {error}"));
        return false;
    }
    client.set_leaf(leaf.clone());
    let Some(leaf) = leaf else { return true };
    let freeze = freeze_text(client);
    // Where something else shares the CPU, that stops whom it wants.
    if cgroups.shares_cpu
        && tree::read(&leaf, "cgroup.freeze").is_ok_and(|now| now != freeze)
        && let Err(error) = tree::write(&leaf, "cgroup.freeze", freeze)
    {
        client.notes.push(format!("cannot be frozen or thawed: {error}"));
    }
    // Children that were forked in the cgroup that it had before.
    let mut strays = Vec::new();
    if let Some(old) = old.filter(|old| *old != leaf && old.exists()) {
        let pids = tree::processes_in(&old);
        strays.extend(pids.into_iter().filter_map(|pid| ProcessHandle::open(pid).ok()));
    }
    for process in &strays {
        let _ = cgroups.move_in(process, &leaf);
    }
    move_all_in(client, &leaf, cgroups);
    true
}

fn freeze_text(client: &Client) -> &'static str {
    if client.is_frozen() { "1" } else { "0" }
}

/// Moves a client's processes into its own cgroup. Those that cannot be moved stay, with a note.
fn move_all_in(client: &mut Client, leaf: &Path, cgroups: &mut Cgroups) {
    let notes = &mut client.notes;
    client.processes.retain_mut(|process| {
        if !process.is_in_leaf() {
            return true;
        }
        match cgroups.move_in(&process.handle, leaf) {
            Ok(Moved::There) => true,
            Ok(Moved::Gone) => false,
            Err(error) => {
                notes.push(format!("{}: not moved: {error}", process.identity()));
                let found = tree::cgroup_of(process.identity().pid);
                process.place = Place::Foreign(found.unwrap_or_else(|| "/".to_owned()));
                true
            }
        }
    });
}

/// Notes for clients in one foreign cgroup that they cannot be told apart there.
pub(super) fn note_neighbours(clients: &mut [Client], cgroups: &Cgroups) {
    let unit = |path: &str| {
        let units = if cgroups.systemd.is_some() { cgroups.around(path) } else { Vec::new() };
        units.last().cloned().unwrap_or_else(|| path.to_owned())
    };
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for client in clients.iter() {
        let units: BTreeSet<String> = client.foreign().into_iter().map(unit).collect();
        for unit in units {
            *count.entry(unit).or_default() += 1;
        }
    }
    for client in clients {
        let units: BTreeSet<String> = client.foreign().into_iter().map(unit).collect();
        for unit in &units {
            let others = count[unit] - 1;
            if others > 0 {
                client.notes.push(format!("it shares {unit} with {others} other clients"));
            }
        }
        if units.len() > 1 {
            let count = units.len();
            client.notes.push(format!("it is in {count} cgroups, each with an equal part"));
        }
    }
}

/// Checks whether a client's processes are where they were put, and frozen or not as planned; puts right what is not.
/// A cgroup that is gone is left to the caller.
pub(super) fn check(client: &mut Client, cgroups: &mut Cgroups, drift: &mut DriftLog) -> Checked {
    let moved = client.processes.iter_mut().map(|process| process.follow());
    // Every process has to be followed.
    let has_moved = moved.filter(|moved| *moved).count() > 0;
    let Some(leaf) = client.leaf.clone() else {
        return Checked { has_moved, ..Checked::default() };
    };
    if !leaf.is_dir() {
        drift.tell(format!("somebody removed {}; it was made again", leaf.display()));
        return Checked { has_moved, leaf: Some(leaf), is_leaf_gone: true };
    }
    let mut wrong = Vec::new();
    for process in client.processes.iter().filter(|process| process.is_in_leaf()) {
        let Some(found) = tree::cgroup_of(process.identity().pid) else { continue };
        if cgroups.folder(&found) != leaf && process.handle.is_alive() {
            wrong.push((process.identity(), found));
        }
    }
    let freeze = freeze_text(client);
    if cgroups.shares_cpu && tree::read(&leaf, "cgroup.freeze").is_ok_and(|now| now != freeze) {
        let _ = tree::write(&leaf, "cgroup.freeze", freeze);
        let word = if freeze == "1" { "thawed" } else { "froze" };
        drift.tell(format!("somebody {word} {}; that was undone", leaf.display()));
    }
    for (identity, found) in wrong {
        let moved = ProcessHandle::open_identity(identity)
            .map_err(io::Error::other)
            .and_then(|process| cgroups.move_in(&process, &leaf));
        let what = match moved {
            Ok(Moved::There) => format!("somebody moved it to {found}; it was moved back"),
            Ok(Moved::Gone) => continue,
            Err(error) => format!("somebody moved it to {found}; it stays there: {error}"),
        };
        drift.tell_of(identity, what);
    }
    Checked { has_moved, leaf: Some(leaf), is_leaf_gone: false }
}
