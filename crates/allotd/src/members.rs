//! Consumers, from the words of the interface to the ledger's and back: threads, processes and
//! cgroups. Whose each is, the kernel says; a caller's word counts for nothing.

use ledger::{Currency, CurrencyId, CurrencyKind, Ledger, Member, NewClient, ProcessIdentity};
use observe::CgroupLayout;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use wire::{ApiError, ErrorCode, MemberView, ProcessView};

/// The most members whose life is looked at in one go.
const LOOKED_AT: usize = 256;
/// The most members of a trader that are shown.
const SHOWN_MAX: usize = 1000;
/// How deep cgroups are looked for.
const DEPTH_MAX: usize = 32;

/// The names of commands, which the ledger does not know.
pub type Commands = BTreeMap<ProcessIdentity, String>;

/// Where the cgroups that are members are.
#[derive(Clone, Debug)]
pub struct Cgroups {
    mount: Option<PathBuf>,
    paths: BTreeMap<u64, PathBuf>,
}

impl Cgroups {
    /// Of this machine; those that the ledger knows are looked for.
    pub fn look(ledger: &Ledger) -> Cgroups {
        let mount = match observe::machine().cgroup {
            CgroupLayout::V2 { mount, .. } | CgroupLayout::Hybrid { mount, .. } => {
                Some(PathBuf::from(mount))
            }
            CgroupLayout::None | CgroupLayout::V1 { .. } => None,
        };
        let mut cgroups = Cgroups { mount, paths: BTreeMap::new() };
        let mut wanted: BTreeSet<u64> = members(ledger).filter_map(cgroup_id).collect();
        if let Some(mount) = cgroups.mount.clone()
            && !wanted.is_empty()
        {
            cgroups.search(&mount, &mut wanted, DEPTH_MAX);
        }
        cgroups
    }

    fn search(&mut self, directory: &Path, wanted: &mut BTreeSet<u64>, depth: usize) {
        let Ok(entries) = std::fs::read_dir(directory) else { return };
        for entry in entries.flatten() {
            if wanted.is_empty() || depth == 0 {
                return;
            }
            // Not followed: a cgroup tree has no links, and what is not one does not matter.
            let Ok(found) = entry.metadata() else { continue };
            if !found.is_dir() {
                continue;
            }
            if wanted.remove(&found.ino()) {
                self.paths.insert(found.ino(), entry.path());
            }
            self.search(&entry.path(), wanted, depth - 1);
        }
    }

    /// The cgroup of a directory, and whose that is.
    ///
    /// # Errors
    /// When there is none, or the machine has no tree of version 2.
    pub fn find(&mut self, text: &str) -> Result<NewClient, ApiError> {
        let mount = self.mount.as_ref().ok_or_else(|| {
            ApiError::new(
                ErrorCode::Conflict,
                "this machine has no cgroup v2 tree, whose groups could be clients",
            )
        })?;
        let path = Path::new(text);
        let below = path.strip_prefix(mount).or_else(|_| path.strip_prefix("/")).unwrap_or(path);
        if below.as_os_str().is_empty() || below == Path::new(".") {
            let what = "the root of the cgroup tree is everybody; name a cgroup below it";
            return Err(ApiError::new(ErrorCode::Invalid, what));
        }
        let missing = |errno: rustix::io::Errno| {
            let (mount, why) = (mount.display(), std::io::Error::from(errno));
            ApiError::new(
                ErrorCode::Unknown,
                format!("there is no cgroup `{text}` in {mount}: {why}"),
            )
        };
        // Nothing that a caller writes leads out of the tree, or does more than look.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(mount, flags, Mode::empty()).map_err(missing)?;
        let within =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let directory =
            rustix::fs::openat2(&root, below, flags, Mode::empty(), within).map_err(missing)?;
        let found = rustix::fs::fstat(&directory).map_err(missing)?;
        let on = rustix::fs::fstat(&root).map_err(missing)?;
        if found.st_dev != on.st_dev {
            return Err(missing(rustix::io::Errno::XDEV));
        }
        self.paths.insert(found.st_ino, mount.join(below));
        let member = Member::Cgroup(found.st_ino);
        Ok(NewClient { member, uid: found.st_uid, gid: found.st_gid })
    }

    /// Where a cgroup is, from the root of the tree.
    pub fn path(&self, id: u64) -> Option<String> {
        let path = self.paths.get(&id)?.strip_prefix(self.mount.as_ref()?).ok()?;
        Some(format!("/{}", path.display()))
    }

    /// One whose place is unknown was not there when allotd started, and no number comes again
    /// within a boot.
    fn is_there(&self, id: u64) -> bool {
        let found = self.paths.get(&id).and_then(|path| std::fs::symlink_metadata(path).ok());
        found.is_some_and(|found| found.is_dir() && found.ino() == id)
    }

