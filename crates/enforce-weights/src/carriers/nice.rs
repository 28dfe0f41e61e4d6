//! Weights as nice values, of autogroups and of threads.
//!
//! 1. Where sessions are scheduled as groups (autogroup), a process competes with those of its session, and sessions
//!    compete by the nice value of their autogroup, which is its weight ([`crate::nice_steps`]). A session weighs what
//!    the awake clients in it weigh together; all sessions with clients weigh 1024 on average, as without us. What no
//!    session was ever begun for since the kernel started has no autogroup: each process there competes as a session does.
//! 2. In its session each thread of a client weighs what the client does, divided by the number of its threads that want
//!    a CPU at once, in parts of the session's median. Among equals everybody has nice 0.
//! 3. Where processes are one group (autogroup is off, or a cgroup that is not ours), all weight is in the nice values of
//!    threads, 1024 on average.
//! 4. Guests have nice 19.
//! 5. A nice value that its user changes meanwhile is its own from then on, and is what it gets back.

use super::v1_tree;
use super::{Carrier, Hands};
use crate::client::{Client, ManagedProcess};
use crate::nice_steps::{Carry, NICE_0_WEIGHT};
use crate::record::UndoEntry;
use ledger::ProcessIdentity;
use observe::{Hierarchy, ProcessHandle};
use rustix::thread::CapabilitySet;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use undo::scheduling::{count_calls, nice_of, set_nice};

/// The nice value of guests.
const GUEST: i32 = 19;
/// Most children of processes with another nice value than their own that are remembered until a plan names them.
const KEPT_CHILDREN: usize = 16_384;
/// The group of processes that compete with groups, not within one.
const ROOT: &str = "/";
/// System calls to open, use and close a file.
const CALLS_A_FILE: u64 = 4;

/// Checks whether nice values can carry weights.
///
/// # Errors
/// Why not, in words.
pub(super) fn available() -> Result<String, String> {
    let may = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_NICE));
    if !may {
        return Err("only root may lower nice values again (CAP_SYS_NICE)".to_owned());
    }
    if let Some(tree) = dividing_tree() {
        return Err(format!("cgroups in {} divide the CPU, before nice values do", tree.display()));
    }
    Ok(why(are_autogroups_on()))
}

/// Returns a tree that divides the CPU among cgroups with processes that are not ours.
fn dividing_tree() -> Option<PathBuf> {
    if let Some(tree) = v1_tree::mounted()
        && observe::cgroups_in(tree.mount()).iter().any(|group| {
            !v1_tree::is_ours_at(group)
                && observe::processes_below(group).is_ok_and(|all| !all.is_empty())
        })
    {
        return Some(tree.mount().to_owned());
    }
    let tree = Hierarchy::unified()?;
    let mount = tree.mount();
    let text = std::fs::read_to_string(mount.join("cgroup.subtree_control")).unwrap_or_default();
    text.split_whitespace().any(|name| name == "cpu").then(|| mount.to_owned())
}

fn why(autogroups: bool) -> String {
    let of = if autogroups { "sessions (autogroup) and threads" } else { "threads" };
    format!("nice values of {of}, steered by what was measured")
}

fn are_autogroups_on() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled")
        .is_ok_and(|text| text.trim() == "1")
}

/// A group within which nice values count.
#[derive(Clone, Debug)]
struct Group {
    /// The nice value that its autogroup has; `None` where that is not for us to set.
    nice: Option<i32>,
    /// The one that it was found with.
    own: i32,
    carry: Carry,
}

impl Group {
    fn found(nice: Option<i32>) -> Group {
        Group { nice, own: nice.unwrap_or(0), carry: Carry::default() }
    }
}

/// A process that was taken in.
#[derive(Debug)]
struct Niced {
    /// The name of its group.
    group: String,
    session: u32,
    /// The nice value that it has of its own.
    own: i32,
    /// Threads with another one of their own.
    others: BTreeMap<u32, i32>,
    /// The nice value that it was given last, if any.
    given: Option<i32>,
    /// All that it was ever given, which are on record.
    noted: BTreeSet<i32>,
    carry: Carry,
}

