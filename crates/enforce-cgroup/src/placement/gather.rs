//! Members of clients, as far as they can be managed: who can be moved, and who stays where it is.

use super::client::Client;
use super::members::{ManagedProcess, MemberCgroup, Place};
use crate::cgroups::Cgroups;
use crate::systemd::units_of;
use crate::tree;
use enforcer::{Plan, PlannedClient};
use ledger::{Member, ProcessIdentity};
use observe::ProcessHandle;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The controllers that we use.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "io"];

/// The reason why a process is not managed.
enum Unplaced {
    Gone,
    Because(String),
}

/// Members of a plan's clients, while they are gathered.
pub(super) struct Gathering<'a> {
    cgroups: &'a Cgroups,
    /// Processes of ours.
    own: &'a [u32],
    /// Members that have joined another client than the one that they founded.
    away: BTreeSet<Member>,
    /// Processes of clients of the plan before.
    known: BTreeMap<ProcessIdentity, ManagedProcess>,
}

impl<'a> Gathering<'a> {
    /// Takes the processes of the clients of the plan before.
    pub fn new<'c>(
        plan: &Plan,
        cgroups: &'a Cgroups,
        own: &'a [u32],
        before: impl Iterator<Item = &'c mut Client>,
    ) -> Gathering<'a> {
        let mut known = BTreeMap::new();
        for client in before {
            client.measure();
            let processes = std::mem::take(&mut client.processes);
            known.extend(processes.into_iter().map(|process| (process.identity(), process)));
        }
        let away = plan.clients.iter().flat_map(|client| client.members.iter().copied()).collect();
        Gathering { cgroups, own, away, known }
    }

    /// Gives a client its members. Those that cannot be managed are in its notes.
    pub fn gather(&mut self, client: &mut Client, planned: &PlannedClient) {
        client.notes.clear();
        let mut groups = std::mem::take(&mut client.groups);
        let founder = Some(planned.founder).filter(|founder| !self.away.contains(founder));
        for member in founder.into_iter().chain(planned.members.iter().copied()) {
            match member {
                Member::Process(identity) => match self.process(identity, planned) {
                    Ok(process) => client.processes.push(process),
                    Err(Unplaced::Gone) => {}
                    Err(Unplaced::Because(why)) => client.notes.push(why),
                },
                Member::Cgroup(_) if self.cgroups.scope.is_some() => client
                    .notes
                    .push("a private allotd leaves the weights of cgroups alone".to_owned()),
                Member::Cgroup(id) => match self.group(id, &mut groups) {
                    Some(group) => client.groups.push(group),
                    None => client.notes.push(format!("no cgroup has the id {id}")),
                },
                Member::Thread(_) => client
                    .notes
                    .push("a thread cannot be in another cgroup than its process".to_owned()),
                Member::Kernel => {
                    client.notes.push("the kernel's threads cannot be in a cgroup".to_owned());
                }
                Member::Rest => {
                    let what = "processes without tickets of their own stay where they are";
                    client.notes.push(what.to_owned());
                }
            }
        }
    }

    /// Opens a process, unless the plan before had it, and finds the place where it can be scheduled. One that is
    /// not its client's users' any more is left where it is, or goes back there.
    fn process(
        &mut self,
        identity: ProcessIdentity,
        client: &PlannedClient,
    ) -> Result<ManagedProcess, Unplaced> {
        let process = self.found(identity)?;
        match process.handle.real_uid() {
            Ok(uid) if client.may_hold(uid) => Ok(process),
            Ok(uid) => {
                self.leave_alone(&process.handle);
                Err(Unplaced::Because(format!("{identity} belongs to uid {uid} now")))
            }
            Err(error) if error.is_gone() => Err(Unplaced::Gone),
            Err(error) => Err(Unplaced::Because(error.to_string())),
        }
    }

    /// Brings a process back to where it was found, if it is in a cgroup of ours.
    fn leave_alone(&self, process: &ProcessHandle) {
        let Some(found) = tree::cgroup_of(process.identity().pid) else { return };
        if self.cgroups.is_ours(&found) {
            let origin = tree::origin(&self.cgroups.folder(&found));
            let origin = origin.unwrap_or_else(|| "/".to_owned());
            let (tree, refuge) = (&self.cgroups.tree, self.cgroups.refuge());
            if let Err(error) = tree::bring_home(process, tree, &origin, refuge.as_deref()) {
                tracing::warn!("{} stays in {found}: {error}", process.identity());
            }
        }
    }

    fn found(&mut self, identity: ProcessIdentity) -> Result<ManagedProcess, Unplaced> {
        let known = self.known.remove(&identity);
        let pid = identity.pid;
        if self.own.contains(&pid) {
            let why = "it is allotd itself or its guardian".to_owned();
            return Err(Unplaced::Because(why));
        }
        if let Some(mut process) = known
            && process.handle.is_alive()
        {
            process.follow();
            return Ok(process);
        }
        let handle = ProcessHandle::open_identity(identity).map_err(|error| {
            if error.is_gone() { Unplaced::Gone } else { Unplaced::Because(error.to_string()) }
        })?;
        let Some(found) = tree::cgroup_of(pid) else {
            let why = "its cgroup is out of our sight".to_owned();
            return Err(if handle.is_alive() { Unplaced::Because(why) } else { Unplaced::Gone });
        };
        if handle.facts().is_ok_and(|facts| facts.is_kernel_thread) {
            let why = "the kernel's threads cannot be in a cgroup".to_owned();
            return Err(Unplaced::Because(why));
        }
        let place = self.place(found).map_err(Unplaced::Because)?;
        Ok(ManagedProcess::new(handle, place))
    }

    /// Returns the place of a process that was found in a cgroup.
    fn place(&self, found: String) -> Result<Place, String> {
        let cgroups = self.cgroups;
        if cgroups.systemd.is_some() {
            if units_of(&found).is_empty() {
                return Err(format!("its cgroup {found} is no unit of systemd"));
            }
            Ok(Place::Foreign(found))
        } else if cgroups.is_ours(&found) || self.may_be_left(&found) {
            Ok(Place::Leaf)
        } else if cgroups.scope.is_some() {
            Err(format!("its cgroup {found} has settings of its own: it is left there"))
        } else if tree::weight(&cgroups.folder(&found)).is_some() {
            Ok(Place::Foreign(found))
        } else {
            Err(format!("its cgroup {found} has limits of its own, but no weight"))
        }
    }

    /// Returns whether a process can leave its cgroup without leaving behind a limit that somebody set.
    fn may_be_left(&self, path: &str) -> bool {
        // What is around our own cgroups too is not left.
        let top = self.cgroups.path_of(&self.cgroups.top);
        let inner = Path::new(path).ancestors().filter(|path| !Path::new(&top).starts_with(path));
        inner.filter_map(Path::to_str).all(|path| {
            let group = self.cgroups.folder(path);
            let is = |file: &str, value: &str| tree::read(&group, file).is_ok_and(|it| it == value);
            let listed = tree::read(&group, "cgroup.controllers").unwrap_or_else(|_| "?".into());
            // Controllers that we turned on for all beside ours, or that are on without anybody's wish.
            // systemd counts the processes of each unit, and will count those of our scope.
            let counts = |name: &str| self.cgroups.scope.is_some() && name == "pids";
            let known = |name: &str| CONTROLLERS.contains(&name) || counts(name);
            let free =
                listed.split_whitespace().all(known) && tree::is_as_made(&group, &CONTROLLERS);
            free && is("cgroup.type", "domain") && is("cgroup.freeze", "0")
        })
    }

    /// Finds the cgroup with this id, which is the inode of its folder.
    fn group(&self, id: u64, known: &mut Vec<MemberCgroup>) -> Option<MemberCgroup> {
        let is_it = |folder: &Path| folder.metadata().is_ok_and(|found| found.ino() == id);
        if let Some(index) = known.iter().position(|group| is_it(&group.folder)) {
            return Some(known.swap_remove(index));
        }
        let mount = self.cgroups.tree.mount();
        let folder = tree::cgroups_inner_first(mount).into_iter().find(|folder| is_it(folder))?;
        let path = self.cgroups.path_of(&folder);
        let is_free = path != "/" && !self.cgroups.is_ours(&path);
        is_free.then(|| MemberCgroup::new(path, folder))
    }
}