    /// Forget those that are no members.
    pub fn retain(&mut self, ledger: &Ledger) {
        if !self.paths.is_empty() {
            let known: BTreeSet<u64> = members(ledger).filter_map(cgroup_id).collect();
            self.paths.retain(|id, _| known.contains(id));
        }
    }
}

/// Everybody who has founded or joined a client.
fn members(ledger: &Ledger) -> impl Iterator<Item = Member> {
    ledger.clients().chain(ledger.joined()).map(|(member, _)| member)
}

fn cgroup_id(member: Member) -> Option<u64> {
    match member {
        Member::Cgroup(id) => Some(id),
        _ => None,
    }
}

/// Returns what consumes as a currency or as a client that it funds, at most [`SHOWN_MAX`]; and how many more there are. So many
/// tickets are followed as `room` has left; where that ends, at least one is left out.
pub fn all_of(ledger: &Ledger, id: CurrencyId, room: &mut usize) -> (Vec<Member>, u64) {
    let mut seen = BTreeSet::from([id]);
    let mut open = vec![id];
    let (mut all, mut left_out) = (Vec::new(), 0);
    while let Some(id) = open.pop() {
        if !ledger.currency(id).is_some_and(Currency::is_client) {
            if *room == 0 {
                left_out += 1;
                continue;
            }
            let issued: Vec<_> = ledger.issued(id).take(*room).map(|(_, it)| it.holder).collect();
            *room -= issued.len();
            open.extend(issued.into_iter().filter(|holder| seen.insert(*holder)));
            continue;
        }
        for member in founder_of(ledger, id).into_iter().chain(ledger.members(id)) {
            if all.len() < SHOWN_MAX { all.push(member) } else { left_out += 1 }
        }
    }
    (all, left_out)
}

/// Returns the member whose client it is, where that has joined no other.
fn founder_of(ledger: &Ledger, id: CurrencyId) -> Option<Member> {
    match ledger.currency(id)?.record.kind {
        CurrencyKind::Client { founder, .. } => Some(founder),
        _ => None,
    }
    .filter(|founder| ledger.joined_by(founder).is_none())
}

/// Returns the threads and cgroups after `last` that are gone, some at a time; `last` moves on.
pub fn gone(ledger: &Ledger, cgroups: &Cgroups, last: &mut Option<Member>) -> Vec<Member> {
    let ends = |member: &Member| matches!(member, Member::Thread(_) | Member::Cgroup(_));
    let all: BTreeSet<Member> = members(ledger).filter(ends).collect();
    let from = last.map_or(Bound::Unbounded, Bound::Excluded);
    let some: Vec<Member> = all.range((from, Bound::Unbounded)).take(LOOKED_AT).copied().collect();
    *last = some.last().copied().filter(|_| some.len() == LOOKED_AT);
    let is_gone = |member: &Member| match member {
        Member::Thread(thread) => !observe::is_thread_alive(thread),
        Member::Cgroup(id) => !cgroups.is_there(*id),
        Member::Process(_) | Member::Kernel | Member::Rest => false,
    };
    some.into_iter().filter(is_gone).collect()
}

/// A member as people see it.
pub fn member_view(member: &Member, commands: &Commands, cgroups: &Cgroups) -> MemberView {
    match member {
        Member::Process(process) => MemberView::Process(process_view(process, commands)),
        Member::Thread(thread) => {
            MemberView::Thread { tid: thread.tid, process: process_view(&thread.process, commands) }
        }
        Member::Cgroup(id) => MemberView::Cgroup { id: *id, path: cgroups.path(*id) },
        Member::Kernel => MemberView::Kernel,
        Member::Rest => MemberView::Rest,
    }
}

/// Names a client by its member.
pub fn member_name(member: &Member, commands: &Commands, cgroups: &Cgroups) -> String {
    match member_view(member, commands, cgroups) {
        MemberView::Process(process) => process.command,
        MemberView::Thread { tid, process } => format!("{} thread {tid}", process.command),
        MemberView::Cgroup { path: Some(path), .. } => path,
        MemberView::Cgroup { id, path: None } => format!("cgroup {id}"),
        MemberView::Kernel => "kernel".to_owned(),
        MemberView::Rest => "rest".to_owned(),
    }
}

/// A process as people see it.
pub fn process_view(process: &ProcessIdentity, commands: &Commands) -> ProcessView {
    ProcessView {
        pid: process.pid,
        start_time_ticks: process.start_time_ticks,
        command: commands.get(process).cloned().unwrap_or_else(|| format!("pid {}", process.pid)),
    }
}
