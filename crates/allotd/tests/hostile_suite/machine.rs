//! What allotd costs, all its processes together, and what it leaves behind. It is a black box: its processes are the one
//! that it says it is, and all that came of that one.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// What a group of processes holds.
#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    /// Memory, what is shared counted in part.
    pub kib: u64,
    pub descriptors: usize,
    pub processes: usize,
}

/// The processes of an allotd.
pub struct Machine {
    first: u32,
}

impl Machine {
    pub fn of(first: u32) -> Machine {
        Machine { first }
    }

    /// Those that live, allotd itself first.
    pub fn processes(&self) -> Vec<u32> {
        let mut found = vec![self.first];
        let mut next = 0;
        while let Some(pid) = found.get(next).copied() {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
            for task in tasks.flatten() {
                let children = read(task.path().join("children"));
                found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
            }
            next += 1;
        }
        found
    }

    pub fn footprint(&self) -> Footprint {
        let processes = self.processes();
        let memory = |pid: &u32| {
            let text = read(format!("/proc/{pid}/smaps_rollup"));
            let pss = text.lines().find_map(|line| line.strip_prefix("Pss:"));
            pss.and_then(|pss| pss.trim().strip_suffix("kB")?.trim().parse().ok()).unwrap_or(0_u64)
        };
        let open =
            |pid: &u32| std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        Footprint {
            kib: processes.iter().map(memory).sum(),
            descriptors: processes.iter().map(open).sum(),
            processes: processes.len(),
        }
    }

    /// The footprint once nothing has been opened or closed for a second.
    pub fn settled(&self) -> Footprint {
        let mut last = self.footprint();
        let mut since = Instant::now();
        while since.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(50));
            let now = self.footprint();
            if (now.descriptors, now.processes) != (last.descriptors, last.processes) {
                since = Instant::now();
            }
            last = now;
        }
        last
    }

    /// Everything that is open in each process, in words.
    pub fn open(&self) -> Vec<String> {
        let of = |pid: &u32| {
            let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            let target = |link: std::fs::DirEntry| std::fs::read_link(link.path()).ok();
            let mut all: Vec<_> = open.filter_map(target).collect();
            all.sort();
            format!("{pid} {}: {all:?}", read(format!("/proc/{pid}/comm")).trim())
        };
        self.processes().iter().map(of).collect()
    }

    /// CPU time of all of them, and of those of theirs that have ended.
    pub fn cpu_time(&self) -> Duration {
        let ticks = |pid: &u32| -> u64 {
            let fields = stat_of(*pid);
            fields.iter().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum()
        };
        let ticks: u64 = self.processes().iter().map(ticks).sum();
        Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
    }
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The fields of a process's stat after its name, its state first.
pub fn stat_of(pid: u32) -> Vec<String> {
    let stat = read(format!("/proc/{pid}/stat"));
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().map(str::to_owned).collect()
}

pub fn is_alive(pid: u32) -> bool {
    stat_of(pid).first().is_some_and(|state| state != "Z")
}

/// All processes of some users.
pub fn processes_of(uids: &BTreeSet<u32>) -> Vec<u32> {
    use std::os::unix::fs::MetadataExt;
    let pids = std::fs::read_dir("/proc").expect("proc").flatten();
    let own = pids.filter(|entry| entry.metadata().is_ok_and(|it| uids.contains(&it.uid())));
    own.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Holds that nothing of an allotd is left that its guardian was to give back.
pub fn is_clean(dir: &Path) {
    let records = std::fs::read_dir(dir).expect("its directory").flatten();
    let records: Vec<_> = records
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("sock"))
        .collect();
    assert!(records.is_empty(), "its socket and its records are gone: {records:?}");
}