impl Niced {
    fn own_of(&self, tid: u32) -> i32 {
        self.others.get(&tid).copied().unwrap_or(self.own)
    }
}

/// The carrier.
pub(crate) struct Nice {
    autogroups: bool,
    groups: BTreeMap<String, Group>,
    processes: BTreeMap<ProcessIdentity, Niced>,
    /// Children of those, with the nice value that their parent has of its own.
    children: BTreeMap<ProcessIdentity, i32>,
}

/// The weights of one client's process.
struct Wanted<'a> {
    process: &'a ManagedProcess,
    /// What it weighs on the machine, in parts of the mean of active houses.
    part: f64,
    /// The weight of each thread, likewise.
    of_thread: f64,
    counts: bool,
    is_guest: bool,
}

impl Nice {
    pub fn new() -> Nice {
        Nice {
            autogroups: are_autogroups_on(),
            groups: BTreeMap::new(),
            processes: BTreeMap::new(),
            children: BTreeMap::new(),
        }
    }

    /// Finds the group of a process: the name, and the nice value of its autogroup.
    fn group_of(&self, pid: u32) -> Result<(String, Option<i32>), String> {
        let cgroup = v1_tree::cgroup_of(pid).or_else(|| cgroup_v2_of(pid));
        match cgroup {
            Some(path) if path != ROOT => return Ok((path, None)),
            _ if !self.autogroups => return Ok((ROOT.to_owned(), None)),
            _ => {}
        }
        count_calls(CALLS_A_FILE);
        let line = std::fs::read_to_string(format!("/proc/{pid}/autogroup"))
            .map_err(|error| format!("its autogroup cannot be read: {error}"))?;
        if line.is_empty() {
            return Ok((ROOT.to_owned(), None));
        }
        let (name, nice) =
            autogroup_from(&line).ok_or_else(|| format!("its autogroup is {line:?}"))?;
        Ok((name, Some(nice)))
    }

    /// Lists what every process has to weigh, by group.
    fn wanted<'a>(&self, clients: &'a [Client]) -> BTreeMap<String, Vec<Wanted<'a>>> {
        let mut wanted: BTreeMap<String, Vec<Wanted<'a>>> = BTreeMap::new();
        for client in clients.iter().filter(|client| !client.is_frozen()) {
            let number = client.processes.len().max(1) as f64;
            let part = client.part / number;
            for process in &client.processes {
                let Some(niced) = self.processes.get(&process.identity()) else { continue };
                wanted.entry(niced.group.clone()).or_default().push(Wanted {
                    process,
                    part,
                    of_thread: part / (client.parallel / number).max(1.0),
                    counts: client.competes() && !client.is_guest,
                    is_guest: client.is_guest,
                });
            }
        }
        wanted
    }

    /// Gives an autogroup a weight.
    fn weigh_group(&mut self, name: &str, weight: f64, pid: u32, hands: &mut Hands<'_>) {
        let Some(group) = self.groups.get_mut(name) else { return };
        let nice = group.carry.next(weight);
        if group.nice == Some(nice) {
            return;
        }
        let found = UndoEntry::Autogroup { name: name.to_owned(), nice: group.own };
        let set = found.note(hands.record).and_then(|()| set_autogroup(pid, name, nice));
        match set {
            Ok(true) => group.nice = Some(nice),
            // It has left the session, or exited.
            Ok(false) => {}
            Err(error) => hands.drift.tell(format!("the nice value of {name} stays: {error}")),
        }
    }

    /// Gives the threads of a process a nice value.
    fn give(&mut self, process: &ProcessHandle, nice: i32, hands: &mut Hands<'_>) {
        let Some(niced) = self.processes.get_mut(&process.identity()) else { return };
        if niced.given.unwrap_or(niced.own) == nice && niced.others.is_empty() {
            return;
        }
        if let Err(error) = give(process, niced, nice, hands) {
            let what = format!("it keeps its nice value: {error}");
            hands.drift.tell_of(process.identity(), what);
        }
    }
}

