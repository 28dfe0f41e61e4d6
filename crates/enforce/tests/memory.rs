//! The reclaimer on a real kernel: run by tests/lab-memory.sh in the lab, with a disk that `lab/with-disk` makes. One
//! test at a time: each wants the disk and the root of the cgroup tree.
#![allow(missing_docs)]

mod common;

use allot_enforce::memory::{
    Body, MemoryClient, MemoryError, MemorySample, ReclaimOptions, Reclaimer,
};
use common::{Prey, eventually};
use ledger::CurrencyId;
use observe::ProcessHandle;
use policy::reclaim::{self, ReclaimName};
use policy::{InverseLottery, MAX_WEIGHT};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const PAGE_BYTES: u64 = 4096;
const LIMIT_BYTES: u64 = 8 * MIB;
/// What paper 1, section 6.3, guarantees to two of four: 500 and 350 pages.
const GUARANTEED: [u64; 4] = [2 * MIB, 350 * PAGE_BYTES, 0, 0];

/// A cgroup at the top with a limit, and one below for each client. It goes away with the test.
struct Lab {
    mount: PathBuf,
    disk: PathBuf,
    top: PathBuf,
    /// Whether we enabled the controller at the root.
    enabled: bool,
    _alone: MutexGuard<'static, ()>,
}

impl Lab {
    /// `None`, and a line that says so, where this machine cannot run the test.
    fn here(test: &str) -> Option<Lab> {
        static ONE: Mutex<()> = Mutex::new(());
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let skip = |why: &str| {
            eprintln!("SKIP {test}: {why}");
            None
        };
        let mount = PathBuf::from("/sys/fs/cgroup");
        let offered = std::fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default();
        if !offered.split_ascii_whitespace().any(|name| name == "memory") {
            return skip("no cgroup v2 tree with the memory controller");
        }
        let Some(disk) = std::env::var_os("ALLOT_DISK_DIR").map(PathBuf::from) else {
            return skip("no disk of a known speed (lab/with-disk makes one)");
        };
        if !common::is_root() {
            return skip("only root may make cgroups");
        }
        let children =
            std::fs::read_to_string(mount.join("cgroup.subtree_control")).unwrap_or_default();
        let enabled = !children.contains("memory");
        if enabled && std::fs::write(mount.join("cgroup.subtree_control"), "+memory").is_err() {
            return skip("the memory controller cannot be enabled");
        }
        let top = mount.join(format!("allot-memory-{}", std::process::id()));
        std::fs::create_dir(&top).expect("a cgroup");
        write(&top, "cgroup.subtree_control", "+memory");
        write(&top, "memory.max", &LIMIT_BYTES.to_string());
        if !top.join("memory.reclaim").exists() {
            std::fs::remove_dir(&top).expect("nothing is in it");
            return skip("the kernel has no memory.reclaim");
        }
        Some(Lab { mount, disk, top, enabled, _alone: alone })
    }

    fn group(&self, index: usize) -> PathBuf {
        let group = self.top.join(format!("c{index}"));
        if !group.exists() {
            std::fs::create_dir(&group).expect("a cgroup");
        }
        group
    }

    /// A file of 16 MiB that is not in memory.
    fn file(&self, index: usize) -> PathBuf {
        let path = self.disk.join(format!("f{index}"));
        if !path.exists() {
            let mut file = std::fs::File::create(&path).expect("a file");
            (0..16).for_each(|_| file.write_all(&vec![1; MIB as usize]).expect("room on the disk"));
            file.sync_all().expect("on the disk");
        }
        let file = std::fs::File::open(&path).expect("the file");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("out of memory");
        path
    }

    /// A process in a client's cgroup, from its first instruction on.
    fn process(&self, index: usize, arguments: &[&str]) -> Prey {
        let procs = self.group(index).join("cgroup.procs");
        Prey::start_with(&format!("memory-{index}"), arguments, |command| {
            // SAFETY: opens, writes and closes a file, with a path that was made before.
            unsafe {
                command.pre_exec(move || std::fs::write(&procs, "0"));
            }
        })
    }

    /// A process that does `act` with its file.
    fn reader(&self, index: usize, act: &str) -> Prey {
        let path = self.file(index);
        let seed = (index + 1).to_string();
        self.process(index, &[act, path.to_str().expect("text"), &seed])
    }

    fn client(&self, index: usize, tickets: u64, guaranteed_bytes: u64) -> MemoryClient {
        MemoryClient {
            id: CurrencyId(100 + index as u64),
            key: index as u64,
            tickets,
            guaranteed_bytes,
            guest: false,
            body: Body::Group(self.group(index)),
        }
    }

    fn reclaimer(&self, name: ReclaimName) -> Reclaimer {
        let policy = reclaim::build(name, 1);
        Reclaimer::start(ReclaimOptions::new(Some(self.top.clone()), policy)).expect("a reclaimer")
    }

