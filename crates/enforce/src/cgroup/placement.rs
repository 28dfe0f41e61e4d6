//! Who is a client and where its processes are: following plans, moving processes in and back.

use super::client::{Body, Client, Group, Place, Presence};
use super::layout::{Layout, MAX_WEIGHT, Weights, name};
use super::record::Found;
use super::state::{State, presence_when_new};
use super::tree::{self, Moved};
use super::{CgroupOwner, systemd};
use crate::{Drift, PlannedClient};
use ledger::{Class, CurrencyId, Member, ProcessIdentity};
use observe::ProcessHandle;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use valuation::Graph;

/// The controllers that we use.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "io"];

/// Why a process is not managed.
enum Unplaced {
    Gone,
    Because(String),
}

impl State {
    /// Makes clients of the plan's, and the tree for them; moves who is not where it belongs.
    pub(super) fn place_all(&mut self, now: u64) {
        let Some(plan) = self.plan.clone() else { return };
        let mut graph = plan.graph;
        let was_active: Vec<CurrencyId> = graph.active_clients().collect();
        for id in was_active {
            graph.set_active(id, false);
        }
        let mut known: BTreeMap<CurrencyId, Client> = std::mem::take(&mut self.clients)
            .into_iter()
            .map(|client| (client.id, client))
            .collect();
        let mut bodies: BTreeMap<ProcessIdentity, Body> = BTreeMap::new();
        for client in known.values_mut() {
            client.measure();
            let own = std::mem::take(&mut client.bodies);
            bodies.extend(own.into_iter().map(|body| (body.identity(), body)));
        }
        self.beyond.clear();
        let away: BTreeSet<Member> =
            plan.clients.iter().flat_map(|client| client.members.iter().copied()).collect();
        for planned in &plan.clients {
            let mut client = match known.remove(&planned.id) {
                Some(client) if client.founder == planned.founder => client,
                other => {
                    other.into_iter().for_each(|client| self.forget(client));
                    Client::new(planned.id, planned.founder, now)
                }
            };
            self.gather(&mut client, planned, &away, &mut bodies);
            let freeze = planned.frozen && client.foreign().is_empty() && self.setting.shares_cpu;
            if freeze != (client.presence == Presence::Frozen) {
                client.presence = presence_when_new(freeze);
            }
            if client.competes() {
                graph.set_active(client.id, true);
            }
            client.to_freeze = planned.frozen;
            client.guest = planned.class == Class::Guest || planned.lent;
            if client.bodies.is_empty() && client.groups.is_empty() && !client.notes.is_empty() {
                self.beyond.push((planned.clone(), client.notes.join("; ")));
                self.forget(client);
                continue;
            }
            let is_foreign = self.setting.shares_cpu && !client.foreign().is_empty();
            if planned.frozen && is_foreign {
                client.notes.push("not frozen: it is in a cgroup that is not ours".to_owned());
            }
            if client.guest && is_foreign {
                client.notes.push("no guest here: it is in a cgroup that is not ours".to_owned());
            }
            self.clients.push(client);
        }
        self.clients.sort_by_key(|client| client.id);
        let leaves: BTreeSet<CurrencyId> = self
            .clients
            .iter()
            .filter(|client| client.has_leaf() && !client.guest)
            .map(|client| client.id)
            .collect();
        // Shares of memory are amounts: they hold in any tree.
        let cpu = self.setting.shares_cpu.then_some(&graph);
        let disks = self.disks.iter().map(|disk| &disk.graph);
        let mut deciding: Vec<&Graph> = cpu.into_iter().chain(disks).collect();
        if deciding.is_empty() {
            deciding.push(&graph);
        }
        let layout = Layout::of(&deciding, |id| leaves.contains(&id));
        if self.setting.shares_cpu {
            self.weights = Some(Weights::of(&layout, &graph, MAX_WEIGHT));
            self.graph = Some(graph);
            self.changed = true;
        }
        self.lay_out_disks(&layout);
        self.layout = Some(layout);
        self.weigh_before_moving();
        self.note_neighbours();
        for index in 0..self.clients.len() {
            self.settle(index);
        }
        self.new_controllers = std::mem::take(&mut self.leaf_failed);
        for client in known.into_values() {
            self.forget(client);
        }
        self.prune();
    }

