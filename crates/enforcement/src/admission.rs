//! Admission: what of a plan is followed. The keeper may be mistaken, or not itself any more: what it asks for is
//! checked against the kernel and the [reach](Reach) before any enforcer hears of it.
//!
//! 1. Nobody manages init, the kernel's threads or a part of allotd.
//! 2. Nobody manages a process whose real uid now is out of reach.
//! 3. In a plan that is followed, no client with processes may be anybody's: its owners are uids within reach, and
//!    enforcers ask again whose a process is before they touch it ([`PlannedClient::may_hold`]).
//! 4. A cgroup is its directory's owner's.
//!
//! A process is looked at when it comes: once, as long as plans name it. One that is refused is looked at each time.

use crate::reach::Reach;
use enforcer::{ClientStatus, Plan, PlannedClient};
use identity::ProcessIdentity;
use ledger::Member;
use observe::{Hierarchy, ProcessHandle, cgroups_in};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The decision about plans, and the clients that it refused of the last.
pub struct Admission {
    reach: Reach,
    /// This process and the one that asks; they and what they have made are parts of allotd.
    own: [u32; 2],
    whose: WhoseIs,
    /// The processes and cgroups of the last plan that were found to be within reach, with their uid then.
    admitted: BTreeMap<Target, u32>,
    refused: Vec<(PlannedClient, String)>,
}

/// The owners of things: the kernel's answers, or a test's. `None` of a thing that is gone.
#[derive(Clone, Copy)]
pub struct WhoseIs {
    /// The facts of a process, or why they cannot be had.
    pub process: fn(ProcessIdentity) -> Result<Option<ProcessOwner>, String>,
    /// The uid of a cgroup's directory.
    pub cgroup: fn(u64) -> Option<u32>,
}

/// The facts that decide whether a process may be managed.
#[derive(Clone, Copy, Debug)]
pub struct ProcessOwner {
    /// The real uid.
    pub real_uid: u32,
    /// The pid of the parent.
    pub parent_pid: u32,
    /// Whether it is a thread of the kernel.
    pub is_kernel_thread: bool,
}

/// Something that can be told whose it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Process(ProcessIdentity),
    Cgroup(u64),
}

impl Target {
    fn of(member: &Member) -> Option<Target> {
        match member {
            Member::Cgroup(id) => Some(Target::Cgroup(*id)),
            member => member.within_process().map(Target::Process),
        }
    }
}

impl Admission {
    /// Admits what is within reach, for the keeper of this process.
    pub fn new(reach: Reach, keeper: u32) -> Admission {
        let kernel = WhoseIs { process: owner_of_process, cgroup: owner_of_cgroup };
        Admission::asking(kernel, reach, [std::process::id(), keeper])
    }

    /// Admits what is within reach, by what `whose` says; `own` are the processes of allotd.
    pub fn asking(whose: WhoseIs, reach: Reach, own: [u32; 2]) -> Admission {
        Admission { reach, own, whose, admitted: BTreeMap::new(), refused: Vec::new() }
    }

    /// Takes out of a plan what must not be touched. Answers what was refused and was not refused before, in words.
    pub fn admit(&mut self, plan: &mut Plan) -> Vec<String> {
        let known = std::mem::take(&mut self.admitted);
        let before: BTreeSet<(Member, String)> =
            self.refused.drain(..).map(|(client, why)| (client.founder, why)).collect();
        let mut news = Vec::new();
        let mut tell = |member: Member, why: &str| {
            if !before.contains(&(member, why.to_owned())) {
                news.push(format!("{member} is left alone: {why}"));
            }
        };
        let clients = std::mem::take(&mut plan.clients);
        for mut client in clients {
            let mut uids = BTreeSet::new();
            if let Err(why) = self.look_at(&client.founder, &known, &mut uids) {
                tell(client.founder, &why);
                self.refused.push((client, why));
                continue;
            }
            for member in std::mem::take(&mut client.members) {
                match self.look_at(&member, &known, &mut uids) {
                    Ok(()) => client.members.push(member),
                    Err(why) => {
                        tell(member, &why);
                        self.refused.push((PlannedClient::of(client.id, member), why));
                    }
                }
            }
            match self.bind(&mut client, uids) {
                Ok(()) => plan.clients.push(client),
                Err(why) => {
                    tell(client.founder, &why);
                    self.refused.push((client, why));
                }
            }
        }
        news
    }