    fn held_bytes(&self) -> u64 {
        number(&self.top, "memory.current")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Who was in there has been killed; the kernel takes a moment.
        let groups: Vec<PathBuf> = (0..4).map(|index| self.top.join(format!("c{index}"))).collect();
        for group in groups.iter().chain([&self.top]) {
            for _ in 0..500 {
                if std::fs::remove_dir(group).is_ok() || !group.exists() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        if self.enabled {
            let _ = std::fs::write(self.mount.join("cgroup.subtree_control"), "-memory");
        }
    }
}

fn write(group: &Path, file: &str, text: &str) {
    std::fs::write(group.join(file), text)
        .unwrap_or_else(|error| panic!("{}/{file}: {error}", group.display()));
}

fn number(group: &Path, file: &str) -> u64 {
    let text = std::fs::read_to_string(group.join(file)).expect("it is there");
    text.trim_end().parse().expect("a number")
}

/// What was seen of each client, and of all: what it held at least, and on average, in bytes.
struct Seen {
    least: [u64; 4],
    mean: [u64; 4],
    all: u64,
}

/// Looks twenty times a second, for so long.
fn watch(lab: &Lab, seconds: u64) -> Seen {
    let mut seen = Seen { least: [u64::MAX; 4], mean: [0; 4], all: 0 };
    let looks = 20 * seconds;
    for _ in 0..looks {
        for index in 0..4 {
            let held = number(&lab.group(index), "memory.current");
            seen.least[index] = seen.least[index].min(held);
            seen.mean[index] += held;
        }
        seen.all += lab.held_bytes();
        std::thread::sleep(Duration::from_millis(50));
    }
    seen.mean.iter_mut().chain([&mut seen.all]).for_each(|sum| *sum /= looks);
    seen
}

fn tell(what: &str, seen: &Seen, reclaimer: &Reclaimer) {
    let kib = |bytes: &[u64]| bytes.iter().map(|it| it >> 10).collect::<Vec<_>>();
    let samples = reclaimer.sample();
    let taken: Vec<u64> = samples.iter().map(|it| it.taken_bytes).collect();
    eprintln!(
        "{what}: KiB on average {:?}, at least {:?}, all {}; taken {:?}; {:?}",
        kib(&seen.mean),
        kib(&seen.least),
        seen.all >> 10,
        kib(&taken),
        reclaimer.totals()
    );
}

/// Four readers, as in paper 1, section 6.3. Steady: when the guaranteed have held what they are guaranteed, and then
/// for three seconds.
fn four_readers(lab: &Lab, reclaimer: &Reclaimer, minima: bool) -> Vec<Prey> {
    let clients = (0..4).map(|index| {
        let group = lab.group(index);
        write(
            &group,
            "memory.min",
            if minima { &GUARANTEED[index] } else { &0 }.to_string().as_str(),
        );
        lab.client(index, GUARANTEED[index], GUARANTEED[index])
    });
    reclaimer.follow(clients.collect()).expect("clients");
    let readers = (0..4).map(|index| lab.reader(index, "read-at-random")).collect();
    common::within_seconds(120, "the guaranteed hold what they are guaranteed", || {
        (0..2).all(|index| number(&lab.group(index), "memory.current") >= GUARANTEED[index])
            && lab.held_bytes() > LIMIT_BYTES / 10 * 9
    });
    std::thread::sleep(Duration::from_secs(3));
    readers
}

#[test]
fn guarantees_hold_and_memory_is_used_under_every_policy() {
    let Some(lab) = Lab::here("guarantees_hold_and_memory_is_used_under_every_policy") else {
        return;
    };
    for name in ReclaimName::ALL {
        let reclaimer = lab.reclaimer(name);
        let readers = four_readers(&lab, &reclaimer, true);
        let seen = watch(&lab, 8);
        tell(name.as_str(), &seen, &reclaimer);
        for (least, guaranteed) in seen.least.iter().zip(GUARANTEED) {
            assert!(least + PAGE_BYTES >= guaranteed, "{name}: {least} of {guaranteed}");
        }
        assert!(seen.all >= LIMIT_BYTES / 10 * 9, "{name}: {} bytes are in use", seen.all);
        assert!(reclaimer.totals().taken_bytes > 0, "{name}: it was needed");
        drop(readers);
    }
}

#[test]
fn without_minima_the_reclaimer_alone() {
    let Some(lab) = Lab::here("without_minima_the_reclaimer_alone") else { return };
    for name in ReclaimName::ALL {
        let reclaimer = lab.reclaimer(name);
        let readers = four_readers(&lab, &reclaimer, false);
        let seen = watch(&lab, 8);
        tell(&format!("{name} alone"), &seen, &reclaimer);
        drop(readers);
    }
}
