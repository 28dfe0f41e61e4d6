//! Moves of processes between cgroups, and back when a cgroup is dissolved; writes to files of cgroups.

use crate::scheduling::count_calls;
use observe::{CgroupVersion, Hierarchy, ProcessHandle};
use std::io;
use std::path::Path;

/// System calls to open, use and close a file.
const CALLS_A_FILE: u64 = 4;

/// Reads a file of a cgroup, without the end of its last line.
///
/// # Errors
/// When the cgroup is gone, or has no such file.
pub fn read(group: &Path, file: &str) -> io::Result<String> {
    count_calls(CALLS_A_FILE);
    std::fs::read_to_string(group.join(file)).map(|text| text.trim_end().to_owned())
}

/// Writes a file of a cgroup, with one call.
///
/// # Errors
/// When the cgroup is gone, has no such file, or the kernel refuses what is written.
pub fn write(group: &Path, file: &str, text: &str) -> io::Result<()> {
    count_calls(CALLS_A_FILE);
    // Never created: what is not there is not offered by this kernel.
    let mut file = std::fs::File::options().write(true).open(group.join(file))?;
    io::Write::write_all(&mut file, text.as_bytes())
}

/// Makes a cgroup. Returns whether it was not there.
///
/// # Errors
/// When the kernel refuses.
pub fn create(group: &Path) -> io::Result<bool> {
    match std::fs::create_dir(group) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// The file that freezes the cgroups of a hierarchy, with what is written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freezer {
    /// The file's name.
    pub file: &'static str,
    /// Freezes all that is in the cgroup.
    pub frozen: &'static str,
    /// Lets it go on.
    pub thawed: &'static str,
}

impl Freezer {
    /// Returns the freezer of a hierarchy; `None` where that has none.
    pub fn of(tree: &Hierarchy) -> Option<Freezer> {
        match tree.version() {
            CgroupVersion::V1("freezer") => {
                Some(Freezer { file: "freezer.state", frozen: "FROZEN", thawed: "THAWED" })
            }
            CgroupVersion::V1(_) => None,
            CgroupVersion::V2 => Some(Freezer { file: "cgroup.freeze", frozen: "1", thawed: "0" }),
        }
    }
}

/// The outcome of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The process is there, with all its threads.
    There,
    /// The process has exited.
    Gone,
}

/// Moves a process, all its threads, into a cgroup.
///
/// A cgroup takes bare pids. The handle says afterwards whether the pid was still this process's; a stranger that had
/// got the pid is put where newborns begin: beside its parent.
///
/// # Errors
/// When the kernel refuses.
pub fn move_process(process: &ProcessHandle, tree: &Hierarchy, group: &Path) -> io::Result<Moved> {
    move_process_by(process, tree, |pid| write(group, "cgroup.procs", &pid.to_string()))
}

/// Moves a process, all its threads, as [`move_process`] does, by `attach`, which is told its pid.
///
/// # Errors
/// When it cannot be moved.
pub fn move_process_by(
    process: &ProcessHandle,
    tree: &Hierarchy,
    attach: impl FnOnce(u32) -> io::Result<()>,
) -> io::Result<Moved> {
    if !process.is_alive() {
        return Ok(Moved::Gone);
    }
    let pid = process.identity().pid;
    let written = attach(pid);
    if !process.is_alive() {
        if written.is_ok()
            && let Ok(stranger) = ProcessHandle::open(pid)
            && let Ok(facts) = stranger.facts()
            && let Some(home) = tree.cgroup_of(facts.parent_pid)
        {
            write(&tree.folder(&home), "cgroup.procs", &pid.to_string())?;
        }
        return Ok(Moved::Gone);
    }
    match written {
        Ok(()) => Ok(Moved::There),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(Moved::Gone),
        Err(error) => Err(error),
    }
}

/// Moves a process to where it was found, a path from `/`; if that cgroup is gone or takes no processes any more, to the
/// nearest one around it that does.
///
/// # Errors
/// When the kernel refuses even to move it to the root.
pub fn move_back(process: &ProcessHandle, tree: &Hierarchy, origin: &str) -> io::Result<Moved> {
    let mut home = Path::new(origin);
    loop {
        let group = tree.folder(home.to_str().unwrap_or("/"));
        match (move_process(process, tree, &group), home.parent()) {
            (Err(_), Some(outer)) => home = outer,
            (moved, _) => return moved,
        }
    }
}

/// What was given back when a cgroup was dissolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dissolved {
    /// Processes that were moved.
    pub moved: usize,
    /// Cgroups that were removed.
    pub removed: usize,
}

/// Passes after which a pass that left something waits.
const PASSES_AT_ONCE: u32 = 10;
/// Time between two passes then. An exiting process is in its cgroup until its last moment.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// Lets all that is in a cgroup and below it go on, has each process brought home, and removes the cgroups, inner ones
/// first. `bring_home` is told the process and the cgroup that it is in. Processes may fork meanwhile: their children are
/// found in the next pass; of those there are `passes` at most.
///
/// # Errors
/// What stays, in words.
pub fn dissolve(
    tree: &Hierarchy,
    group: &Path,
    passes: u32,
    bring_home: impl Fn(&ProcessHandle, &Path) -> io::Result<Moved>,
) -> Result<Dissolved, String> {
    let (mut dissolved, mut why) = (Dissolved::default(), String::new());
    for pass in 0..passes {
        if !group.exists() {
            return Ok(dissolved);
        }
        if pass > PASSES_AT_ONCE {
            std::thread::sleep(PAUSE);
        }
        let all = observe::cgroups_inner_first(group);
        if let Some(freezer) = Freezer::of(tree) {
            // A frozen process could be moved, but would be frozen again by an outer cgroup.
            all.iter().for_each(|group| drop(write(group, freezer.file, freezer.thawed)));
        }
        for group in &all {
            match empty(tree, group, &bring_home) {
                (moved, None) => dissolved.moved += moved,
                (moved, Some(stays)) => (dissolved.moved, why) = (dissolved.moved + moved, stays),
            }
            match std::fs::remove_dir(group) {
                Ok(()) => dissolved.removed += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => why = format!("{} stays: {error}", group.display()),
            }
        }
    }
    if group.exists() { Err(why) } else { Ok(dissolved) }
}

/// Has each process of a cgroup brought home. Returns how many were moved, and what stays.
fn empty(
    tree: &Hierarchy,
    group: &Path,
    bring_home: impl Fn(&ProcessHandle, &Path) -> io::Result<Moved>,
) -> (usize, Option<String>) {
    let (mut moved, mut stays) = (0, None);
    count_calls(CALLS_A_FILE);
    for pid in observe::processes_in(group) {
        let Ok(process) = ProcessHandle::open(pid) else { continue };
        // The number may have become another's, who is elsewhere.
        if tree.cgroup_of(pid).is_none_or(|path| tree.folder(&path) != group) {
            continue;
        }
        match bring_home(&process, group) {
            Ok(Moved::There) => moved += 1,
            Ok(Moved::Gone) => {}
            Err(error) => stays = Some(format!("process {pid} stays in its cgroup: {error}")),
        }
    }
    (moved, stays)
}