impl Carrier for Nice {
    fn why(&self) -> String {
        why(self.autogroups)
    }

    fn admit(&mut self, process: &ProcessHandle) -> Result<(), String> {
        let identity = process.identity();
        if self.processes.contains_key(&identity) {
            return Ok(());
        }
        let facts = process.facts().map_err(|error| error.to_string())?;
        let (group, nice) = self.group_of(identity.pid)?;
        let found = nice_of(identity.pid).map_err(|error| error.to_string())?;
        let own = self.children.remove(&identity).unwrap_or(found);
        let mut others = BTreeMap::new();
        for tid in process.threads().map_err(|error| error.to_string())? {
            if let Ok(nice) = nice_of(tid)
                && nice != found
            {
                others.insert(tid, nice);
            }
        }
        let given = (own != found).then_some(found);
        let noted = BTreeSet::new();
        let (session, carry) = (facts.session, Carry::default());
        self.groups.entry(group.clone()).or_insert(Group::found(nice));
        let niced = Niced { group, session, own, others, given, noted, carry };
        self.processes.insert(identity, niced);
        Ok(())
    }

    fn release(&mut self, process: &ProcessHandle, hands: &mut Hands<'_>) {
        let Some(niced) = self.processes.remove(&process.identity()) else { return };
        if niced.given.is_some()
            && process.is_alive()
            && let Err(error) = give_back(process, &niced)
        {
            let what = format!("it could not be given its own nice value: {error}");
            hands.drift.tell_of(process.identity(), what);
            return;
        }
        for given in niced.noted {
            // If that fails, it is given back again at the end.
            let key = UndoEntry::nice_key(process.identity(), given);
            let _ = hands.record.note_given_back(&key);
        }
    }

    fn set(&mut self, clients: &[Client], hands: &mut Hands<'_>) {
        let wanted = self.wanted(clients);
        let is_settable = |name: &String, groups: &BTreeMap<String, Group>| {
            groups.get(name).is_some_and(|group| group.nice.is_some())
        };
        let weight_of = |members: &[Wanted]| -> f64 {
            let all = || members.iter().filter(|member| !member.is_guest);
            let awake: f64 = all().filter(|it| it.counts).map(|it| it.part).sum();
            if awake > 0.0 { awake } else { all().map(|it| it.part).sum() }
        };
        let settable = || wanted.iter().filter(|(name, _)| is_settable(name, &self.groups));
        let is_awake = |members: &[Wanted]| members.iter().any(|member| member.counts);
        let at_root = wanted.get(ROOT).into_iter().flatten().filter(|member| member.counts);
        let awake: Vec<f64> = settable()
            .filter(|(_, it)| is_awake(it))
            .map(|(_, it)| weight_of(it))
            .chain(at_root.map(|member| member.of_thread))
            .collect();
        let mean = awake.iter().sum::<f64>() / awake.len().max(1) as f64;
        let weights: BTreeMap<String, f64> =
            settable().map(|(name, members)| (name.clone(), weight_of(members))).collect();
        for (name, members) in &wanted {
            if let Some(weight) = weights.get(name)
                && mean > 0.0
            {
                let pid = members[0].process.identity().pid;
                let weight = if *weight > 0.0 { weight / mean * NICE_0_WEIGHT } else { 0.0 };
                self.weigh_group(name, weight, pid, hands);
            }
            let base = match name.as_str() {
                ROOT if mean > 0.0 => mean,
                _ if weights.contains_key(name) => median(members),
                _ => mean_of(members),
            };
            for member in members {
                let nice = match self.processes.get_mut(&member.process.identity()) {
                    Some(_) if member.is_guest => GUEST,
                    Some(niced) if base > 0.0 && member.of_thread > 0.0 => {
                        niced.carry.next(member.of_thread / base * NICE_0_WEIGHT)
                    }
                    _ => continue,
                };
                self.give(&member.process.handle, nice, hands);
            }
        }
        let used: BTreeSet<&String> = self.processes.values().map(|niced| &niced.group).collect();
        let gone = self.groups.keys().filter(|name| !used.contains(name));
        for name in gone.cloned().collect::<Vec<_>>() {
            if let Some(group) = self.groups.remove(&name) {
                give_autogroup_back(&name, group.own, hands);
            }
        }
    }