    /// What a client consists of, as far as it can be managed.
    fn gather(
        &mut self,
        client: &mut Client,
        planned: &PlannedClient,
        away: &BTreeSet<Member>,
        bodies: &mut BTreeMap<ProcessIdentity, Body>,
    ) {
        client.notes.clear();
        let mut groups = std::mem::take(&mut client.groups);
        let founder = Some(planned.founder).filter(|founder| !away.contains(founder));
        for member in founder.into_iter().chain(planned.members.iter().copied()) {
            match member {
                Member::Process(identity) => {
                    match self.embody(identity, bodies.remove(&identity)) {
                        Ok(body) => client.bodies.push(body),
                        Err(Unplaced::Gone) => {}
                        Err(Unplaced::Because(why)) => client.notes.push(why),
                    }
                }
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

    /// A process, with the place where it can be scheduled.
    fn embody(&mut self, identity: ProcessIdentity, known: Option<Body>) -> Result<Body, Unplaced> {
        let pid = identity.pid;
        if pid == std::process::id() || self.guardian.as_ref().is_some_and(|it| it.pid() == pid) {
            let why = "it is allotd itself or its guardian".to_owned();
            return Err(Unplaced::Because(why));
        }
        if let Some(mut body) = known
            && body.process.is_alive()
        {
            body.follow();
            return Ok(body);
        }
        let process = ProcessHandle::open_identity(identity).map_err(|error| {
            if error.is_gone() { Unplaced::Gone } else { Unplaced::Because(error.to_string()) }
        })?;
        let Some(found) = tree::cgroup_of(pid) else {
            let why = "its cgroup is out of our sight".to_owned();
            return Err(if process.is_alive() { Unplaced::Because(why) } else { Unplaced::Gone });
        };
        if process.facts().is_ok_and(|facts| facts.is_kernel_thread) {
            let why = "the kernel's threads cannot be in a cgroup".to_owned();
            return Err(Unplaced::Because(why));
        }
        let place = if self.setting.root.owner == CgroupOwner::Systemd {
            if systemd::units_of(&found).is_empty() {
                let why = format!("its cgroup {found} is no unit of systemd");
                return Err(Unplaced::Because(why));
            }
            Place::Foreign(found)
        } else if self.is_ours(&found) || self.may_be_moved(&found) {
            Place::Leaf
        } else if tree::weight(&tree::folder(&self.setting.root.mount, &found)).is_some() {
            Place::Foreign(found)
        } else {
            let why = format!("its cgroup {found} has limits of its own, but no weight");
            return Err(Unplaced::Because(why));
        };
        Ok(Body::new(process, place))
    }

    /// Whether a cgroup path is below one of our own.
    pub(super) fn is_ours(&self, path: &str) -> bool {
        let folder = tree::folder(&self.setting.root.mount, path);
        folder.starts_with(&self.setting.top) || folder.starts_with(&self.setting.guests)
    }

    /// Whether a process can leave its cgroup without leaving behind a limit that somebody set.
    fn may_be_moved(&self, path: &str) -> bool {
        let mount = &self.setting.root.mount;
        let inner = Path::new(path).ancestors().filter(|path| *path != Path::new("/"));
        inner.filter_map(Path::to_str).all(|path| {
            let group = tree::folder(mount, path);
            let is = |file: &str, value: &str| tree::read(&group, file).is_ok_and(|it| it == value);
            let listed = tree::read(&group, "cgroup.controllers").unwrap_or_else(|_| "?".into());
            // Those that we turned on for all beside ours, or that are on without anybody's wish.
            let known = |name: &str| CONTROLLERS.contains(&name);
            let free =
                listed.split_whitespace().all(known) && tree::is_as_made(&group, &CONTROLLERS);
            free && is("cgroup.type", "domain") && is("cgroup.freeze", "0")
        })
    }

    /// The cgroup with this id, which is the inode of its folder.
    fn group(&self, id: u64, known: &mut Vec<Group>) -> Option<Group> {
        let is_it = |folder: &Path| folder.metadata().is_ok_and(|found| found.ino() == id);
        if let Some(index) = known.iter().position(|group| is_it(&group.folder)) {
            return Some(known.swap_remove(index));
        }
        let mount = &self.setting.root.mount;
        let folder = tree::inner_first(mount).into_iter().find(|folder| is_it(folder))?;
        let path = format!("/{}", folder.strip_prefix(mount).ok()?.display());
        (path != "/" && !self.is_ours(&path)).then(|| Group::new(path, folder))
    }

    /// Who shares a foreign cgroup cannot be told apart there: says so.
    fn note_neighbours(&mut self) {
        let systemd = self.setting.root.owner == CgroupOwner::Systemd;
        let unit = |path: &str| {
            let units = if systemd { systemd::units_of(path) } else { Vec::new() };
            units.last().cloned().unwrap_or_else(|| path.to_owned())
        };
        let mut count: BTreeMap<String, usize> = BTreeMap::new();
        for client in &self.clients {
            let units: BTreeSet<String> = client.foreign().into_iter().map(unit).collect();
            for unit in units {
                *count.entry(unit).or_default() += 1;
            }
        }
        for client in &mut self.clients {
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

    /// Where a client's own cgroup belongs.
    fn leaf_of(&self, client: &Client) -> Option<PathBuf> {
        if !client.has_leaf() {
            return None;
        }
        if client.guest {
            return Some(self.setting.guests.join(name(client.id)));
        }
        Some(self.setting.top.join(self.layout.as_ref()?.path(client.id)?))
    }

    /// Makes all cgroups and gives them their weights on disks, before anybody is there: BFQ has who
    /// is at work while its weight changes wait for seconds.
    fn weigh_before_moving(&mut self) {
        if self.disks.is_empty() {
            return;
        }
        let leaves: Vec<PathBuf> =
            self.clients.iter().filter_map(|client| self.leaf_of(client)).collect();
        for leaf in leaves {
            // Where that fails, it is said when somebody is to be moved there.
            let _ = self.make_leaf(&leaf);
        }
        for index in 0..self.disks.len() {
            self.set_weights(index);
        }
    }

    /// Brings a client's processes into its own cgroup.
    fn settle(&mut self, index: usize) {
        let leaf = self.leaf_of(&self.clients[index]);
        let old = self.clients[index].leaf.clone();
        if let Some(leaf) = &leaf
            && let Err(error) = self.make_leaf(leaf)
        {
            self.leaf_failed = true;
            let what = format!("its cgroup cannot be made: {error}");
            self.clients[index].notes.push(what);
            return;
        }
        self.clients[index].set_leaf(leaf.clone());
        let Some(leaf) = leaf else { return };
        let frozen = self.clients[index].presence == Presence::Frozen;
        let freeze = if frozen { "1" } else { "0" };
        // Who shares the CPU otherwise stops whom it wants.
        if self.setting.shares_cpu
            && tree::read(&leaf, "cgroup.freeze").is_ok_and(|now| now != freeze)
            && let Err(error) = tree::write(&leaf, "cgroup.freeze", freeze)
        {
            self.clients[index].notes.push(format!("cannot be frozen or thawed: {error}"));
        }
        // Its own, and what they forked in the cgroup that it had before.
        let mut strays = Vec::new();
        if let Some(old) = old.filter(|old| *old != leaf && old.exists()) {
            let pids = tree::processes(&old);
            strays.extend(pids.into_iter().filter_map(|pid| ProcessHandle::open(pid).ok()));
        }
        for process in &strays {
            let _ = self.move_in(process, &leaf);
        }
        let mut bodies = std::mem::take(&mut self.clients[index].bodies);
        let mut notes = Vec::new();
        bodies.retain_mut(|body| {
            if body.place != Place::Leaf {
                return true;
            }
            match self.move_in(&body.process, &leaf) {
                Ok(Moved::There) => true,
                Ok(Moved::Gone) => false,
                Err(error) => {
                    notes.push(format!("{}: not moved: {error}", body.identity()));
                    let found = tree::cgroup_of(body.identity().pid);
                    body.place = Place::Foreign(found.unwrap_or_else(|| "/".to_owned()));
                    true
                }
            }
        });
        let client = &mut self.clients[index];
        client.bodies = bodies;
        client.notes.append(&mut notes);
    }

    /// Makes a cgroup of ours, and those around it.
    fn make_leaf(&mut self, leaf: &Path) -> io::Result<()> {
        if self.ours.contains_key(leaf) && leaf.is_dir() && !self.new_controllers {
            return Ok(());
        }
        let controllers = self.controllers();
        let is_guest = leaf.starts_with(&self.setting.guests);
        let top = if is_guest { &self.setting.guests } else { &self.setting.top }.clone();
        let mount = self.setting.root.mount.clone();
        for controller in &controllers {
            if !tree::controls_children(&mount, controller) {
                let (cgroup, controller) = ("/".to_owned(), (*controller).to_owned());
                let turn_on = format!("+{controller}");
                self.record.note(&Found::NoController { cgroup, controller })?;
                tree::write(&mount, "cgroup.subtree_control", &turn_on)?;
            }
        }
        make(&top)?;
        if is_guest && self.setting.shares_cpu && tree::read(&top, "cpu.idle")? != "1" {
            tree::write(&top, "cpu.idle", "1")?;
        }
        let below = leaf.strip_prefix(&top).map_err(io::Error::other)?;
        let mut group = top;
        for part in below {
            for controller in &controllers {
                if !tree::controls_children(&group, controller) {
                    tree::write(&group, "cgroup.subtree_control", &format!("+{controller}"))?;
                }
            }
            group.push(part);
            if make(&group)? {
                self.forget_disk_weights(&group);
            }
            let weight = tree::weight(&group).unwrap_or(0);
            self.ours.entry(group.clone()).or_insert(weight);
        }
        Ok(())
    }

    /// Moves a process into a cgroup of ours, noting where it was found.
    fn move_in(&mut self, process: &ProcessHandle, leaf: &Path) -> io::Result<Moved> {
        let mount = self.setting.root.mount.clone();
        let Some(found) = tree::cgroup_of(process.identity().pid) else { return Ok(Moved::Gone) };
        let here = tree::folder(&mount, &found);
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
                self.record.note(&Found::Process { process, cgroup: home })?;
            }
        }
        tree::move_process(process, &mount, leaf)
    }

    /// Removes our cgroups that nobody needs any more, and takes back who is still there.
    fn prune(&mut self) {
        let mut needed: BTreeSet<&Path> = BTreeSet::new();
        for leaf in self.clients.iter().filter_map(|client| client.leaf.as_deref()) {
            needed.extend(leaf.ancestors());
        }
        let stale: Vec<PathBuf> =
            self.ours.keys().filter(|path| !needed.contains(path.as_path())).cloned().collect();
        // Inner ones first: a longer path is greater.
        for path in stale.into_iter().rev() {
            match tree::dissolve(&self.setting.root.mount, &path) {
                Ok(_) => {
                    self.ours.remove(&path);
                    self.forget_disk_weights(&path);
                }
                Err(what) => self.tell(Drift { process: None, what }),
            }
        }
    }

    // Drift.

    /// Looks at everything that was set.
    pub(super) fn check_all(&mut self) {
        if !self.guarded {
            return;
        }
        for index in 0..self.clients.len() {
            self.check(index);
        }
        self.check_ours();
        self.check_foreign();
        self.check_memory();
    }

    /// Looks whether one client is as it was set, and puts right what is not.
    pub(super) fn check(&mut self, index: usize) {
        let moved = self.clients[index].bodies.iter_mut().map(Body::follow);
        // All are to be looked at.
        self.changed |= moved.filter(|moved| *moved).count() > 0;
        let client = &self.clients[index];
        let Some(leaf) = client.leaf.clone() else { return };
        let mount = self.setting.root.mount.clone();
        if !leaf.is_dir() {
            self.tell(Drift {
                process: None,
                what: format!("somebody removed {}; it was made again", leaf.display()),
            });
            self.settle(index);
            self.check_ours();
            return;
        }
        let freeze = if client.presence == Presence::Frozen { "1" } else { "0" };
        let mut wrong = Vec::new();
        for body in client.bodies.iter().filter(|body| body.place == Place::Leaf) {
            let Some(found) = tree::cgroup_of(body.identity().pid) else { continue };
            if tree::folder(&mount, &found) != leaf && body.process.is_alive() {
                wrong.push((body.identity(), found));
            }
        }
        let shares_cpu = self.setting.shares_cpu;
        if shares_cpu && tree::read(&leaf, "cgroup.freeze").is_ok_and(|now| now != freeze) {
            let _ = tree::write(&leaf, "cgroup.freeze", freeze);
            let word = if freeze == "1" { "thawed" } else { "froze" };
            let what = format!("somebody {word} {}; that was undone", leaf.display());
            self.tell(Drift { process: None, what });
        }
        for (identity, found) in wrong {
            let moved = ProcessHandle::open_identity(identity)
                .map_err(io::Error::other)
                .and_then(|process| self.move_in(&process, &leaf));
            let what = match moved {
                Ok(Moved::There) => format!("somebody moved it to {found}; it was moved back"),
                Ok(Moved::Gone) => continue,
                Err(error) => format!("somebody moved it to {found}; it stays there: {error}"),
            };
            self.tell(Drift { process: Some(identity), what });
        }
        if let Some(weight) = self.ours.get(&leaf).copied() {
            self.check_weight(&leaf, weight);
        }
    }

    fn check_ours(&mut self) {
        if !self.setting.shares_cpu {
            return;
        }
        let ours: Vec<(PathBuf, u32)> =
            self.ours.iter().map(|(path, weight)| (path.clone(), *weight)).collect();
        for (path, weight) in ours {
            self.check_weight(&path, weight);
        }
        let guests = self.setting.guests.clone();
        if tree::read(&guests, "cpu.idle").is_ok_and(|idle| idle != "1") {
            let _ = tree::write(&guests, "cpu.idle", "1");
            let what = "the guests' cgroup was not idle any more; it is again".to_owned();
            self.tell(Drift { process: None, what });
        }
    }

    fn check_weight(&mut self, group: &Path, weight: u32) {
        if !self.setting.shares_cpu {
            return;
        }
        // 0 when it is idle.
        let Some(found) = tree::weight(group).filter(|found| *found != weight) else { return };
        let put = tree::write(group, "cpu.idle", "0")
            .and_then(|()| tree::write(group, "cpu.weight", &weight.to_string()));
        let group = group.display();
        let what = match put {
            Ok(()) => format!("the weight of {group} was {found}; it is {weight} again"),
            Err(error) => format!("the weight of {group} is {found}, not {weight}: {error}"),
        };
        self.tell(Drift { process: None, what });
    }
}

/// Answers whether it was not there.
fn make(group: &Path) -> io::Result<bool> {
    match std::fs::create_dir(group) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}
