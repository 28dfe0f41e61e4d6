//! Cgroups, one file operation a function, and moves of processes between them.

use crate::scheduling::count_calls;
use observe::ProcessHandle;
pub(super) use observe::cgroup_of;
use std::io;
use std::path::{Path, PathBuf};

/// Of a cgroup that is ours: where the processes in it were found, to be moved back. On the cgroup
/// itself, so that it is there as long as that is, whoever dies, and holds for children that are
/// forked in it.
const ORIGIN: &str = "trusted.allot.origin";

/// System calls to open, use and close a file.
const CALLS_A_FILE: u64 = 4;

pub(super) fn read(group: &Path, file: &str) -> io::Result<String> {
    count_calls(CALLS_A_FILE);
    std::fs::read_to_string(group.join(file)).map(|text| text.trim_end().to_owned())
}

pub(super) fn write(group: &Path, file: &str, text: &str) -> io::Result<()> {
    count_calls(CALLS_A_FILE);
    // Never created: what is not there is not offered by this kernel.
    let mut file = std::fs::File::options().write(true).open(group.join(file))?;
    io::Write::write_all(&mut file, text.as_bytes())
}

/// `cpu.weight`; `None` where the cgroup has no CPU controller.
pub(super) fn weight(group: &Path) -> Option<u32> {
    read(group, "cpu.weight").ok()?.parse().ok()
}

/// The CPU time that a cgroup and all below it used since it was made, in ns.
pub(super) fn usage_ns(group: &Path) -> Option<u64> {
    let text = read(group, "cpu.stat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    line.parse::<u64>().ok().map(|usage_us| usage_us * 1000)
}

/// Processes in the cgroup itself that have a number here.
pub(super) fn processes(group: &Path) -> Vec<u32> {
    let text = read(group, "cgroup.procs").unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid != 0).collect()
}

/// The cgroups in a cgroup.
pub(super) fn children(group: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(group).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

/// A cgroup and all below it, inner ones first.
pub(super) fn inner_first(group: &Path) -> Vec<PathBuf> {
    let mut all = vec![group.to_owned()];
    let mut next = 0;
    while let Some(group) = all.get(next) {
        let inner = children(group);
        all.extend(inner);
        next += 1;
    }
    all.reverse();
    all
}

/// What a cgroup says of itself while nobody has set anything: the files of the controllers that
/// we turn on, with what they hold then. Files that are not there say nothing.
const AS_MADE: [(&str, &str); 9] = [
    ("cpu.weight", "100"),
    ("cpu.idle", "0"),
    ("memory.min", "0"),
    ("memory.low", "0"),
    ("memory.high", "max"),
    ("memory.max", "max"),
    ("memory.swap.max", "max"),
    ("io.weight", "default 100"),
    ("io.max", ""),
];

/// Whether nobody has set anything on a cgroup that these controllers have, of those that we use.
pub(super) fn is_as_made(group: &Path, controllers: &[&str]) -> bool {
    let is = |file: &str, as_made: &dyn Fn(&str) -> bool| {
        let ours = file.split_once('.').is_some_and(|(name, _)| controllers.contains(&name));
        !ours || read(group, file).map_or(true, |text| as_made(&text))
    };
    AS_MADE.iter().all(|(file, as_made)| is(file, &|text| text == *as_made))
        && is("cpu.max", &|text| text.starts_with("max"))
}

/// Whether a controller is on for the children of a cgroup.
pub(super) fn controls_children(group: &Path, controller: &str) -> bool {
    read(group, "cgroup.subtree_control")
        .is_ok_and(|list| list.split_whitespace().any(|name| name == controller))
}

/// The folder of a cgroup path.
pub(super) fn folder(mount: &Path, path: &str) -> PathBuf {
    mount.join(path.trim_start_matches('/'))
}

pub(super) fn set_origin(group: &Path, origin: &str) -> io::Result<()> {
    let flags = rustix::fs::XattrFlags::empty();
    Ok(rustix::fs::setxattr(group, ORIGIN, origin.as_bytes(), flags)?)
}

pub(super) fn origin(group: &Path) -> Option<String> {
    let mut buffer = vec![0; 4096];
    let length = rustix::fs::getxattr(group, ORIGIN, &mut buffer[..]).ok()?;
    buffer.truncate(length);
    String::from_utf8(buffer).ok()
}

/// What came of a move.
#[derive(Debug)]
pub(super) enum Moved {
    /// It is there, all its threads.
    There,
    /// It has exited.
    Gone,
}

/// Moves a process, all its threads, into a cgroup.
///
/// A cgroup takes bare pids. The handle says afterwards whether the number was still this
/// process's; a stranger who had got it is put where newborns begin: beside its parent.
pub(super) fn move_process(
    process: &ProcessHandle,
    mount: &Path,
    group: &Path,
) -> io::Result<Moved> {
    if !process.is_alive() {
        return Ok(Moved::Gone);
    }
    let pid = process.identity().pid;
    let written = write(group, "cgroup.procs", &pid.to_string());
    if !process.is_alive() {
        if written.is_ok()
            && let Ok(stranger) = ProcessHandle::open(pid)
            && let Ok(facts) = stranger.facts()
            && let Some(home) = cgroup_of(facts.parent_pid)
        {
            write(&folder(mount, &home), "cgroup.procs", &pid.to_string())?;
        }
        return Ok(Moved::Gone);
    }
    match written {
        Ok(()) => Ok(Moved::There),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(Moved::Gone),
        Err(error) => Err(error),
    }
}

/// Moves a process to where it was found, or where that is no more, or takes no processes any
/// more, to the nearest cgroup around it that does.
pub(super) fn move_back(process: &ProcessHandle, mount: &Path, origin: &str) -> io::Result<Moved> {
    let mut home = Path::new(origin);
    loop {
        let group = folder(mount, home.to_str().unwrap_or("/"));
        match move_process(process, mount, &group) {
            Err(error) => match home.parent() {
                Some(outer) => home = outer,
                None => return Err(error),
            },
            moved => return moved,
        }
    }
}

/// Takes a cgroup's processes back to where they were found, then removes it and all below it.
/// Processes may fork meanwhile: their children are found in the next pass. Answers how many were
/// moved and how many cgroups were removed.
pub(super) fn dissolve(mount: &Path, group: &Path) -> Result<(usize, usize), String> {
    const MAX_PASSES: u32 = 100;
    if !group.exists() {
        return Ok((0, 0));
    }
    let (mut moved, mut removed) = (0, 0);
    let mut why = String::new();
    for pass in 0..MAX_PASSES {
        for group in inner_first(group) {
            // A frozen one could be moved, but would be frozen again by an outer cgroup.
            let _ = write(&group, "cgroup.freeze", "0");
        }
        for group in inner_first(group) {
            let origin = origin(&group).unwrap_or_else(|| "/".to_owned());
            for pid in processes(&group) {
                let Ok(process) = ProcessHandle::open(pid) else { continue };
                if cgroup_of(pid).is_none_or(|path| folder(mount, &path) != group) {
                    continue;
                }
                match move_back(&process, mount, &origin) {
                    Ok(Moved::There) => moved += 1,
                    Ok(Moved::Gone) => {}
                    Err(error) => why = format!("process {pid} stays in its cgroup: {error}"),
                }
            }
            match std::fs::remove_dir(&group) {
                Ok(()) => removed += 1,
                Err(error) => why = format!("{} stays: {error}", group.display()),
            }
        }
        if !group.exists() {
            return Ok((moved, removed));
        }
        if pass > 10 {
            // An exiting process is in its cgroup until its last moment.
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    Err(why)
}
