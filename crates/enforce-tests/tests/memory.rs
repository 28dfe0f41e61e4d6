//! The reclaimer on a real kernel: run by tests/lab-memory.sh in the lab, with a disk that `lab/with-disk` makes. One
//! test at a time: each wants the disk and the root of the cgroup tree.
#![allow(missing_docs)]

mod common;

use ::reclaim::{
    MemoryClient, MemoryError, MemoryMeans, MemorySample, MemorySource, ReclaimOptions, Reclaimer,
    memory_means,
};
use common::{TestProcess, eventually};
use ledger::CurrencyId;
use observe::ProcessHandle;
use policy::reclaim::{self, ReclaimName};
use policy::{InverseLottery, MAX_WEIGHT};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
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
}

impl Lab {
    /// `None`, and a line that says so, where this machine cannot run the test.
    fn here(test: &str) -> Option<Lab> {
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
        Some(Lab { mount, disk, top, enabled })
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
    fn process(&self, index: usize, arguments: &[&str]) -> TestProcess {
        let procs = self.group(index).join("cgroup.procs");
        TestProcess::start_with(&format!("memory-{index}"), arguments, |command| {
            // SAFETY: opens, writes and closes a file, with a path that was made before.
            unsafe {
                command.pre_exec(move || std::fs::write(&procs, "0"));
            }
        })
    }

    /// A process that does `act` with its file.
    fn reader(&self, index: usize, act: &str) -> TestProcess {
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
            source: MemorySource::Group(self.group(index)),
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
fn four_readers(lab: &Lab, reclaimer: &Reclaimer, minima: bool) -> Vec<TestProcess> {
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
#[ignore = "lab"]
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

/// What memory.min would do for a moment, between two rounds, nobody does here: so it is said what is seen, and held
/// to half of each guarantee.
#[test]
#[ignore = "lab"]
fn without_minima_guarantees_are_kept_by_choice_alone() {
    let Some(lab) = Lab::here("without_minima_guarantees_are_kept_by_choice_alone") else { return };
    for name in ReclaimName::ALL {
        let reclaimer = lab.reclaimer(name);
        let readers = four_readers(&lab, &reclaimer, false);
        let seen = watch(&lab, 8);
        tell(&format!("{name} alone"), &seen, &reclaimer);
        for (index, guaranteed) in GUARANTEED.into_iter().enumerate() {
            let (mean, least) = (seen.mean[index], seen.least[index]);
            assert!(mean >= guaranteed, "{name}: {mean} of {guaranteed} on average");
            assert!(least >= guaranteed / 2, "{name}: {least} of {guaranteed}");
        }
        drop(readers);
    }
}

/// Who loses is up to the policy: of two that read alike, the one with more tickets keeps more.
#[test]
#[ignore = "lab"]
fn tickets_decide_what_is_kept() {
    let Some(lab) = Lab::here("tickets_decide_what_is_kept") else { return };
    let reclaimer = lab.reclaimer(ReclaimName::MinFunding);
    reclaimer.follow(vec![lab.client(0, 3, 0), lab.client(1, 1, 0)]).expect("clients");
    let _readers = [lab.reader(0, "read-at-random"), lab.reader(1, "read-at-random")];
    common::within_seconds(120, "memory is full", || {
        reclaimer.totals().taken_bytes > 0 && lab.held_bytes() > LIMIT_BYTES / 10 * 9
    });
    std::thread::sleep(Duration::from_secs(6));
    let [three, one] = [0, 1].map(|index| {
        let held = (0..60).map(|_| {
            std::thread::sleep(Duration::from_millis(50));
            number(&lab.group(index), "memory.current")
        });
        held.sum::<u64>() as f64 / 60.0
    });
    eprintln!("three tickets {:.0} KiB, one {:.0} KiB", three / 1024.0, one / 1024.0);
    // Idle memory is taxed, and how much of each is idle differs: the order is sure, the ratio is not.
    assert!(three > 1.5 * one, "{three} and {one}");
}

#[test]
#[ignore = "lab"]
fn who_goes_away_in_mid_run_is_left_out() {
    let Some(lab) = Lab::here("who_goes_away_in_mid_run_is_left_out") else { return };
    let reclaimer = lab.reclaimer(ReclaimName::InverseLottery);
    let mut readers = four_readers(&lab, &reclaimer, true);
    let taken = |index: usize| reclaimer.sample()[index].taken_bytes;
    eventually("something is taken from the last", || taken(3) > 0);
    readers.truncate(3);
    let gone = lab.group(3);
    eventually("its cgroup is gone", || std::fs::remove_dir(&gone).is_ok());
    let (of_it, of_another) = (taken(3), taken(2));
    assert_eq!(reclaimer.sample()[3].held_bytes, None);
    eventually("the others go on", || taken(2) > of_another);
    assert_eq!(taken(3), of_it, "what was taken is still known");
    assert_eq!(reclaimer.sample()[3].trouble, None, "to be gone is no trouble");
    // A list that names it is followed nevertheless; another cgroup of that name is not the one that was.
    std::fs::create_dir(&gone).expect("a cgroup");
    assert_eq!(reclaimer.sample()[3].held_bytes, None);
    std::fs::remove_dir(&gone).expect("nothing is in it");
    let mut clients: Vec<MemoryClient> = (0..3).map(|index| lab.client(index, 1, 0)).collect();
    let MemorySource::Group(_) = clients[2].source else { unreachable!("it is a cgroup") };
    clients[2].source = MemorySource::Group(gone);
    reclaimer.follow(clients).expect("clients");
    let samples = reclaimer.sample();
    assert!(samples[0].held_bytes.is_some() && samples[2].held_bytes.is_none());
}

#[test]
#[ignore = "lab"]
fn the_top_goes_away_and_nothing_breaks() {
    let Some(lab) = Lab::here("the_top_goes_away_and_nothing_breaks") else { return };
    let reclaimer = lab.reclaimer(ReclaimName::MinFunding);
    let readers = four_readers(&lab, &reclaimer, true);
    drop(readers);
    for group in (0..4).map(|index| lab.group(index)).chain([lab.top.clone()]) {
        eventually("the cgroup is gone", || std::fs::remove_dir(&group).is_ok());
    }
    let before = reclaimer.totals().rounds;
    eventually("it goes on", || reclaimer.totals().rounds > before + 2);
    assert!(reclaimer.sample().iter().all(|sample| sample.held_bytes.is_none()));
    reclaimer.follow(Vec::new()).expect("its thread lives");
}

#[test]
#[ignore = "lab"]
fn nothing_is_set() {
    let Some(lab) = Lab::here("nothing_is_set") else { return };
    (0..4).for_each(|index| drop(lab.group(index)));
    let settings = |lab: &Lab| -> Vec<String> {
        let groups = (0..4).map(|index| lab.group(index)).chain([lab.top.clone()]);
        let files = ["memory.min", "memory.low", "memory.high", "memory.max", "memory.swap.max"];
        let each = groups.flat_map(|group| {
            files.map(|file| std::fs::read_to_string(group.join(file)).expect("a setting"))
        });
        each.collect()
    };
    let before = settings(&lab);
    let reclaimer = lab.reclaimer(ReclaimName::InverseLottery);
    let readers = four_readers(&lab, &reclaimer, false);
    eventually("it works", || reclaimer.totals().taken_bytes > MIB);
    assert_eq!(settings(&lab), before, "while it works");
    drop(reclaimer);
    assert_eq!(settings(&lab), before, "when it has ended");
    drop(readers);
}

/// A file over another: taken away with the test.
struct Over(&'static str);

impl Over {
    fn mount(what: &str, over: &'static str) -> Over {
        let flags = nix::mount::MsFlags::MS_BIND;
        nix::mount::mount(Some(what), over, None::<&str>, flags, None::<&str>).expect("a mount");
        Over(over)
    }
}

impl Drop for Over {
    fn drop(&mut self) {
        nix::mount::umount(self.0).expect("it was mounted");
    }
}

#[test]
#[ignore = "lab"]
fn without_pressure_to_wake_it_it_looks_by_itself() {
    let Some(lab) = Lab::here("without_pressure_to_wake_it_it_looks_by_itself") else { return };
    {
        let reclaimer = lab.reclaimer(ReclaimName::MinFunding);
        assert_eq!(reclaimer.woken_by(), Ok(&*lab.top.join("memory.pressure")));
    }
    // No PSI for this cgroup; and where the machine's would be, what takes no trigger.
    write(&lab.top, "cgroup.pressure", "0");
    {
        let reclaimer = lab.reclaimer(ReclaimName::MinFunding);
        assert_eq!(reclaimer.woken_by(), Ok(Path::new("/proc/pressure/memory")));
    }
    let _none = Over::mount("/dev/full", "/proc/pressure/memory");
    let reclaimer = lab.reclaimer(ReclaimName::MinFunding);
    let why = reclaimer.woken_by().expect_err("nothing to be woken by");
    assert!(!why.is_empty());
    let readers = four_readers(&lab, &reclaimer, true);
    let before = reclaimer.totals().taken_bytes;
    eventually("it takes", || reclaimer.totals().taken_bytes > before);
    drop(readers);
}

/// The same decisions where a client is some processes and not a cgroup: two look at mapped files, one of them with a
/// guarantee.
#[test]
#[ignore = "lab"]
fn memory_is_paged_out_of_processes() {
    let Some(lab) = Lab::here("memory_is_paged_out_of_processes") else { return };
    let means = |top| memory_means(top).expect("we are root");
    assert_eq!(means(Some(&lab.top)), MemoryMeans::Groups);
    assert_eq!(means(Some(&lab.disk)), MemoryMeans::Processes, "no cgroup");
    let reclaimer = lab.reclaimer(ReclaimName::InverseLottery);
    let readers = [lab.reader(0, "map-at-random"), lab.reader(1, "map-at-random")];
    let client = |index: usize, guaranteed_bytes| {
        let handle = ProcessHandle::open(readers[index].pid()).expect("it lives");
        MemoryClient {
            source: MemorySource::Processes(vec![handle]),
            ..lab.client(index, 1, guaranteed_bytes)
        }
    };
    reclaimer.follow(vec![client(0, 5 * MIB), client(1, 0)]).expect("clients");
    let taken = |index: usize| reclaimer.sample()[index].taken_bytes;
    common::within_seconds(120, "the second loses much", || taken(1) > 2 * MIB);
    let held = |index: usize| reclaimer.sample()[index].held_bytes.expect("it lives");
    common::within_seconds(60, "the first has what it is guaranteed", || held(0) >= 5 * MIB);
    eprintln!(
        "held {} and {} KiB, taken {} and {}",
        held(0) >> 10,
        held(1) >> 10,
        taken(0),
        taken(1)
    );
    assert!(taken(1) > taken(0));
    drop(readers);
    eventually("they are gone", || reclaimer.sample().iter().all(|it| it.held_bytes.is_none()));
}

/// Without a top it is the machine that can be short, and it is only under pressure. Of 1 TiB to be kept free some is
/// always lacking; the pressure is what four readers in eight MiB make.
#[test]
#[ignore = "lab"]
fn the_machine_counts_under_pressure_only() {
    let Some(lab) = Lab::here("the_machine_counts_under_pressure_only") else { return };
    let mut options = ReclaimOptions::new(None, Box::new(InverseLottery::new(1)));
    options.headroom_bytes = Some(1 << 40);
    options.quiet_ns = 500_000_000;
    let reclaimer = Reclaimer::start(options).expect("a reclaimer");
    assert_eq!(reclaimer.woken_by(), Ok(Path::new("/proc/pressure/memory")));
    let holder = lab.process(0, &["hold", &MIB.to_string()]);
    reclaimer.follow(vec![lab.client(0, 1, 0)]).expect("clients");
    eventually("it looks", || reclaimer.totals().rounds >= 5);
    assert_eq!(reclaimer.totals().draws, 0, "{:?}", reclaimer.totals());
    drop(holder);
    let readers = four_readers(&lab, &reclaimer, true);
    eventually("it takes", || reclaimer.totals().taken_bytes > MIB);
    let totals = reclaimer.totals();
    assert!(totals.woken > 0 && totals.shortfall_bytes > 1 << 39, "{totals:?}");
    drop(readers);
    // Without pressure it ends, though as much is lacking.
    common::within_seconds(60, "it rests", || {
        let before = reclaimer.totals().rounds;
        std::thread::sleep(Duration::from_secs(3));
        reclaimer.totals().rounds - before <= 4
    });
}

/// What is not in memory cannot be taken, and that is said and not tried all the time.
#[test]
#[ignore = "lab"]
fn who_has_nothing_to_give_is_left_alone_for_a_while() {
    let Some(lab) = Lab::here("who_has_nothing_to_give_is_left_alone_for_a_while") else { return };
    write(&lab.group(0), "memory.swap.max", "0");
    let mut options = ReclaimOptions::new(Some(lab.top.clone()), Box::new(InverseLottery::new(1)));
    options.headroom_bytes = Some(3 * MIB);
    let reclaimer = Reclaimer::start(options).expect("a reclaimer");
    reclaimer.follow(vec![lab.client(0, 1, 0)]).expect("clients");
    let _holder = lab.process(0, &["hold", &(LIMIT_BYTES - 2 * MIB).to_string()]);
    eventually("memory is short", || lab.held_bytes() > LIMIT_BYTES - 2 * MIB);
    std::thread::sleep(Duration::from_secs(2));
    let draws = |reclaimer: &Reclaimer| reclaimer.sample()[0].draws;
    let before = draws(&reclaimer);
    std::thread::sleep(Duration::from_secs(6));
    let more = draws(&reclaimer) - before;
    assert!(lab.held_bytes() > LIMIT_BYTES - 3 * MIB, "it lives");
    eprintln!("asked {before} times, then {more} times in 6 s; {:?}", reclaimer.totals());
    assert!(before > 0, "it was asked");
    assert!(more <= 6, "every 2 s in the end: {more}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = |top| Reclaimer::start(ReclaimOptions::new(top, Box::new(InverseLottery::new(1))));
    let refused = start(Some(folder.path().to_owned())).expect_err("no cgroup");
    assert!(matches!(refused, MemoryError::NotACgroup(_)), "{refused}");
    let reclaimer = start(None).expect("the machine is enough");
    let client = |key, tickets, path: &Path| MemoryClient {
        id: CurrencyId(1),
        key,
        tickets,
        guaranteed_bytes: 0,
        guest: false,
        source: MemorySource::Group(path.to_owned()),
    };
    let nowhere = folder.path().join("none");
    let twice = vec![client(7, 1, &nowhere), client(7, 1, &nowhere)];
    assert!(matches!(reclaimer.follow(twice), Err(MemoryError::SameKey(7))));
    let too_many = vec![client(7, MAX_WEIGHT + 1, &nowhere)];
    assert!(matches!(reclaimer.follow(too_many), Err(MemoryError::TooManyTickets { key: 7, .. })));
    let other = vec![client(7, 1, folder.path())];
    assert!(matches!(reclaimer.follow(other), Err(MemoryError::NotACgroup(_))));
    assert_eq!(reclaimer.sample(), [], "nobody is followed");
    // Who is gone already is no error, and neither is a process that ends.
    let process = TestProcess::start("memory-gone", &["hold", "4096"]);
    let handle = ProcessHandle::open(process.pid()).expect("it lives");
    let clients = vec![
        client(1, 1, &nowhere),
        MemoryClient { source: MemorySource::Processes(vec![handle]), ..client(2, 1, &nowhere) },
    ];
    reclaimer.follow(clients).expect("clients");
    let held = |sample: &MemorySample| sample.held_bytes;
    let held_by = |reclaimer: &Reclaimer| reclaimer.sample().iter().map(held).collect::<Vec<_>>();
    assert!(matches!(held_by(&reclaimer)[..], [None, Some(1..)]), "{:?}", reclaimer.sample());
    drop(process);
    assert_eq!(held_by(&reclaimer), [None, None]);
}