    /// Leaves a client no owner that is out of reach. `uids` are those of its processes now.
    fn bind(&self, client: &mut PlannedClient, uids: BTreeSet<u32>) -> Result<(), String> {
        let is_anybodys = client.owners.is_empty();
        client.owners.retain(|uid| self.reach.has(*uid));
        if is_anybodys {
            client.owners.extend(uids);
        } else if client.owners.is_empty() {
            return Err("the funding policy names none of its owners".to_owned());
        }
        Ok(())
    }

    /// Looks whether a member may be touched; adds the uid of its process to `uids`.
    fn look_at(
        &mut self,
        member: &Member,
        known: &BTreeMap<Target, u32>,
        uids: &mut BTreeSet<u32>,
    ) -> Result<(), String> {
        // The kernel's threads and the rest are one client each, which only the kernel's scheduler weighs.
        let Some(target) = Target::of(member) else { return Ok(()) };
        let admitted = self.admitted.get(&target).or_else(|| known.get(&target)).copied();
        let uid = match (admitted, target) {
            (Some(uid), _) => Some(uid),
            (None, Target::Process(process)) => self.uid_of(process)?,
            (None, Target::Cgroup(id)) => (self.whose.cgroup)(id),
        };
        // Enforcers find out too that it is gone.
        let Some(uid) = uid else { return Ok(()) };
        self.must_be_within_reach(uid)?;
        self.admitted.insert(target, uid);
        if matches!(target, Target::Process(_)) {
            uids.insert(uid);
        }
        Ok(())
    }

    fn must_be_within_reach(&self, uid: u32) -> Result<(), String> {
        match self.reach.has(uid) {
            true => Ok(()),
            false => Err(format!("it is uid {uid}'s, whom the funding policy does not name")),
        }
    }

    /// The real uid of a process that may be managed; `None` of one that is gone.
    fn uid_of(&self, process: ProcessIdentity) -> Result<Option<u32>, String> {
        let Some(owner) = (self.whose.process)(process)? else { return Ok(None) };
        let is_own = |pid: u32| self.own.contains(&pid);
        match process.pid {
            _ if owner.is_kernel_thread => Err("it is a thread of the kernel".to_owned()),
            1 => Err("it is init".to_owned()),
            pid if is_own(pid) || is_own(owner.parent_pid) => {
                Err("it is a part of allotd".to_owned())
            }
            _ => Ok(Some(owner.real_uid)),
        }
    }

    /// The clients and members that are not followed, as statuses.
    pub fn refused(&self) -> impl Iterator<Item = ClientStatus> {
        self.refused.iter().map(|(client, why)| ClientStatus::unmanaged(client, why.clone()))
    }
}

fn owner_of_process(process: ProcessIdentity) -> Result<Option<ProcessOwner>, String> {
    match ProcessHandle::open_identity(process).and_then(|handle| handle.facts()) {
        Ok(facts) => Ok(Some(ProcessOwner {
            real_uid: facts.real_uid,
            parent_pid: facts.parent_pid,
            is_kernel_thread: facts.is_kernel_thread,
        })),
        Err(error) if error.is_gone() => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// The uid of the directory of a cgroup of version 2; `None` of one that is gone.
fn owner_of_cgroup(id: u64) -> Option<u32> {
    let tree = Hierarchy::unified()?;
    let path = find(tree.mount(), id, CGROUP_DEPTH_MAX)?;
    let found = std::fs::symlink_metadata(path).ok().filter(|found| found.ino() == id)?;
    Some(found.uid())
}

/// Maximum depth at which a cgroup is looked for.
const CGROUP_DEPTH_MAX: u32 = 32;

fn find(directory: &Path, id: u64, depth: u32) -> Option<PathBuf> {
    let below = cgroups_in(directory);
    let is_it =
        |path: &&PathBuf| std::fs::symlink_metadata(path).is_ok_and(|found| found.ino() == id);
    if let Some(path) = below.iter().find(is_it) {
        return Some(path.clone());
    }
    let depth = depth.checked_sub(1)?;
    below.iter().find_map(|path| find(path, id, depth))
}