    fn check(&mut self, client: &Client, hands: &mut Hands<'_>) {
        for process in &client.processes {
            let identity = process.identity();
            let Ok((group, nice)) = self.group_of(identity.pid) else { continue };
            let Some(niced) = self.processes.get_mut(&identity) else { continue };
            if !process.handle.is_alive() {
                continue;
            }
            let expected = niced.given.unwrap_or(niced.own);
            if let Ok(now) = nice_of(identity.pid)
                && now != expected
            {
                let what = format!("it was given nice {now}; that is now its own");
                hands.drift.tell_of(identity, what);
                (niced.own, niced.given) = (now, None);
                niced.others.clear();
                // What is on record is not its own any more, and is noted anew before it is given a value.
                for given in std::mem::take(&mut niced.noted) {
                    let _ = hands.record.note_given_back(&UndoEntry::nice_key(identity, given));
                }
            }
            if group != niced.group {
                niced.group.clone_from(&group);
                self.groups.entry(group).or_insert(Group::found(nice));
            } else if let Some(known) = self.groups.get_mut(&group)
                && let (Some(set), Some(found)) = (known.nice, nice)
                && set != found
            {
                hands.drift.tell(format!("{group} was given nice {found}; it is set again"));
                known.nice = Some(found);
            }
        }
    }

    fn clear(&mut self) {
        self.groups.clear();
        self.processes.clear();
        self.children.clear();
    }

    fn note_fork(&mut self, parent: ProcessIdentity, child: ProcessIdentity) {
        let of_client = self.processes.get(&parent).filter(|niced| niced.given.is_some());
        let own = of_client.map(|niced| niced.own).or_else(|| self.children.get(&parent).copied());
        let Some(own) = own else { return };
        if self.children.len() >= KEPT_CHILDREN {
            self.children.pop_first();
        }
        self.children.insert(child, own);
    }
}

/// The median weight of the threads of a group's hosts.
fn median(members: &[Wanted]) -> f64 {
    let hosts = members.iter().filter(|member| !member.is_guest && member.of_thread > 0.0);
    let mut weights: Vec<f64> = hosts.map(|member| member.of_thread).collect();
    weights.sort_by(f64::total_cmp);
    weights.get(weights.len() / 2).copied().unwrap_or(0.0)
}

/// The mean weight of the threads of a group's awake hosts.
fn mean_of(members: &[Wanted]) -> f64 {
    let hosts = members.iter().filter(|member| member.counts);
    let (number, sum) = hosts.fold((0, 0.0), |(number, sum), it| (number + 1, sum + it.of_thread));
    if number > 0 { sum / f64::from(number) } else { median(members) }
}

/// Gives all threads of a process a nice value, noting it before.
fn give(
    process: &ProcessHandle,
    niced: &mut Niced,
    nice: i32,
    hands: &mut Hands<'_>,
) -> io::Result<()> {
    let identity = process.identity();
    if !niced.noted.contains(&nice) {
        let others = niced.others.iter().map(|(tid, own)| (*tid, *own)).collect();
        let Niced { session, own, .. } = *niced;
        let (given, at_ticks) = (nice, observe::ticks_since_boot());
        let process = identity;
        UndoEntry::Nice { process, session, own, others, given, at_ticks }.note(hands.record)?;
        niced.noted.insert(nice);
    }
    niced.given = Some(nice);
    change_threads(process, |_, now| (now != nice).then_some(nice))
}

/// Gives all threads of a process back what they have of their own, if they still have what we gave them.
fn give_back(process: &ProcessHandle, niced: &Niced) -> io::Result<()> {
    change_threads(process, |tid, now| {
        let own = niced.own_of(tid);
        (Some(now) == niced.given && now != own).then_some(own)
    })
}

/// Changes the nice values of a process's threads: `wanted` says of each, by its number and its value now, what it is to
/// have. Looks again until no thread is left that another one started meanwhile.
pub(crate) fn change_threads(
    process: &ProcessHandle,
    wanted: impl Fn(u32, i32) -> Option<i32>,
) -> io::Result<()> {
    const MAX_PASSES: u32 = 50;
    for _ in 0..MAX_PASSES {
        let mut any = false;
        count_calls(CALLS_A_FILE);
        let Ok(tids) = process.threads() else { return Ok(()) };
        for tid in tids {
            let Ok(now) = nice_of(tid) else { continue };
            let Some(nice) = wanted(tid, now).filter(|_| process.is_alive()) else { continue };
            match set_nice(tid, nice) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => continue,
                Err(error) => return Err(error),
            }
            let folder = format!("/proc/{}/task/{tid}", process.identity().pid);
            if !process.is_alive() || !Path::new(&folder).exists() {
                // It ended, and the number may name somebody else's thread: that has back what it had.
                let _ = set_nice(tid, now);
                continue;
            }
            any = true;
        }
        if !any {
            break;
        }
    }
    Ok(())
}

/// Parses a `/proc/PID/autogroup`.
fn autogroup_from(line: &str) -> Option<(String, i32)> {
    let (name, nice) = line.trim().split_once(" nice ")?;
    Some((name.to_owned(), nice.parse().ok()?))
}

/// Sets the nice value of an autogroup through one process in it. Returns false when the process is in another one by
/// now, or gone.
pub(crate) fn set_autogroup(pid: u32, name: &str, nice: i32) -> io::Result<bool> {
    count_calls(CALLS_A_FILE + 2);
    // One open file: it is of one process, whoever has its number later.
    let opened =
        std::fs::File::options().read(true).write(true).open(format!("/proc/{pid}/autogroup"));
    let mut file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => opened?,
    };
    let mut line = String::new();
    let read = file.read_to_string(&mut line);
    let is_it = |line: &str| autogroup_from(line).is_some_and(|(found, _)| found == name);
    if read.is_err() || !is_it(&line) {
        return Ok(false);
    }
    match file.write_all(nice.to_string().as_bytes()) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(false),
        written => written.map(|()| true),
    }
}

/// Returns the nice value of an autogroup, and a process in it.
pub(crate) fn find_autogroup(name: &str) -> Option<(u32, i32)> {
    let pids = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find_map(|pid| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/autogroup")).ok()?;
        let (found, nice) = autogroup_from(&line)?;
        (found == name).then_some((pid, nice))
    })
}

/// Gives an autogroup that no client is in any more its own nice value back.
fn give_autogroup_back(name: &str, own: i32, hands: &mut Hands<'_>) {
    let key = UndoEntry::autogroup_key(name);
    if !hands.record.knows(&key) {
        return;
    }
    if let Some((pid, _)) = find_autogroup(name)
        && set_autogroup(pid, name, own).is_err()
    {
        return;
    }
    // If that fails, it is given back again at the end.
    let _ = hands.record.note_given_back(&key);
}

/// Returns the nearest cgroup (version 2) around a process that schedules it, if any does.
fn cgroup_v2_of(pid: u32) -> Option<String> {
    let path = observe::cgroup_of(pid)?;
    let tree = Hierarchy::unified()?;
    let around = Path::new(&path).ancestors().filter(|path| *path != Path::new("/"));
    let mut around = around.filter_map(Path::to_str);
    around.find(|path| tree.folder(path).join("cpu.weight").exists()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn autogroups_are_read() {
        let read = autogroup_from("/autogroup-12 nice -3\n");
        assert_eq!(read, Some(("/autogroup-12".to_owned(), -3)));
        assert_eq!(autogroup_from("/autogroup-12"), None);
    }
}
